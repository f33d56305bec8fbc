#include "extensor/matrix.h"

#include <algorithm>
#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/elementwise.h"
#include "ops/autocast.h"
#include "ops/batch_offsets.h"
#include "ops/contract.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using detail::message;
using ops::batch_offsets;
using ops::check_float;
using ops::check_grad_output;

// Both operands as matrices, and the shape the product has: a vector is a row on the left, a column
// on the right, and its dimension is missing from the result.
struct Product {
  Tensor a, b;
  Shape batch, result;
  std::int64_t m, n, k;
};

Product plan_product(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.ndim() == 0 || b.ndim() == 0) {
    throw ShapeError(message(operation, ": both operands need a dimension at least: a is ",
                             a.shape(), ", b is ", b.shape()));
  }
  const auto refuse = [&](const char* what) {
    throw ShapeError(message(operation, ": ", what, ": a is ", a.shape(), ", b is ", b.shape()));
  };
  Product product;
  product.a = a.ndim() == 1 ? a.unsqueeze(0) : a;
  product.b = b.ndim() == 1 ? b.unsqueeze(1) : b;
  product.m = product.a.size(-2);
  product.k = product.a.size(-1);
  product.n = product.b.size(-1);
  if (product.b.size(-2) != product.k) refuse("inner dimensions differ");
  const auto leading = [](const Shape& shape) {
    Shape result = shape;
    result.resize(shape.size() - 2);
    return result;
  };
  const Shape a_batch = leading(product.a.shape()), b_batch = leading(product.b.shape());
  if (!are_shapes_broadcastable(a_batch, b_batch)) refuse("batch dimensions do not broadcast");
  product.batch = broadcast_shapes(a_batch, b_batch);
  product.result = product.batch;
  if (a.ndim() > 1) product.result.push_back(product.m);
  if (b.ndim() > 1) product.result.push_back(product.n);
  return product;
}

// Two plain matrices of one dtype, the shortest way: small products are all overhead.
bool are_plain_matrices(const Tensor& a, const Tensor& b) {
  return a.ndim() == 2 && b.ndim() == 2 && a.dtype() == b.dtype() && a.device() == b.device() &&
         a.shape()[1] == b.shape()[0] && a.numel() != 0 && b.numel() != 0;
}

Tensor multiply_plain_matrices(const char* operation, const Tensor& a, const Tensor& b) {
  backend::MatmulCall call{};
  call.dtype = a.dtype();
  call.m = a.shape()[0];
  call.n = b.shape()[1];
  call.k = a.shape()[1];
  Tensor result = detail::make_empty(operation, {call.m, call.n}, call.dtype, a.device());
  const std::int64_t zero = 0;
  call.a = {a.impl().data, call.dtype, a.strides().data()};
  call.b = {b.impl().data, call.dtype, b.strides().data()};
  call.c = {result.impl().data, call.dtype, nullptr};
  call.batch = 1;
  call.a_offsets = call.b_offsets = call.c_offsets = &zero;
  backend::backend_for(a.device()).matmul(call);
  return result;
}

Tensor multiply_matrices(const char* operation, const Tensor& a, const Tensor& b) {
  if (are_plain_matrices(a, b)) return multiply_plain_matrices(operation, a, b);
  Product product = plan_product(operation, a, b);
  const ops::Source operands[] = {a, b};
  const Device device = ops::common_device(operation, operands);
  const DType dtype = promote_types(a.dtype(), b.dtype(), operation);
  product.a = product.a.to(dtype);
  product.b = product.b.to(dtype);
  Tensor result = detail::make_empty(operation, product.result, dtype, device);
  if (result.numel() == 0) return result;
  const std::int64_t zero = 0;
  const std::size_t rank_a = product.a.shape().size(), rank_b = product.b.shape().size();
  backend::MatmulCall call{};
  call.dtype = dtype;
  call.m = product.m;
  call.n = product.n;
  call.k = product.k;
  call.a = {product.a.impl().data, dtype, product.a.strides().data() + rank_a - 2};
  call.b = {product.b.impl().data, dtype, product.b.strides().data() + rank_b - 2};
  call.c = {result.impl().data, dtype, nullptr};
  call.batch = 1;
  for (std::int64_t size : product.batch) call.batch *= size;
  if (call.batch == 1) {
    call.a_offsets = call.b_offsets = call.c_offsets = &zero;
    backend::backend_for(device).matmul(call);
    return result;
  }
  const auto a_offsets = batch_offsets(product.a, product.batch, call.batch);
  const auto b_offsets = batch_offsets(product.b, product.batch, call.batch);
  std::vector<std::int64_t> c_offsets(static_cast<std::size_t>(call.batch));
  for (std::int64_t i = 0; i < call.batch; ++i) {
    c_offsets[static_cast<std::size_t>(i)] = i * call.m * call.n;
  }
  call.a_offsets = a_offsets.data();
  call.b_offsets = b_offsets.data();
  call.c_offsets = c_offsets.data();
  backend::backend_for(device).matmul(call);
  return result;
}

}  // namespace

