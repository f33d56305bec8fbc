// Sorts rows: keys with their positions, by radix, or by comparison if rows are short.
#include <algorithm>
#include <limits>

#include "backend/cpu/indexing/indexing.h"
#include "backend/cpu/indexing/sort_key.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::SearchCall;
using backend::SortCall;

template <class Key, class Position>
struct Entry {
  Key key;
  Position position;
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};

// Sorts byte by byte from the lowest, skipping bytes that all keys share. The result is in
// `entries`.
template <class Entry>
void radix_sort(Entry* entries, Entry* other, std::int64_t n) {
  constexpr int digits = static_cast<int>(sizeof(entries->key));
  std::int64_t counts[digits][256] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    for (int d = 0; d < digits; ++d) ++counts[d][(entries[i].key >> (8 * d)) & 0xff];
  }
  Entry* from = entries;
  Entry* to = other;
  for (int d = 0; d < digits; ++d) {
    std::int64_t* count = counts[d];
    if (count[(from->key >> (8 * d)) & 0xff] == n) continue;
    std::int64_t next = 0;
    for (int value = 0; value < 256; ++value) {
      const std::int64_t here = count[value];
      count[value] = next;
      next += here;
    }
    for (std::int64_t i = 0; i < n; ++i) to[count[(from[i].key >> (8 * d)) & 0xff]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) std::copy(from, from + n, entries);
}

// Sorts the first `count`; the rest is in any order.
template <class Entry>
void sort_entries(Entry* entries, Entry* other, std::int64_t n, std::int64_t count) {
  // Selection reorders equal keys, and a radix sort, which is stable, would keep that order.
  const bool select = count < n / 8;
  if (select) std::nth_element(entries, entries + count, entries + n);
  constexpr auto long_row = static_cast<std::int64_t>(64 * sizeof(entries->key));
  if (!select && n >= long_row) return radix_sort(entries, other, n);
  std::sort(entries, entries + (select ? count : n));
}

template <class T, class Position>
void sort_rows(const SortCall& call) {
  using Element = Entry<KeyOf<T>, Position>;
  const std::int64_t n = call.length;
  const auto flips = flips_of<T>(call.dtype, call.descending);
  const std::int64_t grain = std::max<std::int64_t>(1, 2048 / n);
  const int threads = detail::threads_for(call.rows, grain);
  // Allocated here, so that the result stays unwritten if memory runs out.
  detail::Scratch<Element> memory(2 * static_cast<std::size_t>(threads * n));
  detail::parallel_for(threads, call.rows, grain,
                       [&](std::int64_t begin, std::int64_t end, int slot) {
                         Element* entries = memory.data() + 2 * slot * n;
                         for (std::int64_t row = begin; row < end; ++row) {
                           const T* x = reinterpret_cast<const T*>(call.x) + row * n;
                           for (std::int64_t i = 0; i < n; ++i) {
                             entries[i] = {key_of(x[i], flips), static_cast<Position>(i)};
                           }
                           sort_entries(entries, entries + n, n, call.count);
                           if (call.values != nullptr) {
                             T* values = reinterpret_cast<T*>(call.values) + row * call.count;
                             for (std::int64_t i = 0; i < call.count; ++i)
                               values[i] = x[entries[i].position];
                           }
                           if (call.indices != nullptr) {
                             std::int64_t* indices = call.indices + row * call.count;
                             for (std::int64_t i = 0; i < call.count; ++i) {
                               indices[i] = static_cast<std::int64_t>(entries[i].position);
                             }
                           }
                         }
                       });
}

}  // namespace

void sort(const SortCall& call) {
  if (call.rows == 0 || call.length == 0 || call.count == 0) return;
  visit_sorted(call.dtype, [&]<class T>() {
    if (call.length <= std::numeric_limits<std::uint32_t>::max()) {
      sort_rows<T, std::uint32_t>(call);
    } else {
      sort_rows<T, std::uint64_t>(call);
    }
  });
}

void search(const SearchCall& call) {
  if (call.rows == 0 || call.count == 0) return;
  visit_sorted(call.dtype, [&]<class T>() {
    const auto flips = flips_of<T>(call.dtype, false);
    const T* sorted = reinterpret_cast<const T*>(call.sorted);
    const T* values = reinterpret_cast<const T*>(call.values);
    const auto before = [flips](T a, T b) { return key_of(a, flips) < key_of(b, flips); };
    detail::parallel_for(call.rows * call.count, 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* row = sorted + (call.one_row ? 0 : i / call.count * call.length);
        const T* found = call.behind_equal
                             ? std::upper_bound(row, row + call.length, values[i], before)
                             : std::lower_bound(row, row + call.length, values[i], before);
        call.out[i] = found - row;
      }
    });
  });
}

}  // namespace extensor::cpu
