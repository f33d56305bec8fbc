#include "extensor/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "ops/batch_offsets.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::AttentionCall;
using backend::AttentionMatrix;
using detail::message;
using namespace ops;

struct Attention {
  bool causal;
  std::optional<double> scale;
};

// Checked arguments with the sizes that the shapes give, and the dtype to compute in.
struct Arguments {
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

Arguments checked(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, const Attention& attention) {
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
    arguments.mask = arguments.mask.to(compute_dtype(dtype));
  }
}

// A call, and the operands that it points to.
struct Prepared {
  AttentionCall call{};
  BatchedMatrices q, k, v, mask;

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
    mask = BatchedMatrices(scores, arguments.batch);
    const Strides& strides = mask.x.strides();
    call.mask = {mask.x.impl().data, mask.x.dtype(), strides[strides.size() - 2],
                 strides[strides.size() - 1], mask.offsets};
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  static AttentionMatrix matrix(const Arguments& arguments, const Tensor& x,
                                BatchedMatrices& kept) {
    kept = BatchedMatrices(x, arguments.batch);
    return {kept.x.impl().data, kept.x.strides()[kept.x.strides().size() - 2], kept.offsets};
  }
};

AttentionResult run_forward(const Run& run, const Arguments& arguments, bool with_logsumexp) {
  AttentionResult result;
  result.output =
      run.empty(arguments.shape({arguments.queries, arguments.value_width}), arguments.dtype);
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
  prepared.call.out = result.output.impl().data;
  prepared.call.logsumexp = with_logsumexp ? result.logsumexp.impl().data : nullptr;
  run.kernels().attention(prepared.call);
  return result;
}

// ---- backward

struct AttentionBackward {
  Attention attention;
  bool mask_gradient;
};

void check_saved(const char* operation, const char* argument, const Tensor& x,
                 const Shape& expected) {
  check_float(operation, argument, x);
  if (x.shape() == expected) return;
  throw ShapeError(
      message(operation, ": ", argument, " is ", x.shape(), ", the forward gave ", expected));
}

// `gradient` of an operand that was broadcast.
Tensor like(const Tensor& gradient, const Tensor& x) {
  return reduce_broadcast_dims(gradient, x.shape()).to(x.dtype());
}

// `output` and `logsumexp` are results of the forward, which runs again without them.
Results backward_forward(const Run& run, const AttentionBackward& attributes,
                         const Tensor& grad_output, const Tensor& q, const Tensor& k,
                         const Tensor& v, const Tensor& mask, const Tensor& output,
                         const Tensor& logsumexp) {
  const char* operation = run.name();
  Arguments arguments = checked(operation, q, k, v, mask, attributes.attention);
  const Shape shape = arguments.shape({arguments.queries, arguments.value_width});
  check_grad_output(operation, grad_output, shape);
  const bool has_saved = output.defined() && logsumexp.defined();
  if (has_saved) {
    check_saved(operation, "saved.output", output, shape);
    check_saved(operation, "saved.logsumexp", logsumexp, arguments.shape({arguments.queries}));
  }
  if (attributes.mask_gradient) {
    if (!mask.defined()) {
      throw ValueError(message(operation, ": mask_gradient is true, but there is no mask"));
    }
    check_float(operation, "mask", mask);
  }

  // Halves are computed in float32 throughout and rounded once, at the end.
  const DType dtype = compute_dtype(promote_types(arguments.dtype, grad_output.dtype(), operation));
  convert(arguments, dtype);
  const auto whole = [&](std::initializer_list<std::int64_t> last) {
    return run.empty(arguments.shape(last), dtype);
  };
  Tensor grad_q = whole({arguments.queries, arguments.width});
  Tensor grad_k = whole({arguments.keys, arguments.width});
  Tensor grad_v = whole({arguments.keys, arguments.value_width});
  // The kernel skips blocks in which no query sees a key.
  Tensor grad_mask;
  if (attributes.mask_gradient) {
    grad_mask = whole({arguments.queries, arguments.keys});
    grad_mask.fill(0);
  }
  if (arguments.is_empty() || arguments.keys == 0) {
    grad_q.fill(0);
    grad_k.fill(0);
    grad_v.fill(0);
  } else {
    const AttentionResult result =
        has_saved ? AttentionResult{output.to(dtype).contiguous(), logsumexp.to(dtype).contiguous()}
                  : run_forward(run, arguments, true);
    const Tensor g = grad_output.to(dtype).contiguous();
    Prepared prepared(arguments);
    prepared.call.out = detail::dense_data(result.output);
    prepared.call.logsumexp = detail::dense_data(result.logsumexp);
    backend::AttentionBackwardCall call{};
    call.forward = prepared.call;
    call.grad_output = {detail::dense_data(g), arguments.value_width,
                        backend::BatchOffsets(arguments.queries * arguments.value_width)};
    call.grad_q = grad_q.impl().data;
    call.grad_k = grad_k.impl().data;
    call.grad_v = grad_v.impl().data;
    call.grad_mask = grad_mask.defined() ? grad_mask.impl().data : nullptr;
    run.kernels().attention_backward(call);
  }
  return {like(grad_q, q), like(grad_k, k), like(grad_v, v),
          grad_mask.defined() ? like(grad_mask, mask) : Tensor()};
}

