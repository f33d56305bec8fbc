#include "extensor/matrix.h"

#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/elementwise.h"
#include "ops/batch_offsets.h"
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

Tensor matmul(const Tensor& a, const Tensor& b) { return multiply_matrices("matmul", a, b); }

std::pair<Tensor, Tensor> matmul_backward(const Tensor& grad_output, const Tensor& a,
                                          const Tensor& b) {
  constexpr const char* operation = "matmul_backward";
  check_float(operation, "a", a);
  check_float(operation, "b", b);
  const Product product = plan_product(operation, a, b);
  check_grad_output(operation, grad_output, product.result);
  Shape matrices = product.batch;
  matrices.push_back(product.m);
  matrices.push_back(product.n);
  const Tensor g = grad_output.reshape(matrices);
  // c = a·b: grad_a = g·bᵀ and grad_b = aᵀ·g, summed over the batches that were broadcast.
  const Tensor grad_a = multiply_matrices(operation, g, matrix_transpose(product.b));
  const Tensor grad_b = multiply_matrices(operation, matrix_transpose(product.a), g);
  return {reduce_broadcast_dims(grad_a, product.a.shape()).reshape(a.shape()).to(a.dtype()),
          reduce_broadcast_dims(grad_b, product.b.shape()).reshape(b.shape()).to(b.dtype())};
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

}  // namespace extensor
