// Where readers get their bytes: a file or memory, at any position; and in sequence.
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

// The tool uses it too.
EXTENSOR_BEGIN_API

namespace extensor::io {

// Throws FormatError; the label says who reads what: "load_npy: 'x.npy'".
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
  // All of `into`, from `offset`. The caller has looked at size().
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

// A regular file. IoError for anything else, where it cannot be read, and where it has become
// shorter since it was opened.
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

// A file in memory, copied on write.
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

// Bytes one after the other, their number known before.
class ByteStream {
 public:
  ByteStream(std::string label, std::uint64_t size) : label_(std::move(label)), left_(size) {}
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  const std::string& label() const { return label_; }
  std::uint64_t left() const { return left_; }
  // FormatError where fewer are left; `what` is named.
  void read(std::span<std::byte> into, const char* what);

 private:
  virtual void next(std::span<std::byte> into) = 0;

  std::string label_;
  std::uint64_t left_;
};

// A source from its beginning to its end.
class SourceStream final : public ByteStream {
 public:
  explicit SourceStream(const ByteSource& source)
      : ByteStream(source.label(), source.size()), source_(source) {}

 private:
  void next(std::span<std::byte> into) override;

  const ByteSource& source_;
  std::uint64_t offset_ = 0;
};

// The elements of a contiguous tensor.
std::span<std::byte> bytes_of(Tensor& tensor);
std::span<const std::byte> bytes_of(const Tensor& tensor);

// How many bytes a tensor has. FormatError for a shape that cannot exist.
std::size_t byte_count(const std::string& label, const Shape& shape, DType dtype);

// A byte other than 0 and 1 is no bool. FormatError.
void check_bools(const std::string& label, std::span<const std::byte> bytes);

}  // namespace extensor::io

EXTENSOR_END_API
