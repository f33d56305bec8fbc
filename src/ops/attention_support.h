// Shared by the ops of attention: checked operands, and the calls of its kernels.
#pragma once

#include <optional>

#include "extensor/attention.h"
#include "ops/op.h"

namespace extensor::ops {

struct AttentionAttributes {
  bool causal;
  std::optional<double> scale;
};

// Checked arguments with the sizes that the shapes give, and the dtype to compute in.
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

// ShapeError, DTypeError, or ValueError for a scale that is not finite.
AttentionArguments checked_attention(const char* operation, const Tensor& q, const Tensor& k,
                                     const Tensor& v, const Tensor& mask,
                                     const AttentionAttributes& attention);
void check_mask_gradient(const char* operation, bool mask_gradient, const Tensor& mask);

// x with adjacent columns, all that the kernels ask for; and the operands in that form and `dtype`.
Tensor with_rows(const Tensor& x);
void convert_operands(AttentionArguments& arguments, DType dtype);

// `output` may have any strides with adjacent columns; without one it is made.
AttentionResult run_attention(const Run& run, const AttentionArguments& arguments,
                              bool with_logsumexp, const Tensor& output = {});

// Fills the gradients of q, k and v, and returns that of the mask where it is asked for. All
// operands are in the dtype of the arguments. `saved` are results of the forward, which runs again
// without them.
Tensor run_attention_backward(const Run& run, const AttentionArguments& arguments,
                              const Tensor& grad_output, const AttentionResult& saved,
                              Tensor grad_q, Tensor grad_k, Tensor grad_v, bool mask_gradient);

// `gradient` of an operand that was broadcast.
Tensor summed_like(const Tensor& gradient, const Tensor& x);

}  // namespace extensor::ops
