// How the evaluation of an expression on one thread is steered from outside.
#pragma once

#include <cstddef>
#include <vector>

#include "extensor/dual.h"

namespace extensor::ops {

// While one lives, it is the way the functions of Value and Dual work on this thread.
class ExpressionScope {
 public:
  // `eps` of the rows' gradients, where derivatives of dual numbers are taken.
  explicit ExpressionScope(double eps);
  ExpressionScope(const ExpressionScope&) = delete;
  ExpressionScope& operator=(const ExpressionScope&) = delete;
  ~ExpressionScope();

  // The innermost one of this thread, or null.
  static ExpressionScope* current();

  double eps() const { return eps_; }

  // An expression runs the same kernels on every chunk, so that the last chunk tells which of them
  // makes its results: that one is given the result's memory to write to, and nothing is copied.

  // Before a chunk: the kernel that made value k of the last may write to targets[k], which is part
  // of a result of `whole_numel` elements. The targets outlive the chunk.
  void begin_chunk(std::vector<Tensor>& targets, std::int64_t whole_numel);
  // After it: remembers which kernels made the values.
  void end_chunk(const std::vector<expression::Value>& values);

  // What a kernel asks for: memory for its result of this shape and dtype, or null.
  Tensor* next_target(const Shape& shape, DType dtype);
  // Memory that is used again from kernel to kernel and chunk to chunk, once nobody holds it.
  Tensor scratch(const Shape& shape, DType dtype, Device device);
  // What a kernel reports.
  void made(const Tensor& result) { made_.push_back(result.impl().data); }
  std::int64_t whole_numel() const { return whole_numel_; }

 private:
  ExpressionScope* outer_;
  double eps_;
  std::int64_t whole_numel_ = 0;
  std::vector<Tensor>* targets_ = nullptr;
  bool keeps_scratch_ = false;  // where there are chunks
  std::vector<Tensor> scratch_;
  std::vector<std::size_t> makers_;     // no_maker where a value is an input or a number
  std::vector<const std::byte*> made_;  // by the kernels of this chunk, in order
};

}  // namespace extensor::ops
