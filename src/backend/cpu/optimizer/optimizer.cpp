// Feeds the optimizer kernels: memory as it is, or halves through small buffers.
#include "backend/cpu/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/convert.h"
#include "backend/cpu/optimizer/kernels.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::max_optimizer_states;
using backend::OptimizerCall;
using backend::OptimizerItem;
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
    case OptimizerOp::adagrad:
      return kernels.adagrad;
    case OptimizerOp::lion:
      return kernels.lion;
    default:
      return kernels.average;
  }
}

// Calls piece(item, begin, end) on disjoint ranges of items that cover all of them.
template <class Piece>
void for_each_piece(const OptimizerCall& call, const Piece& piece) {
  detail::parallel_for(call.numel, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;  // of the item's elements, among all
    for (std::int64_t k = 0; k < call.item_count && first < end; ++k) {
      const OptimizerItem& item = call.items[k];
      const std::int64_t from = std::max(begin - first, std::int64_t{0});
      const std::int64_t to = std::min(end - first, item.numel);
      if (from < to) piece(item, from, to);
      first += item.numel;
    }
  });
}

template <class T>
void step_in_place(const OptimizerCall& call) {
  const StepKernel<T> kernel = kernel_of<T>(call.op);
  for_each_piece(call, [&](const OptimizerItem& item, std::int64_t begin, std::int64_t end) {
    T* states[max_optimizer_states];
    for (int k = 0; k < max_optimizer_states; ++k) {
      states[k] =
          item.states[k] == nullptr ? nullptr : reinterpret_cast<T*>(item.states[k]) + begin;
    }
    T* param = item.param == nullptr ? nullptr : reinterpret_cast<T*>(item.param) + begin;
    kernel(param, reinterpret_cast<const T*>(item.grad) + begin, states,
           static_cast<std::size_t>(end - begin), call.coefficients);
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
  for_each_piece(call, [&](const OptimizerItem& item, std::int64_t begin, std::int64_t end) {
    float param[buffered], grad[buffered], buffers[max_optimizer_states][buffered];
    for (std::int64_t i = begin; i < end; i += buffered) {
      const auto n = static_cast<std::size_t>(std::min(buffered, end - i));
      if (item.param != nullptr) widen(item.param + i * size, param, n);
      widen(item.grad + i * size, grad, n);
      float* states[max_optimizer_states] = {};
      for (int k = 0; k < max_optimizer_states; ++k) {
        if (item.states[k] == nullptr) continue;
        std::byte* at = item.states[k] + i * state_size;
        states[k] = wide_states ? reinterpret_cast<float*>(at) : buffers[k];
        if (!wide_states) widen(at, buffers[k], n);
      }
      kernel(param, grad, states, n, call.coefficients);
      if (item.param != nullptr) narrow(param, item.param + i * size, n);
      for (int k = 0; k < max_optimizer_states && !wide_states; ++k) {
        if (item.states[k] != nullptr) narrow(buffers[k], item.states[k] + i * state_size, n);
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
  detail::parallel_for(
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
