#include "extensor/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "ops/autocast.h"
#include "ops/batch_offsets.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using backend::AttentionCall;
using backend::AttentionMatrix;
using detail::message;
using ops::batch_offsets;

// Checked arguments: everything the shapes say, and the dtype to compute in.
struct Arguments {
  Tensor q, k, v, mask;
  bool causal;
  double scale;
  DType dtype;
  Device device;
  Shape batch;
  std::int64_t count = 1, queries, keys, width, value_width;

  Shape shape(std::initializer_list<std::int64_t> last) const {
    Shape result = batch;
    for (std::int64_t size : last) result.push_back(size);
    return result;
  }
  bool is_empty() const { return count == 0 || queries == 0; }
};

void check_matrix(const char* operation, const char* argument, const Tensor& x) {
  ops::check_float(operation, argument, x);
  if (x.ndim() >= 2) return;
  throw ShapeError(message(operation, ": ", argument, " is ", x.shape(),
                           ", needs two dimensions at least: [..., length, width]"));
}

void check_mask(const char* operation, const Tensor& mask, const Shape& scores) {
  if (mask.dtype() != DType::bool_ && !is_floating_point(mask.dtype())) {
    throw DTypeError(message(operation, ": mask is ", mask.dtype(),
                             ", must be bool (true takes part) or a float (added)"));
  }
  if (are_shapes_broadcastable(mask.shape(), scores) &&
      broadcast_shapes(mask.shape(), scores) == scores) {
    return;
  }
  throw ShapeError(message(operation, ": mask is ", mask.shape(),
                           ", does not broadcast to the scores' shape ", scores));
}

Arguments checked(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, bool causal, std::optional<double> scale) {
  check_matrix(operation, "q", q);
  check_matrix(operation, "k", k);
  check_matrix(operation, "v", v);
  const auto refuse = [&](const char* what, const char* a, const Tensor& x, const char* b,
                          const Tensor& y) {
    throw ShapeError(
        message(operation, ": ", what, ": ", a, " is ", x.shape(), ", ", b, " is ", y.shape()));
  };
  if (q.size(-1) != k.size(-1)) refuse("head sizes differ", "q", q, "k", k);
  if (k.size(-2) != v.size(-2)) refuse("key and value lengths differ", "k", k, "v", v);
  const auto leading = [](const Tensor& x) {
    Shape shape = x.shape();
    shape.resize(shape.size() - 2);
    return shape;
  };
  const auto join = [&](const Shape& a, const char* name, const Tensor& x) {
    const Shape b = leading(x);
    if (!are_shapes_broadcastable(a, b)) {
      refuse("batch dimensions do not broadcast", "q", q, name, x);
    }
    return broadcast_shapes(a, b);
  };
  Arguments result;
  result.batch = join(join(leading(q), "k", k), "v", v);
  result.queries = q.size(-2);
  result.keys = k.size(-2);
  result.width = q.size(-1);
  result.value_width = v.size(-1);
  result.count = detail::checked_numel(operation, result.batch);
  detail::checked_numel(operation, result.shape({result.queries, result.value_width}));
  if (mask.defined()) check_mask(operation, mask, result.shape({result.queries, result.keys}));
  const double root = std::sqrt(static_cast<double>(std::max<std::int64_t>(1, result.width)));
  result.scale = scale.value_or(1 / root);
  if (!std::isfinite(result.scale)) {
    throw ValueError(message(operation, ": scale is ", result.scale, ", must be finite"));
  }
  result.causal = causal;
  result.dtype =
      promote_types(promote_types(q.dtype(), k.dtype(), operation), v.dtype(), operation);
  const ops::Source operands[] = {q, k, v, mask.defined() ? mask : q};
  result.device = ops::common_device(operation, operands);
  result.q = q;
  result.k = k;
  result.v = v;
  result.mask = mask;
  return result;
}

// Converts the operands to what the kernels read.
void convert(Arguments& arguments, DType dtype) {
  const auto rows = [](const Tensor& x) {
    return x.strides()[x.strides().size() - 1] == 1 ? x : x.contiguous();
  };
  arguments.dtype = dtype;
  arguments.q = rows(arguments.q.to(dtype));
  arguments.k = rows(arguments.k.to(dtype));
  arguments.v = rows(arguments.v.to(dtype));
  if (arguments.mask.defined() && arguments.mask.dtype() != DType::bool_) {
    arguments.mask = arguments.mask.to(ops::compute_dtype(dtype));
  }
}

// A call, and the lists that it points to.
struct Prepared {
  AttentionCall call{};
  std::vector<std::int64_t> q, k, v, mask;

