// The orientation of an image in EXIF data: "Exif", two zeros, and a TIFF directory of tags.
#include "data/jpeg.h"

namespace extensor::io {

namespace {

// Numbers of two and four bytes in the order that the TIFF header states; 0 beyond the end.
class Tiff {
 public:
  explicit Tiff(std::span<const std::uint8_t> bytes)
      : bytes_(bytes), is_little_(!bytes.empty() && bytes[0] == 'I') {}

  bool is_valid() const {
    if (bytes_.size() < 8 || bytes_[0] != bytes_[1]) return false;
    return (is_little_ || bytes_[0] == 'M') && number(2, 2) == 42;
  }
  std::uint32_t number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return 0;
    std::uint32_t value = 0;
    for (std::size_t k = 0; k < size; ++k) {
      value = value << 8 | bytes_[at + (is_little_ ? size - 1 - k : k)];
    }
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool is_little_;
};

}  // namespace

int exif_orientation(std::span<const std::uint8_t> segment) {
  constexpr std::uint8_t mark[] = {'E', 'x', 'i', 'f', 0, 0};
  if (segment.size() < std::size(mark)) return 0;
  for (std::size_t k = 0; k < std::size(mark); ++k) {
    if (segment[k] != mark[k]) return 0;
  }
  const Tiff tiff(segment.subspan(std::size(mark)));
  if (!tiff.is_valid()) return 0;
  constexpr std::uint32_t orientation = 0x0112, two_bytes = 3;
  constexpr std::size_t entry = 12;
  const std::size_t directory = tiff.number(4, 4);
  const std::uint32_t count = tiff.number(directory, 2);
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::size_t at = directory + 2 + k * entry;
    if (tiff.number(at, 2) != orientation) continue;
    const std::uint32_t value = tiff.number(at + 8, 2);
    const bool is_one = tiff.number(at + 2, 2) == two_bytes && tiff.number(at + 4, 4) == 1;
    return is_one && value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
  }
  return 0;
}

}  // namespace extensor::io
