// Reads and writes elements by position. Sums are computed for each destination in the order of its
// sources, so that they do not depend on the number of threads.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backend/cpu/indexing/indexing.h"
#include "backend/cpu/width.h"
#include "core/convert.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::IndexCall;
using backend::IndexOp;

constexpr std::int64_t elements_per_thread = 16384;

// The number of units of `elements` elements that pay for a thread.
std::int64_t grain_for(std::int64_t elements) {
  return std::max<std::int64_t>(1, elements_per_thread / std::max<std::int64_t>(1, elements));
}

// ---- rows

// A memcpy of a few hundred bytes may use a string instruction, which costs more than the copy.
void copy_row(const std::byte* from, std::byte* to, std::int64_t bytes) {
  if (bytes > 4096) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  constexpr std::int64_t line = 64;
  std::int64_t at = 0;
  for (; at + line <= bytes; at += line) std::memcpy(to + at, from + at, line);
  for (; at + 8 <= bytes; at += 8) std::memcpy(to + at, from + at, 8);
  for (; at < bytes; ++at) to[at] = from[at];
}

void take_rows(const IndexCall& call) {
  const auto size = static_cast<std::int64_t>(itemsize(call.dtype));
  const std::int64_t bytes = call.inner * size;
  detail::parallel_for(
      call.outer * call.count, grain_for(call.inner), [&](std::int64_t begin, std::int64_t end) {
        std::int64_t outer = begin / call.count, j = begin % call.count;
        const std::byte* source = call.source + outer * call.length * bytes;
        for (std::int64_t row = begin; row < end; ++row) {
          copy_row(source + call.indices[j] * bytes, call.out + row * bytes, bytes);
          if (++j == call.count) {
            j = 0;
            source += call.length * bytes;
          }
        }
      });
}

// Single elements: a load and a store each instead of a call.
template <class T>
void take_single(const IndexCall& call) {
  detail::parallel_for(
      call.outer * call.count, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
        std::int64_t outer = begin / call.count, j = begin % call.count;
        T* out = reinterpret_cast<T*>(call.out);
        for (std::int64_t at = begin; at < end; ++outer, j = 0) {
          const T* source = reinterpret_cast<const T*>(call.source) + outer * call.length;
          const std::int64_t stop = std::min(end, at + call.count - j);
          for (; at < stop; ++at, ++j) out[at] = source[call.indices[j]];
        }
      });
}

// The type of sums: double for floats, 64 bits that wrap for integers.
template <class T>
using SumOf = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

template <class T>
SumOf<T> widen(T value) {
  return detail::convert<SumOf<T>>(value);
}

// The sources of each destination, by a counting sort.
struct Destinations {
  detail::Scratch<std::int64_t> first;    // of each destination's sources in `sources`
  detail::Scratch<std::int64_t> sources;  // in ascending order for each destination
  detail::Scratch<std::int64_t> touched;  // the destinations with any source

  explicit Destinations(const IndexCall& call)
      : first(static_cast<std::size_t>(call.length) + 1),
        sources(static_cast<std::size_t>(call.count)) {
    for (std::int64_t j = 0; j < call.count; ++j) ++first[at(call.indices[j]) + 1];
    for (std::int64_t d = 0; d < call.length; ++d) {
      if (first[at(d) + 1] != 0) touched.push_back(d);
      first[at(d) + 1] += first[at(d)];
    }
    detail::Scratch<std::int64_t> next(first.begin(), first.end() - 1);
    for (std::int64_t j = 0; j < call.count; ++j) sources[at(next[at(call.indices[j])]++)] = j;
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
};

template <class T>
SumOf<T> factor_of(const IndexCall& call) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint64_t>(call.factor.integer);
  } else {
    return call.factor.real;
  }
}

