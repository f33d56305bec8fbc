// Netpbm images: "P5", width, height and maximum value as text, then the pixels as bytes or as
// text. Numbers are separated by white space and by comments from # to the end of the line.
#include <charconv>

#include "core/make_tensor.h"
#include "data/image_file.h"
#include "io/text.h"

namespace extensor::io {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Numbers {
 public:
  Numbers(const std::string& label, std::string_view text) : label_(label), left_(text) {}

  std::string_view left() const { return left_; }

  // Reads a number after at least one space or comment. Throws FormatError outside least … most.
  std::uint32_t next(const char* what, std::uint32_t least, std::uint32_t most) {
    const std::size_t before = left_.size();
    skip_space();
    std::size_t size = 0;
    while (size < left_.size() && is_digit(left_[size])) ++size;
    if (size == 0 || before == left_.size()) {
      damaged(label_, what, " is missing: found ", in_quotes(left_.substr(0, 8)));
    }
    std::uint32_t value = 0;
    const auto result = std::from_chars(left_.data(), left_.data() + size, value);
    if (result.ec != std::errc() || value < least || value > most) {
      damaged(label_, what, " is ", left_.substr(0, std::min<std::size_t>(size, 20)),
              " (allowed: ", least, " … ", most, ")");
    }
    left_.remove_prefix(size);
    return value;
  }

  void skip_space() {
    while (!left_.empty() && (is_space(left_[0]) || left_[0] == '#')) {
      const std::size_t line = left_[0] == '#' ? left_.find('\n') : 0;
      left_.remove_prefix(std::min(line, left_.size() - 1) + 1);
    }
  }

  void skip_one_space() {
    if (left_.empty() || !is_space(left_[0])) {
      damaged(label_, "has no space behind the highest value");
    }
    left_.remove_prefix(1);
  }

 private:
  const std::string& label_;
  std::string_view left_;
};

}  // namespace

bool is_pnm(std::string_view file) {
  return file.size() >= 3 && file[0] == 'P' &&
         (file[1] == '2' || file[1] == '3' || file[1] == '5' || file[1] == '6') &&
         (is_space(file[2]) || file[2] == '#');
}

Tensor read_pnm(const std::string& label, std::string_view file, std::int64_t max_pixels) {
  const bool text = file[1] <= '3';
  const std::int64_t channels = file[1] == '3' || file[1] == '6' ? 3 : 1;
  Numbers numbers(label, file.substr(2));
  constexpr std::uint32_t most_side = 0x7fffffff;
  const std::int64_t width = numbers.next("the width", 1, most_side);
  const std::int64_t height = numbers.next("the height", 1, most_side);
  const std::uint32_t highest = numbers.next("the highest value", 1, 65535);
  if (!text) numbers.skip_one_space();

  // The minimum number of bytes: a digit and a space per sample, or one or two bytes.
  const std::size_t left = numbers.left().size(), item = text || highest > 255 ? 2 : 1;
  const std::size_t count = byte_count(label, {channels, height, width}, DType::uint8);
  const std::size_t room = text ? left / 2 : left / item;
  if (count > room || (!text && left != count * item)) {
    damaged(label, "has ", left, " bytes of pixels, ", channels, " × ", height, " × ", width,
            text ? " need at least " : " need ",
            static_cast<double>(count) * static_cast<double>(item));
  }
  check_pixels(label, width, height, max_pixels);
  Tensor image =
      detail::make_empty(label.c_str(), {channels, height, width}, DType::uint8, cpu_device);
  auto* to = image.data<std::uint8_t>();
  const auto plane = static_cast<std::size_t>(height * width);
  const char* bytes = numbers.left().data();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t value = 0;
    if (text) {
      value = numbers.next("a pixel", 0, highest);
    } else {
      for (std::size_t k = 0; k < item; ++k)
        value = value << 8 | static_cast<std::uint8_t>(*bytes++);
      if (value > highest) {
        damaged(label, "pixel ", i, " is ", value, " (allowed: 0 … ", highest, ")");
      }
    }
    const auto channel = i % static_cast<std::size_t>(channels);
    const auto pixel = i / static_cast<std::size_t>(channels);
    to[channel * plane + pixel] =
        static_cast<std::uint8_t>((2 * 255 * value + highest) / (2 * highest));
  }
  if (text) {
    numbers.skip_space();
    if (!numbers.left().empty()) {
      damaged(label, "has ", numbers.left().size(), " bytes behind its pixels");
    }
  }
  return image;
}

}  // namespace extensor::io
