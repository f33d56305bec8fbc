// Elementwise kernels for floats that are dense along the innermost dimension: 16 bytes a load.
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "backend/cuda/bfloat16_rows.cuh"
#include "backend/cuda/elementwise_rows.cuh"

namespace extensor::backend::cuda {

template <class S, int count>
struct alignas(sizeof(S) * count) Pack {
  S at[count];
};

// A pack that is read or written once.
template <class P>
__device__ __forceinline__ P load_once(const P* from, bool streams) {
  static_assert(sizeof(P) == sizeof(uint4));
  const auto* words = reinterpret_cast<const uint4*>(from);
  const uint4 read = streams ? __ldcs(words) : *words;
  P pack;
  memcpy(&pack, &read, sizeof pack);
  return pack;
}
template <class P>
__device__ __forceinline__ void store_once(P* to, const P& pack, bool streams) {
  uint4 written;
  memcpy(&written, &pack, sizeof pack);
  if (streams) {
    __stcs(reinterpret_cast<uint4*>(to), written);
  } else {
    *reinterpret_cast<uint4*>(to) = written;
  }
}

template <template <class> class Row, class S, std::size_t... k>
__device__ __forceinline__ S row_of(const Parameter* parameters,
                                    const Compute<S> (&x)[sizeof...(k)],
                                    std::index_sequence<k...>) {
  using V = rows_of::Lanes<Compute<S>>;
  const V y = Row<V>::apply(parameters, V(hwy::N_CUDA::Vec1<Compute<S>>{x[k]})...);
  return store_from_compute<S>(y.v.raw);
}

// The threads of a block, the packs of a thread, and whether blocks start while the kernel before
// ends, as measured on an H200. Functions that compute for longer than they wait for memory gain
// from a second pack. The device starts blocks that overlap more slowly than others, which shows if
// they move less than 8 KiB.
struct DenseShape {
  int threads = 128, packs = 1;
  bool overlaps = false;
};
constexpr DenseShape dense_shape(ElementwiseOp op, int inputs, bool is_half) {
  constexpr DenseShape two_packs{.packs = 2, .overlaps = true};
  switch (op) {
    case ElementwiseOp::negative:
    case ElementwiseOp::positive:
    case ElementwiseOp::abs:
    case ElementwiseOp::square:
    case ElementwiseOp::sign:
    case ElementwiseOp::ceil:
    case ElementwiseOp::floor:
    case ElementwiseOp::round:
    case ElementwiseOp::trunc:
    case ElementwiseOp::clip:
    case ElementwiseOp::relu:
    case ElementwiseOp::relu6:
    case ElementwiseOp::hard_tanh:
      return {.threads = 256, .overlaps = true};
    case ElementwiseOp::exp:
    case ElementwiseOp::exp2:
    case ElementwiseOp::sqrt:
    case ElementwiseOp::rsqrt:
    case ElementwiseOp::reciprocal:
    case ElementwiseOp::erfinv:
    case ElementwiseOp::sigmoid:
    case ElementwiseOp::tanh:
    case ElementwiseOp::leaky_relu:
    case ElementwiseOp::hard_sigmoid:
    case ElementwiseOp::hard_swish:
      return is_half ? two_packs : DenseShape{};
    case ElementwiseOp::silu:
    case ElementwiseOp::mish:
      return {.packs = 2, .overlaps = is_half};
    case ElementwiseOp::log10:
    case ElementwiseOp::log1p:
    case ElementwiseOp::asin:
    case ElementwiseOp::acos:
    case ElementwiseOp::sinh:
    case ElementwiseOp::cosh:
    case ElementwiseOp::asinh:
    case ElementwiseOp::atanh:
    case ElementwiseOp::gelu:
    case ElementwiseOp::gelu_tanh:
    case ElementwiseOp::elu:
    case ElementwiseOp::selu:
    case ElementwiseOp::atan2:
    case ElementwiseOp::hypot:
    case ElementwiseOp::logaddexp:
    case ElementwiseOp::power:
    case ElementwiseOp::gelu_backward:
      return two_packs;
    case ElementwiseOp::tan:
      return {.packs = is_half ? 2 : 4, .overlaps = true};
    case ElementwiseOp::add:
    case ElementwiseOp::subtract:
    case ElementwiseOp::multiply:
    case ElementwiseOp::maximum:
    case ElementwiseOp::minimum:
    case ElementwiseOp::copysign:
      return {.threads = 1024, .overlaps = true};
    case ElementwiseOp::divide:
      return {.threads = is_half ? 1024 : 128, .overlaps = true};
    default:
      return {.overlaps = inputs > 1};
  }
}

// A block computes `threads` times `packs` packs side by side, which all are loaded first.
template <template <class> class Row, class S, int inputs, int threads, int packs, bool overlaps,
          bool numbers>
__global__ void __launch_bounds__(threads) dense_row(const __grid_constant__ DenseCall call) {
  using C = Compute<S>;
  constexpr int width = 16 / sizeof(S);
  constexpr std::int64_t block = threads * packs * width;
  constexpr std::make_index_sequence<inputs> every;
  if constexpr (overlaps) begin_overlapped();
  S* out = static_cast<S*>(call.out);
  const auto is_dense = [&](int k) { return !numbers || call.inputs[k] != nullptr; };
  const auto number = [&](int k) {
    if constexpr (std::is_same_v<C, float>) {
      return call.number[k].single;
    } else {
      return call.number[k].real;
    }
  };
  const std::int64_t first = blockIdx.x * block;
  if (first + block > call.count) {  // the last one
#pragma unroll 1
    for (std::int64_t i = first + threadIdx.x; i < call.count; i += threads) {
      C x[inputs];
#pragma unroll
      for (int k = 0; k < inputs; ++k) {
        x[k] = is_dense(k) ? load_as_compute(static_cast<const S*>(call.inputs[k])[i]) : number(k);
      }
      out[i] = row_of<Row, S>(call.parameters, x, every);
    }
    return;
  }
  Pack<S, width> read[inputs][packs];
#pragma unroll
  for (int p = 0; p < packs; ++p) {
#pragma unroll
    for (int k = 0; k < inputs; ++k) {
      if (!is_dense(k)) continue;
      const S* from = static_cast<const S*>(call.inputs[k]) + first;
      const auto* packs_of = reinterpret_cast<const Pack<S, width>*>(from);
      read[k][p] = load_once(packs_of + p * threads + threadIdx.x, call.streams);
    }
  }
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    Pack<S, width> written;
#pragma unroll
    for (int e = 0; e < width; ++e) {
      C x[inputs];
#pragma unroll
      for (int k = 0; k < inputs; ++k) {
        x[k] = is_dense(k) ? load_as_compute(read[k][p].at[e]) : number(k);
      }
      written.at[e] = row_of<Row, S>(call.parameters, x, every);
    }
    auto* packs_of = reinterpret_cast<Pack<S, width>*>(out + first);
    store_once(packs_of + p * threads + threadIdx.x, written, call.streams);
  }
}

