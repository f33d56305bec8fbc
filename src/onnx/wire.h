// The wire format of protocol buffers, which ONNX files use: a message is a sequence of fields,
// each a number, a wire type and a value. Readers treat every byte as hostile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "extensor/error.h"

namespace extensor::onnx {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Reads the fields of one message. Every error is a FormatError that names the label and the
// position in the file. The bytes outlive the reader.
class WireReader {
 public:
  // `position` is that of the first byte in the file.
  WireReader(std::string_view label, std::span<const std::byte> bytes, std::uint64_t position = 0)
      : label_(label), bytes_(bytes), position_(position) {}

  // Moves to the next field. False at the end of the message. The value of a field must be read
  // or skipped first.
  bool next();
  std::uint32_t field() const { return field_; }
  void skip();

  // The value of the current field. `what` names it in errors.
  std::int64_t integer(const char* what);
  float real(const char* what);
  std::span<const std::byte> bytes(const char* what);
  std::string text(const char* what);
  WireReader message(const char* what);
  // One value of a repeated field, or several if they are packed.
  void integers(const char* what, std::vector<std::int64_t>& into);
  void reals(const char* what, std::vector<float>& into);
  void doubles(const char* what, std::vector<double>& into);

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw FormatError(detail::message(label_, ": at byte ", position_ + at_, ": ", parts...));
  }

 private:
  std::uint64_t varint();
  std::span<const std::byte> take(std::uint64_t count);
  void expect(WireType type, const char* what) const;
  template <class T>
  void fixed(const char* what, WireType type, std::vector<T>& into);

  std::string_view label_;
  std::span<const std::byte> bytes_;
  std::uint64_t position_;
  std::size_t at_ = 0;
  std::uint32_t field_ = 0;
  WireType type_ = WireType::varint;
};

// Builds one message.
class WireWriter {
 public:
  void integer(std::uint32_t field, std::int64_t value);
  void real(std::uint32_t field, float value);
  void text(std::uint32_t field, std::string_view value);
  void message(std::uint32_t field, const WireWriter& value) { text(field, value.bytes_); }
  // Begins a field of `size` bytes, which the caller writes elsewhere.
  void begin(std::uint32_t field, std::uint64_t size);

  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::uint32_t field, WireType type);
  void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace extensor::onnx
