// Finds the key and position of the last element that belongs to the result, digit by digit from
// the highest: each pass counts the elements with the digits found so far by their next one. Then
// collects the elements up to it, and sorts them.
#include "backend/cuda/sort_first.h"

#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/radix.h"
#include "backend/cuda/sort_key.cuh"
#include "backend/cuda/sort_network.cuh"

namespace extensor::backend::cuda {

namespace {

constexpr int threads = 512;
constexpr int digit_bits = 11;
constexpr int digit_count = 1 << digit_bits;
constexpr int together = 8;  // elements of a thread at a time

// The digits found so far of one row's last element.
struct Found {
  std::uint64_t key, position;
  std::uint64_t remaining;  // elements to take among those with these digits
  bool needs_position;      // only some of the elements with this key
};

// One pass: bits shift … shift + bits − 1 of the key or of the position.
struct Digit {
  bool of_position, first;
  int shift, bits;

  // Whether `number` has the digits found so far.
  __device__ bool matches(std::uint64_t number, std::uint64_t found) const {
    return first || number >> (shift + bits) == found;
  }
  __device__ int of(std::uint64_t number) const {
    return static_cast<int>(number >> shift & ((std::uint64_t{1} << bits) - 1));
  }
};

template <class T>
struct Rows {
  bool descending;
  std::int64_t rows, length, chunks, chunk;
  const T* x;
};

// Calls body(row, position, key) for the elements of the block's chunk.
template <class T, class Body>
__device__ __forceinline__ void for_chunk(const Rows<T>& a, const Body& body) {
  const std::int64_t row = blockIdx.x / a.chunks;
  const T* x = a.x + row * a.length;
  const std::int64_t begin = blockIdx.x % a.chunks * a.chunk, end = min(a.length, begin + a.chunk);
  for (std::int64_t first = begin + threadIdx.x; first < end; first += together * threads) {
    T values[together];
#pragma unroll
    for (int k = 0; k < together; ++k) {
      if (first + k * threads < end) values[k] = x[first + k * threads];
    }
#pragma unroll
    for (int k = 0; k < together; ++k) {
      const std::int64_t position = first + k * threads;
      if (position < end) {
        body(static_cast<std::uint32_t>(position),
             static_cast<std::uint64_t>(key_of(values[k], a.descending)));
      }
    }
  }
}

// counts[row][digit], added to by all blocks of a row.
template <class T>
__global__ void __launch_bounds__(threads)
    count_digits(Rows<T> a, Digit digit, const Found* found, unsigned* counts) {
  __shared__ unsigned own[digit_count];
  const std::int64_t row = blockIdx.x / a.chunks;
  const Found before = found[row];
  if (digit.of_position && !before.needs_position) return;
  for (int d = static_cast<int>(threadIdx.x); d < digit_count; d += threads) own[d] = 0;
  __syncthreads();
  for_chunk(a, [&](std::uint32_t position, std::uint64_t key) {
    int value;
    if (digit.of_position) {
      if (key != before.key || !digit.matches(position, before.position)) return;
      value = digit.of(position);
    } else {
      if (!digit.matches(key, before.key)) return;
      value = digit.of(key);
    }
    // Lanes that agree add once: often all have the same digit.
    const unsigned active = __activemask();
    int agree;
    __match_all_sync(active, value, &agree);
    if (!agree) {
      atomicAdd(own + value, 1u);
    } else if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(active)) - 1) {
      atomicAdd(own + value, static_cast<unsigned>(__popc(active)));
    }
  });
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < digit_count; d += threads) {
    if (own[d] != 0) atomicAdd(counts + row * digit_count + d, own[d]);
  }
}

// Finds the digit of each row, one block for each, and clears the counts.
__global__ void __launch_bounds__(threads)
    find_digit(Digit digit, bool is_last_of_key, std::uint64_t count, std::int64_t rows,
               unsigned* counts, Found* found) {
  constexpr int each = digit_count / threads;
  __shared__ std::uint64_t sums[threads];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    __syncthreads();
    Found state = found[row];
    if (digit.first && !digit.of_position) state.remaining = count;
    if (digit.of_position && !state.needs_position) continue;
    unsigned* own = counts + row * digit_count + threadIdx.x * each;
    unsigned numbers[each];
    std::uint64_t total = 0;
#pragma unroll
    for (int k = 0; k < each; ++k) {
      numbers[k] = own[k];
      total += numbers[k];
      own[k] = 0;
    }
    sums[threadIdx.x] = total;
    for (unsigned distance = 1; distance < threads; distance *= 2) {
      __syncthreads();
      const std::uint64_t lower = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
      __syncthreads();
      sums[threadIdx.x] += lower;
    }
    std::uint64_t before = sums[threadIdx.x] - total;
    // One thread has the digit at which the number of elements reaches `remaining`.
    if (before < state.remaining && before + total >= state.remaining) {
      int k = 0;
      while (before + numbers[k] < state.remaining) before += numbers[k++];
      const auto value = static_cast<std::uint64_t>(threadIdx.x * each + k);
      if (digit.of_position) {
        state.position = digit.first ? value : state.position << digit.bits | value;
      } else {
        state.key = digit.first ? value : state.key << digit.bits | value;
      }
      state.remaining -= before;
      if (is_last_of_key) state.needs_position = state.remaining != numbers[k];
      found[row] = state;
    }
  }
}

