#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/normalization/kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/normalization/kernels.h"
#include "backend/cpu/simd/partial-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t block_vectors = 64;  // summed in lanes before the sum is widened

template <class T>
struct Normalization {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;

  static HWY_INLINE V set(T value) { return hn::Set(D(), value); }
  static HWY_INLINE V load(const T* from, std::size_t count) { return LoadFirst(D(), from, count); }
  static HWY_INLINE void store(V v, T* to, std::size_t count) { StoreFirst(v, D(), to, count); }
  // Prefetches into the second-level cache, because the first is full of current data. An address
  // past the end does no harm, but must not be formed as a pointer.
  static HWY_INLINE void prefetch(const T* from, std::size_t elements) {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) +
                                                     elements * sizeof(T)),
                       0, 2);
  }
  static HWY_INLINE double sum_of_lanes(V v) {
    return static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), v)));
  }

  // Calls body(i, count) for every vector of n elements, of which `count` lanes are valid. Whole
  // vectors are processed separately, so that they need no test.
  template <class Body>
  static HWY_INLINE void for_vectors(std::size_t n, const Body& body) {
    const std::size_t lanes = hn::Lanes(D());
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) body(i, lanes);
    if (i < n) body(i, n - i);
  }

  // totals += K sums over `rows` rows of n elements: add(i, count, sums) adds a vector to each of
  // them. Short rows are summed in lanes together.
  template <int K, class Add>
  static HWY_INLINE void sum(std::size_t rows, std::size_t stride, std::size_t n, double* totals,
                             const Add& add) {
    const D d;
    const std::size_t lanes = hn::Lanes(d), block = block_vectors * lanes;
    const std::size_t together = std::max<std::size_t>(1, block / std::max(n, lanes));
    for (std::size_t first = 0; first < rows; first += together) {
      const std::size_t last = std::min(rows, first + together);
      for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t length = std::min(block, n - begin);
        V even[K], odd[K];
        for (int k = 0; k < K; ++k) even[k] = odd[k] = hn::Zero(d);
        for (std::size_t row = first; row < last; ++row) {
          const std::size_t end = row * stride + begin + length;
          std::size_t i = end - length;
          for (; i + 2 * lanes <= end; i += 2 * lanes) {
            add(i, lanes, even);
            add(i + lanes, lanes, odd);
          }
          for (; i < end; i += lanes) add(i, std::min(lanes, end - i), even);
        }
        for (int k = 0; k < K; ++k) totals[k] += sum_of_lanes(hn::Add(even[k], odd[k]));
      }
    }
  }

  // ---- moments

  struct AddValue {
    const T* x;
    HWY_INLINE void operator()(std::size_t i, std::size_t count, V* sums) const {
      sums[0] = hn::Add(sums[0], load(x + i, count));
    }
  };
  struct AddDeviation {
    const T* x;
    V centre;
    HWY_INLINE void operator()(std::size_t i, std::size_t count, V* sums) const {
      const V deviation = KeepFirst(D(), hn::Sub(load(x + i, count), centre), count);
      sums[0] = hn::Add(sums[0], deviation);
      sums[1] = hn::MulAdd(deviation, deviation, sums[1]);
    }
  };

  // For numbers whose sums exceed the range of T.
  static Moments<T> wide_moments(const T* x, std::size_t rows, std::size_t stride, std::size_t n,
                                 bool centred) {
    Moments<T> result;
    double total = 0;
    for (std::size_t r = 0; centred && r < rows; ++r) {
      for (std::size_t i = 0; i < n; ++i) total += static_cast<double>(x[r * stride + i]);
    }
    result.centre = static_cast<T>(total / static_cast<double>(rows * n));
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < n; ++i) {
        const double deviation =
            static_cast<double>(x[r * stride + i]) - static_cast<double>(result.centre);
        result.sum += deviation;
        result.squares += deviation * deviation;
      }
    }
    return result;
  }

  // The second pass recovers what the first one lost when it rounded the mean.
  static Moments<T> moments(const T* x, std::size_t rows, std::size_t stride, std::size_t n,
                            bool centred) {
    Moments<T> result;
    if (centred) {
      double total = 0;
      sum<1>(rows, stride, n, &total, AddValue{x});
      result.centre = static_cast<T>(total / static_cast<double>(rows * n));
    }
    double totals[2] = {0, 0};
    sum<2>(rows, stride, n, totals, AddDeviation{x, set(result.centre)});
    if (!std::isfinite(totals[1])) return wide_moments(x, rows, stride, n, centred);
    result.sum = totals[0];
    result.squares = totals[1];
    return result;
  }

  // totals[r] += K sums over n elements of each of the rows, in the order of sum(). add[r](i,
  // count, sums) adds a vector of row r. The rows' sums take turns: each addition waits for the one
  // before it in the same row.
  template <std::size_t rows, int K, class Add>
  static HWY_INLINE void sum_each(std::size_t n, double (*totals)[K], const Add* add) {
    const D d;
    const std::size_t lanes = hn::Lanes(d), block = block_vectors * lanes;
    for (std::size_t begin = 0; begin < n; begin += block) {
      const std::size_t end = std::min(n, begin + block);
      V even[rows][K], odd[rows][K];
      for (std::size_t r = 0; r < rows; ++r) {
        for (int k = 0; k < K; ++k) even[r][k] = odd[r][k] = hn::Zero(d);
      }
      std::size_t i = begin;
      for (; i + 2 * lanes <= end; i += 2 * lanes) {
        for (std::size_t r = 0; r < rows; ++r) {
          add[r](i, lanes, even[r]);
          add[r](i + lanes, lanes, odd[r]);
        }
      }
      for (; i < end; i += lanes) {
        for (std::size_t r = 0; r < rows; ++r) add[r](i, std::min(lanes, end - i), even[r]);
      }
      for (std::size_t r = 0; r < rows; ++r) {
        for (int k = 0; k < K; ++k) totals[r][k] += sum_of_lanes(hn::Add(even[r][k], odd[r][k]));
      }
    }
  }

  template <std::size_t rows>
  static void moments_of_rows(const T* x, std::size_t stride, std::size_t n, bool centred,
                              Moments<T>* moments) {
    if (centred) {
      double totals[rows][1] = {};
      AddValue add[rows];
      for (std::size_t r = 0; r < rows; ++r) add[r].x = x + r * stride;
      sum_each<rows, 1>(n, totals, add);
      for (std::size_t r = 0; r < rows; ++r) {
        moments[r].centre = static_cast<T>(totals[r][0] / static_cast<double>(n));
      }
    }
    double totals[rows][2] = {};
    AddDeviation add[rows];
    for (std::size_t r = 0; r < rows; ++r) add[r] = {x + r * stride, set(moments[r].centre)};
    sum_each<rows, 2>(n, totals, add);
    for (std::size_t r = 0; r < rows; ++r) {
      if (std::isfinite(totals[r][1])) {
        moments[r].sum = totals[r][0];
        moments[r].squares = totals[r][1];
      } else {
        moments[r] = wide_moments(x + r * stride, 1, 0, n, centred);
      }
    }
  }
  static void row_moments(const T* x, std::size_t stride, std::size_t rows, std::size_t n,
                          bool centred, Moments<T>* moments) {
    if (rows == rows_together)
      return moments_of_rows<rows_together>(x, stride, n, centred, moments);
    for (std::size_t r = 0; r < rows; ++r) {
      moments_of_rows<1>(x + r * stride, stride, n, centred, moments + r);
    }
  }

  struct Addition {
    const T *a, *b;
    T* out;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      store(hn::Add(load(a + i, count), load(b + i, count)), out + i, count);
    }
  };
  static void add(const T* a, const T* b, T* out, std::size_t n) {
    for_vectors(n, Addition{a, b, out});
  }

  // ---- rows with parameters element by element

  static HWY_INLINE V standardized(V x, V centre, V scale, V shift) {
    return hn::MulAdd(hn::Sub(x, centre), scale, shift);
  }

  struct RowForward {
    const T *x, *weight, *bias;
    T* out;
    std::size_t ahead;
    V centre, scale, shift;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      prefetch(x, ahead + i);
      const V y = standardized(load(x + i, count), centre, scale, shift);
      store(hn::MulAdd(y, load(weight + i, count), load(bias + i, count)), out + i, count);
    }
  };
  static void row_forward(const T* x, std::size_t ahead, const T* weight, const T* bias,
                          const Standardizer<T>& s, T* out, std::size_t n) {
    for_vectors(n,
                RowForward{x, weight, bias, out, ahead, set(s.centre), set(s.scale), set(s.shift)});
  }

  // Processes several rows at once, so that the gradients of the parameters are read and written
  // once for all of them.
  template <std::size_t rows, bool parameters>
  struct AddRows {
    const T *g, *x;
    std::size_t stride;
    const T* weight;
    T *grad_weight, *grad_bias;
    V centre[rows], scale[rows], shift[rows];
    // Lanes past the end are 0, because g is.
    HWY_INLINE void operator()(std::size_t i, std::size_t count, V* gradient, V* product) const {
      const V w = load(weight + i, count);
      V each_g[rows], each_product[rows];
      for (std::size_t r = 0; r < rows; ++r) {
        each_g[r] = load(g + r * stride + i, count);
        each_product[r] = hn::Mul(each_g[r], standardized(load(x + r * stride + i, count),
                                                          centre[r], scale[r], shift[r]));
        gradient[r] = hn::MulAdd(each_g[r], w, gradient[r]);
        product[r] = hn::MulAdd(each_product[r], w, product[r]);
      }
      if constexpr (parameters) {
        store(hn::Add(load(grad_weight + i, count), paired<rows>(each_product)), grad_weight + i,
              count);
        store(hn::Add(load(grad_bias + i, count), paired<rows>(each_g)), grad_bias + i, count);
      }
    }
  };
  template <std::size_t rows, bool parameters>
  static void gradient_sums_of(const T* g, const T* x, std::size_t stride, const T* weight,
                               const Standardizer<T>* s, T* grad_weight, T* grad_bias,
                               GradientSums* sums, std::size_t n) {
    const D d;
    const std::size_t lanes = hn::Lanes(d), block = block_vectors * lanes;
    AddRows<rows, parameters> add{g, x, stride, weight, grad_weight, grad_bias, {}, {}, {}};
    for (std::size_t r = 0; r < rows; ++r) {
      add.centre[r] = set(s[r].centre);
      add.scale[r] = set(s[r].scale);
      add.shift[r] = set(s[r].shift);
      sums[r] = {};
    }
    for (std::size_t begin = 0; begin < n; begin += block) {
      const std::size_t end = std::min(n, begin + block);
      V gradient[rows], product[rows];
      for (std::size_t r = 0; r < rows; ++r) gradient[r] = product[r] = hn::Zero(d);
      std::size_t i = begin;
      for (; i + lanes <= end; i += lanes) add(i, lanes, gradient, product);
      if (i < end) add(i, end - i, gradient, product);
      for (std::size_t r = 0; r < rows; ++r) {
        sums[r].gradient += sum_of_lanes(gradient[r]);
        sums[r].product += sum_of_lanes(product[r]);
      }
    }
  }

  template <std::size_t count>
  static HWY_INLINE V paired(const V* v) {
    if constexpr (count == 1) {
      return v[0];
    } else {
      return hn::Add(paired<count / 2>(v), paired<count - count / 2>(v + count / 2));
    }
  }

  static void row_gradient_sums(const T* g, const T* x, std::size_t stride, const T* weight,
                                std::size_t rows, const Standardizer<T>* s, T* grad_weight,
                                T* grad_bias, GradientSums* sums, std::size_t n) {
    const bool parameters = grad_weight != nullptr;
    if (rows == rows_together) {
      return (parameters ? &gradient_sums_of<rows_together, true>
                         : &gradient_sums_of<rows_together, false>)(g, x, stride, weight, s,
                                                                    grad_weight, grad_bias, sums,
                                                                    n);
    }
    for (std::size_t r = 0; r < rows; ++r) {
      (parameters ? &gradient_sums_of<1, true>
                  : &gradient_sums_of<1, false>)(g + r * stride, x + r * stride, stride, weight,
                                                 s + r, grad_weight, grad_bias, sums + r, n);
    }
  }

  template <bool adds>
  struct RowBackward {
    const T *g, *x, *weight, *added;
    T* out;
    std::size_t ahead;
    V centre, p, q, r;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      prefetch(g, ahead + i);
      prefetch(x, ahead + i);
      const V rest = hn::MulAdd(hn::Sub(load(x + i, count), centre), q, r);
      const V weighted = hn::Mul(load(g + i, count), load(weight + i, count));
      V gradient = hn::MulAdd(weighted, p, rest);
      if constexpr (adds) gradient = hn::Add(gradient, load(added + i, count));
      store(gradient, out + i, count);
    }
  };
  static void row_backward(const T* g, const T* x, std::size_t ahead, const T* weight, T centre,
                           T p, T q, T r, const T* added, T* out, std::size_t n) {
    const V c = set(centre), vp = set(p), vq = set(q), vr = set(r);
    if (added == nullptr) {
      for_vectors(n, RowBackward<false>{g, x, weight, g, out, ahead, c, vp, vq, vr});
    } else {
      for_vectors(n, RowBackward<true>{g, x, weight, added, out, ahead, c, vp, vq, vr});
    }
  }

  // ---- one channel

  struct Standardize {
    const T* x;
    T* out;
    V centre, scale, shift;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      store(standardized(load(x + i, count), centre, scale, shift), out + i, count);
    }
  };
  static void standardize(const T* x, const Standardizer<T>& s, T* out, std::size_t n) {
    for_vectors(n, Standardize{x, out, set(s.centre), set(s.scale), set(s.shift)});
  }

  // max(y + residual, 0); propagates NaN, which max alone would not.
  template <bool adds>
  static HWY_INLINE V rectified(V y, const T* residual, std::size_t count) {
    if constexpr (adds) y = hn::Add(y, load(residual, count));
    return hn::IfThenZeroElse(hn::Le(y, hn::Zero(D())), y);
  }

  template <bool adds>
  struct StandardizeRelu {
    const T *x, *residual;
    T* out;
    V centre, scale, shift;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const V y = standardized(load(x + i, count), centre, scale, shift);
      store(rectified<adds>(y, residual + i, count), out + i, count);
    }
  };
  static void standardize_relu(const T* x, const Standardizer<T>& s, const T* residual, T* out,
                               std::size_t n) {
    const V centre = set(s.centre), scale = set(s.scale), shift = set(s.shift);
    if (residual == nullptr) {
      for_vectors(n, StandardizeRelu<false>{x, x, out, centre, scale, shift});
    } else {
      for_vectors(n, StandardizeRelu<true>{x, residual, out, centre, scale, shift});
    }
  }

  struct ReluGradient {
    const T *g, *y;
    T* out;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const auto passes = hn::Gt(load(y + i, count), hn::Zero(D()));
      store(hn::IfThenElseZero(passes, load(g + i, count)), out + i, count);
    }
  };
  static void relu_gradient(const T* g, const T* y, T* out, std::size_t n) {
    for_vectors(n, ReluGradient{g, y, out});
  }

  struct AddGradient {
    const T* g;
    const T* x;
    V centre;
    HWY_INLINE void operator()(std::size_t i, std::size_t count, V* sums) const {
      const V gradient = load(g + i, count);  // 0 past the end, and so is the product
      sums[0] = hn::Add(sums[0], gradient);
      sums[1] = hn::MulAdd(gradient, hn::Sub(load(x + i, count), centre), sums[1]);
    }
  };
  static GradientSums gradient_sums(const T* g, const T* x, T centre, std::size_t rows,
                                    std::size_t stride, std::size_t n) {
    double totals[2] = {0, 0};
    sum<2>(rows, stride, n, totals, AddGradient{g, x, set(centre)});
    return {totals[0], totals[1]};
  }

  struct Backward {
    const T *g, *x;
    T* out;
    V centre, p, q, r;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const V rest = hn::MulAdd(hn::Sub(load(x + i, count), centre), q, r);
      store(hn::MulAdd(load(g + i, count), p, rest), out + i, count);
    }
  };
  static void backward(const T* g, const T* x, T centre, T p, T q, T r, T* out, std::size_t n) {
    for_vectors(n, Backward{g, x, out, set(centre), set(p), set(q), set(r)});
  }

  // ---- columns

  // Calls body.add<K>(i, count) for every K vectors of n elements: rows may be far apart, so each
  // of them is read in longer pieces.
  template <class Body>
  static HWY_INLINE void for_wide_columns(std::size_t n, const Body& body) {
    constexpr std::size_t together = 4;
    const std::size_t lanes = hn::Lanes(D());
    std::size_t i = 0;
    for (; i + together * lanes <= n; i += together * lanes) {
      body.template add<together>(i, lanes);
    }
    for (; i < n; i += lanes) body.template add<1>(i, std::min(lanes, n - i));
  }

  struct ColumnMoments {
    const T* x;
    std::size_t rows, stride;
    T *centre, *sum, *squares;
    template <std::size_t K>
    HWY_INLINE void add(std::size_t i, std::size_t count) const {
      const D d;
      const std::size_t lanes = hn::Lanes(d);
      V middle[K], deviations[K], squared[K];
      for (std::size_t k = 0; k < K; ++k) middle[k] = deviations[k] = squared[k] = hn::Zero(d);
      for (std::size_t r = 0; r < rows; ++r) {
        const T* row = x + r * stride + i;
        for (std::size_t k = 0; k < K; ++k) {
          middle[k] = hn::Add(middle[k], load(row + k * lanes, count));
        }
      }
      const V share = set(T(1) / static_cast<T>(rows));
      for (std::size_t k = 0; k < K; ++k) middle[k] = hn::Mul(middle[k], share);
      for (std::size_t r = 0; r < rows; ++r) {
        const T* row = x + r * stride + i;
        for (std::size_t k = 0; k < K; ++k) {
          const V deviation = hn::Sub(load(row + k * lanes, count), middle[k]);
          deviations[k] = hn::Add(deviations[k], deviation);
          squared[k] = hn::MulAdd(deviation, deviation, squared[k]);
        }
      }
      for (std::size_t k = 0; k < K; ++k) {
        store(middle[k], centre + i + k * lanes, count);
        store(deviations[k], sum + i + k * lanes, count);
        store(squared[k], squares + i + k * lanes, count);
      }
    }
  };
  static void column_moments(const T* x, std::size_t rows, std::size_t columns, std::size_t stride,
                             T* centre, T* sum, T* squares) {
    for_wide_columns(columns, ColumnMoments{x, rows, stride, centre, sum, squares});
  }

  struct ColumnGradientSums {
    const T* g;
    std::size_t g_stride;
    const T* x;
    std::size_t stride, rows;
    const T* centre;
    T *gradient, *product;
    template <std::size_t K>
    HWY_INLINE void add(std::size_t i, std::size_t count) const {
      const D d;
      const std::size_t lanes = hn::Lanes(d);
      V middle[K], gradients[K], products[K];
      for (std::size_t k = 0; k < K; ++k) {
        middle[k] = load(centre + i + k * lanes, count);
        gradients[k] = products[k] = hn::Zero(d);
      }
      for (std::size_t r = 0; r < rows; ++r) {
        const T* row = x + r * stride + i;
        const T* g_row = g + r * g_stride + i;
        for (std::size_t k = 0; k < K; ++k) {
          const V one = load(g_row + k * lanes, count);
          gradients[k] = hn::Add(gradients[k], one);
          products[k] =
              hn::MulAdd(one, hn::Sub(load(row + k * lanes, count), middle[k]), products[k]);
        }
      }
      for (std::size_t k = 0; k < K; ++k) {
        store(gradients[k], gradient + i + k * lanes, count);
        store(products[k], product + i + k * lanes, count);
      }
    }
  };
  static void column_gradient_sums(const T* g, std::size_t g_stride, const T* x, std::size_t stride,
                                   std::size_t rows, std::size_t columns, const T* centre,
                                   T* gradient, T* product) {
    for_wide_columns(columns,
                     ColumnGradientSums{g, g_stride, x, stride, rows, centre, gradient, product});
  }

  struct ColumnStandardize {
    const T *x, *centre, *scale, *shift;
    T* out;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      store(standardized(load(x + i, count), load(centre + i, count), load(scale + i, count),
                         load(shift + i, count)),
            out + i, count);
    }
  };
  static void column_standardize(const T* x, const T* centre, const T* scale, const T* shift,
                                 T* out, std::size_t n) {
    for_vectors(n, ColumnStandardize{x, centre, scale, shift, out});
  }

  template <bool adds>
  struct ColumnStandardizeRelu {
    const T *x, *centre, *scale, *shift, *residual;
    T* out;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const V y = standardized(load(x + i, count), load(centre + i, count), load(scale + i, count),
                               load(shift + i, count));
      store(rectified<adds>(y, residual + i, count), out + i, count);
    }
  };
  static void column_standardize_relu(const T* x, const T* centre, const T* scale, const T* shift,
                                      const T* residual, T* out, std::size_t n) {
    if (residual == nullptr) {
      for_vectors(n, ColumnStandardizeRelu<false>{x, centre, scale, shift, x, out});
    } else {
      for_vectors(n, ColumnStandardizeRelu<true>{x, centre, scale, shift, residual, out});
    }
  }

  struct ColumnBackward {
    const T *g, *x, *centre, *p, *q, *r;
    T* out;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const V deviation = hn::Sub(load(x + i, count), load(centre + i, count));
      const V rest = hn::MulAdd(deviation, load(q + i, count), load(r + i, count));
      store(hn::MulAdd(load(g + i, count), load(p + i, count), rest), out + i, count);
    }
  };
  static void column_backward(const T* g, const T* x, const T* centre, const T* p, const T* q,
                              const T* r, T* out, std::size_t n) {
    for_vectors(n, ColumnBackward{g, x, centre, p, q, r, out});
  }
};

template <class T>
void fill_normalization_kernels(NormalizationKernels<T>* kernels) {
  using N = Normalization<T>;
  *kernels = {&N::moments,
              &N::row_moments,
              &N::add,
              &N::row_forward,
              &N::row_gradient_sums,
              &N::row_backward,
              &N::standardize,
              &N::standardize_relu,
              &N::relu_gradient,
              &N::gradient_sums,
              &N::backward,
              &N::column_moments,
              &N::column_gradient_sums,
              &N::column_standardize,
              &N::column_standardize_relu,
              &N::column_backward};
}
template void fill_normalization_kernels(NormalizationKernels<float>*);
template void fill_normalization_kernels(NormalizationKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const NormalizationKernels<T>& normalization_kernels() {
  static const NormalizationKernels<T> kernels = [] {
    NormalizationKernels<T> filled;
    EXTENSOR_DISPATCH(fill_normalization_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const NormalizationKernels<float>& normalization_kernels();
template const NormalizationKernels<double>& normalization_kernels();

}  // namespace extensor::cpu
#endif
