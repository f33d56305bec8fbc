// Shared by the kernels of reductions: the arguments of a call, the operations, sums that carry their
// rounding errors, and how elements are read and results written.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cuda/context.h"
#include "backend/cuda/elementwise_rows.cuh"

namespace extensor::backend::cuda::reductions {

// The dimensions of a list, outermost first.
struct Axes {
  int count;
  bool short_count;
  Divider dividers[max_kernel_dims];
  std::int64_t sizes[max_kernel_dims], strides[max_kernel_dims], out_strides[max_kernel_dims];

  __device__ std::int64_t offset(std::int64_t i, const std::int64_t* steps) const {
    std::int64_t offset = 0;
    if (short_count) {
      auto rest = static_cast<std::uint32_t>(i);
      for (int d = count - 1; d > 0; --d) {
        const Divider& by = dividers[d];
        const std::uint32_t quotient = (__umulhi(rest, by.magic) + rest) >> by.shift;
        offset += (rest - quotient * by.size) * steps[d];
        rest = quotient;
      }
      return count == 0 ? 0 : offset + rest * steps[0];
    }
    for (int d = count - 1; d > 0; --d) {
      const std::int64_t quotient = i / sizes[d];
      offset += (i - quotient * sizes[d]) * steps[d];
      i = quotient;
    }
    return count == 0 ? 0 : offset + i * steps[0];
  }
};

struct Reduction {
  ReduceOp op;
  const std::byte* input;
  DType input_dtype;
  bool truth;  // any, all: elements count as 0 or 1
  std::byte* out;
  DType out_dtype;
  double divisor;
  Axes kept, reduced;
  std::int64_t results, length;
  std::int64_t parts, part_length;  // of every result
  // Of every part, [part, result]: null if there is one part, which is the result.
  std::byte* values;
  std::int64_t* positions;
};

// ---- the operations

template <class A>
struct Found {
  A value;
  std::int64_t position;
};

__device__ __forceinline__ bool finds_position(ReduceOp op) {
  return op == ReduceOp::argmax || op == ReduceOp::argmin;
}

// `sum`: the operation is known to be a sum when the kernel is compiled.
template <class A, bool sum>
struct Operation {
  ReduceOp op;

  __device__ __forceinline__ A identity() const {
    using Limits = std::numeric_limits<A>;
    if (sum || op == ReduceOp::sum) return std::is_floating_point_v<A> ? A(-0.0) : A(0);
    if (op == ReduceOp::prod) return A(1);
    const bool largest = op == ReduceOp::max || op == ReduceOp::any || op == ReduceOp::argmax;
    if constexpr (Limits::has_infinity) return largest ? -Limits::infinity() : Limits::infinity();
    return largest ? Limits::lowest() : Limits::max();
  }

  // Whether b replaces a as the largest or smallest element; NaN replaces numbers.
  __device__ __forceinline__ bool wins(A b, A a) const {
    const bool largest = op == ReduceOp::max || op == ReduceOp::any || op == ReduceOp::argmax;
    return (largest ? b > a : b < a) || (b != b && a == a);
  }

  __device__ __forceinline__ A combine(A a, A b) const {
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;
      if (sum || op == ReduceOp::sum) return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
      if (op == ReduceOp::prod) return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
    } else {
      if (sum || op == ReduceOp::sum) return a + b;
      if (op == ReduceOp::prod) return a * b;
    }
    return wins(b, a) ? b : a;
  }

  // The first of equal elements stays, in whatever order they are combined.
  __device__ __forceinline__ Found<A> combine(Found<A> a, Found<A> b) const {
    const bool later_wins = wins(b.value, a.value);
    const bool equal = !later_wins && !wins(a.value, b.value);
    return later_wins || (equal && b.position < a.position) ? b : a;
  }
};

template <class A>
__device__ __forceinline__ A load_element(const Reduction& call, std::int64_t at) {
  if (call.truth) {
    if (call.input_dtype == DType::bool_) {
      return static_cast<A>(element<std::uint8_t>(call.input, at) != 0);
    }
    if (is_floating_point(call.input_dtype)) {
      return static_cast<A>(convert_element<double>(call.input, call.input_dtype, at) != 0);
    }
    return static_cast<A>(convert_to_integer<std::uint64_t>(call.input, call.input_dtype, at, 0) !=
                          0);
  }
  if constexpr (std::is_floating_point_v<A>) {
    return convert_element<A>(call.input, call.input_dtype, at);
  } else {
    return convert_to_integer<A>(call.input, call.input_dtype, at, 0);
  }
}

// In: the type of the elements, or void for any dtype.
template <class In, class A>
__device__ __forceinline__ A load_input(const Reduction& call, std::int64_t at) {
  if constexpr (std::is_void_v<In>) {
    return load_element<A>(call, at);
  } else {
    return static_cast<A>(load_as_compute(reinterpret_cast<const In*>(call.input)[at]));
  }
}

// A long sum. Blocks of additions go into a total that carries what rounding cut off (Knuth's sum of
// two numbers), so that the error does not grow with the length.
template <class A>
struct Total {
  A value = A(-0.0), error = A(0);

  __device__ __forceinline__ void add(A block) {
    const A sum = value + block, part = sum - value;
    error += (value - (sum - part)) + (block - part);
    value = sum;
  }

  // The error of an infinite sum is NaN, and +0 would change the sign of a sum of -0.
  __device__ __forceinline__ A result() const {
    return error == 0 || error != error ? value : value + error;
  }
};

// The additions of a thread into one sum before it goes into the total.
constexpr int block_additions = 32;

template <class A, bool sum>
constexpr bool carries_error = sum && std::is_floating_point_v<A>;

template <class A>
__device__ __forceinline__ void write(const Reduction& call, std::int64_t result, A value,
                                      std::int64_t position) {
  const std::int64_t at = call.kept.offset(result, call.kept.out_strides);
  if (finds_position(call.op)) {
    reinterpret_cast<std::int64_t*>(call.out)[at] = position;
    return;
  }
  if constexpr (std::is_floating_point_v<A>) {
    if (call.divisor != 1) value = static_cast<A>(static_cast<double>(value) / call.divisor);
  }
  store_element<A>(call.out, call.out_dtype, at, value);
}

// Writes a result, or a part of it.
template <class A>
__device__ __forceinline__ void put(const Reduction& call, std::int64_t result, std::int64_t part,
                                    A value, std::int64_t position) {
  if (call.values == nullptr) return write(call, result, value, position);
  const std::int64_t slot = part * call.results + result;
  reinterpret_cast<A*>(call.values)[slot] = value;
  if (call.positions != nullptr) call.positions[slot] = position;
}

}  // namespace extensor::backend::cuda::reductions
