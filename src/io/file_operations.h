// The system calls that file I/O uses, virtual so that a test can make each of them fail.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "extensor/export.h"

// Exported because the command-line tool uses it.
EXTENSOR_BEGIN_API

namespace extensor::io {

// Each function behaves like the system call of the same name: it returns −1 and sets errno on
// failure.
class FileOperations {
 public:
  virtual ~FileOperations() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int close(int descriptor);
  virtual int fstat(int descriptor, struct stat* status);
  virtual ssize_t pread(int descriptor, void* into, std::size_t count, std::uint64_t offset);
  virtual ssize_t write(int descriptor, const void* from, std::size_t count);
  virtual int fchmod(int descriptor, mode_t mode);
  virtual int fsync(int descriptor);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
};

// The real system calls.
FileOperations& system_files();

}  // namespace extensor::io

EXTENSOR_END_API