template <class From, class C, int width>
__device__ __forceinline__ void load_pack(const void* from, std::int64_t at, C (&x)[width]) {
  constexpr int together = 16 / sizeof(From) < width ? 16 / sizeof(From) : width;
  const auto* packs =
      reinterpret_cast<const Pack<From, together>*>(static_cast<const From*>(from) + at);
#pragma unroll
  for (int part = 0; part < width / together; ++part) {
    const Pack<From, together> read = packs[part];
#pragma unroll
    for (int e = 0; e < together; ++e) {
      x[part * together + e] = static_cast<C>(load_as_compute(read.at[e]));
    }
  }
}

// Elements of a float dtype in the compute type of S.
template <class S, int width>
__device__ __forceinline__ void load_any(const void* from, DType dtype, std::int64_t at,
                                         Compute<S> (&x)[width]) {
  if constexpr (std::is_same_v<S, double>) {
    load_pack<double>(from, at, x);
  } else if (dtype == DType::float32) {
    load_pack<float>(from, at, x);
  } else if (dtype == DType::bfloat16) {
    load_pack<__nv_bfloat16>(from, at, x);
  } else {
    load_pack<__half>(from, at, x);
  }
}

template <template <class> class Row, class S, int inputs>
__global__ void __launch_bounds__(elementwise_threads)
    contiguous_row(const __grid_constant__ ContiguousCall call) {
  using C = Compute<S>;
  constexpr int width = 16 / sizeof(S);
  constexpr std::make_index_sequence<inputs> every;
  S* out = static_cast<S*>(call.out);
  const bool one_dimension = call.over.dims == 1;
  for (std::int64_t p = first_index(); p < call.over.count; p += index_step()) {
    std::int64_t at[inputs + 1];
    if (one_dimension) {
      at[0] = p * width;
#pragma unroll
      for (int k = 0; k < inputs; ++k) at[k + 1] = call.form[k] == Form::dense ? p * width : 0;
    } else {
      find_offsets(call.over, p, at);
    }
    C values[inputs][width];
#pragma unroll
    for (int k = 0; k < inputs; ++k) {
      if (call.form[k] == Form::dense) {
        load_any<S>(call.inputs[k], call.dtype[k], at[k + 1], values[k]);
      } else {
        C once[1] = {static_cast<C>(call.number[k].real)};
        if (call.form[k] == Form::single) {
          load_any<S>(call.inputs[k], call.dtype[k], at[k + 1], once);
        }
#pragma unroll
        for (int e = 0; e < width; ++e) values[k][e] = once[0];
      }
    }
    Pack<S, width> written;
#pragma unroll
    for (int e = 0; e < width; ++e) {
      C x[inputs];
#pragma unroll
      for (int k = 0; k < inputs; ++k) x[k] = values[k][e];
      written.at[e] = row_of<Row, S>(call.parameters, x, every);
    }
    *reinterpret_cast<Pack<S, width>*>(out + at[0]) = written;
  }
  if (!one_dimension) return;
  const std::int64_t i = call.over.count * width + first_index();
  if (i >= call.count) return;
  C x[inputs];
#pragma unroll
  for (int k = 0; k < inputs; ++k) {
    C once[1] = {static_cast<C>(call.number[k].real)};
    if (call.form[k] != Form::number) {
      load_any<S>(call.inputs[k], call.dtype[k], call.form[k] == Form::dense ? i : 0, once);
    }
    x[k] = once[0];
  }
  out[i] = row_of<Row, S>(call.parameters, x, every);
}

