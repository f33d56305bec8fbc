// TFRecords of Event messages, encoded as protocol buffers without their library. Only the fields
// that curves and texts need are supported.
#include "extensor/train/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "io/byte_source.h"
#include "io/file_operations.h"
#include "io/system_error.h"
#include "io/text.h"
#include "io/zip_format.h"
#include "train/crc32c.h"

namespace extensor::train {

using detail::message;

namespace {

// Builds a protocol buffer message field by field.
class Message {
 public:
  Message& number(unsigned field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& float64(unsigned field, double value) {
    key(field, 1);
    io::append_number(bytes_, value);
    return *this;
  }
  Message& float32(unsigned field, float value) {
    key(field, 5);
    io::append_number(bytes_, value);
    return *this;
  }
  Message& text(unsigned field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(unsigned field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(unsigned field, unsigned kind) { varint(field << 3 | kind); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// The fields of tensorflow/core/util/event.proto, summary.proto, tensor.proto.
namespace event {
constexpr unsigned wall_time = 1, step = 2, file_version = 3, summary = 5;
}
namespace summary {
constexpr unsigned value = 1;
}
namespace value {
constexpr unsigned tag = 1, simple_value = 2, tensor = 8, metadata = 9;
}
namespace metadata {
constexpr unsigned plugin_data = 1, data_class = 4, plugin_name = 1;
constexpr std::int64_t data_class_tensor = 2;
}  // namespace metadata
namespace tensor {
constexpr unsigned dtype = 1, shape = 2, string_value = 8, dimension = 2, size = 1;
constexpr std::int64_t dtype_string = 7;
}  // namespace tensor

Message new_event() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return Message().float64(event::wall_time, now.count());
}

std::string event_of(const Message& value, std::int64_t step) {
  return new_event()
      .number(event::step, step)
      .message(event::summary, Message().message(summary::value, value))
      .bytes();
}

void check_utf8(const char* operation, const char* what, std::string_view text) {
  if (const std::size_t prefix = io::utf8_prefix(text); prefix != text.size()) {
    throw ValueError(message("EventFile::", operation, ": the ", what, " has ",
                             io::in_quotes(text.substr(prefix, 1)), " at byte ", prefix,
                             ", must be UTF-8"));
  }
}

}  // namespace

struct EventFile::File {
  explicit File(const std::filesystem::path& directory) : label(label_of(directory)) {
    io::check_path(label, directory);
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) io::throw_system_error(label, "cannot be made", error.value());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
    for (std::int64_t number = 0; descriptor < 0; ++number) {
      path = directory / message("events.out.tfevents.", seconds, ".", getpid(), ".", number);
      descriptor = files.open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor < 0 && errno != EEXIST && errno != EINTR) {
        io::throw_system_error(label_of(path), "cannot be made", errno);
      }
    }
    label = label_of(path);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { files.close(descriptor); }

  static std::string label_of(const std::filesystem::path& path) {
    return message("EventFile: ", io::in_quotes(path.native()));
  }

  void write_record(const std::string& data) {
    std::string record;
    record.reserve(data.size() + 16);
    io::append_number<std::uint64_t>(record, data.size());
    io::append_number(record, masked_crc32c(record));
    record += data;
    io::append_number(record, masked_crc32c(data));
    if (damaged) {
      throw IoError(
          message(label, ": ends in the middle of a record that could not be taken back"));
    }
    std::string_view left = record;
    while (!left.empty()) {
      const ssize_t count = files.write(descriptor, left.data(), left.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        const int error = count == 0 ? EIO : errno;
        take_back();
        io::throw_system_error(label, "cannot be written", error);
      }
      left.remove_prefix(static_cast<std::size_t>(count));
    }
    size += record.size();
  }

  // Truncates to the last complete record, so that records after it can be read.
  void take_back() {
    const auto end = static_cast<off_t>(size);
    damaged = ftruncate(descriptor, end) != 0 || lseek(descriptor, end, SEEK_SET) != end;
  }

  io::FileOperations& files = io::system_files();
  std::filesystem::path path;
  std::string label;
  int descriptor = -1;
  std::uint64_t size = 0;
  bool damaged = false;
};

EventFile::EventFile(const std::filesystem::path& directory)
    : file_(std::make_unique<File>(directory)) {
  try {
    file_->write_record(new_event().text(event::file_version, "brain.Event:2").bytes());
  } catch (...) {
    file_->files.unlink(file_->path.c_str());
    throw;
  }
}

EventFile::EventFile(EventFile&&) noexcept = default;
EventFile& EventFile::operator=(EventFile&&) noexcept = default;
EventFile::~EventFile() = default;

void EventFile::add_scalar(std::string_view name, double value, std::int64_t step) {
  check_utf8("add_scalar", "name", name);
  const Message content =
      Message().text(value::tag, name).float32(value::simple_value, static_cast<float>(value));
  file_->write_record(event_of(content, step));
}

void EventFile::add_text(std::string_view name, std::string_view text, std::int64_t step) {
  check_utf8("add_text", "name", name);
  check_utf8("add_text", "text", text);
  const Message kind =
      Message()
          .message(metadata::plugin_data, Message().text(metadata::plugin_name, "text"))
          .number(metadata::data_class, metadata::data_class_tensor);
  const Message shape = Message().message(tensor::dimension, Message().number(tensor::size, 1));
  const Message strings = Message()
                              .number(tensor::dtype, tensor::dtype_string)
                              .message(tensor::shape, shape)
                              .text(tensor::string_value, text);
  file_->write_record(event_of(Message()
                                   .text(value::tag, name)
                                   .message(value::tensor, strings)
                                   .message(value::metadata, kind),
                               step));
}

const std::filesystem::path& EventFile::path() const { return file_->path; }

}  // namespace extensor::train
