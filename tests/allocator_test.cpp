// The caching allocator: alignment, reuse, statistics, the limit, and threads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/make_tensor.h"
#include "core/size_classes.h"
#include "extensor/creation.h"
#include "extensor/error.h"
#include "extensor/memory.h"
#include "extensor/sorting.h"
#include "extensor/storage.h"

namespace {

using namespace extensor;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

StoragePointer allocate(std::size_t bytes) { return allocate_storage(bytes, cpu_device, "test"); }

class AllocatorTest : public testing::Test {
 protected:
  void SetUp() override {
    set_memory_limit(0);
    empty_cache();
    reset_peak_memory_stats();
  }
  void TearDown() override { set_memory_limit(0); }
};

TEST(SizeClassTest, ClassesAreTightAndMonotonic) {
  for (std::size_t bytes = 1; bytes < detail::large_threshold; bytes += 1 + bytes / 97) {
    const int size_class = detail::small_class(bytes);
    ASSERT_GE(detail::small_class_bytes(size_class), bytes);
    if (size_class > 0) {
      ASSERT_LT(detail::small_class_bytes(size_class - 1), bytes);
    }
    ASSERT_EQ(detail::small_class_bytes(size_class) % 64, 0u);
  }
  for (std::size_t bytes = detail::large_threshold; bytes < (std::size_t{1} << 50);
       bytes += 1 + bytes / 97) {
    const std::size_t capacity = detail::large_class_bytes(detail::large_class(bytes));
    ASSERT_GE(capacity, bytes);
    ASSERT_LE(static_cast<double>(capacity - bytes), 0.125 * static_cast<double>(bytes));
  }
}

TEST_F(AllocatorTest, EverySizeIsAlignedAndWritable) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
        std::size_t{4096}, std::size_t{100000}, mebibyte - 1, mebibyte, 3 * mebibyte + 5,
        4 * mebibyte, 9 * mebibyte + 1}) {
    const StoragePointer storage = allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage->data) % 64, 0u) << bytes;
    EXPECT_EQ(storage->bytes, bytes);
    std::memset(storage->data, 0xab, bytes);
  }
}

TEST_F(AllocatorTest, FreedBlocksAreReused) {
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{70000}, 2 * mebibyte}) {
    void* first = allocate(bytes)->data;
    const std::uint64_t hits = memory_stats().cache_hits;
    EXPECT_EQ(allocate(bytes)->data, first) << bytes;
    EXPECT_EQ(memory_stats().cache_hits, hits + 1) << bytes;
  }
}

TEST_F(AllocatorTest, LargeBlocksFitBest) {
  void* wide = nullptr;
  void* close = nullptr;
  {
    const StoragePointer a = allocate(10 * mebibyte);
    const StoragePointer b = allocate(8 * mebibyte);
    wide = a->data;
    close = b->data;
  }
  const StoragePointer first = allocate(8 * mebibyte - 100);
  EXPECT_EQ(first->data, close);
  const StoragePointer second = allocate(8 * mebibyte);
  EXPECT_EQ(second->data, wide);  // a block may be up to a quarter larger
  const StoragePointer third = allocate(2 * mebibyte);
  EXPECT_NE(third->data, wide);
}

TEST_F(AllocatorTest, StatisticsCountLiveAndPeakBytes) {
  const MemoryStats before = memory_stats();
  {
    const StoragePointer a = allocate(1000);  // class 1024
    EXPECT_EQ(memory_stats().allocated_bytes, before.allocated_bytes + 1024);
    {
      const StoragePointer b = allocate(5 * mebibyte);
      EXPECT_EQ(memory_stats().allocated_bytes, before.allocated_bytes + 1024 + 5 * mebibyte);
    }
    EXPECT_EQ(memory_stats().allocated_bytes, before.allocated_bytes + 1024);
    EXPECT_EQ(memory_stats().peak_allocated_bytes, before.allocated_bytes + 1024 + 5 * mebibyte);
  }
  const MemoryStats after = memory_stats();
  EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(after.allocations, before.allocations + 2);
  EXPECT_EQ(after.cached_bytes, before.cached_bytes + 1024 + 5 * mebibyte);
  reset_peak_memory_stats();
  EXPECT_EQ(memory_stats().peak_allocated_bytes, before.allocated_bytes);
}

TEST_F(AllocatorTest, EmptyCacheGivesEverythingBack) {
  {
    std::vector<StoragePointer> held;
    for (int i = 0; i < 200; ++i) held.push_back(allocate(64 << (i % 16)));
  }
  EXPECT_GT(memory_stats().cached_bytes, 0u);
  empty_cache();
  EXPECT_EQ(memory_stats().cached_bytes, 0u);
}

