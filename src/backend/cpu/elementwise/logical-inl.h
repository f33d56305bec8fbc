// Loops that work on plain elements and leave vectorising to the compiler: comparisons, predicates,
// where. Shared by the float and the integer tables.
#if defined(EXTENSOR_LOGICAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_LOGICAL_INL_H_
#undef EXTENSOR_LOGICAL_INL_H_
#else
#define EXTENSOR_LOGICAL_INL_H_
#endif

#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/elementwise/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

using backend::ElementwiseOp;
using backend::Parameter;

// Whether a loop gives the same bits for signed and unsigned integers.
constexpr bool ignores_sign(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::negative:
    case ElementwiseOp::positive:
    case ElementwiseOp::square:
    case ElementwiseOp::ceil:
    case ElementwiseOp::floor:
    case ElementwiseOp::round:
    case ElementwiseOp::trunc:
    case ElementwiseOp::add:
    case ElementwiseOp::subtract:
    case ElementwiseOp::multiply:
    case ElementwiseOp::fma:
    case ElementwiseOp::equal:
    case ElementwiseOp::not_equal:
    case ElementwiseOp::logical_and:
    case ElementwiseOp::logical_or:
    case ElementwiseOp::logical_xor:
    case ElementwiseOp::logical_not:
    case ElementwiseOp::isnan:
    case ElementwiseOp::isinf:
    case ElementwiseOp::isfinite:
    case ElementwiseOp::bitwise_and:
    case ElementwiseOp::bitwise_or:
    case ElementwiseOp::bitwise_xor:
    case ElementwiseOp::bitwise_invert:
    case ElementwiseOp::where:
      return true;
    default:
      return false;
  }
}

// The type for which the loop of `op` on T is compiled.
template <ElementwiseOp op, class T>
auto loop_type() {
  if constexpr (std::is_integral_v<T> && ignores_sign(op)) {
    return std::make_unsigned_t<T>();
  } else {
    return T();
  }
}
template <ElementwiseOp op, class T>
using LoopType = decltype(loop_type<op, T>());

template <class T>
HWY_INLINE bool is_infinite(T x) {
  if constexpr (std::numeric_limits<T>::has_infinity) {
    return x == std::numeric_limits<T>::infinity() || x == -std::numeric_limits<T>::infinity();
  } else {
    return false;
  }
}
template <class T>
HWY_INLINE bool is_finite(T x) {
  return x == x && !is_infinite(x);
}

#define COMPARE(name, expression)                                                           \
  template <class T>                                                                        \
  void name##_loop(const void* const* inputs, const std::size_t*, void* out, std::size_t n, \
                   const Parameter*) {                                                      \
    const T* first = static_cast<const T*>(inputs[0]);                                      \
    const T* second = static_cast<const T*>(inputs[1]);                                     \
    auto* result = static_cast<std::uint8_t*>(out);                                         \
    for (std::size_t i = 0; i < n; ++i) {                                                   \
      const T a = first[i], b = second[i];                                                  \
      result[i] = (expression);                                                             \
    }                                                                                       \
  }
#define PREDICATE(name, expression)                                                         \
  template <class T>                                                                        \
  void name##_loop(const void* const* inputs, const std::size_t*, void* out, std::size_t n, \
                   const Parameter*) {                                                      \
    const T* first = static_cast<const T*>(inputs[0]);                                      \
    auto* result = static_cast<std::uint8_t*>(out);                                         \
    for (std::size_t i = 0; i < n; ++i) {                                                   \
      const T x = first[i];                                                                 \
      result[i] = (expression);                                                             \
    }                                                                                       \
  }
#include "extensor/tables/logical.def"

template <class T>
void where_loop(const void* const* inputs, const std::size_t*, void* out, std::size_t n,
                const Parameter*) {
  const auto* condition = static_cast<const std::uint8_t*>(inputs[0]);
  const T* yes = static_cast<const T*>(inputs[1]);
  const T* no = static_cast<const T*>(inputs[2]);
  T* result = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; ++i) {
    const T a = yes[i], b = no[i];  // loaded unconditionally, so that this becomes a blend
    result[i] = condition[i] != 0 ? a : b;
  }
}

template <class T>
void add_logical_loops(ElementwiseTable& table) {
#define SET(name, ...)                                 \
  table.loops[static_cast<int>(ElementwiseOp::name)] = \
      &name##_loop<LoopType<ElementwiseOp::name, T>>;
#define COMPARE SET
#define PREDICATE SET
#include "extensor/tables/logical.def"
  SET(where)
#undef SET
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_LOGICAL_INL_H_
