// The op tables compiled to SIMD loops over float or double.
#if defined(EXTENSOR_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_FLOAT_INL_H_
#undef EXTENSOR_FLOAT_INL_H_
#else
#define EXTENSOR_FLOAT_INL_H_
#endif

#include "backend/cpu/elementwise/kernels.h"
#include "backend/cpu/elementwise/logical-inl.h"
#include "backend/cpu/simd/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// A denominator kept away from zero: d itself, or eps with d's sign (+ at 0) where |d| < eps.
template <class V>
struct Safe {
  V eps;
  HWY_INLINE V operator()(V d) const { return select(abs(d) < eps, select(d < 0, -eps, eps), d); }
};

// A row's two functions as functors over V; what stands before them declares its parameters.
#define EXTENSOR_FUNCTOR(functor, ARGUMENTS, PARAMETERS, expression) \
  template <class V>                                                 \
  struct functor {                                                   \
    HWY_INLINE V operator() ARGUMENTS const { return expression; }   \
    PARAMETERS                                                       \
  };
#define EXTENSOR_PARAMETERS_0(functor) \
  explicit functor(const Parameter*) {}
#define EXTENSOR_PARAMETERS_EPS(functor) \
  Safe<V> safe;                          \
  explicit functor(const Parameter* p) : safe{V(p[0].real)} {}
#define EXTENSOR_PARAMETERS_1(functor, first) \
  V first;                                    \
  explicit functor(const Parameter* p) : first(p[0].real) {}
#define EXTENSOR_PARAMETERS_2(functor, first, second) \
  V first, second;                                    \
  explicit functor(const Parameter* p) : first(p[0].real), second(p[1].real) {}