TEST_F(AllocatorTest, LimitHoldsExactlyAndChangesNothing) {
  const std::size_t base = memory_stats().allocated_bytes;
  set_memory_limit(base + 4096);
  EXPECT_EQ(memory_limit(), base + 4096);
  const StoragePointer a = allocate(2048);
  const StoragePointer b = allocate(1024);
  EXPECT_THROW(allocate(1025), OutOfMemoryError);
  EXPECT_THROW(allocate(64 * mebibyte), OutOfMemoryError);
  EXPECT_EQ(memory_stats().allocated_bytes, base + 3072);
  const StoragePointer c = allocate(1024);
  EXPECT_THROW(allocate(1), OutOfMemoryError);
  set_memory_limit(0);
  EXPECT_EQ(allocate(64 * mebibyte)->bytes, 64 * mebibyte);
}

TEST_F(AllocatorTest, LimitMessageNamesOperationAndNumbers) {
  set_memory_limit(1);
  try {
    allocate_storage(12345, cpu_device, "zeros");
    FAIL();
  } catch (const OutOfMemoryError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("zeros: ", 0), 0u) << text;
    EXPECT_NE(text.find("12345 bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("limit is 1 bytes"), std::string::npos) << text;
  }
}

// Kernels allocate scratch memory from this allocator: a sort of n elements holds them twice.
TEST_F(AllocatorTest, ScratchMemoryOfKernelsIsCountedAndLimited) {
  const Tensor x = arange(1 << 16, float32);
  const std::size_t base = memory_stats().allocated_bytes, result = x.nbytes();
  reset_peak_memory_stats();
  EXPECT_EQ(sort(x).shape(), x.shape());
  EXPECT_GE(memory_stats().peak_allocated_bytes, base + result + 2 * result);
  EXPECT_EQ(memory_stats().allocated_bytes, base);
  set_memory_limit(base + result + result / 2);
  EXPECT_THROW(sort(x), OutOfMemoryError);
  EXPECT_EQ(memory_stats().allocated_bytes, base);
  set_memory_limit(0);
  EXPECT_EQ(sort(x).numel(), x.numel());
}

TEST_F(AllocatorTest, Item04BeyondTheMachineIsSurvived) {
  const std::size_t before = memory_stats().allocated_bytes;
  EXPECT_THROW(allocate(std::size_t{1} << 50), OutOfMemoryError);
  EXPECT_THROW(allocate(std::size_t{1} << 62), OutOfMemoryError);
  EXPECT_THROW(allocate(SIZE_MAX), OutOfMemoryError);
  EXPECT_EQ(memory_stats().allocated_bytes, before);
  EXPECT_EQ(allocate(100)->bytes, 100u);
}

TEST_F(AllocatorTest, ManyBlocksThatTogetherExceedTheMachine) {
  // An overcommitting kernel grants this memory but does not have it.
  std::vector<StoragePointer> held;
  const std::size_t step = std::size_t{1} << 30;
  bool refused = false;
  for (int i = 0; i < 100000 && !refused; ++i) {
    try {
      held.push_back(allocate(step));
    } catch (const OutOfMemoryError&) {
      refused = true;
    }
  }
  EXPECT_TRUE(refused);
  held.clear();
  empty_cache();
  EXPECT_EQ(allocate(step)->bytes, step);
}

// Every thread keeps a small part of the total to itself. If one thread frees what others
// allocated, the shared part is negative.
TEST_F(AllocatorTest, OneThreadFreesWhatManyAllocated) {
  constexpr int threads = 40;
  std::vector<StoragePointer> blocks(threads);
  std::vector<std::thread> others;
  std::mutex mutex;
  std::condition_variable changed;
  int allocated = 0;
  bool freed = false;
  for (int i = 0; i < threads; ++i) {
    others.emplace_back([&, i] {
      StoragePointer mine = allocate(60000);
      std::unique_lock lock(mutex);
      blocks[static_cast<std::size_t>(i)] = std::move(mine);
      ++allocated;
      changed.notify_all();
      changed.wait(lock, [&] { return freed; });  // a thread that ends would publish its part
    });
  }
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return allocated == threads; });
  }
  blocks.clear();
  // 60000 · 40 bytes are missing from the shared total, and 2^20 of them are charged now.
  EXPECT_NO_THROW(allocate(mebibyte));
  EXPECT_LT(memory_stats().allocated_bytes, 40 * mebibyte);
  {
    const std::lock_guard lock(mutex);
    freed = true;
  }
  changed.notify_all();
  for (std::thread& other : others) other.join();
}

