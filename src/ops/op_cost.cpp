#include "ops/op_cost.h"

#include <algorithm>
#include <string_view>

namespace extensor::ops {

namespace {

double count(const Tensor& x) { return x.defined() ? static_cast<double>(x.numel()) : 0; }

double bytes(const Tensor& x) {
  return x.defined() ? static_cast<double>(x.numel()) * static_cast<double>(itemsize(x.dtype()))
                     : 0;
}

double dimension(const Tensor& x, std::int64_t axis) {
  const auto at = static_cast<std::size_t>(axis < 0 ? x.ndim() + axis : axis);
  return at < x.shape().size() ? static_cast<double>(x.shape()[at]) : 1;
}

// The input of this name; undefined if the op has none.
const Tensor& named(const Op& op, Inputs inputs, std::string_view name) {
  static const Tensor undefined;
  const std::size_t size = op.input_count == 0 ? 0 : inputs.size();
  for (std::size_t k = 0; k < size; ++k) {
    if (op.inputs[k] != nullptr && op.inputs[k] == name) return inputs[k];
  }
  return undefined;
}

// The multiplications of each element of the result, or of the input of a transposed convolution,
// are those of one filter.
double filter_size(const Tensor& weight) {
  return count(weight) / std::max(1.0, dimension(weight, 0));
}

double product_flops(const Op& op, Inputs inputs, std::span<const Tensor> results) {
  const std::string_view name = op.name;
  const bool backward = name.ends_with("_backward");
  const Tensor& first = inputs.size() == 0 ? named(op, inputs, "") : inputs[0];
  const Tensor& weight = named(op, inputs, "weight");
  if (name == "matmul" || name == "dot") return 2 * count(results[0]) * dimension(first, -1);
  if (name == "convolution_weight_gradient") {
    return 2 * count(inputs[1]) * filter_size(results[0]);
  }
  if (name == "convolution_input_gradient" || name.starts_with("conv_transpose")) {
    return weight.defined() ? 2 * count(first) * filter_size(weight) : 0;
  }
  if (name.starts_with("conv") && weight.defined()) {
    return 2 * count(results[0]) * filter_size(weight);
  }
  if (name.starts_with("linear") && weight.defined()) {
    const Tensor& x = named(op, inputs, "x");
    const double rows = count(x) / std::max(1.0, dimension(x, -1));
    return 2 * rows * count(weight) * (backward ? 3 : 1);  // backwards compute the logits again
  }
  if (name.starts_with("scaled_dot_product_attention")) {
    constexpr double backward_products = 2.5;  // five products instead of two
    const double factor = backward ? backward_products : 1;
    const Tensor& packed = named(op, inputs, "qkv");
    if (packed.defined()) {
      return factor * 4 * count(packed) / 3 * dimension(packed, 1);
    }
    const Tensor &q = named(op, inputs, "q"), &k = named(op, inputs, "k"),
                 &v = named(op, inputs, "v");
    if (!q.defined() || !k.defined() || !v.defined()) return 0;
    const double rows = count(q) / std::max(1.0, dimension(q, -1));
    return factor * 2 * rows * dimension(k, -2) * (dimension(q, -1) + dimension(v, -1));
  }
  if (const Tensor& recurrent = named(op, inputs, "weight_hh"); recurrent.defined()) {
    const Tensor& x = named(op, inputs, "x");
    const double steps = count(x) / std::max(1.0, dimension(x, -1));
    return 2 * steps * (count(named(op, inputs, "weight_ih")) + count(recurrent)) *
           (named(op, inputs, "grad_output").defined() ? 2 : 1);
  }
  return 0;
}

bool is_same_memory(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.impl().storage.get() == b.impl().storage.get();
}

}  // namespace

double flops_of(const Op& op, Inputs inputs, std::span<const Tensor> results) {
  if (op.view || results.empty()) return 0;
  if (const double flops = product_flops(op, inputs, results); flops > 0) return flops;
  double most = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) most = std::max(most, count(inputs[k]));
  for (const Tensor& result : results) most = std::max(most, count(result));
  return most;
}

double bytes_of(const Op& op, Inputs inputs, std::span<const Tensor> results) {
  if (op.view) return 0;
  double sum = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) sum += bytes(inputs[k]);
  for (const Tensor& result : results) sum += bytes(result);
  return sum;
}

double new_bytes_of(Inputs inputs, std::span<const Tensor> results) {
  double sum = 0;
  for (const Tensor& result : results) {
    bool shared = false;
    for (std::size_t k = 0; k < inputs.size(); ++k) shared |= is_same_memory(inputs[k], result);
    if (!shared) sum += bytes(result);
  }
  return sum;
}

}  // namespace extensor::ops
