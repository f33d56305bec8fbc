// Products with one row or one column, and narrow ones along k: bound by memory, without packing.
#include <algorithm>
#include <cstdint>

#include "backend/cpu/gemm/parallel.h"
#include "backend/cpu/gemm/routes.h"

namespace extensor::cpu {
namespace {

// Multiply-adds below which a second thread does not pay.
constexpr double kSmallWork = 32.0 * 1024;

// Outputs are computed this many at a time, in a buffer on the stack.
constexpr std::int64_t kChunk = 1024;

// A few long sums are split along k, so that all threads get work and errors stay small.
constexpr std::int64_t kFewOutputs = 32;
constexpr std::int64_t kShortestPiece = 16384;
constexpr std::int64_t kMostPieces = 64;

// y = matrix · x, seen from either orientation of the product.
template <class Element>
struct MatrixVector {
  std::int64_t rows, k;
  const Element* matrix;
  std::int64_t row_stride, k_stride;
  const Element* x;                  // contiguous
  const ComputeOf<Element>* x_wide;  // the same widened, when lanes run along the rows

  void compute(std::int64_t first_row, std::int64_t count, std::int64_t first_k, std::int64_t steps,
               ComputeOf<Element>* sums) const {
    const Element* from = matrix + first_row * row_stride + first_k * k_stride;
    if (x_wide != nullptr) {
      kernels<Element>().combine_rows(x_wide + first_k, from, k_stride, steps, count, sums);
    } else {
      kernels<Element>().dot_block(
          {1, count, steps, x + first_k, 0, from, row_stride, sums, count});
    }
  }
};

// Bias and activation of outputs first … first + count - 1, along a row or a column of c.
template <class Element>
void finish_outputs(const Product<Element>& product, std::int64_t first, std::int64_t count,
                    ComputeOf<Element>* sums) {
  Epilogue<Element> part = product.finish;
  if (product.m == 1) {
    part.c += first;
    if (part.bias != nullptr) part.bias += first;
    kernels<Element>().finish(part, sums, count, 1, count);
    return;
  }
  if (part.bias != nullptr) {
    const auto bias = static_cast<ComputeOf<Element>>(*part.bias);
    for (std::int64_t i = 0; i < count; ++i) sums[i] += bias;
    part.bias = nullptr;
  }
  Element* c = product.finish.c + first * product.finish.c_row_stride;
  if (product.finish.c_row_stride == 1) {
    part.c = c;
    kernels<Element>().finish(part, sums, count, 1, count);
    return;
  }
  Element column[kChunk];
  part.c = column;
  kernels<Element>().finish(part, sums, count, 1, count);
  for (std::int64_t i = 0; i < count; ++i) c[i * product.finish.c_row_stride] = column[i];
}

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

template <class Element>
bool run_matrix_vector(const Product<Element>& product) {
  using Compute = ComputeOf<Element>;
  MatrixVector<Element> call;
  call.k = product.k;
  std::int64_t x_stride;
  if (product.m == 1) {
    call.rows = product.n;
    call.matrix = product.b;
    call.row_stride = product.b_column_stride;
    call.k_stride = product.b_k_stride;
    call.x = product.a;
    x_stride = product.a_k_stride;
  } else {
    call.rows = product.m;
    call.matrix = product.a;
    call.row_stride = product.a_row_stride;
    call.k_stride = product.a_k_stride;
    call.x = product.b;
    x_stride = product.b_k_stride;
  }
  const bool along_k = call.k_stride == 1;
  if (!along_k && call.row_stride != 1) return false;

  const std::int64_t pieces =
      call.rows <= kFewOutputs ? std::clamp<std::int64_t>(call.k / kShortestPiece, 1, kMostPieces)
                               : 1;
  Compute partial[kMostPieces * kFewOutputs];
  call.x_wide = nullptr;
  const auto size = static_cast<std::size_t>(call.k);
  if (along_k && x_stride != 1) {
    auto* contiguous = reinterpret_cast<Element*>(Workspace::reserve(size * sizeof(Element)));
    for (std::int64_t p = 0; p < call.k; ++p) contiguous[p] = call.x[p * x_stride];
    call.x = contiguous;
  } else if (!along_k) {
    auto* wide = reinterpret_cast<Compute*>(Workspace::reserve(size * sizeof(Compute)));
    for (std::int64_t p = 0; p < call.k; ++p) wide[p] = static_cast<Compute>(call.x[p * x_stride]);
    call.x_wide = wide;
  }

  const int threads =
      gemm_threads(static_cast<double>(call.rows) * static_cast<double>(call.k), kSmallWork);
  if (pieces > 1) {
    run_tasks(threads, pieces, [&](std::int64_t piece) {
      const std::int64_t begin = call.k * piece / pieces;
      const std::int64_t end = call.k * (piece + 1) / pieces;
      call.compute(0, call.rows, begin, end - begin, partial + piece * call.rows);
    });
    for (std::int64_t piece = 1; piece < pieces; ++piece) {
      for (std::int64_t i = 0; i < call.rows; ++i) partial[i] += partial[piece * call.rows + i];
    }
    finish_outputs(product, 0, call.rows, partial);
    return true;
  }
  const std::int64_t chunk =
      std::min(kChunk, round_up((call.rows + threads - 1) / threads, kFewOutputs));
  run_tasks(threads, (call.rows + chunk - 1) / chunk, [&](std::int64_t task) {
    Compute sums[kChunk];
    const std::int64_t first = task * chunk;
    const std::int64_t count = std::min(chunk, call.rows - first);
    call.compute(first, count, 0, call.k, sums);
    finish_outputs(product, first, count, sums);
  });
  return true;
}

template <class Element>
void run_dots(const Product<Element>& product) {
  using Compute = ComputeOf<Element>;
  const int threads = gemm_threads(static_cast<double>(product.m) * static_cast<double>(product.n) *
                                       static_cast<double>(product.k),
                                   kSmallWork);
  // Tasks are bands of whole rows or columns of c, small enough for their sums to fit on the stack.
  const bool by_rows = product.m >= product.n;
  const std::int64_t across = by_rows ? product.n : product.m;
  const std::int64_t along = by_rows ? product.m : product.n;
  const std::int64_t band =
      std::min((along + threads - 1) / threads, std::max<std::int64_t>(1, 4 * kChunk / across));
  run_tasks(threads, (along + band - 1) / band, [&](std::int64_t task) {
    Compute sums[4 * kChunk];
    const std::int64_t first = task * band;
    const std::int64_t count = std::min(band, along - first);
    const std::int64_t i = by_rows ? first : 0;
    const std::int64_t j = by_rows ? 0 : first;
    const std::int64_t rows = by_rows ? count : product.m;
    const std::int64_t columns = by_rows ? product.n : count;
    kernels<Element>().dot_block({rows, columns, product.k, product.a + i * product.a_row_stride,
                                  product.a_row_stride, product.b + j * product.b_column_stride,
                                  product.b_column_stride, sums, columns});
    Epilogue<Element> part = product.finish;
    part.c += i * part.c_row_stride + j;
    if (part.bias != nullptr) part.bias += j;
    kernels<Element>().finish(part, sums, columns, rows, columns);
  });
}

#define EXTENSOR_INSTANTIATE(Element)                       \
  template bool run_matrix_vector(const Product<Element>&); \
  template void run_dots(const Product<Element>&);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
EXTENSOR_INSTANTIATE(Float16)
EXTENSOR_INSTANTIATE(BFloat16)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu
