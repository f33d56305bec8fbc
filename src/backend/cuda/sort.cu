// Sorts rows. Keys with their positions are sorted in shared memory if rows are short, otherwise by
// radix: all rows at once, with the number of the row above the key.
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/radix.h"
#include "backend/cuda/sort_first.h"
#include "backend/cuda/sort_key.cuh"
#include "backend/cuda/sort_network.cuh"

namespace extensor::backend::cuda {

namespace {

constexpr int threads = 256;

template <class T>
struct SortArguments {
  bool descending;
  std::int64_t rows, length, count;
  const T* x;
  T* values;              // or null
  std::int64_t* indices;  // or null
};

// ---- short rows

// `together` rows, each padded to `padded` entries, a power of two.
template <class T>
__global__ void __launch_bounds__(1024)
    sort_short_rows(SortArguments<T> arguments, int padded, int together) {
  using Key = KeyOf<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  auto* entries = reinterpret_cast<Entry<Key>*>(memory);
  const int size = padded * together;
  const int length = static_cast<int>(arguments.length), count = static_cast<int>(arguments.count);
  const std::int64_t blocks = (arguments.rows + together - 1) / together;
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    for (int i = static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x)) {
      const std::int64_t row = block * together + i / padded;
      const int position = i % padded;
      Entry<Key> entry{static_cast<Key>(~Key{0}), static_cast<std::uint32_t>(position)};
      if (row < arguments.rows && position < length) {
        entry.key = key_of(arguments.x[row * length + position], arguments.descending);
      }
      entries[i] = entry;
    }
    sort_entries(entries, padded, size);
    for (int i = static_cast<int>(threadIdx.x); i < count * together;
         i += static_cast<int>(blockDim.x)) {
      const std::int64_t row = block * together + i / count;
      if (row >= arguments.rows) break;
      const std::int64_t to = row * count + i % count;
      const std::uint32_t position = entries[i / count * padded + i % count].position;
      if (arguments.values != nullptr) {
        arguments.values[to] = arguments.x[row * length + position];
      }
      if (arguments.indices != nullptr) arguments.indices[to] = position;
    }
    __syncthreads();
  }
}

template <class T>
void launch_short_rows(const SortArguments<T>& arguments) {
  int padded = 1;
  while (padded < arguments.length) padded *= 2;
  const int together = padded >= 512 ? 1 : 512 / padded;
  const int size = padded * together;
  const int block = size / 2 < 32 ? 32 : size / 2 > 512 ? 512 : size / 2;
  const std::int64_t blocks = divide_up(arguments.rows, together);
  const auto bytes = static_cast<std::size_t>(size) * sizeof(Entry<KeyOf<T>>);
  sort_short_rows<<<grid_for(blocks, 1 << 20), static_cast<unsigned>(block), bytes, stream()>>>(
      arguments, padded, together);
  launched("sort");
}

// ---- long rows

template <class T, class Key, class Position>
__global__ void __launch_bounds__(threads)
    make_keys(SortArguments<T> arguments, bool with_rows, bool global_positions, Key* keys,
              Position* positions) {
  const std::int64_t total = arguments.rows * arguments.length;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < total;
       i += step) {
    const std::int64_t row = arguments.rows == 1 ? 0 : i / arguments.length;
    Key key = key_of(arguments.x[i], arguments.descending);
    if constexpr (sizeof(T) < sizeof(Key)) {
      if (with_rows) key |= static_cast<Key>(row) << key_bits<T>;
    }
    keys[i] = key;
    positions[i] = static_cast<Position>(global_positions ? i : i - row * arguments.length);
  }
}

// After elements were sorted without regard to rows: keys for a second sort, by row.
template <class Key, class Position>
__global__ void __launch_bounds__(threads)
    make_row_keys(const Position* positions, std::int64_t total, std::int64_t length, Key* keys) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < total;
       i += step) {
    keys[i] = static_cast<Key>(positions[i]) / static_cast<Key>(length);
  }
}

