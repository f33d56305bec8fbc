#include "io/system_error.h"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "core/check.h"

namespace extensor::io {

using detail::message;

void throw_system_error(const std::string& label, std::string_view what, int error) {
  const std::string text = message(label, ": ", what, ": ", std::generic_category().message(error));
  if (error == ENOMEM) throw OutOfMemoryError(text);
  throw IoError(text);
}

void check_path(const std::string& label, const std::filesystem::path& path) {
  if (path.native().find('\0') != std::string::npos) {
    throw ValueError(message(label, ": the path has a NUL byte"));
  }
}

std::string_view kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "something else";
}

}  // namespace extensor::io
