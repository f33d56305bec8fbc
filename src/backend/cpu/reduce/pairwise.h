// Combining partial results two by two, as they come, without keeping them all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::cpu {

// A binary counter: level k holds the combination of 2ᵏ parts. The parts themselves, numbers or
// whole arrays, are the caller's.
class PairwiseCounter {
 public:
  // A new part travels up through the levels that are full: merge(level) combines it with what
  // rests there. Returns the level where it comes to rest itself.
  template <class Merge>
  int add(Merge&& merge) {
    int level = 0;
    while ((parts_ >> level) & 1) merge(level++);
    ++parts_;
    return level;
  }
  // Calls visit(level) for every full level from the lowest up.
  template <class Visit>
  void finish(Visit&& visit) const {
    for (int level = 0; level < 64; ++level) {
      if ((parts_ >> level) & 1) visit(level);
    }
  }

 private:
  std::uint64_t parts_ = 0;
};

}  // namespace extensor::cpu
