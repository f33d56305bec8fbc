#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>

#include "core/check.h"
#include "io/system_error.h"
#include "io/text.h"

namespace extensor::io {

using detail::message;

namespace {

// A random name in the directory of `path`, truncated so that the file system accepts it.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  const std::string name = path.filename().string().substr(0, 200);
  return path.parent_path() / message(".", name, ".", number, ".tmp");
}

std::filesystem::path target_of(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target;
}

}  // namespace

AtomicFile::AtomicFile(const char* operation, const std::filesystem::path& path,
                       FileOperations& files)
    : files_(files), label_(message(operation, ": ", in_quotes(path.native()))) {
  check_path(label_, path);
  path_ = target_of(path);
  struct stat old {};
  const bool replaces = ::stat(path_.c_str(), &old) == 0;
  if (replaces && !S_ISREG(old.st_mode)) {
    throw IoError(message(label_, ": is ", kind_of_file(old.st_mode),
                          " (allowed: a regular file, or none yet)"));
  }
  if (path_.filename().empty()) {
    throw IoError(message(label_, ": names no file (allowed: a path that ends with a name)"));
  }
  do {
    temporary_ = temporary_beside(path_);
    descriptor_ = files_.open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor_ < 0) {
    throw_system_error(label_, "cannot write a new file in its directory", errno);
  }
  exists_ = true;
  if (replaces && files_.fchmod(descriptor_, old.st_mode & 0777) != 0) {
    const int error = errno;
    files_.close(descriptor_);
    files_.unlink(temporary_.c_str());
    throw_system_error(label_, "the mode of the old file cannot be kept", error);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) files_.close(descriptor_);
  if (exists_) files_.unlink(temporary_.c_str());
}

void AtomicFile::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t most = std::min(bytes.size(), std::size_t{1} << 30);
    const ssize_t count = files_.write(descriptor_, bytes.data(), most);
    if (count < 0 && errno == EINTR) continue;
    // A write of 0 bytes sets no errno; retrying it could loop forever.
    if (count <= 0) throw_system_error(label_, "cannot be written", count == 0 ? EIO : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::commit() {
  if (files_.fsync(descriptor_) != 0) {
    throw_system_error(label_, "cannot be brought to the disk", errno);
  }
  const int closed = files_.close(descriptor_);
  descriptor_ = -1;  // closed even if close() reports an error
  if (closed != 0) throw_system_error(label_, "cannot be closed", errno);

  // Open the directory before the rename, so that only fsync can fail after it.
  const std::filesystem::path directory = path_.has_parent_path() ? path_.parent_path() : ".";
  descriptor_ = files_.open(directory.c_str(), O_RDONLY | O_DIRECTORY, 0);
  if (descriptor_ < 0) throw_system_error(label_, "its directory cannot be opened", errno);
  if (files_.rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw_system_error(label_, "cannot be replaced", errno);
  }
  exists_ = false;
  // Some file systems do not support fsync on a directory.
  if (files_.fsync(descriptor_) != 0 && errno != EINVAL) {
    throw_system_error(label_, "is replaced, but its directory cannot be brought to the disk",
                       errno);
  }
  files_.close(descriptor_);
  descriptor_ = -1;
}

}  // namespace extensor::io
