// Checked operands and kernel calls shared by the attention ops.
#pragma once

#include <optional>

#include "extensor/attention.h"
#include "ops/op.h"

namespace extensor::ops {

struct AttentionAttributes {
  bool causal;
  std::optional<double> scale;
};

// Checked arguments with the sizes derived from their shapes, and the compute dtype.
struct AttentionArguments {
  Tensor q, k, v, mask;
  bool causal;
  double scale;
  DType dtype;
  Shape batch;
  std::int64_t count = 1, queries, keys, width, value_width;

  Shape shape(std::initializer_list<std::int64_t> last) const {
    Shape result = batch;
    for (std::int64_t size : last) result.push_back(size);
    return result;
  }
  bool is_empty() const { return count == 0 || queries == 0; }
};

// Throws ShapeError, DTypeError, or ValueError for a scale that is not finite.
AttentionArguments checked_attention(const char* operation, const Tensor& q, const Tensor& k,
                                     const Tensor& v, const Tensor& mask,
                                     const AttentionAttributes& attention);
void check_mask_gradient(const char* operation, bool mask_gradient, const Tensor& mask);

// with_rows() makes the columns of x adjacent, which is all that the kernels require;
// convert_operands() also converts every operand to `dtype`.
Tensor with_rows(const Tensor& x);
void convert_operands(AttentionArguments& arguments, DType dtype);

// `output` may have any strides with adjacent columns; if undefined, it is allocated.
AttentionResult run_attention(const Run& run, const AttentionArguments& arguments,
                              bool with_logsumexp, const Tensor& output = {});

// Fills the gradients of q, k and v, and returns the gradient of the mask if requested. All
// operands have the dtype of the arguments. `saved` holds results of the forward, which runs again
// without them.
Tensor run_attention_backward(const Run& run, const AttentionArguments& arguments,
                              const Tensor& grad_output, const AttentionResult& saved,
                              Tensor grad_q, Tensor grad_k, Tensor grad_v, bool mask_gradient);

// Sums `gradient` to the shape of a broadcast operand.
Tensor summed_like(const Tensor& gradient, const Tensor& x);

}  // namespace extensor::ops
