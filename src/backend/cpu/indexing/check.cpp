// Indices before they are used, and the positions of what is true.
#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "backend/cpu/indexing/indexing.h"
#include "core/parallel.h"
#include "core/visit.h"

namespace extensor::cpu {

namespace {

using backend::CheckedIndices;
using backend::CheckIndicesCall;

constexpr std::int64_t grain = 32768;

template <class T>
bool in_range(T index, std::int64_t lowest, std::int64_t size) {
  if constexpr (std::is_unsigned_v<T>) {
    return static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(size);
  } else {
    return (index >= lowest) & (index < size);
  }
}

template <class T>
CheckedIndices check(const CheckIndicesCall& call) {
  const T* indices = reinterpret_cast<const T*>(call.indices);
  std::atomic<bool> any_bad{false}, any_negative{false};
  detail::parallel_for(call.count, grain, [&](std::int64_t begin, std::int64_t end) {
    unsigned bad = 0, negative = 0;  // collected without a branch, so that the loop vectorizes
    for (std::int64_t j = begin; j < end; ++j) {
      bad |= static_cast<unsigned>(!in_range(indices[j], call.lowest, call.size));
      negative |= static_cast<unsigned>(indices[j] < T(0));
    }
    if (bad != 0) any_bad.store(true, std::memory_order_relaxed);
    if (negative != 0) any_negative.store(true, std::memory_order_relaxed);
  });
  const bool negative = any_negative.load(std::memory_order_relaxed);
  if (!any_bad.load(std::memory_order_relaxed)) return {-1, negative};
  const T* found = std::find_if(indices, indices + call.count,
                                [&](T index) { return !in_range(index, call.lowest, call.size); });
  return {found - indices, negative};
}

template <class T>
void count_from_front(const CheckIndicesCall& call) {
  const T* indices = reinterpret_cast<const T*>(call.indices);
  detail::parallel_for(call.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): an int8 is a number here, and may be negative
      const auto index = static_cast<std::int64_t>(indices[j]);
      call.out[j] = index < 0 ? index + call.size : index;
    }
  });
}

}  // namespace

CheckedIndices check_indices(const CheckIndicesCall& call) {
  return detail::visit_dtype(call.dtype, [&]<class T>() -> CheckedIndices {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (call.out == nullptr) return check<T>(call);
      count_from_front<T>(call);
    }
    return {-1, false};
  });
}

void nonzero(const backend::NonzeroCall& call) {
  constexpr std::int64_t block = 16384;
  const std::int64_t blocks = (call.count + block - 1) / block;
  std::vector<std::int64_t> first(static_cast<std::size_t>(blocks) + 1);
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
      // Without a branch on the mask, which a random one would mispredict half of the time.
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
