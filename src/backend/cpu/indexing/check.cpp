// Checks and counts of integers, and the positions of true elements.
#include <algorithm>
#include <atomic>
#include <type_traits>
#include <utility>

#include "backend/checks.h"
#include "backend/cpu/indexing/indexing.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "core/visit.h"

namespace extensor::cpu {

namespace {

using backend::CheckIntegersCall;

constexpr std::int64_t grain = 32768;

template <class T>
bool in_range(T value, std::int64_t lowest, std::int64_t size) {
  if constexpr (std::is_unsigned_v<T>) {
    return static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(size);
  } else {
    return (value >= lowest) & (value < size);
  }
}

template <class T>
bool is_also_allowed(T value, std::optional<std::int64_t> also) {
  return also && std::cmp_equal(value, *also);
}

template <class T>
bool is_allowed(T value, const CheckIntegersCall& call) {
  if (call.nonzero) return value != T(0);
  return in_range(value, call.lowest, call.size) || is_also_allowed(value, call.also);
}

// Whether a value other than `also` may be out of range.
template <class T>
bool any_out_of_range(const T* values, const CheckIntegersCall& call) {
  std::atomic<bool> any{false};
  detail::parallel_for(call.count, grain, [&](std::int64_t begin, std::int64_t end) {
    unsigned bad = 0;  // collected without a branch, so that the loops vectorize
    if (call.nonzero) {
      for (std::int64_t j = begin; j < end; ++j) bad |= static_cast<unsigned>(values[j] == T(0));
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      // The sign bit of a difference is set below the lowest and beyond the last: not every target
      // compares 64 bits. A difference that overflows may report a valid value, but hides none.
      std::uint64_t differences = 0;
      for (std::int64_t j = begin; j < end; ++j) {
        const auto value = static_cast<std::uint64_t>(values[j]);
        differences |= (value - static_cast<std::uint64_t>(call.lowest)) |
                       (static_cast<std::uint64_t>(call.size) - 1 - value);
      }
      bad = static_cast<unsigned>(differences >> 63);
    } else {
      for (std::int64_t j = begin; j < end; ++j) {
        bad |= static_cast<unsigned>(!in_range(values[j], call.lowest, call.size));
      }
    }
    if (bad != 0) any.store(true, std::memory_order_relaxed);
  });
  return any.load(std::memory_order_relaxed);
}

// Writes int64 indices and checks them in the same pass, if negative ones either count from the end
// or are invalid. Returns whether all are valid; otherwise `out` is to be written again.
bool write_if_valid(const std::int64_t* values, const CheckIntegersCall& call) {
  if (call.out == nullptr || call.nonzero || call.size <= 0 ||
      (call.lowest != -call.size && call.lowest != 0)) {
    return false;
  }
  const auto size = static_cast<std::uint64_t>(call.size);
  const auto added = static_cast<std::uint64_t>(-call.lowest);
  std::atomic<bool> all{true};
  detail::parallel_for(call.count, grain, [&](std::int64_t begin, std::int64_t end) {
    // The sign bit of `bad` is set by a negative index and by one beyond the last; without a
    // comparison of 64 bits, which not every target has.
    std::uint64_t bad = 0;
    for (std::int64_t j = begin; j < end; ++j) {
      const auto value = static_cast<std::uint64_t>(values[j]);
      const std::uint64_t index = value + ((0 - (value >> 63)) & added);
      bad |= index | (size - 1 - index);
      call.out[j] = static_cast<std::int64_t>(index);
    }
    if (bad >> 63 != 0) all.store(false, std::memory_order_relaxed);
  });
  return all.load(std::memory_order_relaxed);
}

template <class T>
void check(const CheckIntegersCall& call) {
  const T* values = reinterpret_cast<const T*>(call.values);
  if constexpr (std::is_same_v<T, std::int64_t>) {
    if (write_if_valid(values, call)) return;
  }
  if (any_out_of_range(values, call)) {
    const T* found = std::find_if(values, values + call.count,
                                  [&](T value) { return !is_allowed(value, call); });
    if (found != values + call.count) {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): an int8 is a number here, and may be negative
      backend::note({call.check, found - values, static_cast<std::uint64_t>(*found)});
    }
  }
  if (call.out == nullptr) return;
  detail::parallel_for(call.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): likewise
      const auto index = static_cast<std::int64_t>(values[j]);
      if (in_range(values[j], call.lowest, call.size)) {
        call.out[j] = index < 0 ? index + call.size : index;
      } else {
        call.out[j] = is_also_allowed(values[j], call.also) ? index : 0;
      }
    }
  });
}

}  // namespace

