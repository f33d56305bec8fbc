#include "backend/cpu/parallel.h"

#include <atomic>

#include "core/check.h"
#include "extensor/error.h"
#include "extensor/threads.h"

namespace extensor {

namespace {

// One number for the whole program: OpenMP's own holds only in the thread that sets it.
std::atomic<int> threads_asked{0};  // 0: none was set

constinit thread_local bool alone = false;

// Beyond this OpenMP's runtime may not survive what the system refuses.
constexpr int most_threads = 1024;

}  // namespace

int cpu::max_threads() {
  if (alone) return 1;
  const int asked = threads_asked.load(std::memory_order_relaxed);
  return asked != 0 ? asked : std::min(omp_get_max_threads(), most_threads);
}

void cpu::compute_alone() { alone = true; }

void set_num_threads(int count) {
  if (count < 1 || count > most_threads) {
    throw ValueError(
        detail::message("set_num_threads: count is ", count, " (allowed: 1 … ", most_threads, ")"));
  }
  threads_asked.store(count, std::memory_order_relaxed);
}

int get_num_threads() { return cpu::max_threads(); }

}  // namespace extensor
