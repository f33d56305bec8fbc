#include "ops/attention_support.h"

#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "ops/batch_offsets.h"
#include "ops/launch.h"

namespace extensor::ops {

using backend::AttentionCall;
using backend::AttentionMatrix;
using backend::AttentionOutput;
using detail::message;

namespace {

void check_matrix(const char* operation, const char* argument, const Tensor& x) {
  check_float(operation, argument, x);
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

}  // namespace

AttentionArguments checked_attention(const char* operation, const Tensor& q, const Tensor& k,
                                     const Tensor& v, const Tensor& mask,
                                     const AttentionAttributes& attention) {
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
  AttentionArguments result;
  result.batch = join(join(leading(q), "k", k), "v", v);
  result.queries = q.size(-2);
  result.keys = k.size(-2);
  result.width = q.size(-1);
  result.value_width = v.size(-1);
  result.count = detail::checked_numel(operation, result.batch);
  detail::checked_numel(operation, result.shape({result.queries, result.value_width}));
  if (mask.defined()) check_mask(operation, mask, result.shape({result.queries, result.keys}));
  const double root = std::sqrt(static_cast<double>(std::max<std::int64_t>(1, result.width)));
  result.scale = attention.scale.value_or(1 / root);
  if (!std::isfinite(result.scale)) {
    throw ValueError(message(operation, ": scale is ", result.scale, ", must be finite"));
  }
  result.causal = attention.causal;
  result.dtype =
      promote_types(promote_types(q.dtype(), k.dtype(), operation), v.dtype(), operation);
  result.q = q;
  result.k = k;
  result.v = v;
  result.mask = mask;
  return result;
}

void check_mask_gradient(const char* operation, bool mask_gradient, const Tensor& mask) {
  if (!mask_gradient) return;
  if (!mask.defined()) {
    throw ValueError(message(operation, ": mask_gradient is true, but there is no mask"));
  }
  check_float(operation, "mask", mask);
}

Tensor with_rows(const Tensor& x) {
  return x.strides()[x.strides().size() - 1] == 1 ? x : x.contiguous();
}

void convert_operands(AttentionArguments& arguments, DType dtype) {
  arguments.dtype = dtype;
  arguments.q = with_rows(arguments.q.to(dtype));
  arguments.k = with_rows(arguments.k.to(dtype));
  arguments.v = with_rows(arguments.v.to(dtype));
  if (arguments.mask.defined() && arguments.mask.dtype() != DType::bool_) {
    arguments.mask = arguments.mask.to(compute_dtype(dtype));
  }
}

namespace {

// A kernel call with the operands that it points to.
struct Prepared {
  AttentionCall call{};
  BatchedMatrices q, k, v, mask;

  explicit Prepared(const AttentionArguments& arguments) {
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
    mask = BatchedMatrices(scores, arguments.batch);
    const Strides& strides = mask.x.strides();
    call.mask = {mask.x.impl().data, mask.x.dtype(), strides[strides.size() - 2],
                 strides[strides.size() - 1], mask.offsets};
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  static AttentionMatrix matrix(const AttentionArguments& arguments, const Tensor& x,
                                BatchedMatrices& kept) {
    kept = BatchedMatrices(x, arguments.batch);
    return {kept.x.impl().data, kept.x.strides()[kept.x.strides().size() - 2], kept.offsets};
  }
  // Results are dense or split by heads. Both have at most two levels of offsets, so x is not
  // copied.
  static AttentionOutput output(const AttentionArguments& arguments, const Tensor& x) {
    return {x.impl().data, x.strides()[x.strides().size() - 2],
            BatchedMatrices(x, arguments.batch).offsets};
  }
};

}  // namespace

AttentionResult run_attention(const Run& run, const AttentionArguments& arguments,
                              bool with_logsumexp, const Tensor& output) {
  AttentionResult result;
  result.output =
      output.defined()
          ? output
          : run.empty(arguments.shape({arguments.queries, arguments.value_width}), arguments.dtype);
  if (with_logsumexp) {
    result.logsumexp =
        run.empty(arguments.shape({arguments.queries}), compute_dtype(arguments.dtype));
  }
  if (arguments.is_empty()) return result;
  if (arguments.keys == 0) {
    result.output.fill(0);
    if (with_logsumexp) result.logsumexp.fill(-std::numeric_limits<double>::infinity());
    return result;
  }
  Prepared prepared(arguments);
  prepared.call.out = Prepared::output(arguments, result.output);
  prepared.call.logsumexp = with_logsumexp ? result.logsumexp.impl().data : nullptr;
  run.kernels().attention(prepared.call);
  return result;
}

Tensor run_attention_backward(const Run& run, const AttentionArguments& arguments,
                              const Tensor& grad_output, const AttentionResult& saved,
                              Tensor grad_q, Tensor grad_k, Tensor grad_v, bool mask_gradient) {
  // Zeros: the kernel skips blocks in which no query sees a key.
  Tensor grad_mask;
  if (mask_gradient) {
    grad_mask = run.empty(arguments.shape({arguments.queries, arguments.keys}), arguments.dtype);
    grad_mask.fill(0);
  }
  if (arguments.is_empty() || arguments.keys == 0) {
    grad_q.fill(0);
    grad_k.fill(0);
    grad_v.fill(0);
    return grad_mask;
  }
  const AttentionResult result = saved.output.defined() && saved.logsumexp.defined()
                                     ? saved
                                     : run_attention(run, arguments, true);
  Prepared prepared(arguments);
  prepared.call.out = Prepared::output(arguments, result.output);
  prepared.call.logsumexp = result.logsumexp.impl().data;
  BatchedMatrices gradient;
  backend::AttentionBackwardCall call{};
  call.forward = prepared.call;
  call.grad_output = Prepared::matrix(arguments, grad_output, gradient);
  call.grad_q = Prepared::output(arguments, grad_q);
  call.grad_k = Prepared::output(arguments, grad_k);
  call.grad_v = Prepared::output(arguments, grad_v);
  call.grad_mask = grad_mask.defined() ? grad_mask.impl().data : nullptr;
  run.kernels().attention_backward(call);
  return grad_mask;
}

Tensor summed_like(const Tensor& gradient, const Tensor& x) {
  return reduce_broadcast_dims(gradient, x.shape()).to(x.dtype());
}

}  // namespace extensor::ops
