// Zip archives, to the extent that npz needs them: stored or deflated entries, one disk, no
// encryption.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_sink.h"
#include "io/byte_source.h"

namespace extensor::io {

// Numbers above these limits go into zip64 fields. Tests lower the limits.
struct ZipLimits {
  std::uint64_t most_bytes = 0xffffffff;
  std::uint64_t most_entries = 0xffff;
};

// ---- reading ------------------------------------------------------------------------------------

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t stored_size = 0;  // compressed, in the archive
  std::uint64_t size = 0;         // uncompressed
  std::uint64_t header_at = 0;    // offset of the local header
  std::uint64_t data_at = 0;
};

// The entries in the order of the central directory. Throws FormatError if entries overlap, share a
// name, or have impossible sizes.
std::vector<ZipEntry> read_zip_directory(const ByteSource& source);

// The contents of one entry; the stream's label contains its name.
class ZipEntryStream : public ByteStream {
 public:
  // Call after reading all of it. Throws FormatError if the CRC-32 is wrong or data remains.
  virtual void finish() = 0;

 protected:
  using ByteStream::ByteStream;
};

// The fuzzer disables `check_crc` because it rarely guesses a valid checksum.
std::unique_ptr<ZipEntryStream> open_zip_entry(const ByteSource& source, const ZipEntry& entry,
                                               bool check_crc = true);

// ---- writing ------------------------------------------------------------------------------------

// Writes entries sequentially; finish() writes the directory.
class ZipWriter {
 public:
  explicit ZipWriter(ByteSink& sink, const ZipLimits& limits = {}) : sink_(sink), limits_(limits) {}
  // Adds an entry whose contents are `head` followed by `body`. The name is UTF-8 of at most 65535
  // bytes.
  void add(std::string_view name, std::string_view head, std::span<const std::byte> body);
  void finish();

 private:
  struct Written {
    std::string name;
    std::uint32_t crc;
    std::uint64_t size, header_at;
  };

  ByteSink& sink_;
  ZipLimits limits_;
  std::vector<Written> entries_;
};

}  // namespace extensor::io