// softmax(scale · q·kᵀ + mask), all of it; 0 where a query sees nothing.
Tensor probabilities(const Arguments& arguments) {
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

// The saved results are functions of the inputs, from which this starts. It holds all Lq × Lk
// scores at once.
Gradients backward_gradient(const GradientCall& call, const AttentionBackward& attributes) {
  const Tensor &grad_output = call.input(0), &q = call.input(1), &k = call.input(2),
               &v = call.input(3), &mask = call.input(4);
  Arguments arguments = checked(call.name(), q, k, v, mask, attributes.attention);
  const DType dtype = compute_dtype(promote_types(arguments.dtype, grad_output.dtype()));
  convert(arguments, dtype);
  const auto given = [&](std::size_t result, const Tensor& like) {
    return call.grad(result).defined() ? call.grad(result).to(dtype) : zeros_like(like, dtype);
  };
  const Tensor a = given(0, q), b = given(1, k);
  const Tensor c = given(2, v), g = grad_output.to(dtype);
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
  if (call.grad(3).defined()) moved = moved + call.grad(3).to(dtype);
  const Tensor centred = moved - row_sum(p * moved);
  const Tensor moved_p = p * centred;
  // Back through p into the scores.
  const Tensor through_p = centred * grad_p - moved * inner + matmul(g, transposed(c));
  const Tensor through_scores = p * (through_p - row_sum(p * through_p));

  return {
      like(matmul(moved_p, arguments.v) + matmul(p, c), grad_output),
      like((matmul(through_scores, arguments.k) + matmul(grad_scores, b)) * s, q),
      like((matmul(transposed(through_scores), arguments.q) + matmul(transposed(grad_scores), a)) *
               s,
           k),
      like(matmul(transposed(moved_p), g), v),
      call.needs(4) ? like(through_scores, mask) : Tensor()};
}

constexpr Reads operands_read = input(0) | input(1) | input(2) | input(3) | input(4);
constexpr auto attention_backward_op = define<backward_forward, backward_gradient>(
    {.name = "scaled_dot_product_attention_backward",
     .inputs = {"grad_output", "q", "k", "v", "mask", "output", "logsumexp"},
     .reads = {operands_read, operands_read, operands_read, operands_read, operands_read,
               no_gradient, no_gradient},
     .optional = 1 << 4 | 1 << 5 | 1 << 6});

// ---- forward

// Results: the output, and the logsumexp where the caller or the gradient reads it.
template <bool with_logsumexp>
Results attention_forward(const Run& run, const Attention& attention, const Tensor& q,
                          const Tensor& k, const Tensor& v, const Tensor& mask) {
  Arguments arguments = checked(run.name(), q, k, v, mask, attention);
  convert(arguments, arguments.dtype);
  const AttentionResult result = run_forward(run, arguments, with_logsumexp || run.recorded);
  return {result.output, result.logsumexp};
}

Gradients attention_gradient(const GradientCall& call, const Attention& attention) {
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
