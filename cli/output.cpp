#include "cli/output.h"

#include <extensor/extensor.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <system_error>

#include "io/text.h"

namespace extensor::cli {

namespace {

// Escapes text and writes it to a descriptor, in whole lines unless it is flushed.
class EscapingBuffer final : public std::streambuf {
 public:
  explicit EscapingBuffer(int descriptor) : descriptor_(descriptor) {}

  int error() const { return error_; }

 protected:
  int_type overflow(int_type character) override {
    if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(0);
    const char text = traits_type::to_char_type(character);
    return xsputn(&text, 1) == 1 ? character : traits_type::eof();
  }

  std::streamsize xsputn(const char* text, std::streamsize count) override {
    waiting_.append(text, static_cast<std::size_t>(count));
    constexpr std::size_t enough = 1 << 16;
    if (waiting_.size() >= enough) {
      const std::size_t end = waiting_.rfind('\n') + 1;  // 0 if there is no newline
      put(std::string_view(waiting_).substr(0, end));
      waiting_.erase(0, end);
    }
    return error_ == 0 ? count : 0;
  }

  int sync() override {
    put(waiting_);
    waiting_.clear();
    return error_ == 0 ? 0 : -1;
  }

 private:
  void put(std::string_view text) { write(io::printable(text, "\n\t")); }

  void write(std::string_view text) {
    while (!text.empty() && error_ == 0) {
      const ssize_t count = ::write(descriptor_, text.data(), text.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        error_ = count == 0 ? EIO : errno;
        break;
      }
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  int descriptor_;
  int error_ = 0;
  std::string waiting_;
};

// Never destroyed: the standard streams are flushed at the end of the program.
EscapingBuffer& standard_output() {
  static auto* buffer = new EscapingBuffer(STDOUT_FILENO);
  return *buffer;
}
EscapingBuffer& standard_error() {
  static auto* buffer = new EscapingBuffer(STDERR_FILENO);
  return *buffer;
}

}  // namespace

void open_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const int mode = descriptor == STDOUT_FILENO ? O_RDONLY : O_RDWR;
    if (open("/dev/null", mode) != descriptor) std::_Exit(1);
  }
}

void escape_output() {
  std::cout.rdbuf(&standard_output());
  std::cerr.rdbuf(&standard_error());
}

void flush_output() {
  std::cout.flush();
  if (std::cout) return;
  const int error = standard_output().error();
  throw IoError("standard output cannot be written: " +
                std::generic_category().message(error == 0 ? EIO : error));
}

}  // namespace extensor::cli
