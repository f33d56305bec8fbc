// Factorizations: Cholesky, QR, eigenvalues, singular values, and the pseudo-inverse.
#include <limits>

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

// Scales the columns, or the rows, of matrices by the elements of vectors.
Tensor scaled_columns(const Tensor& matrices, const Tensor& by) {
  return multiply(matrices, by.unsqueeze(-2));
}
Tensor scaled_rows(const Tensor& matrices, const Tensor& by) {
  return multiply(matrices, by.unsqueeze(-1));
}
// a + b, where an undefined tensor stands for 0.
Tensor sum_of(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : add(a, b);
}
Tensor hermitian_part(const Tensor& x) { return multiply(add(x, adjoint(x)), 0.5); }

void check_optional_gradient(const char* operation, const char* argument, const Tensor& gradient,
                             const Shape& shape) {
  if (!gradient.defined()) return;
  check_has_gradient(operation, argument, gradient);
  check_shape(operation, argument, gradient, shape);
}
// The gradient of eigenvalues or singular values, which are real.
void check_values_gradient(const char* operation, const char* argument, const Tensor& gradient,
                           const Shape& shape) {
  if (gradient.defined()) check_gradient(operation, argument, gradient, shape);
}
// The upper triangle with half of the diagonal: a Hermitian matrix is the sum of it and its
// adjoint.
Tensor upper_half(const Tensor& x) { return multiply(add(triu(x), triu(x, 1)), 0.5); }

// Complex eigenvectors and singular vectors can be multiplied by numbers of length 1, so a function
// that depends on these numbers has no gradient. vᴴ g is real on the diagonal unless it does, up to
// rounding errors of the size of the gradients, either of which may be undefined.
void check_phases(const char* operation, const Tensor& along, const Tensor& gradient,
                  const Tensor& other_gradient = {}) {
  if (!along.defined() || !is_complex(along)) return;
  const Tensor dependence = abs(imag(diagonal(along.detach())));
  Tensor size = zeros({}, {.dtype = dependence.dtype(), .device = dependence.device()});
  for (const Tensor& g : {gradient, other_gradient}) {
    if (g.defined()) size = add(size, norm(g.detach(), 2, {-2, -1}).unsqueeze(-1));
  }
  if (!any(greater(dependence, multiply(size, 1e-3))).item<bool>()) return;
  throw ValueError(message(operation,
                           ": the result depends on the phases of complex vectors, which "
                           "the factorization leaves open (largest derivative: ",
                           max_reduce(dependence).item<double>(),
                           "; use a function of the vectors that does not, such as abs)"));
}

// ---- Cholesky

struct CholeskyAttributes {
  bool upper;
};

Tensor cholesky_forward(const Run& run, const CholeskyAttributes& attributes, const Tensor& x) {
  check_square_matrices(run.name(), "x", x);
  Tensor y = run.empty(x.shape(), x.dtype());
  const Tensor dense = x.contiguous();
  MatrixCall call = matrix_call(MatrixOp::cholesky, dense);
  call.out[0] = y.impl().data;
  call.upper = attributes.upper;
  run_matrices(run, call, batch_shape(x.shape()),
               MatrixCheck{.kind = backend::ValueCheck::Kind::positive});
  return y;
}

Gradients cholesky_gradient(const GradientCall& call, const CholeskyAttributes& attributes) {
  return cholesky_backward(call.grad(), call.result(), attributes.upper);
}

constexpr auto cholesky_op = define<cholesky_forward, cholesky_gradient>(
    {.name = "cholesky", .inputs = {"x"}, .reads = {result()}, .cast = Cast::up, .complex = true});

}  // namespace

Tensor cholesky(const Tensor& x, StrictBool upper) { return dispatch(cholesky_op, {upper}, x); }

// dx = dL Lᴴ + L dLᴴ gives dL = L Φ(L⁻¹ dx L⁻ᴴ), where Φ takes the lower triangle with half of the
// diagonal. The gradient is the Hermitian part of L⁻ᴴ Φ(Lᴴ g) L⁻¹.
Tensor cholesky_backward(const Tensor& grad_output, const Tensor& y, StrictBool upper) {
  check_square_matrices("cholesky_backward", "y", y);
  check_grad_output("cholesky_backward", grad_output, y.shape());
  const Tensor factor = upper ? adjoint(y) : y;
  const Tensor g = tril(upper ? adjoint(grad_output) : grad_output);
  const Tensor product = matmul(adjoint(factor), g);
  const Tensor phi = adjoint(upper_half(adjoint(product)));
  const Tensor left = solve_triangular(adjoint(factor), hermitian_part(phi), true);
  return adjoint(solve_triangular(adjoint(factor), adjoint(left), true));
}

