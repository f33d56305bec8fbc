#include "backend/cuda/memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/state.h"
#include "core/check.h"

namespace extensor::backend::cuda {

namespace {

constexpr std::size_t granule = 512;
constexpr std::size_t slab_bytes = std::size_t{4} << 20;       // small blocks are cut from these
constexpr std::size_t shared_segment = std::size_t{20} << 20;  // large blocks below this share one
constexpr std::size_t segment_granule = std::size_t{2} << 20;
// Segments from this size on are followed by an unused granule. Tensors whose size is a power of
// two would otherwise lie at such distances that reading one and writing another is up to 1 %
// slower.
constexpr std::size_t staggered_segment = std::size_t{64} << 20;
constexpr std::size_t worth_splitting = std::size_t{1} << 20;
constexpr std::size_t small_granule = 256;  // the alignment of every block

std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

std::size_t small_bytes(int size_class) {
  return round_up(detail::small_class_bytes(size_class), small_granule);
}

}  // namespace

DeviceMemory::Block* DeviceMemory::allocate(std::size_t bytes, const char* operation, int pool) {
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty()) put_waiting(false);
  const bool is_small = bytes < detail::large_threshold;
  if (bytes > (std::size_t{1} << 60)) fail(bytes, operation, false);
  const std::size_t rounded =
      is_small ? small_bytes(detail::small_class(bytes)) : round_up(bytes, granule);
  if (limit_ != 0 && allocated_ + rounded > limit_) fail(bytes, operation, true);
  Block* block =
      is_small ? take_small(detail::small_class(bytes), pool) : take_large(rounded, pool);
  if (block == nullptr) fail(bytes, operation, false);
  allocated_ += block->bytes;
  peak_ = std::max(peak_, allocated_);
  ++allocations_;
  return block;
}

void DeviceMemory::free(Block* block) noexcept {
  if (is_unusable()) return;
  const std::lock_guard lock(mutex_);
  allocated_ -= block->bytes;
  cached_ += block->bytes;
  if (!pools_[static_cast<std::size_t>(block->pool)].is_open) block->pool = 0;
  if (open_pools_ > 1 && wait_for_others(block)) return;
  put(block);
}

void DeviceMemory::put(Block* block) {
  if (block->size_class >= 0) {
    pools_[static_cast<std::size_t>(block->pool)].small[block->size_class].push_back(block);
  } else {
    put_large(block);
  }
}

// ---- several streams

void DeviceMemory::set_first_stream(cudaStream_t stream) {
  pools_[0].stream = stream;
  pools_[0].is_open = true;
}

int DeviceMemory::open_pool(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  std::size_t pool = 1;
  while (pool < pools_.size() && pools_[pool].is_open) ++pool;
  if (pool == pools_.size()) pools_.emplace_back();
  pools_[pool].stream = stream;
  pools_[pool].is_open = true;
  ++open_pools_;
  return static_cast<int>(pool);
}

void DeviceMemory::close_pool(int pool) {
  const std::lock_guard lock(mutex_);
  Pool& closed = pools_[static_cast<std::size_t>(pool)];
  put_waiting(true);
  for (int size_class = 0; size_class < detail::small_class_count; ++size_class) {
    std::vector<Block*>& from = closed.small[size_class];
    std::vector<Block*>& to = pools_[0].small[size_class];
    for (Block* block : from) block->pool = 0;
    to.insert(to.end(), from.begin(), from.end());
    from.clear();
  }
  const std::vector<Block*> large(closed.free.begin(), closed.free.end());
  closed.free.clear();
  for (Block* block : large) block->pool = 0;
  for (Block* block : large) pools_[0].free.insert(block);
  closed.is_open = false;
  --open_pools_;
}

// Lets the block wait for the work that the other streams were given so far; false if there is
// none.
bool DeviceMemory::wait_for_others(Block* block) {
  Waiting waiting{block, {}};
  int device = index_;  // of the calling thread
  if (cudaGetDevice(&device) != cudaSuccess ||
      (device != index_ && cudaSetDevice(index_) != cudaSuccess)) {
    return false;  // the device failed
  }
  for (std::size_t k = 0; k < pools_.size(); ++k) {
    if (static_cast<int>(k) == block->pool || !pools_[k].is_open) continue;
    if (cudaStreamQuery(pools_[k].stream) == cudaSuccess) continue;  // it has no work
    cudaGetLastError();                                              // not ready: no error
    cudaEvent_t event = nullptr;
    if (free_events_.empty()) {
      if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) continue;
    } else {
      event = free_events_.back();
      free_events_.pop_back();
    }
    if (cudaEventRecord(event, pools_[k].stream) != cudaSuccess) continue;  // the device failed
    waiting.events.push_back(event);
  }
  if (device != index_) cudaSetDevice(device);
  if (waiting.events.empty()) return false;
  waiting_.push_back(std::move(waiting));
  return true;
}

// Returns the blocks to their pools whose work is done, or all of them, for which it waits.
void DeviceMemory::put_waiting(bool all) {
  while (!waiting_.empty()) {
    Waiting& first = waiting_.front();
    for (cudaEvent_t event : first.events) {
      if (all) {
        check(cudaEventSynchronize(event), "waiting for a stream");
      } else if (const cudaError_t state = cudaEventQuery(event); state == cudaErrorNotReady) {
        cudaGetLastError();  // no error of a later call
        return;
      }
    }
    free_events_.insert(free_events_.end(), first.events.begin(), first.events.end());
    if (!pools_[static_cast<std::size_t>(first.block->pool)].is_open) first.block->pool = 0;
    put(first.block);
    waiting_.pop_front();
  }
}