// Whether a number as an operand is common enough for a kernel of its own.
constexpr bool takes_numbers(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::add:
    case ElementwiseOp::subtract:
    case ElementwiseOp::multiply:
    case ElementwiseOp::divide:
    case ElementwiseOp::power:
    case ElementwiseOp::maximum:
    case ElementwiseOp::minimum:
      return true;
    default:
      return false;
  }
}

template <template <class> class Row, class S, int inputs, ElementwiseOp op>
ContiguousKernel kernel_of() {
  constexpr DenseShape shape = dense_shape(op, inputs, is_half_type<S>);
  ContiguousKernel kernel;
  kernel.dense = {&dense_row<Row, S, inputs, shape.threads, shape.packs, shape.overlaps, false>,
                  shape.threads, shape.packs, shape.overlaps};
  if constexpr (takes_numbers(op)) {
    constexpr DenseShape one =
        op == ElementwiseOp::power ? DenseShape{} : DenseShape{.threads = 256, .overlaps = true};
    kernel.with_numbers = {&dense_row<Row, S, inputs, one.threads, one.packs, one.overlaps, true>,
                           one.threads, one.packs, one.overlaps};
  }
  kernel.packs = &contiguous_row<Row, S, inputs>;
  return kernel;
}

using ContiguousTable = std::array<ContiguousKernel, elementwise_op_count>;

