#include "io/file_operations.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace extensor::io {

int FileOperations::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags | O_CLOEXEC, mode);
}
int FileOperations::close(int descriptor) { return ::close(descriptor); }
int FileOperations::fstat(int descriptor, struct stat* status) {
  return ::fstat(descriptor, status);
}
ssize_t FileOperations::pread(int descriptor, void* into, std::size_t count, std::uint64_t offset) {
  return ::pread(descriptor, into, count, static_cast<off_t>(offset));
}
ssize_t FileOperations::write(int descriptor, const void* from, std::size_t count) {
  return ::write(descriptor, from, count);
}
int FileOperations::fchmod(int descriptor, mode_t mode) { return ::fchmod(descriptor, mode); }
int FileOperations::fsync(int descriptor) { return ::fsync(descriptor); }
int FileOperations::rename(const char* from, const char* to) { return ::rename(from, to); }
int FileOperations::unlink(const char* path) { return ::unlink(path); }

FileOperations& system_files() {
  static FileOperations files;
  return files;
}

}  // namespace extensor::io
