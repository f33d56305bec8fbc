// The contents of entries: as they are stored, or inflated as they are asked for, into the memory
// that they are for.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "io/text.h"
#include "io/zip.h"

namespace extensor::io {

using detail::message;

namespace {

class EntryStream : public ZipEntryStream {
 public:
  EntryStream(const ByteSource& source, const ZipEntry& entry, bool check_crc)
      : ZipEntryStream(message(source.label(), ": entry ", in_quotes(entry.name)), entry.size),
        source_(source),
        entry_(entry),
        check_crc_(check_crc) {}

  void finish() final {
    if (left() != 0) damaged(label(), "has ", left(), " bytes more than the array in it");
    end();
    if (check_crc_ && crc_ != entry_.crc) {
      damaged(label(), "its CRC-32 is ", crc_, ", the archive says ", entry_.crc);
    }
  }

 protected:
  // The next bytes of the archive, of which the caller knows that they are there.
  void read_archive(std::span<std::byte> into) {
    source_.read(entry_.data_at + consumed_, into);
    consumed_ += into.size();
  }
  std::uint64_t archive_left() const { return entry_.stored_size - consumed_; }

 private:
  virtual void contents(std::span<std::byte> into) = 0;
  virtual void end() = 0;

  void next(std::span<std::byte> into) final {
    contents(into);
    crc_ = static_cast<std::uint32_t>(
        crc32_z(crc_, reinterpret_cast<const Bytef*>(into.data()), into.size()));
  }

  const ByteSource& source_;
  const ZipEntry& entry_;
  bool check_crc_;
  std::uint64_t consumed_ = 0;
  std::uint32_t crc_ = 0;
};

class StoredStream final : public EntryStream {
 public:
  using EntryStream::EntryStream;

 private:
  void contents(std::span<std::byte> into) override { read_archive(into); }
  void end() override {}
};

class InflatedStream final : public EntryStream {
 public:
  InflatedStream(const ByteSource& source, const ZipEntry& entry, bool check_crc)
      : EntryStream(source, entry, check_crc), buffer_(1 << 16) {
    // Without a header of zlib's or gzip's.
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) {
      throw OutOfMemoryError(message(label(), ": no memory to inflate it"));
    }
  }
  ~InflatedStream() override { inflateEnd(&stream_); }

 private:
  void contents(std::span<std::byte> into) override {
    while (!into.empty()) {
      const std::size_t made = inflate_some(into);
      if (made == 0 && ended_) {
        damaged(label(), "its compressed data ends ", into.size() + left(), " bytes too early");
      }
      into = into.subspan(made);
    }
  }

  void end() override {
    std::byte more{};
    while (!ended_) {
      if (inflate_some({&more, 1}) != 0) damaged(label(), "has more data than it is said to have");
    }
    if (archive_left() != 0 || stream_.avail_in != 0) {
      damaged(label(), "has ", archive_left() + stream_.avail_in,
              " bytes behind its compressed data");
    }
  }

  // How many bytes came out.
  std::size_t inflate_some(std::span<std::byte> into) {
    if (ended_) return 0;
    if (stream_.avail_in == 0 && archive_left() != 0) {
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), archive_left()));
      read_archive(std::span(buffer_).first(count));
      stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_in = static_cast<uInt>(count);
    }
    const std::size_t room = std::min<std::size_t>(into.size(), std::numeric_limits<uInt>::max());
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(room);
    const uInt before = stream_.avail_in;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    const std::size_t made = room - stream_.avail_out;
    if (result == Z_MEM_ERROR) {
      throw OutOfMemoryError(message(label(), ": no memory to inflate it"));
    }
    if (result == Z_STREAM_END) {
      ended_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      damaged(label(), "its compressed data is wrong: ",
              stream_.msg != nullptr ? stream_.msg : "not deflate");
    } else if (made == 0 && stream_.avail_in == before && archive_left() == 0) {
      damaged(label(), "its compressed data is cut off");
    }
    return made;
  }

  z_stream stream_{};
  std::vector<std::byte> buffer_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ZipEntryStream> open_zip_entry(const ByteSource& source, const ZipEntry& entry,
                                               bool check_crc) {
  if (entry.deflated) return std::make_unique<InflatedStream>(source, entry, check_crc);
  return std::make_unique<StoredStream>(source, entry, check_crc);
}

}  // namespace extensor::io
