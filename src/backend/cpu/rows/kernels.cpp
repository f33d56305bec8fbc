#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/rows/kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "backend/cpu/rows/kernels.h"
#include "backend/cpu/simd/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t sum_block = 1024;  // elements summed in lanes before the sum is widened

// A row of this many bytes and what belongs to it stay in the second-level cache while the next
// row is fetched.
constexpr std::size_t longest_prefetched_row = std::size_t{256} << 10;
// Rows from here on leave the first-level cache before they are written.
constexpr std::size_t shortest_long_row = std::size_t{16} << 10;

template <class T>
struct Row {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;

  static HWY_INLINE V load(const T* from, std::size_t count, T filler) {
    const D d;
    if (count >= hn::Lanes(d)) return hn::LoadU(d, from);
    alignas(64) T lanes[hn::MaxLanes(D())];
    std::fill(lanes, lanes + hn::Lanes(d), filler);
    std::memcpy(lanes, from, count * sizeof(T));
    return hn::Load(d, lanes);
  }
  static HWY_INLINE void store(V v, T* to, std::size_t count) {
    const D d;
    if (count >= hn::Lanes(d)) return hn::StoreU(v, d, to);
    alignas(64) T lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    std::memcpy(to, lanes, count * sizeof(T));
  }
  static HWY_INLINE double sum_of_lanes(V v) {
    const D d;
    alignas(64) T lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    double sum = 0;
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) sum += static_cast<double>(lanes[i]);
    return sum;
  }

  // NaN may be lost here: it comes back through the exponentials.
  static T maximum(const T* x, std::size_t n) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const T lowest = -std::numeric_limits<T>::infinity();
    V m0 = hn::Set(d, lowest), m1 = m0, m2 = m0, m3 = m0;
    std::size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      m0 = hn::Max(m0, hn::LoadU(d, x + i));
      m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
      m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
      m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i < n; i += lanes) m0 = hn::Max(m0, load(x + i, n - i, lowest));
    alignas(64) T folded[hn::MaxLanes(D())];
    hn::Store(hn::Max(hn::Max(m0, m1), hn::Max(m2, m3)), d, folded);
    T result = lowest;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      result = folded[lane] > result ? folded[lane] : result;
    }
    return result;
  }

  // Σ term(i) with the lanes widened to double once per block; `term` gets (position, valid lanes)
  // and gives a vector whose lanes beyond the valid ones are 0.
  template <class Term>
  static HWY_INLINE double sum(std::size_t n, Term term) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    double total = 0;
    for (std::size_t begin = 0; begin < n; begin += sum_block) {
      const std::size_t end = std::min(n, begin + sum_block);
      V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      std::size_t i = begin;
      for (; i + 4 * lanes <= end; i += 4 * lanes) {
        s0 = hn::Add(s0, term(i, lanes));
        s1 = hn::Add(s1, term(i + lanes, lanes));
        s2 = hn::Add(s2, term(i + 2 * lanes, lanes));
        s3 = hn::Add(s3, term(i + 3 * lanes, lanes));
      }
      for (; i < end; i += lanes) s0 = hn::Add(s0, term(i, std::min(lanes, end - i)));
      total += sum_of_lanes(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
    }
    return total;
  }

  // element(i, valid lanes) for every vector of a row, the last one perhaps partial.
  template <class Element>
  static HWY_INLINE void for_each_vector(std::size_t n, Element element) {
    const std::size_t lanes = hn::Lanes(D());
    std::size_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      element(i, lanes);
      element(i + lanes, lanes);
    }
    for (; i < n; i += lanes) element(i, std::min(lanes, n - i));
  }

  // exp(x − m), 0 beyond the row's end, so that it can be summed. Fetches what lies `ahead`
  // elements further meanwhile: the next row, which is about to be searched for its maximum.
  struct ShiftedExp {
    const T* x;
    V m;
    T* out;             // null: not stored
    std::size_t ahead;  // 0: nothing is fetched
    HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
      const D d;
      if (ahead != 0) {
        prefetch<0>(x, i + ahead);
        if (out != nullptr) prefetch<1>(out, i + ahead);
      }
      const V shifted = hn::Sub(load(x + i, count, -std::numeric_limits<T>::infinity()), m);
      const V e = ExpOfNegative(d, shifted);
      if (out != nullptr) store(e, out + i, count);
      if (count >= hn::Lanes(d)) return e;
      return hn::IfThenElseZero(hn::FirstN(d, count), e);
    }
  };

  // May point past the end of the memory, so the address is not computed as a pointer.
  template <int kWrite>
  static HWY_INLINE void prefetch(const T* base, std::size_t offset) {
    if constexpr (hn::MaxLanes(D()) * sizeof(T) >= 32) {
      __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(base) +
                                                       offset * sizeof(T)),
                         kWrite);
    }
  }

  static double sum_of_exp(const T* x, T m, T* out, std::size_t n) {
    const D d;
    const std::size_t ahead = n * sizeof(T) <= longest_prefetched_row ? n : 0;
    return sum(n, ShiftedExp{x, hn::Set(d, m), out, ahead});
  }

  static void softmax(const T* x, T* out, std::size_t n) {
    const double total = sum_of_exp(x, maximum(x, n), out, n);
    const V scale = hn::Set(D(), static_cast<T>(1 / total));
    for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
      store(hn::Mul(load(out + i, count, T(0)), scale), out + i, count);
    });
  }

  static void log_softmax(const T* x, T* out, std::size_t n) {
    const D d;
    const T m = maximum(x, n);
    const V largest = hn::Set(d, m);
    const V log_total = hn::Set(d, static_cast<T>(std::log(sum_of_exp(x, m, nullptr, n))));
    for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
      store(hn::Sub(hn::Sub(load(x + i, count, T(0)), largest), log_total), out + i, count);
    });
  }

  static T logsumexp(const T* x, std::size_t n) {
    const T m = maximum(x, n);
    if (std::isinf(m)) {  // ∞ − ∞ would be NaN; a NaN in the row still is
      for (std::size_t i = 0; i < n; ++i) {
        if (x[i] != x[i]) return x[i];
      }
      return m;
    }
    return static_cast<T>(static_cast<double>(m) + std::log(sum_of_exp(x, m, nullptr, n)));
  }

  struct Product {
    const T* a;
    const T* b;
    const T* out;  // where the result will go, fetched meanwhile; or null
    HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
      if (out != nullptr) prefetch<1>(out, i);
      return hn::Mul(load(a + i, count, T(0)), load(b + i, count, T(0)));
    }
  };
  struct Value {
    const T* a;
    HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
      return load(a + i, count, T(0));
    }
  };

  static void softmax_backward(const T* g, const T* y, T* out, std::size_t n) {
    const bool is_long = n * sizeof(T) >= shortest_long_row;
    const V inner = hn::Set(D(), static_cast<T>(sum(n, Product{g, y, is_long ? out : nullptr})));
    for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
      const V gradient = load(g + i, count, T(0));
      store(hn::Mul(load(y + i, count, T(0)), hn::Sub(gradient, inner)), out + i, count);
    });
  }

  static void log_softmax_backward(const T* g, const T* y, T* out, std::size_t n) {
    const D d;
    const V total = hn::Set(d, static_cast<T>(sum(n, Value{g})));
    for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
      const V probability = Exp(d, load(y + i, count, T(0)));
      store(hn::NegMulAdd(probability, total, load(g + i, count, T(0))), out + i, count);
    });
  }
};

template <class T>
void fill_row_kernels(RowKernels<T>* kernels) {
  *kernels = {&Row<T>::softmax, &Row<T>::log_softmax, &Row<T>::logsumexp, &Row<T>::softmax_backward,
              &Row<T>::log_softmax_backward};
}
template void fill_row_kernels(RowKernels<float>*);
template void fill_row_kernels(RowKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/simd/dispatch_table.h"

namespace extensor::cpu {

template <class T>
const RowKernels<T>& row_kernels() {
  static const RowKernels<T> kernels = [] {
    RowKernels<T> filled;
    EXTENSOR_DISPATCH(fill_row_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const RowKernels<float>& row_kernels();
template const RowKernels<double>& row_kernels();

}  // namespace extensor::cpu
#endif
