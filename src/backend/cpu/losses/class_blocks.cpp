// The cross-entropy of rows of logits that exist a block of classes at a time: the sums of a row
// are carried from block to block, and the gradient of a block needs only them.
//
// With m the largest logit, S = Σ exp(x − m) and a target t (weights included) of total T, a row's
// loss is Σ t · ((m − x) + log S), and the gradient of x is T · softmax(x) − t.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/losses/kernels.h"
#include "backend/cpu/losses/losses.h"
#include "backend/cpu/losses/partial_sums.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::ClassBlockCall;
using backend::ClassBlockStep;
using backend::LossReduction;

// A row of ClassBlockCall::statistics.
struct RowStatistics {
  double m, others, named, spread_logits, spread_total;
};
static_assert(sizeof(RowStatistics) == ClassBlockCall::statistics_per_row * sizeof(double));

// The softmax of a whole row, with the named class's term apart: its row may hold almost nothing
// else.
struct RowSoftmax {
  double m, named, others;

  explicit RowSoftmax(const RowStatistics& row) : m(std::max(row.m, row.named)) {
    named = row.named == m ? 1 : std::exp(row.named - m);
    others = row.others == 0 || row.m == m ? row.others : row.others * std::exp(row.m - m);
  }
  double sum() const { return named + others; }
  double log_sum() const { return named == 1 ? std::log1p(others) : std::log(sum()); }
};

template <class T>
class ClassBlockRunner {
 public:
  explicit ClassBlockRunner(const ClassBlockCall& call)
      : call_(call),
        statistics_(reinterpret_cast<RowStatistics*>(call.statistics)),
        weight_(reinterpret_cast<const T*>(call.weight)),
        smoothing_(call.label_smoothing) {}

  void add() const {
    for_each_row([&](std::int64_t row, const T* x) {
      RowStatistics& sums = statistics_[row];
      if (call_.first_class == 0) sums = {-std::numeric_limits<double>::infinity(), 0, 0, 0, 0};
      if (!is_kept(row)) return;
      SumOfExp<T> others{static_cast<T>(sums.m), sums.others};
      const std::int64_t at = call_.indices[row] - call_.first_class;
      if (at < 0 || at >= call_.class_count) {
        kernels_.add_exponentials(x, block_length(), others);
      } else {
        const auto before = static_cast<std::size_t>(at);
        sums.named = static_cast<double>(x[at]);
        kernels_.add_exponentials(x, before, others);
        kernels_.add_exponentials(x + before + 1, block_length() - before - 1, others);
      }
      sums.m = static_cast<double>(others.m);
      sums.others = others.sum;
      if (smoothing_ == 0) return;
      const SpreadSums spread = kernels_.spread_sums(x, T(0), this->spread(), block_length());
      sums.spread_logits -= spread.gap;
      sums.spread_total += spread.total;
    });
  }

  void finish() const {
    std::vector<double> losses(static_cast<std::size_t>(call_.rows));
    for (std::int64_t row = 0; row < call_.rows; ++row) {
      losses[static_cast<std::size_t>(row)] = is_kept(row) ? row_loss(row) : 0;
    }
    if (call_.reduction != LossReduction::none) {
      const double total = pairwise_total(losses.data(), losses.size());
      return write_number(total * scale(), call_.out_dtype, call_.out);
    }
    for (std::int64_t row = 0; row < call_.rows; ++row) {
      write_number(losses[static_cast<std::size_t>(row)], call_.out_dtype, call_.out, row);
    }
  }

  void gradient() const {
    const bool each = call_.reduction == LossReduction::none;
    const T* g = reinterpret_cast<const T*>(call_.g);
    const double common = each ? 1 : scale();
    for_each_row([&](std::int64_t row, const T* x) {
      T* out = reinterpret_cast<T*>(call_.out) + (row - call_.first_row) * call_.class_count;
      if (!is_kept(row)) {
        std::fill_n(out, call_.class_count, T(0));
        return;
      }
      row_gradient(row, x, common * (g == nullptr ? 1 : static_cast<double>(g[each ? row : 0])),
                   out);
    });
  }

