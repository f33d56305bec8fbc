// Elementwise functions of complex numbers: a kernel for operands of any dtype and layout, one for
// those functions in it that take longer than memory, and one by 16 bytes for dense operands of one
// dtype. The op is an argument, so that the library stays small.
#include <cstring>

#include "backend/cuda/complex_number.cuh"
#include "backend/cuda/context.h"
#include "backend/cuda/elementwise.h"
#include "backend/cuda/elementwise_rows.cuh"
#include "backend/cuda/kernels.h"
#include "core/convert.h"
#include "core/visit.h"

namespace extensor::backend::cuda {

namespace {

namespace words = complex_words;

// ---- functions

// Real results are real parts, and true is 1.
__device__ __forceinline__ ComplexNumber as_number(ComplexNumber z) { return z; }
__device__ __forceinline__ ComplexNumber as_number(double x) { return {x, 0}; }
__device__ __forceinline__ ComplexNumber as_number(bool x) { return {x ? 1.0 : 0.0, 0}; }

// `b` is not read by functions of one number.
__device__ __forceinline__ ComplexNumber compute_simple(ComplexOp op, ComplexNumber a,
                                                        ComplexNumber b) {
  const ComplexNumber z = a;
  switch (op) {
#define TWO(name, expression) \
  case ComplexOp::name:       \
    return as_number(expression);
#define ONE TWO
#define COSTLY_ONE(...)
#define COSTLY_TWO(...)
#include "backend/complex_rows.def"
    default:
      return z;
  }
}

__device__ __forceinline__ ComplexNumber compute_costly(ComplexOp op, ComplexNumber a,
                                                        ComplexNumber b) {
  const ComplexNumber z = a;
  switch (op) {
#define ONE(...)
#define TWO(...)
#define COSTLY_TWO(name, expression) \
  case ComplexOp::name:              \
    return as_number(expression);
#define COSTLY_ONE COSTLY_TWO
#include "backend/complex_rows.def"
    default:
      return z;
  }
}

bool is_costly(ComplexOp op) {
  switch (op) {
#define ONE(...)
#define TWO(...)
#define COSTLY_ONE(name, expression) case ComplexOp::name:
#define COSTLY_TWO COSTLY_ONE
#include "backend/complex_rows.def"
    return true;
    default:
      return false;
  }
}

// ---- operands of any dtype and layout

struct StridedComplexCall {
  ComplexOp op;
  int inputs;
  bool is_single;  // computes complex64: operands and results have the precision of float
  Iteration over;  // the result's strides first
  std::byte* data[max_inputs + 1];
  DType dtype[max_inputs + 1];
  ComplexNumber number[max_inputs + 1];  // of inputs without data
};

template <class Part>
struct alignas(2 * sizeof(Part)) Pair {
  Part re, im;
};

// Complex numbers are aligned to their size, or, in memory of others, to that of their parts.
template <class Part>
__device__ __forceinline__ ComplexNumber load_pair(const std::byte* data, std::int64_t i) {
  const std::byte* at = data + i * static_cast<std::int64_t>(2 * sizeof(Part));
  if (reinterpret_cast<std::uintptr_t>(data) % sizeof(Pair<Part>) == 0) {
    const Pair<Part> pair = *reinterpret_cast<const Pair<Part>*>(at);
    return {pair.re, pair.im};
  }
  const Part* parts = reinterpret_cast<const Part*>(at);
  return {parts[0], parts[1]};
}
template <class Part>
__device__ __forceinline__ void store_pair(std::byte* data, std::int64_t i, ComplexNumber value) {
  std::byte* at = data + i * static_cast<std::int64_t>(2 * sizeof(Part));
  const Pair<Part> pair{static_cast<Part>(value.re), static_cast<Part>(value.im)};
  if (reinterpret_cast<std::uintptr_t>(data) % sizeof(Pair<Part>) == 0) {
    *reinterpret_cast<Pair<Part>*>(at) = pair;
    return;
  }
  Part* parts = reinterpret_cast<Part*>(at);
  parts[0] = pair.re;
  parts[1] = pair.im;
}

__device__ __forceinline__ ComplexNumber rounded(ComplexNumber value) {
  return {static_cast<double>(static_cast<float>(value.re)),
          static_cast<double>(static_cast<float>(value.im))};
}

__device__ ComplexNumber load_number(const StridedComplexCall& call, int operand, std::int64_t i) {
  const std::byte* data = call.data[operand];
  if (data == nullptr) return call.number[operand];
  const DType dtype = call.dtype[operand];
  if (dtype == DType::complex64) return load_pair<float>(data, i);
  if (dtype == DType::complex128) {
    const ComplexNumber value = load_pair<double>(data, i);
    return call.is_single ? rounded(value) : value;
  }
  if (call.is_single) return {convert_element<float>(data, dtype, i), 0};
  return {convert_element<double>(data, dtype, i), 0};
}

__device__ void store_number(const StridedComplexCall& call, std::int64_t i, ComplexNumber value) {
  if (call.is_single) value = rounded(value);
  std::byte* data = call.data[0];
  switch (call.dtype[0]) {
    case DType::complex64:
      return store_pair<float>(data, i, value);
    case DType::complex128:
      return store_pair<double>(data, i, value);
    case DType::float32:
      reinterpret_cast<float*>(data)[i] = static_cast<float>(value.re);
      return;
    case DType::float64:
      reinterpret_cast<double*>(data)[i] = value.re;
      return;
    default:  // bool
      reinterpret_cast<std::uint8_t*>(data)[i] = value.re != 0 ? 1 : 0;
      return;
  }
}

template <bool costly>
__global__ void __launch_bounds__(elementwise_threads, costly ? 2 : 4)
    strided_complex(const __grid_constant__ StridedComplexCall call) {
  for (std::int64_t i = first_index(); i < call.over.count; i += index_step()) {
    std::int64_t at[max_inputs + 1];
    find_offsets(call.over, i, at);
    if (!costly && call.op == ComplexOp::where) {
      const bool condition = call.data[1] == nullptr
                                 ? call.number[1].re != 0
                                 : reinterpret_cast<const std::uint8_t*>(call.data[1])[at[1]] != 0;
      store_number(call, at[0],
                   condition ? load_number(call, 2, at[2]) : load_number(call, 3, at[3]));
      continue;
    }
    const ComplexNumber a = load_number(call, 1, at[1]);
    const ComplexNumber b = call.inputs > 1 ? load_number(call, 2, at[2]) : ComplexNumber(0);
    const ComplexNumber y = costly ? compute_costly(call.op, a, b) : compute_simple(call.op, a, b);
    store_number(call, at[0], y);
  }
}

// A number of a call with the precision in which it is computed.
ComplexNumber number_of(const Operand& input, bool is_condition, bool is_single) {
  if (is_condition) return {input.number[0] != std::byte{0} ? 1.0 : 0.0, 0};
  ComplexNumber number(0);
  detail::visit_any_dtype(input.dtype, [&]<class From>() {
    From value;
    std::memcpy(&value, input.number, sizeof value);
    if constexpr (is_complex(dtype_of<From>)) {
      number = {static_cast<double>(value.real()), static_cast<double>(value.imag())};
      if (!is_single) return;
      number = {static_cast<double>(static_cast<float>(number.re)),
                static_cast<double>(static_cast<float>(number.im))};
    } else if (is_single) {
      number = {static_cast<double>(detail::convert<float>(value)), 0};
    } else {
      number = {detail::convert<double>(value), 0};
    }
  });
  return number;
}

// ---- dense operands of one complex dtype

struct DenseComplexCall {
  ComplexOp op;
  int inputs;
  std::int64_t count;
  const std::uint8_t* condition;  // of where; the other inputs are its choices
  const void* data[2];            // null: a number
  ComplexNumber number[2];
  void* out;
};

template <class Part>
__device__ __forceinline__ ComplexNumber compute_dense(const DenseComplexCall& call, std::int64_t i,
                                                       ComplexNumber a, ComplexNumber b) {
  if (call.op == ComplexOp::where) return call.condition[i] != 0 ? a : b;
  return compute_simple(call.op, a, b);
}

// 16 bytes at a time: two numbers of float parts, or one of double.
template <class Part>
__global__ void __launch_bounds__(elementwise_threads)
    dense_complex(const __grid_constant__ DenseComplexCall call) {
  constexpr int width = 8 / sizeof(Part);
  struct alignas(16) Pack {
    Part parts[2 * width];
  };
  const auto* first = static_cast<const Pack*>(call.data[0]);
  const auto* second = static_cast<const Pack*>(call.data[1]);
  auto* out = static_cast<Pack*>(call.out);
  const std::int64_t packs = call.count / width;
  for (std::int64_t p = first_index(); p < packs; p += index_step()) {
    Pack a, b, y;
    if (first != nullptr) a = first[p];
    if (second != nullptr) b = second[p];
#pragma unroll
    for (int e = 0; e < width; ++e) {
      const ComplexNumber x =
          first == nullptr ? call.number[0] : ComplexNumber(a.parts[2 * e], a.parts[2 * e + 1]);
      const ComplexNumber z =
          second == nullptr ? call.number[1] : ComplexNumber(b.parts[2 * e], b.parts[2 * e + 1]);
      const ComplexNumber value = compute_dense<Part>(call, p * width + e, x, z);
      y.parts[2 * e] = static_cast<Part>(value.re);
      y.parts[2 * e + 1] = static_cast<Part>(value.im);
    }
    out[p] = y;
  }
  // The number behind the last pack.
  const std::int64_t i = packs * width;
  if (i < call.count && first_index() == 0) {
    const auto number = [&](int k) {
      if (call.data[k] == nullptr) return call.number[k];
      const Part* parts = static_cast<const Part*>(call.data[k]) + 2 * i;
      return ComplexNumber(parts[0], parts[1]);
    };
    const ComplexNumber value = compute_dense<Part>(call, i, number(0), number(1));
    Part* parts = static_cast<Part*>(call.out) + 2 * i;
    parts[0] = static_cast<Part>(value.re);
    parts[1] = static_cast<Part>(value.im);
  }
}

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

// Runs the kernel by 16 bytes; false if it does not suit the call.
bool run_dense(ComplexOp op, const ElementwiseCall& call) {
  if (!call.contiguous || is_costly(op) || call.out.dtype != call.compute) return false;
  if (!is_aligned(call.out.data)) return false;
  const bool is_single = call.compute == DType::complex64;
  DenseComplexCall passed{};
  passed.op = op;
  passed.count = call.numel;
  passed.out = call.out.data;
  int skipped = 0;
  if (op == ComplexOp::where) {
    const Operand& condition = call.inputs[0];
    if (condition.is_number() || call.repeats[0]) return false;
    passed.condition = reinterpret_cast<const std::uint8_t*>(condition.data);
    skipped = 1;
  }
  passed.inputs = call.input_count - skipped;
  for (int k = 0; k < passed.inputs; ++k) {
    const Operand& input = call.inputs[k + skipped];
    if (input.is_number()) {
      passed.number[k] = number_of(input, false, is_single);
      continue;
    }
    if (call.repeats[k + skipped] || input.dtype != call.compute) return false;
    if (!is_aligned(input.data)) return false;
    passed.data[k] = input.data;
  }
  const std::int64_t packs = is_single ? call.numel / 2 : call.numel;
  const int blocks = blocks_for(packs, elementwise_threads, whole_grid);
  if (is_single) {
    dense_complex<float><<<blocks, elementwise_threads, 0, stream()>>>(passed);
  } else {
    dense_complex<double><<<blocks, elementwise_threads, 0, stream()>>>(passed);
  }
  launched("elementwise");
  return true;
}

}  // namespace

void complex_elementwise(ComplexOp op, const ElementwiseCall& call) {
  if (call.numel == 0 || run_dense(op, call)) return;
  StridedComplexCall passed{};
  passed.op = op;
  passed.inputs = call.input_count;
  passed.is_single = call.compute == DType::complex64;
  passed.dtype[0] = call.out.dtype;
  for (int k = 0; k < call.input_count; ++k) {
    const Operand& input = call.inputs[k];
    passed.dtype[k + 1] = input.dtype;
    if (!input.is_number()) continue;
    passed.number[k + 1] = number_of(input, op == ComplexOp::where && k == 0, passed.is_single);
  }
  const bool costly = is_costly(op);
  for_each_iteration(call, [&](const Iteration& over, const std::int64_t* offsets) {
    passed.over = over;
    for (int k = 0; k <= call.input_count; ++k) {
      std::byte* data = k == 0 ? call.out.data : call.inputs[k - 1].data;
      const auto size = static_cast<std::int64_t>(itemsize(passed.dtype[k]));
      passed.data[k] = data == nullptr ? nullptr : data + offsets[k] * size;
    }
    const int blocks =
        blocks_for(over.count, elementwise_threads, costly ? costly_blocks : whole_grid);
    if (costly) {
      strided_complex<true><<<blocks, elementwise_threads, 0, stream()>>>(passed);
    } else {
      strided_complex<false><<<blocks, elementwise_threads, 0, stream()>>>(passed);
    }
    launched("elementwise");
  });
}

}  // namespace extensor::backend::cuda
