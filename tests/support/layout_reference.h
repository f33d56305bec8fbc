// Random tensor layouts for tests, and a reference that visits every element through its strides
// and is independent of the library's kernels. The reference computes in long double, which
// represents every value of every dtype exactly.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "extensor/extensor.h"

namespace test_support {

using namespace extensor;
using Value = long double;
using Random = std::mt19937_64;

inline constexpr DType every_dtype[] = {bool_,  int8,   int16,   int32,    int64,   uint8,  uint16,
                                        uint32, uint64, float16, bfloat16, float32, float64};
inline constexpr DType float_dtypes[] = {float16, bfloat16, float32, float64};

// ---- values of a dtype --------------------------------------------------------------------------

struct FloatFormat {
  int precision, lowest_exponent, highest_exponent;  // of the value as fraction · 2^exponent
};
inline FloatFormat format_of(DType dtype) {
  if (dtype == float16) return {11, -13, 16};
  if (dtype == bfloat16) return {8, -125, 128};
  return {24, -125, 128};
}

// Rounded to nearest even, once.
inline Value round_to_float(Value value, DType dtype) {
  if (dtype == float64) return static_cast<double>(value);
  if (value == 0 || !std::isfinite(value)) return value;
  const FloatFormat format = format_of(dtype);
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent, format.lowest_exponent) - format.precision;
  const Value rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  if (std::fabs(rounded) < std::ldexp(Value(1), format.highest_exponent)) return rounded;
  return std::copysign(std::numeric_limits<Value>::infinity(), value);
}

inline Value wrap_to_integer(__int128 value, DType dtype) {
  const int bits = static_cast<int>(8 * itemsize(dtype));
  const auto size = static_cast<__int128>(1) << bits;
  __int128 low = value & (size - 1);
  if (is_signed_integer(dtype) && low >= size / 2) low -= size;
  return static_cast<Value>(low);
}

// The rule for casts: bool is "not 0", a float saturates and NaN is 0, an integer wraps.
inline Value cast(Value value, DType from, DType to) {
  if (to == bool_) return value != 0;
  if (is_floating_point(to)) return round_to_float(value, to);
  if (!is_floating_point(from)) return wrap_to_integer(static_cast<__int128>(value), to);
  if (std::isnan(value)) return 0;
  const int bits = static_cast<int>(8 * itemsize(to)) - is_signed_integer(to);
  const Value most = std::ldexp(Value(1), bits) - 1;
  const Value least = is_signed_integer(to) ? -most - 1 : 0;
  return std::clamp(std::trunc(value), least, most);
}

