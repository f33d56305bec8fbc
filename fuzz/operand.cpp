#include "fuzz/operand.h"

#include <cmath>
#include <limits>

namespace extensor::fuzz {

namespace {

constexpr DType every_dtype[] = {DType::bool_,  DType::int8,    DType::int16,    DType::int32,
                                 DType::int64,  DType::uint8,   DType::uint16,   DType::uint32,
                                 DType::uint64, DType::float16, DType::bfloat16, DType::float32,
                                 DType::float64};
constexpr DType every_float[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

double draw_number(Bytes& bytes, DType dtype, Numbers numbers) {
  if (dtype == DType::bool_) return bytes.byte() & 1;
  const int whole = bytes.byte();
  if (!is_floating_point(dtype)) return is_unsigned_integer(dtype) ? whole : whole / 2 - 64;
  if (numbers == Numbers::any && whole >= 240) {
    constexpr double special[] = {0.0,
                                  -0.0,
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::quiet_NaN(),
                                  6e4,
                                  -6e4,
                                  1e-7,
                                  3e38,
                                  -3e38,
                                  1e-40,
                                  88.5,
                                  -104.0,
                                  1.0,
                                  -1.0,
                                  0.5};
    return special[whole - 240];
  }
  return (whole - 120) / 32.0 + bytes.byte() / 8192.0;
}

// The elements of `x` read one by one through shape and strides.
std::vector<double> read(const Tensor& dense) { return dense.to(float64).to_vector<double>(); }

}  // namespace

std::int64_t count_of(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

Shape draw_shape(Bytes& bytes) {
  Shape shape;
  const std::int64_t rank = bytes.below(5);
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < rank; ++d) {
    constexpr std::int64_t sizes[] = {1, 2, 3, 5, 4, 7, 8, 17, 33, 1, 0, 16, 6, 9, 64, 2};
    std::int64_t size = sizes[bytes.below(16)];
    if (count * size > 500) size = 1;
    count *= size == 0 ? 1 : size;
    shape.push_back(size);
  }
  return shape;
}

DType draw_float(Bytes& bytes) { return every_float[bytes.below(4)]; }
DType draw_dtype(Bytes& bytes) { return every_dtype[bytes.below(13)]; }

std::int64_t broadcast_position(const Shape& from, const Shape& shape, std::int64_t index) {
  std::int64_t position = 0, step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::int64_t at = index % shape[d];
    index /= shape[d];
    const std::size_t missing = shape.size() - from.size();
    if (d < missing) continue;
    const std::int64_t size = from[d - missing];
    position += (size == 1 ? 0 : at) * step;
    step *= size;
  }
  return position;
}

Operand draw_operand(Bytes& bytes, const Shape& shape, DType dtype, Numbers numbers) {
  const std::size_t rank = shape.size();
  // The memory that the view refers to: per axis a step and surrounding elements, or a repetition.
  enum { plain, stepped, reversed, repeated };
  std::vector<int> ways(rank);
  Dims order(rank, 0);
  for (std::size_t d = 0; d < rank; ++d) {
    ways[d] = static_cast<int>(bytes.below(8));
    if (ways[d] > repeated) ways[d] = plain;
    order[d] = static_cast<std::int64_t>(d);
  }
  for (std::size_t d = rank; d-- > 1;) {
    std::swap(order[d],
              order[static_cast<std::size_t>(bytes.below(static_cast<std::int64_t>(d) + 1))]);
  }
  // memory axis m is axis order[m] of the result
  Shape memory_shape;
  for (std::size_t m = 0; m < rank; ++m) {
    const auto d = static_cast<std::size_t>(order[m]);
    const std::int64_t size = shape[d];
    memory_shape.push_back(ways[d] == stepped    ? 2 * size + 1
                           : ways[d] == repeated ? (size == 0 ? 0 : 1)
                                                 : size);
  }
  Tensor memory = empty(memory_shape, float64);
  double* numbers_in_memory = memory.data<double>();
  for (std::int64_t i = 0; i < memory.numel(); ++i) {
    numbers_in_memory[i] = draw_number(bytes, dtype, numbers);
  }
  memory = memory.to(dtype);
  const std::vector<double> stored = read(memory);
  Tensor view = memory;
  for (std::size_t m = 0; m < rank; ++m) {
    const auto d = static_cast<std::size_t>(order[m]);
    const auto axis = static_cast<std::int64_t>(m);
    if (ways[d] == stepped) view = view.slice(axis, 1, {}, 2);
    if (ways[d] == reversed) view = view.slice(axis, {}, {}, -1);
  }
  Dims inverse(rank, 0);
  for (std::size_t m = 0; m < rank; ++m) {
    inverse[static_cast<std::size_t>(order[m])] = static_cast<std::int64_t>(m);
  }
  if (rank > 0) view = view.transpose(inverse);
  Operand operand{view.broadcast_to(shape), {}};
  const std::int64_t count = count_of(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, position = 0;
    std::vector<std::int64_t> index(rank);
    for (std::size_t d = rank; d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    for (std::size_t m = 0; m < rank; ++m) {
      const auto d = static_cast<std::size_t>(order[m]);
      const std::int64_t at = ways[d] == stepped    ? 2 * index[d] + 1
                              : ways[d] == reversed ? shape[d] - 1 - index[d]
                              : ways[d] == repeated ? 0
                                                    : index[d];
      position = position * memory_shape[m] + at;
    }
    operand.values.push_back(stored[static_cast<std::size_t>(position)]);
  }
  return operand;
}

}  // namespace extensor::fuzz
