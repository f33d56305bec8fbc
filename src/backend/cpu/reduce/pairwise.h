// Combining partial results two by two, as they come, without keeping them all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::cpu {

// A binary counter: the k-th level holds the combination of 2ᵏ parts. `merge(older, newer)` folds
// `newer` into `older`'s place; slots are the caller's (numbers, or whole arrays).
class PairwiseCounter {
 public:
  // The level the next part is to be put at before add() is called.
  static constexpr int fresh = 0;

  // Tells how a new part travels: calls merge(level, level_of_new) for every level that is full,
  // and returns the level where the result rests.
  template <class Merge>
  int add(Merge&& merge) {
    int level = 0;
    while ((parts_ >> level) & 1) merge(level++);
    ++parts_;
    return level;
  }
  // Calls merge(level) for every full level from the lowest up.
  template <class Visit>
  void finish(Visit&& visit) const {
    for (int level = 0; level < 64; ++level) {
      if ((parts_ >> level) & 1) visit(level);
    }
  }
  std::uint64_t parts() const { return parts_; }

 private:
  std::uint64_t parts_ = 0;
};

}  // namespace extensor::cpu