// ---- QR

namespace {

struct QrAttributes {
  bool complete;
};

Results qr_forward(const Run& run, const QrAttributes& attributes, const Tensor& x) {
  check_matrices(run.name(), "x", x);
  const Shape batch = batch_shape(x.shape());
  const std::int64_t m = x.size(-2), n = x.size(-1);
  const std::int64_t width = attributes.complete ? m : std::min(m, n);
  Results results{run.empty(with_matrices(batch, m, width), x.dtype()),
                  run.empty(with_matrices(batch, width, n), x.dtype())};
  const Tensor dense = x.contiguous();
  MatrixCall call = matrix_call(MatrixOp::qr, dense);
  call.out[0] = results[0].impl().data;
  call.out[1] = results[1].impl().data;
  call.full = attributes.complete;
  run_matrices(run, call, batch);
  return results;
}

Gradients qr_gradient(const GradientCall& call, const QrAttributes&) {
  return qr_backward(call.grad(0), call.grad(1), call.result(0), call.result(1));
}

constexpr auto qr_op = define<qr_forward, qr_gradient>({.name = "qr",
                                                        .inputs = {"x"},
                                                        .reads = {result(0) | result(1)},
                                                        .cast = Cast::up,
                                                        .complex = true});

// For x = q·r with a square r, whose diagonal is real: with m the upper triangle of gr rᴴ − qᴴ gq
// and half of its diagonal, the gradient is (gq + q (m + mᴴ)) r⁻ᴴ.
Tensor square_qr_backward(const Tensor& grad_q, const Tensor& grad_r, const Tensor& q,
                          const Tensor& r) {
  Tensor inner;
  if (grad_r.defined()) inner = matmul(grad_r, adjoint(r));
  if (grad_q.defined()) inner = sum_of(inner, negative(matmul(adjoint(q), grad_q)));
  const Tensor half = upper_half(inner);
  const Tensor outer = sum_of(grad_q, matmul(q, add(half, adjoint(half))));
  return adjoint(solve_triangular(r, adjoint(outer), true));
}

}  // namespace

QrResult qr(const Tensor& x, QrMode mode) {
  Results results = dispatch(qr_op, {mode == QrMode::complete}, x);
  return {std::move(results[0]), std::move(results[1])};
}

// A wide matrix is [x, y] = q·[u, v] with a square x = q·u: v = qᴴ y passes its gradient on to y
// and to q.
Tensor qr_backward(const Tensor& grad_q, const Tensor& grad_r, const Tensor& q, const Tensor& r) {
  constexpr const char* operation = "qr_backward";
  check_matrices(operation, "q", q);
  check_matrices(operation, "r", r);
  check_optional_gradient(operation, "grad_q", grad_q, q.shape());
  check_optional_gradient(operation, "grad_r", grad_r, r.shape());
  const std::int64_t m = q.size(-2), k = q.size(-1), n = r.size(-1);
  if (k > n) {
    throw ValueError(message(operation, ": the complete factors of matrices [", m, ", ", n,
                             "] have no gradient (use the reduced ones)"));
  }
  if (!grad_q.defined() && !grad_r.defined()) return zeros_like(matmul(q, r));
  if (k == n) return square_qr_backward(grad_q, grad_r, q, r);
  const Tensor u = r.slice(-1, 0, k), v = r.slice(-1, k, n);
  if (!grad_r.defined()) {
    const Tensor grad_x = square_qr_backward(grad_q, {}, q, u);
    return concatenate({grad_x, zeros_like(matmul(q, v))}, -1);
  }
  const Tensor grad_u = grad_r.slice(-1, 0, k), grad_v = grad_r.slice(-1, k, n);
  const Tensor through_q = sum_of(grad_q, matmul(matmul(q, v), adjoint(grad_v)));
  return concatenate({square_qr_backward(through_q, grad_u, q, u), matmul(q, grad_v)}, -1);
}

// ---- eigenvalues

