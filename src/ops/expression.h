// Controls how expressions are evaluated on one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "extensor/dual.h"

namespace extensor::ops {

class Trace;

// While it exists, determines how the functions of Value and Dual work on this thread.
class ExpressionScope {
 public:
  // `eps` applies to the gradients of rows that derivatives of dual numbers evaluate.
  explicit ExpressionScope(double eps, Trace* trace = nullptr);
  ExpressionScope(const ExpressionScope&) = delete;
  ExpressionScope& operator=(const ExpressionScope&) = delete;
  ~ExpressionScope();

  // The innermost scope of this thread, or null.
  static ExpressionScope* current();

  double eps() const { return eps_; }
  // Records the functions of traced values; null if there are none.
  Trace* trace() const { return trace_; }

  // An expression runs the same kernels on every chunk, so the last chunk shows which kernels make
  // its results. Those kernels write directly into the memory of the results, and nothing is
  // copied.

  // Called before a chunk: the kernel that made value k of the last chunk may write to targets[k],
  // a part of a result of `whole_numel` elements. The targets outlive the chunk.
  void begin_chunk(std::vector<Tensor>& targets, std::int64_t whole_numel);
  // Called after a chunk: remembers which kernels made the values.
  void end_chunk(const std::vector<expression::Value>& values);

  // Called by a kernel: memory for a result of this shape and dtype, or null.
  Tensor* next_target(const Shape& shape, DType dtype);
  // Memory that is reused across kernels and chunks once nothing holds it.
  Tensor scratch(const Shape& shape, DType dtype, Device device);
  // Called by a kernel to report its result.
  void made(const Tensor& result) { made_.push_back(result.impl().data); }
  std::int64_t whole_numel() const { return whole_numel_; }

 private:
  ExpressionScope* outer_;
  double eps_;
  Trace* trace_;
  std::int64_t whole_numel_ = 0;
  std::vector<Tensor>* targets_ = nullptr;
  bool keeps_scratch_ = false;  // true if there are several chunks
  std::vector<Tensor> scratch_;
  std::vector<std::size_t> makers_;     // no_maker if a value is an input or a number
  std::vector<const std::byte*> made_;  // results of the kernels of this chunk, in order
};

}  // namespace extensor::ops
