// Sources for readers: a file or memory, with random access or as a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/check.h"
#include "extensor/export.h"
#include "extensor/tensor.h"
#include "io/file_operations.h"

// Exported because the command-line tool uses it.
EXTENSOR_BEGIN_API

namespace extensor::io {

// Throws FormatError. The label names the operation and the file: "load_npy: 'x.npy'".
template <class... Parts>
[[noreturn]] void damaged(const std::string& label, const Parts&... parts) {
  throw FormatError(detail::message(label, ": ", parts...));
}

class ByteSource {
 public:
  explicit ByteSource(std::string label) : label_(std::move(label)) {}
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  const std::string& label() const { return label_; }
  virtual std::uint64_t size() const = 0;
  // Fills `into` with the bytes from `offset` on. The caller has checked the range against size().
  virtual void read(std::uint64_t offset, std::span<std::byte> into) const = 0;

 private:
  std::string label_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string label, std::span<const std::byte> bytes)
      : ByteSource(std::move(label)), bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> into) const override;

 private:
  std::span<const std::byte> bytes_;
};

// A regular file. Throws IoError for any other kind of file, for a file that cannot be read, and
// for one that has shrunk since it was opened.
class FileSource final : public ByteSource {
 public:
  FileSource(const char* operation, const std::filesystem::path& path,
             FileOperations& files = system_files());
  ~FileSource() override;
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, std::span<std::byte> into) const override;
  int descriptor() const { return descriptor_; }

 private:
  void read_in_order(std::uint64_t offset, std::span<std::byte> into) const;

  FileOperations& files_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// A copy-on-write memory mapping of a file.
class Mapping {
 public:
  explicit Mapping(const FileSource& file);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A sequence of bytes of known length.
class ByteStream {
 public:
  ByteStream(std::string label, std::uint64_t size) : label_(std::move(label)), left_(size) {}
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  const std::string& label() const { return label_; }
  std::uint64_t left() const { return left_; }
  // Throws FormatError, naming `what`, if fewer bytes are left.
  void read(std::span<std::byte> into, const char* what);

 private:
  virtual void next(std::span<std::byte> into) = 0;

  std::string label_;
  std::uint64_t left_;
};

// Reads a source from beginning to end.
class SourceStream final : public ByteStream {
 public:
  explicit SourceStream(const ByteSource& source)
      : ByteStream(source.label(), source.size()), source_(source) {}

 private:
  void next(std::span<std::byte> into) override;

  const ByteSource& source_;
  std::uint64_t offset_ = 0;
};

// The bytes of a contiguous tensor.
std::span<std::byte> bytes_of(Tensor& tensor);
std::span<const std::byte> bytes_of(const Tensor& tensor);

// The size of a tensor in bytes. Throws FormatError for an impossible shape.
std::size_t byte_count(const std::string& label, const Shape& shape, DType dtype);

// Throws FormatError for a byte that is neither 0 nor 1.
void check_bools(const std::string& label, std::span<const std::byte> bytes);

}  // namespace extensor::io

EXTENSOR_END_API