 private:
  template <class Body>
  void for_each_row(const Body& body) const {
    const std::int64_t grain =
        std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, call_.class_count));
    detail::parallel_for(call_.row_count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        body(call_.first_row + i, reinterpret_cast<const T*>(call_.x) + i * call_.class_count);
      }
    });
  }

  std::size_t block_length() const { return static_cast<std::size_t>(call_.class_count); }
  bool is_kept(std::int64_t row) const { return call_.indices[row] != call_.ignore_index; }
  double weight_of(std::int64_t index) const {
    return weight_ == nullptr ? 1 : static_cast<double>(weight_[index]);
  }
  // The part of a target that is spread over the classes of the block.
  ClassSpread<T> spread() const {
    return {nullptr, weight_ == nullptr ? nullptr : weight_ + call_.first_class, T(0),
            static_cast<T>(smoothing_ / static_cast<double>(call_.classes))};
  }
  // The mean divides by the weights of the kept rows' targets.
  double scale() const {
    if (call_.reduction != LossReduction::mean) return 1;
    const double total =
        sum_of_pieces(call_.rows, 4096, [this](std::int64_t begin, std::int64_t end) {
          double sum = 0;
          for (std::int64_t row = begin; row < end; ++row) {
            if (is_kept(row)) sum += weight_of(call_.indices[row]);
          }
          return sum;
        });
    return total == 0 ? 0 : 1 / total;
  }

  double row_loss(std::int64_t row) const {
    const RowStatistics& sums = statistics_[row];
    const RowSoftmax softmax(sums);
    const double logarithm = softmax.log_sum();
    const double named = (1 - smoothing_) * weight_of(call_.indices[row]);
    const double loss = named * ((softmax.m - sums.named) + logarithm);
    if (smoothing_ == 0) return loss;
    return loss + (softmax.m + logarithm) * sums.spread_total - sums.spread_logits;
  }

  void row_gradient(std::int64_t row, const T* x, double factor, T* out) const {
    const RowStatistics& sums = statistics_[row];
    const RowSoftmax softmax(sums);
    const std::int64_t index = call_.indices[row], at = index - call_.first_class;
    const double named = (1 - smoothing_) * weight_of(index);
    const double total = named + sums.spread_total;
    const T largest = static_cast<T>(softmax.m);
    const T scale = static_cast<T>(factor * total / softmax.sum());
    if (smoothing_ == 0) {
      kernels_.scaled_exp(x, largest, scale, out, block_length());
    } else {
      kernels_.scaled_exp_minus_spread(x, largest, scale, spread(), static_cast<T>(factor), out,
                                       block_length());
    }
    if (at < 0 || at >= call_.class_count) return;
    // T · softmax − t of the named class, computed from the other classes: directly it may be
    // almost 1 − 1.
    const double own =
        smoothing_ == 0 ? 0 : weight_of(index) * smoothing_ / static_cast<double>(call_.classes);
    const double rest = total - named - own;
    out[at] = static_cast<T>(factor * (rest * softmax.named - (named + own) * softmax.others) /
                             softmax.sum());
  }

  const ClassBlockCall& call_;
  const ClassKernels<T>& kernels_ = class_kernels<T>();
  RowStatistics* const statistics_;
  const T* const weight_;
  const double smoothing_;
};

template <class T>
void run(const ClassBlockCall& call) {
  const ClassBlockRunner<T> runner(call);
  switch (call.step) {
    case ClassBlockStep::add:
      return runner.add();
    case ClassBlockStep::finish:
      return runner.finish();
    case ClassBlockStep::gradient:
      return runner.gradient();
  }
}

}  // namespace

void class_block(const ClassBlockCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
