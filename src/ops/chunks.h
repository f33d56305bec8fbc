// Evaluates expressions over broadcast tensors one cache-sized chunk at a time: temporaries stay in
// the cache, and several threads share the chunks.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "extensor/dual.h"

namespace extensor::ops {

// Computes the outputs of one chunk from its inputs. Called from several threads at once; may
// throw.
using ChunkFunction =
    std::function<void(std::span<const expression::Value> inputs, std::span<expression::Value>)>;

struct ChunkedCall {
  const char* operation;
  Shape shape;                     // the broadcast shape of the inputs
  std::span<const Tensor> inputs;  // any dtype and layout; an undefined input is the number 0
  std::span<const DType> outputs;  // dtypes of the results
  DType compute = DType::float32;  // dtype of chunks: float32 or float64
  // The eps of row gradients on dual numbers. A row's gradient applies its own floor, so its
  // derivative uses 0.
  double eps = 0;
  // Whether a device may compile the function into one kernel, if it has such kernels: calls with
  // the same function then take one pass over memory, but its first call takes a fraction of a
  // second.
  bool compiled = false;
};

// Returns one tensor of `shape` per output. If the inputs are recorded, calls the function once, on
// whole tensors: its operations are recorded, and its results have gradients of any order. Throws a
// ShapeError that names the operation if the function changes the number of elements.
std::vector<Tensor> evaluate_in_chunks(const ChunkedCall& call, const ChunkFunction& function);

}  // namespace extensor::ops
