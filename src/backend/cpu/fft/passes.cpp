#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/fft/passes.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/fft/passes.h"
#include "backend/cpu/simd/partial-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A vector of interleaved complex numbers, as wide as the target has; on the scalar target one
// complex number.
#if HWY_TARGET == HWY_SCALAR
template <class T>
struct Complexes {
  T re, im;

  static HWY_INLINE std::size_t size() { return 1; }
  static HWY_INLINE Complexes load(const T* from) { return {from[0], from[1]}; }
  static HWY_INLINE Complexes load(const T* from, std::size_t) { return load(from); }
  HWY_INLINE void store(T* to) const {
    to[0] = re;
    to[1] = im;
  }
  HWY_INLINE void store(T* to, std::size_t) const { store(to); }

  // A real factor.
  static HWY_INLINE Complexes real(T value) { return {value, value}; }
  // A factor for add_turned: multiplication by i * value.
  static HWY_INLINE Complexes turn(T value) { return {-value, value}; }

  HWY_INLINE Complexes swapped() const { return {im, re}; }
  HWY_INLINE Complexes even() const { return {re, re}; }
  HWY_INLINE Complexes odd() const { return {im, im}; }

  friend HWY_INLINE Complexes operator+(Complexes a, Complexes b) {
    return {a.re + b.re, a.im + b.im};
  }
  friend HWY_INLINE Complexes operator-(Complexes a, Complexes b) {
    return {a.re - b.re, a.im - b.im};
  }
  // Lane by lane.
  friend HWY_INLINE Complexes operator*(Complexes a, Complexes b) {
    return {a.re * b.re, a.im * b.im};
  }
};
template <class T>
HWY_INLINE Complexes<T> multiply_add(Complexes<T> a, Complexes<T> b, Complexes<T> c) {
  return a * b + c;
}
template <class T>
HWY_INLINE Complexes<T> subtract_product(Complexes<T> c, Complexes<T> a, Complexes<T> b) {
  return c - a * b;
}
#else
template <class T>
struct Complexes {
  using D = hn::ScalableTag<T>;
  hn::Vec<D> v;

  static HWY_INLINE std::size_t size() { return hn::Lanes(D()) / 2; }
  static HWY_INLINE Complexes load(const T* from) { return {hn::LoadU(D(), from)}; }
  static HWY_INLINE Complexes load(const T* from, std::size_t count) {
#if HWY_TARGET <= HWY_AVX2
    return {hn::MaskedLoad(hn::FirstN(D(), 2 * count), D(), from)};
#else
    return {LoadFirst(D(), from, 2 * count)};
#endif
  }
  HWY_INLINE void store(T* to) const { hn::StoreU(v, D(), to); }
  HWY_INLINE void store(T* to, std::size_t count) const {
#if HWY_TARGET <= HWY_AVX2
    hn::BlendedStore(v, hn::FirstN(D(), 2 * count), D(), to);
#else
    StoreFirst(v, D(), to, 2 * count);
#endif
  }

  // A real factor.
  static HWY_INLINE Complexes real(T value) { return {hn::Set(D(), value)}; }
  // A factor for add_turned: multiplication by i * value.
  static HWY_INLINE Complexes turn(T value) {
    return {hn::OddEven(hn::Set(D(), value), hn::Set(D(), -value))};
  }

  HWY_INLINE Complexes swapped() const { return {hn::Reverse2(D(), v)}; }
  HWY_INLINE Complexes even() const { return {hn::DupEven(v)}; }
  HWY_INLINE Complexes odd() const { return {hn::DupOdd(v)}; }

  friend HWY_INLINE Complexes operator+(Complexes a, Complexes b) { return {hn::Add(a.v, b.v)}; }
  friend HWY_INLINE Complexes operator-(Complexes a, Complexes b) { return {hn::Sub(a.v, b.v)}; }
  // Lane by lane.
  friend HWY_INLINE Complexes operator*(Complexes a, Complexes b) { return {hn::Mul(a.v, b.v)}; }
};
template <class T>
HWY_INLINE Complexes<T> multiply_add(Complexes<T> a, Complexes<T> b, Complexes<T> c) {
  return {hn::MulAdd(a.v, b.v, c.v)};
}
template <class T>
HWY_INLINE Complexes<T> subtract_product(Complexes<T> c, Complexes<T> a, Complexes<T> b) {
  return {hn::NegMulAdd(a.v, b.v, c.v)};
}
#endif

