// Random fills and dropout, with the bits of the CPU: compiled without fused multiply-add. Each
// thread computes whole blocks of draws.
#include <cmath>
#include <type_traits>

#include "backend/cuda/context.h"
#include "backend/cuda/kernels.h"
#include "core/convert.h"
#include "core/philox.h"
#include "core/truncated_normal.h"
#include "core/visit.h"

namespace extensor::backend::cuda {

namespace {

constexpr int threads = 256;

// Division and square root as exact as IEEE's, without the cases that cannot occur.
struct DeviceArithmetic {
  EXTENSOR_HOST_DEVICE static float divide(float a, float b) {  // 1 ≤ b ≤ 4, and |a| ≥ 2⁻²⁵ or 0
#ifdef __CUDA_ARCH__
    float rough;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(rough) : "f"(b));
    const float inverse = __fmaf_rn(rough, __fmaf_rn(-b, rough, 1.0f), rough);
    const float quotient = __fmul_rn(a, inverse);
    return __fmaf_rn(__fmaf_rn(-b, quotient, a), inverse, quotient);
#else
    return a / b;
#endif
  }
  EXTENSOR_HOST_DEVICE static float root(float x) {  // 2⁻³⁰ ≤ x ≤ 64, or 0
#ifdef __CUDA_ARCH__
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fmaxf(x, 0x1p-100f)));
    const float rough = __fmul_rn(x, inverse);
    return __fmaf_rn(__fmaf_rn(-rough, rough, x), __fmul_rn(inverse, 0.5f), rough);
#else
    return std::sqrt(x);
#endif
  }
  EXTENSOR_HOST_DEVICE static float add_exact_product(float a, float b, float c) {
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, c);
#else
    return a * b + c;
#endif
  }
  EXTENSOR_HOST_DEVICE static float multiply(float a, float b) {  // 0 instead of −0
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, 0.0f);
#else
    return a * b + 0.0f;
#endif
  }
  // nvcc would shift the bit to the lowest place first.
  EXTENSOR_HOST_DEVICE static bool has_bit(std::uint32_t bits, std::uint32_t bit) {
#ifdef __CUDA_ARCH__
    std::uint32_t masked;
    asm("and.b32 %0, %1, %2;" : "=r"(masked) : "r"(bits), "r"(bit));
    return masked != 0;
#else
    return detail::PlainArithmetic::has_bit(bits, bit);
#endif
  }
  // The field below the bits of 2²³, by one shift, since conversions are slow.
  template <class>
  EXTENSOR_HOST_DEVICE static float exponent(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(__funnelshift_r(bits, 0x4b000000u >> 9, 23)) - (0x1p23f + 127);
#else
    return detail::PlainArithmetic::exponent<float>(bits);
#endif
  }
};
using Normal32 = detail::Normal32By<DeviceArithmetic>;

// The blocks of draws that a thread computes together: halves are stored 16 bytes at a time, and
// normal draws wait for themselves.
template <class T, class Draw>
constexpr int blocks_together = Draw::per_block == 4 &&
                                        (sizeof(T) == 2 ||
                                         (sizeof(T) == 4 && std::is_same_v<Draw, Normal32>))
                                    ? 2
                                    : 1;

// Calls store(i, draws) for groups of draws: whole ones, except for the first and the last.
template <class Draw, int together, class Store>
__device__ __forceinline__ void for_each_group(std::uint64_t seed, std::uint64_t stream,
                                               std::uint64_t offset, std::int64_t count,
                                               const Store& store) {
  constexpr int per_block = Draw::per_block, size = together * per_block;
  const std::uint64_t first = offset / per_block;
  const auto skipped = static_cast<std::int64_t>(offset % per_block);
  const std::int64_t groups = (skipped + count + size - 1) / size;
  const std::int64_t step = gridDim.x * std::int64_t{blockDim.x};
  for (std::int64_t g = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; g < groups;
       g += step) {
    typename Draw::Value values[size];
#pragma unroll
    for (int k = 0; k < together; ++k) {
      const std::uint64_t block = first + static_cast<std::uint64_t>(g * together + k);
      Draw::make(detail::draw_block(seed, stream, Draw::kind, block), values + k * per_block);
    }
    store(g * size - skipped, values);
  }
}

template <class T, int count>
struct alignas(sizeof(T) * count) Group {
  T at[count];
};

