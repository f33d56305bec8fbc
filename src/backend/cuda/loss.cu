// The elementwise losses of losses.def. Kernels are compiled for float and double; halves are
// widened when read and rounded once when written. Sums are combined in a fixed order.
#include "backend/cpu/simd/lanes-inl.h"
#include "backend/cuda/finish.cuh"
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"

namespace extensor::cpu::HWY_NAMESPACE {

#define EXTENSOR_WORD HWY_INLINE
#include "backend/loss_words.h"
#undef EXTENSOR_WORD

#define EXTENSOR_LOSS_EXPRESSION(function, expression)                                           \
  static HWY_INLINE V function([[maybe_unused]] V x, [[maybe_unused]] V y, [[maybe_unused]] V p, \
                               [[maybe_unused]] V q) {                                           \
    return expression;                                                                           \
  }
#define LOSS(name, forward, derivative_x, derivative_y) \
  template <class V>                                    \
  struct name##_loss_row {                              \
    EXTENSOR_LOSS_EXPRESSION(value, forward)            \
    EXTENSOR_LOSS_EXPRESSION(of_x, derivative_x)        \
    EXTENSOR_LOSS_EXPRESSION(of_y, derivative_y)        \
  };
#include "backend/losses.def"
#undef EXTENSOR_LOSS_EXPRESSION

}  // namespace extensor::cpu::HWY_NAMESPACE

