// Solutions, inverses and determinants.
#include <algorithm>
#include <optional>

#include "backend/backend.h"
#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/complex.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/linalg.h"
#include "extensor/manipulation.h"
#include "ops/launch.h"
#include "ops/linalg_support.h"
#include "ops/registry.h"

namespace extensor {

namespace linalg {

namespace {

using backend::MatrixCall;
using backend::MatrixOp;
using detail::message;
using namespace ops;

// ---- solve

// The shapes of a·y = b.
struct System {
  bool is_vector;  // b is a vector
  Shape batch;
  std::int64_t n, right;

  System(const char* operation, const Tensor& a, const Tensor& b) : is_vector(b.ndim() == 1) {
    check_square_matrices(operation, "a", a);
    check_matrix_dtype(operation, "b", b.dtype());
    n = a.size(-1);
    const Shape own = is_vector || b.ndim() == 0 ? Shape() : batch_shape(b.shape());
    if (b.ndim() == 0 || b.size(is_vector ? 0 : -2) != n ||
        !are_shapes_broadcastable(batch_shape(a.shape()), own)) {
      throw ShapeError(message(operation, ": a is ", a.shape(), " and b is ", b.shape(),
                               ", must be [..., n, n] and [n] or [..., n, k], with batches that "
                               "broadcast"));
    }
    batch = broadcast_shapes(batch_shape(a.shape()), own);
    right = is_vector ? 1 : b.size(-1);
  }