// As detail::convert, by the instructions for halves.
template <class T, class From>
__device__ __forceinline__ T converted(From value) {
  if constexpr (std::is_same_v<From, float> && std::is_same_v<T, Float16>) {
    return Float16::from_bits(__half_as_ushort(__float2half_rn(value)));
  } else if constexpr (std::is_same_v<From, float> && std::is_same_v<T, BFloat16>) {
    return BFloat16::from_bits(__bfloat16_as_ushort(__float2bfloat16_rn(value)));
  } else {
    return detail::convert<T>(value);
  }
}

template <class Draw, class Make, class T>
__global__ void __launch_bounds__(threads)
    fill_kernel(std::uint64_t seed, std::uint64_t stream, std::uint64_t offset, std::int64_t count,
                T* out, Make make) {
  constexpr int together = blocks_together<T, Draw>, size = together * Draw::per_block;
  // With an offset within a block, groups are not aligned.
  const bool aligned = offset % Draw::per_block == 0 &&
                       reinterpret_cast<std::uintptr_t>(out) % (sizeof(T) * size) == 0;
  for_each_group<Draw, together>(seed, stream, offset, count,
                                 [&](std::int64_t first, const typename Draw::Value* values) {
                                   Group<T, size> made;
#pragma unroll
                                   for (int k = 0; k < size; ++k) {
                                     made.at[k] = converted<T>(make(values[k]));
                                   }
                                   if (aligned && first + size <= count) {
                                     *reinterpret_cast<Group<T, size>*>(out + first) = made;
                                     return;
                                   }
#pragma unroll
                                   for (int k = 0; k < size; ++k) {
                                     const std::int64_t i = first + k;
                                     if (i >= 0 && i < count) out[i] = made.at[k];
                                   }
                                 });
}

template <class Draw, class Make, class T>
void fill_as(const RandomCall& call, Make make) {
  constexpr int size = blocks_together<T, Draw> * Draw::per_block;
  // Threads that loop compute the keys of the rounds once.
  const int blocks = blocks_for(call.numel / size + 2, threads, 16);
  fill_kernel<Draw, Make, T><<<blocks, threads, 0, stream()>>>(
      call.seed, call.stream, call.offset, call.numel, reinterpret_cast<T*>(call.out), make);
}

template <class Draw, class Make>
void fill(const RandomCall& call, Make make) {
  detail::visit_dtype(call.dtype, [&]<class T>() { fill_as<Draw, Make, T>(call, make); });
}

// ---- the draws as functions of the words

struct Uniform64 {
  double low, range;
  __device__ double operator()(std::uint64_t bits) const {
    return low + range * detail::uniform_double(bits);
  }
};
struct Uniform32 {
  float low, range;
  __device__ float operator()(std::uint32_t word) const {
    return low + range * detail::uniform_float(word);
  }
};
// As many bits as the half holds, so that no draw rounds up to `high`: the fraction of a float
// between 1 and 2.
template <class Half>
struct UniformHalf {
  float low, range;
  __device__ Half operator()(std::uint32_t word) const {
    constexpr std::uint32_t bits = std::is_same_v<Half, Float16> ? 11 : 8;
    constexpr std::uint32_t mask = ((1u << bits) - 1) << (23 - bits);
    const float unit = __uint_as_float(0x3f800000u | (word >> 9 & mask)) - 1.0f;
    return converted<Half>(low + range * unit);
  }
};
template <class Real>
struct Normal {
  Real mean, deviation;
  __device__ Real operator()(Real z) const { return mean + deviation * z; }
};
// Mean 0 and deviation 1. Sums with the mean have no −0, and Normal32 gives none.
struct StandardNormal {
  __device__ float operator()(float z) const { return z; }
};
struct Truncated {
  detail::TruncatedNormal draw;
  __device__ double operator()(std::uint64_t bits) const { return draw(bits); }
};
struct Integers {
  std::uint64_t low, range;
  __device__ std::int64_t operator()(std::uint64_t bits) const {
    return static_cast<std::int64_t>(low + detail::bounded_integer(bits, range));
  }
};
// Whether word / 2³² is below the probability.
struct Bernoulli {
  std::uint64_t bound;  // probability · 2³², rounded up
  __device__ float operator()(std::uint32_t word) const { return word < bound ? 1.0f : 0.0f; }
};

