#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/reduce/kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/reduce/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Each operation on plain elements and on vectors. max and min propagate NaN.
struct Sum {
  // Adding −0 changes no number; 0 would turn a sum of −0 into 0.
  template <class T>
  static constexpr T identity = std::is_floating_point_v<T> ? T(-0.0) : T(0);
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
  template <class V>
  static HWY_INLINE V vector(V a, V b) {
    return hn::Add(a, b);
  }
};
struct Product {
  template <class T>
  static constexpr T identity = T(1);
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::conditional_t<sizeof(T) < 4, unsigned, std::make_unsigned_t<T>>;
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    } else {
      return a * b;
    }
  }
  template <class V>
  static HWY_INLINE V vector(V a, V b) {
    return hn::Mul(a, b);
  }
};
struct Maximum {
  template <class T>
  static constexpr T identity = std::numeric_limits<T>::has_infinity
                                    ? -std::numeric_limits<T>::infinity()
                                    : std::numeric_limits<T>::lowest();
  template <class T>
  static HWY_INLINE bool wins(T challenger, T holder) {
    return challenger > holder || (challenger != challenger && holder == holder);
  }
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    return (b > a || b != b) ? b : a;
  }
  template <class V>
  static HWY_INLINE V vector(V a, V b) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
    return hn::IfThenElse(hn::IsNaN(a), a, hn::Max(a, b));  // the instruction keeps a NaN in b
#else
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
#endif
  }
};
struct Minimum {
  template <class T>
  static constexpr T identity = std::numeric_limits<T>::has_infinity
                                    ? std::numeric_limits<T>::infinity()
                                    : std::numeric_limits<T>::max();
  template <class T>
  static HWY_INLINE bool wins(T challenger, T holder) {
    return challenger < holder || (challenger != challenger && holder == holder);
  }
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    return (b < a || b != b) ? b : a;
  }
  template <class V>
  static HWY_INLINE V vector(V a, V b) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
    return hn::IfThenElse(hn::IsNaN(a), a, hn::Min(a, b));  // the instruction keeps a NaN in b
#else
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
#endif
  }
};

// Combines the halves of a vector, then the halves of that: the order depends only on its width.
template <class Op, class D, class V>
HWY_INLINE hn::TFromD<D> fold([[maybe_unused]] D d, V v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(d) > 1) {
    const hn::Half<D> half;
    return fold<Op>(half, Op::vector(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  return hn::GetLane(v);
}

constexpr std::size_t shortest_prefetch = 256;  // elements; the processor fetches shorter rows

// Prefetches what the next block reads: blocks are about as long as a page, at whose end the
// processor's own prefetching stops. An address past the end does no harm, but must not be formed
// as a pointer.
template <class T>
HWY_INLINE void prefetch(const T* values) {
  constexpr std::uintptr_t ahead = 4096;
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(values) + ahead));
}

template <class Op, class T>
T block(const T* values, std::size_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    const hn::ScalableTag<T> d;
    const std::size_t lanes = hn::Lanes(d);
    if (n > 128 * lanes) {  // narrow vectors: at most 32 terms in sequence
      return Op::scalar(block<Op>(values, n / 2), block<Op>(values + n / 2, n - n / 2));
    }
    auto a0 = hn::Set(d, Op::template identity<T>), a1 = a0, a2 = a0, a3 = a0;
    std::size_t i = 0;
    const bool fetches = n >= shortest_prefetch;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      if (fetches) {
        for (std::size_t k = 0; k < 4; ++k) prefetch(values + i + k * lanes);
      }
      a0 = Op::vector(a0, hn::LoadU(d, values + i));
      a1 = Op::vector(a1, hn::LoadU(d, values + i + lanes));
      a2 = Op::vector(a2, hn::LoadU(d, values + i + 2 * lanes));
      a3 = Op::vector(a3, hn::LoadU(d, values + i + 3 * lanes));
    }
    for (; i + lanes <= n; i += lanes) a0 = Op::vector(a0, hn::LoadU(d, values + i));
    const T folded = fold<Op>(d, Op::vector(Op::vector(a0, a1), Op::vector(a2, a3)));
    T rest = Op::template identity<T>;
    for (; i < n; ++i) rest = Op::scalar(rest, values[i]);
    return Op::scalar(folded, rest);
  } else {
    T result = Op::template identity<T>;
    for (std::size_t i = 0; i < n; ++i) result = Op::scalar(result, values[i]);
    return result;
  }
}