// a + i * f * b and a - i * f * b, with turned = Complexes::turn(f).
template <class T>
HWY_INLINE Complexes<T> add_turned(Complexes<T> a, Complexes<T> b, Complexes<T> turned) {
  return multiply_add(b.swapped(), turned, a);
}
template <class T>
HWY_INLINE Complexes<T> subtract_turned(Complexes<T> a, Complexes<T> b, Complexes<T> turned) {
  return subtract_product(a, b.swapped(), turned);
}

// The product with a factor whose real part is in all lanes of `re`, and whose imaginary part is in
// `im` as turn() stores it.
template <class T>
HWY_INLINE Complexes<T> multiply(Complexes<T> x, Complexes<T> re, Complexes<T> im) {
  return multiply_add(x, re, x.swapped() * im);
}

// The transforms of `radix` numbers in registers. Their constants are set once per pass.
template <class T, std::size_t radix>
struct Butterfly;

template <class T>
struct Butterfly<T, 2> {
  using C = Complexes<T>;
  HWY_INLINE explicit Butterfly(T) {}
  HWY_INLINE void operator()(C* x) const {
    const C a = x[0];
    x[0] = a + x[1];
    x[1] = a - x[1];
  }
};

template <class T>
struct Butterfly<T, 3> {
  using C = Complexes<T>;
  C half, turn;
  HWY_INLINE explicit Butterfly(T sign)
      : half(C::real(T(0.5))), turn(C::turn(sign * T(0.866025403784438646763723170752936183))) {}
  HWY_INLINE void operator()(C* x) const {
    const C sum = x[1] + x[2], difference = x[1] - x[2];
    const C middle = subtract_product(x[0], sum, half);
    x[0] = x[0] + sum;
    x[1] = add_turned(middle, difference, turn);
    x[2] = subtract_turned(middle, difference, turn);
  }
};

template <class T>
struct Butterfly<T, 4> {
  using C = Complexes<T>;
  C turn;
  HWY_INLINE explicit Butterfly(T sign) : turn(C::turn(sign)) {}
  HWY_INLINE void operator()(C* x) const {
    const C even_sum = x[0] + x[2], even_difference = x[0] - x[2];
    const C odd_sum = x[1] + x[3], odd_difference = x[1] - x[3];
    x[0] = even_sum + odd_sum;
    x[1] = add_turned(even_difference, odd_difference, turn);
    x[2] = even_sum - odd_sum;
    x[3] = subtract_turned(even_difference, odd_difference, turn);
  }
};

template <class T>
struct Butterfly<T, 5> {
  using C = Complexes<T>;
  C cos1, cos2, sin1, sin2;
  HWY_INLINE explicit Butterfly(T sign)
      : cos1(C::real(T(0.309016994374947424102293417182819059))),
        cos2(C::real(T(-0.809016994374947424102293417182819059))),
        sin1(C::turn(sign * T(0.951056516295153572116439333379382143))),
        sin2(C::turn(sign * T(0.587785252292473129168705954639072769))) {}
  HWY_INLINE void operator()(C* x) const {
    const C sum1 = x[1] + x[4], sum2 = x[2] + x[3];
    const C turned1 = (x[1] - x[4]).swapped(), turned2 = (x[2] - x[3]).swapped();
    const C even1 = multiply_add(sum2, cos2, multiply_add(sum1, cos1, x[0]));
    const C even2 = multiply_add(sum2, cos1, multiply_add(sum1, cos2, x[0]));
    const C odd1 = multiply_add(turned2, sin2, turned1 * sin1);
    const C odd2 = subtract_product(turned1 * sin2, turned2, sin1);
    x[0] = x[0] + (sum1 + sum2);
    x[1] = even1 + odd1;
    x[4] = even1 - odd1;
    x[2] = even2 + odd2;
    x[3] = even2 - odd2;
  }
};

