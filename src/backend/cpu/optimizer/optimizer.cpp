// Passes operands to the optimizer kernels: directly, or halves through small buffers.
#include "backend/cpu/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/convert.h"
#include "backend/cpu/optimizer/kernels.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::max_optimizer_states;
using backend::OptimizerCall;
using backend::OptimizerCoefficients;
using backend::OptimizerItem;
using backend::PowerSumCall;
using backend::PowerSumItem;

constexpr std::int64_t elements_per_thread = 16384;
constexpr std::int64_t buffered = 512;      // elements converted at once
constexpr std::int64_t power_block = 4096;  // elements per partial sum of powers

// The kernel of a call for any number of elements: the last ones use buffers.
template <class T>
class Stepper {
 public:
  explicit Stepper(const OptimizerCall& call)
      : coefficients_(call.coefficients),
        lanes_(optimizer_kernels<T>().lanes),
        kernel_(
            optimizer_kernels<T>().steps[static_cast<int>(call.op)][call.coefficients.variants]) {
    if (call.factor != nullptr) coefficients_.values[0] = *call.factor;
  }

  void operator()(T* param, const T* grad, T* const* states, std::size_t n) const {
    const std::size_t rest = n & (lanes_ - 1), whole = n - rest;
    if (whole != 0) kernel_(param, grad, states, whole, coefficients_);
    if (rest != 0) step_rest(param, grad, states, whole, rest);
  }

 private:
  void step_rest(T* param, const T* grad, T* const* states, std::size_t begin,
                 std::size_t count) const {
    alignas(64) T buffers[2 + max_optimizer_states][64 / sizeof(T)] = {};
    T* const tensors[] = {param, const_cast<T*>(grad), states[0], states[1], states[2]};
    for (int k = 0; k < 2 + max_optimizer_states; ++k) {
      if (tensors[k] != nullptr) std::copy_n(tensors[k] + begin, count, buffers[k]);
    }
    T* const in_buffers[] = {buffers[2], buffers[3], buffers[4]};
    kernel_(buffers[0], buffers[1], in_buffers, lanes_, coefficients_);
    for (int k = 0; k < 2 + max_optimizer_states; ++k) {
      if (tensors[k] != nullptr && k != 1) std::copy_n(buffers[k], count, tensors[k] + begin);
    }
  }
  static_assert(max_optimizer_states == 3);

  OptimizerCoefficients coefficients_;
  std::size_t lanes_;
  StepKernel<T> kernel_;
};

// Calls piece(item, begin, end) on disjoint ranges of items that cover all of them.
template <class Piece>
void for_each_piece(const OptimizerCall& call, const Piece& piece) {
  detail::parallel_for(call.numel, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;  // of the item's elements, among those of all items
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
  const Stepper<T> step(call);
  for_each_piece(call, [&](const OptimizerItem& item, std::int64_t begin, std::int64_t end) {
    T* states[max_optimizer_states];
    for (int k = 0; k < max_optimizer_states; ++k) {
      states[k] =
          item.states[k] == nullptr ? nullptr : reinterpret_cast<T*>(item.states[k]) + begin;
    }
    T* param = item.param == nullptr ? nullptr : reinterpret_cast<T*>(item.param) + begin;
    step(param, reinterpret_cast<const T*>(item.grad) + begin, states,
         static_cast<std::size_t>(end - begin));
  });
}

// Halves are widened, updated in float32, and each result is rounded once.
void step_halves(const OptimizerCall& call) {
  const Stepper<float> step(call);
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
      step(item.param != nullptr ? param : nullptr, grad, states, n);
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
void sum_powers(const PowerSumCall& call, const PowerSumItem& item) {
  const ConvertLoop widen =
      call.dtype == dtype_of<T> ? nullptr : convert_loop(call.dtype, dtype_of<T>);
  const auto size = static_cast<std::int64_t>(itemsize(call.dtype));
  const std::int64_t blocks = (item.numel + power_block - 1) / power_block;
  detail::Scratch<double> partials(static_cast<std::size_t>(blocks));
  detail::parallel_for(
      blocks, elements_per_thread / power_block, [&](std::int64_t begin, std::int64_t end) {
        T buffer[power_block];
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t first = block * power_block;
          const auto n = static_cast<std::size_t>(std::min(power_block, item.numel - first));
          const std::byte* from = item.x + first * size;
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
  *item.out = total;
}

}  // namespace

void optimizer_step(const OptimizerCall& call) {
  if (call.numel == 0) return;
  if (call.condition != nullptr && !std::isfinite(*call.condition)) return;
  if (is_half(call.dtype)) return step_halves(call);
  if (call.dtype == DType::float64) return step_in_place<double>(call);
  step_in_place<float>(call);
}

void power_sum(const PowerSumCall& call) {
  for (std::int64_t k = 0; k < call.item_count; ++k) {
    if (call.dtype == DType::float64) {
      sum_powers<double>(call, call.items[k]);
    } else {
      sum_powers<float>(call, call.items[k]);
    }
  }
}

}  // namespace extensor::cpu