template <class T, class Key, class Position>
__global__ void __launch_bounds__(threads)
    write_sorted(SortArguments<T> arguments, const Key* keys, const Position* positions,
                 bool global_positions) {
  const std::int64_t total = arguments.rows * arguments.count;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < total;
       i += step) {
    const std::int64_t row = arguments.rows == 1 ? 0 : i / arguments.count;
    const std::int64_t first = row * arguments.length, at = first + (i - row * arguments.count);
    const std::int64_t position =
        static_cast<std::int64_t>(positions[at]) - (global_positions ? first : 0);
    if (arguments.indices != nullptr) arguments.indices[i] = position;
    if (arguments.values == nullptr) continue;
    // The key is next to its neighbours in memory, the element is not.
    T value;
    if (keys == nullptr ||
        !element_of(static_cast<KeyOf<T>>(keys[at]), arguments.descending, value)) {
      value = arguments.x[first + position];
    }
    arguments.values[i] = value;
  }
}

template <class T, class Key, class Position>
void sort_long_rows(const SortArguments<T>& arguments) {
  const std::int64_t total = arguments.rows * arguments.length;
  const auto count = static_cast<std::size_t>(total);
  const Scratch key_memory(2 * count * sizeof(Key), "sort");
  const Scratch position_memory(2 * count * sizeof(Position), "sort");
  SortBuffers<Key, Position> buffers{key_memory.as<Key>(), key_memory.as<Key>() + count,
                                     position_memory.as<Position>(),
                                     position_memory.as<Position>() + count};
  const bool rows_in_keys = arguments.rows > 1 && sizeof(T) < sizeof(Key) &&
                            key_bits<T> + bits_below(arguments.rows) <= 8 * int{sizeof(Key)};
  const bool twice = arguments.rows > 1 && !rows_in_keys;
  const int blocks = blocks_for(total, threads, 16);
  make_keys<<<blocks, threads, 0, stream()>>>(arguments, rows_in_keys, twice, buffers.keys,
                                              buffers.values);
  launched("sort");
  sort_pairs(buffers, total, rows_in_keys ? key_bits<T> + bits_below(arguments.rows) : key_bits<T>,
             "sort");
  if (twice) {
    make_row_keys<<<blocks, threads, 0, stream()>>>(buffers.values, total, arguments.length,
                                                    buffers.keys);
    launched("sort");
    sort_pairs(buffers, total, bits_below(arguments.rows), "sort");
  }
  write_sorted<<<blocks_for(arguments.rows * arguments.count, threads, 16), threads, 0, stream()>>>(
      arguments, twice ? nullptr : buffers.keys, buffers.values, twice);
  launched("sort");
}

template <class T>
void run_sort(const SortCall& call) {
  const SortArguments<T> arguments{
      call.descending,     call.rows,
      call.length,         call.count,
      elements<T>(call.x), call.values == nullptr ? nullptr : elements<T>(call.values),
      call.indices};
  if (call.length <= longest_sorted_by_block) return launch_short_rows(arguments);
  if (!fits_32_bits(call.rows * call.length)) {
    return sort_long_rows<T, std::uint64_t, std::uint64_t>(arguments);
  }
  if constexpr (sizeof(T) < 8) {
    if (call.rows == 1) return sort_long_rows<T, std::uint32_t, std::uint32_t>(arguments);
  }
  sort_long_rows<T, std::uint64_t, std::uint32_t>(arguments);
}

// ---- search

template <class T>
__global__ void __launch_bounds__(threads)
    find_places(const T* sorted, const T* values, std::int64_t length, std::int64_t count,
                std::int64_t total, bool one_row, bool behind_equal, std::int64_t* out) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < total;
       i += step) {
    const T* row = sorted + (one_row ? 0 : i / count * length);
    const auto key = key_of(values[i], false);
    std::int64_t begin = 0, end = length;
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      const auto here = key_of(row[middle], false);
      if (behind_equal ? here <= key : here < key) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    out[i] = begin;
  }
}

}  // namespace

void sort(const SortCall& call) {
  if (call.rows == 0 || call.length == 0 || call.count == 0) return;
  if (is_for_sort_first(call)) return sort_first(call);
  with_type(call.dtype, [&]<class T>() { run_sort<T>(call); });
}

void search(const SearchCall& call) {
  const std::int64_t total = call.rows * call.count;
  if (total == 0) return;
  with_type(call.dtype, [&]<class T>() {
    find_places<<<blocks_for(total, threads), threads, 0, stream()>>>(
        elements<T>(call.sorted), elements<T>(call.values), call.length, call.count, total,
        call.one_row, call.behind_equal, call.out);
  });
  launched("search");
}

}  // namespace extensor::backend::cuda
