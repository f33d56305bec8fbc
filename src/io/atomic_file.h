// A file that is replaced atomically: completely or not at all.
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

// Exported because the command-line tool uses it.
EXTENSOR_BEGIN_API

namespace extensor::io {

// Writes to a new file in the same directory; commit() flushes it to disk and renames it. Without
// commit(), and after any error, the new file is removed and the old one is untouched. Errors are
// IoErrors that name the operation, the path and the system's reason. A symbolic link is kept and
// its target replaced; the mode of an existing file is preserved.
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
  bool exists_ = false;  // whether the temporary file exists
};

}  // namespace extensor::io

EXTENSOR_END_API
