#include "extensor/attention.h"

#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "ops/attention_support.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

// ---- backward

struct AttentionBackward {
  AttentionAttributes attention;
  bool mask_gradient;
};

void check_saved(const char* operation, const char* argument, const Tensor& x,
                 const Shape& expected) {
  check_float(operation, argument, x);
  if (x.shape() == expected) return;
  throw ShapeError(
      message(operation, ": ", argument, " is ", x.shape(), ", the forward gave ", expected));
}

// `output` and `logsumexp` are results of the forward.
Results backward_forward(const Run& run, const AttentionBackward& attributes,
                         const Tensor& grad_output, const Tensor& q, const Tensor& k,
                         const Tensor& v, const Tensor& mask, const Tensor& output,
                         const Tensor& logsumexp) {
  const char* operation = run.name();
  AttentionArguments arguments = checked_attention(operation, q, k, v, mask, attributes.attention);
  const Shape shape = arguments.shape({arguments.queries, arguments.value_width});
  check_grad_output(operation, grad_output, shape);
  const bool has_saved = output.defined() && logsumexp.defined();
  if (has_saved) {
    check_saved(operation, "saved.output", output, shape);
    check_saved(operation, "saved.logsumexp", logsumexp, arguments.shape({arguments.queries}));
  }
  check_mask_gradient(operation, attributes.mask_gradient, mask);

  // Rounds half dtypes once: in the kernel, or at the end if sums over broadcast operands follow.
  const DType common = promote_types(arguments.dtype, grad_output.dtype(), operation);
  const bool is_broadcast =
      !(q.shape() == arguments.shape({arguments.queries, arguments.width}) &&
        k.shape() == arguments.shape({arguments.keys, arguments.width}) &&
        v.shape() == arguments.shape({arguments.keys, arguments.value_width}));
  const DType dtype = is_broadcast || attributes.mask_gradient
                          ? compute_dtype(common)
                          : run.kernels().product_dtype(common);
  convert_operands(arguments, dtype);
  const auto whole = [&](std::initializer_list<std::int64_t> last) {
    return run.empty(arguments.shape(last), dtype);
  };
  const Tensor grad_q = whole({arguments.queries, arguments.width});
  const Tensor grad_k = whole({arguments.keys, arguments.width});
  const Tensor grad_v = whole({arguments.keys, arguments.value_width});
  const AttentionResult saved =
      has_saved ? AttentionResult{with_rows(output.to(dtype)),
                                  logsumexp.to(compute_dtype(dtype)).contiguous()}
                : AttentionResult{};
  const Tensor grad_mask =
      run_attention_backward(run, arguments, with_rows(grad_output.to(dtype)), saved, grad_q,
                             grad_k, grad_v, attributes.mask_gradient);
  return {summed_like(grad_q, q), summed_like(grad_k, k), summed_like(grad_v, v),
          grad_mask.defined() ? summed_like(grad_mask, mask) : Tensor()};
}

// The full matrix softmax(scale · q·kᵀ + mask); a row is 0 where its query sees no key.
Tensor probabilities(const AttentionArguments& arguments) {
  const Tensor hidden =
      full({}, -std::numeric_limits<double>::infinity(), {arguments.dtype, cpu_device});
  Tensor scores = matmul(arguments.q, matrix_transpose(arguments.k)) * arguments.scale;
  if (arguments.mask.defined()) {
    scores = arguments.mask.dtype() == DType::bool_ ? where(arguments.mask, scores, hidden)
                                                    : scores + arguments.mask;
  }
  if (arguments.causal) {
    const Tensor query = arange(arguments.queries, arguments.q.device()).unsqueeze(1),
                 key = arange(arguments.keys, arguments.q.device());
    scores = where(less_equal(key, query), scores, hidden);
  }
  const Tensor total = logsumexp(scores, -1, true);
  return exp(scores - where(isinf(total), zeros({}, {arguments.dtype, cpu_device}), total));
}