  Shape result() const {
    return is_vector ? with_vectors(batch, n) : with_matrices(batch, n, right);
  }
  // A vector as a matrix of one column.
  Tensor columns(const Tensor& x) const { return is_vector ? x.unsqueeze(-1) : x; }
  // A matrix of one column as a vector, where b is one.
  Tensor like_b(const Tensor& x) const { return is_vector ? x.squeeze(-1) : x; }
};

struct TriangleAttributes {
  bool upper;
};

// Of triangular matrices on the CPU: the kernel solves for one block of rows, and a product
// subtracts what is known from the next.
constexpr std::int64_t rows_of_block = 64, most_rows_at_once = 96;

void solve_systems(const Run& run, MatrixOp op, const Tensor& a, const Tensor& b, bool upper,
                   const System& system, Tensor& y) {
  MatrixCall call = matrix_call(op, a);
  call.right = system.right;
  call.b = detail::dense_data(b);
  call.out[0] = y.impl().data;
  call.upper = upper;
  run_matrices(run, call, system.batch, MatrixCheck{.argument = "a"});
}

void solve_triangle_in_blocks(const Run& run, const Tensor& a, const Tensor& b, bool upper,
                              const System& system, Tensor& y) {
  const detail::AutocastScope full_precision(std::nullopt);
  const std::int64_t n = system.n, count = (n + rows_of_block - 1) / rows_of_block;
  for (std::int64_t step = 0; step < count; ++step) {
    const std::int64_t begin = (upper ? count - 1 - step : step) * rows_of_block;
    const std::int64_t end = std::min(begin + rows_of_block, n);
    const Tensor rows = a.slice(-2, begin, end);
    Tensor right = b.slice(-2, begin, end);
    if (step > 0) {
      const std::int64_t first = upper ? end : 0, last = upper ? n : begin;
      right = subtract(right, matmul(rows.slice(-1, first, last), y.slice(-2, first, last)));
    }
    Tensor solution = run.empty(right.shape(), y.dtype());
    solve_systems(run, MatrixOp::solve_triangular, rows.slice(-1, begin, end).contiguous(),
                  right.contiguous(), upper, system, solution);
    y.slice(-2, begin, end).copy_from(solution);
  }
}

Tensor solved(const Run& run, MatrixOp op, const Tensor& a, const Tensor& b, bool upper) {
  const System system(run.name(), a, b);
  const DType dtype = promote_types(a.dtype(), b.dtype(), run.name());
  Tensor y = run.empty(system.result(), dtype);
  const Tensor left =
      a.to(dtype).broadcast_to(with_matrices(system.batch, system.n, system.n)).contiguous();
  const Tensor right = system.columns(b.to(dtype))
                           .broadcast_to(with_matrices(system.batch, system.n, system.right))
                           .contiguous();
  if (op == MatrixOp::solve_triangular && run.device == cpu_device &&
      system.n > most_rows_at_once) {
    Tensor columns = system.columns(y);
    solve_triangle_in_blocks(run, left, right, upper, system, columns);
  } else {
    solve_systems(run, op, left, right, upper, system, y);
  }
  return y;
}

Tensor solve_forward(const Run& run, const NoAttributes&, const Tensor& a, const Tensor& b) {
  return solved(run, MatrixOp::solve, a, b, false);
}
Tensor solve_triangular_forward(const Run& run, const TriangleAttributes& attributes,
                                const Tensor& a, const Tensor& b) {
  return solved(run, MatrixOp::solve_triangular, a, b, attributes.upper);
}

// With h = a⁻ᴴ·g, the gradient of b is h, and that of a is −h·yᴴ.
Tensor gradient_of_a(const System& system, const Tensor& h, const Tensor& y, const Tensor& a) {
  const Tensor full = negative(matmul(system.columns(h), adjoint(system.columns(y))));
  return gradient_as(reduce_broadcast_dims(full, a.shape()), a.dtype());
}
Tensor one_triangle(const Tensor& x, bool upper) { return upper ? triu(x) : tril(x); }

// a⁻ᴴ·g in the shape of the solution.
Tensor back_substituted(const System& system, const Tensor& a, const Tensor& g) {
  return system.like_b(solve(adjoint(a), system.columns(g)));
}
Tensor back_substituted(const System& system, const Tensor& a, const Tensor& g, bool upper) {
  return system.like_b(solve_triangular(adjoint(a), system.columns(g), !upper));
}

Gradients solve_gradient(const GradientCall& call, const NoAttributes&) {
  const Tensor &a = call.input(0), &b = call.input(1);
  const System system(call.name(), a, b);
  const Tensor h = back_substituted(system, a, call.grad());
  Gradients gradients(2);
  if (call.needs(0)) gradients[0] = gradient_of_a(system, h, call.result(), a);
  if (call.needs(1)) gradients[1] = gradient_as(reduce_broadcast_dims(h, b.shape()), b.dtype());
  return gradients;
}

Gradients solve_triangular_gradient(const GradientCall& call,
                                    const TriangleAttributes& attributes) {
  const Tensor &a = call.input(0), &b = call.input(1);
  const System system(call.name(), a, b);
  const Tensor h = back_substituted(system, a, call.grad(), attributes.upper);
  Gradients gradients(2);
  if (call.needs(0)) {
    gradients[0] = one_triangle(gradient_of_a(system, h, call.result(), a), attributes.upper);
  }
  if (call.needs(1)) gradients[1] = gradient_as(reduce_broadcast_dims(h, b.shape()), b.dtype());
  return gradients;
}

constexpr auto solve_op = define<solve_forward, solve_gradient>(
    {.name = "solve",
     .inputs = {"a", "b"},
     .reads = {input(0) | input(1) | result(), input(0) | input(1)},
     .cast = Cast::up,
     .complex = true});
constexpr auto solve_triangular_op = define<solve_triangular_forward, solve_triangular_gradient>(
    {.name = "solve_triangular",
     .inputs = {"a", "b"},
     .reads = {input(0) | input(1) | result(), input(0) | input(1)},
     .cast = Cast::up,
     .complex = true});

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) { return dispatch(solve_op, {}, a, b); }
Tensor solve_triangular(const Tensor& a, const Tensor& b, StrictBool upper) {
  return dispatch(solve_triangular_op, {upper}, a, b);
}

std::pair<Tensor, Tensor> solve_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b, const Tensor& y) {
  constexpr const char* operation = "solve_backward";
  const System system(operation, a, b);
  check_grad_output(operation, grad_output, system.result());
  check_matrix_dtype(operation, "y", y.dtype());
  check_shape(operation, "y", y, system.result());
  const Tensor h = back_substituted(system, a, grad_output);
  return {gradient_of_a(system, h, y, a),
          gradient_as(reduce_broadcast_dims(h, b.shape()), b.dtype())};
}

std::pair<Tensor, Tensor> solve_triangular_backward(const Tensor& grad_output, const Tensor& a,
                                                    const Tensor& b, const Tensor& y,
                                                    StrictBool upper) {
  constexpr const char* operation = "solve_triangular_backward";
  const System system(operation, a, b);
  check_grad_output(operation, grad_output, system.result());
  check_matrix_dtype(operation, "y", y.dtype());
  check_shape(operation, "y", y, system.result());
  const Tensor h = back_substituted(system, a, grad_output, upper);
  return {one_triangle(gradient_of_a(system, h, y, a), upper),
          gradient_as(reduce_broadcast_dims(h, b.shape()), b.dtype())};
}

// ---- inverses and powers

namespace {

Tensor inv_forward(const Run& run, const NoAttributes&, const Tensor& x) {
  check_square_matrices(run.name(), "x", x);
  Tensor y = run.empty(x.shape(), x.dtype());
  const Tensor dense = x.contiguous();
  MatrixCall call = matrix_call(MatrixOp::inverse, dense);
  call.out[0] = y.impl().data;
  run_matrices(run, call, batch_shape(x.shape()), MatrixCheck{});
  return y;
}

Gradients inv_gradient(const GradientCall& call, const NoAttributes&) {
  return inv_backward(call.grad(), call.result());
}

constexpr auto inv_op = define<inv_forward, inv_gradient>(
    {.name = "inv", .inputs = {"x"}, .reads = {result()}, .cast = Cast::up, .complex = true});

// The product of n factors x, n ≥ 1, by repeated squaring.
Tensor power_of(const Tensor& x, std::int64_t n) {
  Tensor square = x, result;
  for (std::int64_t rest = n;;) {
    if (rest % 2 == 1) result = result.defined() ? matmul(result, square) : square;
    rest /= 2;
    if (rest == 0) return result;
    square = matmul(square, square);
  }
}

}  // namespace

Tensor inv(const Tensor& x) { return dispatch(inv_op, {}, x); }

// y = x⁻¹: dy = −y dx y.
Tensor inv_backward(const Tensor& grad_output, const Tensor& y) {
  check_square_matrices("inv_backward", "y", y);
  check_grad_output("inv_backward", grad_output, y.shape());
  const Tensor t = adjoint(y);
  return negative(matmul(matmul(t, grad_output), t));
}

Tensor matrix_power(const Tensor& x, StrictInt n) {
  check_square_matrices("matrix_power", "x", x);
  if (n == 0) {
    return eye(x.size(-1), {}, 0, {.dtype = x.dtype(), .device = x.device()})
        .broadcast_to(x.shape())
        .clone();
  }
  if (n == INT64_MIN) throw ValueError("matrix_power: n is below the range of exponents");
  return n < 0 ? power_of(inv(x), -n) : power_of(x, n);
}

// The gradient is the sum of (xᴴ)ⁱ·g·(xᴴ)ᵏ with i + k = n − 1: the upper right block of
// [[xᴴ, g], [0, xᴴ]]ⁿ.
Tensor matrix_power_backward(const Tensor& grad_output, const Tensor& x, StrictInt n) {
  constexpr const char* operation = "matrix_power_backward";
  check_square_matrices(operation, "x", x);
  check_grad_output(operation, grad_output, x.shape());
  if (n == 0) return zeros_like(x);
  if (n < 0) {
    const Tensor y = inv(x);
    return inv_backward(matrix_power_backward(grad_output, y, -n), y);
  }
  const Tensor t = adjoint(x);
  const Tensor blocks = concatenate(
      {concatenate({t, grad_output.to(x.dtype())}, -1), concatenate({zeros_like(t), t}, -1)}, -2);
  const std::int64_t size = x.size(-1);
  return matrix_power(blocks, n).slice(-2, 0, size).slice(-1, size, 2 * size);
}

// ---- determinants

namespace {

Results determinants(const Run& run, const Tensor& x, bool of_logarithm) {
  check_square_matrices(run.name(), "x", x);
  const Shape batch = batch_shape(x.shape());
  const Tensor dense = x.contiguous();
  MatrixCall call = matrix_call(MatrixOp::determinant, dense);
  Results results(of_logarithm ? 2 : 1);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const bool is_logarithm = k == 1;
    results[k] = run.empty(batch, is_logarithm ? real_type(x) : x.dtype());
    call.out[of_logarithm ? k + 1 : k] = results[k].impl().data;
  }
  run_matrices(run, call, batch);
  return results;
}

Tensor det_forward(const Run& run, const NoAttributes&, const Tensor& x) {
  return determinants(run, x, false)[0];
}
Results slogdet_forward(const Run& run, const NoAttributes&, const Tensor& x) {
  return determinants(run, x, true);
}

Tensor of_log_determinant(const Tensor& g, const Tensor& x) {
  return multiply(g.unsqueeze(-1).unsqueeze(-1), adjoint(inv(x)));
}

Gradients det_gradient(const GradientCall& call, const NoAttributes&) {
  return det_backward(call.grad(), call.input(0));
}
// d log |det| is the real part of tr(x⁻¹ dx), and the sign of a complex determinant, which is
// constant for a real one, turns by the imaginary part.
Gradients slogdet_gradient(const GradientCall& call, const NoAttributes&) {
  const Tensor &of_sign = call.grad(0), &of_logarithm = call.grad(1);
  const Tensor& x = call.input(0);
  const bool turns = is_complex(x) && of_sign.defined();
  if (!turns) return of_logarithm.defined() ? slogdet_backward(of_logarithm, x) : zeros_like(x);
  const Tensor turn = imag(multiply(of_sign, conj(slogdet(x).sign)));
  const Tensor along = of_logarithm.defined() ? of_logarithm : zeros_like(turn);
  return of_log_determinant(complex(along, turn), x);
}

Tensor cofactor_forward(const Run& run, const NoAttributes&, const Tensor& x) {
  Tensor y = run.empty(x.shape(), x.dtype());
  const Tensor dense = x.contiguous();
  MatrixCall call = matrix_call(MatrixOp::cofactor, dense);
  call.out[0] = y.impl().data;
  run_matrices(run, call, batch_shape(x.shape()));
  return y;
}

// c = det(x) x⁻ᵀ: dc = (tr(cᵀ dx) c − c dxᵀ c) / det(x), which has no value for a singular x.
Gradients cofactor_gradient(const GradientCall& call, const NoAttributes&) {
  const Tensor c = conj(call.result());
  const Tensor& g = call.grad();
  const Tensor along = sum(multiply(g, c), {-2, -1}, true);
  const Tensor change = subtract(multiply(along, c), matmul(matmul(c, matrix_transpose(g)), c));
  return divide(change, conj(det(call.input(0))).unsqueeze(-1).unsqueeze(-1));
}

constexpr auto det_op = define<det_forward, det_gradient>(
    {.name = "det", .inputs = {"x"}, .reads = {input(0)}, .cast = Cast::up, .complex = true});
constexpr auto slogdet_op = define<slogdet_forward, slogdet_gradient>(
    {.name = "slogdet", .inputs = {"x"}, .reads = {input(0)}, .cast = Cast::up, .complex = true});
constexpr auto cofactor_op = define<cofactor_forward, cofactor_gradient>(
    {.name = "cofactor", .inputs = {"x"}, .reads = {input(0) | result()}, .complex = true});

}  // namespace

Tensor det(const Tensor& x) { return dispatch(det_op, {}, x); }

Tensor det_backward(const Tensor& grad_output, const Tensor& x) {
  check_square_matrices("det_backward", "x", x);
  check_grad_output("det_backward", grad_output, batch_shape(x.shape()));
  return multiply(grad_output.unsqueeze(-1).unsqueeze(-1), conj(dispatch(cofactor_op, {}, x)));
}

SlogdetResult slogdet(const Tensor& x) {
  Results results = dispatch(slogdet_op, {}, x);
  return {std::move(results[0]), std::move(results[1])};
}

Tensor slogdet_backward(const Tensor& grad_logabsdet, const Tensor& x) {
  check_square_matrices("slogdet_backward", "x", x);
  check_gradient("slogdet_backward", "grad_logabsdet", grad_logabsdet, batch_shape(x.shape()));
  return of_log_determinant(grad_logabsdet, x);
}

}  // namespace linalg

constinit const ops::OpList ops::linalg_solve_ops =
    ops::listed<linalg::solve_op, linalg::solve_triangular_op, linalg::inv_op, linalg::det_op,
                linalg::slogdet_op, linalg::cofactor_op>;

}  // namespace extensor
