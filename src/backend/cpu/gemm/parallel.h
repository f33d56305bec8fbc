// Threads and scratch memory of the matrix product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "core/parallel.h"

namespace extensor::cpu {

// Either one thread or all of them. Inside a parallel loop everything runs on the calling thread.
inline int gemm_threads(double work, double work_that_pays) {
  if (work < work_that_pays || detail::in_parallel_loop()) return 1;
  return detail::max_threads();
}

// Runs task(0) … task(count - 1). Each thread starts with adjacent tasks.
template <class Task>
void run_tasks(int threads, std::int64_t count, const Task& task) {
  detail::parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) task(i);
  });
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
