// Threads and scratch memory of the matrix product.
#pragma once

#include <omp.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "backend/cpu/parallel.h"

namespace extensor::cpu {

// Either one thread or all of them: libgomp ends threads when a team shrinks and pays to start them
// again. Inside a parallel region everything runs on the calling thread.
inline int gemm_threads(double work, double work_that_pays) {
  if (work < work_that_pays || omp_in_parallel()) return 1;
  return max_threads();
}

// Runs task(0) … task(count - 1); the task must not throw. Which thread runs which task is fixed.
template <class Task>
void run_tasks(int threads, std::int64_t count, const Task& task) {
  if (threads <= 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) task(i);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t step = omp_get_num_threads();
    for (std::int64_t i = omp_get_thread_num(); i < count; i += step) task(i);
  }
}

// A buffer that each calling thread keeps and reuses; an unusually large one only until the next
// call. Throws std::bad_alloc.
class Workspace {
 public:
  static std::byte* reserve(std::size_t bytes) {
    constexpr std::size_t kMostKept = std::size_t{256} << 20;
    thread_local Workspace workspace;
    if (bytes > workspace.bytes_ || workspace.bytes_ > kMostKept) workspace.resize(bytes);
    return workspace.data_;
  }

 private:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(data_); }

  void resize(std::size_t bytes) {
    constexpr std::size_t kAlignment = 4096;
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::free(data_);
    bytes_ = 0;
    data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
    if (data_ == nullptr) throw std::bad_alloc();
    bytes_ = bytes;
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace extensor::cpu
