#include "ops/linalg_support.h"

#include "core/check.h"
#include "extensor/elementwise.h"
#include "ops/gradient_eps.h"
#include "ops/launch.h"

namespace extensor::ops {

using backend::MatrixCall;
using detail::message;

void check_matrix_dtype(const char* operation, const char* argument, DType dtype) {
  const DType real = is_complex(dtype) ? real_dtype(dtype) : dtype;
  if (real == DType::float32 || real == DType::float64) return;
  throw DTypeError(message(operation, ": ", argument, " has dtype ", dtype,
                           " (allowed: float32, float64, complex64, complex128)"));
}

void check_matrices(const char* operation, const char* argument, const Tensor& x) {
  check_matrix_dtype(operation, argument, x.dtype());
  if (x.ndim() < 2) {
    throw ShapeError(message(operation, ": ", argument, " is ", x.shape(),
                             ", must be a matrix or a batch of matrices"));
  }
}

void check_square_matrices(const char* operation, const char* argument, const Tensor& x) {
  check_matrices(operation, argument, x);
  if (x.size(-1) != x.size(-2)) {
    throw ShapeError(
        message(operation, ": ", argument, " is ", x.shape(), ", its matrices must be square"));
  }
}

Shape batch_shape(const Shape& matrices) {
  Shape batch = matrices;
  batch.resize(matrices.size() - 2);
  return batch;
}
Shape with_matrices(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}
Shape with_vectors(Shape batch, std::int64_t length) {
  batch.push_back(length);
  return batch;
}

MatrixCall matrix_call(backend::MatrixOp op, const Tensor& x) {
  MatrixCall call{};
  call.op = op;
  call.dtype = x.dtype();
  call.rows = x.size(-2);
  call.columns = x.size(-1);
  call.batch = 1;
  for (std::size_t d = 0; d + 2 < x.shape().size(); ++d) call.batch *= x.shape()[d];
  call.x = detail::dense_data(x);
  return call;
}

void run_matrices(const Run& run, MatrixCall call, const Shape& batch,
                  std::optional<MatrixCheck> check) {
  check_complex_device(run.name(), call.dtype, run.device);
  if (call.batch == 0) return;
  if (!check) return run.kernels().matrices(call);
  const backend::ValueCheck full{.kind = check->kind,
                                 .operation = run.name(),
                                 .argument = check->argument,
                                 .dtype = call.dtype,
                                 .shape = batch};
  const bool now = run.device == cpu_device;
  call.check = now ? backend::immediate_check : backend::check_number(full);
  run.kernels().matrices(call);
  if (!now) return;
  if (const auto found = backend::take_note()) backend::throw_not_allowed(full, *found);
}

Tensor reciprocal_or_zero(const Tensor& x) {
  const EpsScope ieee(0);
  const Tensor is_zero = equal(x, 0);
  return where(is_zero, 0.0, divide(1.0, where(is_zero, 1.0, x)));
}

}  // namespace extensor::ops