template <class T>
struct Butterfly<T, 8> {
  using C = Complexes<T>;
  C turn, root, turned_root;
  HWY_INLINE explicit Butterfly(T sign)
      : turn(C::turn(sign)),
        root(C::real(T(0.707106781186547524400844362104849039))),
        turned_root(C::turn(sign * T(0.707106781186547524400844362104849039))) {}
  HWY_INLINE void operator()(C* x) const {
    C even[4], odd[4];
    for (std::size_t i = 0; i < 4; ++i) {
      even[i] = x[i] + x[i + 4];
      odd[i] = x[i] - x[i + 4];
    }
    // The odd outputs: multiplied by the powers of the eighth root before the transform of 4.
    const C odd1 = multiply(odd[1], root, turned_root);
    const C odd3 = subtract_product(odd[3].swapped() * turned_root, odd[3], root);
    const C odd_sum = add_turned(odd[0], odd[2], turn);
    const C odd_difference = subtract_turned(odd[0], odd[2], turn);
    const C pair_sum = odd1 + odd3, pair_difference = odd1 - odd3;
    x[1] = odd_sum + pair_sum;
    x[3] = add_turned(odd_difference, pair_difference, turn);
    x[5] = odd_sum - pair_sum;
    x[7] = subtract_turned(odd_difference, pair_difference, turn);

    const C even_sum = even[0] + even[2], even_difference = even[0] - even[2];
    const C other_sum = even[1] + even[3], other_difference = even[1] - even[3];
    x[0] = even_sum + other_sum;
    x[2] = add_turned(even_difference, other_difference, turn);
    x[4] = even_sum - other_sum;
    x[6] = subtract_turned(even_difference, other_difference, turn);
  }
};

// The factors of the outputs of one group.
template <class T, std::size_t radix, bool last>
struct Factors {
  using C = Complexes<T>;
  C re[radix - 1], im[radix - 1];

  HWY_INLINE Factors(const FftPass<T>& pass, std::size_t group, C turn) {
    const T* at = pass.twiddles + 2 * group * (radix - 1);
    for (std::size_t k = 0; k + 1 < radix; ++k) {
      re[k] = C::real(at[2 * k]);
      im[k] = C::real(at[2 * k + 1]) * turn;
    }
  }
  HWY_INLINE C first(C x) const { return x; }
  HWY_INLINE C apply(C x, std::size_t k) const { return multiply(x, re[k - 1], im[k - 1]); }
};
template <class T, std::size_t radix>
struct Factors<T, radix, true> {
  using C = Complexes<T>;
  C scale;

  HWY_INLINE Factors(const FftPass<T>& pass, std::size_t, C) : scale(C::real(pass.scale)) {}
  HWY_INLINE C first(C x) const { return x * scale; }
  HWY_INLINE C apply(C x, std::size_t) const { return x * scale; }
};

template <class T, std::size_t radix, bool last>
void run_pass(const FftPass<T>& pass) {
  using C = Complexes<T>;
  const std::size_t lanes = C::size();
  const Butterfly<T, radix> butterfly(pass.sign);
  const C turn = C::turn(pass.sign);
  for (std::size_t group = 0; group < pass.groups; ++group) {
    const Factors<T, radix, last> factors(pass, group, turn);
    const T* in = pass.in + 2 * group * pass.in_group;
    T* out = pass.out + 2 * group * pass.out_group;
    // No case of the scalar target, where the compiler would keep a second copy.
    if (HWY_TARGET != HWY_SCALAR && pass.columns < lanes) {
      C x[radix];
      for (std::size_t j = 0; j < radix; ++j) {
        x[j] = C::load(in + 2 * j * pass.in_leg, pass.columns);
      }
      butterfly(x);
      factors.first(x[0]).store(out, pass.columns);
      for (std::size_t k = 1; k < radix; ++k) {
        factors.apply(x[k], k).store(out + 2 * k * pass.out_leg, pass.columns);
      }
      continue;
    }
    // The last vector overlaps the one before it where the columns do not fill it.
    for (std::size_t column = 0;; column += lanes) {
      if (column + lanes > pass.columns) column = pass.columns - lanes;
      C x[radix];
      for (std::size_t j = 0; j < radix; ++j) {
        x[j] = C::load(in + 2 * (j * pass.in_leg + column));
      }
      butterfly(x);
      factors.first(x[0]).store(out + 2 * column);
      for (std::size_t k = 1; k < radix; ++k) {
        factors.apply(x[k], k).store(out + 2 * (k * pass.out_leg + column));
      }
      if (column + lanes >= pass.columns) break;
    }
  }
}

