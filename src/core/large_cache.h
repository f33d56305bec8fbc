// Large blocks straight from the system, and those of them that wait for their next use. The caller
// holds a lock around LargeCache; map and unmap need none.
#pragma once

#include <array>
#include <cstddef>

#include "core/size_classes.h"

namespace extensor::detail {

// The room the Storage header takes in front of the data of every block.
inline constexpr std::size_t header_bytes = 64;

// A block for `capacity` bytes of data, or nullptr; huge pages from 4 MiB on.
void* map_large_block(std::size_t capacity);
void unmap_large_block(void* block, std::size_t capacity);

class LargeCache {
 public:
  // The smallest cached block with at least `capacity` bytes and not more than a quarter beyond, or
  // nullptr. Sets `found` to its capacity.
  void* take(std::size_t capacity, std::size_t& found);
  void put(void* block, std::size_t capacity);

  // The block that waited longest, removed, or nullptr when there is none.
  void* take_oldest(std::size_t& found);

  std::size_t bytes() const { return bytes_; }

 private:
  // Lives in the header of a cached block, so that caching never allocates.
  struct Node {
    Node* next;
    Node* previous;
    Node* newer;
    Node* older;
    int size_class;
  };
  static_assert(sizeof(Node) <= header_bytes);

  void remove(Node* node);

  std::array<Node*, large_class_count> lists_{};
  Node* newest_ = nullptr;
  Node* oldest_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace extensor::detail
