// Expressions over broadcasting tensors, evaluated a cache-sized chunk at a time: their temporaries
// never reach memory, and chunks are work for several threads.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "extensor/dual.h"

namespace extensor::ops {

// Fills outputs from inputs, elements of one chunk. Called from several threads at once; may throw.
using ChunkFunction =
    std::function<void(std::span<const expression::Value> inputs, std::span<expression::Value>)>;

struct ChunkedCall {
  const char* operation;
  Shape shape;                     // that the inputs broadcast to
  std::span<const Tensor> inputs;  // of any dtype and layout; an undefined one is the number 0
  std::span<const DType> outputs;  // the dtypes of the results
  DType compute = DType::float32;  // float32 or float64: what a chunk holds
  // Of the gradients of rows on dual numbers. A row's gradient has its own floor, so its derivative
  // is taken with 0.
  double eps = 0;
};

// Where the inputs are recorded, the function is called once, on whole tensors: then its operations
// are recorded, and its results have gradients of any order.
// One tensor of `shape` per output. ShapeError, naming the operation, when the function gives
// another number of elements than it was given.
std::vector<Tensor> evaluate_in_chunks(const ChunkedCall& call, const ChunkFunction& function);

}  // namespace extensor::ops
