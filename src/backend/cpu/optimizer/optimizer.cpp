// Feeds the optimizer kernels: memory as it is, or halves through small buffers.
#include "backend/cpu/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/convert.h"
#include "backend/cpu/optimizer/kernels.h"
#include "backend/cpu/parallel.h"

namespace extensor::cpu {

namespace {

using backend::OptimizerCall;
using backend::OptimizerOp;
using backend::PowerSumCall;

constexpr std::int64_t elements_per_thread = 16384;
constexpr std::int64_t buffered = 512;      // elements that are converted at once
constexpr std::int64_t power_block = 4096;  // elements whose powers are one partial sum

template <class T>
StepKernel<T> kernel_of(OptimizerOp op) {
  const OptimizerKernels<T>& kernels = optimizer_kernels<T>();
  switch (op) {
    case OptimizerOp::sgd:
      return kernels.sgd;
    case OptimizerOp::adam:
      return kernels.adam;
    case OptimizerOp::rmsprop:
      return kernels.rmsprop;
    default:
      return kernels.adagrad;
  }
}

template <class T>
void step_in_place(const OptimizerCall& call) {
  const StepKernel<T> kernel = kernel_of<T>(call.op);
  parallel_for(call.numel, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    T* states[3];
    for (int k = 0; k < 3; ++k) {
      states[k] =
          call.states[k] == nullptr ? nullptr : reinterpret_cast<T*>(call.states[k]) + begin;
    }
    kernel(reinterpret_cast<T*>(call.param) + begin, reinterpret_cast<const T*>(call.grad) + begin,
           states, static_cast<std::size_t>(end - begin), call.coefficients);
  });
}

// Halves: widened, stepped in float32, and each result rounded once.
void step_halves(const OptimizerCall& call) {
  const StepKernel<float> kernel = kernel_of<float>(call.op);
  const ConvertLoop widen = convert_loop(call.dtype, DType::float32);
  const ConvertLoop narrow = convert_loop(DType::float32, call.dtype);
  const bool wide_states = call.state_dtype == DType::float32;
  const auto size = static_cast<std::int64_t>(itemsize(call.dtype));
  const auto state_size = static_cast<std::int64_t>(itemsize(call.state_dtype));
  parallel_for(call.numel, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    float param[buffered], grad[buffered], buffers[3][buffered];
    for (std::int64_t i = begin; i < end; i += buffered) {
      const auto n = static_cast<std::size_t>(std::min(buffered, end - i));
      widen(call.param + i * size, param, n);
      widen(call.grad + i * size, grad, n);
      float* states[3] = {};
      for (int k = 0; k < 3; ++k) {
        if (call.states[k] == nullptr) continue;
        std::byte* at = call.states[k] + i * state_size;
        states[k] = wide_states ? reinterpret_cast<float*>(at) : buffers[k];
        if (!wide_states) widen(at, buffers[k], n);
      }
      kernel(param, grad, states, n, call.coefficients);
      narrow(param, call.param + i * size, n);
      for (int k = 0; k < 3 && !wide_states; ++k) {
        if (call.states[k] != nullptr) narrow(buffers[k], call.states[k] + i * state_size, n);
      }
    }
  });
}

template <class T>
double power_of_block(const T* x, std::size_t n, double power) {
  const OptimizerKernels<T>& kernels = optimizer_kernels<T>();
  if (std::isinf(power)) return kernels.largest_magnitude(x, n);
  if (power == 2) return kernels.sum_of_squares(x, n);
  if (power == 1) return kernels.sum_of_magnitudes(x, n);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::pow(std::fabs(static_cast<double>(x[i])), power);
  return sum;
}

template <class T>
void sum_powers(const PowerSumCall& call) {
  const ConvertLoop widen =
      call.dtype == dtype_of<T> ? nullptr : convert_loop(call.dtype, dtype_of<T>);
  const auto size = static_cast<std::int64_t>(itemsize(call.dtype));
  const std::int64_t blocks = (call.numel + power_block - 1) / power_block;
  std::vector<double> partials(static_cast<std::size_t>(blocks));
  parallel_for(
      blocks, elements_per_thread / power_block, [&](std::int64_t begin, std::int64_t end) {
        T buffer[power_block];
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t first = block * power_block;
          const auto n = static_cast<std::size_t>(std::min(power_block, call.numel - first));
          const std::byte* from = call.x + first * size;
          if (widen != nullptr) widen(from, buffer, n);
          partials[static_cast<std::size_t>(block)] = power_of_block(
              widen == nullptr ? reinterpret_cast<const T*>(from) : buffer, n, call.power);
        }
      });
  double total = 0;
  for (double partial : partials) {
    if (!std::isinf(call.power)) {
      total += partial;
    } else if (partial > total || std::isnan(partial)) {
      total = partial;
    }
    if (std::isnan(total)) break;
  }
  *call.out = total;
}

}  // namespace

void optimizer_step(const OptimizerCall& call) {
  if (call.numel == 0) return;
  if (is_half(call.dtype)) return step_halves(call);
  if (call.dtype == DType::float64) return step_in_place<double>(call);
  step_in_place<float>(call);
}

void power_sum(const PowerSumCall& call) {
  if (call.dtype == DType::float64) return sum_powers<double>(call);
  sum_powers<float>(call);
}

}  // namespace extensor::cpu
