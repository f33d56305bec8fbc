#include "core/format_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/visit.h"

namespace extensor::detail {

namespace {

constexpr int precision = 8;  // NumPy's default number of digits after the point

// ±0.d₁d₂d₃… × 10^exponent; no digits for zero.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;
};

// Converts the halves to float; other types stay as they are.
template <class T>
auto widen(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    return static_cast<float>(value);
  }
}

// Parses the scientific notation that std::to_chars writes.
Decimal parse_scientific(const char* first, const char* last) {
  Decimal result;
  if (*first == '-') {
    result.negative = true;
    ++first;
  }
  const char* mark = std::find(first, last, 'e');
  for (const char* at = first; at != mark; ++at) {
    if (*at != '.') result.digits += *at;
  }
  const char* exponent = mark + 1;
  if (*exponent == '+') ++exponent;
  std::from_chars(exponent, last, result.exponent);
  result.exponent += 1;
  result.digits.erase(result.digits.find_last_not_of('0') + 1);
  if (result.digits.empty()) result.exponent = 0;
  return result;
}

Decimal round_to_digits(double value, int digits_behind_first) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                 std::chars_format::scientific, digits_behind_first);
  return parse_scientific(buffer, end.ptr);
}

double read(const Decimal& number) {
  const std::string text =
      (number.negative ? "-0." : "0.") + number.digits + "e" + std::to_string(number.exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The fewest digits that identify the value among all values of its type.
template <class T>
Decimal shortest(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    char buffer[64];
    const auto end =
        std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
    return parse_scientific(buffer, end.ptr);
  } else {
    // std::to_chars does not support the halves: add digits until the text reads back the same.
    for (int digits = 0;; ++digits) {
      Decimal nearest = round_to_digits(static_cast<double>(widen(value)), digits);
      if (T(read(nearest)).bits() == value.bits()) return nearest;
      // At a power of two, the gap above is wider than the gap below: the next decimal up may do.
      Decimal above = nearest;
      above.digits.resize(static_cast<std::size_t>(digits) + 1, '0');
      if (above.digits.back() == '9') continue;
      ++above.digits.back();
      if (T(read(above)).bits() == value.bits()) return above;
    }
  }
}

// At most `precision` digits after the point of a positional number.
template <class T>
Decimal positional_digits(T value) {
  Decimal result = shortest(value);
  if (static_cast<int>(result.digits.size()) - result.exponent <= precision) return result;
  const bool negative = result.negative;
  char buffer[512];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), static_cast<double>(widen(value)),
                                 std::chars_format::fixed, precision);
  const char* first = negative ? buffer + 1 : buffer;
  const char* point = std::find(first, static_cast<const char*>(end.ptr), '.');
  result.digits.assign(first, point);
  result.exponent = static_cast<int>(point - first);
  result.digits.append(point + 1, static_cast<const char*>(end.ptr));
  const std::size_t zeros = std::min(result.digits.find_first_not_of('0'), result.digits.size());
  result.digits.erase(0, zeros);
  result.exponent -= static_cast<int>(zeros);
  result.digits.erase(result.digits.find_last_not_of('0') + 1);
  if (result.digits.empty()) result.exponent = 0;
  return result;
}

// At most `precision` digits after the first one of a scientific number.
template <class T>
Decimal scientific_digits(T value) {
  Decimal result = shortest(value);
  if (static_cast<int>(result.digits.size()) <= precision + 1) return result;
  return round_to_digits(static_cast<double>(widen(value)), precision);
}

std::string integer_part(const Decimal& number) {
  std::string text = number.negative ? "-" : "";
  if (number.exponent <= 0) return text + "0";
  const auto length = static_cast<std::size_t>(number.exponent);
  text += number.digits.substr(0, length);
  if (length > number.digits.size()) text.append(length - number.digits.size(), '0');
  return text;
}

std::string fraction_part(const Decimal& number) {
  if (number.exponent <= 0) {
    if (number.digits.empty()) return "";
    return std::string(static_cast<std::size_t>(-number.exponent), '0') + number.digits;
  }
  const auto length = static_cast<std::size_t>(number.exponent);
  return length < number.digits.size() ? number.digits.substr(length) : "";
}

std::string exponent_digits(const Decimal& number) {
  const int exponent = number.digits.empty() ? 0 : number.exponent - 1;
  std::string text = std::to_string(std::abs(exponent));
  if (text.size() < 2) text.insert(0, 1, '0');
  return text;
}
bool exponent_negative(const Decimal& number) {
  return !number.digits.empty() && number.exponent < 1;
}

// d.ddde±dd with `behind` digits after the point.
std::string scientific_text(const Decimal& number, std::size_t behind, std::size_t exponent_width) {
  std::string text = number.negative ? "-" : "";
  text += number.digits.empty() ? '0' : number.digits[0];
  text += '.';
  const std::string fraction = number.digits.size() > 1 ? number.digits.substr(1) : "";
  text += fraction;
  text.append(behind - std::min(behind, fraction.size()), '0');
  text += exponent_negative(number) ? "e-" : "e+";
  std::string exponent = exponent_digits(number);
  exponent.insert(0, exponent_width - std::min(exponent_width, exponent.size()), '0');
  return text + exponent;
}

std::string pad(std::size_t width, const std::string& text) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

const char* special_text(bool nan, bool negative) {
  if (nan) return "nan";
  return negative ? "-inf" : "inf";
}

// ---- floats

// The magnitude below which NumPy writes numbers of this type positionally: ten to the number of
// decimal digits that the type represents reliably.
template <class T>
constexpr float positional_limit() {
  if constexpr (std::is_same_v<T, double>) return 1e8f;
  if constexpr (std::is_same_v<T, float>) return 1e6f;
  return 1e3f;
}

template <class T>
bool needs_exponent(const std::vector<T>& values) {
  using Wide = decltype(widen(T{}));
  bool found = false;
  Wide largest = 0;
  Wide smallest = 0;
  for (const T element : values) {
    const Wide value = std::abs(widen(element));
    if (!std::isfinite(value) || value == 0) continue;
    largest = found ? std::max(largest, value) : value;
    smallest = found ? std::min(smallest, value) : value;
    found = true;
  }
  if (!found) return false;
  // The comparisons and the quotient use the type itself, as NumPy does.
  const Wide ratio = widen(T(largest / smallest));
  return largest >= static_cast<Wide>(positional_limit<T>()) || smallest < widen(T(0.0001)) ||
         ratio > Wide(1000);
}

template <class T>
std::vector<std::string> format_floats(const std::vector<T>& values) {
  const bool scientific = needs_exponent(values);
  std::vector<Decimal> numbers;
  std::size_t left = 0;
  std::size_t right = 0;
  std::size_t exponent_width = 0;
  bool any_finite = false;
  bool any_special = false;
  bool negative_infinity = false;
  for (const T element : values) {
    const auto value = widen(element);
    if (!std::isfinite(value)) {
      numbers.emplace_back();
      any_special = true;
      negative_infinity |= std::isinf(value) && value < 0;
      continue;
    }
    any_finite = true;
    const Decimal number = scientific ? scientific_digits(element) : positional_digits(element);
    if (scientific) {
      const std::size_t behind = number.digits.empty() ? 0 : number.digits.size() - 1;
      left = std::max<std::size_t>(left, number.negative ? 2 : 1);
      right = std::max(right, behind);
      exponent_width = std::max(exponent_width, exponent_digits(number).size());
    } else {
      left = std::max(left, integer_part(number).size());
      right = std::max(right, fraction_part(number).size());
    }
    numbers.push_back(number);
  }
  const std::size_t behind_point =
      scientific && any_finite ? right + exponent_width + 2 : right;  // 2 for the e and its sign
  if (any_special) {
    // "nan" and "inf" may cover the point and the digits after it.
    const std::size_t needed = negative_infinity ? 4 : 3;
    if (needed > behind_point + 1) left = std::max(left, needed - behind_point - 1);
  }
  const std::size_t width = left + 1 + behind_point;
  std::vector<std::string> words;
  words.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = widen(values[i]);
    if (!std::isfinite(value)) {
      words.push_back(pad(width, special_text(std::isnan(value), value < 0)));
    } else if (scientific) {
      // Where others need more digits than this number does, NumPy shows more of its exact value.
      const bool more = numbers[i].digits.size() < right + 1;
      const Decimal number =
          more ? round_to_digits(static_cast<double>(value), static_cast<int>(right)) : numbers[i];
      words.push_back(pad(width, scientific_text(number, right, exponent_width)));
    } else {
      std::string word = pad(left, integer_part(numbers[i])) + "." + fraction_part(numbers[i]);
      word.append(width - word.size(), ' ');
      words.push_back(std::move(word));
    }
  }
  return words;
}