// One thread allocates and another frees: the freed blocks must be reused.
TEST_F(AllocatorTest, ProducerAndConsumerStayBounded) {
  for (const std::size_t bytes : {std::size_t{256}, std::size_t{60000}, 2 * mebibyte}) {
    empty_cache();
    std::mutex mutex;
    std::condition_variable changed;
    std::queue<StoragePointer> queue;
    const std::uint64_t misses_before = memory_stats().allocations - memory_stats().cache_hits;
    constexpr int count = 20000;
    std::thread consumer([&] {
      for (int i = 0; i < count; ++i) {
        StoragePointer taken;
        {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return !queue.empty(); });
          taken = std::move(queue.front());
          queue.pop();
        }
        changed.notify_all();
      }
    });
    std::size_t most_cached = 0;
    for (int i = 0; i < count; ++i) {
      StoragePointer storage = allocate(bytes);
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return queue.size() < 8; });
        queue.push(std::move(storage));
      }
      changed.notify_all();
      if (i % 1000 == 0) most_cached = std::max(most_cached, memory_stats().cached_bytes);
    }
    consumer.join();
    const std::uint64_t misses =
        memory_stats().allocations - memory_stats().cache_hits - misses_before;
    EXPECT_LT(misses, 400u) << bytes;
    EXPECT_LT(most_cached, 40 * mebibyte) << bytes;
  }
}

TEST_F(AllocatorTest, ThreadsGiveTheirCacheBackAtTheirEnd) {
  const MemoryStats before = memory_stats();
  for (int round = 0; round < 50; ++round) {
    std::thread([] {
      std::vector<StoragePointer> held;
      for (int i = 0; i < 50; ++i) held.push_back(allocate(4096));
    }).join();
  }
  const MemoryStats after = memory_stats();
  EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(after.allocations, before.allocations + 2500);
  EXPECT_LE(after.cached_bytes, before.cached_bytes + 100 * 4096);
}

TEST_F(AllocatorTest, ManyThreadsAtOnce) {
  const std::size_t before = memory_stats().allocated_bytes;
  std::vector<std::thread> threads;
  std::array<std::atomic<std::uint32_t>, 64> slots{};
  std::mutex mutex;
  std::vector<StoragePointer> exchanged(64);
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 5000; ++i) {
        StoragePointer storage = allocate(std::size_t{1} << (random() % 22));
        std::memset(storage->data, static_cast<int>(t), std::min<std::size_t>(storage->bytes, 256));
        const std::size_t slot = random() % exchanged.size();
        slots[slot].fetch_add(1, std::memory_order_relaxed);
        const std::lock_guard lock(mutex);
        std::swap(exchanged[slot], storage);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  exchanged.clear();
  EXPECT_EQ(memory_stats().allocated_bytes, before);
}

TEST_F(AllocatorTest, TensorsFreedByThreadLocalDestructors) {
  std::thread([] {
    // Constructed before the allocator's thread-local state, so destroyed after it.
    struct Late {
      StoragePointer storage;
      ~Late() {
        storage = StoragePointer();
        allocate(100);
      }
    };
    static thread_local Late late;
    late.storage = allocate(200);
  }).join();
  EXPECT_EQ(allocate(100)->bytes, 100u);
}

struct FreedLate {
  Tensor tensor;
};
FreedLate
    in_a_static_object;  // its destructor runs after the allocator's thread-local state is gone

TEST_F(AllocatorTest, StaticTensorsSurvive) {
  in_a_static_object.tensor = detail::make_empty("test", {10}, float32, cpu_device);
  EXPECT_EQ(in_a_static_object.tensor.numel(), 10);
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(AllocatorTest, ForkWhileOthersAllocate) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) allocate(2 * mebibyte);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (int k = 0; k < 100; ++k) {
        allocate(100);
        allocate(3 * mebibyte);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << i;
  }
  stop = true;
  busy.join();
}
#endif

TEST_F(AllocatorTest, WrappedMemoryIsGivenBackOnce) {
  int released = 0;
  float numbers[4] = {1, 2, 3, 4};
  {
    const StoragePointer storage = wrap_storage(
        numbers, sizeof(numbers), cpu_device, [](void* context) { ++*static_cast<int*>(context); },
        &released);
    const Tensor tensor = detail::make_on_storage(storage, reinterpret_cast<std::byte*>(numbers),
                                                  float32, {2, 2}, {2, 1});
    EXPECT_EQ((tensor[{1, 0}].item<float>()), 3);
    const Tensor view = tensor[1];
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  wrap_storage(numbers, sizeof(numbers), cpu_device, nullptr, nullptr);
}

}  // namespace