void check_integers(const CheckIntegersCall& call) {
  detail::visit_dtype(call.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) check<T>(call);
  });
}

namespace {

// Counts into `tables` tables in turn: equal neighbours then do not wait for each other.
template <int tables, class T>
void count_into(const T* x, std::int64_t begin, std::int64_t end, std::int64_t length,
                std::int64_t* counts) {
  std::int64_t i = begin;
  for (; i + tables <= end; i += tables) {
    for (int t = 0; t < tables; ++t) ++counts[t * length + static_cast<std::int64_t>(x[i + t])];
  }
  for (; i < end; ++i) ++counts[static_cast<std::int64_t>(x[i])];
}

template <class T>
void count_elements(const backend::CountCall& call) {
  constexpr std::int64_t short_table = 4096;  // several of them stay in the L1 cache
  constexpr int tables = 4;
  const T* x = reinterpret_cast<const T*>(call.x);
  const bool several = call.length <= short_table;
  // Tables of their own do not pay for threads with fewer elements than those.
  const int threads = detail::threads_for(call.count, std::max(grain, call.length));
  std::fill(call.out, call.out + call.length, 0);
  if (threads == 1 && !several) {
    return count_into<1>(x, 0, call.count, call.length, call.out);
  }
  const std::int64_t size = several ? tables * call.length : call.length;
  detail::Scratch<std::int64_t> memory(static_cast<std::size_t>(threads * size));
  detail::parallel_for(threads, call.count, grain,
                       [&](std::int64_t begin, std::int64_t end, int slot) {
                         std::int64_t* counts = memory.data() + slot * size;
                         if (several) {
                           count_into<tables>(x, begin, end, call.length, counts);
                         } else {
                           count_into<1>(x, begin, end, call.length, counts);
                         }
                       });
  for (std::size_t first = 0; first < memory.size();
       first += static_cast<std::size_t>(call.length)) {
    const std::int64_t* counts = memory.data() + first;
    for (std::int64_t v = 0; v < call.length; ++v) call.out[v] += counts[v];
  }
}

}  // namespace

void count(const backend::CountCall& call) {
  if (call.length == 0) return;
  detail::visit_dtype(call.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) count_elements<T>(call);
  });
}

void nonzero(const backend::NonzeroCall& call) {
  constexpr std::int64_t block = 16384;
  const std::int64_t blocks = (call.count + block - 1) / block;
  detail::Scratch<std::int64_t> first(static_cast<std::size_t>(blocks) + 1);
  const auto block_end = [&](std::int64_t b) { return std::min(call.count, (b + 1) * block); };
  detail::parallel_for(blocks, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      first[static_cast<std::size_t>(b) + 1] =
          std::count(call.mask + b * block, call.mask + block_end(b), true);
    }
  });
  for (std::size_t b = 1; b < first.size(); ++b) first[b] += first[b - 1];
  detail::parallel_for(blocks, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      // Has no branch on the mask, which a random one would mispredict half of the time.
      std::int64_t* next = call.out + first[static_cast<std::size_t>(b)];
      const std::int64_t* end = call.out + first[static_cast<std::size_t>(b) + 1];
      for (std::int64_t i = b * block; next != end; ++i) {
        *next = i;
        next += static_cast<std::int64_t>(call.mask[i]);
      }
    }
  });
}

}  // namespace extensor::cpu
