#include "backend/cuda/memory.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "backend/cuda/state.h"
#include "core/check.h"

namespace extensor::backend::cuda {

namespace {

constexpr std::size_t granule = 512;
constexpr std::size_t slab_bytes = std::size_t{4} << 20;       // small blocks are cut from these
constexpr std::size_t shared_segment = std::size_t{20} << 20;  // large blocks below this share one
constexpr std::size_t segment_granule = std::size_t{2} << 20;
constexpr std::size_t worth_splitting = std::size_t{1} << 20;
constexpr std::size_t small_granule = 256;  // the alignment of every block

std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

std::size_t small_bytes(int size_class) {
  return round_up(detail::small_class_bytes(size_class), small_granule);
}

}  // namespace

DeviceMemory::Block* DeviceMemory::allocate(std::size_t bytes, const char* operation) {
  const std::lock_guard lock(mutex_);
  const bool is_small = bytes < detail::large_threshold;
  if (bytes > (std::size_t{1} << 60)) fail(bytes, operation, false);
  const std::size_t rounded =
      is_small ? small_bytes(detail::small_class(bytes)) : round_up(bytes, granule);
  if (limit_ != 0 && allocated_ + rounded > limit_) fail(bytes, operation, true);
  Block* block = is_small ? take_small(detail::small_class(bytes)) : take_large(rounded);
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
  if (block->size_class >= 0) {
    small_[block->size_class].push_back(block);
  } else {
    put_large(block);
  }
}

// ---- small blocks: lists by size, never joined

DeviceMemory::Block* DeviceMemory::take_small(int size_class) {
  std::vector<Block*>& list = small_[size_class];
  const std::size_t bytes = small_bytes(size_class);
  if (!list.empty()) {
    Block* block = list.back();
    list.pop_back();
    cached_ -= block->bytes;
    ++hits_;
    return block;
  }
  list.reserve(list.capacity() == 0 ? 64 : list.capacity());  // so that free() rarely allocates
  if (slab_rest_ < bytes) {
    Block* slab = new_segment(slab_bytes);
    if (slab == nullptr) return nullptr;
    slab_ = slab->data;
    slab_rest_ = slab->bytes;
    delete slab;
  } else {
    ++hits_;
  }
  auto* block = new Block{slab_, bytes};
  block->size_class = size_class;
  slab_ += bytes;
  slab_rest_ -= bytes;
  return block;
}

// ---- large blocks: the smallest that fits, split and joined

DeviceMemory::Block* DeviceMemory::take_large(std::size_t bytes) {
  Block wanted{nullptr, bytes};
  auto found = free_.lower_bound(&wanted);
  Block* block = nullptr;
  if (found != free_.end()) {
    block = *found;
    free_.erase(found);
    cached_ -= block->bytes;
    block->is_free = false;
    ++hits_;
  } else {
    block =
        new_segment(bytes < shared_segment / 2 ? shared_segment : round_up(bytes, segment_granule));
    if (block == nullptr) return nullptr;
  }
  if (block->bytes - bytes >= worth_splitting) {
    auto* rest = new Block{block->data + bytes, block->bytes - bytes, block, block->behind, true};
    if (rest->behind != nullptr) rest->behind->before = rest;
    block->behind = rest;
    block->bytes = bytes;
    cached_ += rest->bytes;
    free_.insert(rest);
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
  block->is_free = true;
  if (block->behind != nullptr && block->behind->is_free) {
    free_.erase(block->behind);
    block = join(block, block->behind);
  }
  if (block->before != nullptr && block->before->is_free) {
    free_.erase(block->before);
    block = join(block->before, block);
  }
  free_.insert(block);
}

// ---- segments

DeviceMemory::Block* DeviceMemory::new_segment(std::size_t bytes) {
  void* data = nullptr;
  cudaError_t result = cudaMalloc(&data, bytes);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears it
    if (!release_segments()) return nullptr;
    result = cudaMalloc(&data, bytes);
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
  std::vector<Block*> whole;
  for (Block* block : free_) {
    if (block->before == nullptr && block->behind == nullptr) whole.push_back(block);
  }
  for (Block* block : whole) {
    free_.erase(block);
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