  explicit Prepared(const Arguments& arguments) {
    call.dtype = arguments.dtype;
    call.batch = arguments.count;
    call.queries = arguments.queries;
    call.keys = arguments.keys;
    call.width = arguments.width;
    call.value_width = arguments.value_width;
    call.scale = arguments.scale;
    call.causal = arguments.causal;
    call.q = matrix(arguments, arguments.q, q);
    call.k = matrix(arguments, arguments.k, k);
    call.v = matrix(arguments, arguments.v, v);
    if (!arguments.mask.defined()) return;
    const Tensor scores =
        arguments.mask.broadcast_to(arguments.shape({arguments.queries, arguments.keys}));
    mask = batch_offsets(scores, arguments.batch, arguments.count);
    const std::size_t rank = scores.strides().size();
    call.mask = {scores.impl().data, scores.dtype(), scores.strides()[rank - 2],
                 scores.strides()[rank - 1], mask.data()};
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  static AttentionMatrix matrix(const Arguments& arguments, const Tensor& x,
                                std::vector<std::int64_t>& offsets) {
    offsets = batch_offsets(x, arguments.batch, arguments.count);
    return {x.impl().data, x.strides()[x.strides().size() - 2], offsets.data()};
  }
};

AttentionResult run_forward(const char* operation, const Arguments& arguments,
                            bool with_logsumexp) {
  AttentionResult result;
  result.output =
      detail::make_empty(operation, arguments.shape({arguments.queries, arguments.value_width}),
                         arguments.dtype, arguments.device);
  if (with_logsumexp) {
    result.logsumexp = detail::make_empty(operation, arguments.shape({arguments.queries}),
                                          ops::compute_dtype(arguments.dtype), arguments.device);
  }
  if (arguments.is_empty()) return result;
  if (arguments.keys == 0) {
    result.output.fill(0);
    if (with_logsumexp) result.logsumexp.fill(-std::numeric_limits<double>::infinity());
    return result;
  }
  Prepared prepared(arguments);
  prepared.call.out = result.output.impl().data;
  prepared.call.logsumexp = with_logsumexp ? result.logsumexp.impl().data : nullptr;
  backend::backend_for(arguments.device).attention(prepared.call);
  return result;
}

void check_saved(const char* operation, const char* argument, const Tensor& x,
                 const Shape& expected) {
  ops::check_float(operation, argument, x);
  if (x.shape() == expected) return;
  throw ShapeError(
      message(operation, ": ", argument, " is ", x.shape(), ", the forward gave ", expected));
}

}  // namespace

