// Attention on the packed result of one projection. q, k, v and their gradients are views of it, so
// nothing is transposed in memory.
#include "core/check.h"
#include "core/graph.h"
#include "extensor/attention.h"
#include "extensor/manipulation.h"
#include "ops/attention_support.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

struct PackedAttention {
  std::int64_t heads;
  AttentionAttributes attention;
};
struct PackedAttentionBackward {
  PackedAttention packed;
  bool mask_gradient;
};

// Views [batch, time, heads · d] as [batch, heads, time, d], and back.
Tensor by_heads(const Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose({0, 2, 1, 3});
}
Tensor joined_heads(const Tensor& x) {
  return x.transpose({0, 2, 1, 3}).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

struct Parts {
  Tensor q, k, v;
};
// The views q, k and v of [batch, time, 3 · heads · d].
Parts parts_of(const Tensor& qkv, std::int64_t heads) {
  const std::int64_t width = qkv.size(2) / 3;
  const auto part = [&](std::int64_t k) {
    return by_heads(qkv.slice(2, k * width, (k + 1) * width), heads);
  };
  return {part(0), part(1), part(2)};
}

Parts checked_parts(const char* operation, const Tensor& qkv, std::int64_t heads) {
  check_float(operation, "qkv", qkv);
  if (heads < 1) throw ValueError(message(operation, ": heads is ", heads, ", must be at least 1"));
  if (qkv.ndim() != 3 || qkv.size(2) % 3 != 0 || qkv.size(2) / 3 % heads != 0) {
    throw ShapeError(message(operation, ": qkv is ", qkv.shape(),
                             ", must be [batch, time, 3 * heads * d] for ", heads, " heads"));
  }
  return parts_of(qkv, heads);
}

Results packed_forward(const Run& run, const PackedAttention& packed, const Tensor& qkv,
                       const Tensor& mask) {
  const auto [q, k, v] = checked_parts(run.name(), qkv, packed.heads);
  AttentionArguments arguments = checked_attention(run.name(), q, k, v, mask, packed.attention);
  convert_operands(arguments, arguments.dtype);
  Tensor output = run.empty({qkv.size(0), qkv.size(1), qkv.size(2) / 3}, arguments.dtype);
  const AttentionResult result =
      run_attention(run, arguments, run.recorded, by_heads(output, packed.heads));
  return {output, result.logsumexp};
}

Results packed_backward_forward(const Run& run, const PackedAttentionBackward& attributes,
                                const Tensor& grad_output, const Tensor& qkv, const Tensor& mask,
                                const Tensor& output, const Tensor& logsumexp) {
  const auto& [packed, mask_gradient] = attributes;
  const auto [q, k, v] = checked_parts(run.name(), qkv, packed.heads);
  AttentionArguments arguments = checked_attention(run.name(), q, k, v, mask, packed.attention);
  check_grad_output(run.name(), grad_output, {qkv.size(0), qkv.size(1), qkv.size(2) / 3});
  check_mask_gradient(run.name(), mask_gradient, mask);
  const DType common = promote_types(arguments.dtype, grad_output.dtype(), run.name());
  const DType dtype = mask_gradient ? compute_dtype(common) : run.kernels().product_dtype(common);
  convert_operands(arguments, dtype);
  const auto rows = [&](const Tensor& x) { return with_rows(by_heads(x.to(dtype), packed.heads)); };
  const AttentionResult saved =
      output.defined() ? AttentionResult{rows(output), logsumexp.to(compute_dtype(dtype))}
                       : AttentionResult{};
  const Tensor gradient = run.empty(qkv.shape(), dtype);
  const auto [grad_q, grad_k, grad_v] = parts_of(gradient, packed.heads);
  const Tensor grad_mask = run_attention_backward(run, arguments, rows(grad_output), saved, grad_q,
                                                  grad_k, grad_v, mask_gradient);
  return {gradient.to(qkv.dtype()), grad_mask.defined() ? summed_like(grad_mask, mask) : Tensor()};
}

constexpr auto packed_backward_op = define<packed_backward_forward>(
    {.name = "scaled_dot_product_attention_packed_backward",
     .inputs = {"grad_output", "qkv", "mask", "output", "logsumexp"},
     .optional = 1 << 2 | 1 << 3 | 1 << 4});

Gradients packed_gradient(const GradientCall& call, const PackedAttention& packed) {
  if (detail::recording_enabled()) {
    const auto& [causal, scale] = packed.attention;
    const PackedAttentionGradients found = scaled_dot_product_attention_packed_backward(
        call.grad(), call.input(0), packed.heads, call.input(1), causal, scale, call.needs(1));
    return {found.qkv, found.mask};
  }
  return dispatch(packed_backward_op, {packed, call.needs(1)}, call.grad(), call.input(0),
                  call.input(1), call.result(0), call.result(1));
}

constexpr Reads packed_read = input(0) | input(1) | result(0) | result(1);
constexpr auto packed_op =
    define<packed_forward, packed_gradient>({.name = "scaled_dot_product_attention_packed",
                                             .inputs = {"qkv", "mask"},
                                             .reads = {packed_read, packed_read},
                                             .cast = Cast::down,
                                             .cast_along = 1 << 1,
                                             .optional = 1 << 1});

}  // namespace

Tensor scaled_dot_product_attention_packed(const Tensor& qkv, StrictInt heads, const Tensor& mask,
                                           StrictBool causal, std::optional<StrictDouble> scale) {
  return std::move(dispatch(packed_op, {heads, {causal, scale}}, qkv, mask)[0]);
}

PackedAttentionGradients scaled_dot_product_attention_packed_backward(
    const Tensor& grad_output, const Tensor& qkv, StrictInt heads, const Tensor& mask,
    StrictBool causal, std::optional<StrictDouble> scale, StrictBool mask_gradient) {
  // Second derivatives use the op on separate operands.
  if (detail::records(grad_output, qkv, mask)) {
    constexpr const char* operation = "scaled_dot_product_attention_packed_backward";
    const auto [q, k, v] = checked_parts(operation, qkv, heads);
    check_grad_output(operation, grad_output, {qkv.size(0), qkv.size(1), qkv.size(2) / 3});
    const AttentionGradients found = scaled_dot_product_attention_backward(
        by_heads(grad_output, heads), q, k, v, mask, causal, scale, {}, mask_gradient);
    const Tensor parts[] = {joined_heads(found.q), joined_heads(found.k), joined_heads(found.v)};
    return {concatenate({parts[0], parts[1], parts[2]}, 2), found.mask};
  }
  const Results found = dispatch(packed_backward_op, {{heads, {causal, scale}}, mask_gradient},
                                 grad_output, qkv, mask, Tensor(), Tensor());
  return {found[0], found[1]};
}

constinit const OpList ops::packed_attention_ops = listed<packed_op, packed_backward_op>;

}  // namespace extensor
