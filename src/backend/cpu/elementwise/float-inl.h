// Compiles the op tables to SIMD loops over float or double.
#if defined(EXTENSOR_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_FLOAT_INL_H_
#undef EXTENSOR_FLOAT_INL_H_
#else
#define EXTENSOR_FLOAT_INL_H_
#endif

#include <utility>

#include "backend/cpu/elementwise/kernels.h"
#include "backend/cpu/elementwise/logical-inl.h"
#include "backend/cpu/elementwise/power-inl.h"
#include "backend/cpu/simd/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

#define EXTENSOR_WORD HWY_INLINE
#include "backend/row_expressions.h"

// Rounded once, also on targets without the instruction.
EXTENSOR_EXPRESSION(fma_row, EXTENSOR_THREE(a, b, c), , FusedMulAdd(typename V::D(), a.v, b.v, c.v))
#undef EXTENSOR_WORD

template <template <class> class Row, class T, std::size_t... Input>
HWY_INLINE void run_loop(const void* const* inputs, const std::size_t* steps, void* out,
                         std::size_t n, const Parameter* parameters,
                         std::index_sequence<Input...>) {
  const hn::ScalableTag<T> d;
  // Local copies that no store can alias, so that values derived from them stay in registers.
  const Parameter own[] = {parameters[0], parameters[1]};
  const T* pointers[] = {static_cast<const T*>(inputs[Input])...};
  const std::size_t strides[] = {steps[Input] * hn::Lanes(d)...};
  T* result = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const Lanes<T> y = Row<Lanes<T>>::apply(own, hn::LoadU(d, pointers[Input])...);
    hn::StoreU(y.v, d, result + i);
    ((pointers[Input] += strides[Input]), ...);
  }
}

template <template <class> class Row, class T, std::size_t input_count>
void loop(const void* const* inputs, const std::size_t* steps, void* out, std::size_t n,
          const Parameter* parameters) {
  run_loop<Row, T>(inputs, steps, out, n, parameters, std::make_index_sequence<input_count>());
}

// Powers of one exponent, if it is a simple one.
template <class T>
void power_loop(const void* const* inputs, const std::size_t* steps, void* out, std::size_t n,
                const Parameter* parameters) {
  const auto simple =
      steps[1] == 0 ? simple_power_of(*static_cast<const T*>(inputs[1])) : SimplePower::none;
  if (simple == SimplePower::none) return loop<power_row, T, 2>(inputs, steps, out, n, parameters);
  const hn::ScalableTag<T> d;
  const T* x = static_cast<const T*>(inputs[0]);
  T* result = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(PowSimple(d, hn::LoadU(d, x), simple), d, result + i);
    x += steps[0] * hn::Lanes(d);
  }
}

// The gradient of the base, likewise: power_gradient_base of row_words.h.
template <class T>
void power_gradient_loop(const void* const* inputs, const std::size_t* steps, void* out,
                         std::size_t n, const Parameter* parameters) {
  const T exponent = steps[2] == 0 ? *static_cast<const T*>(inputs[2]) : T(0);
  const auto simple = steps[2] == 0 ? simple_power_of(exponent - 1) : SimplePower::none;
  if (simple == SimplePower::none) {
    return loop<power_gradient_a_row, T, 3>(inputs, steps, out, n, parameters);
  }
  const hn::ScalableTag<T> d;
  const Safe<Lanes<T>> safe{exponent < 1 ? Lanes<T>(parameters[0].real) : Lanes<T>(0)};
  const Lanes<T> factor(exponent);
  const T *g = static_cast<const T*>(inputs[0]), *x = static_cast<const T*>(inputs[1]);
  T* result = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const Lanes<T> base = safe(hn::LoadU(d, x)), power = PowSimple(d, base.v, simple);
    hn::StoreU((Lanes<T>(hn::LoadU(d, g)) * (factor * power)).v, d, result + i);
    g += steps[0] * hn::Lanes(d);
    x += steps[1] * hn::Lanes(d);
  }
}

template <class T>
ElementwiseTable make_float_table() {
  ElementwiseTable table{hn::Lanes(hn::ScalableTag<T>()), {}};
  const auto set = [&table](ElementwiseOp op, ElementwiseLoop loop) {
    table.loops[static_cast<int>(op)] = loop;
  };
#define UNARY(name, ...)                             \
  set(ElementwiseOp::name, &loop<name##_row, T, 1>); \
  set(ElementwiseOp::name##_backward, &loop<name##_backward_row, T, 2>);
#include "extensor/tables/unary.def"
#define BINARY(name, ...)                                                    \
  set(ElementwiseOp::name, &loop<name##_row, T, 2>);                         \
  set(ElementwiseOp::name##_gradient_a, &loop<name##_gradient_a_row, T, 3>); \
  set(ElementwiseOp::name##_gradient_b, &loop<name##_gradient_b_row, T, 3>);
#include "extensor/tables/binary.def"
  set(ElementwiseOp::power, &power_loop<T>);
  set(ElementwiseOp::power_gradient_a, &power_gradient_loop<T>);
  set(ElementwiseOp::fma, &loop<fma_row, T, 3>);
  add_logical_loops<T>(table);
  return table;
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_FLOAT_INL_H_