// clang-format off
#define UNARY(name, lo_, hi_, kinks, saved, forward, backward)                                              \
  EXTENSOR_FUNCTOR(name##_row, ([[maybe_unused]] V x), EXTENSOR_PARAMETERS_0(name##_row), forward)          \
  EXTENSOR_FUNCTOR(name##_backward_row, ([[maybe_unused]] V g, [[maybe_unused]] V saved),                   \
                   EXTENSOR_PARAMETERS_0(name##_backward_row), backward)
#define UNARY_EPS(name, lo_, hi_, kinks, saved, forward, backward)                                          \
  EXTENSOR_FUNCTOR(name##_row, (V x), EXTENSOR_PARAMETERS_0(name##_row), forward)                           \
  EXTENSOR_FUNCTOR(name##_backward_row, ([[maybe_unused]] V g, [[maybe_unused]] V saved),                   \
                   EXTENSOR_PARAMETERS_EPS(name##_backward_row), backward)
#define UNARY_1(name, p, p_default, lo_, hi_, kinks, saved, forward, backward)                              \
  EXTENSOR_FUNCTOR(name##_row, (V x), EXTENSOR_PARAMETERS_1(name##_row, p), forward)                        \
  EXTENSOR_FUNCTOR(name##_backward_row, ([[maybe_unused]] V g, [[maybe_unused]] V saved),                   \
                   EXTENSOR_PARAMETERS_1(name##_backward_row, p), backward)
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks, saved, forward, backward)                \
  EXTENSOR_FUNCTOR(name##_row, (V x), EXTENSOR_PARAMETERS_2(name##_row, p, q), forward)                     \
  EXTENSOR_FUNCTOR(name##_backward_row, ([[maybe_unused]] V g, [[maybe_unused]] V saved),                   \
                   EXTENSOR_PARAMETERS_2(name##_backward_row, p, q), backward)
#define UNARY_2_NUMERIC(name, p, q, ...) UNARY_2(name, p, 0, q, 0, __VA_ARGS__)
#include "extensor/tables/unary.def"

#define BINARY(name, lo, hi, kinks, forward, gradient_a, gradient_b)                                        \
  EXTENSOR_FUNCTOR(name##_row, (V a, V b), EXTENSOR_PARAMETERS_0(name##_row), forward)                      \
  EXTENSOR_FUNCTOR(name##_gradient_a_row, ([[maybe_unused]] V g, [[maybe_unused]] V a, [[maybe_unused]] V b), \
                   EXTENSOR_PARAMETERS_0(name##_gradient_a_row), gradient_a)                                \
  EXTENSOR_FUNCTOR(name##_gradient_b_row, ([[maybe_unused]] V g, [[maybe_unused]] V a, [[maybe_unused]] V b), \
                   EXTENSOR_PARAMETERS_0(name##_gradient_b_row), gradient_b)
#define BINARY_EPS(name, lo, hi, kinks, forward, gradient_a, gradient_b)                                    \
  EXTENSOR_FUNCTOR(name##_row, (V a, V b), EXTENSOR_PARAMETERS_0(name##_row), forward)                      \
  EXTENSOR_FUNCTOR(name##_gradient_a_row, ([[maybe_unused]] V g, [[maybe_unused]] V a, [[maybe_unused]] V b), \
                   EXTENSOR_PARAMETERS_EPS(name##_gradient_a_row), gradient_a)                              \
  EXTENSOR_FUNCTOR(name##_gradient_b_row, ([[maybe_unused]] V g, [[maybe_unused]] V a, [[maybe_unused]] V b), \
                   EXTENSOR_PARAMETERS_EPS(name##_gradient_b_row), gradient_b)
#include "extensor/tables/binary.def"
// clang-format on

EXTENSOR_FUNCTOR(fma_row, (V a, V b, V c), EXTENSOR_PARAMETERS_0(fma_row),
                 hn::MulAdd(a.v, b.v, c.v))

template <template <class> class Row, class T>
void loop_1(const void* const* inputs, void* out, std::size_t n, const Parameter* parameters) {
  const hn::ScalableTag<T> d;
  const Row<Lanes<T>> row(parameters);
  const T* first = static_cast<const T*>(inputs[0]);
  T* result = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(row(hn::LoadU(d, first + i)).v, d, result + i);
  }
}

template <template <class> class Row, class T>
void loop_2(const void* const* inputs, void* out, std::size_t n, const Parameter* parameters) {
  const hn::ScalableTag<T> d;
  const Row<Lanes<T>> row(parameters);
  const T* first = static_cast<const T*>(inputs[0]);
  const T* second = static_cast<const T*>(inputs[1]);
  T* result = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(row(hn::LoadU(d, first + i), hn::LoadU(d, second + i)).v, d, result + i);
  }
}

template <template <class> class Row, class T>
void loop_3(const void* const* inputs, void* out, std::size_t n, const Parameter* parameters) {
  const hn::ScalableTag<T> d;
  const Row<Lanes<T>> row(parameters);
  const T* first = static_cast<const T*>(inputs[0]);
  const T* second = static_cast<const T*>(inputs[1]);
  const T* third = static_cast<const T*>(inputs[2]);
  T* result = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(row(hn::LoadU(d, first + i), hn::LoadU(d, second + i), hn::LoadU(d, third + i)).v, d,
               result + i);
  }
}

template <class T>
ElementwiseTable make_float_table() {
  ElementwiseTable table{hn::Lanes(hn::ScalableTag<T>()), {}};
  const auto set = [&table](ElementwiseOp op, ElementwiseLoop loop) {
    table.loops[static_cast<int>(op)] = loop;
  };
#define UNARY(name, ...)                            \
  set(ElementwiseOp::name, &loop_1<name##_row, T>); \
  set(ElementwiseOp::name##_backward, &loop_2<name##_backward_row, T>);
#include "extensor/tables/unary.def"
#define BINARY(name, ...)                                                   \
  set(ElementwiseOp::name, &loop_2<name##_row, T>);                         \
  set(ElementwiseOp::name##_gradient_a, &loop_3<name##_gradient_a_row, T>); \
  set(ElementwiseOp::name##_gradient_b, &loop_3<name##_gradient_b_row, T>);
#include "extensor/tables/binary.def"
  set(ElementwiseOp::fma, &loop_3<fma_row, T>);
  add_logical_loops<T>(table);
  return table;
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_FLOAT_INL_H_
