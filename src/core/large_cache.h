// Large blocks mapped directly from the system, and a cache of the free ones. The caller holds a
// lock around LargeCache; map and unmap need none.
#pragma once

#include <array>
#include <cstddef>

#include "core/size_classes.h"

namespace extensor::detail {

// The size of the Storage header before the data of every block.
inline constexpr std::size_t header_bytes = 64;

// A block for `capacity` bytes of data, or nullptr. Uses huge pages from 4 MiB on.
void* map_large_block(std::size_t capacity);
void unmap_large_block(void* block, std::size_t capacity);

class LargeCache {
 public:
  // Removes and returns the smallest cached block with at least `capacity` bytes and at most a
  // quarter more, or nullptr. Sets `found` to its capacity.
  void* take(std::size_t capacity, std::size_t& found);
  void put(void* block, std::size_t capacity);

  // Removes and returns the block that waited longest, or nullptr if the cache is empty.
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