// Differentiates from the inputs, since the saved results are functions of them. Holds all Lq × Lk
// scores at once.
Gradients backward_gradient(const GradientCall& call, const AttentionBackward& attributes) {
  const Tensor &grad_output = call.input(0), &q = call.input(1), &k = call.input(2),
               &v = call.input(3), &mask = call.input(4);
  AttentionArguments arguments =
      checked_attention(call.name(), q, k, v, mask, attributes.attention);
  const DType dtype = compute_dtype(promote_types(arguments.dtype, grad_output.dtype()));
  convert_operands(arguments, dtype);
  const auto given = [&](std::size_t result, const Tensor& like) {
    return call.grad(result).defined() ? call.grad(result).to(dtype) : zeros_like(like, dtype);
  };
  const Tensor a = given(0, q), b = given(1, k);
  const Tensor c = given(2, v), g = grad_output.to(dtype);
  const double s = arguments.scale;
  const auto transposed = [](const Tensor& x) { return matrix_transpose(x); };
  const auto row_sum = [](const Tensor& x) { return sum(x, -1, true); };

  // The terms of the backward: p, the gradient of p, and the gradient of the scores.
  const Tensor p = probabilities(arguments);
  const Tensor grad_p = matmul(g, transposed(arguments.v));
  const Tensor inner = row_sum(p * grad_p);
  const Tensor grad_scores = p * (grad_p - inner);
  // The change of the scores when q, k and the mask move along their gradients.
  Tensor moved = (matmul(a, transposed(arguments.k)) + matmul(arguments.q, transposed(b))) * s;
  if (call.grad(3).defined()) moved = moved + call.grad(3).to(dtype);
  const Tensor centred = moved - row_sum(p * moved);
  const Tensor moved_p = p * centred;
  // Propagate through p into the scores.
  const Tensor through_p = centred * grad_p - moved * inner + matmul(g, transposed(c));
  const Tensor through_scores = p * (through_p - row_sum(p * through_p));

  return {summed_like(matmul(moved_p, arguments.v) + matmul(p, c), grad_output),
          summed_like((matmul(through_scores, arguments.k) + matmul(grad_scores, b)) * s, q),
          summed_like((matmul(transposed(through_scores), arguments.q) +
                       matmul(transposed(grad_scores), a)) *
                          s,
                      k),
          summed_like(matmul(transposed(moved_p), g), v),
          call.needs(4) ? summed_like(through_scores, mask) : Tensor()};
}

constexpr Reads operands_read = input(0) | input(1) | input(2) | input(3) | input(4);
constexpr auto attention_backward_op = define<backward_forward, backward_gradient>(
    {.name = "scaled_dot_product_attention_backward",
     .inputs = {"grad_output", "q", "k", "v", "mask", "output", "logsumexp"},
     .reads = {operands_read, operands_read, operands_read, operands_read, operands_read,
               no_gradient, no_gradient},
     .optional = 1 << 4 | 1 << 5 | 1 << 6});

// ---- forward

// Results: the output, and the logsumexp if the caller or the gradient reads it.
template <bool with_logsumexp>
Results attention_forward(const Run& run, const AttentionAttributes& attention, const Tensor& q,
                          const Tensor& k, const Tensor& v, const Tensor& mask) {
  AttentionArguments arguments = checked_attention(run.name(), q, k, v, mask, attention);
  convert_operands(arguments, arguments.dtype);
  const AttentionResult result = run_attention(run, arguments, with_logsumexp || run.recorded);
  return {result.output, result.logsumexp};
}

Gradients attention_gradient(const GradientCall& call, const AttentionAttributes& attention) {
  return dispatch(attention_backward_op, {attention, call.needs(3)}, call.grad(), call.input(0),
                  call.input(1), call.input(2), call.input(3), call.result(0), call.result(1));
}

template <bool with_logsumexp>
consteval auto attention_op_of(const char* name, Cast cast) {
  constexpr Reads all = input(0) | input(1) | input(2) | input(3) | result(0) | result(1);
  return define<attention_forward<with_logsumexp>, attention_gradient>(
      {.name = name,
       .inputs = {"q", "k", "v", "mask"},
       .reads = {all, all, all, all},
       .cast = cast,
       .cast_along = 1 << 3,
       .optional = 1 << 3});
}
constexpr auto attention_op = attention_op_of<false>("scaled_dot_product_attention", Cast::down);
constexpr auto attention_with_logsumexp_op =
    attention_op_of<true>("scaled_dot_product_attention_with_logsumexp", Cast::none);

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask, StrictBool causal,
                                    std::optional<StrictDouble> scale) {
  return std::move(dispatch(attention_op, {causal, scale}, q, k, v, mask)[0]);
}

AttentionResult scaled_dot_product_attention_with_logsumexp(const Tensor& q, const Tensor& k,
                                                            const Tensor& v, const Tensor& mask,
                                                            StrictBool causal,
                                                            std::optional<StrictDouble> scale) {
  const Results results = dispatch(attention_with_logsumexp_op, {causal, scale}, q, k, v, mask);
  return {results[0], results[1].detach()};
}

AttentionGradients scaled_dot_product_attention_backward(const Tensor& grad_output, const Tensor& q,
                                                         const Tensor& k, const Tensor& v,
                                                         const Tensor& mask, StrictBool causal,
                                                         std::optional<StrictDouble> scale,
                                                         const AttentionResult& saved,
                                                         StrictBool mask_gradient) {
  const Results found = dispatch(attention_backward_op, {{causal, scale}, mask_gradient},
                                 grad_output, q, k, v, mask, saved.output, saved.logsumexp);
  return {found[0], found[1], found[2], found[3]};
}

constinit const OpList ops::attention_ops =
    listed<attention_op, attention_with_logsumexp_op, attention_backward_op>;

}  // namespace extensor
