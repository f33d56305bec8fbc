// The elementwise kernels on integers: the numeric rows of the same tables, on a value type whose
// arithmetic wraps. The compiler vectorises the loops for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise/integer.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <concepts>
#include <type_traits>

#include "backend/cpu/elementwise/logical-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {
namespace {

#define EXTENSOR_WORD HWY_INLINE
#include "backend/integer_value.h"
#undef EXTENSOR_WORD

// clang-format off
#define EXTENSOR_INTEGER_LOOP_1(name, PARAMETERS, expression)                                            \
  template <class T>                                                                                     \
  void name##_loop(const void* const* inputs, const std::size_t*, void* out, std::size_t n, const Parameter* parameters) {   \
    using V = Integer<T>;                                                                                \
    static_cast<void>(parameters);                                                                       \
    PARAMETERS                                                                                           \
    const T* first = static_cast<const T*>(inputs[0]);                                                   \
    T* result = static_cast<T*>(out);                                                                    \
    for (std::size_t i = 0; i < n; ++i) {                                                                \
      const V x = first[i];                                                                              \
      result[i] = V(expression).v;                                                                       \
    }                                                                                                    \
  }
#define EXTENSOR_INTEGER_LOOP_2(name, Value, expression, take)                                           \
  template <class T>                                                                                     \
  void name##_loop(const void* const* inputs, const std::size_t*, void* out, std::size_t n, const Parameter*) {              \
    const T* first = static_cast<const T*>(inputs[0]);                                                   \
    const T* second = static_cast<const T*>(inputs[1]);                                                  \
    T* result = static_cast<T*>(out);                                                                    \
    for (std::size_t i = 0; i < n; ++i) {                                                                \
      const Value a = first[i], b = second[i];                                                           \
      result[i] = static_cast<T>((expression)take);                                                      \
    }                                                                                                    \
  }
// clang-format on

#define UNARY(...)
#define UNARY_NUMERIC(name, lo, hi, kinks, saved, forward, backward) \
  EXTENSOR_INTEGER_LOOP_1(name, , forward)
#define UNARY_2_NUMERIC(name, p, q, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_INTEGER_LOOP_1(name, const V p(parameters[0].integer);              \
                          const V q(parameters[1].integer);, forward)
#include "extensor/tables/unary.def"

#define BINARY(...)
#define BINARY_NUMERIC(name, lo, hi, kinks, forward, gradient_a, gradient_b) \
  EXTENSOR_INTEGER_LOOP_2(name, Integer<T>, forward, .v)
#define BINARY_NUMERIC_EPS BINARY_NUMERIC
#include "extensor/tables/binary.def"

#define BITWISE(name, expression) EXTENSOR_INTEGER_LOOP_2(name, T, expression, )
#define BITWISE_UNARY(name, expression)                                                     \
  template <class T>                                                                        \
  void name##_loop(const void* const* inputs, const std::size_t*, void* out, std::size_t n, \
                   const Parameter*) {                                                      \
    const T* first = static_cast<const T*>(inputs[0]);                                      \
    T* result = static_cast<T*>(out);                                                       \
    for (std::size_t i = 0; i < n; ++i) {                                                   \
      const T x = first[i];                                                                 \
      result[i] = static_cast<T>(expression);                                               \
    }                                                                                       \
  }
#include "extensor/tables/logical.def"

template <class T>
void fma_loop(const void* const* inputs, const std::size_t*, void* out, std::size_t n,
              const Parameter*) {
  const T* first = static_cast<const T*>(inputs[0]);
  const T* second = static_cast<const T*>(inputs[1]);
  const T* third = static_cast<const T*>(inputs[2]);
  T* result = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; ++i) {
    result[i] = (Integer<T>(first[i]) * Integer<T>(second[i]) + Integer<T>(third[i])).v;
  }
}

template <class T>
ElementwiseTable make_table() {
  ElementwiseTable table{1, {}};
#define SET(name, ...)                                 \
  table.loops[static_cast<int>(ElementwiseOp::name)] = \
      &name##_loop<LoopType<ElementwiseOp::name, T>>;
#define UNARY(...)
#define UNARY_NUMERIC SET
#define UNARY_2_NUMERIC SET
#include "extensor/tables/unary.def"
#define BINARY(...)
#define BINARY_NUMERIC SET
#define BINARY_NUMERIC_EPS SET
#include "extensor/tables/binary.def"
#define BITWISE SET
#define BITWISE_UNARY SET
#include "extensor/tables/logical.def"
  SET(fma)
#undef SET
  add_logical_loops<T>(table);
  return table;
}

}  // namespace

// int8 … int64, uint8 … uint64: the order of DType.
void fill_integer_tables(ElementwiseTable* tables) {
  tables[0] = make_table<std::int8_t>();
  tables[1] = make_table<std::int16_t>();
  tables[2] = make_table<std::int32_t>();
  tables[3] = make_table<std::int64_t>();
  tables[4] = make_table<std::uint8_t>();
  tables[5] = make_table<std::uint16_t>();
  tables[6] = make_table<std::uint32_t>();
  tables[7] = make_table<std::uint64_t>();
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

const ElementwiseTable& elementwise_table_integer(DType compute) {
  static const auto* tables = [] {
    auto* filled = new ElementwiseTable[8];
    EXTENSOR_DISPATCH(fill_integer_tables)(filled);
    return filled;
  }();
  return tables[static_cast<int>(compute) - static_cast<int>(DType::int8)];
}

}  // namespace extensor::cpu
#endif
