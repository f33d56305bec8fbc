// The cross-entropy of dense rows of logits, a row at a time. The forward is one pass for the
// maximum and the sum of exponentials; the backward adds the gradient while the row is in the
// cache. Rows of few classes are computed side by side, one in each lane of a vector.
//
// With m the largest logit, L = log Σ exp(x − m) and a target t (weights included) of total T, a
// row's loss is Σ t · ((m − x) + L), and the gradient of x is T · softmax(x) − t.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/convert.h"
#include "backend/cpu/losses/kernels.h"
#include "backend/cpu/losses/losses.h"
#include "backend/cpu/losses/partial_sums.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::ClassLossCall;
using backend::LossReduction;

template <class T>
class ClassLossRunner {
 public:
  explicit ClassLossRunner(const ClassLossCall& call)
      : call_(call),
        kernels_(class_kernels<T>()),
        n_(static_cast<std::size_t>(call.classes)),
        row_bytes_(call.classes * static_cast<std::int64_t>(itemsize(call.dtype))),
        weight_(reinterpret_cast<const T*>(call.weight)),
        smoothing_(call.label_smoothing),
        grain_(std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, call.classes))) {
    if (call.dtype != dtype_of<T>) {
      widen_ = convert_loop(call.dtype, dtype_of<T>);
      narrow_ = convert_loop(dtype_of<T>, call.dtype);
    }
  }

  void forward() const {
    detail::Scratch<double> losses(static_cast<std::size_t>(call_.rows));
    if (runs_by_columns()) {
      for_each_chunk([&](Chunk& chunk) { chunk_losses(chunk, losses.data()); });
    } else {
      for_each_row([&](std::int64_t row, Buffers& buffers) {
        if (call_.statistics != nullptr) std::fill_n(call_.statistics + 2 * row, 2, 0.0);
        losses[static_cast<std::size_t>(row)] = is_kept(row) ? row_loss(row, buffers) : 0;
      });
    }
    if (call_.reduction == LossReduction::none) {
      for (std::int64_t row = 0; row < call_.rows; ++row) {
        write_number(losses[static_cast<std::size_t>(row)], call_.dtype, call_.out, row);
      }
      return;
    }
    write_number(pairwise_total(losses.data(), losses.size()) * scale(), call_.dtype, call_.out);
  }

  void backward() const {
    const bool each = call_.reduction == LossReduction::none;
    const T* g = reinterpret_cast<const T*>(call_.g);
    const double common = each ? 1 : scale();
    if (runs_by_columns()) {
      return for_each_chunk([&](Chunk& chunk) { chunk_gradient(chunk, common, each); });
    }
    for_each_row([&](std::int64_t row, Buffers& buffers) {
      T* gradient = buffers.row_of(call_.gradient_x, row, 2);
      if (!is_kept(row) || n_ == 0) {
        std::memset(gradient, 0, n_ * sizeof(T));
      } else {
        const double factor = static_cast<double>(g[each ? row : 0]) * common;
        row_gradient(row, factor, gradient, buffers);
      }
      buffers.finish(gradient, call_.gradient_x, row);
    });
  }

 private:
  // Rows of halves, widened.
  struct Buffers {
    const ClassLossRunner& runner;
    T* wide;  // three rows, or null

    const T* read(const std::byte* from, std::int64_t row, std::size_t slot) const {
      const std::byte* source = from + row * runner.row_bytes_;
      if (runner.widen_ == nullptr) return reinterpret_cast<const T*>(source);
      runner.widen_(source, wide + slot * runner.n_, runner.n_);
      return wide + slot * runner.n_;
    }
    T* row_of(std::byte* out, std::int64_t row, std::size_t slot) const {
      return runner.narrow_ != nullptr ? wide + slot * runner.n_
                                       : reinterpret_cast<T*>(out + row * runner.row_bytes_);
    }
    void finish(const T* result, std::byte* out, std::int64_t row) const {
      if (runner.narrow_ != nullptr)
        runner.narrow_(result, out + row * runner.row_bytes_, runner.n_);
    }
  };

  template <class Body>
  void for_each_row(Body&& body) const {
    const int threads = detail::threads_for(call_.rows, grain_);
    // Allocated here, so that the result stays unwritten if memory runs out.
    const std::size_t room = widen_ == nullptr ? 0 : 3 * n_;
    detail::Scratch<T> wide(static_cast<std::size_t>(threads) * room);
    detail::parallel_for(
        threads, call_.rows, grain_, [&](std::int64_t begin, std::int64_t end, int slot) {
          Buffers buffers{*this, wide.data() + static_cast<std::size_t>(slot) * room};
          for (std::int64_t row = begin; row < end; ++row) body(row, buffers);
        });
  }

  bool is_kept(std::int64_t row) const {
    return call_.indices == nullptr || call_.indices[row] != call_.ignore_index;
  }
  double weight_of(std::int64_t index) const {
    return weight_ == nullptr ? 1 : static_cast<double>(weight_[index]);
  }
  // The divisor of the mean: the rows, or the weights of the kept rows' targets.
  double scale() const {
    if (call_.reduction != LossReduction::mean) return 1;
    double total = static_cast<double>(call_.rows);
    if (call_.indices != nullptr) {
      total = sum_of_pieces(call_.rows, 4096, [this](std::int64_t begin, std::int64_t end) {
        if (weight_ == nullptr) {
          const std::int64_t* indices = call_.indices;
          const auto ignored = std::count(indices + begin, indices + end, call_.ignore_index);
          return static_cast<double>(end - begin - ignored);
        }
        double sum = 0;
        for (std::int64_t row = begin; row < end; ++row) {
          if (is_kept(row)) sum += weight_of(call_.indices[row]);
        }
        return sum;
      });
    }
    return total == 0 ? 0 : 1 / total;
  }

  // Whether part of the target is spread over the classes, in addition to the one that an index
  // names.
  bool has_spread() const { return call_.indices == nullptr || smoothing_ > 0; }
  ClassSpread<T> spread(const T* probabilities) const {
    return {probabilities, weight_, static_cast<T>(1 - smoothing_),
            static_cast<T>(smoothing_ / static_cast<double>(n_))};
  }

  // m and Σ exp(x − m), with the named class's term apart: its row may hold almost nothing else.
  struct Softmax {
    T m = 0;
    double named = 0, others = 0;
    double sum() const { return named + others; }
    double log_sum() const { return named == 1 ? std::log1p(others) : std::log(sum()); }
  };
  Softmax softmax_of(const T* x, std::int64_t row, std::int64_t index) const {
    SumOfExp<T> others{-std::numeric_limits<T>::infinity(), 0};
    const auto at = static_cast<std::size_t>(index);
    double* statistics = call_.statistics == nullptr ? nullptr : call_.statistics + 2 * row;
    if (call_.g != nullptr && statistics != nullptr) {
      others = {static_cast<T>(statistics[0]), statistics[1]};
    } else if (index < 0) {
      kernels_.add_exponentials(x, n_, others);
    } else {
      others.m = x[at];
      kernels_.add_exponentials(x, at, others);
      kernels_.add_exponentials(x + at + 1, n_ - at - 1, others);
    }
    if (call_.g == nullptr && statistics != nullptr) {
      statistics[0] = static_cast<double>(others.m);
      statistics[1] = others.sum;
    }
    if (index < 0) return {others.m, 0, others.sum};
    const double below = static_cast<double>(x[at]) - static_cast<double>(others.m);
    return {others.m, below == 0 ? 1 : std::exp(below), others.sum};
  }

  double row_loss(std::int64_t row, const Buffers& buffers) const {
    const std::int64_t index = call_.indices == nullptr ? -1 : call_.indices[row];
    if (!call_.softmax) return -weight_of(index) * element(row, index);
    if (n_ == 0) return 0;
    const T* x = buffers.read(call_.x, row, 0);
    const Softmax softmax = softmax_of(x, row, index);
    const double m = static_cast<double>(softmax.m), logarithm = softmax.log_sum();
    double loss = 0;
    if (index >= 0) {
      loss =
          (1 - smoothing_) * weight_of(index) * ((m - static_cast<double>(x[index])) + logarithm);
    }
    if (has_spread()) {
      const T* probabilities =
          call_.probabilities == nullptr ? nullptr : buffers.read(call_.probabilities, row, 1);
      const SpreadSums sums = kernels_.spread_sums(x, softmax.m, spread(probabilities), n_);
      loss += sums.gap + sums.total * logarithm;
    }
    return loss;
  }

  void row_gradient(std::int64_t row, double factor, T* gradient, const Buffers& buffers) const {
    const std::int64_t index = call_.indices == nullptr ? -1 : call_.indices[row];
    const double named = index < 0 ? 0 : (1 - smoothing_) * weight_of(index);
    if (!call_.softmax) {
      std::memset(gradient, 0, n_ * sizeof(T));
      gradient[index] = static_cast<T>(-factor * named);
      return;
    }
    const T* x = buffers.read(call_.x, row, 0);
    const Softmax softmax = softmax_of(x, row, index);
    if (!has_spread()) {
      const double scale = factor * named / softmax.sum();
      kernels_.scaled_exp(x, softmax.m, static_cast<T>(scale), gradient, n_);
      // softmax − 1, computed from the other classes.
      gradient[index] = static_cast<T>(-scale * softmax.others);
      return;
    }
    const T* probabilities =
        call_.probabilities == nullptr ? nullptr : buffers.read(call_.probabilities, row, 1);
    const ClassSpread<T> target = spread(probabilities);
    const double total = named + kernels_.spread_sums(x, softmax.m, target, n_).total;
    kernels_.scaled_exp_minus_spread(x, softmax.m, static_cast<T>(factor * total / softmax.sum()),
                                     target, static_cast<T>(factor), gradient, n_);
    if (index >= 0) {
      // T · softmax − t from both of its parts, for the same reason.
      const double spread_part = weight_of(index) * smoothing_ / static_cast<double>(n_);
      const double rest = total - named - spread_part;
      gradient[index] = static_cast<T>(
          factor * (rest * softmax.named - (named + spread_part) * softmax.others) / softmax.sum());
    }
    if (call_.gradient_probabilities == nullptr) return;
    // `gradient` uses the third buffer, so this one may use the second.
    T* of_target = buffers.row_of(call_.gradient_probabilities, row, 1);
    kernels_.gradient_of_target(x, softmax.m, static_cast<T>(softmax.log_sum()), weight_,
                                static_cast<T>(factor * (1 - smoothing_)), of_target, n_);
    buffers.finish(of_target, call_.gradient_probabilities, row);
  }

  // ---- rows side by side

  static constexpr std::size_t most_columns_classes = 64, chunk_rows = 128;

  // Consecutive rows, with their classes transposed to columns.
  struct Chunk {
    std::int64_t first;
    ClassColumns<T> columns;
    T* logits;    // [classes, chunk_rows]
    T* gradient;  // likewise
    T named[chunk_rows], m[chunk_rows], others[chunk_rows], result[chunk_rows];
  };

  bool runs_by_columns() const {
    return call_.softmax && call_.indices != nullptr && smoothing_ == 0 && widen_ == nullptr &&
           n_ > 0 && n_ <= most_columns_classes;
  }

  template <class Body>
  void for_each_chunk(const Body& body) const {
    constexpr auto length = static_cast<std::int64_t>(chunk_rows);
    const std::int64_t chunks = (call_.rows + length - 1) / length;
    const std::int64_t grain = std::max<std::int64_t>(1, grain_ / length);
    const int threads = detail::threads_for(chunks, grain);
    // Allocated here, so that the result stays unwritten if memory runs out.
    const std::size_t room = (call_.g == nullptr ? 1 : 2) * n_ * chunk_rows;
    detail::Scratch<T> memory(static_cast<std::size_t>(threads) * room);
    detail::parallel_for(
        threads, chunks, grain, [&](std::int64_t begin, std::int64_t end, int slot) {
          Chunk chunk;
          chunk.logits = memory.data() + static_cast<std::size_t>(slot) * room;
          chunk.gradient = chunk.logits + n_ * chunk_rows;
          for (std::int64_t k = begin; k < end; ++k) {
            chunk.first = k * length;
            read_chunk(chunk, static_cast<std::size_t>(std::min(length, call_.rows - k * length)));
            body(chunk);
          }
        });
  }

  void read_chunk(Chunk& chunk, std::size_t rows) const {
    const T* x = reinterpret_cast<const T*>(call_.x) + chunk.first * call_.classes;
    for (std::size_t c = 0; c < n_; ++c) {
      T* column = chunk.logits + c * chunk_rows;
      for (std::size_t i = 0; i < rows; ++i) column[i] = x[i * n_ + c];
    }
    const std::int64_t* indices = call_.indices + chunk.first;
    const std::int64_t ignored = call_.ignore_index;
    for (std::size_t i = 0; i < rows; ++i) {
      chunk.named[i] = static_cast<T>(indices[i] == ignored ? -1 : indices[i]);
    }
    chunk.columns = {chunk.logits, chunk_rows, n_, rows, chunk.named};
  }

  void chunk_losses(Chunk& chunk, double* all_losses) const {
    kernels_.column_losses(chunk.columns, chunk.m, chunk.others, chunk.result);
    double* losses = all_losses + chunk.first;
    const std::size_t rows = chunk.columns.n;
    for (std::size_t i = 0; i < rows; ++i) {
      losses[i] = chunk.named[i] < 0 ? 0 : static_cast<double>(chunk.result[i]);
    }
    for (std::size_t i = 0; weight_ != nullptr && i < rows; ++i) {
      if (chunk.named[i] >= 0) losses[i] *= weight_of(static_cast<std::int64_t>(chunk.named[i]));
    }
    if (call_.statistics == nullptr) return;
    double* statistics = call_.statistics + 2 * chunk.first;
    for (std::size_t i = 0; i < rows; ++i) {
      statistics[2 * i] = static_cast<double>(chunk.m[i]);
      statistics[2 * i + 1] = static_cast<double>(chunk.others[i]);
    }
  }

  void chunk_gradient(Chunk& chunk, double common, bool each) const {
    const std::size_t rows = chunk.columns.n;
    if (call_.statistics == nullptr) {
      kernels_.column_losses(chunk.columns, chunk.m, chunk.others, chunk.result);
    } else {
      const double* statistics = call_.statistics + 2 * chunk.first;
      for (std::size_t i = 0; i < rows; ++i) {
        chunk.m[i] = static_cast<T>(statistics[2 * i]);
        chunk.others[i] = static_cast<T>(statistics[2 * i + 1]);
      }
    }
    const T* g = reinterpret_cast<const T*>(call_.g) + (each ? chunk.first : 0);
    std::fill_n(chunk.result, rows, static_cast<T>(static_cast<double>(g[0]) * common));
    for (std::size_t i = 0; (each || weight_ != nullptr) && i < rows; ++i) {
      if (chunk.named[i] < 0) continue;
      chunk.result[i] = static_cast<T>(static_cast<double>(g[each ? i : 0]) * common *
                                       weight_of(static_cast<std::int64_t>(chunk.named[i])));
    }
    kernels_.column_gradients(chunk.columns, chunk.m, chunk.others, chunk.result, chunk.gradient);
    T* out = reinterpret_cast<T*>(call_.gradient_x) + chunk.first * call_.classes;
    for (std::size_t c = 0; c < n_; ++c) {
      const T* column = chunk.gradient + c * chunk_rows;
      for (std::size_t i = 0; i < rows; ++i) out[i * n_ + c] = column[i];
    }
  }

  double element(std::int64_t row, std::int64_t column) const {
    double value = 0;
    detail::visit_dtype(call_.dtype, [&]<class Stored>() {
      value = detail::convert<double>(
          reinterpret_cast<const Stored*>(call_.x)[row * call_.classes + column]);
    });
    return value;
  }

  const ClassLossCall& call_;
  const ClassKernels<T>& kernels_;
  const std::size_t n_;
  const std::int64_t row_bytes_;
  const T* weight_;
  const double smoothing_;
  const std::int64_t grain_;
  ConvertLoop widen_ = nullptr;
  ConvertLoop narrow_ = nullptr;
};

template <class T>
void run(const ClassLossCall& call) {
  const ClassLossRunner<T> runner(call);
  if (call.g == nullptr) return runner.forward();
  runner.backward();
}

}  // namespace

void class_loss(const ClassLossCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