// A pass of any odd radix, with multiplications in proportion to its square.
template <class T>
void run_odd_pass(const FftPass<T>& pass) {
  using C = Complexes<T>;
  const std::size_t lanes = C::size(), radix = pass.radix, half = radix / 2;
  const C turn = C::turn(pass.sign);
  C sums[largest_fft_radix / 2], turned[largest_fft_radix / 2];
  for (std::size_t group = 0; group < pass.groups; ++group) {
    const T* in = pass.in + 2 * group * pass.in_group;
    T* out = pass.out + 2 * group * pass.out_group;
    const T* twiddles =
        pass.twiddles == nullptr ? nullptr : pass.twiddles + 2 * group * (radix - 1);
    for (std::size_t column = 0;; column += lanes) {
      const bool partial = HWY_TARGET != HWY_SCALAR && pass.columns < lanes;
      if (!partial && column + lanes > pass.columns) column = pass.columns - lanes;
      const auto load = [&](std::size_t j) {
        const T* at = in + 2 * (j * pass.in_leg + column);
        return partial ? C::load(at, pass.columns) : C::load(at);
      };
      const auto store = [&](C x, std::size_t k) {
        T* to = out + 2 * (k * pass.out_leg + column);
        if (twiddles == nullptr) {
          x = x * C::real(pass.scale);
        } else if (k > 0) {
          const T* factor = twiddles + 2 * (k - 1);
          x = multiply(x, C::real(factor[0]), C::real(factor[1]) * turn);
        }
        partial ? x.store(to, pass.columns) : x.store(to);
      };
      const C first = load(0);
      C total = first;
      for (std::size_t j = 1; j <= half; ++j) {
        const C a = load(j), b = load(radix - j);
        sums[j - 1] = a + b;
        turned[j - 1] = (a - b).swapped() * turn;
        total = total + sums[j - 1];
      }
      store(total, 0);
      for (std::size_t k = 1; k <= half; ++k) {
        C even = first, odd = C::real(0);
        for (std::size_t j = 1, at = k; j <= half; ++j) {
          even = multiply_add(sums[j - 1], C::real(pass.roots[2 * at]), even);
          odd = multiply_add(turned[j - 1], C::real(pass.roots[2 * at + 1]), odd);
          at += k;
          if (at >= radix) at -= radix;
        }
        store(even + odd, k);
        store(even - odd, radix - k);
      }
      if (column + lanes >= pass.columns) break;
    }
  }
}

template <class T, bool last>
void pass_of_kind(const FftPass<T>& pass) {
  switch (pass.radix) {
    case 2:
      return run_pass<T, 2, last>(pass);
    case 3:
      return run_pass<T, 3, last>(pass);
    case 4:
      return run_pass<T, 4, last>(pass);
    case 5:
      return run_pass<T, 5, last>(pass);
    case 8:
      return run_pass<T, 8, last>(pass);
    default:
      return run_odd_pass(pass);
  }
}

template <class T>
void pass(const FftPass<T>& pass) {
  pass.twiddles == nullptr ? pass_of_kind<T, true>(pass) : pass_of_kind<T, false>(pass);
}

#if HWY_TARGET == HWY_SCALAR
template <class T>
bool row_pass(const FftPass<T>&) {
  return false;
}
#else
// Stores lane i of the four vectors at out + 2 * i * stride, in their order.
HWY_INLINE void store_transposed(const Complexes<double>* x, double* out, std::size_t stride) {
  const Complexes<double>::D d;
#if HWY_MAX_BYTES == 64
  const auto a = x[0].v, b = x[1].v, c = x[2].v, e = x[3].v;
  const auto even_low = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a);
  const auto odd_low = hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a));
  const auto even_high = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(e), c);
  const auto odd_high = hn::OddEvenBlocks(e, hn::SwapAdjacentBlocks(c));
  hn::StoreU(hn::ConcatLowerLower(d, even_high, even_low), d, out);
  hn::StoreU(hn::ConcatLowerLower(d, odd_high, odd_low), d, out + 2 * stride);
  hn::StoreU(hn::ConcatUpperUpper(d, even_high, even_low), d, out + 4 * stride);
  hn::StoreU(hn::ConcatUpperUpper(d, odd_high, odd_low), d, out + 6 * stride);
#elif HWY_MAX_BYTES == 32
  const auto a = x[0].v, b = x[1].v, c = x[2].v, e = x[3].v;
  hn::StoreU(hn::ConcatLowerLower(d, b, a), d, out);
  hn::StoreU(hn::ConcatLowerLower(d, e, c), d, out + 4);
  hn::StoreU(hn::ConcatUpperUpper(d, b, a), d, out + 2 * stride);
  hn::StoreU(hn::ConcatUpperUpper(d, e, c), d, out + 2 * stride + 4);
#else
  const std::size_t size = hn::Lanes(d);
  HWY_ALIGN double lanes[4 * hn::MaxLanes(d)];
  for (std::size_t k = 0; k < 4; ++k) hn::Store(x[k].v, d, lanes + k * size);
  for (std::size_t i = 0; i < size / 2; ++i) {
    for (std::size_t k = 0; k < 4; ++k) {
      out[2 * (i * stride + k)] = lanes[k * size + 2 * i];
      out[2 * (i * stride + k) + 1] = lanes[k * size + 2 * i + 1];
    }
  }