namespace {

// grad_output in the dtype that the gradient of `operand` is accumulated in. Where the operand's
// batches were broadcast, the products are summed after the multiplication: a half stays wide until
// then, so that it is rounded once.
Tensor accumulated(const Tensor& g, const Product& product, const Tensor& operand) {
  const Shape& own = operand.shape();
  const bool same_batches = own.size() == product.batch.size() + 2 &&
                            std::equal(product.batch.begin(), product.batch.end(), own.begin());
  return same_batches ? g : g.to(ops::compute_dtype(g.dtype()));
}

// c = a·b: grad_a = g·bᵀ and grad_b = aᵀ·g, summed over the batches that were broadcast.
Tensor matmul_gradient_a(const Tensor& g, const Product& product, const Tensor& a) {
  const Tensor full = matmul(accumulated(g, product, product.a), matrix_transpose(product.b));
  return reduce_broadcast_dims(full, product.a.shape()).reshape(a.shape()).to(a.dtype());
}
Tensor matmul_gradient_b(const Tensor& g, const Product& product, const Tensor& b) {
  const Tensor full = matmul(matrix_transpose(product.a), accumulated(g, product, product.b));
  return reduce_broadcast_dims(full, product.b.shape()).reshape(b.shape()).to(b.dtype());
}

// grad_output as matrices, those of the product.
Tensor product_gradient(const Tensor& grad_output, const Product& product) {
  Shape matrices = product.batch;
  matrices.push_back(product.m);
  matrices.push_back(product.n);
  return grad_output.reshape(matrices);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (ops::lowers(a, b)) return matmul(ops::lowered(a), ops::lowered(b));
  if (detail::records(a, b)) {
    return detail::record("matmul", {a, b}, detail::unrecorded([&] { return matmul(a, b); }),
                          [a = detail::Saved(a), b = detail::Saved(b)](
                              const Tensor& grad_output, detail::Node& node) -> detail::Gradients {
                            const Tensor& first = a.get(node);
                            const Tensor& second = b.get(node);
                            const Product product = plan_product("matmul_backward", first, second);
                            const Tensor g = product_gradient(grad_output, product);
                            return {
                                node.needs(0) ? matmul_gradient_a(g, product, first) : Tensor(),
                                node.needs(1) ? matmul_gradient_b(g, product, second) : Tensor()};
                          });
  }
  return multiply_matrices("matmul", a, b);
}

std::pair<Tensor, Tensor> matmul_backward(const Tensor& grad_output, const Tensor& a,
                                          const Tensor& b) {
  constexpr const char* operation = "matmul_backward";
  check_float(operation, "a", a);
  check_float(operation, "b", b);
  const Product product = plan_product(operation, a, b);
  check_grad_output(operation, grad_output, product.result);
  const Tensor g = product_gradient(grad_output, product);
  return {matmul_gradient_a(g, product, a), matmul_gradient_b(g, product, b)};
}

// c = a·b is linear in each: the gradient of g is the product's differential, and that of an
// operand comes through the other's gradient alone.
MatmulDoubleGradients matmul_double_backward(const Tensor& grad_grad_a, const Tensor& grad_grad_b,
                                             const Tensor& grad_output, const Tensor& a,
                                             const Tensor& b) {
  constexpr const char* operation = "matmul_double_backward";
  ops::check_gradient(operation, "grad_grad_a", grad_grad_a, a.shape());
  ops::check_gradient(operation, "grad_grad_b", grad_grad_b, b.shape());
  const auto wide = [](const Tensor& x) { return x.to(ops::compute_dtype(x.dtype())); };
  return {
      add(matmul(wide(grad_grad_a), b), matmul(a, wide(grad_grad_b))).to(grad_output.dtype()),
      matmul_backward(grad_output, a, grad_grad_b).first,
      matmul_backward(grad_output, grad_grad_a, b).second,
  };
}

Tensor transpose(const Tensor& x) { return x.transpose(); }
Tensor transpose(const Tensor& x, const Dims& axes) { return x.transpose(axes); }

Tensor transpose_backward(const Tensor& grad_output, const Dims& axes) {
  check_float("transpose_backward", "grad_output", grad_output);
  if (axes.empty()) return grad_output.transpose();
  const std::int64_t rank = grad_output.ndim();
  if (static_cast<std::int64_t>(axes.size()) != rank) {
    throw ShapeError(message("transpose_backward: grad_output is ", grad_output.shape(),
                             ", but axes ", axes, " permute ", axes.size(), " dimensions"));
  }
  detail::normalize_axes("transpose_backward", axes, rank);  // for its checks: range, repetition
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
// ---------------------------------------------------------------------------------------

namespace {

void check_vectors(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.ndim() == 1 && b.ndim() == 1) return;
  throw ShapeError(message(operation, ": both operands must have one dimension: a is ", a.shape(),
                           ", b is ", b.shape()));
}

}  // namespace

Tensor dot(const Tensor& a, const Tensor& b) {
  check_vectors("dot", a, b);
  if (detail::records(a, b)) {
    return detail::recorded(
        "dot", [&] { return dot(a, b); },
        [](const Tensor& g, const Tensor& a, const Tensor& b) { return dot_backward(g, a, b); }, a,
        b);
  }
  return multiply_matrices("dot", a, b);
}

std::pair<Tensor, Tensor> dot_backward(const Tensor& grad_output, const Tensor& a,
                                       const Tensor& b) {
  check_vectors("dot_backward", a, b);
  check_float("dot_backward", "a", a);
  check_float("dot_backward", "b", b);
  plan_product("dot_backward", a, b);
  check_grad_output("dot_backward", grad_output, {});
  return {multiply(grad_output, b).to(a.dtype()), multiply(grad_output, a).to(b.dtype())};
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_vectors("outer", a, b);
  return multiply(a.unsqueeze(1), b);
}

std::pair<Tensor, Tensor> outer_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b) {
  check_vectors("outer_backward", a, b);
  check_float("outer_backward", "a", a);
  check_float("outer_backward", "b", b);
  check_grad_output("outer_backward", grad_output, {a.size(0), b.size(0)});
  return {matmul(grad_output, b).to(a.dtype()), matmul(a, grad_output).to(b.dtype())};
}

