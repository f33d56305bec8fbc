// What a device must offer: a short list of kernel families. Ops check and shape, then call these;
// nothing above this line touches a pointer's contents.
#pragma once

#include <cstdint>

#include "backend/elementwise_op.h"
#include "extensor/device.h"
#include "extensor/dtype.h"
#include "extensor/shape.h"

namespace extensor::backend {

inline constexpr int max_inputs = 3;

// Memory seen through an iteration shape: strides in elements, one per dimension of that shape.
struct Operand {
  std::byte* data = nullptr;
  DType dtype = DType::float32;
  const std::int64_t* strides = nullptr;
};

// out[i] = op(inputs[0][i], …) for every i of `shape`, computed in `compute`: operands of another
// dtype are converted as they are read, and the result as it is written.
struct ElementwiseCall {
  ElementwiseOp op;
  DType compute;
  int input_count;
  const Shape* shape;
  std::int64_t numel;
  // The elements of the whole result where this call makes a part of it: whether it fits a cache.
  std::int64_t whole_numel = 0;
  // Every operand is dense in row-major order over `shape`, or a single element (`repeats`);
  // strides are not read then.
  bool contiguous;
  bool repeats[max_inputs];
  Operand inputs[max_inputs];
  Operand out;
  Parameter parameters[2];
};

enum class ReduceOp : std::uint8_t { sum, prod, max, min, any, all, argmax, argmin };

// Reduces the axes where reduced[axis] is true; `out` is dense over the axes that are kept.
struct ReduceCall {
  ReduceOp op;
  const Shape* shape;
  const bool* reduced;
  Operand input;
  Operand out;  // argmax and argmin: int64, the position in row-major order of the reduced axes
  double divisor = 1;  // float sums are divided by it before they are rounded (mean)
};

// A row operation works on `rows` rows of `length` elements, `stride` elements apart within a row.
enum class RowOp : std::uint8_t {
  softmax,
  log_softmax,
  logsumexp,
  softmax_backward,
  log_softmax_backward,
};

struct RowCall {
  RowOp op;
  DType dtype;
  std::int64_t outer, length, inner;  // dense operands seen as [outer, length, inner]
  const std::byte* x;                 // the input, or grad_output
  const std::byte* y;                 // the forward's result, for a backward
  std::byte* out;                     // as x; logsumexp: [outer, inner]
};

struct MatmulCall {
  DType dtype;
  std::int64_t m, n, k;
  Operand a, b, c;  // strides: {row, column}; c dense
  std::int64_t batch;
  const std::int64_t* a_offsets;  // in elements, one per product
  const std::int64_t* b_offsets;
  const std::int64_t* c_offsets;
  const std::byte* bias = nullptr;  // n elements, or null
};

enum class RandomOp : std::uint8_t { uniform, normal, integers, bernoulli };

// Element i of a dense `out` is draw `offset + i` of (seed, stream).
struct RandomCall {
  RandomOp op;
  DType dtype;
  std::int64_t numel;
  std::byte* out;
  std::uint64_t seed, stream, offset;
  double first = 0, second = 1;                        // low, high; mean, deviation; probability
  std::int64_t integer_first = 0, integer_second = 0;  // low, high
};

struct Backend {
  void (*elementwise)(const ElementwiseCall&);
  bool (*has_elementwise)(ElementwiseOp, DType compute);
  void (*reduce)(const ReduceCall&);
  void (*rows)(const RowCall&);
  void (*matmul)(const MatmulCall&);
  void (*random)(const RandomCall&);
};

// DeviceError when the device has no backend in this build.
const Backend& backend_for(const Device& device);

}  // namespace extensor::backend