template <class T>
std::string format_one_float(T element) {
  const auto value = widen(element);
  if (!std::isfinite(value)) return special_text(std::isnan(value), value < 0);
  const Decimal number = shortest(element);
  // Compare in double for every type, as NumPy does: float32's nearest value to 1e-4 is below it.
  const double magnitude = std::abs(static_cast<double>(value));
  const double most = std::is_same_v<T, double> ? 1e16 : positional_limit<T>();
  if (value == 0 || (magnitude < most && magnitude >= 1e-4)) {
    const std::string fraction = fraction_part(number);
    return integer_part(number) + "." + (fraction.empty() ? "0" : fraction);
  }
  std::string text = scientific_text(number, 0, 2);
  const std::size_t bare_point = text.find(".e");
  if (bare_point != std::string::npos) text.erase(bare_point, 1);
  return text;
}

// ---- any dtype

template <class T>
std::vector<std::string> format_values(const std::vector<T>& values) {
  if constexpr (std::is_integral_v<T>) {
    std::vector<std::string> words;
    words.reserve(values.size());
    std::size_t width = 0;
    for (const T value : values) {
      words.push_back(std::to_string(value));
      width = std::max(width, words.back().size());
    }
    for (std::string& word : words) word = pad(width, word);
    return words;
  } else {
    return format_floats(values);
  }
}

}  // namespace

namespace {

// A formatted imaginary part with its sign in front and a j behind its digits: " 2.5 " → "+2.5j ".
std::string imaginary_text(const std::string& text, bool negative) {
  const std::size_t begin = text.find_first_not_of(' ');
  const std::size_t end = text.find_last_not_of(' ') + 1;
  std::string digits = text.substr(begin, end - begin);
  if (digits.front() == '-') digits.erase(0, 1);
  return (negative ? "-" : "+") + digits + "j" + std::string(text.size() - end, ' ');
}

// Complex elements: the parts in a common form each, as NumPy prints them.
template <class T>
std::vector<std::string> format_complex(const std::vector<std::complex<T>>& values) {
  std::vector<T> reals, imags;
  for (const std::complex<T>& value : values) {
    reals.push_back(value.real());
    imags.push_back(value.imag());
  }
  std::vector<std::string> words = format_floats(reals);
  const std::vector<std::string> behind = format_floats(imags);
  std::size_t width = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] += imaginary_text(behind[i], std::signbit(imags[i]) && !std::isnan(imags[i]));
    width = std::max(width, words[i].size());
  }
  for (std::string& word : words) word = pad(width, word);
  return words;
}

template <class T>
std::string format_one_complex(std::complex<T> value) {
  const std::string imag = imaginary_text(format_one_float(value.imag()),
                                          std::signbit(value.imag()) && !std::isnan(value.imag()));
  return "(" + format_one_float(value.real()) + imag + ")";
}

}  // namespace

std::vector<std::string> format_elements(const TensorImpl& tensor,
                                         const std::vector<std::int64_t>& offsets) {
  return visit_any_dtype(tensor.dtype, [&]<class T>() {
    const auto* first = reinterpret_cast<const T*>(tensor.data);
    if constexpr (is_complex(dtype_of<T>)) {
      std::vector<T> values;
      values.reserve(offsets.size());
      for (const std::int64_t offset : offsets) values.push_back(first[offset]);
      return format_complex(values);
    } else if constexpr (std::is_same_v<T, bool>) {
      std::vector<std::string> words;
      words.reserve(offsets.size());
      for (const std::int64_t offset : offsets)
        words.emplace_back(first[offset] ? " True" : "False");
      return words;
    } else {
      std::vector<T> values;
      values.reserve(offsets.size());
      for (const std::int64_t offset : offsets) values.push_back(first[offset]);
      return format_values(values);
    }
  });
}

std::string format_scalar(const TensorImpl& tensor) {
  return visit_any_dtype(tensor.dtype, [&]<class T>() -> std::string {
    const T value = *reinterpret_cast<const T*>(tensor.data);
    if constexpr (is_complex(dtype_of<T>)) {
      return format_one_complex(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      return value ? "True" : "False";
    } else if constexpr (std::is_integral_v<T>) {
      return std::to_string(value);
    } else {
      return format_one_float(value);
    }
  });
}

std::string with_commas(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

}  // namespace extensor::detail