namespace {

AttentionResult forward(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& mask, bool causal, std::optional<double> scale,
                        bool with_logsumexp) {
  if (detail::records(q, k, v, mask)) {
    AttentionResult result =
        detail::unrecorded([&] { return forward(operation, q, k, v, mask, causal, scale, true); });
    const detail::SavedResult output(result.output);
    result.output = detail::record(
        "scaled_dot_product_attention", {q, k, v, mask}, std::move(result.output),
        [q = detail::Saved(q), k = detail::Saved(k), v = detail::Saved(v),
         mask = detail::Saved(mask), output, logsumexp = detail::Saved(result.logsumexp), causal,
         scale](const Tensor& g, detail::Node& node) -> detail::Gradients {
          const AttentionGradients gradients = scaled_dot_product_attention_backward(
              g, q.get(node), k.get(node), v.get(node), mask.get(node), causal, scale,
              {output.get(node), logsumexp.get(node)}, node.needs(3));
          return {gradients.q, gradients.k, gradients.v, gradients.mask};
        });
    return result;
  }
  Arguments arguments = checked(operation, q, k, v, mask, causal, scale);
  convert(arguments, arguments.dtype);
  return run_forward(operation, arguments, with_logsumexp);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask, StrictBool causal,
                                    std::optional<StrictDouble> scale) {
  if (ops::lowers(q, k, v)) {
    return scaled_dot_product_attention(ops::lowered(q), ops::lowered(k), ops::lowered(v),
                                        ops::lowered(mask), causal, scale);
  }
  return forward("scaled_dot_product_attention", q, k, v, mask, causal, scale, false).output;
}

AttentionResult scaled_dot_product_attention_with_logsumexp(const Tensor& q, const Tensor& k,
                                                            const Tensor& v, const Tensor& mask,
                                                            StrictBool causal,
                                                            std::optional<StrictDouble> scale) {
  return forward("scaled_dot_product_attention_with_logsumexp", q, k, v, mask, causal, scale, true);
}

AttentionGradients scaled_dot_product_attention_backward(const Tensor& grad_output, const Tensor& q,
                                                         const Tensor& k, const Tensor& v,
                                                         const Tensor& mask, StrictBool causal,
                                                         std::optional<StrictDouble> scale,
                                                         const AttentionResult& saved,
                                                         StrictBool mask_gradient) {
  // What was saved is a function of the inputs, which the second derivative starts from.
  if (detail::records(grad_output, q, k, v, mask)) {
    std::vector<Tensor> gradients = detail::recorded_all(
        "scaled_dot_product_attention_backward",
        [&] {
          const AttentionGradients g = scaled_dot_product_attention_backward(
              grad_output, q, k, v, mask, causal, scale, saved, mask_gradient);
          return std::vector{g.q, g.k, g.v, g.mask};
        },
        [causal, scale](const detail::Gradients& w, const detail::Node&, const Tensor& g,
                        const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& mask) -> detail::Gradients {
          const AttentionDoubleGradients second = scaled_dot_product_attention_double_backward(
              {w[0], w[1], w[2], w[3]}, g, q, k, v, mask, causal, scale);
          return {second.grad_output, second.q, second.k, second.v, second.mask};
        },
        grad_output, q, k, v, mask);
    return {gradients[0], gradients[1], gradients[2], gradients[3]};
  }
  constexpr const char* operation = "scaled_dot_product_attention_backward";
  Arguments arguments = checked(operation, q, k, v, mask, causal, scale);
  const Shape output = arguments.shape({arguments.queries, arguments.value_width});
  ops::check_grad_output(operation, grad_output, output);
  const bool has_saved = saved.output.defined() && saved.logsumexp.defined();
  if (has_saved) {
    check_saved(operation, "saved.output", saved.output, output);
    check_saved(operation, "saved.logsumexp", saved.logsumexp,
                arguments.shape({arguments.queries}));
  }
  if (mask_gradient) {
    if (!mask.defined()) {
      throw ValueError(message(operation, ": mask_gradient is true, but there is no mask"));
    }
    ops::check_float(operation, "mask", mask);
  }
  const ops::Source operands[] = {q, grad_output, has_saved ? saved.output : q,
                                  has_saved ? saved.logsumexp : q};
  ops::common_device(operation, operands);

  // Halves are computed in float32 throughout and rounded once, at the end.
  const DType dtype =
      ops::compute_dtype(promote_types(arguments.dtype, grad_output.dtype(), operation));
  convert(arguments, dtype);
  const auto whole = [&](std::initializer_list<std::int64_t> last) {
    return detail::make_empty(operation, arguments.shape(last), dtype, arguments.device);
  };
  Tensor grad_q = whole({arguments.queries, arguments.width});
  Tensor grad_k = whole({arguments.keys, arguments.width});
  Tensor grad_v = whole({arguments.keys, arguments.value_width});
  // Blocks in which no query sees a key are not visited.
  Tensor grad_mask =
      mask_gradient ? zeros(arguments.shape({arguments.queries, arguments.keys}), dtype) : Tensor();
  if (arguments.is_empty() || arguments.keys == 0) {
    grad_q.fill(0);
    grad_k.fill(0);
    grad_v.fill(0);
  } else {
    AttentionResult result;
    if (has_saved) {
      result = {saved.output.to(dtype).contiguous(), saved.logsumexp.to(dtype).contiguous()};
    } else {
      result = run_forward(operation, arguments, true);
    }
    const Tensor g = grad_output.to(dtype).contiguous();
    Prepared prepared(arguments);
    prepared.call.out = result.output.impl().data;
    prepared.call.logsumexp = result.logsumexp.impl().data;
    const auto offsets = batch_offsets(g, arguments.batch, arguments.count);
    backend::AttentionBackwardCall call{};
    call.forward = prepared.call;
    call.grad_output = {g.impl().data, arguments.value_width, offsets.data()};
    call.grad_q = grad_q.impl().data;
    call.grad_k = grad_k.impl().data;
    call.grad_v = grad_v.impl().data;
    call.grad_mask = mask_gradient ? grad_mask.impl().data : nullptr;
    backend::backend_for(arguments.device).attention_backward(call);
  }
  const auto like = [](const Tensor& gradient, const Tensor& x) {
    return reduce_broadcast_dims(gradient, x.shape()).to(x.dtype());
  };
  return {like(grad_q, q), like(grad_k, k), like(grad_v, v),
          mask_gradient ? like(grad_mask, mask) : Tensor()};
}

namespace {

// softmax(scale · q·kᵀ + mask), all of it; 0 where a query sees nothing.
Tensor probabilities(const Arguments& arguments) {
  const Tensor hidden = full({}, -std::numeric_limits<double>::infinity(), arguments.dtype);
  Tensor scores = matmul(arguments.q, matrix_transpose(arguments.k)) * arguments.scale;
  if (arguments.mask.defined()) {
    scores = arguments.mask.dtype() == DType::bool_ ? where(arguments.mask, scores, hidden)
                                                    : scores + arguments.mask;
  }
  if (arguments.causal) {
    const Tensor query = arange(arguments.queries).unsqueeze(1), key = arange(arguments.keys);
    scores = where(less_equal(key, query), scores, hidden);
  }
  const Tensor total = logsumexp(scores, -1, true);
  return exp(scores - where(isinf(total), zeros({}, arguments.dtype), total));
}

void check_grad_gradient(const char* operation, const char* argument, const Tensor& x,
                         const Shape& expected) {
  if (!x.defined()) return;
  ops::check_float(operation, argument, x);
  if (x.shape() == expected) return;
  throw ShapeError(
      message(operation, ": ", argument, " is ", x.shape(), ", the backward gave ", expected));
}

}  // namespace

AttentionDoubleGradients scaled_dot_product_attention_double_backward(
    const AttentionGradients& grad_gradients, const Tensor& grad_output, const Tensor& q,
    const Tensor& k, const Tensor& v, const Tensor& mask, StrictBool causal,
    std::optional<StrictDouble> scale) {
  constexpr const char* operation = "scaled_dot_product_attention_double_backward";
  Arguments arguments = checked(operation, q, k, v, mask, causal, scale);
  ops::check_grad_output(operation, grad_output,
                         arguments.shape({arguments.queries, arguments.value_width}));
  check_grad_gradient(operation, "grad_gradients.q", grad_gradients.q, q.shape());
  check_grad_gradient(operation, "grad_gradients.k", grad_gradients.k, k.shape());
  check_grad_gradient(operation, "grad_gradients.v", grad_gradients.v, v.shape());
  const bool has_float_mask = mask.defined() && is_floating_point(mask.dtype());
  if (grad_gradients.mask.defined()) {
    if (!has_float_mask) {
      throw ValueError(message(operation, ": grad_gradients.mask is given without a float mask"));
    }
    check_grad_gradient(operation, "grad_gradients.mask", grad_gradients.mask, mask.shape());
  }
  const DType dtype =
      ops::compute_dtype(promote_types(arguments.dtype, grad_output.dtype(), operation));
  convert(arguments, dtype);
  const auto given = [&](const Tensor& x, const Tensor& like) {
    return x.defined() ? x.to(dtype) : zeros(like.shape(), dtype);
  };
  const Tensor a = given(grad_gradients.q, q), b = given(grad_gradients.k, k);
  const Tensor c = given(grad_gradients.v, v), g = grad_output.to(dtype);
  const double s = arguments.scale;
  const auto transposed = [](const Tensor& x) { return matrix_transpose(x); };
  const auto row_sum = [](const Tensor& x) { return sum(x, -1, true); };

  // The backward's own terms: p, the gradient of p, and that of the scores.
  const Tensor p = probabilities(arguments);
  const Tensor grad_p = matmul(g, transposed(arguments.v));
  const Tensor inner = row_sum(p * grad_p);
  const Tensor grad_scores = p * (grad_p - inner);
  // How the scores move when q, k and the mask move along a, b and their own.
  Tensor moved = (matmul(a, transposed(arguments.k)) + matmul(arguments.q, transposed(b))) * s;
  if (grad_gradients.mask.defined()) moved = moved + grad_gradients.mask.to(dtype);
  const Tensor centred = moved - row_sum(p * moved);
  const Tensor moved_p = p * centred;
  // Back through p into the scores.
  const Tensor through_p = centred * grad_p - moved * inner + matmul(g, transposed(c));
  const Tensor through_scores = p * (through_p - row_sum(p * through_p));

  const auto like = [](const Tensor& gradient, const Tensor& x) {
    return reduce_broadcast_dims(gradient, x.shape()).to(x.dtype());
  };
  AttentionDoubleGradients result;
  result.grad_output = like(matmul(moved_p, arguments.v) + matmul(p, c), grad_output);
  result.q = like((matmul(through_scores, arguments.k) + matmul(grad_scores, b)) * s, q);
  result.k = like(
      (matmul(transposed(through_scores), arguments.q) + matmul(transposed(grad_scores), a)) * s,
      k);
  result.v = like(matmul(transposed(moved_p), g), v);
  if (has_float_mask) result.mask = like(through_scores, mask);
  return result;
}

}  // namespace extensor
