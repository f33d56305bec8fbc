// Zip archives, as far as npz needs them: entries stored or deflated, one disk, no encryption.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_sink.h"
#include "io/byte_source.h"

namespace extensor::io {

// What does not fit the first version's fields goes into those of zip64. Tests lower the limits.
struct ZipLimits {
  std::uint64_t most_bytes = 0xffffffff;
  std::uint64_t most_entries = 0xffff;
};

// ---- reading ------------------------------------------------------------------------------------

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t stored_size = 0;  // in the archive
  std::uint64_t size = 0;         // of the contents
  std::uint64_t header_at = 0;    // its local header
  std::uint64_t data_at = 0;
};

// The entries, in the order of the central directory. FormatError unless they lie in the archive
// one behind the other, have names of their own and sizes that are possible.
std::vector<ZipEntry> read_zip_directory(const ByteSource& source);

// The contents of one entry; the label of the stream names it.
class ZipEntryStream : public ByteStream {
 public:
  // Call when all was read: FormatError unless the CRC-32 is right and the entry ends there.
  virtual void finish() = 0;

 protected:
  using ByteStream::ByteStream;
};

// `check_crc` is for the fuzzer, which rarely guesses one.
std::unique_ptr<ZipEntryStream> open_zip_entry(const ByteSource& source, const ZipEntry& entry,
                                               bool check_crc = true);

// ---- writing ------------------------------------------------------------------------------------

// Entries one after the other, then finish().
class ZipWriter {
 public:
  explicit ZipWriter(ByteSink& sink, const ZipLimits& limits = {}) : sink_(sink), limits_(limits) {}
  // One entry whose contents are `head` and `body`. The name is UTF-8 of at most 65535 bytes.
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
