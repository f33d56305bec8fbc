// Maps nodes to their positions in a walk: an open-addressed table. The nodes do not store the
// positions themselves, because several walks may share nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph.h"

namespace extensor::autograd {

class NodeIndex {
 public:
  NodeIndex() : slots_(64) {}

  // Returns false if the node was already present.
  bool insert(detail::Node* node, std::uint32_t value) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place(node)];
    if (slot.node != nullptr) return false;
    slot = {node, value};
    ++count_;
    return true;
  }
  void set(detail::Node* node, std::uint32_t value) { slots_[place(node)].value = value; }
  // Returns UINT32_MAX if the node is unknown.
  std::uint32_t find(detail::Node* node) const {
    const Slot& slot = slots_[place(node)];
    return slot.node == nullptr ? UINT32_MAX : slot.value;
  }

 private:
  struct Slot {
    detail::Node* node = nullptr;
    std::uint32_t value = 0;
  };

  // The slot that holds the node, or the empty slot where it belongs.
  std::size_t place(const detail::Node* node) const {
    const std::size_t mask = slots_.size() - 1;
    auto at = static_cast<std::size_t>(
                  (reinterpret_cast<std::uintptr_t>(node) * 0x9E3779B97F4A7C15ULL) >> 32) &
              mask;
    while (slots_[at].node != nullptr && slots_[at].node != node) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.node != nullptr) slots_[place(slot.node)] = slot;
    }
  }

  std::vector<Slot> slots_;  // size is a power of two; at least half are empty
  std::size_t count_ = 0;
};

}  // namespace extensor::autograd
