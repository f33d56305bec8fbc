// A description of a piece of work, from which ExTensor and every peer build the same computation.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "extensor/dtype.h"

namespace extensor::bench {

// One call of the work; empty if a contender cannot do it.
using Work = std::function<void()>;

struct Operand {
  std::vector<std::int64_t> shape;  // in memory, row-major
  bool transposed = false;          // whether the axes are then reversed
  std::int64_t step = 1;            // step along the last axis
};

inline constexpr int all_axes = -1000;

struct Task {
  std::string op;  // name of the public function
  DType dtype = DType::float32;
  std::vector<Operand> operands = {};
  int axis = all_axes;
  double lo = -1, hi = 1;    // range of the values
  bool into_buffer = false;  // a peer writes into an existing buffer (PyTorch's out=)
  std::vector<std::int64_t> attributes = {};  // further arguments (stride, groups …) in the
                                              // order that the family defines
};

inline std::int64_t count(const Operand& operand) {
  std::int64_t product = 1;
  for (std::int64_t extent : operand.shape) product *= extent;
  return product;
}

// Deterministic values between lo and hi, the same for all contenders.
inline void fill(float* first, std::int64_t n, double lo, double hi, std::uint32_t seed) {
  std::uint32_t state = seed * 2654435761u + 12345u;
  for (std::int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    first[i] = static_cast<float>(lo + (hi - lo) * (state >> 8) / 16777216.0);
  }
}

// Thrown if a contender has another network than the others; the case then fails.
struct OtherNetwork : std::logic_error {
  using std::logic_error::logic_error;
};

// For tasks of networks, whose attribute 0 is the number of parameters.
inline void check_parameters(const Task& task, std::int64_t parameters) {
  if (task.attributes.empty() || task.attributes[0] == parameters) return;
  throw OtherNetwork(task.op + ": a network of " + std::to_string(parameters) +
                     " parameters, must have " + std::to_string(task.attributes[0]));
}

// C = A·B, row-major, as a BLAS sees it.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;  // stored in the other order

  explicit Gemm(const Task& task) {
    const Operand& a = task.operands[0];
    const Operand& b = task.operands[1];
    a_transposed = a.transposed;
    b_transposed = b.transposed;
    m = a.shape[a_transposed ? 1 : 0];
    k = a.shape[a_transposed ? 0 : 1];
    n = b.shape.size() == 1 ? 1 : b.shape[b_transposed ? 0 : 1];
  }
  std::int64_t lda() const { return a_transposed ? m : k; }
  std::int64_t ldb() const { return b_transposed ? k : n; }
  double flops() const { return 2.0 * m * n * k; }
};

// A library to compare with. Each is in a separate module that is loaded at run time, so that one
// that is missing or does not load only leaves its column empty.
struct Peer {
  std::string name;
  std::string version;
  std::function<void(int threads)> set_threads;
  std::function<Work(const Task&)> make;  // may throw or return an empty Work
};

}  // namespace extensor::bench

// The one function that every peer module exports.
extern "C" extensor::bench::Peer* extensor_bench_peer();
