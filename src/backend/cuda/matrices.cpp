// Linear algebra of CUDA tensors: the matrices are copied to the host, the CPU's kernels compute
// there, and the results are copied back. The host waits for the device once, for the operands.
#include <algorithm>
#include <vector>

#include "backend/cuda/kernels.h"
#include "backend/cuda/state.h"

namespace extensor::backend::cuda {

namespace {

// The numbers of elements of the results of a call.
struct Sizes {
  std::int64_t out[3];
};
Sizes sizes_of(const MatrixCall& call) {
  const std::int64_t m = call.rows, n = call.columns, k = std::min(m, n);
  switch (call.op) {
    case MatrixOp::qr:
      return {{m * (call.full ? m : k), (call.full ? m : k) * n, 0}};
    case MatrixOp::eigh:
      return {{n, n * n, 0}};
    case MatrixOp::svd:
      return {{m * (call.full ? m : k), k, (call.full ? n : k) * n}};
    case MatrixOp::determinant:
      return {{1, 1, 1}};
    case MatrixOp::solve:
    case MatrixOp::solve_triangular:
      return {{n * call.right, 0, 0}};
    case MatrixOp::cholesky:
    case MatrixOp::inverse:
    case MatrixOp::cofactor:
      break;
  }
  return {{n * n, 0, 0}};
}

}  // namespace

void matrices(const MatrixCall& given) {
  const int index = current().index;
  const Device device{Device::Type::cuda, static_cast<std::int16_t>(index)};
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(given.batch * elements) * itemsize(given.dtype);
  };
  const auto to_host = [&](const std::byte*& operand, std::vector<std::byte>& memory) {
    if (operand == nullptr) return;
    copy({memory.data(), cpu_device, operand, device, memory.size()});
    operand = memory.data();
  };
  std::vector<std::byte> x(bytes(given.rows * given.columns)), b(bytes(given.rows * given.right));
  std::vector<std::byte> results[3];
  MatrixCall call = given;
  to_host(call.x, x);
  to_host(call.b, b);
  const Sizes sizes = sizes_of(call);
  for (int k = 0; k < 3; ++k) {
    if (given.out[k] == nullptr) continue;
    results[k].resize(bytes(sizes.out[k]));
    call.out[k] = results[k].data();
  }
  compute_on_host(call);
  for (int k = 0; k < 3; ++k) {
    if (given.out[k] == nullptr) continue;
    copy({given.out[k], device, results[k].data(), cpu_device, results[k].size()});
  }
}

}  // namespace extensor::backend::cuda
