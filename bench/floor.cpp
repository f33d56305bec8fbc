#include "floor.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#if defined(__x86_64__)
#include <immintrin.h>
#define EXTENSOR_BENCH_X86 1
#endif

namespace extensor::bench {
namespace {

using Bytes = std::shared_ptr<std::byte>;

Bytes allocate(std::size_t size) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096));
  std::memset(memory, 1, size);
  return {memory, std::free};
}

void for_each_part(std::size_t size, int threads, auto&& body) {
#pragma omp parallel num_threads(threads)
  {
    const auto index = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t part = size / static_cast<std::size_t>(omp_get_num_threads()) / 4096 * 4096;
    body(index * part, part);
  }
}

// Ways to copy `size` bytes, a multiple of 4096. The fastest differs by machine.
using Copy = void (*)(std::byte* to, const std::byte* from, std::size_t size);

void copy_plain(std::byte* to, const std::byte* from, std::size_t size) {
  std::memcpy(to, from, size);
}

#if EXTENSOR_BENCH_X86
void copy_streaming(std::byte* to, const std::byte* from, std::size_t size) {
  for (std::size_t i = 0; i < size; i += 64) {
    for (std::size_t j = i; j < i + 64; j += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + j),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(from + j)));
    }
  }
  _mm_sfence();
}

__attribute__((target("avx512f"))) void copy_streaming_512(std::byte* to, const std::byte* from,
                                                           std::size_t size) {
  for (std::size_t i = 0; i < size; i += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_load_si512(from + i));
  }
  _mm_sfence();
}

__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
std::uint32_t
read_all(const std::byte* from, std::size_t size) {
  const auto* values = reinterpret_cast<const std::uint32_t*>(from);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < size / 4; ++i) sum += values[i];
  return sum;
}

#if EXTENSOR_BENCH_X86
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void update_all(float* __restrict__ a, float* __restrict__ b, float* __restrict__ c,
                const float* __restrict__ from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    a[i] += from[i];
    b[i] += from[i];
    c[i] += from[i];
  }
}

double seconds(const Work& work) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count());
  }
  return best;
}

constexpr int fma_steps = 200000;

#if EXTENSOR_BENCH_X86
// Twelve or more chains hide the latency of two FMA units.
#define EXTENSOR_BENCH_FMA(name, isa, vector, set1, fmadd)                                    \
  __attribute__((target(isa))) double name() {                                                \
    vector chain[12];                                                                         \
    for (auto& value : chain) value = set1(1.0f);                                             \
    const vector a = set1(0.999f), b = set1(0.001f);                                          \
    for (int i = 0; i < fma_steps; ++i) {                                                     \
      _Pragma("GCC unroll 12") for (int j = 0; j < 12; ++j) chain[j] = fmadd(chain[j], a, b); \
    }                                                                                         \
    for (int j = 1; j < 12; ++j) chain[0] = fmadd(chain[j], a, chain[0]);                     \
    return static_cast<double>(chain[0][0]);                                                  \
  }
EXTENSOR_BENCH_FMA(fma_f32_512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps)
EXTENSOR_BENCH_FMA(fma_f64_512, "avx512f", __m512d, _mm512_set1_pd, _mm512_fmadd_pd)
EXTENSOR_BENCH_FMA(fma_f32_256, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps)
EXTENSOR_BENCH_FMA(fma_f64_256, "avx2,fma", __m256d, _mm256_set1_pd, _mm256_fmadd_pd)
#endif

}  // namespace

Floor copy_floor(double bytes, int threads) {
  const auto half = static_cast<std::size_t>(bytes / 2) / 8192 * 8192;
  const Bytes from = allocate(half), to = allocate(half);
  const auto with = [=](Copy copy) -> Work {
    return [=] {
      for_each_part(half, threads, [&](std::size_t start, std::size_t size) {
        copy(to.get() + start, from.get() + start, size);
      });
    };
  };
  Work best = with(copy_plain);
#if EXTENSOR_BENCH_X86
  if (const Work other = with(copy_streaming); seconds(other) < seconds(best)) best = other;
  if (__builtin_cpu_supports("avx512f")) {
    if (const Work other = with(copy_streaming_512); seconds(other) < seconds(best)) best = other;
  }
#endif
  return {best, 1};
}

Floor read_floor(double bytes, int threads) {
  const auto size = static_cast<std::size_t>(bytes) / 8192 * 8192;
  const Bytes from = allocate(size);
  return {[=] {
            for_each_part(size, threads, [&](std::size_t start, std::size_t part) {
              [[maybe_unused]] volatile std::uint32_t keep = read_all(from.get() + start, part);
            });
          },
          1};
}

Floor in_place_floor(std::int64_t elements, int threads) {
  const auto size = static_cast<std::size_t>(elements) * sizeof(float) / 8192 * 8192;
  const Bytes a = allocate(size), b = allocate(size), c = allocate(size), from = allocate(size);
  const auto floats = [](const Bytes& bytes, std::size_t start) {
    return reinterpret_cast<float*>(bytes.get() + start);
  };
  return {[=] {
            for_each_part(size, threads, [&](std::size_t start, std::size_t part) {
              update_all(floats(a, start), floats(b, start), floats(c, start), floats(from, start),
                         part / sizeof(float));
            });
          },
          1};
}

Floor fma_floor(double flops, DType dtype, int threads) {
#if EXTENSOR_BENCH_X86
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !__builtin_cpu_supports("fma")) return {};
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  const bool single = dtype == DType::float32;
  double (*const run)() =
      single ? (wide ? fma_f32_512 : fma_f32_256) : (wide ? fma_f64_512 : fma_f64_256);
  const double lanes = (wide ? 64 : 32) / (single ? 4 : 8);
  const double flops_of_one_call = 2.0 * 12 * fma_steps * lanes * threads;
  return {[=] {
#pragma omp parallel num_threads(threads)
            { [[maybe_unused]] volatile double keep = run(); }
          },
          flops / flops_of_one_call};
#else
  (void)flops, (void)dtype, (void)threads;
  return {};
#endif
}

}  // namespace extensor::bench
