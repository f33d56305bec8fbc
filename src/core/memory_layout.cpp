#include "core/memory_layout.h"

#include <cstdlib>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/make_tensor.h"

namespace extensor::detail {

namespace {

constexpr std::size_t channels_last_order[] = {1, 3, 2, 0};  // innermost first

// Dense strides, innermost dimension first. Products wrap: a shape too large for memory is rejected
// when memory is allocated.
Strides strides_in_order(const Shape& shape, std::span<const std::size_t> order) {
  Strides strides(shape.size(), 1);
  std::int64_t step = 1;
  for (const std::size_t d : order) {
    strides[d] = step;
    [[maybe_unused]] const bool wraps =
        __builtin_mul_overflow(step, shape[d] == 0 ? 1 : shape[d], &step);
  }
  return strides;
}

// 1: dimension a lies outside b; −1: inside; 0: the operands do not decide.
int compare(const Shape& shape, std::size_t operand_count, const std::int64_t* const* strides,
            std::size_t a, std::size_t b) {
  for (std::size_t k = 0; k < operand_count; ++k) {
    const std::int64_t stride_a = std::llabs(strides[k][a]), stride_b = std::llabs(strides[k][b]);
    if (stride_a == 0 || stride_b == 0) continue;
    if (stride_a != stride_b) return stride_a < stride_b ? -1 : 1;
    // Of two equal strides, only that of the longer dimension is walked.
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

}  // namespace

Strides channels_last_strides(const Shape& shape) {
  return strides_in_order(shape, channels_last_order);
}

bool is_channels_last(const Shape& shape, const Strides& strides) {
  if (shape.size() != 4) return false;
  std::int64_t step = 1;
  bool dense = true;
  for (const std::size_t d : channels_last_order) {
    if (shape[d] == 0) return true;
    if (shape[d] == 1) continue;
    dense &= strides[d] == step;
    step *= shape[d];
  }
  return dense;
}

MemoryFormat format_of(const Tensor& x) {
  const Shape& shape = x.impl().shape;
  const Strides& strides = x.impl().strides;
  if (shape.size() != 4 || x.impl().numel == 0 || strides[1] == 0) return MemoryFormat::contiguous;
  std::int64_t least = 0;
  for (const std::size_t d : channels_last_order) {
    if (strides[d] < least) return MemoryFormat::contiguous;
    // [batch, 1, 1, 1] has the same strides in both formats.
    if (d == 0 && least == strides[1]) return MemoryFormat::contiguous;
    least = strides[d] * shape[d];
  }
  return MemoryFormat::channels_last;
}

MemoryFormat common_format(const Tensor& a, const Tensor& b) {
  for (const Tensor* x : {&a, &b}) {
    if (x->defined() && format_of(*x) == MemoryFormat::channels_last) {
      return MemoryFormat::channels_last;
    }
  }
  return MemoryFormat::contiguous;
}

void check_format(const char* operation, const Shape& shape, MemoryFormat format) {
  check_option(operation, "memory_format", format, MemoryFormat::preserve);
  if (format == MemoryFormat::preserve) {
    throw ValueError(message(operation,
                             ": memory_format is preserve, which is the format of no tensor here "
                             "(allowed: contiguous, channels_last)"));
  }
  if (format == MemoryFormat::channels_last && shape.size() != 4) {
    throw ShapeError(message(operation, ": memory_format is channels_last and the shape is ", shape,
                             " (allowed: 4 dimensions [batch, channels, height, width])"));
  }
}

Strides result_strides(const Shape& shape, std::size_t operand_count,
                       const std::int64_t* const* strides) {
  const std::size_t rank = shape.size();
  std::size_t order[max_rank];  // innermost first; row-major to begin with
  for (std::size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  // An insertion sort that skips dimensions that cannot be compared.
  for (std::size_t i = 1; i < rank; ++i) {
    std::size_t moved = i;
    for (std::size_t j = i; j-- > 0;) {
      const int found = compare(shape, operand_count, strides, order[j], order[moved]);
      if (found < 0) break;
      if (found == 0) continue;
      std::swap(order[j], order[moved]);
      moved = j;
    }
  }
  return strides_in_order(shape, {order, rank});
}

Strides dense_strides(const Tensor& x) {
  const std::int64_t* const strides[] = {x.impl().strides.data()};
  return result_strides(x.impl().shape, 1, strides);
}

}  // namespace extensor::detail