// ---- small blocks: lists by size, never joined

DeviceMemory::Block* DeviceMemory::take_small(int size_class, int number) {
  Pool& pool = pools_[static_cast<std::size_t>(number)];
  std::vector<Block*>& list = pool.small[size_class];
  const std::size_t bytes = small_bytes(size_class);
  if (!list.empty()) {
    Block* block = list.back();
    list.pop_back();
    cached_ -= block->bytes;
    ++hits_;
    return block;
  }
  list.reserve(list.capacity() == 0 ? 64 : list.capacity());  // so that free() rarely allocates
  if (pool.slab_rest < bytes) {
    Block* slab = new_segment(slab_bytes);
    if (slab == nullptr) return nullptr;
    pool.slab = slab->data;
    pool.slab_rest = slab->bytes;
    delete slab;
  } else {
    ++hits_;
  }
  auto* block = new Block{pool.slab, bytes};
  block->size_class = size_class;
  block->pool = number;
  pool.slab += bytes;
  pool.slab_rest -= bytes;
  return block;
}

// ---- large blocks: the smallest that fits, split and joined

DeviceMemory::Block* DeviceMemory::take_large(std::size_t bytes, int number) {
  std::set<Block*, BySize>& free = pools_[static_cast<std::size_t>(number)].free;
  Block wanted{nullptr, bytes};
  auto found = free.lower_bound(&wanted);
  Block* block = nullptr;
  if (found != free.end()) {
    block = *found;
    free.erase(found);
    cached_ -= block->bytes;
    block->is_free = false;
    ++hits_;
  } else {
    block =
        new_segment(bytes < shared_segment / 2 ? shared_segment : round_up(bytes, segment_granule));
    if (block == nullptr) return nullptr;
    block->pool = number;
  }
  if (block->bytes - bytes >= worth_splitting) {
    auto* rest = new Block{block->data + bytes, block->bytes - bytes, block, block->behind, true};
    if (rest->behind != nullptr) rest->behind->before = rest;
    block->behind = rest;
    block->bytes = bytes;
    rest->pool = number;
    cached_ += rest->bytes;
    free.insert(rest);
  }
  return block;
}

void DeviceMemory::put_large(Block* block) {
  const auto join = [&](Block* first, Block* second) {
    first->bytes += second->bytes;
    first->behind = second->behind;
    if (first->behind != nullptr) first->behind->before = first;
    delete second;
    return first;
  };
  std::set<Block*, BySize>& free = pools_[static_cast<std::size_t>(block->pool)].free;
  const auto joins = [&](const Block* other) {
    return other != nullptr && other->is_free && other->pool == block->pool;
  };
  block->is_free = true;
  if (joins(block->behind)) {
    free.erase(block->behind);
    block = join(block, block->behind);
  }
  if (joins(block->before)) {
    free.erase(block->before);
    block = join(block->before, block);
  }
  free.insert(block);
}

// ---- segments

DeviceMemory::Block* DeviceMemory::new_segment(std::size_t bytes) {
  void* data = nullptr;
  const std::size_t spaced = bytes + (bytes < staggered_segment ? 0 : segment_granule);
  cudaError_t result = cudaMalloc(&data, spaced);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears it
    if (!release_segments()) return nullptr;
    result = cudaMalloc(&data, spaced);
    if (result == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
  }
  check(result, "cudaMalloc");
  segments_[static_cast<const std::byte*>(data)] = bytes;
  return new Block{static_cast<std::byte*>(data), bytes};
}

// Returns all segments without live blocks to CUDA; false if there is none. Slabs stay.
bool DeviceMemory::release_segments() {
  put_waiting(true);
  std::vector<Block*> whole;
  for (const Pool& pool : pools_) {
    for (Block* block : pool.free) {
      if (block->before == nullptr && block->behind == nullptr) whole.push_back(block);
    }
  }
  for (Block* block : whole) {
    pools_[static_cast<std::size_t>(block->pool)].free.erase(block);
    cached_ -= block->bytes;
    segments_.erase(block->data);
    check(cudaFree(block->data), "cudaFree");  // waits for the kernels that use it
    delete block;
  }
  return !whole.empty();
}

void DeviceMemory::fail(std::size_t bytes, const char* operation, bool limited) {
  std::size_t available = 0, total = 0;
  if (cudaMemGetInfo(&available, &total) != cudaSuccess) cudaGetLastError();
  throw OutOfMemoryError(detail::message(
      operation, ": no room for ", bytes, " bytes on cuda:", index_, ": tensors hold ", allocated_,
      ", the cache ", cached_,
      limited ? detail::message(" (the limit is ", limit_, ")")
              : detail::message("; the device has ", available, " of ", total, " bytes free")));
}

bool DeviceMemory::contains(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto* byte = static_cast<const std::byte*>(address);
  auto behind = segments_.upper_bound(byte);
  if (behind == segments_.begin()) return false;
  --behind;
  return byte < behind->first + behind->second;
}

// ---- statistics

MemoryStats DeviceMemory::stats() {
  const std::lock_guard lock(mutex_);
  return {allocated_, peak_, cached_, allocations_, hits_};
}

void DeviceMemory::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = allocated_;
}

void DeviceMemory::empty_cache() {
  const std::lock_guard lock(mutex_);
  release_segments();
}

void DeviceMemory::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

std::size_t DeviceMemory::limit() {
  const std::lock_guard lock(mutex_);
  return limit_;
}

}  // namespace extensor::backend::cuda