// Adds rows of a few elements: the sums of a range of destinations are in memory together, so that
// the sources are read in their order, without a list of them for each destination. The sums are
// the same. If there are few outer positions, threads share one by its destinations.
template <class T>
void add_short_rows(const IndexCall& call) {
  using Sum = SumOf<T>;
  const Sum factor = factor_of<T>(call);
  const std::int64_t inner = call.inner, sources = call.count * inner;
  const int threads = detail::threads_for(call.outer * sources, elements_per_thread);
  const std::int64_t parts = call.outer >= threads ? 1 : threads;
  const std::int64_t share = (call.length + parts - 1) / parts;
  const std::int64_t grain = parts > 1 ? 1 : grain_for(sources);
  detail::Scratch<Sum> memory(static_cast<std::size_t>(threads * share * inner));
  const auto run = [&](std::int64_t outer, std::int64_t first, std::int64_t count, Sum* sums) {
    const T* source = reinterpret_cast<const T*>(call.source) + outer * sources;
    T* out = reinterpret_cast<T*>(call.out) + (outer * call.length + first) * inner;
    for (std::int64_t i = 0; i < count * inner; ++i) sums[i] = widen(out[i]);
    for (std::int64_t j = 0; j < call.count; ++j) {
      const std::int64_t destination = call.indices[j] - first;
      if (destination < 0 || destination >= count) continue;
      Sum* to = sums + destination * inner;
      for (std::int64_t i = 0; i < inner; ++i) to[i] += factor * widen(source[j * inner + i]);
    }
    for (std::int64_t i = 0; i < count * inner; ++i) out[i] = detail::convert<T>(sums[i]);
  };
  detail::parallel_for(threads, call.outer * parts, grain,
                       [&](std::int64_t begin, std::int64_t end, int slot) {
                         for (std::int64_t unit = begin; unit < end; ++unit) {
                           const std::int64_t first = unit % parts * share;
                           const std::int64_t count = std::min(share, call.length - first);
                           if (count > 0)
                             run(unit / parts, first, count, memory.data() + slot * share * inner);
                         }
                       });
}

template <class T>
void add_rows(const IndexCall& call) {
  using Sum = SumOf<T>;
  constexpr std::int64_t short_row = 16;
  // With few sources, most destinations would be summed in vain.
  if (call.inner < short_row && call.count >= call.length / 4) return add_short_rows<T>(call);
  const Destinations destinations(call);
  const Sum factor = factor_of<T>(call);
  const auto count = static_cast<std::int64_t>(destinations.touched.size());
  const std::int64_t each = call.inner * (1 + call.count / std::max<std::int64_t>(1, count));
  detail::parallel_for(
      call.outer * count, grain_for(each), [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t block = 256;
        Sum sums[block];
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t outer = unit / count;
          const auto destination =
              Destinations::at(destinations.touched[Destinations::at(unit % count)]);
          const T* source =
              reinterpret_cast<const T*>(call.source) + outer * call.count * call.inner;
          T* out = reinterpret_cast<T*>(call.out) +
                   (outer * call.length + static_cast<std::int64_t>(destination)) * call.inner;
          const std::int64_t* sources = destinations.sources.data();
          const std::int64_t s0 = destinations.first[destination];
          if constexpr (std::is_same_v<T, float>) {
            // One sum of two floats is rounded alike through a double.
            if (factor == 1 && destinations.first[destination + 1] == s0 + 1) {
              const T* row = source + sources[s0] * call.inner;
              for (std::int64_t i = 0; i < call.inner; ++i) out[i] += row[i];
              continue;
            }
          }
          for (std::int64_t i0 = 0; i0 < call.inner; i0 += block) {
            const std::int64_t width = std::min(block, call.inner - i0);
            for (std::int64_t i = 0; i < width; ++i) sums[i] = widen(out[i0 + i]);
            for (std::int64_t s = s0; s < destinations.first[destination + 1]; ++s) {
              const T* row = source + sources[s] * call.inner + i0;
              for (std::int64_t i = 0; i < width; ++i) sums[i] += factor * widen(row[i]);
            }
            for (std::int64_t i = 0; i < width; ++i) out[i0 + i] = detail::convert<T>(sums[i]);
          }
        }
      });
}

// ---- elements

template <class T>
void take_elements(const IndexCall& call) {
  const T* source = reinterpret_cast<const T*>(call.source);
  T* out = reinterpret_cast<T*>(call.out);
  if (call.inner == 1) {  // along the last axis
    detail::parallel_for(call.outer * call.count, elements_per_thread,
                         [&](std::int64_t begin, std::int64_t end) {
                           std::int64_t stop = begin - begin % call.count;
                           const T* from = source + begin / call.count * call.length;
                           for (std::int64_t at = begin; at < end; from += call.length) {
                             stop = std::min(end, stop + call.count);
                             for (; at < stop; ++at) out[at] = from[call.indices[at]];
                           }
                         });
    return;
  }
  detail::parallel_for(call.outer * call.count, grain_for(call.inner),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t row = begin; row < end; ++row) {
                           const T* from = source + row / call.count * call.length * call.inner;
                           const std::int64_t* indices = call.indices + row * call.inner;
                           T* to = out + row * call.inner;
                           for (std::int64_t i = 0; i < call.inner; ++i) {
                             to[i] = from[indices[i] * call.inner + i];
                           }
                         }
                       });
}

