// Reads and writes elements by position. Where positions repeat, the result is that of the CPU: the
// last write wins, and sums are added in the order of their sources.
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/radix.h"

namespace extensor::backend::cuda {

namespace {

constexpr int threads = 256;

// Loops in which the threads of the grid share the numbers 0 … count − 1. Index is uint32 if they
// fit, because division of 64 bits is slow.
template <class Index, class Body>
__device__ __forceinline__ void for_each_number(Index count, const Body& body) {
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(blockDim.x) + threadIdx.x;
       i < count; i += step) {
    body(static_cast<Index>(i));
  }
}
template <class Function>
void with_index_type(std::int64_t count, Function&& function) {
  if (count < std::int64_t{1} << 31) return function.template operator()<std::uint32_t>();
  function.template operator()<std::uint64_t>();
}

// ---- taking

// Rows of `units` units. Unit is a type of the size that each access moves.
template <class Unit, class Index>
__global__ void __launch_bounds__(threads)
    take_rows(const Unit* source, const std::int64_t* indices, std::int64_t length, Index count,
              Index units, Index total, Unit* out) {
  for_each_number(total, [=](Index i) {
    const Index row = i / units, unit = i % units;
    const std::int64_t outer = row / count, j = row % count;
    out[i] = source[(outer * length + indices[j]) * units + unit];
  });
}

struct alignas(16) Words {
  std::uint64_t at[2];
};

template <class Unit>
void launch_take_rows(const IndexCall& call, std::int64_t bytes) {
  const std::int64_t units = bytes / static_cast<std::int64_t>(sizeof(Unit));
  const std::int64_t total = call.outer * call.count * units;
  with_index_type(total, [&]<class Index>() {
    take_rows<<<blocks_for(total, threads, 16), threads, 0, stream()>>>(
        elements<Unit>(call.source), call.indices, call.length, static_cast<Index>(call.count),
        static_cast<Index>(units), static_cast<Index>(total), elements<Unit>(call.out));
  });
  launched("index");
}

// Moves the largest units that divide a row and its addresses.
void take_rows(const IndexCall& call) {
  const std::int64_t bytes = call.inner * static_cast<std::int64_t>(itemsize(call.dtype));
  const std::uintptr_t multiple = static_cast<std::uintptr_t>(bytes) |
                                  reinterpret_cast<std::uintptr_t>(call.source) |
                                  reinterpret_cast<std::uintptr_t>(call.out);
  if (multiple % 16 == 0) return launch_take_rows<Words>(call, bytes);
  if (multiple % 8 == 0) return launch_take_rows<std::uint64_t>(call, bytes);
  if (multiple % 4 == 0) return launch_take_rows<std::uint32_t>(call, bytes);
  if (multiple % 2 == 0) return launch_take_rows<std::uint16_t>(call, bytes);
  launch_take_rows<std::uint8_t>(call, bytes);
}

template <class T, class Index>
__global__ void __launch_bounds__(threads)
    take_elements(const T* source, const std::int64_t* indices, std::int64_t length,
                  Index row_elements, Index inner, Index total, T* out) {
  for_each_number(total, [=](Index i) {
    const Index outer = i / row_elements, column = i % inner;
    out[i] = source[(outer * length + indices[i]) * inner + column];
  });
}

// ---- putting: the last source of each destination is found first

template <class Index>
__device__ __forceinline__ std::int64_t destination(Index i, std::int64_t index,
                                                    std::int64_t length, Index row_elements,
                                                    Index inner) {
  return (static_cast<std::int64_t>(i / row_elements) * length + index) * inner + i % inner;
}

// winners[destination] = 1 + the largest i; atomic, but the result does not depend on the order.
template <class Index>
__global__ void __launch_bounds__(threads)
    find_winners(const std::int64_t* indices, std::int64_t length, Index row_elements, Index inner,
                 Index total, unsigned long long* winners) {
  for_each_number(total, [=](Index i) {
    atomicMax(winners + destination(i, indices[i], length, row_elements, inner),
              static_cast<unsigned long long>(i) + 1);
  });
}
template <class T, class Index>
__global__ void __launch_bounds__(threads)
    put_winners(const T* source, const std::int64_t* indices, std::int64_t length,
                Index row_elements, Index inner, Index total, const unsigned long long* winners,
                T* out) {
  for_each_number(total, [=](Index i) {
    const std::int64_t to = destination(i, indices[i], length, row_elements, inner);
    if (winners[to] == static_cast<unsigned long long>(i) + 1) out[to] = source[i];
  });
}

template <class T>
void put_elements(const IndexCall& call, std::int64_t total) {
  const std::int64_t destinations = call.outer * call.length * call.inner;
  const auto bytes = static_cast<std::size_t>(destinations) * sizeof(unsigned long long);
  const Scratch winners(bytes, "index");
  auto* memory = winners.as<unsigned long long>();
  check(cudaMemsetAsync(memory, 0, bytes, stream()), "index");
  const int blocks = blocks_for(total, threads, 16);
  with_index_type(total, [&]<class Index>() {
    const Index row = static_cast<Index>(call.count * call.inner);
    const Index inner = static_cast<Index>(call.inner), count = static_cast<Index>(total);
    find_winners<<<blocks, threads, 0, stream()>>>(call.indices, call.length, row, inner, count,
                                                   memory);
    launched("index");
    put_winners<<<blocks, threads, 0, stream()>>>(elements<T>(call.source), call.indices,
                                                  call.length, row, inner, count, memory,
                                                  elements<T>(call.out));
    launched("index");
  });
}

// ---- adding

// Sums of floats are doubles; those of integers wrap at 64 bits.
template <class T>
using SumOf = std::conditional_t<std::is_integral_v<T>, unsigned long long, double>;

template <class T>
__device__ __forceinline__ SumOf<T> widened(T value) {
  if constexpr (is_half_type<T>) {
    return load_as_compute(value);
  } else {
    return static_cast<SumOf<T>>(value);
  }
}
template <class T>
__device__ __forceinline__ T narrowed(SumOf<T> sum) {
  if constexpr (std::is_same_v<T, bool>) {
    return sum != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(sum);
  } else {
    return store_from_compute<T>(sum);
  }
}

// A thread per source element; those that are first of their destination in the sorted order add
// all of its sources.
template <class T, class Word, class Index>
__global__ void __launch_bounds__(threads)
    add_rows(const T* source, const Word* sorted, const Word* positions, SumOf<T> factor,
             std::int64_t length, Index count, Index inner, Index total, T* out) {
  for_each_number(total, [=](Index i) {
    const Index column = i % inner, row = i / inner;
    const std::int64_t outer = row / count;
    Index at = row % count;
    const Word to = sorted[at];
    if (at != 0 && sorted[at - 1] == to) return;
    T* target = out + (outer * length + static_cast<std::int64_t>(to)) * inner + column;
    const T* first = source + outer * count * inner + column;
    SumOf<T> sum = widened(*target);
    do {
      sum += factor * widened(first[static_cast<std::int64_t>(positions[at]) * inner]);
      ++at;
    } while (at < count && sorted[at] == to);
    *target = narrowed<T>(sum);
  });
}

template <class T, class Word>
void add_rows(const IndexCall& call) {
  const SortedIndices<Word> sorted(call.indices, call.count, call.length, "index");
  SumOf<T> factor;
  if constexpr (std::is_integral_v<T>) {
    factor = static_cast<SumOf<T>>(call.factor.integer);
  } else {
    factor = call.factor.real;
  }
  const std::int64_t total = call.outer * call.count * call.inner;
  with_index_type(total, [&]<class Index>() {
    add_rows<<<blocks_for(total, threads, 16), threads, 0, stream()>>>(
        elements<T>(call.source), sorted.indices(), sorted.positions(), factor, call.length,
        static_cast<Index>(call.count), static_cast<Index>(call.inner), static_cast<Index>(total),
        elements<T>(call.out));
  });
  launched("index");
}

// Integer sums do not depend on their order.
template <class Index>
__global__ void __launch_bounds__(threads)
    add_words(const unsigned long long* source, const std::int64_t* indices, std::int64_t length,
              Index row_elements, Index inner, Index total, unsigned long long* out) {
  for_each_number(total, [=](Index i) {
    atomicAdd(out + destination(i, indices[i], length, row_elements, inner), source[i]);
  });
}

template <class Word, class Index>
__global__ void __launch_bounds__(threads)
    number_destinations(const std::int64_t* indices, std::int64_t length, Index row_elements,
                        Index inner, Index total, Word* destinations, Word* positions) {
  for_each_number(total, [=](Index i) {
    destinations[i] = static_cast<Word>(destination(i, indices[i], length, row_elements, inner));
    positions[i] = static_cast<Word>(i);
  });
}
// The CPU's results for NaN: a NaN among the elements is the largest and the smallest.
template <IndexOp op, class T>
__device__ T combined(T a, T b) {
  if constexpr (op == IndexOp::add_elements) return a + b;
  if constexpr (op == IndexOp::multiply_elements) return a * b;
  if constexpr (op == IndexOp::largest_elements) return b > a || b != b ? b : a;
  return b < a || b != b ? b : a;
}
// Each destination is combined by one thread, in the order of the source.
template <IndexOp op, class T, class Word>
__global__ void __launch_bounds__(threads)
    combine_sorted(const T* source, const Word* sorted, const Word* positions, Word total, T* out) {
  for_each_number(total, [=](Word at) {
    const Word to = sorted[at];
    if (at != 0 && sorted[at - 1] == to) return;
    T value = out[to];
    do {
      value = combined<op>(value, source[positions[at]]);
      ++at;
    } while (at < total && sorted[at] == to);
    out[to] = value;
  });
}

template <IndexOp op, class T, class Word>
void combine_words(const IndexCall& call, std::int64_t total) {
  const Scratch memory(4 * static_cast<std::size_t>(total) * sizeof(Word), "index");
  Word* first = memory.as<Word>();
  SortBuffers<Word, Word> buffers{first, first + total, first + 2 * total, first + 3 * total};
  number_destinations<<<blocks_for(total, threads, 16), threads, 0, stream()>>>(
      call.indices, call.length, static_cast<Word>(call.count * call.inner),
      static_cast<Word>(call.inner), static_cast<Word>(total), buffers.keys, buffers.values);
  launched("index");
  sort_pairs(buffers, total, bits_below(call.outer * call.length * call.inner), "index");
  combine_sorted<op><<<blocks_for(total, threads, 16), threads, 0, stream()>>>(
      elements<T>(call.source), buffers.keys, buffers.values, static_cast<Word>(total),
      elements<T>(call.out));
  launched("index");
}

template <IndexOp op, class T>
void combine_elements(const IndexCall& call, std::int64_t total) {
  if (total < std::int64_t{1} << 31 && fits_32_bits(call.outer * call.length * call.inner)) {
    return combine_words<op, T, std::uint32_t>(call, total);
  }
  combine_words<op, T, std::uint64_t>(call, total);
}

void add_integers(const IndexCall& call, std::int64_t total) {
  with_index_type(total, [&]<class Index>() {
    add_words<<<blocks_for(total, threads, 16), threads, 0, stream()>>>(
        elements<unsigned long long>(call.source), call.indices, call.length,
        static_cast<Index>(call.count * call.inner), static_cast<Index>(call.inner),
        static_cast<Index>(total), elements<unsigned long long>(call.out));
  });
  launched("index");
}

template <IndexOp op>
void combine_of_dtype(const IndexCall& call, std::int64_t total) {
  if (call.dtype == DType::float64) return combine_elements<op, double>(call, total);
  if constexpr (op != IndexOp::multiply_elements) {  // products of integers wrap
    if (call.dtype == DType::int64) return combine_elements<op, std::int64_t>(call, total);
  }
  combine_elements<op, std::uint64_t>(call, total);
}

}  // namespace