namespace {

template <bool always_vectors>
Results eigh_forward(const Run& run, const NoAttributes&, const Tensor& x) {
  check_square_matrices(run.name(), "x", x);
  const Shape batch = batch_shape(x.shape());
  Results results(2);
  results[0] = run.empty(with_vectors(batch, x.size(-1)), real_type(x));
  const Tensor dense = x.contiguous();
  MatrixCall call = matrix_call(MatrixOp::eigh, dense);
  call.out[0] = results[0].impl().data;
  if (always_vectors || run.recorded) {
    results[1] = run.empty(x.shape(), x.dtype());
    call.out[1] = results[1].impl().data;
  }
  run_matrices(run, call, batch);
  return results;
}

Gradients eigh_gradient(const GradientCall& call, const NoAttributes&) {
  return eigh_backward(call.grad(0), call.grad(1), call.result(0), call.result(1));
}

constexpr auto eigh_op =
    define<eigh_forward<true>, eigh_gradient>({.name = "eigh",
                                               .inputs = {"x"},
                                               .reads = {result(0) | result(1)},
                                               .cast = Cast::up,
                                               .complex = true});
constexpr auto eigvalsh_op =
    define<eigh_forward<false>, eigh_gradient>({.name = "eigvalsh",
                                                .inputs = {"x"},
                                                .reads = {result(0) | result(1)},
                                                .cast = Cast::up,
                                                .complex = true});

}  // namespace

EighResult eigh(const Tensor& x) {
  Results results = dispatch(eigh_op, {}, x);
  return {std::move(results[0]), std::move(results[1])};
}
Tensor eigvalsh(const Tensor& x) { return dispatch(eigvalsh_op, {}, x)[0]; }

// With d = vᴴ dx v: dw is the diagonal of d, and dv = v (f ∘ d), fᵢⱼ = 1 / (wⱼ − wᵢ).
Tensor eigh_backward(const Tensor& grad_eigenvalues, const Tensor& grad_eigenvectors,
                     const Tensor& eigenvalues, const Tensor& eigenvectors) {
  constexpr const char* operation = "eigh_backward";
  const Tensor &w = eigenvalues, &v = eigenvectors;
  check_square_matrices(operation, "eigenvectors", v);
  check_gradient(operation, "eigenvalues", w, with_vectors(batch_shape(v.shape()), v.size(-1)));
  check_values_gradient(operation, "grad_eigenvalues", grad_eigenvalues, w.shape());
  check_optional_gradient(operation, "grad_eigenvectors", grad_eigenvectors, v.shape());
  if (!grad_eigenvalues.defined() && !grad_eigenvectors.defined()) return zeros_like(v);
  Tensor result;
  if (grad_eigenvalues.defined()) {
    result = matmul(scaled_columns(v, grad_eigenvalues), adjoint(v));
  }
  if (grad_eigenvectors.defined()) {
    const Tensor f = reciprocal_or_zero(subtract(w.unsqueeze(-2), w.unsqueeze(-1)));
    const Tensor along = matmul(adjoint(v), grad_eigenvectors);
    check_phases(operation, along, grad_eigenvectors);
    const Tensor inner = multiply(f, along);
    result = sum_of(result, hermitian_part(matmul(matmul(v, inner), adjoint(v))));
  }
  return result;
}

Tensor eigvalsh_backward(const Tensor& grad_output, const Tensor& x) {
  const auto [w, v] = eigh(x);
  check_grad_output("eigvalsh_backward", grad_output, w.shape());
  return eigh_backward(grad_output, {}, w, v);
}

// ---- singular values

namespace {

struct SvdAttributes {
  bool full;
};

template <bool always_vectors>
Results svd_forward(const Run& run, const SvdAttributes& attributes, const Tensor& x) {
  check_matrices(run.name(), "x", x);
  const Shape batch = batch_shape(x.shape());
  const std::int64_t m = x.size(-2), n = x.size(-1), k = std::min(m, n);
  Results results(3);
  results[1] = run.empty(with_vectors(batch, k), real_type(x));
  const Tensor dense = x.contiguous();
  MatrixCall call = matrix_call(MatrixOp::svd, dense);
  call.out[1] = results[1].impl().data;
  call.full = attributes.full;
  if (always_vectors || run.recorded) {
    results[0] = run.empty(with_matrices(batch, m, attributes.full ? m : k), x.dtype());
    results[2] = run.empty(with_matrices(batch, attributes.full ? n : k, n), x.dtype());
    call.out[0] = results[0].impl().data;
    call.out[2] = results[2].impl().data;
  }
  run_matrices(run, call, batch);
  return results;
}

Gradients svd_gradient(const GradientCall& call, const SvdAttributes&) {
  return svd_backward(call.grad(0), call.grad(1), call.grad(2), call.result(0), call.result(1),
                      call.result(2));
}

constexpr Reads all_factors = result(0) | result(1) | result(2);
constexpr auto svd_op = define<svd_forward<true>, svd_gradient>(
    {.name = "svd", .inputs = {"x"}, .reads = {all_factors}, .cast = Cast::up, .complex = true});
constexpr auto svdvals_op = define<svd_forward<false>, svd_gradient>({.name = "svdvals",
                                                                      .inputs = {"x"},
                                                                      .reads = {all_factors},
                                                                      .cast = Cast::up,
                                                                      .complex = true});

Tensor antihermitian(const Tensor& x) { return subtract(x, adjoint(x)); }

}  // namespace

