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

template <std::integral T>
struct Integer {
  // Unsigned and at least as wide as int, so that neither promotion nor overflow is undefined.
  using Wide = std::conditional_t<sizeof(T) < sizeof(unsigned), unsigned, std::make_unsigned_t<T>>;
  T v;

  constexpr Integer(T value) : v(value) {}  // NOLINT: implicit, rows mix both
  template <std::integral Literal>
  requires(!std::same_as<Literal, T>) constexpr Integer(Literal literal)
      : v(static_cast<T>(literal)) {}  // NOLINT: implicit

  HWY_INLINE Wide wide() const { return static_cast<Wide>(v); }
  friend HWY_INLINE Integer operator+(Integer a, Integer b) {
    return static_cast<T>(a.wide() + b.wide());
  }
  friend HWY_INLINE Integer operator-(Integer a, Integer b) {
    return static_cast<T>(a.wide() - b.wide());
  }
  friend HWY_INLINE Integer operator*(Integer a, Integer b) {
    return static_cast<T>(a.wide() * b.wide());
  }
  friend HWY_INLINE Integer operator-(Integer a) { return static_cast<T>(Wide{0} - a.wide()); }
  friend HWY_INLINE bool operator<(Integer a, Integer b) { return a.v < b.v; }
  friend HWY_INLINE bool operator>(Integer a, Integer b) { return a.v > b.v; }
};

template <class T>
HWY_INLINE Integer<T> sign(Integer<T> x) {
  return static_cast<T>((x.v > 0) - (x.v < T(0)));
}
template <class T>
HWY_INLINE Integer<T> abs(Integer<T> x) {
  return x < 0 ? -x : x;
}
template <class T>
HWY_INLINE Integer<T> ceil(Integer<T> x) {
  return x;
}
template <class T>
HWY_INLINE Integer<T> floor(Integer<T> x) {
  return x;
}
template <class T>
HWY_INLINE Integer<T> round(Integer<T> x) {
  return x;
}
template <class T>
HWY_INLINE Integer<T> trunc(Integer<T> x) {
  return x;
}
template <class T>
HWY_INLINE Integer<T> max(Integer<T> a, std::type_identity_t<Integer<T>> b) {
  return a < b ? b : a;
}
template <class T>
HWY_INLINE Integer<T> min(Integer<T> a, std::type_identity_t<Integer<T>> b) {
  return b < a ? b : a;
}
template <class T>
HWY_INLINE Integer<T> clamp(Integer<T> x, Integer<T> lo, Integer<T> hi) {
  return x < lo ? lo : (hi < x ? hi : x);
}
// A divisor of 0 is rejected before the loop; the guard keeps a racing writer from trapping.
template <class T>
HWY_INLINE Integer<T> floor_divide(Integer<T> a, Integer<T> b) {
  if (b.v == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b.v == -1) return -a;  // INT_MIN / −1 wraps
    const T quotient = static_cast<T>(a.v / b.v);
    const bool inexact = quotient * b.v != a.v;
    return static_cast<T>(quotient - (inexact && ((a.v < 0) != (b.v < 0))));
  } else {
    return static_cast<T>(a.v / b.v);
  }
}
template <class T>
HWY_INLINE Integer<T> floor_modulo(Integer<T> a, Integer<T> b) {
  if (b.v == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b.v == -1) return 0;
    const T rest = static_cast<T>(a.v % b.v);
    return rest != 0 && ((rest < 0) != (b.v < 0)) ? static_cast<T>(rest + b.v) : rest;
  } else {
    return static_cast<T>(a.v % b.v);
  }
}
// Square and multiply, wrapping; a negative exponent is rejected before the loop.
template <class T>
HWY_INLINE Integer<T> power(Integer<T> base, Integer<T> exponent) {
  Integer<T> result = 1;
  for (auto rest = static_cast<std::make_unsigned_t<T>>(exponent.v); rest != 0; rest >>= 1) {
    if (rest & 1) result = result * base;
    base = base * base;
  }
  return result;
}
template <class T>
HWY_INLINE T shift_left(T a, T b) {
  return static_cast<T>(static_cast<typename Integer<T>::Wide>(a) << b);
}

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
#define SET(name, ...) table.loops[static_cast<int>(ElementwiseOp::name)] = &name##_loop<T>;
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
