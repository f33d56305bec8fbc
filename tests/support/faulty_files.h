// A file system that fails on request.
#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>

#include "io/file_operations.h"

namespace test_support {

// Makes call number `failing` (from 0; −1: none) of those that may fail return `error`. Writes at
// most `most` bytes per call if set; interrupts the first call of each kind if `interrupts` is set.
class FaultyFiles final : public extensor::io::FileOperations {
 public:
  int failing = -1;
  int error = EIO;
  std::size_t most = SIZE_MAX;
  bool interrupts = false;
  int calls = 0;
  std::string failed;                  // the call that failed
  std::function<void()> before_pread;  // changes the file between calls

  int open(const char* path, int flags, mode_t mode) override {
    return fails("open") ? -1 : FileOperations::open(path, flags, mode);
  }
  int close(int descriptor) override {
    const int result = FileOperations::close(descriptor);  // even on failure, as on Linux
    return fails("close") ? -1 : result;
  }
  int fstat(int descriptor, struct stat* status) override {
    return fails("fstat") ? -1 : FileOperations::fstat(descriptor, status);
  }
  ssize_t pread(int descriptor, void* into, std::size_t count, std::uint64_t offset) override {
    if (before_pread) before_pread();
    if (interrupted(interrupted_pread_) || fails("pread")) return -1;
    return FileOperations::pread(descriptor, into, std::min(count, most), offset);
  }
  ssize_t write(int descriptor, const void* from, std::size_t count) override {
    if (interrupted(interrupted_write_) || fails("write")) return -1;
    return FileOperations::write(descriptor, from, std::min(count, most));
  }
  int fchmod(int descriptor, mode_t mode) override {
    return fails("fchmod") ? -1 : FileOperations::fchmod(descriptor, mode);
  }
  int fsync(int descriptor) override {
    return fails("fsync") ? -1 : FileOperations::fsync(descriptor);
  }
  int rename(const char* from, const char* to) override {
    if (fails("rename")) return -1;
    renamed = true;
    return FileOperations::rename(from, to);
  }

  bool renamed = false;

 private:
  bool fails(const char* call) {
    if (calls++ != failing) return false;
    failed = call;
    errno = error;
    return true;
  }
  bool interrupted(bool& once) {
    if (!interrupts || once) return false;
    once = true;
    errno = EINTR;
    return true;
  }

  bool interrupted_pread_ = false, interrupted_write_ = false;
};

}  // namespace test_support
