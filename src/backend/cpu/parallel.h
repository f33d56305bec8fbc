// Splitting work over threads. One pool, OpenMP's; the number of threads is set in one place.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace extensor::cpu {

// The number of threads that was set, whichever thread set it; without one, what OpenMP decides.
int max_threads();

// Threads a loop over `count` units may use when one thread should get `grain` units at least.
inline int threads_for(std::int64_t count, std::int64_t grain) {
  if (count <= grain) return 1;  // before any call into OpenMP: small work stays cheap
  if (omp_in_parallel()) return 1;
  const std::int64_t useful = (count + grain - 1) / grain;
  return static_cast<int>(std::min<std::int64_t>(useful, max_threads()));
}

// Calls body(begin, end) on disjoint ranges that cover [0, count), each but the last a multiple of
// `grain` long, with as many threads as threads_for gave. The body must not throw.
template <class Body>
void parallel_for(int threads, std::int64_t count, std::int64_t grain, Body&& body) {
  if (threads <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const std::int64_t pieces = (count + grain - 1) / grain;
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t begin = pieces * thread / team * grain;
    const std::int64_t end = std::min(count, pieces * (thread + 1) / team * grain);
    if (begin < end) body(begin, end);
  }
}
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
  parallel_for(threads_for(count, grain), count, grain, body);
}

}  // namespace extensor::cpu