#define EXTENSOR_SET(op, row, inputs) \
  table[static_cast<int>(ElementwiseOp::op)] = kernel_of<row, S, inputs, ElementwiseOp::op>();

// Rows that bfloat16 has of its own. The functions of one number take bfloat16 only.
inline void set_bfloat16_rows(ContiguousTable& table) {
  using S = __nv_bfloat16;
#define EXTENSOR_SET_BFLOAT16(op)                                    \
  table[static_cast<int>(ElementwiseOp::op)] =                       \
      kernel_of<bfloat16_rows::op##_row, S, 1, ElementwiseOp::op>(); \
  table[static_cast<int>(ElementwiseOp::op)].packs = nullptr;
  EXTENSOR_BFLOAT16_FUNCTIONS(EXTENSOR_SET_BFLOAT16)
#undef EXTENSOR_SET_BFLOAT16
  EXTENSOR_SET(divide, bfloat16_rows::divide_row, 2)
  EXTENSOR_SET(atan2, bfloat16_rows::atan2_row, 2)
  EXTENSOR_SET(hypot, bfloat16_rows::hypot_row, 2)
  EXTENSOR_SET(power, bfloat16_rows::power_row, 2)
  EXTENSOR_SET(logaddexp, bfloat16_rows::logaddexp_row, 2)
}

template <class S>
ContiguousTable make_contiguous() {
  ContiguousTable table = {};
  if constexpr (!is_half_type<S>) {
#define UNARY(name, ...) EXTENSOR_SET(name, rows_of::name##_row, 1)
#include "extensor/tables/unary.def"
  } else {
    // Functions of one half are looked up (half_tables.cu), except for those that are exact in
    // float, or whose float result rounds to the same half as the exact one.
    EXTENSOR_SET(negative, rows_of::negative_row, 1)
    EXTENSOR_SET(positive, rows_of::positive_row, 1)
    EXTENSOR_SET(abs, rows_of::abs_row, 1)
    EXTENSOR_SET(square, rows_of::square_row, 1)
    EXTENSOR_SET(sign, rows_of::sign_row, 1)
    EXTENSOR_SET(ceil, rows_of::ceil_row, 1)
    EXTENSOR_SET(floor, rows_of::floor_row, 1)
    EXTENSOR_SET(round, rows_of::round_row, 1)
    EXTENSOR_SET(trunc, rows_of::trunc_row, 1)
    EXTENSOR_SET(clip, rows_of::clip_row, 1)
    EXTENSOR_SET(sqrt, rows_of::sqrt_row, 1)
    EXTENSOR_SET(relu, rows_of::relu_row, 1)
    EXTENSOR_SET(relu6, rows_of::relu6_row, 1)
    EXTENSOR_SET(hard_tanh, rows_of::hard_tanh_row, 1)
  }
#define UNARY(name, ...) EXTENSOR_SET(name##_backward, rows_of::name##_backward_row, 2)
#include "extensor/tables/unary.def"
#define BINARY(name, ...)                                            \
  EXTENSOR_SET(name, rows_of::name##_row, 2)                         \
  EXTENSOR_SET(name##_gradient_a, rows_of::name##_gradient_a_row, 3) \
  EXTENSOR_SET(name##_gradient_b, rows_of::name##_gradient_b_row, 3)
#include "extensor/tables/binary.def"
  EXTENSOR_SET(fma, rows_of::fma_row, 3)
  if constexpr (std::is_same_v<S, __nv_bfloat16>) set_bfloat16_rows(table);
  return table;
}

#undef EXTENSOR_SET

}  // namespace extensor::backend::cuda
