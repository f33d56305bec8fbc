// Loops whose iterations run on several threads. One pool of host threads serves the whole process:
// kernels, file readers and data loading share it.
//
// A loop is split into chunks that threads claim one by one. The calling thread claims chunks like
// any other and never waits for a thread that has not started one, so a loop makes progress even
// when the other threads have no core to run on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace extensor::detail {

// The number of threads a loop may use: set_num_threads(), or the default (see extensor/threads.h).
// 1 on a thread that called disable_nested_parallelism().
int max_threads();

// Makes every loop that the calling thread starts serial from now on. For threads that already run
// in parallel with others.
void disable_nested_parallelism();

// Whether the calling thread runs the body of a parallel loop. Loops started there are serial.
bool in_parallel_loop();

// The number of threads to use for `count` iterations if each thread should get at least `grain`.
inline int threads_for(std::int64_t count, std::int64_t grain) {
  if (count <= grain || in_parallel_loop()) return 1;
  const std::int64_t useful = (count - 1) / grain + 1;
  return static_cast<int>(std::min<std::int64_t>(useful, max_threads()));
}

// A loop as the pool sees it. Chunks begin at multiples of `grain`.
struct ParallelLoop {
  void (*run)(const void* body, std::int64_t begin, std::int64_t end, int slot);
  const void* body;
  std::int64_t count;
  std::int64_t grain;
  // true: thread t starts in the t-th part of the range, so that consecutive loops over the same
  // memory find it in the same core's cache. false: threads claim chunks of `grain` from the front.
  bool contiguous;
};

// Runs the loop on at most `threads` threads, the calling one among them. If chunks throw, every
// chunk still runs, and the exception of the one with the lowest index is rethrown.
void run_parallel_loop(int threads, const ParallelLoop& loop);

template <class Body>
void call_loop_body(const Body& body, std::int64_t begin, std::int64_t end,
                    [[maybe_unused]] int slot) {
  if constexpr (std::is_invocable_v<const Body&, std::int64_t, std::int64_t, int>) {
    body(begin, end, slot);
  } else {
    body(begin, end);
  }
}

template <class Body>
ParallelLoop make_parallel_loop(std::int64_t count, std::int64_t grain, bool contiguous,
                                const Body& body) {
  return {[](const void* erased, std::int64_t begin, std::int64_t end, int slot) {
            call_loop_body(*static_cast<const Body*>(erased), begin, end, slot);
          },
          &body, count, grain, contiguous};
}

// Calls body(begin, end) or body(begin, end, slot) on disjoint ranges that cover [0, count), each
// except the last a multiple of `grain` long. `slot` is in [0, threads) and no two calls that run
// at the same time share it, so it can select scratch memory. The number of ranges and the threads
// they run on vary: results must not depend on them.
template <class Body>
void parallel_for(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  if (threads <= 1 || count <= grain) return call_loop_body(body, 0, count, 0);
  run_parallel_loop(threads, make_parallel_loop(count, grain, true, body));
}
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  parallel_for(threads_for(count, grain), count, grain, body);
}

// Calls task(i) or task(i, slot) for every i in [0, count), one at a time, in the order of i as
// threads become free. For few or uneven tasks.
template <class Task>
void parallel_tasks(int threads, std::int64_t count, const Task& task) {
  const auto run = [&task](std::int64_t begin, std::int64_t end, [[maybe_unused]] int slot) {
    for (std::int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_invocable_v<const Task&, std::int64_t, int>) {
        task(i, slot);
      } else {
        task(i);
      }
    }
  };
  if (threads <= 1 || count <= 1) return run(0, count, 0);
  run_parallel_loop(threads, make_parallel_loop(count, 1, false, run));
}

}  // namespace extensor::detail
