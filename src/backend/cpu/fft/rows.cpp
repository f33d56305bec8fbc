#include "backend/cpu/fft/rows.h"

#include <algorithm>
#include <cstring>

#include "core/parallel.h"

namespace extensor::cpu {

template <class T>
void transform_columns(const FftPlan<T>& plan, const T* in, std::size_t in_stride, T* out,
                       std::size_t out_stride, std::size_t width, T sign, T scale, T* work) {
  const FftKernels<T>& kernels = fft_kernels<T>();
  if (plan.n == 1) {
    for (std::size_t i = 0; i < 2 * width; ++i) out[i] = in[i] * scale;
    return;
  }
  T* const buffers[2] = {work, work + 2 * plan.n * width};
  std::size_t length = plan.n, columns = width, stride = in_stride;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const auto& step = plan.steps[i];
    const std::size_t groups = length / step.radix;
    FftPass<T> pass = {.in = in,
                       .out = buffers[i % 2],
                       .radix = step.radix,
                       .groups = groups,
                       .columns = columns,
                       .in_group = stride,
                       .in_leg = groups * stride,
                       .out_group = step.radix * columns,
                       .out_leg = columns,
                       .twiddles = plan.twiddles.data() + 2 * step.twiddles,
                       .scale = scale,
                       .sign = sign,
                       .roots = plan.twiddles.data() + 2 * step.roots};
    if (groups == 1) {
      pass.out = out;
      pass.twiddles = nullptr;
      if (out_stride != width) {
        pass.groups = columns / width;
        pass.columns = width;
        pass.in_group = width;
        pass.out_group = out_stride;
        pass.out_leg = pass.groups * out_stride;
      }
      return kernels.pass(pass);
    }
    bool done = false;
    if (i == 0 && width == 1 && in_stride == 1 && !plan.row_twiddles.empty()) {
      FftPass<T> row = pass;
      row.twiddles = plan.row_twiddles.data();
      done = kernels.row_pass(row);
    }
    if (!done) kernels.pass(pass);
    in = pass.out;
    length = groups;
    columns *= step.radix;
    stride = columns;
  }
}
template void transform_columns(const FftPlan<float>&, const float*, std::size_t, float*,
                                std::size_t, std::size_t, float, float, float*);
template void transform_columns(const FftPlan<double>&, const double*, std::size_t, double*,
                                std::size_t, std::size_t, double, double, double*);

namespace {

// root(n)^(row * first) for all rows.
template <class T>
void base_factors(const FftPlan<T>& plan, std::size_t first, T* base) {
  std::size_t power = 0;
  for (std::size_t row = 0; row < plan.column_plan->n; ++row) {
    const double* coarse = plan.coarse.data() + 2 * (power / plan.fine_count);
    const double* fine = plan.fine.data() + 2 * (power % plan.fine_count);
    base[2 * row] = static_cast<T>(coarse[0] * fine[0] - coarse[1] * fine[1]);
    base[2 * row + 1] = static_cast<T>(coarse[0] * fine[1] + coarse[1] * fine[0]);
    power += first;  // below n: row and column numbers are below those of the matrix
  }
}

// As a matrix of rows * columns: the columns, which the product with the factors transposes, and
// then the rows, which have become columns. Both read and write whole lines of the cache.
template <class T>
void transform_split(const FftPlan<T>& plan, const T* in, T* out, T sign, T scale) {
  const FftKernels<T>& kernels = fft_kernels<T>();
  const std::size_t rows = plan.column_plan->n, columns = plan.row_plan->n, block = plan.block;
  const FftWorkspace<T> middle(plan.n);
  const auto blocks = [block](std::size_t count) {
    return static_cast<std::int64_t>((count + block - 1) / block);
  };
  detail::parallel_for(blocks(columns), 1, [&](std::int64_t begin, std::int64_t end) {
    const FftWorkspace<T> work(3 * rows * block + rows);
    T* const transformed = work.data() + 4 * rows * block;
    T* const base = transformed + 2 * rows * block;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::size_t first = static_cast<std::size_t>(i) * block;
      const std::size_t width = std::min(block, columns - first);
      transform_columns(*plan.column_plan, in + 2 * first, columns, transformed, width, width, sign,
                        T(1), work.data());
      base_factors(plan, first, base);
      kernels.twist(transformed, rows, width, base, plan.block_factors.data(), block, sign,
                    middle.data() + 2 * first * rows, rows);
    }
  });
  detail::parallel_for(blocks(rows), 1, [&](std::int64_t begin, std::int64_t end) {
    const FftWorkspace<T> work(2 * columns * block);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::size_t first = static_cast<std::size_t>(i) * block;
      const std::size_t width = std::min(block, rows - first);
      transform_columns(*plan.row_plan, middle.data() + 2 * first, rows, out + 2 * first, rows,
                        width, sign, scale, work.data());
    }
  });
}

// jk = (j² + k² - (k - j)²) / 2 makes the transform a convolution with a chirp, whose length is
// free.
template <class T>
void transform_by_convolution(const FftPlan<T>& plan, const T* in, T* out, T sign, T scale) {
  const FftKernels<T>& kernels = fft_kernels<T>();
  const std::size_t n = plan.n, length = plan.long_plan->n;
  const bool conjugate = sign < 0;
  const FftWorkspace<T> work(length);
  T* const x = work.data();
  kernels.multiply(in, plan.chirp.data(), conjugate, x, n);
  std::memset(x + 2 * n, 0, 2 * sizeof(T) * (length - n));
  // The chirp of the convolution is the conjugate of that of the numbers. It is symmetric, so the
  // transform of its conjugate is the conjugate of its transform.
  transform_row(*plan.long_plan, x, x, T(-1), T(1));
  kernels.multiply(x, plan.spectrum.data(), !conjugate, x, length);
  transform_row(*plan.long_plan, x, x, T(1), scale);
  kernels.multiply(x, plan.chirp.data(), conjugate, out, n);
}

}  // namespace

template <class T>
void transform_row(const FftPlan<T>& plan, const T* in, T* out, T sign, T scale) {
  using Method = typename FftPlan<T>::Method;
  if (plan.method == Method::split) return transform_split(plan, in, out, sign, scale);
  if (plan.method == Method::bluestein) {
    return transform_by_convolution(plan, in, out, sign, scale);
  }
  const FftWorkspace<T> work(2 * plan.n);
  if (in == out && plan.steps.size() == 1) {
    T* const copy = work.data();
    std::memcpy(copy, in, 2 * sizeof(T) * plan.n);
    in = copy;
  }
  transform_columns(plan, in, 1, out, 1, 1, sign, scale, work.data());
}
template void transform_row(const FftPlan<float>&, const float*, float*, float, float);
template void transform_row(const FftPlan<double>&, const double*, double*, double, double);

}  // namespace extensor::cpu
