#include "extensor/matrix.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "extensor/autocast.h"
#include "extensor/broadcasting.h"
#include "extensor/complex.h"
#include "extensor/elementwise.h"
#include "ops/batch_offsets.h"
#include "ops/contract.h"
#include "ops/launch.h"
#include "ops/linalg_support.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

// The shapes of a product. A vector is a row on the left and a column on the right; the result
// lacks its dimension.
struct Product {
  Shape a, b;  // operands as matrices
  Shape batch, result;
  std::int64_t m, n, k;

  Product(const char* operation, const Shape& left, const Shape& right) : a(left), b(right) {
    const auto refuse = [&](const char* what) {
      throw ShapeError(message(operation, ": ", what, ": a is ", left, ", b is ", right));
    };
    if (a.empty() || b.empty()) refuse("both operands need a dimension at least");
    if (left.size() == 1) a.insert(0, 1);
    if (right.size() == 1) b.insert(1, 1);
    m = a[a.size() - 2];
    k = a[a.size() - 1];
    n = b[b.size() - 1];
    if (b[b.size() - 2] != k) refuse("inner dimensions differ");
    const Shape a_batch = leading(a), b_batch = leading(b);
    if (!are_shapes_broadcastable(a_batch, b_batch)) refuse("batch dimensions do not broadcast");
    batch = broadcast_shapes(a_batch, b_batch);
    result = batch;
    if (left.size() > 1) result.push_back(m);
    if (right.size() > 1) result.push_back(n);
  }

  Tensor left_matrices(const Tensor& x) const { return x.ndim() == 1 ? x.unsqueeze(0) : x; }
  Tensor right_matrices(const Tensor& x) const { return x.ndim() == 1 ? x.unsqueeze(1) : x; }
  Tensor result_matrices(const Tensor& x) const {
    Shape matrices = batch;
    matrices.push_back(m);
    matrices.push_back(n);
    return x.reshape(matrices);
  }

 private:
  static Shape leading(const Shape& matrices) {
    Shape batch = matrices;
    batch.resize(matrices.size() - 2);
    return batch;
  }
};

// Sets up one product of matrices, or `call.batch` products whose offsets are set later.
backend::MatmulCall matmul_call(const Tensor& a, const Tensor& b, const Tensor& c) {
  const std::size_t rank_a = a.shape().size(), rank_b = b.shape().size();
  backend::MatmulCall call{};
  call.dtype = c.dtype();
  call.m = a.shape()[rank_a - 2];
  call.k = a.shape()[rank_a - 1];
  call.n = b.shape()[rank_b - 1];
  call.a = {a.impl().data, call.dtype, a.strides().data() + rank_a - 2};
  call.b = {b.impl().data, call.dtype, b.strides().data() + rank_b - 2};
  call.c = {c.impl().data, call.dtype, nullptr};
  call.batch = 1;
  return call;
}

Tensor matmul_forward(const Run& run, const NoAttributes&, const Tensor& a, const Tensor& b) {
  // Fast path for two plain matrices of one dtype: overhead dominates small products.
  if (a.ndim() == 2 && b.ndim() == 2 && a.dtype() == b.dtype() && a.shape()[1] == b.shape()[0] &&
      a.numel() != 0 && b.numel() != 0) {
    Tensor c = run.empty({a.shape()[0], b.shape()[1]}, a.dtype());
    run.kernels().matmul(matmul_call(a, b, c));
    return c;
  }
  const Product product(run.name(), a.shape(), b.shape());
  const DType dtype = promote_types(a.dtype(), b.dtype(), run.name());
  Tensor c = run.empty(product.result, dtype);
  if (c.numel() == 0) return c;
  const BatchedMatrices left(product.left_matrices(a).to(dtype), product.batch),
      right(product.right_matrices(b).to(dtype), product.batch);
  backend::MatmulCall call = matmul_call(left.x, right.x, c);
  for (std::int64_t size : product.batch) call.batch *= size;
  call.a_offsets = left.offsets;
  call.b_offsets = right.offsets;
  call.c_offsets = backend::BatchOffsets(call.m * call.n);
  run.kernels().matmul(call);
  return c;
}

// Converts grad_output to the dtype that accumulates an operand's gradient. If the operand's
// batches were broadcast, the products are summed after the multiplication, and half dtypes stay
// wide until then, so that they are rounded once.
Tensor accumulated(const Tensor& g, const Product& product, const Shape& operand) {
  const bool same_batches = operand.size() == product.batch.size() + 2 &&
                            std::equal(product.batch.begin(), product.batch.end(), operand.begin());
  return same_batches ? g : g.to(compute_dtype(g.dtype()));
}

// c = a·b: grad_a = g·bᴴ and grad_b = aᴴ·g, summed over broadcast batches. g is a gradient of
// matrices. The gradient of a real operand of a complex product is complex here.
Tensor gradient_of_a(const Tensor& g, const Product& product, const Tensor& b, const Shape& shape) {
  const Tensor full =
      matmul(accumulated(g, product, product.a), adjoint(product.right_matrices(b)));
  return reduce_broadcast_dims(full, product.a).reshape(shape);
}
Tensor gradient_of_b(const Tensor& g, const Product& product, const Tensor& a, const Shape& shape) {
  const Tensor full = matmul(adjoint(product.left_matrices(a)), accumulated(g, product, product.b));
  return reduce_broadcast_dims(full, product.b).reshape(shape);
}

Gradients matmul_gradient(const GradientCall& call, const NoAttributes&) {
  const Tensor& b = call.input(1);
  const Shape& a_shape = call.needs(0) ? call.shape(0) : call.input(0).shape();
  const Product product("matmul_backward", a_shape, b.shape());
  const Tensor g = product.result_matrices(call.grad());
  Gradients gradients(2);
  if (call.needs(0)) gradients[0] = gradient_of_a(g, product, b, a_shape);
  if (call.needs(1)) gradients[1] = gradient_of_b(g, product, call.input(0), b.shape());
  return gradients;
}

// The gradient of b needs only the shape of b, but saving b costs nothing: if only b needs a
// gradient, it is a parameter and stays alive anyway.
constexpr auto matmul_op =
    define<matmul_forward, matmul_gradient>({.name = "matmul",
                                             .inputs = {"a", "b"},
                                             .reads = {input(1) | shape(0), input(0) | input(1)},
                                             .cast = Cast::down});

}  // namespace

namespace {

// The product of complex operands from products of their parts: four, or two if one operand is
// real.
template <class Product>
Tensor complex_product(const char* operation, const Tensor& a, const Tensor& b,
                       const Product& product) {
  const Autocast off(DType::bfloat16, false);  // there are no complex numbers of half parts
  const DType part = real_dtype(promote_types(a.dtype(), b.dtype(), operation));
  // Dense parts, so that no product gathers every second element.
  const auto real_part = [&](const Tensor& x) { return real(x).to(part).contiguous(); };
  const auto imag_part = [&](const Tensor& x) { return imag(x).to(part).contiguous(); };
  const Tensor a_real = real_part(a), b_real = real_part(b);
  Tensor re = product(a_real, b_real), im;
  if (is_complex(a)) {
    const Tensor a_imag = imag_part(a);
    im = product(a_imag, b_real);
    if (is_complex(b)) {
      const Tensor b_imag = imag_part(b);
      re = subtract(re, product(a_imag, b_imag));
      im = add(im, product(a_real, b_imag));
    }
  } else {
    im = product(a_real, imag_part(b));
  }
  return complex(re, im);
}

bool any_complex(const Tensor& a, const Tensor& b) {
  return is_complex(a.dtype()) || is_complex(b.dtype());
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (any_complex(a, b)) [[unlikely]] {
    return complex_product("matmul", a, b, [](const Tensor& x, const Tensor& y) {
      return dispatch(matmul_op, {}, x, y);
    });
  }
  return dispatch(matmul_op, {}, a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (a.ndim() != 3 || b.ndim() != 3 || a.size(0) != b.size(0)) {
    throw ShapeError(message("bmm: a is ", a.shape(), " and b is ", b.shape(),
                             ", must be [n, i, k] and [n, k, j]"));
  }
  return matmul(a, b);
}

std::pair<Tensor, Tensor> matmul_backward(const Tensor& grad_output, const Tensor& a,
                                          const Tensor& b) {
  constexpr const char* operation = "matmul_backward";
  check_operands(operation, grad_output, a, b);
  const Product product(operation, a.shape(), b.shape());
  check_grad_output(operation, grad_output, product.result);
  const Tensor g = product.result_matrices(grad_output);
  return {gradient_as(gradient_of_a(g, product, b, a.shape()), a.dtype()),
          gradient_as(gradient_of_b(g, product, a, b.shape()), b.dtype())};
}

Tensor transpose(const Tensor& x) { return x.transpose(); }
Tensor transpose(const Tensor& x, const Dims& axes) { return x.transpose(axes); }

Tensor transpose(const Tensor& x, StrictInt first, StrictInt second) {
  const std::int64_t a = detail::normalize_axis("transpose", first, x.ndim());
  const std::int64_t b = detail::normalize_axis("transpose", second, x.ndim());
  Dims axes(static_cast<std::size_t>(x.ndim()), 0);
  for (std::size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<std::int64_t>(d);
  std::swap(axes[static_cast<std::size_t>(a)], axes[static_cast<std::size_t>(b)]);
  return x.transpose(axes);
}

Tensor transpose_backward(const Tensor& grad_output, const Dims& axes) {
  check_has_gradient("transpose_backward", "grad_output", grad_output);
  if (axes.empty()) return grad_output.transpose();
  const std::int64_t rank = grad_output.ndim();
  if (static_cast<std::int64_t>(axes.size()) != rank) {
    throw ShapeError(message("transpose_backward: grad_output is ", grad_output.shape(),
                             ", but axes ", axes, " permute ", axes.size(), " dimensions"));
  }
  detail::normalize_axes("transpose_backward", axes, rank);  // checks range and repetition
  Dims inverse(axes.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    inverse[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(i);
  }
  return grad_output.transpose(inverse);
}

Tensor matrix_transpose(const Tensor& x) {
  if (x.ndim() < 2) {
    throw ShapeError(
        message("matrix_transpose: x is ", x.shape(), ", needs two dimensions at least"));
  }
  Dims axes(static_cast<std::size_t>(x.ndim()), 0);
  for (std::size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<std::int64_t>(d);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return x.transpose(axes);
}

// ---- vectors

namespace {

void check_vectors(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.ndim() == 1 && b.ndim() == 1) return;
  throw ShapeError(message(operation, ": both operands must have one dimension: a is ", a.shape(),
                           ", b is ", b.shape()));
}

Tensor dot_forward(const Run& run, const NoAttributes& none, const Tensor& a, const Tensor& b) {
  check_vectors(run.name(), a, b);
  return matmul_forward(run, none, a, b);
}

Gradients dot_gradient(const GradientCall& call, const NoAttributes&) {
  return {call.needs(0) ? multiply(call.grad(), call.input(1)) : Tensor(),
          call.needs(1) ? multiply(call.grad(), call.input(0)) : Tensor()};
}

constexpr auto dot_op = define<dot_forward, dot_gradient>(
    {.name = "dot", .inputs = {"a", "b"}, .reads = {input(1), input(0)}});

}  // namespace

Tensor dot(const Tensor& a, const Tensor& b) {
  if (any_complex(a, b)) [[unlikely]] {
    return complex_product(
        "dot", a, b, [](const Tensor& x, const Tensor& y) { return dispatch(dot_op, {}, x, y); });
  }
  return dispatch(dot_op, {}, a, b);
}

std::pair<Tensor, Tensor> dot_backward(const Tensor& grad_output, const Tensor& a,
                                       const Tensor& b) {
  check_vectors("dot_backward", a, b);
  check_operands("dot_backward", grad_output, a, b);
  const Product product("dot_backward", a.shape(), b.shape());
  check_grad_output("dot_backward", grad_output, product.result);
  return {gradient_as(multiply(grad_output, conj(b)), a.dtype()),
          gradient_as(multiply(grad_output, conj(a)), b.dtype())};
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_vectors("outer", a, b);
  return multiply(a.unsqueeze(1), b);
}

std::pair<Tensor, Tensor> outer_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b) {
  check_vectors("outer_backward", a, b);
  check_operands("outer_backward", grad_output, a, b);
  check_grad_output("outer_backward", grad_output, {a.size(0), b.size(0)});
  return {gradient_as(matmul(grad_output, conj(b)), a.dtype()),
          gradient_as(matmul(conj(a), grad_output), b.dtype())};
}

// ---- sums over pairs of axes

namespace {

// Two operands with labelled dimensions, and the labels of the result.
struct PairContraction {
  std::vector<Term> terms;
  Labels output;
};

Tensor pair_forward(const char* operation, const PairContraction& plan) {
  return contract(operation, plan.terms, plan.output);
}

std::pair<Tensor, Tensor> pair_backward(const char* operation, const Tensor& grad_output,
                                        const PairContraction& plan) {
  const auto gradients = contract_backward(operation, grad_output, plan.terms, plan.output);
  return {gradients[0], gradients[1]};
}

// Numbers the dimensions of a; dimensions of b that pair with none of a get the following numbers.
PairContraction plan_pairs(const char* operation, const Tensor& a, const Tensor& b,
                           const Dims& a_axes, const Dims& b_axes) {
  if (a_axes.size() != b_axes.size()) {
    throw ValueError(message(operation, ": axes must come in pairs, got ", a_axes, " of a and ",
                             b_axes, " of b"));
  }
  detail::normalize_axes(operation, a_axes, a.ndim());  // checks range and repetition
  detail::normalize_axes(operation, b_axes, b.ndim());
  if (a.ndim() + b.ndim() - static_cast<std::int64_t>(a_axes.size()) > max_contracted_labels) {
    throw ShapeError(message(operation, ": a is ", a.shape(), " and b is ", b.shape(), ": at most ",
                             max_contracted_labels, " dimensions together are allowed"));
  }
  PairContraction plan{{{a, Labels()}, {b, Labels(static_cast<std::size_t>(b.ndim()), -1)}}, {}};
  Labels &a_labels = plan.terms[0].labels, &b_labels = plan.terms[1].labels;
  Label next = 0;
  while (next < a.ndim()) a_labels.push_back(next++);
  std::vector<bool> summed(a_labels.size(), false);
  for (std::size_t i = 0; i < a_axes.size(); ++i) {
    const std::int64_t in_a = detail::normalize_axis(operation, a_axes[i], a.ndim());
    const std::int64_t in_b = detail::normalize_axis(operation, b_axes[i], b.ndim());
    if (a.size(in_a) != b.size(in_b)) {
      throw ShapeError(message(operation, ": axis ", a_axes[i], " of a, ", a.shape(), ", and axis ",
                               b_axes[i], " of b, ", b.shape(), ", differ in length"));
    }
    summed[static_cast<std::size_t>(in_a)] = true;
    b_labels[static_cast<std::size_t>(in_b)] = a_labels[static_cast<std::size_t>(in_a)];
  }
  for (std::size_t d = 0; d < a_labels.size(); ++d) {
    if (!summed[d]) plan.output.push_back(a_labels[d]);
  }
  for (Label& label : b_labels) {
    if (label >= 0) continue;
    label = next++;
    plan.output.push_back(label);
  }
  detail::checked_numel(operation, contracted_shape(plan.terms, plan.output));
  return plan;
}

PairContraction plan_count(const char* operation, const Tensor& a, const Tensor& b,
                           std::int64_t axes) {
  if (axes < 0 || axes > std::min(a.ndim(), b.ndim())) {
    throw ValueError(message(operation, ": axes is ", axes, ", must be from 0 to ",
                             std::min(a.ndim(), b.ndim()), ": a is ", a.shape(), ", b is ",
                             b.shape()));
  }
  Dims a_axes, b_axes;
  for (std::int64_t i = 0; i < axes; ++i) {
    a_axes.push_back(a.ndim() - axes + i);
    b_axes.push_back(i);
  }
  return plan_pairs(operation, a, b, a_axes, b_axes);
}

PairContraction plan_inner(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.ndim() == 0 || b.ndim() == 0) return plan_pairs(operation, a, b, {}, {});
  return plan_pairs(operation, a, b, {-1}, {-1});
}

PairContraction plan_vecdot(const char* operation, const Tensor& a, const Tensor& b,
                            std::int64_t axis) {
  const std::int64_t longer = std::max(a.ndim(), b.ndim());
  const std::int64_t from_end = detail::normalize_axis(operation, axis, longer) - longer;
  const std::int64_t in_a = detail::normalize_axis(operation, from_end, a.ndim());
  const std::int64_t in_b = detail::normalize_axis(operation, from_end, b.ndim());
  const auto refuse = [&](const char* what) {
    throw ShapeError(message(operation, ": ", what, ": a is ", a.shape(), ", b is ", b.shape()));
  };
  if (a.size(in_a) != b.size(in_b)) refuse("the vectors differ in length");
  // The other labels count from the end, as in broadcasting; the label of the vectors follows them.
  const auto rank = static_cast<Label>(longer);
  if (rank > max_contracted_labels) refuse("too many dimensions");
  PairContraction plan{{{a, Labels()}, {b, Labels()}}, {}};
  Shape others[2];
  for (std::size_t i = 0; i < 2; ++i) {
    Term& term = plan.terms[i];
    const std::int64_t vectors = i == 0 ? in_a : in_b;
    auto next = static_cast<Label>(term.tensor.ndim() - 1);
    for (std::int64_t d = 0; d < term.tensor.ndim(); ++d) {
      if (d != vectors) others[i].push_back(term.tensor.size(d));
      term.labels.push_back(d == vectors ? rank : --next);
    }
  }
  if (!are_shapes_broadcastable(others[0], others[1])) {
    refuse("the axes beside the vectors do not broadcast");
  }
  for (Label label = rank - 1; label-- > 0;) plan.output.push_back(label);
  return plan;
}

}  // namespace

Tensor inner(const Tensor& a, const Tensor& b) {
  return pair_forward("inner", plan_inner("inner", a, b));
}

std::pair<Tensor, Tensor> inner_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b) {
  return pair_backward("inner_backward", grad_output, plan_inner("inner_backward", a, b));
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t axes) {
  return pair_forward("tensordot", plan_count("tensordot", a, b, axes));
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& a_axes, const Dims& b_axes) {
  return pair_forward("tensordot", plan_pairs("tensordot", a, b, a_axes, b_axes));
}

std::pair<Tensor, Tensor> tensordot_backward(const Tensor& grad_output, const Tensor& a,
                                             const Tensor& b, std::int64_t axes) {
  return pair_backward("tensordot_backward", grad_output,
                       plan_count("tensordot_backward", a, b, axes));
}

std::pair<Tensor, Tensor> tensordot_backward(const Tensor& grad_output, const Tensor& a,
                                             const Tensor& b, const Dims& a_axes,
                                             const Dims& b_axes) {
  return pair_backward("tensordot_backward", grad_output,
                       plan_pairs("tensordot_backward", a, b, a_axes, b_axes));
}

Tensor vecdot(const Tensor& a, const Tensor& b, StrictInt axis) {
  return pair_forward("vecdot", plan_vecdot("vecdot", conj(a), b, axis));
}

std::pair<Tensor, Tensor> vecdot_backward(const Tensor& grad_output, const Tensor& a,
                                          const Tensor& b, StrictInt axis) {
  constexpr const char* operation = "vecdot_backward";
  auto [of_conj_a, of_b] =
      pair_backward(operation, grad_output, plan_vecdot(operation, conj(a), b, axis));
  return {conj(of_conj_a), std::move(of_b)};
}

constinit const OpList ops::matrix_ops = listed<matmul_op, dot_op>;

}  // namespace extensor
