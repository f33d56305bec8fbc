// Moves elements of any dtype between strided and dense memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/strided.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <algorithm>
#include <cstring>

#include "backend/cpu/convert.h"
#include "hwy/highway.h"

#ifndef EXTENSOR_STRIDED_LOOPS
#define EXTENSOR_STRIDED_LOOPS
namespace extensor::cpu {
// Indexed by the logarithm of the element's size.
struct StridedLoops {
  void (*gather[4])(const std::byte* from, std::int64_t stride, std::byte* to, std::size_t n);
  void (*splat[4])(const std::byte* from, std::byte* to, std::size_t n);
};
}  // namespace extensor::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void gather_elements(const std::byte* from, std::int64_t stride, std::byte* to, std::size_t n) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) >= 4) {
    const hn::ScalableTag<T> d;
    const std::size_t lanes = hn::Lanes(d);
    if (stride == 2) {
      // Reads one element past the last one it keeps, so one more must follow.
      for (; i + lanes < n; i += lanes) {
        const auto low = hn::LoadU(d, source + 2 * i);
        const auto high = hn::LoadU(d, source + 2 * i + lanes);
        hn::StoreU(hn::ConcatEven(d, high, low), d, target + i);
      }
    } else if (stride == -1) {
      for (; i + lanes <= n; i += lanes) {
        const T* last = source - static_cast<std::int64_t>(i + lanes - 1);
        hn::StoreU(hn::Reverse(d, hn::LoadU(d, last)), d, target + i);
      }
    }
  }
#endif
  for (; i < n; ++i) target[i] = source[static_cast<std::int64_t>(i) * stride];
}

template <class T>
void splat_element(const std::byte* from, std::byte* to, std::size_t n) {
  T* target = reinterpret_cast<T*>(to);
  std::fill(target, target + n, *reinterpret_cast<const T*>(from));
}

StridedLoops make_strided_loops() {
  return {{&gather_elements<std::uint8_t>, &gather_elements<std::uint16_t>,
           &gather_elements<std::uint32_t>, &gather_elements<std::uint64_t>},
          {&splat_element<std::uint8_t>, &splat_element<std::uint16_t>,
           &splat_element<std::uint32_t>, &splat_element<std::uint64_t>}};
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <bit>

#include "backend/cpu/width.h"
#include "core/simd/dispatch.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace extensor::cpu {

namespace {

const StridedLoops& loops() {
  static const StridedLoops made = EXTENSOR_DISPATCH(make_strided_loops)();
  return made;
}

#if defined(__SSE2__)
// to[i][j] = from[j][i] for 4 × 4 elements of 4 bytes, both with unit stride along the last index.
void transpose_4x4(const std::uint32_t* from, std::int64_t from_stride, std::uint32_t* to,
                   std::size_t to_stride) {
  const auto line = [&](int j) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j * from_stride));
  };
  const __m128i low01 = _mm_unpacklo_epi32(line(0), line(1));
  const __m128i low23 = _mm_unpacklo_epi32(line(2), line(3));
  const __m128i high01 = _mm_unpackhi_epi32(line(0), line(1));
  const __m128i high23 = _mm_unpackhi_epi32(line(2), line(3));
  const auto store = [&](std::size_t i, __m128i row) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * to_stride), row);
  };
  store(0, _mm_unpacklo_epi64(low01, low23));
  store(1, _mm_unpackhi_epi64(low01, low23));
  store(2, _mm_unpacklo_epi64(high01, high23));
  store(3, _mm_unpackhi_epi64(high01, high23));
}
#endif

// Transposes a whole tile of 4-byte elements in registers; false if this machine cannot.
template <class T, std::size_t tile>
bool transpose_tile(const T* from, std::int64_t from_stride, T* to, std::size_t to_stride) {
#if defined(__SSE2__)
  if constexpr (sizeof(T) == 4) {
    for (std::size_t i = 0; i < tile; i += 4) {
      for (std::size_t j = 0; j < tile; j += 4) {
        transpose_4x4(from + static_cast<std::int64_t>(j) * from_stride + i, from_stride,
                      to + i * to_stride + j, to_stride);
      }
    }
    return true;
  }
#endif
  static_cast<void>(from), static_cast<void>(from_stride);
  static_cast<void>(to), static_cast<void>(to_stride);
  return false;
}

}  // namespace

