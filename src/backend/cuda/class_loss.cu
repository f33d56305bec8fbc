// The cross-entropy of dense rows of logits: a warp or a block for each row. The forward reads each
// logit once, and keeps the sums that the backward needs to do so, too.
#include "backend/cuda/class_rows.cuh"
#include "backend/cuda/finish.cuh"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

template <class S>
struct ClassLossArguments {
  using C = Compute<S>;
  bool softmax;
  bool each;  // no reduction
  std::int64_t rows, n;
  const S* x;
  const std::int64_t* indices;  // or null
  const S* probabilities;       // or null
  const C* weight;              // or null
  std::int64_t ignored;
  double smoothing;
  const C* g;
  const double* scale;  // of the mean; null: `common`
  double common;
  double* losses;  // of the rows, or null: written to `out`
  S* out;
  S* gradient_x;
  S* gradient_probabilities;
  double* statistics;

  __device__ bool is_kept(std::int64_t row) const {
    return indices == nullptr || indices[row] != ignored;
  }
  __device__ double weight_of(std::int64_t index) const {
    return weight == nullptr ? 1 : static_cast<double>(weight[index]);
  }
  // Whether part of the target is spread over the classes, in addition to the one that an index
  // names.
  __device__ bool has_spread() const { return indices == nullptr || smoothing > 0; }
  __device__ ClassSpread<S> spread(std::int64_t row) const {
    return {probabilities == nullptr ? nullptr : probabilities + row * n, weight,
            static_cast<C>(1 - smoothing), static_cast<C>(smoothing / static_cast<double>(n))};
  }
};

// m and Σ exp(x − m), with the named class's term apart: its row may hold almost nothing else.
template <class C>
struct RowSoftmax {
  C m;
  double named, others;
  __device__ double sum() const { return named + others; }
  __device__ double log_sum() const { return named == 1 ? log1p(others) : log(sum()); }
};

template <int width, class S, class G>
__device__ RowSoftmax<Compute<S>> softmax_of(const ClassLossArguments<S>& a, G& group,
                                             std::int64_t row, std::int64_t index, bool backward) {
  using C = Compute<S>;
  const S* x = a.x + row * a.n;
  const C named = index < 0 ? -infinity<C>() : load_as_compute(x[index]);
  SumOfExp<C> others{named, 0};
  if (backward && a.statistics != nullptr) {
    others = {static_cast<C>(a.statistics[2 * row]), a.statistics[2 * row + 1]};
  } else {
    others = group.reduce(sum_exponentials<width>(group, x, a.n, index, others),
                          SumOfExp<C>{-infinity<C>(), 0}, MergeSums<C>());
    if (!backward && a.statistics != nullptr && group.rank() == 0) {
      a.statistics[2 * row] = static_cast<double>(others.m);
      a.statistics[2 * row + 1] = others.sum;
    }
  }
  if (index < 0) return {others.m, 0, others.sum};
  const double below = static_cast<double>(named) - static_cast<double>(others.m);
  return {others.m, below == 0 ? 1 : exp(below), others.sum};
}

template <int width, class S, class G>
__device__ double row_loss(const ClassLossArguments<S>& a, G& group, std::int64_t row) {
  const std::int64_t index = a.indices == nullptr ? -1 : a.indices[row];
  const S* x = a.x + row * a.n;
  if (!a.softmax) return -a.weight_of(index) * static_cast<double>(load_as_compute(x[index]));
  if (a.n == 0) return 0;
  const auto softmax = softmax_of<width>(a, group, row, index, false);
  const double m = static_cast<double>(softmax.m), logarithm = softmax.log_sum();
  double loss = 0;
  if (index >= 0) {
    loss = (1 - a.smoothing) * a.weight_of(index) *
           ((m - static_cast<double>(load_as_compute(x[index]))) + logarithm);
  }
  if (a.has_spread()) {
    const SpreadSums sums = group.reduce(sum_spread(group, x, a.n, softmax.m, a.spread(row)),
                                         SpreadSums{0, 0}, MergeSpreads());
    loss += sums.gap + sums.total * logarithm;
  }
  return loss;
}