// ---- sums over pairs of axes
// -----------------------------------------------------------------------

namespace {

using ops::Label;
using ops::Labels;
using ops::Term;

// Two operands whose dimensions are named, and the names of the result's.
struct PairContraction {
  std::vector<Term> terms;
  Labels output;
};

std::pair<Tensor, Tensor> pair_backward(const char* operation, const Tensor& grad_output,
                                        const PairContraction& plan) {
  const auto gradients = ops::contract_backward(operation, grad_output, plan.terms, plan.output);
  return {gradients[0], gradients[1]};
}

// a's dimensions are numbered, b's go on where they do not pair with one of a's.
PairContraction plan_pairs(const char* operation, const Tensor& a, const Tensor& b,
                           const Dims& a_axes, const Dims& b_axes) {
  if (a_axes.size() != b_axes.size()) {
    throw ValueError(message(operation, ": axes must come in pairs, got ", a_axes, " of a and ",
                             b_axes, " of b"));
  }
  detail::normalize_axes(operation, a_axes, a.ndim());  // for its checks: range, repetition
  detail::normalize_axes(operation, b_axes, b.ndim());
  if (a.ndim() + b.ndim() - static_cast<std::int64_t>(a_axes.size()) > ops::max_contracted_labels) {
    throw ShapeError(message(operation, ": a is ", a.shape(), " and b is ", b.shape(), ": at most ",
                             ops::max_contracted_labels, " dimensions together are allowed"));
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
  detail::checked_numel(operation, ops::contracted_shape(plan.terms, plan.output));
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
  // The others count from the end, as in broadcasting; the vectors' label comes behind them.
  const auto rank = static_cast<Label>(longer);
  if (rank > ops::max_contracted_labels) refuse("too many dimensions");
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
  const PairContraction plan = plan_inner("inner", a, b);
  return ops::contract("inner", plan.terms, plan.output);
}

std::pair<Tensor, Tensor> inner_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b) {
  return pair_backward("inner_backward", grad_output, plan_inner("inner_backward", a, b));
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t axes) {
  const PairContraction plan = plan_count("tensordot", a, b, axes);
  return ops::contract("tensordot", plan.terms, plan.output);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& a_axes, const Dims& b_axes) {
  const PairContraction plan = plan_pairs("tensordot", a, b, a_axes, b_axes);
  return ops::contract("tensordot", plan.terms, plan.output);
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
  const PairContraction plan = plan_vecdot("vecdot", a, b, axis);
  return ops::contract("vecdot", plan.terms, plan.output);
}

std::pair<Tensor, Tensor> vecdot_backward(const Tensor& grad_output, const Tensor& a,
                                          const Tensor& b, StrictInt axis) {
  return pair_backward("vecdot_backward", grad_output, plan_vecdot("vecdot_backward", a, b, axis));
}

}  // namespace extensor
