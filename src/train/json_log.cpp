#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>

#include "core/check.h"
#include "extensor/train/callbacks.h"
#include "io/system_error.h"
#include "io/text.h"

namespace extensor::train {

using detail::message;

namespace {

// {"type":"step","step":1, …}
class Line {
 public:
  explicit Line(const char* type) : text_(message("{\"type\":\"", type, '"')) {}
  Line& add(const char* name, std::int64_t value) {
    text_ += message(",\"", name, "\":", value);
    return *this;
  }
  Line& add(const char* name, double value) {
    char digits[32];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
    text_ += message(",\"", name, "\":");
    text_ += std::isfinite(value) ? std::string(digits, end) : "null";
    return *this;
  }
  std::string text() const { return text_ + "}\n"; }

 private:
  std::string text_;
};

}  // namespace

// Buffers lines and writes them together. They are synced to disk before a checkpoint is written.
struct JsonLog::File {
  explicit File(const std::filesystem::path& path)
      : label(message("JsonLog: ", io::in_quotes(path.native()))),
        // O_NONBLOCK: opening a FIFO would wait for a reader.
        descriptor(
            ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666)) {
    if (descriptor < 0) io::throw_system_error(label, "cannot be written", errno);
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor);
      throw IoError(message(label, ": is ", io::kind_of_file(status.st_mode),
                            " (allowed: a regular file, or none yet)"));
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(descriptor); }

  // Keeps the first `bytes` bytes. If the file was edited and they end within a line, starts a new
  // line.
  void cut(std::int64_t bytes) {
    const off_t end = ::lseek(descriptor, 0, SEEK_END);
    written = std::clamp<std::int64_t>(bytes, 0, std::max<off_t>(end, 0));
    char last = '\n';
    if (end < 0 || ::ftruncate(descriptor, written) != 0 ||
        ::lseek(descriptor, written, SEEK_SET) < 0 ||
        (written > 0 && ::pread(descriptor, &last, 1, written - 1) != 1)) {
      io::throw_system_error(label, "cannot be cut", errno);
    }
    if (last != '\n') waiting += '\n';
  }

  void add(const Line& line) {
    waiting += line.text();
    constexpr std::size_t enough = 1 << 16;
    if (waiting.size() > enough) flush();
  }

  void flush() {
    std::string_view left = waiting;
    while (!left.empty()) {
      const ssize_t count = ::write(descriptor, left.data(), left.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) io::throw_system_error(label, "cannot be written", count == 0 ? EIO : errno);
      left.remove_prefix(static_cast<std::size_t>(count));
      written += count;
    }
    waiting.clear();
  }

  std::string label, waiting;
  int descriptor;
  std::int64_t written = 0;
  bool resumed = false;
};

JsonLog::JsonLog(const std::filesystem::path& path) : file_(std::make_unique<File>(path)) {}

JsonLog::~JsonLog() {
  try {
    file_->flush();
  } catch (const Error&) {  // NOLINT: nobody is left to tell
  }
}

void JsonLog::begin(const RunRecord& run) {
  if (!file_->resumed) file_->cut(0);
  file_->add(Line("begin").add("step", run.first_step).add("last_step", run.last_step));
}

void JsonLog::step(const StepRecord& step) {
  file_->add(Line("step")
                 .add("step", step.step)
                 .add("epoch", step.epoch)
                 .add("loss", step.loss)
                 .add("accuracy", step.accuracy)
                 .add("learning_rate", step.learning_rate)
                 .add("gradient_norm", step.gradient_norm)
                 .add("examples", step.examples)
                 .add("seconds", step.seconds));
}

void JsonLog::evaluation(const EvaluationRecord& record) {
  file_->add(Line("evaluation")
                 .add("step", record.step)
                 .add("epoch", record.epoch)
                 .add("train_loss", record.train_loss)
                 .add("loss", record.evaluation.loss)
                 .add("accuracy", record.evaluation.accuracy)
                 .add("seconds", record.seconds));
  file_->flush();
}

void JsonLog::end(const Outcome& outcome) {
  file_->add(Line("end").add("step", outcome.step).add("seconds", outcome.seconds));
  file_->flush();
}

void JsonLog::save(Checkpoint& checkpoint) const {
  file_->flush();
  if (::fsync(file_->descriptor) != 0 && errno != EINVAL) {
    io::throw_system_error(file_->label, "cannot be brought to the disk", errno);
  }
  checkpoint.numbers["json_log.bytes"] = static_cast<double>(file_->written);
}

void JsonLog::load(const Checkpoint& checkpoint) {
  const auto found = checkpoint.numbers.find("json_log.bytes");
  file_->cut(found == checkpoint.numbers.end() ? 0 : static_cast<std::int64_t>(found->second));
  file_->resumed = true;
}

}  // namespace extensor::train
