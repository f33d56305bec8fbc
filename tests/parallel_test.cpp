// The pool of host threads: coverage of ranges, scratch slots, exceptions, nesting, several
// callers, fork, and the default number of threads.
#include "core/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "core/machine.h"
#include "extensor/extensor.h"
#include "support/child_process.h"

namespace {

using namespace extensor;
using detail::parallel_for;
using detail::parallel_tasks;

// Runs `work` with another number of threads.
template <class Work>
void with_threads(int count, const Work& work) {
  const int before = get_num_threads();
  set_num_threads(count);
  work();
  set_num_threads(before);
}

TEST(ParallelFor, CoversEveryIndexOnceInWholeGrains) {
  for (const int threads : {1, 2, 3, 8, 70}) {
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1000, 4099}) {
      for (const std::int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        std::atomic<bool> wrong{false};
        parallel_for(threads, count, grain, [&](std::int64_t begin, std::int64_t end) {
          if (begin >= end || begin % grain != 0 || (end != count && end % grain != 0))
            wrong = true;
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        EXPECT_FALSE(wrong) << threads << " threads, " << count << " by " << grain;
        for (const auto& visited : visits) ASSERT_EQ(visited, 1);
      }
    }
  }
}

TEST(ParallelFor, SlotsAreNeverSharedByRunningChunks) {
  constexpr int threads = 5;
  std::vector<std::atomic<int>> users(threads);
  std::atomic<int> shared{0}, outside{0};
  for (int round = 0; round < 200; ++round) {
    const auto use = [&](int slot) {
      if (slot < 0 || slot >= threads) {
        ++outside;
        return;
      }
      shared += users[static_cast<std::size_t>(slot)]++ != 0;
      for (int k = 0; k < 50; ++k) std::atomic_signal_fence(std::memory_order_seq_cst);
      --users[static_cast<std::size_t>(slot)];
    };
    parallel_for(threads, 100, 1, [&](std::int64_t, std::int64_t, int slot) { use(slot); });
    parallel_tasks(threads, 100, [&](std::int64_t, int slot) { use(slot); });
  }
  EXPECT_EQ(shared, 0);
  EXPECT_EQ(outside, 0);
}

TEST(ParallelFor, RethrowsTheFirstFailureAfterEveryChunkRan) {
  struct Failed {
    std::int64_t begin, end;
  };
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> ran{0};
    try {
      parallel_for(4, 40, 1, [&](std::int64_t begin, std::int64_t end) {
        ran += static_cast<int>(end - begin);
        if (end > 13) throw Failed{begin, end};
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Failed& failed) {  // of the chunk that holds index 13, the first that fails
      EXPECT_LE(failed.begin, 13);
      EXPECT_GT(failed.end, 13);
    }
    EXPECT_EQ(ran, 40);
  }
  std::atomic<int> ran{0};
  parallel_for(4, 40, 1, [&](std::int64_t begin, std::int64_t end) { ran += int(end - begin); });
  EXPECT_EQ(ran, 40);
}

TEST(ParallelFor, LoopsInsideALoopAreSerial) {
  std::atomic<int> wrong{0};
  parallel_for(3, 30, 1, [&](std::int64_t, std::int64_t) {
    wrong += !detail::in_parallel_loop();
    wrong += detail::threads_for(1'000'000, 1) != 1;
    const std::thread::id self = std::this_thread::get_id();
    parallel_for(3, 30, 1,
                 [&](std::int64_t, std::int64_t) { wrong += std::this_thread::get_id() != self; });
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(detail::in_parallel_loop());
}

// The pool serves 16 loops at a time. Another loop runs serially, and still counts as a loop.
TEST(ParallelFor, ALoopThatRunsAloneIsALoop) {
  constexpr int callers = 17;
  std::atomic<int> arrived{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&] {
      std::atomic<bool> first{true};
      parallel_for(2, 2, 1, [&](std::int64_t, std::int64_t) {
        wrong += !detail::in_parallel_loop();
        if (!first.exchange(false)) return;
        for (++arrived; arrived < callers;) std::this_thread::yield();
      });
      wrong += detail::in_parallel_loop();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);

  EXPECT_THROW(parallel_for(2, 2, 1, [](std::int64_t, std::int64_t) { throw 1; }), int);
  EXPECT_FALSE(detail::in_parallel_loop());
}

// More callers than slots in the pool: the rest run serially.
TEST(ParallelFor, ServesManyCallersAtOnce) {
  constexpr int callers = 40;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        std::atomic<std::int64_t> sum{0};
        parallel_for(4, 1000, 10, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) sum += i;
        });
        wrong += sum != 499'500;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// The caller finishes a loop alone while every worker is stuck in another one.
TEST(ParallelFor, NeverWaitsForAThreadThatHasNotStarted) {
  std::atomic<bool> release{false};
  std::atomic<int> stuck{0};
  std::thread blocker([&] {
    parallel_tasks(2, 2, [&](std::int64_t) {
      ++stuck;
      while (!release) std::this_thread::yield();
    });
  });
  while (stuck == 0) std::this_thread::yield();
  std::int64_t total = 0;
  for (int round = 0; round < 100; ++round) {
    std::atomic<std::int64_t> sum{0};
    parallel_for(2, 100, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    total += sum;
  }
  EXPECT_EQ(total, 100 * 100);
  release = true;
  blocker.join();
}

// A child created by fork has none of the parent's threads.
CHILD_TEST(Fork, ChildAndParentGoOnComputing) {
  const auto compute = [] {
    const Tensor x = full({300, 300}, 0.5);
    return sum(matmul(x, x) + x).item<float>();
  };
  with_threads(3, [&] {
    const float expected = compute();
    for (int round = 0; round < 20; ++round) {
      std::atomic<bool> stop{false};
      std::thread busy([&] {  // fork while another thread runs loops
        while (!stop) compute();
      });
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);
        bool right = true;
        for (int k = 0; k < 20; ++k) right = right && compute() == expected;
        _exit(right ? 0 : 1);
      }
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
      stop = true;
      busy.join();
      EXPECT_EQ(compute(), expected);
    }
  });
}

// ---- the default number of threads

class ControlGroups : public ::testing::Test {
 protected:
  ControlGroups()
      : root_(std::filesystem::temp_directory_path() /
              ("extensor_cgroups_" + std::to_string(getpid()))) {}
  ~ControlGroups() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  double quota(const std::string& membership) const {
    return detail::processor_quota(membership, root_.string());
  }

  std::filesystem::path root_;
};

TEST_F(ControlGroups, VersionTwoTakesTheLeastQuotaOnTheWayUp) {
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), std::numeric_limits<double>::infinity());
  write("a/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 1.5);
  write("a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 0.5);
  EXPECT_EQ(quota("0::/a\n"), 1.5);
  write("cpu.max", "400000 100000\n");
  EXPECT_EQ(quota("0::/\n"), 4);
}

TEST_F(ControlGroups, VersionOneAndMissingOrDamagedFiles) {
  EXPECT_EQ(quota(""), std::numeric_limits<double>::infinity());
  EXPECT_EQ(quota("nonsense\n0::/nowhere\n"), std::numeric_limits<double>::infinity());
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  const std::string membership = "5:memory:/other\n4:cpu,cpuacct:/job\n";
  EXPECT_EQ(quota(membership), std::numeric_limits<double>::infinity());
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(quota(membership), 2);
  write("cpu,cpuacct/job/cpu.cfs_period_us", "garbage\n");
  EXPECT_EQ(quota(membership), std::numeric_limits<double>::infinity());
}

CHILD_TEST(DefaultThreads, EnvironmentVariable) {
  setenv("OMP_NUM_THREADS", "7,3", 1);
  setenv("EXTENSOR_NUM_THREADS", "5", 1);
  EXPECT_EQ(get_num_threads(), 5);
}

CHILD_TEST(DefaultThreads, OpenMpVariableIsAFallback) {
  unsetenv("EXTENSOR_NUM_THREADS");
  setenv("OMP_NUM_THREADS", "7,3", 1);
  EXPECT_EQ(get_num_threads(), 7);
}

CHILD_TEST(DefaultThreads, AnInvalidVariableIsAnError) {
  for (const char* value : {"0", "-1", "two", "1025", "3x", "99999999999"}) {
    setenv("EXTENSOR_NUM_THREADS", value, 1);
    test_support::expect_error<ValueError>([] { get_num_threads(); },
                                           {"EXTENSOR_NUM_THREADS", value, "1024"});
  }
  set_num_threads(2);  // a program that sets the number ignores the variable
  EXPECT_EQ(get_num_threads(), 2);
}

CHILD_TEST(DefaultThreads, RespectsAffinity) {
  unsetenv("EXTENSOR_NUM_THREADS");
  unsetenv("OMP_NUM_THREADS");
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(get_num_threads(), 1);
}

}  // namespace
