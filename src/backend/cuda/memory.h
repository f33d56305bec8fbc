// The caching allocator of one device. A block that is freed may be reused at once: all kernels run
// in one stream, so the next user of the block runs after the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "core/size_classes.h"
#include "extensor/memory.h"

namespace extensor::backend::cuda {

class DeviceMemory {
 public:
  // A part of a segment, which one call of CUDA allocated. Neighbours are linked.
  struct Block {
    std::byte* data;
    std::size_t bytes;
    Block* before = nullptr;  // neighbours in the segment
    Block* behind = nullptr;
    bool is_free = false;
    int size_class = -1;  // of a small block
  };

  explicit DeviceMemory(int index = 0) : index_(index) {}
  void set_index(int index) { index_ = index; }

  // OutOfMemoryError, naming `operation`.
  Block* allocate(std::size_t bytes, const char* operation);
  void free(Block* block) noexcept;

  MemoryStats stats();
  void reset_peak();
  void empty_cache();
  void set_limit(std::size_t bytes);
  std::size_t limit();

  // Whether the address is memory of this device.
  bool contains(const void* address);

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
  };

  Block* take(std::size_t bytes);
  Block* take_small(int size_class);
  Block* take_large(std::size_t bytes);
  Block* new_segment(std::size_t bytes);
  void put_large(Block* block);
  bool release_segments();
  [[noreturn]] void fail(std::size_t bytes, const char* operation, bool limited);

  int index_;
  std::mutex mutex_;
  std::vector<Block*> small_[detail::small_class_count];
  std::byte* slab_ = nullptr;  // the rest of the last slab
  std::size_t slab_rest_ = 0;
  std::set<Block*, BySize> free_;                     // large blocks
  std::map<const std::byte*, std::size_t> segments_;  // every allocation of CUDA
  std::size_t allocated_ = 0, peak_ = 0, cached_ = 0, limit_ = 0;
  std::uint64_t allocations_ = 0, hits_ = 0;
};

}  // namespace extensor::backend::cuda