namespace extensor::backend::cuda {

namespace {

namespace lanes = cpu::HWY_NAMESPACE;

constexpr int threads = 256;
constexpr int width = 4;  // elements of a thread at a time

struct LossArguments {
  LossReduction reduction;
  DType dtype;
  bool vectors;  // every address is aligned for packs
  std::int64_t numel;
  const void* x;
  const void* y;
  const void* g;
  double divisor;  // of g, unless there is one for each element
  void* out;
  double* partials;  // of the blocks
  void* gradient_x;
  void* gradient_y;
  double parameters[2];
  Reporter report_x, report_y;
};

// Elements at first … first + 3; 0 from `end` on.
template <class S, class C>
__device__ __forceinline__ void load_stored(const void* from, std::int64_t first, std::int64_t end,
                                            bool vectors, C* to) {
  const S* elements = static_cast<const S*>(from) + first;
  if (vectors && first + width <= end) {
    const auto pack = *reinterpret_cast<const Pack<S, width>*>(elements);
#pragma unroll
    for (int e = 0; e < width; ++e) to[e] = load_as_compute(pack.at[e]);
  } else {
#pragma unroll
    for (int e = 0; e < width; ++e) {
      to[e] = first + e < end ? load_as_compute(elements[e]) : C(0);
    }
  }
}
template <class S, class C>
__device__ __forceinline__ void store_stored(const C* from, void* to, std::int64_t first,
                                             std::int64_t end, bool vectors) {
  S* elements = static_cast<S*>(to) + first;
  if (vectors && first + width <= end) {
    Pack<S, width> pack;
#pragma unroll
    for (int e = 0; e < width; ++e) pack.at[e] = store_from_compute<S>(from[e]);
    *reinterpret_cast<Pack<S, width>*>(elements) = pack;
  } else {
#pragma unroll
    for (int e = 0; e < width; ++e) {
      if (first + e < end) elements[e] = store_from_compute<S>(from[e]);
    }
  }
}
template <class C>
__device__ __forceinline__ void load(const void* from, const LossArguments& a, std::int64_t first,
                                     C* to) {
  if constexpr (std::is_same_v<C, double>) {
    load_stored<double>(from, first, a.numel, false, to);
  } else if (a.dtype == DType::float32) {
    load_stored<float>(from, first, a.numel, a.vectors, to);
  } else if (a.dtype == DType::bfloat16) {
    load_stored<__nv_bfloat16>(from, first, a.numel, a.vectors, to);
  } else {
    load_stored<__half>(from, first, a.numel, a.vectors, to);
  }
}
template <class C>
__device__ __forceinline__ void store(const C* from, void* to, const LossArguments& a,
                                      std::int64_t first) {
  if constexpr (std::is_same_v<C, double>) {
    store_stored<double>(from, to, first, a.numel, false);
  } else if (a.dtype == DType::float32) {
    store_stored<float>(from, to, first, a.numel, a.vectors);
  } else if (a.dtype == DType::bfloat16) {
    store_stored<__nv_bfloat16>(from, to, first, a.numel, a.vectors);
  } else {
    store_stored<__half>(from, to, first, a.numel, a.vectors);
  }
}

template <class C>
__device__ __forceinline__ void report_outside(const Reporter& reporter, const C* values,
                                               std::int64_t first, std::int64_t end) {
  if (reporter.number == 0) return;
#pragma unroll
  for (int e = 0; e < width; ++e) {
    if (first + e < end && (values[e] < 0 || values[e] > 1)) {
      report(reporter, first + e,
             static_cast<std::uint64_t>(__double_as_longlong(static_cast<double>(values[e]))));
    }
  }
}

template <class C>
__device__ __forceinline__ lanes::Lanes<C> lane(C value) {
  return lanes::Lanes<C>(value);
}

template <class C, template <class> class Loss>
__global__ void __launch_bounds__(threads) forward(const __grid_constant__ LossArguments a) {
  using Expressions = Loss<lanes::Lanes<C>>;
  const auto p = lane(static_cast<C>(a.parameters[0])), q = lane(static_cast<C>(a.parameters[1]));
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads * width;
  double sum = 0;
  for (std::int64_t first = (blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x) * width;
       first < a.numel; first += step) {
    C x[width], y[width], values[width];
    load(a.x, a, first, x);
    load(a.y, a, first, y);
    C part = 0;
#pragma unroll
    for (int e = 0; e < width; ++e) {
      values[e] = Expressions::value(lane(x[e]), lane(y[e]), p, q).v.raw;
      if (first + e < a.numel) part += values[e];
    }
    sum += part;
    if (a.reduction == LossReduction::none) store(values, a.out, a, first);
    report_outside(a.report_x, x, first, a.numel);
    report_outside(a.report_y, y, first, a.numel);
  }
  if (a.reduction == LossReduction::none) return;
  Group<true> group;
  sum = group.reduce(sum, 0.0, Plus());
  if (threadIdx.x == 0) a.partials[blockIdx.x] = sum;
}

template <class C, template <class> class Loss>
__global__ void __launch_bounds__(threads) backward(const __grid_constant__ LossArguments a) {
  using Expressions = Loss<lanes::Lanes<C>>;
  const auto p = lane(static_cast<C>(a.parameters[0])), q = lane(static_cast<C>(a.parameters[1]));
  const bool each = a.reduction == LossReduction::none;
  const C* g = static_cast<const C*>(a.g);
  const C one_g = each ? C(0) : static_cast<C>(static_cast<double>(*g) / a.divisor);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads * width;
  for (std::int64_t first = (blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x) * width;
       first < a.numel; first += step) {
    C x[width], y[width], factor[width], slopes[width];
    load(a.x, a, first, x);
    load(a.y, a, first, y);
#pragma unroll
    for (int e = 0; e < width; ++e) {
      factor[e] = !each ? one_g : first + e < a.numel ? g[first + e] : C(0);
    }
    if (a.gradient_x != nullptr) {
#pragma unroll
      for (int e = 0; e < width; ++e) {
        slopes[e] = factor[e] * Expressions::of_x(lane(x[e]), lane(y[e]), p, q).v.raw;
      }
      store(slopes, a.gradient_x, a, first);
    }
    if (a.gradient_y != nullptr) {
#pragma unroll
      for (int e = 0; e < width; ++e) {
        slopes[e] = factor[e] * Expressions::of_y(lane(x[e]), lane(y[e]), p, q).v.raw;
      }
      store(slopes, a.gradient_y, a, first);
    }
    report_outside(a.report_x, x, first, a.numel);
    report_outside(a.report_y, y, first, a.numel);
  }
}

struct LossKernels {
  void (*forward)(LossArguments);
  void (*backward)(LossArguments);
};

template <class C>
LossKernels kernels_of(LossOp op) {
  static constexpr LossKernels kernels[] = {
#define LOSS(name, ...) {&forward<C, lanes::name##_loss_row>, &backward<C, lanes::name##_loss_row>},
#include "backend/losses.def"
  };
  return kernels[static_cast<int>(op)];
}

}  // namespace

void loss(const LossCall& call) {
  const bool reduces = call.reduction != LossReduction::none;
  if (call.numel == 0 && (call.g != nullptr || !reduces)) return;
  const LossKernels kernels =
      call.dtype == DType::float64 ? kernels_of<double>(call.op) : kernels_of<float>(call.op);
  const double numel = static_cast<double>(call.numel);
  const bool mean = call.reduction == LossReduction::mean;
  const int blocks = blocks_for(divide_up(call.numel, width), threads);
  const Scratch partials(reduces ? static_cast<std::size_t>(blocks) * sizeof(double) : 1, "loss");
  LossArguments arguments{};
  arguments.reduction = call.reduction;
  arguments.dtype = call.dtype;
  arguments.vectors = are_aligned(call.x, call.y, call.out, call.gradient_x, call.gradient_y);
  arguments.numel = call.numel;
  arguments.x = call.x;
  arguments.y = call.y;
  arguments.g = call.g;
  arguments.divisor = mean ? numel : 1;
  arguments.out = call.out;
  arguments.partials = partials.as<double>();
  arguments.gradient_x = call.gradient_x;
  arguments.gradient_y = call.gradient_y;
  arguments.parameters[0] = call.parameters[0];
  arguments.parameters[1] = call.parameters[1];
  // The first call of reporter() takes precedence: an invalid x is reported before any y.
  arguments.report_x = reporter(call.check_x);
  arguments.report_y = reporter(call.check_y);
  if (call.g != nullptr) {
    kernels.backward<<<blocks, threads, 0, stream()>>>(arguments);
    return launched("loss");
  }
  kernels.forward<<<blocks, threads, 0, stream()>>>(arguments);
  launched("loss");
  if (reduces) {
    write_total(partials.as<double>(), blocks, mean ? numel : 1, call.dtype, call.out, "loss");
  }
}

}  // namespace extensor::backend::cuda
