#include "onnx/wire.h"

#include <cstring>

namespace extensor::onnx {

// ---- reading

std::uint64_t WireReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == bytes_.size()) fail("the message ends inside a number");
    const auto byte = static_cast<std::uint64_t>(bytes_[at_++]);
    if (shift == 63 && byte > 1) fail("a number has more than 64 bits");
    value |= (byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  fail("a number has more than 10 bytes");
}

std::span<const std::byte> WireReader::take(std::uint64_t count) {
  if (count > bytes_.size() - at_) {
    fail("a field of ", count, " bytes does not fit: ", bytes_.size() - at_,
         " are left in its message");
  }
  const auto part = bytes_.subspan(at_, static_cast<std::size_t>(count));
  at_ += part.size();
  return part;
}

bool WireReader::next() {
  if (at_ == bytes_.size()) return false;
  const std::uint64_t key = varint();
  if (key >> 3 == 0 || key >> 3 >= 1 << 29) fail("field number ", key >> 3, " does not exist");
  field_ = static_cast<std::uint32_t>(key >> 3);
  const auto type = static_cast<unsigned>(key & 7);
  if (type != 0 && type != 1 && type != 2 && type != 5) {
    fail("field ", field_, " has wire type ", type, " (allowed: 0, 1, 2, 5)");
  }
  type_ = static_cast<WireType>(type);
  return true;
}

void WireReader::skip() {
  switch (type_) {
    case WireType::varint:
      varint();
      return;
    case WireType::fixed64:
      take(8);
      return;
    case WireType::fixed32:
      take(4);
      return;
    case WireType::bytes:
      take(varint());
      return;
  }
}

void WireReader::expect(WireType type, const char* what) const {
  if (type_ == type) return;
  fail(what, " has wire type ", static_cast<int>(type_), ", must be ", static_cast<int>(type));
}

std::int64_t WireReader::integer(const char* what) {
  expect(WireType::varint, what);
  return static_cast<std::int64_t>(varint());
}

float WireReader::real(const char* what) {
  expect(WireType::fixed32, what);
  float value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::span<const std::byte> WireReader::bytes(const char* what) {
  expect(WireType::bytes, what);
  return take(varint());
}

std::string WireReader::text(const char* what) {
  const auto part = bytes(what);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

WireReader WireReader::message(const char* what) {
  const auto part = bytes(what);
  return {label_, part, position_ + at_ - part.size()};
}

void WireReader::integers(const char* what, std::vector<std::int64_t>& into) {
  if (type_ != WireType::bytes) return into.push_back(integer(what));
  WireReader packed = message(what);
  while (packed.at_ < packed.bytes_.size()) {
    into.push_back(static_cast<std::int64_t>(packed.varint()));
  }
}

template <class T>
void WireReader::fixed(const char* what, WireType type, std::vector<T>& into) {
  if (type_ != WireType::bytes) expect(type, what);
  const auto part = type_ == WireType::bytes ? bytes(what) : take(sizeof(T));
  if (part.size() % sizeof(T) != 0) {
    fail(what, " has ", part.size(), " bytes, must be a multiple of ", sizeof(T));
  }
  const std::size_t before = into.size();
  into.resize(before + part.size() / sizeof(T));
  if (!part.empty()) std::memcpy(into.data() + before, part.data(), part.size());
}

void WireReader::reals(const char* what, std::vector<float>& into) {
  fixed(what, WireType::fixed32, into);
}
void WireReader::doubles(const char* what, std::vector<double>& into) {
  fixed(what, WireType::fixed64, into);
}

// ---- writing

void WireWriter::varint(std::uint64_t value) {
  while (value >= 0x80) {
    bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    value >>= 7;
  }
  bytes_ += static_cast<char>(value);
}

void WireWriter::key(std::uint32_t field, WireType type) {
  varint(std::uint64_t{field} << 3 | static_cast<std::uint64_t>(type));
}

void WireWriter::integer(std::uint32_t field, std::int64_t value) {
  key(field, WireType::varint);
  varint(static_cast<std::uint64_t>(value));
}

void WireWriter::real(std::uint32_t field, float value) {
  key(field, WireType::fixed32);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void WireWriter::begin(std::uint32_t field, std::uint64_t size) {
  key(field, WireType::bytes);
  varint(size);
}

void WireWriter::text(std::uint32_t field, std::string_view value) {
  begin(field, value.size());
  bytes_ += value;
}

}  // namespace extensor::onnx
