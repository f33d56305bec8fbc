// Combines partial results in pairs, as they arrive, without keeping them all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::cpu {

// A binary counter: level k holds the combination of 2ᵏ parts. The caller keeps the parts
// themselves, which are numbers or whole arrays.
class PairwiseCounter {
 public:
  // Moves a new part up through the full levels: merge(level) combines it with the part there.
  // Returns the level at which it stays.
  template <class Merge>
  int add(Merge&& merge) {
    int level = 0;
    while ((parts_ >> level) & 1) merge(level++);
    ++parts_;
    return level;
  }
  // Calls visit(level) for every full level in ascending order.
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
