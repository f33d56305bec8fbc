// The caching allocator. A block is a Storage header followed by its data. Small blocks come from
// malloc and return to the freeing thread's magazines; surplus magazines move to a shared list,
// from which any thread refills. Large blocks are mapped and kept in one shared cache. The shared
// state is never destroyed, so tensors in static objects may be freed at any time.
#include "core/allocator.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <type_traits>

#include "core/check.h"
#include "core/large_cache.h"
#include "core/machine.h"
#include "core/sanitizer.h"
#include "core/thread_cache.h"
#include "extensor/error.h"

namespace extensor::detail {

constinit thread_local ThreadCache* current_thread_cache = nullptr;

namespace {

static_assert(sizeof(Storage) == header_bytes && sizeof(FreeBlock) == header_bytes);

constexpr std::uint32_t magazine_blocks = 64;
constexpr std::size_t magazine_bytes = std::size_t{1} << 20;       // per size class
constexpr std::size_t thread_cache_bytes = std::size_t{8} << 20;   // per thread
constexpr std::size_t shared_small_bytes = std::size_t{64} << 20;  // small blocks of all threads
constexpr std::int64_t pending_limit = std::int64_t{64} << 10;

struct Shared {
  std::mutex mutex;
  std::array<Magazine, small_class_count> small;
  std::size_t small_bytes = 0;
  LargeCache large;
  ThreadCache* threads = nullptr;
  // Counters of threads that have ended.
  std::uint64_t allocations = 0;
  std::uint64_t cache_hits = 0;
};
static_assert(std::is_trivially_destructible_v<Shared>);

constinit Shared shared;
constinit std::atomic<std::int64_t> shared_allocated{0};
constinit std::atomic<std::int64_t> shared_peak{0};
constinit std::atomic<std::size_t> limit{0};
constinit thread_local bool thread_ended = false;

// ---- counting

void raise_peak(std::int64_t candidate) {
  std::int64_t peak = shared_peak.load(std::memory_order_relaxed);
  while (candidate > peak && !shared_peak.compare_exchange_weak(peak, candidate)) {
  }
}

// Moves the thread's share to the shared total. Requires the lock, because totals_locked() reads
// both and must not count the share twice.
void publish_pending_locked(ThreadCache& cache) {
  const std::int64_t before = shared_allocated.fetch_add(cache.pending.get());
  raise_peak(before + cache.pending_peak.get());
  cache.pending.set(0);
  cache.pending_peak.set(0);
}
[[gnu::noinline]] void publish_pending(ThreadCache& cache) {
  const std::lock_guard lock(shared.mutex);
  publish_pending_locked(cache);
}

// Counts a block larger than a thread may keep to itself in one step, so that the shared total is
// never off by more than pending_limit for each thread.
[[gnu::noinline]] void count_directly(ThreadCache& cache, std::int64_t bytes) {
  const std::int64_t before = shared_allocated.fetch_add(bytes);
  raise_peak(before + cache.pending_peak.get());
  raise_peak(before + bytes + cache.pending.get());
  cache.pending_peak.set(cache.pending.get());
}

// The exact total, and its highest value as far as the threads have observed it.
struct Totals {
  std::int64_t allocated;
  std::int64_t peak;
};
Totals totals_locked() {
  std::int64_t allocated = shared_allocated.load(std::memory_order_relaxed);
  std::int64_t above = 0;
  for (const ThreadCache* cache = shared.threads; cache != nullptr; cache = cache->next) {
    const std::int64_t pending = cache->pending.get();
    allocated += pending;
    above = std::max(above, cache->pending_peak.get() - pending);
  }
  return {allocated, std::max(shared_peak.load(std::memory_order_relaxed), allocated + above)};
}

// With a limit set, every allocation counts exactly, under the lock.
bool charge_within_limit(std::size_t capacity, std::size_t most) {
  const std::lock_guard lock(shared.mutex);
  const Totals totals = totals_locked();
  const auto allocated = static_cast<std::size_t>(std::max<std::int64_t>(totals.allocated, 0));
  if (capacity > most || allocated > most - capacity) return false;
  shared_allocated.fetch_add(static_cast<std::int64_t>(capacity));
  raise_peak(totals.allocated + static_cast<std::int64_t>(capacity));
  return true;
}

// Returns false, and counts nothing, when the limit does not allow the allocation.
inline bool charge(ThreadCache* cache, std::size_t capacity) {
  const std::size_t most = limit.load(std::memory_order_relaxed);
  if (most != 0) [[unlikely]] {
    return charge_within_limit(capacity, most);
  }
  if (cache == nullptr) [[unlikely]] {
    raise_peak(shared_allocated.fetch_add(static_cast<std::int64_t>(capacity)) +
               static_cast<std::int64_t>(capacity));
    return true;
  }
  if (capacity > static_cast<std::size_t>(pending_limit)) {
    count_directly(*cache, static_cast<std::int64_t>(capacity));
    return true;
  }
  const std::int64_t pending = cache->pending.get() + static_cast<std::int64_t>(capacity);
  cache->pending.set(pending);
  if (pending > cache->pending_peak.get()) cache->pending_peak.set(pending);
  if (pending > pending_limit) publish_pending(*cache);
  return true;
}

inline void discharge(ThreadCache* cache, std::size_t capacity) {
  if (cache == nullptr) [[unlikely]] {
    shared_allocated.fetch_sub(static_cast<std::int64_t>(capacity));
    return;
  }
  if (capacity > static_cast<std::size_t>(pending_limit)) {
    return count_directly(*cache, -static_cast<std::int64_t>(capacity));
  }
  const std::int64_t pending = cache->pending.get() - static_cast<std::int64_t>(capacity);
  cache->pending.set(pending);
  if (pending < -pending_limit) publish_pending(*cache);
}

void count_allocation(ThreadCache* cache, bool hit) {
  if (cache != nullptr) {
    cache->allocations.add(1);
    if (hit) cache->cache_hits.add(1);
  } else {
    const std::lock_guard lock(shared.mutex);
    ++shared.allocations;
    shared.cache_hits += hit ? 1 : 0;
  }
}

// ---- small blocks

constexpr auto magazine_limits = [] {
  std::array<std::uint32_t, small_class_count> limits{};
  for (int i = 0; i < small_class_count; ++i) {
    const std::size_t blocks = magazine_bytes / small_class_bytes(i);
    limits[static_cast<std::size_t>(i)] =
        static_cast<std::uint32_t>(std::clamp<std::size_t>(blocks, 2, magazine_blocks));
  }
  return limits;
}();
constexpr auto class_bytes = [] {
  std::array<std::size_t, small_class_count> bytes{};
  for (int i = 0; i < small_class_count; ++i) {
    bytes[static_cast<std::size_t>(i)] = small_class_bytes(i);
  }
  return bytes;
}();

inline void push(Magazine& magazine, FreeBlock* block) {
  block->next = magazine.first;
  magazine.first = block;
  ++magazine.count;
}
inline FreeBlock* pop(Magazine& magazine) {
  FreeBlock* block = magazine.first;
  magazine.first = block->next;
  --magazine.count;
  return block;
}

void free_blocks(Magazine& magazine, std::size_t capacity) {
  while (magazine.count != 0) {
    FreeBlock* block = pop(magazine);
    unpoison(block, header_bytes + capacity);
    std::free(block);
  }
}

// Moves `count` blocks to the shared lists, or returns them to malloc when those are full.
void give_to_shared(Magazine& magazine, std::size_t size_class, std::uint32_t count) {
  const std::size_t capacity = class_bytes[size_class];
  Magazine surplus;
  {
    const std::lock_guard lock(shared.mutex);
    for (; count != 0; --count) {
      const bool room = shared.small_bytes + capacity <= shared_small_bytes;
      push(room ? shared.small[size_class] : surplus, pop(magazine));
      if (room) shared.small_bytes += capacity;
    }
  }
  free_blocks(surplus, capacity);
}

void take_from_shared(Magazine& magazine, std::size_t size_class, std::uint32_t most) {
  const std::lock_guard lock(shared.mutex);
  Magazine& source = shared.small[size_class];
  for (std::uint32_t count = std::min(most, source.count); count != 0; --count) {
    push(magazine, pop(source));
    shared.small_bytes -= class_bytes[size_class];
  }
}

// Called when the magazine is empty, or when there is none because the thread is ending.
FreeBlock* refill(ThreadCache* cache, std::size_t size_class, bool& hit) {
  Magazine single;
  Magazine& magazine = cache != nullptr ? cache->magazines[size_class] : single;
  const std::uint32_t wanted = cache != nullptr ? magazine_limits[size_class] / 2 : 1;
  take_from_shared(magazine, size_class, wanted);
  hit = magazine.count != 0;
  if (hit) {
    if (cache != nullptr) {
      cache->cached_bytes.add((magazine.count - 1) * class_bytes[size_class]);
    }
    return pop(magazine);
  }
  const std::size_t bytes = header_bytes + class_bytes[size_class];
  void* block = std::aligned_alloc(header_bytes, bytes);
  if (block == nullptr) {
    empty_host_cache();
    block = std::aligned_alloc(header_bytes, bytes);
  }
  return static_cast<FreeBlock*>(block);
}

// Called when the magazine of this class is full, the thread holds too much, or it is ending.
[[gnu::noinline]] void release_surplus(ThreadCache* cache, FreeBlock* block,
                                       std::size_t size_class) {
  if (cache == nullptr) {
    Magazine single;
    push(single, block);
    give_to_shared(single, size_class, 1);
    return;
  }
  Magazine& magazine = cache->magazines[size_class];
  push(magazine, block);
  const std::uint32_t kept = magazine_limits[size_class] / 2;
  const std::uint32_t given = magazine.count > kept ? magazine.count - kept : magazine.count;
  // The block itself is not counted as cached yet.
  cache->cached_bytes.set(cache->cached_bytes.get() + class_bytes[size_class] -
                          given * class_bytes[size_class]);
  give_to_shared(magazine, size_class, given);
}

void release_small(Storage* storage) {
  const auto size_class = reinterpret_cast<std::uintptr_t>(storage->context);
  const std::size_t capacity = class_bytes[size_class];
  poison(storage, sizeof(FreeBlock::was_storage));
  poison(reinterpret_cast<std::byte*>(storage) + header_bytes, capacity);
  auto* block = reinterpret_cast<FreeBlock*>(storage);
  ThreadCache* cache = thread_cache();
  discharge(cache, capacity);
  if (cache != nullptr && cache->magazines[size_class].count < magazine_limits[size_class] &&
      cache->cached_bytes.get() + capacity <= thread_cache_bytes) [[likely]] {
    push(cache->magazines[size_class], block);
    cache->cached_bytes.add(capacity);
  } else {
    release_surplus(cache, block, size_class);
  }
}

// ---- large blocks

void release_large(Storage* storage) {
  const auto capacity = reinterpret_cast<std::uintptr_t>(storage->context);
  discharge(thread_cache(), capacity);
  poison(reinterpret_cast<std::byte*>(storage) + header_bytes, capacity);
  // Beyond a quarter of the machine's memory, the block that waited longest is unmapped.
  const std::size_t most = machine_bytes() / 4;
  std::unique_lock lock(shared.mutex);
  shared.large.put(storage, capacity);
  while (shared.large.bytes() > most) {
    std::size_t found = 0;
    void* oldest = shared.large.take_oldest(found);
    lock.unlock();
    unmap_large_block(oldest, found);
    lock.lock();
  }
}

[[noreturn]] void throw_beyond_limit(const char* operation, std::size_t bytes) {
  throw OutOfMemoryError(message(operation, ": no room for ", bytes, " bytes: the memory limit is ",
                                 host_memory_limit(), " bytes, of which ",
                                 host_memory_stats().allocated_bytes, " are in use"));
}
[[noreturn]] void throw_beyond_machine(const char* operation, std::size_t bytes) {
  throw OutOfMemoryError(message(operation, ": no room for ", bytes, " bytes: the machine has ",
                                 machine_bytes(), " bytes, of which tensors use ",
                                 host_memory_stats().allocated_bytes));
}

void* take_large(ThreadCache* cache, std::size_t bytes, const char* operation,
                 std::size_t& capacity) {
  capacity = large_class_bytes(large_class(bytes));
  void* block = nullptr;
  std::size_t found = 0;
  {
    const std::lock_guard lock(shared.mutex);
    block = shared.large.take(capacity, found);
  }
  if (block != nullptr && !charge(cache, found)) {
    // Perhaps only the spare room of the found block exceeds the limit.
    unmap_large_block(block, found);
    block = nullptr;
  }
  if (block != nullptr) {
    capacity = found;
    count_allocation(cache, true);
    return block;
  }
  if (!charge(cache, capacity)) throw_beyond_limit(operation, bytes);
  // Linux promises more memory than it has and kills the process that touches it, so compare with
  // the machine's size instead of relying on mmap. The total includes the share of every thread:
  // shared_allocated alone is negative where one thread frees blocks that others allocated.
  const MemoryStats stats = host_memory_stats();
  if (stats.allocated_bytes <= machine_bytes()) {
    if (stats.cached_bytes > machine_bytes() - stats.allocated_bytes) empty_host_cache();
    block = map_large_block(capacity);
    if (block == nullptr) {
      empty_host_cache();
      block = map_large_block(capacity);
    }
  }
  if (block == nullptr) {
    discharge(cache, capacity);
    throw_beyond_machine(operation, bytes);
  }
  count_allocation(cache, false);
  return block;
}

// ---- threads

void empty_magazines(ThreadCache& cache) {
  for (std::size_t i = 0; i < cache.magazines.size(); ++i) {
    free_blocks(cache.magazines[i], class_bytes[i]);
  }
  cache.cached_bytes.set(0);
}

// Runs at the end of a thread and hands its blocks to the shared lists.
void detach_thread_cache() {
  ThreadCache* cache = current_thread_cache;
  current_thread_cache = nullptr;
  thread_ended = true;
  if (cache == nullptr) return;
  for (std::size_t i = 0; i < cache->magazines.size(); ++i) {
    if (cache->magazines[i].count != 0) {
      give_to_shared(cache->magazines[i], i, cache->magazines[i].count);
    }
  }
  while (cache->free_impls != nullptr) {
    FreeImpl* next = cache->free_impls->next;
    ::operator delete(cache->free_impls);
    cache->free_impls = next;
  }
  {
    const std::lock_guard lock(shared.mutex);
    publish_pending_locked(*cache);
    shared.allocations += cache->allocations.get();
    shared.cache_hits += cache->cache_hits.get();
    (cache->previous != nullptr ? cache->previous->next : shared.threads) = cache->next;
    if (cache->next != nullptr) cache->next->previous = cache->previous;
  }
  delete cache;
}

struct ThreadEnd {
  ~ThreadEnd() { detach_thread_cache(); }
};

// A child process has only the thread that forked, so no other thread may hold the lock then.
void lock_before_fork() { shared.mutex.lock(); }
void unlock_after_fork() { shared.mutex.unlock(); }

}  // namespace

ThreadCache* attach_thread_cache() {
  if (thread_ended) return nullptr;
  static const int registered =
      pthread_atfork(lock_before_fork, unlock_after_fork, unlock_after_fork);
  static_cast<void>(registered);
  auto* cache = new (std::nothrow) ThreadCache;
  if (cache == nullptr) return nullptr;
  static thread_local ThreadEnd end;
  static_cast<void>(end);
  const std::lock_guard lock(shared.mutex);
  cache->next = shared.threads;
  if (shared.threads != nullptr) shared.threads->previous = cache;
  shared.threads = cache;
  current_thread_cache = cache;
  return cache;
}

StoragePointer allocate_host(std::size_t bytes, const char* operation) {
  ThreadCache* cache = thread_cache();
  void* block = nullptr;
  void* context = nullptr;
  std::size_t capacity = 0;
  void (*release)(Storage*) = nullptr;
  if (bytes < large_threshold) [[likely]] {
    const auto size_class = static_cast<std::size_t>(small_class(bytes));
    capacity = class_bytes[size_class];
    if (!charge(cache, capacity)) [[unlikely]] {
      throw_beyond_limit(operation, bytes);
    }
    bool hit = true;
    if (cache != nullptr && cache->magazines[size_class].count != 0) [[likely]] {
      block = pop(cache->magazines[size_class]);
      cache->cached_bytes.add(std::size_t{0} - capacity);
    } else {
      block = refill(cache, size_class, hit);
      if (block == nullptr) {
        discharge(cache, capacity);
        throw_beyond_machine(operation, bytes);
      }
    }
    count_allocation(cache, hit);
    context = reinterpret_cast<void*>(size_class);
    release = release_small;
  } else {
    if (bytes > machine_bytes()) throw_beyond_machine(operation, bytes);
    block = take_large(cache, bytes, operation, capacity);
    context = reinterpret_cast<void*>(capacity);
    release = release_large;
  }
  unpoison(block, header_bytes + bytes);
  auto* storage = new (block) Storage;
  storage->data = static_cast<std::byte*>(block) + header_bytes;
  storage->bytes = bytes;
  storage->release = release;
  storage->context = context;
  // An access past the end is an error even if the block has room.
  poison(static_cast<std::byte*>(storage->data) + bytes, capacity - bytes);
  return StoragePointer(storage);
}

MemoryStats host_memory_stats() {
  const std::lock_guard lock(shared.mutex);
  const Totals totals = totals_locked();
  MemoryStats stats{static_cast<std::size_t>(std::max<std::int64_t>(totals.allocated, 0)),
                    static_cast<std::size_t>(std::max<std::int64_t>(totals.peak, 0)),
                    shared.small_bytes + shared.large.bytes(), shared.allocations,
                    shared.cache_hits};
  for (const ThreadCache* cache = shared.threads; cache != nullptr; cache = cache->next) {
    stats.cached_bytes += cache->cached_bytes.get();
    stats.allocations += cache->allocations.get();
    stats.cache_hits += cache->cache_hits.get();
  }
  return stats;
}

void reset_host_peak() {
  const std::lock_guard lock(shared.mutex);
  for (ThreadCache* cache = shared.threads; cache != nullptr; cache = cache->next) {
    cache->pending_peak.set(cache->pending.get());
  }
  shared_peak.store(totals_locked().allocated);
}

void empty_host_cache() {
  if (current_thread_cache != nullptr) empty_magazines(*current_thread_cache);
  std::array<Magazine, small_class_count> blocks;
  {
    const std::lock_guard lock(shared.mutex);
    blocks = shared.small;
    shared.small = {};
    shared.small_bytes = 0;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) free_blocks(blocks[i], class_bytes[i]);
  for (;;) {
    std::size_t found = 0;
    void* block = nullptr;
    {
      const std::lock_guard lock(shared.mutex);
      block = shared.large.take_oldest(found);
    }
    if (block == nullptr) break;
    unmap_large_block(block, found);
  }
}

void set_host_memory_limit(std::size_t bytes) { limit.store(bytes); }
std::size_t host_memory_limit() { return limit.load(); }

}  // namespace extensor::detail