// Calls store(destination, source) for every index, sources of one destination in ascending order.
// Columns [o, :, i] are independent of each other; if there are few, threads share one by its
// destinations.
template <class Store>
void scatter_elements(const IndexCall& call, Store&& store) {
  constexpr std::int64_t columns_together = 256;
  const std::int64_t blocks = (call.inner + columns_together - 1) / columns_together;
  const auto run = [&](std::int64_t unit, std::int64_t lowest, std::int64_t beyond) {
    const std::int64_t outer = unit / blocks, first = unit % blocks * columns_together;
    const std::int64_t last = std::min(call.inner, first + columns_together);
    for (std::int64_t j = 0; j < call.count; ++j) {
      const std::int64_t row = (outer * call.count + j) * call.inner;
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t index = call.indices[row + i];
        if (index < lowest || index >= beyond) continue;
        store((outer * call.length + index) * call.inner + i, row + i);
      }
    }
  };
  const std::int64_t units = call.outer * blocks;
  if (call.inner == 1 && units >= detail::max_threads()) {  // along the last axis
    detail::parallel_for(units, grain_for(call.count), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t outer = begin; outer < end; ++outer) {
        const std::int64_t first = outer * call.count, to = outer * call.length;
        const std::int64_t* indices = call.indices + first;
        for (std::int64_t j = 0; j < call.count; ++j) store(to + indices[j], first + j);
      }
    });
    return;
  }
  if (units >= detail::max_threads() || units * call.count < elements_per_thread) {
    const std::int64_t grain = grain_for(call.count * std::min(call.inner, columns_together));
    detail::parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) run(unit, 0, call.length);
    });
    return;
  }
  const int threads = detail::threads_for(call.count, elements_per_thread);
  const std::int64_t share = (call.length + threads - 1) / threads;
  for (std::int64_t unit = 0; unit < units; ++unit) {
    detail::parallel_for(threads, call.length, share,
                         [&](std::int64_t begin, std::int64_t end) { run(unit, begin, end); });
  }
}

template <class T>
void put_elements(const IndexCall& call) {
  const T* source = reinterpret_cast<const T*>(call.source);
  T* out = reinterpret_cast<T*>(call.out);
  scatter_elements(call, [=](std::int64_t to, std::int64_t from) { out[to] = source[from]; });
}

template <class T, class Combine>
void combine_elements(const IndexCall& call, Combine combine) {
  const T* source = reinterpret_cast<const T*>(call.source);
  T* out = reinterpret_cast<T*>(call.out);
  scatter_elements(
      call, [=](std::int64_t to, std::int64_t from) { out[to] = combine(out[to], source[from]); });
}

// Sums and products of integers wrap.
template <class T>
void combine_wrapped(const IndexCall& call) {
  if (call.op == IndexOp::add_elements) {
    return combine_elements<T>(call, [](T a, T b) { return a + b; });
  }
  combine_elements<T>(call, [](T a, T b) { return a * b; });
}

template <class T>
void combine_extremes(const IndexCall& call) {
  if (call.op == IndexOp::largest_elements) {
    return combine_elements<T>(call, [](T a, T b) { return b > a || b != b ? b : a; });
  }
  combine_elements<T>(call, [](T a, T b) { return b < a || b != b ? b : a; });
}

}  // namespace

void index(const IndexCall& call) {
  if (call.outer == 0 || call.count == 0 || call.inner == 0) return;
  const std::size_t size = itemsize(call.dtype);
  switch (call.op) {
    case IndexOp::take_rows:
      if (call.inner != 1) return take_rows(call);
      return with_width(size, [&](auto width) { take_single<decltype(width)>(call); });
    case IndexOp::add_rows:
      return visit_unsigned(call.dtype, [&]<class T>() { add_rows<T>(call); });
    case IndexOp::take_elements:
      return with_any_width(size, [&](auto width) { take_elements<decltype(width)>(call); });
    case IndexOp::put_elements:
      return with_any_width(size, [&](auto width) { put_elements<decltype(width)>(call); });
    case IndexOp::add_elements:
    case IndexOp::multiply_elements:
      if (call.dtype == DType::float64) return combine_wrapped<double>(call);
      return combine_wrapped<std::uint64_t>(call);
    case IndexOp::largest_elements:
    case IndexOp::smallest_elements:
      if (call.dtype == DType::float64) return combine_extremes<double>(call);
      if (call.dtype == DType::int64) return combine_extremes<std::int64_t>(call);
      return combine_extremes<std::uint64_t>(call);
  }
}

}  // namespace extensor::cpu
