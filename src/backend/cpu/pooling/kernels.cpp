#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/pooling/kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/pooling/kernels.h"
#include "backend/cpu/simd/pairs-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Pooling {
  using D = hn::ScalableTag<T>;

  static bool is_better(T value, T best) { return value > best || value != value; }
  template <class V2>
  static HWY_INLINE auto IsBetter(V2 value, V2 best) {
    return hn::Or(hn::Gt(value, best), hn::IsNaN(value));
  }
  template <class V2>
  static HWY_INLINE V2 Better(V2 value, V2 best) {
    return hn::IfThenElse(IsBetter(value, best), value, best);
  }

  static void take_larger(const T* row, T* line, std::size_t n) {
    const D d;
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
      hn::StoreU(Better(hn::LoadU(d, row + i), hn::LoadU(d, line + i)), d, line + i);
    }
    for (; i < n; ++i) {
      if (is_better(row[i], line[i])) line[i] = row[i];
    }
  }

  // Vectors, then shorter ones: a row may have fewer elements than a vector has lanes.
  template <class D2>
  static HWY_INLINE std::size_t TrackLarger(D2 d, const T* row, T* line, TapNumber<T>* winner,
                                            TapNumber<T> tap, std::size_t i, std::size_t n) {
    const hn::RebindToSigned<D2> numbers;
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
      const auto value = hn::LoadU(d, row + i), best = hn::LoadU(d, line + i);
      const auto wins = IsBetter(value, best);
      hn::StoreU(hn::IfThenElse(wins, value, best), d, line + i);
      hn::StoreU(hn::IfThenElse(hn::RebindMask(numbers, wins), hn::Set(numbers, tap),
                                hn::LoadU(numbers, winner + i)),
                 numbers, winner + i);
    }
    if constexpr (hn::MaxLanes(D2()) > 4) {
      return TrackLarger(hn::Half<D2>(), row, line, winner, tap, i, n);
    } else {
      return i;
    }
  }
  static void track_larger(const T* row, T* line, TapNumber<T>* winner, TapNumber<T> tap,
                           std::size_t n) {
    for (std::size_t i = TrackLarger(D(), row, line, winner, tap, 0, n); i < n; ++i) {
      if (!is_better(row[i], line[i])) continue;
      line[i] = row[i];
      winner[i] = tap;
    }
  }

  static void add_to_winner(const TapNumber<T>* winner, TapNumber<T> tap, const T* g, T* out,
                            std::size_t n) {
    const D d;
    const hn::RebindToSigned<D> numbers;
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
      const auto wins =
          hn::RebindMask(d, hn::Eq(hn::LoadU(numbers, winner + i), hn::Set(numbers, tap)));
      const auto part = hn::IfThenElseZero(wins, hn::LoadU(d, g + i));
      hn::StoreU(hn::Add(hn::LoadU(d, out + i), part), d, out + i);
    }
    for (; i < n; ++i) {
      if (winner[i] == tap) out[i] += g[i];
    }
  }

  static void add_to_pairs(const TapNumber<T>* winner, TapNumber<T> tap, const T* g, T* out,
                           std::size_t n) {
    const D d;
    const hn::RebindToSigned<D> numbers;
    std::size_t j = 0;
    for (; j + hn::Lanes(d) <= n; j += hn::Lanes(d)) {
      const auto won = hn::LoadU(numbers, winner + j);
      const auto value = hn::LoadU(d, g + j);
      const auto part = [&](TapNumber<T> number) HWY_ATTR {
        const auto wins = hn::RebindMask(d, hn::Eq(won, hn::Set(numbers, number)));
        return hn::IfThenElseZero(wins, value);
      };
      hn::Vec<D> first, second;
      LoadPairs(d, out + 2 * j, first, second);
      StorePairs(hn::Add(first, part(tap)), hn::Add(second, part(tap + 1)), d, out + 2 * j);
    }
    for (; j < n; ++j) {
      if (winner[j] == tap) out[2 * j] += g[j];
      if (winner[j] == tap + 1) out[2 * j + 1] += g[j];
    }
  }

  // Processes whole vectors; the last one is moved back so that it ends with the row. Rows shorter
  // than a vector use shorter vectors. body(d, j) computes windows j … j + lanes.
  template <class D2, class Body>
  static HWY_INLINE void ForWindows([[maybe_unused]] D2 d, std::size_t n, Body body) {
    constexpr std::size_t kLanes = hn::MaxLanes(D2());
    if (n >= kLanes) {
      std::size_t j = 0;
      for (; j + kLanes <= n; j += kLanes) body(d, j);
      if (j < n) body(d, n - kLanes);
    } else if constexpr (kLanes > 4) {
      ForWindows(hn::Half<D2>(), n, body);
    } else {
      const hn::CappedTag<T, 1> one;
      for (std::size_t j = 0; j < n; ++j) body(one, j);
    }
  }

  static void largest_of_pairs(const T* top, const T* bottom, T* out, std::size_t n) {
    ForWindows(D(), n, [&](auto d, std::size_t j) HWY_ATTR {
      hn::Vec<decltype(d)> first, second, third, fourth;
      LoadPairs(d, top + 2 * j, first, second);
      LoadPairs(d, bottom + 2 * j, third, fourth);
      hn::StoreU(Better(Better(fourth, third), Better(second, first)), d, out + j);
    });
  }

  // from[0], from[stride], from[2 · stride] …; with a stride of 2, one element more is read.
  template <std::size_t stride, class D2>
  static HWY_INLINE hn::Vec<D2> LoadStrided(D2 d, const T* from) {
    if constexpr (stride == 1) {
      return hn::LoadU(d, from);
    } else {
      hn::Vec<D2> even, odd;
      LoadPairs(d, from, even, odd);
      return even;
    }
  }

  // The last window is computed alone: a vector that ends with it could read past the row.
  template <std::size_t stride>
  static void largest_of_regular(const T* line, T* out, std::size_t n, std::size_t taps,
                                 std::size_t step) {
    ForWindows(D(), n - 1, [&](auto d, std::size_t j) HWY_ATTR {
      auto best = LoadStrided<stride>(d, line + stride * j);
      for (std::size_t k = 1; k < taps; ++k) {
        best = Better(LoadStrided<stride>(d, line + stride * j + k * step), best);
      }
      hn::StoreU(best, d, out + j);
    });
    largest_of_any(line + stride * (n - 1), out + n - 1, 1, stride, taps, step);
  }

  static void largest_of_any(const T* line, T* out, std::size_t n, std::size_t stride,
                             std::size_t taps, std::size_t step) {
    for (std::size_t j = 0; j < n; ++j, line += stride) {
      T best = line[0];
      for (std::size_t k = 1; k < taps; ++k) {
        const T value = line[k * step];
        best = is_better(value, best) ? value : best;
      }
      out[j] = best;
    }
  }

  static void largest_of_windows(const T* line, T* out, std::size_t n, std::size_t stride,
                                 std::size_t taps, std::size_t step) {
    if (stride == 1) return largest_of_regular<1>(line, out, n, taps, step);
    if (stride == 2) return largest_of_regular<2>(line, out, n, taps, step);
    largest_of_any(line, out, n, stride, taps, step);
  }

  // Stops before the last window: a vector that ends with it could read past the row.
  template <class D2>
  static HWY_INLINE std::size_t TrackPairs(D2 d, const T* row, T* line, TapNumber<T>* winner,
                                           TapNumber<T> tap, std::size_t j, std::size_t n) {
    const hn::RebindToSigned<D2> numbers;
    for (; j + hn::Lanes(d) < n; j += hn::Lanes(d)) {
      const auto value = LoadStrided<2>(d, row + 2 * j), best = hn::LoadU(d, line + j);
      const auto wins = IsBetter(value, best);
      hn::StoreU(hn::IfThenElse(wins, value, best), d, line + j);
      hn::StoreU(hn::IfThenElse(hn::RebindMask(numbers, wins), hn::Set(numbers, tap),
                                hn::LoadU(numbers, winner + j)),
                 numbers, winner + j);
    }
    if constexpr (hn::MaxLanes(D2()) > 4) {
      return TrackPairs(hn::Half<D2>(), row, line, winner, tap, j, n);
    } else {
      return j;
    }
  }
  static void track_windows(const T* row, T* line, TapNumber<T>* winner, TapNumber<T> tap,
                            std::size_t n, std::size_t stride) {
    if (stride == 1) return track_larger(row, line, winner, tap, n);
    std::size_t j = stride == 2 ? TrackPairs(D(), row, line, winner, tap, 0, n) : 0;
    for (; j < n; ++j) {
      const bool wins = is_better(row[j * stride], line[j]);
      line[j] = wins ? row[j * stride] : line[j];
      winner[j] = wins ? tap : winner[j];
    }
  }

  // A vector moved back computes some windows twice, to the same result.
  static void spread_over_pairs(const T* top, const T* bottom, const T* g, T* top_gradient,
                                T* bottom_gradient, std::size_t n) {
    ForWindows(D(), n, [&](auto d, std::size_t j) HWY_ATTR {
      using V2 = hn::Vec<decltype(d)>;
      V2 first, second, third, fourth;
      LoadPairs(d, top + 2 * j, first, second);
      LoadPairs(d, bottom + 2 * j, third, fourth);
      const auto take_second = IsBetter(second, first);
      const V2 of_two = hn::IfThenElse(take_second, second, first);
      const auto take_third = IsBetter(third, of_two);
      const V2 of_three = hn::IfThenElse(take_third, third, of_two);
      const auto take_fourth = IsBetter(fourth, of_three);
      // Each later candidate takes the gradient from the earlier ones.
      V2 rest = hn::LoadU(d, g + j);
      const V2 fourth_gradient = hn::IfThenElseZero(take_fourth, rest);
      rest = hn::IfThenZeroElse(take_fourth, rest);
      const V2 third_gradient = hn::IfThenElseZero(take_third, rest);
      rest = hn::IfThenZeroElse(take_third, rest);
      const V2 second_gradient = hn::IfThenElseZero(take_second, rest);
      rest = hn::IfThenZeroElse(take_second, rest);
      StorePairs(rest, second_gradient, d, top_gradient + 2 * j);
      StorePairs(third_gradient, fourth_gradient, d, bottom_gradient + 2 * j);
    });
  }
};

template <class T>
void fill_pooling_kernels(PoolingKernels<T>* kernels) {
  *kernels = {&Pooling<T>::take_larger,        &Pooling<T>::largest_of_pairs,
              &Pooling<T>::spread_over_pairs,  &Pooling<T>::track_larger,
              &Pooling<T>::largest_of_windows, &Pooling<T>::track_windows,
              &Pooling<T>::add_to_pairs,       &Pooling<T>::add_to_winner};
}
template void fill_pooling_kernels(PoolingKernels<float>*);
template void fill_pooling_kernels(PoolingKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const PoolingKernels<T>& pooling_kernels() {
  static const PoolingKernels<T> kernels = [] {
    PoolingKernels<T> filled;
    EXTENSOR_DISPATCH(fill_pooling_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const PoolingKernels<float>& pooling_kernels();
template const PoolingKernels<double>& pooling_kernels();

}  // namespace extensor::cpu
#endif