// Appends the elements up to the last one, in any order.
template <class T>
__global__ void __launch_bounds__(threads)
    collect(Rows<T> a, const Found* found, std::uint32_t count, unsigned* taken, KeyOf<T>* keys,
            std::uint32_t* positions) {
  const std::int64_t row = blockIdx.x / a.chunks;
  const Found last = found[row];
  for_chunk(a, [&](std::uint32_t position, std::uint64_t key) {
    if (key > last.key) return;
    if (key == last.key && last.needs_position && position > last.position) return;
    const unsigned slot = atomicAdd(taken + row, 1u);
    keys[row * count + slot] = static_cast<KeyOf<T>>(key);
    positions[row * count + slot] = position;
  });
}

template <class T>
__global__ void __launch_bounds__(threads)
    sort_collected(Rows<T> a, int count, int padded, const KeyOf<T>* keys,
                   const std::uint32_t* positions, T* values, std::int64_t* indices) {
  using Key = KeyOf<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  auto* entries = reinterpret_cast<Entry<Key>*>(memory);
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    for (int i = static_cast<int>(threadIdx.x); i < padded; i += threads) {
      Entry<Key> entry{static_cast<Key>(~Key{0}), 0xffffffffu};
      if (i < count) entry = {keys[row * count + i], positions[row * count + i]};
      entries[i] = entry;
    }
    sort_entries(entries, padded, padded);
    for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
      const std::uint32_t position = entries[i].position;
      if (values != nullptr) values[row * count + i] = a.x[row * a.length + position];
      if (indices != nullptr) indices[row * count + i] = position;
    }
    __syncthreads();
  }
}

template <class T>
void run(const SortCall& call) {
  constexpr std::int64_t shortest = 16384;
  const std::int64_t wanted = divide_up(4 * multiprocessors(), call.rows);
  std::int64_t chunk = divide_up(call.length, wanted);
  if (chunk < shortest) chunk = shortest;
  const std::int64_t chunks = divide_up(call.length, chunk);
  const Rows<T> rows{call.descending, call.rows, call.length, chunks, chunk, elements<T>(call.x)};
  const auto row_count = static_cast<std::size_t>(call.rows);
  const auto count = static_cast<std::size_t>(call.count);
  const std::size_t count_bytes = row_count * digit_count * sizeof(unsigned);
  const Scratch counts(count_bytes, "sort");
  const Scratch found(row_count * sizeof(Found), "sort");
  const Scratch taken(row_count * sizeof(unsigned), "sort");
  const Scratch keys(row_count * count * sizeof(KeyOf<T>), "sort");
  const Scratch positions(row_count * count * sizeof(std::uint32_t), "sort");
  check(cudaMemsetAsync(counts.as<void>(), 0, count_bytes, stream()), "sort");
  check(cudaMemsetAsync(found.as<void>(), 0, row_count * sizeof(Found), stream()), "sort");
  check(cudaMemsetAsync(taken.as<void>(), 0, row_count * sizeof(unsigned), stream()), "sort");
  const auto blocks = static_cast<unsigned>(call.rows * chunks);
  const auto find = [&](bool of_position, int bits) {
    bool first = true;
    for (int left = bits; left > 0;) {
      Digit digit{of_position, first, 0, left < digit_bits ? left : digit_bits};
      left -= digit.bits;
      digit.shift = left;
      first = false;
      count_digits<<<blocks, threads, 0, stream()>>>(rows, digit, found.as<Found>(),
                                                     counts.as<unsigned>());
      launched("sort");
      find_digit<<<grid_for(call.rows), threads, 0, stream()>>>(
          digit, !of_position && left == 0, static_cast<std::uint64_t>(call.count), call.rows,
          counts.as<unsigned>(), found.as<Found>());
      launched("sort");
    }
  };
  find(false, key_bits<T>);
  find(true, bits_below(call.length));
  collect<<<blocks, threads, 0, stream()>>>(
      rows, found.as<Found>(), static_cast<std::uint32_t>(call.count), taken.as<unsigned>(),
      keys.as<KeyOf<T>>(), positions.as<std::uint32_t>());
  launched("sort");
  int padded = 1;
  while (padded < call.count) padded *= 2;
  const auto bytes = static_cast<std::size_t>(padded) * sizeof(Entry<KeyOf<T>>);
  sort_collected<<<grid_for(call.rows), threads, bytes, stream()>>>(
      rows, static_cast<int>(call.count), padded, keys.as<KeyOf<T>>(),
      positions.as<std::uint32_t>(), call.values == nullptr ? nullptr : elements<T>(call.values),
      call.indices);
  launched("sort");
}

}  // namespace

bool is_for_sort_first(const SortCall& call) {
  return call.length > longest_sorted_by_block && call.count <= longest_sorted_by_block &&
         call.count < call.length / 8 && call.length < std::int64_t{1} << 31 &&
         call.rows < std::int64_t{1} << 16;
}

void sort_first(const SortCall& call) {
  with_type(call.dtype, [&]<class T>() { run<T>(call); });
}

}  // namespace extensor::backend::cuda
