#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <algorithm>
#include <limits>

#include "backend/cpu/attention/kernels.h"
#include "backend/cpu/simd/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Attention {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::int64_t lanes = hn::MaxLanes(D());
  static constexpr std::int64_t width = 2 * lanes;
  static constexpr T lowest = -std::numeric_limits<T>::infinity();

  // Adds the bias and masks the keys that come after a query.
  static void apply_masks(const ScorePanel<T>& panel) {
    const D d;
    if (panel.bias != nullptr) {
      for (std::int64_t at = 0; at < panel.keys * width; at += lanes) {
        T* scores = panel.scores + at;
        hn::StoreU(hn::Add(hn::LoadU(d, scores), hn::LoadU(d, panel.bias + at)), d, scores);
      }
    }
    const V hidden = hn::Set(d, lowest), query = hn::Iota(d, T(0));
    const V upper_query = hn::Iota(d, static_cast<T>(lanes));
    for (std::int64_t j = std::max<std::int64_t>(0, panel.first_hidden + 1); j < panel.keys; ++j) {
      T* row = panel.scores + j * width;
      const V key = hn::Set(d, static_cast<T>(j - panel.first_hidden));
      hn::StoreU(hn::IfThenElse(hn::Lt(query, key), hidden, hn::LoadU(d, row)), d, row);
      T* upper = row + lanes;
      hn::StoreU(hn::IfThenElse(hn::Lt(upper_query, key), hidden, hn::LoadU(d, upper)), d, upper);
    }
  }

  static void soften(const ScorePanel<T>& panel) {
    const D d;
    apply_masks(panel);
    T* const scores = panel.scores;
    const std::int64_t pairs = panel.keys / 2 * 2;
    const V before0 = hn::LoadU(d, panel.maximum), before1 = hn::LoadU(d, panel.maximum + lanes);
    // NaN may be lost here; the exponentials restore it.
    V m0 = before0, m1 = before1, m2 = m0, m3 = m1;
    for (std::int64_t j = 0; j < pairs; j += 2) {
      const T* row = scores + j * width;
      m0 = hn::Max(m0, hn::LoadU(d, row));
      m1 = hn::Max(m1, hn::LoadU(d, row + lanes));
      m2 = hn::Max(m2, hn::LoadU(d, row + 2 * lanes));
      m3 = hn::Max(m3, hn::LoadU(d, row + 3 * lanes));
    }
    if (pairs < panel.keys) {
      m0 = hn::Max(m0, hn::LoadU(d, scores + pairs * width));
      m1 = hn::Max(m1, hn::LoadU(d, scores + pairs * width + lanes));
    }
    m0 = hn::Max(m0, m2);
    m1 = hn::Max(m1, m3);
    hn::StoreU(m0, d, panel.maximum);
    hn::StoreU(m1, d, panel.maximum + lanes);
    // If no key was seen yet, −∞ − −∞ would be NaN.
    const V none = hn::Set(d, lowest);
    const V shift0 = hn::IfThenZeroElse(hn::Eq(m0, none), m0);
    const V shift1 = hn::IfThenZeroElse(hn::Eq(m1, none), m1);

    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    const auto exponential = [&](T* at, V shift) HWY_ATTR {
      const V e = ExpOfNegative(d, hn::Sub(hn::LoadU(d, at), shift));
      hn::StoreU(e, d, at);
      return e;
    };
    for (std::int64_t j = 0; j < pairs; j += 2) {
      T* row = scores + j * width;
      s0 = hn::Add(s0, exponential(row, shift0));
      s1 = hn::Add(s1, exponential(row + lanes, shift1));
      s2 = hn::Add(s2, exponential(row + 2 * lanes, shift0));
      s3 = hn::Add(s3, exponential(row + 3 * lanes, shift1));
    }
    if (pairs < panel.keys) {
      s0 = hn::Add(s0, exponential(scores + pairs * width, shift0));
      s1 = hn::Add(s1, exponential(scores + pairs * width + lanes, shift1));
    }
    const V c0 = Exp(d, hn::Sub(before0, shift0)), c1 = Exp(d, hn::Sub(before1, shift1));
    hn::StoreU(c0, d, panel.correction);
    hn::StoreU(c1, d, panel.correction + lanes);
    T* sum = panel.sum;
    hn::StoreU(hn::MulAdd(hn::LoadU(d, sum), c0, hn::Add(s0, s2)), d, sum);
    sum += lanes;
    hn::StoreU(hn::MulAdd(hn::LoadU(d, sum), c1, hn::Add(s1, s3)), d, sum);
  }

  template <bool kBias>
  static HWY_INLINE void gradient_vector(const GradientRow<T>& row, std::int64_t j, V logsumexp,
                                         V inner) {
    const D d;
    V score = hn::LoadU(d, row.scores + j);
    if constexpr (kBias) score = hn::Add(score, hn::LoadU(d, row.bias + j));
    const V p = Exp(d, hn::Sub(score, logsumexp));
    const V gradient = hn::LoadU(d, row.gradients + j);
    hn::StoreU(p, d, row.scores + j);
    hn::StoreU(hn::Mul(p, hn::Sub(gradient, inner)), d, row.gradients + j);
  }

  template <bool kBias>
  static HWY_INLINE void gradient_vectors(const GradientRow<T>& row) {
    const D d;
    const V logsumexp = hn::Set(d, row.logsumexp), inner = hn::Set(d, row.inner);
    std::int64_t j = 0;
    for (; j + 2 * lanes <= row.n; j += 2 * lanes) {
      gradient_vector<kBias>(row, j, logsumexp, inner);
      gradient_vector<kBias>(row, j + lanes, logsumexp, inner);
    }
    for (; j + lanes <= row.n; j += lanes) gradient_vector<kBias>(row, j, logsumexp, inner);
    if (j == row.n) return;
    // The remaining elements use a separate vector.
    HWY_ALIGN T scores[hn::MaxLanes(D())] = {};
    HWY_ALIGN T gradients[hn::MaxLanes(D())] = {};
    HWY_ALIGN T bias[hn::MaxLanes(D())] = {};
    const std::int64_t rest = row.n - j;
    for (std::int64_t i = 0; i < rest; ++i) {
      scores[i] = row.scores[j + i];
      gradients[i] = row.gradients[j + i];
      if constexpr (kBias) bias[i] = row.bias[j + i];
    }
    gradient_vector<kBias>({scores, gradients, bias, lanes, T(0), T(0)}, 0, logsumexp, inner);
    for (std::int64_t i = 0; i < rest; ++i) {
      row.scores[j + i] = scores[i];
      row.gradients[j + i] = gradients[i];
    }
  }

  static void gradient_row(const GradientRow<T>& row) {
    if (row.bias != nullptr) return gradient_vectors<true>(row);
    gradient_vectors<false>(row);
  }

  static void scale_rows(T* rows, std::int64_t count, std::int64_t columns, std::int64_t row_stride,
                         const T* factors) {
    const D d;
    for (std::int64_t i = 0; i < count; ++i, rows += row_stride) {
      const V factor = hn::Set(d, factors[i]);
      std::int64_t j = 0;
      for (; j + lanes <= columns; j += lanes) {
        hn::StoreU(hn::Mul(hn::LoadU(d, rows + j), factor), d, rows + j);
      }
      for (; j < columns; ++j) rows[j] *= factors[i];
    }
  }

  static T dot(const T* a, const T* b, std::int64_t n) {
    const D d;
    V s0 = hn::Zero(d), s1 = s0;
    std::int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
      s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
    }
    HWY_ALIGN T sums[hn::MaxLanes(D())];
    hn::Store(hn::Add(s0, s1), d, sums);
    double total = 0;
    for (std::int64_t lane = 0; lane < lanes; ++lane) total += static_cast<double>(sums[lane]);
    for (; i < n; ++i) total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return static_cast<T>(total);
  }
};

template <class T>
void fill_attention_kernels(AttentionKernels<T>* kernels) {
  using A = Attention<T>;
  *kernels = {A::width, &A::soften, &A::gradient_row, &A::scale_rows, &A::dot};
}
template void fill_attention_kernels(AttentionKernels<float>*);
template void fill_attention_kernels(AttentionKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const AttentionKernels<T>& attention_kernels() {
  static const AttentionKernels<T> kernels = [] {
    AttentionKernels<T> filled;
    EXTENSOR_DISPATCH(fill_attention_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const AttentionKernels<float>& attention_kernels();
template const AttentionKernels<double>& attention_kernels();

}  // namespace extensor::cpu
#endif
