// Sorts rows: keys with their positions, by radix, or by comparison if rows are short.
#include <algorithm>
#include <bit>
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

// Sorts keys of 64 bits by the 32 bits below the highest one in which they differ, in entries of
// half the size, then those that share these bits. The positions of `entries` are the result; the
// keys are left as they were.
void radix_sort_wide(Entry<std::uint64_t, std::uint32_t>* entries, void* other, std::int64_t n) {
  using Wide = Entry<std::uint64_t, std::uint32_t>;
  using Narrow = Entry<std::uint32_t, std::uint32_t>;
  static_assert(2 * sizeof(Narrow) <= sizeof(Wide));
  std::uint64_t least = entries->key, most = entries->key;
  for (std::int64_t i = 1; i < n; ++i) {
    least = std::min(least, entries[i].key);
    most = std::max(most, entries[i].key);
  }
  const int shift = std::max(0, static_cast<int>(std::bit_width(most - least)) - 32);
  Narrow* narrow = static_cast<Narrow*>(other);
  for (std::int64_t i = 0; i < n; ++i) {
    narrow[i] = {static_cast<std::uint32_t>((entries[i].key - least) >> shift),
                 static_cast<std::uint32_t>(i)};
  }
  radix_sort(narrow, narrow + n, n);
  for (std::int64_t i = 0, end = 0; shift != 0 && i < n; i = end) {
    bool sorted = true;
    for (end = i + 1; end < n && narrow[end].key == narrow[i].key; ++end) {
      sorted &= entries[narrow[end - 1].position].key <= entries[narrow[end].position].key;
    }
    if (sorted) continue;
    std::sort(narrow + i, narrow + end, [entries](const Narrow& a, const Narrow& b) {
      const std::uint64_t first = entries[a.position].key, second = entries[b.position].key;
      return first != second ? first < second : a.position < b.position;
    });
  }
  for (std::int64_t i = 0; i < n; ++i) entries[i].position = narrow[i].position;
}

// The positions of `entries` are the result.
template <class Entry>
void sort_all(Entry* entries, Entry* other, std::int64_t n) {
  constexpr auto long_row = static_cast<std::int64_t>(64 * sizeof(entries->key));
  if (n < long_row) return std::sort(entries, entries + n);
  if constexpr (sizeof(entries->key) == 8 && sizeof(entries->position) == 4) {
    radix_sort_wide(entries, other, n);
  } else {
    radix_sort(entries, other, n);
  }
}

// The first `count` of n elements in ascending order of (key(i), i). `entries` has room for
// 2 · count + select_room.
constexpr std::int64_t select_room = 256;
template <class Entry, class Key>
void select_first(Entry* entries, std::int64_t n, std::int64_t count, Key&& key) {
  using Position = decltype(entries->position);
  // Elements below the last of the best so far are collected, and reduced to the best when there is
  // no more room.
  const std::int64_t room = 2 * count + select_room;
  std::int64_t collected = 0;
  bool reduced = false;
  auto last = key(0);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto here = key(i);
    if (reduced && here >= last) continue;
    entries[collected++] = {here, static_cast<Position>(i)};
    if (collected == room) {
      std::nth_element(entries, entries + count - 1, entries + collected);
      last = entries[count - 1].key;
      collected = count;
      reduced = true;
    }
  }
  std::nth_element(entries, entries + count - 1, entries + collected);
  std::sort(entries, entries + count);
}

template <class T, class Position>
void sort_rows(const SortCall& call) {
  using Element = Entry<KeyOf<T>, Position>;
  const std::int64_t n = call.length;
  const auto flips = flips_of<T>(call.dtype, call.descending);
  const std::int64_t grain = std::max<std::int64_t>(1, 2048 / n);
  const int threads = detail::threads_for(call.rows, grain);
  // Allocated here, so that the result stays unwritten if memory runs out.
  const bool selects = call.count < n / 8;
  const std::int64_t room = selects ? 2 * call.count + select_room : 2 * n;
  detail::Scratch<Element> memory(static_cast<std::size_t>(threads * room));
  detail::parallel_for(threads, call.rows, grain,
                       [&](std::int64_t begin, std::int64_t end, int slot) {
                         Element* entries = memory.data() + slot * room;
                         for (std::int64_t row = begin; row < end; ++row) {
                           const T* x = reinterpret_cast<const T*>(call.x) + row * n;
                           const auto key = [=](std::int64_t i) { return key_of(x[i], flips); };
                           if (selects) {
                             select_first(entries, n, call.count, key);
                           } else {
                             for (std::int64_t i = 0; i < n; ++i) {
                               entries[i] = {key(i), static_cast<Position>(i)};
                             }
                             sort_all(entries, entries + n, n);
                           }
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

namespace {

// The number of leading elements for which `before` holds, by a binary search without branches:
// the outcome of a comparison with a random value cannot be predicted.
template <class T, class Before>
std::int64_t count_before(const T* row, std::int64_t n, Before&& before) {
  if (n == 0) return 0;
  const T* base = row;
  while (n > 1) {
    const std::int64_t half = n / 2;
    base += half * static_cast<std::int64_t>(before(base[half - 1]));
    n -= half;
  }
  return base - row + static_cast<std::int64_t>(before(*base));
}

}  // namespace

void search(const SearchCall& call) {
  if (call.rows == 0 || call.count == 0) return;
  visit_sorted(call.dtype, [&]<class T>() {
    const auto flips = flips_of<T>(call.dtype, false);
    const T* sorted = reinterpret_cast<const T*>(call.sorted);
    const T* values = reinterpret_cast<const T*>(call.values);
    const bool behind_equal = call.behind_equal;
    detail::parallel_for(call.rows * call.count, 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* row = sorted + (call.one_row ? 0 : i / call.count * call.length);
        const auto key = key_of(values[i], flips);
        call.out[i] = count_before(row, call.length, [=](T element) {
          const auto other = key_of(element, flips);
          return behind_equal ? other <= key : other < key;
        });
      }
    });
  });
}

}  // namespace extensor::cpu
