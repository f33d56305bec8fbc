#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/optimizer/kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <cmath>
#include <utility>

#include "backend/cpu/optimizer/kernels.h"
#include "backend/cpu/simd/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using backend::OptimizerCoefficients;
using backend::OptimizerOp;
using backend::OptimizerRow;

// ---- the rows of the table

HWY_INLINE bool take_bit(std::uint32_t& bits) {
  const bool bit = (bits & 1) != 0;
  bits >>= 1;
  return bit;
}

// Row<op>::update changes one vector of a parameter and of all its states; those that the variants
// do not use are zeros.
template <OptimizerOp op>
struct Row;
#define RANGE(...)
#define REQUIRE(...)
#define VARIANT(word, condition) [[maybe_unused]] const bool word = take_bit(variants);
#define STATE(name, when, value) [[maybe_unused]] V& name = *states++;
#define COEFFICIENT(word, value) [[maybe_unused]] const V word = *coefficients++;
#define OPTIMIZER(name, Class, Options, State, steps, declarations, ...)                         \
  template <>                                                                                    \
  struct Row<OptimizerOp::name> {                                                                \
    template <class V>                                                                           \
    static HWY_INLINE void update([[maybe_unused]] std::uint32_t variants, V& p, V g, V* states, \
                                  const V* coefficients) {                                       \
      declarations __VA_ARGS__;                                                                  \
    }                                                                                            \
  };
#include "extensor/tables/optimizers.def"
#undef RANGE
#undef REQUIRE
#undef VARIANT
#undef STATE
#undef COEFFICIENT

template <class T, OptimizerOp op, std::uint32_t variants>
void step(T* param, const T* grad, T* const* states, std::size_t n,
          const OptimizerCoefficients& c) {
  constexpr OptimizerRow row = backend::optimizer_row<op>(variants);
  constexpr auto uses = [](int k) { return (row.used_states >> k & 1) != 0; };
  using V = Lanes<T>;
  const hn::ScalableTag<T> d;
  const V sign(c.maximize ? -1 : 1);
  V coefficients[row.coefficients];
  for (int k = 0; k < row.coefficients; ++k) coefficients[k] = V(c.values[k]);
  T* own[row.states + 1];  // local copies, which no store can change
  for (int k = 0; k < row.states; ++k) own[k] = states[k];
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    V p = hn::LoadU(d, param + i);
    const V g = V(hn::LoadU(d, grad + i)) * sign;
    V state[row.states + 1];
    for (int k = 0; k < row.states; ++k) state[k] = uses(k) ? V(hn::LoadU(d, own[k] + i)) : V(0);
    Row<op>::update(variants, p, g, state, coefficients);
    hn::StoreU(p.v, d, param + i);
    for (int k = 0; k < row.states; ++k) {
      if (uses(k)) hn::StoreU(state[k].v, d, own[k] + i);
    }
  }
}

template <class T, OptimizerOp op, std::uint32_t... variants>
void fill_steps(StepKernel<T>* steps, std::integer_sequence<std::uint32_t, variants...>) {
  static_assert(sizeof...(variants) <= max_optimizer_variants);
  ((steps[variants] = &step<T, op, variants>), ...);
}

// ---- moving averages

template <class T>
void average(T*, const T* x, T* const* states, std::size_t n, const OptimizerCoefficients& c) {
  const hn::ScalableTag<T> d;
  const Lanes<T> rate(c.values[0]);
  T* averages = states[0];
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const Lanes<T> before = hn::LoadU(d, averages + i), now = hn::LoadU(d, x + i);
    hn::StoreU(multiply_add(now - before, rate, before).v, d, averages + i);
  }
}

// ---- multiplication by a number

template <class T>
void scale(T* param, const T* x, T* const*, std::size_t n, const OptimizerCoefficients& c) {
  const hn::ScalableTag<T> d;
  const Lanes<T> factor(c.values[0]);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU((Lanes<T>(hn::LoadU(d, x + i)) * factor).v, d, param + i);
  }
}

// ---- the size of a gradient

// Sums in double, in which no square of a float overflows, with eight chains combined in pairs.
template <class T, class Term>
HWY_INLINE double sum_in_double(const T* x, std::size_t n, const Term& term) {
  double chains[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t k = 0; k < 8; ++k) chains[k] += term(static_cast<double>(x[i + k]));
  }
  for (std::size_t k = 0; i < n; ++i, ++k) chains[k] += term(static_cast<double>(x[i]));
  for (std::size_t width = 4; width >= 1; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) chains[k] += chains[k + width];
  }
  return chains[0];
}
struct Magnitude {
  HWY_INLINE double operator()(double x) const { return std::fabs(x); }
};
struct Square {
  HWY_INLINE double operator()(double x) const { return x * x; }
};
template <class T>
double sum_of_magnitudes(const T* x, std::size_t n) {
  return sum_in_double(x, n, Magnitude());
}
template <class T>
double sum_of_squares(const T* x, std::size_t n) {
  return sum_in_double(x, n, Square());
}
template <class T>
double largest_magnitude(const T* x, std::size_t n) {
  T largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const T magnitude = std::fabs(x[i]);
    largest = magnitude > largest || magnitude != magnitude ? magnitude : largest;
    if (largest != largest) break;
  }
  return static_cast<double>(largest);
}

template <class T>
void fill_optimizer_kernels(OptimizerKernels<T>* kernels) {
  *kernels = {hn::Lanes(hn::ScalableTag<T>()),
              {},
              &sum_of_magnitudes<T>,
              &sum_of_squares<T>,
              &largest_magnitude<T>};
#define OPTIMIZER(name, ...)                               \
  fill_steps<T, OptimizerOp::name>(                        \
      kernels->steps[static_cast<int>(OptimizerOp::name)], \
      std::make_integer_sequence<std::uint32_t,            \
                                 1u << backend::optimizer_row<OptimizerOp::name>(0).variants>());
#include "extensor/tables/optimizers.def"
  kernels->steps[static_cast<int>(OptimizerOp::average)][0] = &average<T>;
  kernels->steps[static_cast<int>(OptimizerOp::scale)][0] = &scale<T>;
}
template void fill_optimizer_kernels(OptimizerKernels<float>*);
template void fill_optimizer_kernels(OptimizerKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const OptimizerKernels<T>& optimizer_kernels() {
  static const OptimizerKernels<T> kernels = [] {
    OptimizerKernels<T> filled;
    EXTENSOR_DISPATCH(fill_optimizer_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const OptimizerKernels<float>& optimizer_kernels();
template const OptimizerKernels<double>& optimizer_kernels();

}  // namespace extensor::cpu
#endif