template <class S, int width, bool is_block>
__global__ void __launch_bounds__(256, 4) forward_rows(ClassLossArguments<S> a) {
  Group<is_block> group;
  for (std::int64_t row = group.number(); row < a.rows; row += group.count()) {
    if (a.statistics != nullptr && group.rank() < 2) a.statistics[2 * row + group.rank()] = 0;
    __syncwarp();
    const double loss = a.is_kept(row) ? row_loss<width>(a, group, row) : 0;
    if (group.rank() != 0) continue;
    if (a.losses != nullptr) {
      a.losses[row] = loss;
    } else {
      a.out[row] = store_from_compute<S>(loss);
    }
  }
}

template <class S, int width, bool is_block>
__global__ void __launch_bounds__(256, 4) backward_rows(ClassLossArguments<S> a) {
  using C = Compute<S>;
  Group<is_block> group;
  const double common = a.scale == nullptr ? a.common : *a.scale;
  for (std::int64_t row = group.number(); row < a.rows; row += group.count()) {
    const S* x = a.x + row * a.n;
    S* out = a.gradient_x + row * a.n;
    const std::int64_t index = a.indices == nullptr ? -1 : a.indices[row];
    const bool kept = a.is_kept(row);
    const double factor = static_cast<double>(a.g[a.each ? row : 0]) * common;
    const double named = index < 0 || !kept ? 0 : (1 - a.smoothing) * a.weight_of(index);
    if (!kept || !a.softmax) {
      const C zeros[width] = {};
      for (std::int64_t at = group.rank() * width; at < a.n; at += group.size() * width) {
        C values[width] = {};
        if (kept && index >= at && index < at + width) {
#pragma unroll
          for (int k = 0; k < width; ++k) {
            if (at + k == index) values[k] = static_cast<C>(-factor * named);
          }
        }
        store_pack<width>(kept ? values : zeros, out, at, a.n);
      }
      continue;
    }
    if (a.n == 0) continue;
    const auto softmax = softmax_of<width>(a, group, row, index, true);
    if (!a.has_spread()) {
      const double scale = factor * named / softmax.sum();
      // The named class has softmax − 1, computed from the other classes.
      write_gradient<width, S>(group, x, a.n, softmax.m, static_cast<C>(scale), nullptr, C(0),
                               index, static_cast<C>(-scale * softmax.others), out);
      continue;
    }
    const ClassSpread<S> target = a.spread(row);
    double spread_total = static_cast<double>(target.share) * static_cast<double>(a.n);
    if (target.probabilities != nullptr || target.weight != nullptr) {
      spread_total = group
                         .reduce(sum_spread(group, x, a.n, softmax.m, target), SpreadSums{0, 0},
                                 MergeSpreads())
                         .total;
    }
    const double total = named + spread_total;
    C of_named = 0;
    if (index >= 0) {
      // T · softmax − t from both of its parts, for the same reason.
      const double spread_part = a.weight_of(index) * a.smoothing / static_cast<double>(a.n);
      const double rest = total - named - spread_part;
      of_named = static_cast<C>(
          factor * (rest * softmax.named - (named + spread_part) * softmax.others) / softmax.sum());
    }
    write_gradient<width, S>(group, x, a.n, softmax.m,
                             static_cast<C>(factor * total / softmax.sum()), &target,
                             static_cast<C>(factor), index, of_named, out);
    if (a.gradient_probabilities == nullptr) continue;
    const C log_sum = static_cast<C>(softmax.log_sum());
    const C share = static_cast<C>(factor * (1 - a.smoothing));
    for (std::int64_t c = group.rank(); c < a.n; c += group.size()) {
      C value = (softmax.m - load_as_compute(x[c])) + log_sum;
      if (a.weight != nullptr) value *= a.weight[c];
      a.gradient_probabilities[row * a.n + c] = store_from_compute<S>(value * share);
    }
  }
}

