// Finds the elements of some ranks of rows without sorting them: a part of the keys is kept, around
// a pivot, until all that are left are equal or few.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/indexing/rank.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backend/cpu/indexing/indexing.h"
#include "backend/cpu/indexing/sort_key.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using backend::RankCall;

// Keys of 8 and 16 bits are widened, for which vectors have the same instructions.
template <class T>
using RankKey = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

// Loads the vector at i and the mask of its lanes below n, which may be followed by others.
template <class D, class Key>
auto lanes_below(D d, std::int64_t i, std::int64_t n, const Key* keys, hn::Vec<D>& values) {
  values = hn::LoadU(d, keys + i);
  return hn::FirstN(d, static_cast<std::size_t>(n - i));
}

template <class Key>
struct Below {
  std::int64_t count;  // of the keys below
  Key next;            // the least key above, or the largest number
  std::int64_t equal;
};

// Compares n keys, which a vector may follow, with `key`.
template <class Key>
Below<Key> count_below(const Key* keys, std::int64_t n, Key key) {
  const hn::ScalableTag<Key> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, key), top = hn::Set(d, std::numeric_limits<Key>::max());
  auto next = top;
  Below<Key> result{};
  for (std::int64_t i = 0; i < n; i += lanes) {
    hn::Vec<decltype(d)> values;
    const auto inside = lanes_below(d, i, n, keys, values);
    result.count +=
        static_cast<std::int64_t>(hn::CountTrue(d, hn::And(inside, hn::Lt(values, wanted))));
    result.equal +=
        static_cast<std::int64_t>(hn::CountTrue(d, hn::And(inside, hn::Eq(values, wanted))));
    const auto above = hn::And(inside, hn::Gt(values, wanted));
    next = hn::Min(next, hn::IfThenElse(above, values, top));
  }
  result.next = hn::GetLane(hn::MinOfLanes(d, next));
  return result;
}

// The position of the key's k-th occurrence, which exists.
template <class Key>
std::int64_t find_occurrence(const Key* keys, std::int64_t n, Key key, std::int64_t k) {
  const hn::ScalableTag<Key> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, key);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto here =
        static_cast<std::int64_t>(hn::CountTrue(d, hn::Eq(hn::LoadU(d, keys + i), wanted)));
    if (k < here) break;
    k -= here;
  }
  while (keys[i] != key || k-- != 0) ++i;
  return i;
}

template <class Key>
Key middle_of(Key a, Key b, Key c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

// The median of three medians of three, spread over the keys.
template <class Key>
Key pivot_of(const Key* keys, std::int64_t n) {
  const auto middle = [&](std::int64_t k) {
    return middle_of(keys[k * (n - 1) / 8], keys[(k + 1) * (n - 1) / 8],
                     keys[(k + 2) * (n - 1) / 8]);
  };
  return middle_of(middle(0), middle(3), middle(6));
}

// The key of rank k. Both arrays have room for n keys and a vector, and are overwritten.
template <class Key>
Key select_key(Key* keys, Key* other, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t few = 32;
  constexpr int most_rounds = 40;  // then the pivots are bad, and the standard library takes over
  const hn::ScalableTag<Key> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (int round = 0; n > few && round < most_rounds; ++round) {
    const Key pivot = pivot_of(keys, n);
    const auto wanted = hn::Set(d, pivot);
    // Smaller keys stay here: they never overtake the ones that are read.
    Key *smaller = keys, *larger = other;
    // Compressed in a register: instructions that compress into memory take a hundred cycles on
    // some processors.
    const auto keep = [&](hn::Vec<decltype(d)> values, auto mask, Key*& to) {
      hn::StoreU(hn::Compress(values, mask), d, to);
      to += hn::CountTrue(d, mask);
    };
    for (std::int64_t i = 0; i < n; i += lanes) {
      hn::Vec<decltype(d)> values;
      const auto inside = lanes_below(d, i, n, keys, values);
      keep(values, hn::And(inside, hn::Lt(values, wanted)), smaller);
      keep(values, hn::And(inside, hn::Gt(values, wanted)), larger);
    }
    const std::int64_t below = smaller - keys, above = larger - other;
    if (k < below) {
      n = below;
    } else if (k >= n - above) {
      k -= n - above;
      n = above;
      std::swap(keys, other);
    } else {
      return pivot;
    }
  }
  std::nth_element(keys, keys + k, keys + n);
  return keys[k];
}

template <class T>
void rank_rows(const RankCall& call) {
  using Key = RankKey<T>;
  const std::int64_t n = call.length;
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<Key>()));
  const std::int64_t room = n + slack;
  const auto flips = flips_of<T>(call.dtype, false);
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / n);
  const int threads = detail::threads_for(call.rows, grain);
  // Allocated here, so that the results stay unwritten if memory runs out.
  detail::Scratch<Key> memory(3 * static_cast<std::size_t>(threads * room));
  const auto run_row = [&](std::int64_t row, Key* keys) {
    Key *kept = keys + room, *other = kept + room;
    const T* x = reinterpret_cast<const T*>(call.x) + row * n;
    for (std::int64_t i = 0; i < n; ++i) keys[i] = key_of(x[i], flips);
    Key key = 0;
    Below<Key> below{};
    for (std::int64_t r = 0; r < call.rank_count; ++r) {
      const std::int64_t wanted = call.ranks[r], above = below.count + below.equal;
      if (r == 0 || wanted < below.count || wanted > above) {
        if (wanted == n - 1) {
          key = *std::max_element(keys, keys + n);
        } else {
          std::memcpy(kept, keys, static_cast<std::size_t>(n) * sizeof(Key));
          key = select_key(kept, other, n, wanted);
        }
        below = count_below(keys, n, key);
      } else if (wanted == above) {
        key = below.next;
        below = count_below(keys, n, key);
      }
      const std::int64_t at = find_occurrence(keys, n, key, wanted - below.count);
      const std::int64_t to = row * call.rank_count + r;
      if (call.values != nullptr) reinterpret_cast<T*>(call.values)[to] = x[at];
      if (call.indices != nullptr) call.indices[to] = at;
    }
  };
  detail::parallel_for(threads, call.rows, grain,
                       [&](std::int64_t begin, std::int64_t end, int slot) {
                         Key* keys = memory.data() + 3 * slot * room;
                         for (std::int64_t row = begin; row < end; ++row) run_row(row, keys);
                       });
}

void rank_any(const RankCall& call) {
  visit_sorted(call.dtype, [&]<class T>() { rank_rows<T>(call); });
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

void rank(const backend::RankCall& call) {
  if (call.rows == 0 || call.rank_count == 0) return;
  static const auto kernel = EXTENSOR_DISPATCH(rank_any);
  kernel(call);
}

}  // namespace extensor::cpu
#endif
