// A file that is replaced as a whole or not at all.
//
//   AtomicFile file("save_npy", path);
//   file.write(bytes);
//   file.commit();
#pragma once

#include <filesystem>
#include <string>

#include "extensor/export.h"

#include "io/byte_sink.h"
#include "io/file_operations.h"

// The tool uses it too.
EXTENSOR_BEGIN_API

namespace extensor::io {

// Writes to a new file in the same directory; commit() brings it to the disk and renames it.
// Without commit(), and after any error, the new file is removed and the old one untouched.
// IoError, naming the operation, the path and what the system said. A symbolic link stays, and
// where it points to is replaced; a mode of the old file is kept.
class AtomicFile final : public ByteSink {
 public:
  AtomicFile(const char* operation, const std::filesystem::path& path,
             FileOperations& files = system_files());
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() override;

  void commit();
  const std::string& label() const { return label_; }

 private:
  void put(std::span<const std::byte> bytes) override;

  FileOperations& files_;
  std::string label_;
  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
  bool exists_ = false;  // the temporary
};

}  // namespace extensor::io

EXTENSOR_END_API