#endif
}
HWY_INLINE void store_transposed(const Complexes<float>* x, float* out, std::size_t stride) {
  // A complex number is moved as one double; no arithmetic sees it.
  const hn::RebindToUnsigned<hn::RepartitionToWide<Complexes<float>::D> > d;
  const std::size_t size = hn::Lanes(d);
  HWY_ALIGN std::uint64_t lanes[4 * hn::MaxLanes(d)];
  hn::StoreInterleaved4(hn::BitCast(d, x[0].v), hn::BitCast(d, x[1].v), hn::BitCast(d, x[2].v),
                        hn::BitCast(d, x[3].v), d, lanes);
  for (std::size_t i = 0; i < size; ++i) {
    hwy::CopyBytes<32>(lanes + 4 * i, out + 2 * i * stride);
  }
}

template <class T>
bool row_pass(const FftPass<T>& pass) {
  using C = Complexes<T>;
  const std::size_t lanes = C::size(), groups = pass.groups;
  if (groups < lanes) return false;
  const Butterfly<T, 4> butterfly(pass.sign);
  const C turn = C::turn(pass.sign);
  for (std::size_t group = 0;; group += lanes) {
    if (group + lanes > groups) group = groups - lanes;
    C x[4];
    for (std::size_t j = 0; j < 4; ++j) x[j] = C::load(pass.in + 2 * (j * pass.in_leg + group));
    butterfly(x);
    for (std::size_t k = 1; k < 4; ++k) {
      const C factor = C::load(pass.twiddles + 2 * ((k - 1) * groups + group));
      x[k] = multiply(x[k], factor.even(), factor.odd() * turn);
    }
    store_transposed(x, pass.out + 8 * group, 4);
    if (group + lanes >= groups) break;
  }
  return true;
}
#endif

template <class T>
void multiply_arrays(const T* a, const T* b, bool conjugate, T* out, std::size_t count) {
  using C = Complexes<T>;
  const std::size_t lanes = C::size();
  const C turn = C::turn(conjugate ? T(-1) : T(1));
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const C factor = C::load(b + 2 * i);
    multiply(C::load(a + 2 * i), factor.even(), factor.odd() * turn).store(out + 2 * i);
  }
  if (i < count) {
    const C factor = C::load(b + 2 * i, count - i);
    multiply(C::load(a + 2 * i, count - i), factor.even(), factor.odd() * turn)
        .store(out + 2 * i, count - i);
  }
}

template <class T>
void twist(const T* in, std::size_t rows, std::size_t columns, const T* base, const T* step,
           std::size_t step_stride, T sign, T* out, std::size_t out_stride) {
  using C = Complexes<T>;
  const C turn = C::turn(sign);
  std::size_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  const std::size_t lanes = C::size();
  if (columns % lanes == 0) {
    for (; row + 4 <= rows; row += 4) {
      for (std::size_t column = 0; column < columns; column += lanes) {
        C x[4];
        for (std::size_t k = 0; k < 4; ++k) {
          const std::size_t at = (row + k) * columns + column;
          const C factor = C::load(step + 2 * ((row + k) * step_stride + column));
          x[k] = multiply(C::load(in + 2 * at), factor.even(), factor.odd() * turn);
          const T* shared = base + 2 * (row + k);
          x[k] = multiply(x[k], C::real(shared[0]), C::real(shared[1]) * turn);
        }
        store_transposed(x, out + 2 * (column * out_stride + row), out_stride);
      }
    }
  }
#endif
  for (; row < rows; ++row) {
    const C re = C::real(base[2 * row]), im = C::real(base[2 * row + 1]) * turn;
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t at = row * columns + column;
      const C factor = C::load(step + 2 * (row * step_stride + column), 1);
      const C x = multiply(C::load(in + 2 * at, 1), factor.even(), factor.odd() * turn);
      multiply(x, re, im).store(out + 2 * (column * out_stride + row), 1);
    }
  }
}

template <class T>
void fill_fft_kernels(FftKernels<T>* kernels) {
  *kernels = {&pass<T>, &row_pass<T>, &multiply_arrays<T>, &twist<T>};
}
template void fill_fft_kernels(FftKernels<float>*);
template void fill_fft_kernels(FftKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const FftKernels<T>& fft_kernels() {
  static const FftKernels<T> kernels = [] {
    FftKernels<T> filled;
    EXTENSOR_DISPATCH(fill_fft_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const FftKernels<float>& fft_kernels();
template const FftKernels<double>& fft_kernels();

}  // namespace extensor::cpu
#endif