void gather(const std::byte* from, std::int64_t stride, std::byte* to, std::size_t n,
            std::size_t size) {
  loops().gather[std::countr_zero(size)](from, stride, to, n);
}

void scatter(const std::byte* from, std::byte* to, std::int64_t stride, std::size_t n,
             std::size_t size) {
  with_width(size, [&](auto width) {
    using T = decltype(width);
    const T* source = reinterpret_cast<const T*>(from);
    T* target = reinterpret_cast<T*>(to);
    for (std::size_t i = 0; i < n; ++i) target[static_cast<std::int64_t>(i) * stride] = source[i];
  });
}

void splat(const std::byte* from, std::byte* to, std::size_t n, std::size_t size) {
  loops().splat[std::countr_zero(size)](from, to, n);
}

void gather_transposed(const std::byte* from, std::int64_t row_stride, std::int64_t column_stride,
                       std::byte* to, std::size_t to_row_stride, std::size_t rows,
                       std::size_t columns, std::size_t size) {
  with_width(size, [&](auto width) {
    using T = decltype(width);
    // Processes one cache line of the source at a time, so that each is read once even if lines of
    // different columns collide in the cache.
    constexpr std::size_t tile = 64 / sizeof(T);
    const T* source = reinterpret_cast<const T*>(from);
    T* target = reinterpret_cast<T*>(to);
    for (std::size_t j0 = 0; j0 < columns; j0 += tile) {
      const std::size_t j_end = std::min(columns, j0 + tile);
      for (std::size_t i0 = 0; i0 < rows; i0 += tile) {
        const std::size_t i_end = std::min(rows, i0 + tile);
        if (row_stride == 1 && i_end - i0 == tile && j_end - j0 == tile &&
            transpose_tile<T, tile>(source + static_cast<std::int64_t>(j0) * column_stride + i0,
                                    column_stride, target + i0 * to_row_stride + j0,
                                    to_row_stride)) {
          continue;
        }
        T lines[tile][tile];
        for (std::size_t j = j0; j < j_end; ++j) {
          const T* line = source + static_cast<std::int64_t>(j) * column_stride;
          for (std::size_t i = i0; i < i_end; ++i) {
            lines[j - j0][i - i0] = line[static_cast<std::int64_t>(i) * row_stride];
          }
        }
        for (std::size_t i = i0; i < i_end; ++i) {
          T* row = target + i * to_row_stride;
          for (std::size_t j = j0; j < j_end; ++j) row[j] = lines[j - j0][i - i0];
        }
      }
    }
  });
}

void stream_copy(const std::byte* from, std::byte* to, std::size_t bytes) {
#if defined(__SSE2__)
  // Up to the first whole cache line, then lines, then the rest.
  std::size_t i = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % 64);
  std::memcpy(to, from, i);
  for (; i + 64 <= bytes; i += 64) {
    for (std::size_t part = 0; part < 64; part += 16) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + part));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + part), value);
    }
  }
  std::memcpy(to + i, from + i, bytes - i);
#else
  std::memcpy(to, from, bytes);
#endif
}

void stream_zero(std::byte* to, std::size_t bytes) {
#if defined(__SSE2__)
  std::size_t i = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % 64);
  std::memset(to, 0, i);
  for (; i + 64 <= bytes; i += 64) {
    for (std::size_t part = 0; part < 64; part += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + part), _mm_setzero_si128());
    }
  }
  std::memset(to + i, 0, bytes - i);
#else
  std::memset(to, 0, bytes);
#endif
}

void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace extensor::cpu
#endif