inline Value decode_half(std::uint16_t bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const Value fraction = bits & ((1 << fraction_bits) - 1);
  Value value;
  if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else if (exponent == (0x7fff >> fraction_bits)) {
    value = fraction == 0 ? std::numeric_limits<Value>::infinity()
                          : std::numeric_limits<Value>::quiet_NaN();
  } else {
    value = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <class T>
Value load_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return static_cast<Value>(value);
}

inline Value load(const std::byte* from, DType dtype) {
  switch (dtype) {
    case bool_:
    case uint8:
      return load_as<std::uint8_t>(from);
    case int8:
      return load_as<std::int8_t>(from);
    case int16:
      return load_as<std::int16_t>(from);
    case int32:
      return load_as<std::int32_t>(from);
    case int64:
      return load_as<std::int64_t>(from);
    case uint16:
      return load_as<std::uint16_t>(from);
    case uint32:
      return load_as<std::uint32_t>(from);
    case uint64:
      return load_as<std::uint64_t>(from);
    case float32:
      return load_as<float>(from);
    case float64:
      return load_as<double>(from);
    default:
      break;
  }
  std::uint16_t bits;
  std::memcpy(&bits, from, 2);
  return dtype == float16 ? decode_half(bits, 10, 15) : decode_half(bits, 7, 127);
}

inline bool same(Value a, Value b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// ---- random layouts -----------------------------------------------------------------------------

enum class Style { any, small, signs };  // every bit pattern; multiples of ⅛ up to 4; ±1 and few 2

// Fills dense memory with random elements.
inline void randomize(Random& random, Tensor& dense, Style style) {
  const DType dtype = dense.dtype();
  auto* bytes = dense.impl().data;
  if (style == Style::any && dtype != bool_) {
    for (std::size_t i = 0; i < dense.nbytes(); ++i) bytes[i] = static_cast<std::byte>(random());
    return;
  }
  const auto store = [&](std::int64_t i, auto value) {
    std::memcpy(bytes + i * static_cast<std::int64_t>(sizeof(value)), &value, sizeof(value));
  };
  for (std::int64_t i = 0; i < dense.numel(); ++i) {
    const auto bits = static_cast<std::int64_t>(random() >> 8);
    const float eighths = static_cast<float>(bits % 65 - 32) / 8;
    const float sign = bits % 400 == 0 ? 2.0F : bits % 2 == 0 ? 1.0F : -1.0F;
    const float real = style == Style::small ? eighths : sign;
    const std::int64_t whole = style == Style::small ? bits % 9 - 4 : bits % 3 - 1;
    switch (dtype) {
      case bool_:
        store(i, static_cast<std::uint8_t>(bits % 5 != 0));
        break;
      case float64:
        store(i, static_cast<double>(real));
        break;
      case float32:
        store(i, real);
        break;
      case float16:
        store(i, Float16(real).bits());
        break;
      case bfloat16:
        store(i, BFloat16(real).bits());
        break;
      default:  // little endian: the low bytes are the narrower integer
        std::memcpy(bytes + i * static_cast<std::int64_t>(itemsize(dtype)), &whole,
                    itemsize(dtype));
    }
  }
}

inline std::int64_t count_of(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

struct View {
  Tensor base;  // dense; elements outside the view must stay unchanged
  Tensor view;
};

// A view of `shape` into a larger tensor: axes permuted, with gaps, offsets and reversals.
inline View random_view(Random& random, const Shape& shape, DType dtype, Style style) {
  const std::size_t rank = shape.size();
  std::vector<std::int64_t> order(rank), step(rank, 1), begin(rank, 0), behind(rank, 0);
  std::vector<bool> reversed(rank, false);
  for (std::size_t d = 0; d < rank; ++d) order[d] = static_cast<std::int64_t>(d);
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  std::int64_t room = 300000 / std::max<std::int64_t>(1, count_of(shape));
  for (std::size_t d = 0; d < rank; ++d) {
    if (random() % 4 == 0 && room >= 3) {
      step[d] = 2 + static_cast<std::int64_t>(random() % 2);
      room /= step[d];
    }
    if (random() % 4 == 0) begin[d] = static_cast<std::int64_t>(random() % 3);
    if (random() % 4 == 0) behind[d] = static_cast<std::int64_t>(random() % 3);
    reversed[d] = random() % 4 == 0;
  }
  Shape base_shape;
  Dims axes(rank, 0);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    base_shape.push_back(begin[d] + shape[d] * step[d] + behind[d]);
    axes[d] = static_cast<std::int64_t>(i);
  }
  View result;
  result.base = empty(base_shape, dtype);
  randomize(random, result.base, style);
  result.view = result.base.transpose(axes);
  for (std::size_t d = 0; d < rank; ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    result.view = result.view.slice(axis, begin[d], begin[d] + shape[d] * step[d], step[d]);
    if (reversed[d]) result.view = result.view.slice(axis, {}, {}, -1);
  }
  EXPECT_EQ(result.view.shape(), shape);
  return result;
}

// A shape that broadcasts to `shape`: some dimensions 1, some leading ones missing.
inline Tensor random_operand(Random& random, const Shape& shape, DType dtype, Style style) {
  Shape own;
  const std::size_t missing =
      random() % 3 == 0 && !shape.empty() ? random() % (shape.size() + 1) : 0;
  for (std::size_t d = missing; d < shape.size(); ++d) {
    own.push_back(random() % 4 == 0 ? 1 : shape[d]);
  }
  return random_view(random, own, dtype, style).view;
}

// A shape of rank 0 to 6 with about `count` elements.
inline Shape random_shape(Random& random, std::int64_t count) {
  Shape shape;
  const std::size_t rank = random() % 7;
  for (std::size_t d = 0; d < rank; ++d) {
    const bool last = d + 1 == rank;
    std::int64_t size = last ? count : 1 + static_cast<std::int64_t>(random() % 12);
    if (random() % 6 == 0) size = 1;
    size = std::clamp<std::int64_t>(size, 1, std::max<std::int64_t>(1, count));
    shape.push_back(size);
    count /= size;
  }
  std::shuffle(shape.begin(), shape.end(), random);
  return shape;
}

// ---- the naive walk -----------------------------------------------------------------------------

// Calls visit(pointers) at every index of `shape`, operands broadcast to it, in row-major order.
template <class Visit>
void walk(const Shape& shape, const std::vector<Tensor>& operands, Visit&& visit) {
  const std::size_t rank = shape.size();
  std::vector<std::vector<std::int64_t>> bytes;
  std::vector<const std::byte*> at;
  for (const Tensor& operand : operands) {
    std::vector<std::int64_t> strides(rank, 0);
    const std::size_t added = rank - operand.shape().size();
    for (std::size_t d = 0; d < operand.shape().size(); ++d) {
      if (operand.shape()[d] == 1) continue;
      strides[added + d] = operand.strides()[d] * static_cast<std::int64_t>(operand.itemsize());
    }
    bytes.push_back(strides);
    at.push_back(operand.impl().data);
  }
  if (count_of(shape) == 0) return;
  std::vector<std::int64_t> index(rank, 0);
  for (;;) {
    visit(at.data());
    std::size_t d = rank;
    for (;; --d) {
      if (d == 0) return;
      const bool more = ++index[d - 1] < shape[d - 1];
      const std::int64_t steps = more ? 1 : 1 - shape[d - 1];
      for (std::size_t k = 0; k < at.size(); ++k) at[k] += steps * bytes[k][d - 1];
      if (more) break;
      index[d - 1] = 0;
    }
  }
}

inline std::vector<Value> values_of(const Tensor& x) {
  std::vector<Value> values;
  walk(x.shape(), {x}, [&](const std::byte* const* at) { values.push_back(load(*at, x.dtype())); });
  return values;
}

}  // namespace test_support