SvdResult svd(const Tensor& x, StrictBool full_matrices) {
  Results results = dispatch(svd_op, {full_matrices}, x);
  return {std::move(results[0]), std::move(results[1]), std::move(results[2])};
}
Tensor svdvals(const Tensor& x) { return dispatch(svdvals_op, {false}, x)[1]; }

// With d = uᴴ dx v and fᵢⱼ = 1 / (sⱼ² − sᵢ²): ds is the real diagonal of d, du = u (f ∘ (d s + s
// dᴴ)) and dv = v (f ∘ (s d + dᴴ s)); what d lacks of dx adds the parts outside u and v, divided by
// s.
Tensor svd_backward(const Tensor& grad_u, const Tensor& grad_s, const Tensor& grad_vh,
                    const Tensor& u, const Tensor& s, const Tensor& vh) {
  constexpr const char* operation = "svd_backward";
  check_matrices(operation, "u", u);
  check_matrices(operation, "vh", vh);
  check_optional_gradient(operation, "grad_u", grad_u, u.shape());
  check_values_gradient(operation, "grad_s", grad_s, s.shape());
  check_optional_gradient(operation, "grad_vh", grad_vh, vh.shape());
  const std::int64_t m = u.size(-2), n = vh.size(-1), k = s.size(-1);
  const Tensor left = u.slice(-1, 0, k), right = vh.slice(-2, 0, k);
  const Tensor gu = grad_u.defined() ? grad_u.slice(-1, 0, k) : grad_u;
  const Tensor gv = grad_vh.defined() ? grad_vh.slice(-2, 0, k) : grad_vh;
  Tensor result;
  if (grad_s.defined()) result = matmul(scaled_columns(left, grad_s), right);
  if (!gu.defined() && !gv.defined()) {
    return result.defined() ? result : zeros_like(matmul(left, right));
  }
  const Tensor row = s.unsqueeze(-2), column = s.unsqueeze(-1);
  const Tensor f = reciprocal_or_zero(multiply(subtract(row, column), add(row, column)));
  const Tensor along_u = gu.defined() ? matmul(adjoint(left), gu) : gu;
  const Tensor along_v = gv.defined() ? matmul(right, adjoint(gv)) : gv;
  check_phases(operation, sum_of(along_u, along_v), gu, gv);
  Tensor inner;
  if (gu.defined()) inner = scaled_columns(multiply(antihermitian(along_u), f), s);
  if (gv.defined()) {
    inner = sum_of(inner, scaled_rows(multiply(antihermitian(along_v), f), s));
  }
  if (is_complex(left) && gu.defined() && gv.defined()) {
    // The imaginary part of the diagonal of d, divided by s, turns u against v.
    const Tensor turns = multiply(imag(diagonal(along_u)), reciprocal_or_zero(s));
    const Tensor identity = eye(k, {}, 0, {.dtype = s.dtype(), .device = s.device()});
    inner = add(inner, multiply(complex(zeros_like(turns), turns).unsqueeze(-1), identity));
  }
  result = sum_of(result, matmul(matmul(left, inner), right));
  if (gu.defined() && m > k) {
    const Tensor outside = subtract(gu, matmul(left, matmul(adjoint(left), gu)));
    result = add(result, matmul(scaled_columns(outside, reciprocal_or_zero(s)), right));
  }
  if (gv.defined() && n > k) {
    const Tensor outside = subtract(gv, matmul(matmul(gv, adjoint(right)), right));
    result = add(result, matmul(left, scaled_rows(outside, reciprocal_or_zero(s))));
  }
  return result;
}

Tensor svdvals_backward(const Tensor& grad_output, const Tensor& x) {
  const auto [u, s, vh] = svd(x, false);
  check_grad_output("svdvals_backward", grad_output, s.shape());
  return svd_backward({}, grad_output, {}, u, s, vh);
}

// ---- pseudo-inverse and rank

