// The caching allocator of one device. Each stream has a pool of blocks. A block that is freed may
// be reused in its stream at once, since the next user of the block runs after the last one. While
// there is more than one stream, others may still use it: it waits until the work that they were
// given before is done.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <deque>
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
    int pool = 0;
  };

  explicit DeviceMemory(int index = 0) : index_(index) {}
  void set_index(int index) { index_ = index; }

  // A pool for another stream; pool 0 is that of the first one. Memory that was allocated in a
  // closed pool belongs to pool 0 when it is freed. All work of the stream has ended when its pool
  // is closed.
  void set_first_stream(cudaStream_t stream);
  int open_pool(cudaStream_t stream);
  void close_pool(int pool);
  bool has_many_streams() const { return open_pools_ > 1; }

  // OutOfMemoryError, naming `operation`.
  Block* allocate(std::size_t bytes, const char* operation, int pool);
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

  struct Pool {
    cudaStream_t stream = nullptr;
    bool is_open = false;
    std::vector<Block*> small[detail::small_class_count];
    std::byte* slab = nullptr;  // the rest of the last slab
    std::size_t slab_rest = 0;
    std::set<Block*, BySize> free;  // large blocks
  };
  // A block that was freed while other streams might use it.
  struct Waiting {
    Block* block;
    std::vector<cudaEvent_t> events;  // recorded in the other streams
  };

  Block* take_small(int size_class, int pool);
  Block* take_large(std::size_t bytes, int pool);
  Block* new_segment(std::size_t bytes);
  void put(Block* block);
  void put_large(Block* block);
  bool wait_for_others(Block* block);
  void put_waiting(bool all);
  bool release_segments();
  [[noreturn]] void fail(std::size_t bytes, const char* operation, bool limited);

  int index_;
  std::mutex mutex_;
  std::deque<Pool> pools_ = std::deque<Pool>(1);
  int open_pools_ = 1;
  std::deque<Waiting> waiting_;
  std::vector<cudaEvent_t> free_events_;
  std::map<const std::byte*, std::size_t> segments_;  // every allocation of CUDA
  std::size_t allocated_ = 0, peak_ = 0, cached_ = 0, limit_ = 0;
  std::uint64_t allocations_ = 0, hits_ = 0;
};

}  // namespace extensor::backend::cuda
