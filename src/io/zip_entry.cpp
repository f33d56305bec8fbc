// Reads the contents of entries: copied or inflated on demand, directly into the destination.
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "io/inflater.h"
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
  // Reads the next bytes of the archive. The caller ensures that they exist.
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
      : EntryStream(source, entry, check_crc),
        inflater_(label(), Inflater::Wrapper::none),
        buffer_(1 << 16) {}

 private:
  void contents(std::span<std::byte> into) override {
    while (!into.empty()) {
      if (ended_) {
        damaged(label(), "its compressed data ends ", into.size() + left(), " bytes too early");
      }
      inflate_some(into);
    }
  }

  void end() override {
    std::byte more{};
    while (!ended_) {
      std::span<std::byte> into(&more, 1);
      inflate_some(into);
      if (into.empty()) damaged(label(), "has more data than it is said to have");
    }
    if (archive_left() != 0 || !waiting_.empty()) {
      damaged(label(), "has ", archive_left() + waiting_.size(),
              " bytes behind its compressed data");
    }
  }

  // Advances `into` past the bytes produced, possibly none.
  void inflate_some(std::span<std::byte>& into) {
    if (waiting_.empty() && archive_left() != 0) {
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), archive_left()));
      read_archive(std::span(buffer_).first(count));
      waiting_ = std::span(buffer_).first(count);
    }
    const std::size_t room = into.size(), given = waiting_.size();
    ended_ = inflater_.inflate(waiting_, into);
    if (!ended_ && into.size() == room && waiting_.size() == given && archive_left() == 0) {
      damaged(label(), "its compressed data is cut off");
    }
  }

  Inflater inflater_;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> waiting_;  // unread part of buffer_
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ZipEntryStream> open_zip_entry(const ByteSource& source, const ZipEntry& entry,
                                               bool check_crc) {
  if (entry.deflated) return std::make_unique<InflatedStream>(source, entry, check_crc);
  return std::make_unique<StoredStream>(source, entry, check_crc);
}

}  // namespace extensor::io