// One block.
template <class S>
__global__ void __launch_bounds__(1024) reduce_losses(ClassLossArguments<S> a, bool mean) {
  Group<true> group;
  double total = 0;
  for (std::int64_t row = threadIdx.x; row < a.rows; row += blockDim.x) total += a.losses[row];
  total = group.reduce(total, 0.0, Plus());
  double divisor = mean ? static_cast<double>(a.rows) : 1;
  if (mean && a.indices != nullptr) {
    divisor = kept_weight(group, a.indices, a.weight, a.rows, a.ignored);
  }
  if (threadIdx.x == 0) a.out[0] = store_from_compute<S>(divisor == 0 ? 0 : total / divisor);
}

template <class S, bool backward>
void launch_rows(const ClassLossArguments<S>& a, bool vectors) {
  const auto launch = [&]<int width>() {
    if (a.n <= 1024) {
      const unsigned grid = grid_for(divide_up(a.rows, 8));
      if constexpr (backward) {
        backward_rows<S, width, false><<<grid, 256, 0, stream()>>>(a);
      } else {
        forward_rows<S, width, false><<<grid, 256, 0, stream()>>>(a);
      }
    } else {
      const unsigned grid = grid_for(a.rows), threads = 256;
      if constexpr (backward) {
        backward_rows<S, width, true><<<grid, threads, 0, stream()>>>(a);
      } else {
        forward_rows<S, width, true><<<grid, threads, 0, stream()>>>(a);
      }
    }
    launched("class_loss");
  };
  if (vectors) {
    launch.template operator()<pack_width<S>>();
  } else {
    launch.template operator()<1>();
  }
}

template <class S>
void run(const ClassLossCall& call) {
  using C = Compute<S>;
  ClassLossArguments<S> a{};
  a.softmax = call.softmax;
  a.each = call.reduction == LossReduction::none;
  a.rows = call.rows;
  a.n = call.classes;
  a.x = elements<S>(call.x);
  a.indices = call.indices;
  a.probabilities = elements<S>(call.probabilities);
  a.weight = elements<C>(call.weight);
  a.ignored = call.ignore_index;
  a.smoothing = call.label_smoothing;
  a.g = elements<C>(call.g);
  a.out = elements<S>(call.out);
  a.gradient_x = elements<S>(call.gradient_x);
  a.gradient_probabilities = elements<S>(call.gradient_probabilities);
  a.statistics = call.statistics;
  const bool vectors = a.n % pack_width<S> == 0 && are_aligned(call.x, call.gradient_x);
  const bool mean = call.reduction == LossReduction::mean;
  if (call.g == nullptr) {
    const Scratch losses(a.each ? 1 : static_cast<std::size_t>(call.rows + 1) * sizeof(double),
                         "class_loss");
    if (!a.each) a.losses = losses.as<double>();
    if (a.rows != 0) launch_rows<S, false>(a, vectors);
    if (a.each) return;
    reduce_losses<<<1, 1024, 0, stream()>>>(a, mean);
    return launched("class_loss");
  }
  if (a.rows == 0 || a.n == 0) return;
  const Scratch scale(sizeof(double), "class_loss");
  a.common = mean ? 1 / static_cast<double>(a.rows) : 1;
  if (mean && a.indices != nullptr) {
    write_mean_scale<<<1, 1024, 0, stream()>>>(a.indices, a.weight, a.rows, a.ignored,
                                               scale.as<double>());
    launched("class_loss");
    a.scale = scale.as<double>();
  }
  launch_rows<S, true>(a, vectors);
}

}  // namespace

void class_loss(const ClassLossCall& call) {
  with_float_type(call.dtype, [&]<class S>() { run<S>(call); });
}

}  // namespace extensor::backend::cuda