void fill_uniform(const RandomCall& call) {
  const double low = call.first, range = call.second - call.first;
  const auto low32 = static_cast<float>(low), range32 = static_cast<float>(range);
  switch (call.dtype) {
    case DType::float64:
      return fill_as<detail::Uniform64, Uniform64, double>(call, {low, range});
    case DType::float16:
      return fill_as<detail::Uniform32, UniformHalf<Float16>, Float16>(call, {low32, range32});
    case DType::bfloat16:
      return fill_as<detail::Uniform32, UniformHalf<BFloat16>, BFloat16>(call, {low32, range32});
    default:
      return fill<detail::Uniform32>(call, Uniform32{low32, range32});
  }
}

void fill_normal(const RandomCall& call) {
  const double mean = call.first, deviation = call.second;
  if (call.dtype == DType::float64) {
    return fill_as<detail::Normal64, Normal<double>, double>(call, {mean, deviation});
  }
  if (mean == 0 && deviation == 1) {
    switch (call.dtype) {
      case DType::float16:
        return fill_as<Normal32, StandardNormal, Float16>(call, {});
      case DType::bfloat16:
        return fill_as<Normal32, StandardNormal, BFloat16>(call, {});
      case DType::float32:
        return fill_as<Normal32, StandardNormal, float>(call, {});
      default:
        break;
    }
  }
  fill<Normal32>(call, Normal<float>{static_cast<float>(mean), static_cast<float>(deviation)});
}

// ---- dropout

template <class T>
__global__ void __launch_bounds__(threads)
    dropout_kernel(std::uint64_t seed, std::uint64_t stream, std::uint64_t offset,
                   std::int64_t count, const T* x, T* out, Compute<T> scale,
                   std::uint32_t last_dropped) {
  using Draw = detail::Uniform32;
  constexpr int together = blocks_together<T, Draw>, size = together * Draw::per_block;
  using Several = Group<T, size>;
  const bool aligned = offset % Draw::per_block == 0 &&
                       reinterpret_cast<std::uintptr_t>(x) % sizeof(Several) == 0 &&
                       reinterpret_cast<std::uintptr_t>(out) % sizeof(Several) == 0;
  const auto dropped = [&](T value, std::uint32_t word) {
    const Compute<T> scaled = load_as_compute(value) * scale;
    return store_from_compute<T>(word <= last_dropped ? Compute<T>(0) : scaled);
  };
  for_each_group<Draw, together>(seed, stream, offset, count,
                                 [&](std::int64_t first, const std::uint32_t* words) {
                                   if (aligned && first + size <= count) {
                                     Several values = *reinterpret_cast<const Several*>(x + first);
#pragma unroll
                                     for (int k = 0; k < size; ++k)
                                       values.at[k] = dropped(values.at[k], words[k]);
                                     *reinterpret_cast<Several*>(out + first) = values;
                                     return;
                                   }
#pragma unroll
                                   for (int k = 0; k < size; ++k) {
                                     const std::int64_t i = first + k;
                                     if (i >= 0 && i < count) out[i] = dropped(x[i], words[k]);
                                   }
                                 });
}

}  // namespace

void random(const RandomCall& call) {
  if (call.numel == 0) return;
  switch (call.op) {
    case RandomOp::uniform:
      fill_uniform(call);
      break;
    case RandomOp::normal:
      fill_normal(call);
      break;
    case RandomOp::truncated_normal:
      fill<detail::Uniform64>(call, Truncated{{call.first, call.second, call.lower, call.upper}});
      break;
    case RandomOp::integers: {
      const auto low = static_cast<std::uint64_t>(call.integer_first);
      fill<detail::Integer64>(call,
                              Integers{low, static_cast<std::uint64_t>(call.integer_second) - low});
      break;
    }
    case RandomOp::bernoulli:
      fill<detail::Uniform32>(
          call, Bernoulli{static_cast<std::uint64_t>(std::ceil(call.first * 0x1p32))});
      break;
  }
  launched("random");
}

void dropout(const DropoutCall& call) {
  if (call.numel == 0) return;
  // The largest word that drops its element.
  const auto last_dropped =
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(std::ceil(call.p * 0x1p32)) - 1);
  with_float_type(call.dtype, [&]<class T>() {
    constexpr int size = blocks_together<T, detail::Uniform32> * detail::Uniform32::per_block;
    dropout_kernel<<<blocks_for(call.numel / size + 2, threads, whole_grid), threads, 0,
                     stream()>>>(call.seed, call.stream, call.offset, call.numel,
                                 reinterpret_cast<const T*>(call.x), reinterpret_cast<T*>(call.out),
                                 static_cast<Compute<T>>(call.scale), last_dropped);
  });
  launched("dropout");
}

}  // namespace extensor::backend::cuda
