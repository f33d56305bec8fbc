// Splitting work over threads. One pool, OpenMP's; the number of threads is set in one place.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <vector>

namespace extensor::cpu {

// The number of threads that was set, whichever thread set it; without one, what OpenMP decides. 1
// for a thread that computes alone.
int max_threads();

// From now on, this thread computes without others: it is one of several that work side by side.
void compute_alone();

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

// The same with a body that may throw: what the first range threw that did is thrown.
template <class Body>
void parallel_for_throwing(std::int64_t count, std::int64_t grain, Body&& body) {
  const int threads = threads_for(count, grain);
  if (threads <= 1) return parallel_for(threads, count, grain, body);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
  parallel_for(threads, count, grain, [&](std::int64_t begin, std::int64_t end) {
    try {
      body(begin, end);
    } catch (...) {
      errors[static_cast<std::size_t>(omp_get_thread_num())] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

}  // namespace extensor::cpu