void index(const IndexCall& call) {
  if (call.outer == 0 || call.count == 0 || call.inner == 0) return;
  const std::int64_t total = call.outer * call.count * call.inner;
  switch (call.op) {
    case IndexOp::take_rows:
      return take_rows(call);
    case IndexOp::add_rows:
      return with_type(call.dtype, [&]<class T>() {
        if (fits_32_bits(call.length) && fits_32_bits(call.count)) {
          add_rows<T, std::uint32_t>(call);
        } else {
          add_rows<T, std::uint64_t>(call);
        }
      });
    case IndexOp::take_elements:
      return with_moved_type(call.dtype, [&]<class T>() {
        with_index_type(total, [&]<class Index>() {
          take_elements<<<blocks_for(total, threads, 16), threads, 0, stream()>>>(
              elements<T>(call.source), call.indices, call.length,
              static_cast<Index>(call.count * call.inner), static_cast<Index>(call.inner),
              static_cast<Index>(total), elements<T>(call.out));
        });
        launched("index");
      });
    case IndexOp::put_elements:
      return with_moved_type(call.dtype, [&]<class T>() { put_elements<T>(call, total); });
    case IndexOp::add_elements:
      if (call.dtype != DType::float64) return add_integers(call, total);
      return combine_elements<IndexOp::add_elements, double>(call, total);
    case IndexOp::multiply_elements:
      return combine_of_dtype<IndexOp::multiply_elements>(call, total);
    case IndexOp::largest_elements:
      return combine_of_dtype<IndexOp::largest_elements>(call, total);
    case IndexOp::smallest_elements:
      return combine_of_dtype<IndexOp::smallest_elements>(call, total);
  }
}

}  // namespace extensor::backend::cuda