namespace {

double default_rtol(const Tensor& x) {
  const bool single = real_type(x) == DType::float32;
  const double epsilon =
      single ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  return epsilon * static_cast<double>(std::max(x.size(-2), x.size(-1)));
}

// True for the singular values above rtol times the largest. rtol may be undefined.
Tensor counted(const char* operation, const Tensor& x, const Tensor& s,
               std::optional<double> number, const Tensor& rtol) {
  const Tensor largest = s.slice(-1, 0, 1);
  if (!rtol.defined()) return greater(s, multiply(largest, number.value_or(default_rtol(x))));
  if (!are_shapes_broadcastable(rtol.shape(), batch_shape(x.shape()))) {
    throw ShapeError(message(operation, ": rtol is ", rtol.shape(), " and x is ", x.shape(),
                             ", rtol must broadcast with the batch"));
  }
  return greater(s, multiply(largest, rtol.to(s.dtype()).unsqueeze(-1)));
}

struct PinvAttributes {
  std::optional<double> rtol;
};

Tensor pinv_forward(const Run& run, const PinvAttributes& attributes, const Tensor& x,
                    const Tensor& rtol) {
  check_matrices(run.name(), "x", x);
  if (x.numel() == 0) {
    return run.empty(with_matrices(batch_shape(x.shape()), x.size(-1), x.size(-2)), x.dtype());
  }
  const auto [u, s, vh] = svd(x, false);
  const Tensor inverse =
      where(counted(run.name(), x, s, attributes.rtol, rtol), divide(1.0, s), 0.0);
  return matmul(scaled_columns(adjoint(vh), inverse), adjoint(u));
}

Gradients pinv_gradient(const GradientCall& call, const PinvAttributes&) {
  return {pinv_backward(call.grad(), call.input(0), call.result()), Tensor()};
}

constexpr auto pinv_op =
    define<pinv_forward, pinv_gradient>({.name = "pinv",
                                         .inputs = {"x", "rtol"},
                                         .reads = {input(0) | result(), no_gradient},
                                         .cast = Cast::up,
                                         .complex = true,
                                         .optional = 0b10});

Tensor rank_of(const Tensor& x, std::optional<double> number, const Tensor& rtol) {
  check_matrices("matrix_rank", "x", x);
  const Tensor s = svdvals(x.detach());
  if (x.size(-1) == 0 || x.size(-2) == 0) {
    return zeros(batch_shape(x.shape()), {.dtype = DType::int64, .device = x.device()});
  }
  return sum(counted("matrix_rank", x, s, number, rtol), -1);
}

std::optional<double> as_double(const std::optional<StrictDouble>& x) {
  return x ? std::optional<double>(*x) : std::nullopt;
}

}  // namespace

Tensor pinv(const Tensor& x, std::optional<StrictDouble> rtol) {
  return dispatch(pinv_op, {as_double(rtol)}, x, Tensor());
}
Tensor pinv(const Tensor& x, const Tensor& rtol) { return dispatch(pinv_op, {}, x, rtol); }

// dy = −y dx y + y yᴴ dxᴴ (1 − x y) + (1 − y x) dxᴴ yᴴ y.
Tensor pinv_backward(const Tensor& grad_output, const Tensor& x, const Tensor& y) {
  constexpr const char* operation = "pinv_backward";
  check_matrices(operation, "x", x);
  check_matrices(operation, "y", y);
  check_grad_output(operation, grad_output, y.shape());
  const Tensor g = adjoint(grad_output), t = adjoint(y);
  const Tensor inside = matmul(matmul(t, grad_output), t);
  const Tensor rows = matmul(matmul(g, y), t), columns = matmul(matmul(t, y), g);
  const Tensor outside_rows = subtract(rows, matmul(matmul(x, y), rows));
  const Tensor outside_columns = subtract(columns, matmul(columns, matmul(y, x)));
  return subtract(add(outside_rows, outside_columns), inside);
}

Tensor matrix_rank(const Tensor& x, std::optional<StrictDouble> rtol) {
  return rank_of(x, as_double(rtol), {});
}
Tensor matrix_rank(const Tensor& x, const Tensor& rtol) { return rank_of(x, {}, rtol); }

}  // namespace linalg

constinit const ops::OpList ops::linalg_factor_ops =
    ops::listed<linalg::cholesky_op, linalg::qr_op, linalg::eigh_op, linalg::eigvalsh_op,
                linalg::svd_op, linalg::svdvals_op, linalg::pinv_op>;

}  // namespace extensor