template <class Op, class T>
void accumulate(T* accumulator, const T* values, std::size_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    const hn::ScalableTag<T> d;
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
      hn::StoreU(Op::vector(hn::LoadU(d, accumulator + i), hn::LoadU(d, values + i)), d,
                 accumulator + i);
    }
    for (; i < n; ++i) accumulator[i] = Op::scalar(accumulator[i], values[i]);
  } else {
    for (std::size_t i = 0; i < n; ++i) accumulator[i] = Op::scalar(accumulator[i], values[i]);
  }
}

template <class Op, class T>
void accumulate_four(T* accumulator, const T* const* rows, bool fresh, std::size_t n) {
  const T *a = rows[0], *b = rows[1], *c = rows[2], *e = rows[3];
  std::size_t i = 0;
  if constexpr (std::is_floating_point_v<T>) {
    const hn::ScalableTag<T> d;
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
      const auto four = Op::vector(Op::vector(hn::LoadU(d, a + i), hn::LoadU(d, b + i)),
                                   Op::vector(hn::LoadU(d, c + i), hn::LoadU(d, e + i)));
      hn::StoreU(fresh ? four : Op::vector(hn::LoadU(d, accumulator + i), four), d,
                 accumulator + i);
    }
  }
  for (; i < n; ++i) {
    const T four = Op::scalar(Op::scalar(a[i], b[i]), Op::scalar(c[i], e[i]));
    accumulator[i] = fresh ? four : Op::scalar(accumulator[i], four);
  }
}

template <class Op, class T>
void accumulate_position(T* accumulator, std::int64_t* positions, const T* values,
                         std::int64_t position, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const bool wins = Op::wins(values[i], accumulator[i]);
    accumulator[i] = wins ? values[i] : accumulator[i];
    positions[i] = wins ? position : positions[i];
  }
}

template <class Op, class T>
ReduceKernels<T> make_kernels() {
  ReduceKernels<T> kernels{&block<Op, T>, &accumulate<Op, T>, &accumulate_four<Op, T>, nullptr,
                           Op::template identity<T>};
  if constexpr (requires { Op::wins(T(), T()); }) {
    kernels.accumulate_position = &accumulate_position<Op, T>;
  }
  return kernels;
}

// Sum, product, maximum, minimum.
template <class T>
void fill_kernels(ReduceKernels<T>* kernels) {
  kernels[0] = make_kernels<Sum, T>();
  kernels[1] = make_kernels<Product, T>();
  kernels[2] = make_kernels<Maximum, T>();
  kernels[3] = make_kernels<Minimum, T>();
}
template void fill_kernels(ReduceKernels<float>*);
template void fill_kernels(ReduceKernels<double>*);
template void fill_kernels(ReduceKernels<std::int64_t>*);
template void fill_kernels(ReduceKernels<std::uint64_t>*);
template void fill_kernels(ReduceKernels<std::uint8_t>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const ReduceKernels<T>& reduce_kernels(backend::ReduceOp op) {
  using backend::ReduceOp;
  static const auto* kernels = [] {
    auto* filled = new ReduceKernels<T>[4];
    EXTENSOR_DISPATCH(fill_kernels<T>)(filled);
    return filled;
  }();
  switch (op) {
    case ReduceOp::sum:
      return kernels[0];
    case ReduceOp::prod:
      return kernels[1];
    case ReduceOp::max:
    case ReduceOp::argmax:
    case ReduceOp::any:
      return kernels[2];
    default:
      return kernels[3];
  }
}

template const ReduceKernels<float>& reduce_kernels(backend::ReduceOp);
template const ReduceKernels<double>& reduce_kernels(backend::ReduceOp);
template const ReduceKernels<std::int64_t>& reduce_kernels(backend::ReduceOp);
template const ReduceKernels<std::uint64_t>& reduce_kernels(backend::ReduceOp);
template const ReduceKernels<std::uint8_t>& reduce_kernels(backend::ReduceOp);

}  // namespace extensor::cpu
#endif
