// Stable sorts of pairs on the device, used by the families that sort and by those that add to
// positions in a fixed order.
#pragma once

#include <bit>

#include "backend/cuda/context.h"

namespace extensor::backend::cuda {

// Keys with their values, and room for as many of both.
template <class Key, class Value>
struct SortBuffers {
  Key* keys;
  Key* other_keys;
  Value* values;
  Value* other_values;
};

// Sorts by the lowest `bits` bits of the keys; equal keys keep their order. The results are in
// `keys` and `values`, which it may exchange with the others. Key and Value are uint32 or uint64.
template <class Key, class Value>
void sort_pairs(SortBuffers<Key, Value>& buffers, std::int64_t count, int bits,
                const char* operation);

// Whether numbers below `limit` fit 32 bits.
inline bool fits_32_bits(std::int64_t limit) { return limit <= std::int64_t{1} << 32; }

// The bits of numbers below `limit`.
inline int bits_below(std::int64_t limit) {
  return limit <= 2 ? 1 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(limit) - 1));
}

// Indices 0 … limit − 1 in ascending order, each with its position; positions of equal ones ascend.
// Word is uint32 if limit and count fit, or uint64.
template <class Word>
class SortedIndices {
 public:
  SortedIndices(const std::int64_t* indices, std::int64_t count, std::int64_t limit,
                const char* operation);
  const Word* indices() const { return buffers_.keys; }
  const Word* positions() const { return buffers_.values; }

 private:
  Scratch memory_;
  SortBuffers<Word, Word> buffers_;
};

}  // namespace extensor::backend::cuda
