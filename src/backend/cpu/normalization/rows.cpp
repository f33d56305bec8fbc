// Layer, group, instance and root-mean-square norm: every row is normalised over its own elements
// while it is in the cache.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/normalization/edge.h"
#include "backend/cpu/normalization/kernels.h"
#include "backend/cpu/normalization/normalization.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::RowNormalizationCall;

constexpr std::int64_t elements_per_thread = 4096;  // below this a second thread does not pay

std::size_t unsigned_of(std::int64_t n) { return static_cast<std::size_t>(n); }

template <class T>
class RowNormalizer {
 public:
  explicit RowNormalizer(const RowNormalizationCall& call)
      : call_(call),
        edge_(call.dtype, call.rows * call.channels * call.run * tensors_of(call)),
        length_(call.channels * call.run),
        share_(1 / static_cast<double>(length_)),
        parameters_(call.groups * call.channels),
        weight_(parameter(call.weight, T(1))),
        bias_(parameter(call.bias, T(0))) {}

  void forward() {
    // Longer rows would leave the cache between the two passes.
    constexpr std::int64_t longest_together = 4096;
    const std::int64_t together =
        length_ <= longest_together ? static_cast<std::int64_t>(rows_together) : 1;
    const std::int64_t grain =
        std::max<std::int64_t>(1, elements_per_thread / (together * length_));
    run_rows((call_.rows + together - 1) / together, grain,
             edge_.writes_buffers() ? together + 2 : 0, [&](std::int64_t unit, T* buffer) {
               const std::int64_t row = unit * together;
               forward_rows(row, std::min(together, call_.rows - row), buffer);
             });
  }

  void backward() {
    if (call_.run == 1) {
      backward_in_blocks();
    } else {
      backward_by_channels();
    }
  }

 private:
  // The number of tensors as long as x that the call reads and writes.
  static std::int64_t tensors_of(const RowNormalizationCall& call) {
    if (call.grad_output == nullptr) return call.residual == nullptr ? 2 : 4;
    return call.grad_sum == nullptr ? 3 : 4;
  }

  // The parameters or, if null, a row filled with the number they default to.
  const T* parameter(const std::byte* given, T missing) {
    if (given != nullptr) return reinterpret_cast<const T*>(given);
    defaults_.emplace_back(unsigned_of(parameters_), missing);
    return defaults_.back().data();
  }

  // Calls body(unit, buffer) for every unit, with room for `buffers` rows for each thread.
  template <class Body>
  void run_rows(std::int64_t units, std::int64_t grain, std::int64_t buffers, Body&& body) {
    const int threads = detail::threads_for(units, grain);
    // Allocated here, so that the result stays unwritten if memory runs out.
    const std::size_t room = unsigned_of(buffers * length_);
    detail::Scratch<T> memory(static_cast<std::size_t>(threads) * room);
    detail::parallel_for(threads, units, grain,
                         [&](std::int64_t begin, std::int64_t end, int slot) {
                           T* buffer = memory.data() + static_cast<std::size_t>(slot) * room;
                           for (std::int64_t unit = begin; unit < end; ++unit) body(unit, buffer);
                           edge_.finish();
                         });
  }

  // The mean is the centre plus `offset`.
  struct Statistics {
    T centre;
    double offset, scale;  // scale: 1 / √(variance + eps)

    Standardizer<T> standardizer() const {
      return {centre, static_cast<T>(scale), static_cast<T>(-offset * scale)};
    }
  };

  // Of `count` ≤ rows_together rows, `stride` elements apart.
  void take_statistics(const T* x, std::int64_t stride, std::int64_t count, Statistics* s) const {
    Moments<T> moments[rows_together];
    kernels_.row_moments(x, unsigned_of(stride), unsigned_of(count), unsigned_of(length_),
                         call_.centred, moments);
    for (std::int64_t r = 0; r < count; ++r) s[r] = statistics_of(moments[r]);
  }
  Statistics statistics_of(const Moments<T>& moments) const {
    const double offset = call_.centred ? moments.sum * share_ : 0;
    double variance = moments.squares * share_ - offset * offset;
    if (variance < 0) variance = 0;  // NaN stays NaN
    return {moments.centre, offset, 1 / std::sqrt(variance + call_.eps)};
  }

  std::int64_t first_parameter(std::int64_t row) const {
    return row % call_.groups * call_.channels;
  }

  // x + residual, in row `r` of the buffer or in its final place, with the caller's precision:
  // halves are rounded. The residual may be read into the row after those of x.
  const T* add_residual(std::int64_t row, const T* x, std::int64_t r, std::int64_t count,
                        T* buffer) const {
    const std::int64_t offset = row * length_;
    const T* residual = edge_.read(call_.residual, offset, length_, buffer, count * length_);
    T* sum = edge_.target(call_.sum, offset, buffer, r * length_);
    kernels_.add(x, residual, sum, unsigned_of(length_));
    edge_.write(sum, call_.sum, offset, length_);
    return edge_.converts() ? edge_.read(call_.sum, offset, length_, buffer, r * length_) : sum;
  }

  void forward_rows(std::int64_t first, std::int64_t count, T* buffer) const {
    const T* x[rows_together] = {};
    for (std::int64_t r = 0; r < count; ++r) {
      x[r] = edge_.read(call_.x, (first + r) * length_, length_, buffer, r * length_);
      if (call_.residual != nullptr) x[r] = add_residual(first + r, x[r], r, count, buffer);
    }
    Statistics s[rows_together];
    take_statistics(x[0], length_, count, s);
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t offset = (first + r) * length_;
      T* out = edge_.target(call_.out, offset, buffer, (count + 1) * length_);
      standardize(first + r, x[r], count * length_, s[r], out);
      edge_.write(out, call_.out, offset, length_);
    }
  }

  void standardize(std::int64_t row, const T* x, std::int64_t ahead, const Statistics& s,
                   T* out) const {
    const std::int64_t first = first_parameter(row);
    if (call_.run == 1) {
      return kernels_.row_forward(x, unsigned_of(ahead), weight_ + first, bias_ + first,
                                  s.standardizer(), out, unsigned_of(length_));
    }
    for (std::int64_t j = 0; j < call_.channels; ++j) {
      const double scale = s.scale * static_cast<double>(weight_[first + j]);
      const double shift = static_cast<double>(bias_[first + j]) - s.offset * scale;
      kernels_.standardize(x + j * call_.run,
                           {s.centre, static_cast<T>(scale), static_cast<T>(shift)},
                           out + j * call_.run, unsigned_of(call_.run));
    }
  }

  // grad_x = scale · (g · weight − mean(g · weight) − x̂ · mean(g · weight · x̂))
  //        = g · weight · scale + (x − centre) · slope + constant
  struct Backward {
    T scale, slope, constant;
  };
  Backward backward_of(const Statistics& s, const GradientSums& sums) const {
    const double slope = -s.scale * s.scale * (sums.product * share_);
    const double mean = call_.centred ? sums.gradient * share_ : 0;
    return {static_cast<T>(s.scale), static_cast<T>(slope),
            static_cast<T>(-s.scale * mean - slope * s.offset)};
  }

  // One parameter per element. A unit is a fixed number of rows of one group: it computes one
  // partial sum of the parameters' gradients, on any thread.
  void backward_in_blocks() {
    const std::int64_t samples = call_.rows / call_.groups;
    const std::int64_t block = std::clamp<std::int64_t>(32768 / length_ / 4 * 4, 4, 64);
    const std::int64_t blocks = (samples + block - 1) / block;
    const bool parameters = call_.grad_weight != nullptr;
    detail::Scratch<T> partials(parameters ? unsigned_of(2 * blocks * parameters_) : 0);
    const std::int64_t grain = std::max<std::int64_t>(1, elements_per_thread / (block * length_));
    constexpr auto together = static_cast<std::int64_t>(rows_together);
    run_rows(blocks * call_.groups, grain, edge_.writes_buffers() ? 2 * together + 2 : 0,
             [&](std::int64_t unit, T* buffer) {
               const std::int64_t group = unit % call_.groups, at = unit / call_.groups;
               T* grad_weight = nullptr;
               T* grad_bias = nullptr;
               if (parameters) {
                 grad_weight = partials.data() + 2 * at * parameters_ + group * call_.channels;
                 grad_bias = grad_weight + parameters_;
               }
               const std::int64_t end = std::min(samples, (at + 1) * block);
               for (std::int64_t sample = at * block; sample < end; sample += together) {
                 backward_rows(sample, std::min(together, end - sample), group, grad_weight,
                               grad_bias, buffer);
               }
             });
    if (parameters) finish(partials, blocks);
  }

  // Rows of `group` in `count` ≤ rows_together samples.
  void backward_rows(std::int64_t sample, std::int64_t count, std::int64_t group, T* grad_weight,
                     T* grad_bias, T* buffer) const {
    const auto offset = [&](std::int64_t r) {
      return ((sample + r) * call_.groups + group) * length_;
    };
    const auto rows = static_cast<std::int64_t>(rows_together);
    const T* x[rows_together] = {};
    const T* g[rows_together] = {};
    Statistics s[rows_together];
    Standardizer<T> standardizers[rows_together];
    for (std::int64_t r = 0; r < count; ++r) {
      x[r] = edge_.read(call_.x, offset(r), length_, buffer, r * length_);
      g[r] = edge_.read(call_.grad_output, offset(r), length_, buffer, (rows + r) * length_);
    }
    const std::int64_t stride = edge_.converts() ? length_ : call_.groups * length_;
    take_statistics(x[0], stride, count, s);
    for (std::int64_t r = 0; r < count; ++r) standardizers[r] = s[r].standardizer();
    const T* weight = weight_ + group * call_.channels;
    GradientSums sums[rows_together];
    kernels_.row_gradient_sums(g[0], x[0], unsigned_of(stride), weight, unsigned_of(count),
                               standardizers, grad_weight, grad_bias, sums, unsigned_of(length_));
    for (std::int64_t r = 0; r < count; ++r) {
      const Backward b = backward_of(s[r], sums[r]);
      T* out = edge_.target(call_.out, offset(r), buffer, 2 * rows * length_);
      const T* added = call_.grad_sum == nullptr ? nullptr
                                                 : edge_.read(call_.grad_sum, offset(r), length_,
                                                              buffer, (2 * rows + 1) * length_);
      kernels_.row_backward(g[r], x[r], unsigned_of(rows * stride), weight, s[r].centre, b.scale,
                            b.slope, b.constant, added, out, unsigned_of(length_));
      edge_.write(out, call_.out, offset(r), length_);
    }
  }

  // One parameter for a run of elements: its gradients are sums over that run.
  void backward_by_channels() {
    const std::int64_t samples = call_.rows / call_.groups;
    const bool parameters = call_.grad_weight != nullptr;
    // Weight and bias of each sample in turn.
    detail::Scratch<T> partials(unsigned_of(2 * samples * parameters_));
    const std::int64_t grain = std::max<std::int64_t>(1, elements_per_thread / length_);
    run_rows(call_.rows, grain, edge_.writes_buffers() ? 3 : 0, [&](std::int64_t row, T* buffer) {
      backward_row(row, partials.data() + 2 * (row / call_.groups) * parameters_, buffer);
    });
    if (parameters) finish(partials, samples);
  }

  void backward_row(std::int64_t row, T* partial, T* buffer) const {
    const std::int64_t first = first_parameter(row), run = call_.run;
    const T* x = edge_.read(call_.x, row * length_, length_, buffer);
    const T* g = edge_.read(call_.grad_output, row * length_, length_, buffer, length_);
    T* out = edge_.target(call_.out, row * length_, buffer, 2 * length_);
    Statistics s;
    take_statistics(x, length_, 1, &s);
    GradientSums sums;
    for (std::int64_t j = 0; j < call_.channels; ++j) {
      const GradientSums channel =
          kernels_.gradient_sums(g + j * run, x + j * run, s.centre, 1, 0, unsigned_of(run));
      const double product = s.scale * (channel.product - s.offset * channel.gradient);
      partial[first + j] = static_cast<T>(product);
      partial[parameters_ + first + j] = static_cast<T>(channel.gradient);
      const auto weight = static_cast<double>(weight_[first + j]);
      sums.gradient += weight * channel.gradient;
      sums.product += weight * product;
    }
    const Backward b = backward_of(s, sums);
    for (std::int64_t j = 0; j < call_.channels; ++j) {
      kernels_.backward(g + j * run, x + j * run, s.centre, b.scale * weight_[first + j], b.slope,
                        b.constant, out + j * run, unsigned_of(run));
    }
    edge_.write(out, call_.out, row * length_, length_);
  }

  // Adds the partial sums of both gradients in pairs.
  void finish(detail::Scratch<T>& partials, std::int64_t count) {
    const std::int64_t width = 2 * parameters_;
    detail::parallel_for(width, std::max<std::int64_t>(64, 16384 / count / 64 * 64),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t step = 1; step < count; step *= 2) {
                             for (std::int64_t i = 0; i + step < count; i += 2 * step) {
                               T* to = partials.data() + i * width;
                               const T* from = to + step * width;
                               for (std::int64_t j = begin; j < end; ++j) to[j] += from[j];
                             }
                           }
                         });
    const std::size_t bytes = unsigned_of(parameters_) * sizeof(T);
    std::memcpy(call_.grad_weight, partials.data(), bytes);
    std::memcpy(call_.grad_bias, partials.data() + parameters_, bytes);
  }

  const RowNormalizationCall& call_;
  const Edge<T> edge_;
  const NormalizationKernels<T>& kernels_ = normalization_kernels<T>();
  const std::int64_t length_;
  const double share_;  // of an element in a mean: divisions would slow down short rows
  const std::int64_t parameters_;
  std::vector<std::vector<T>> defaults_;
  const T* const weight_;
  const T* const bias_;
};

template <class T>
void run(const RowNormalizationCall& call) {
  const std::int64_t parameters = call.groups * call.channels;
  if (call.rows == 0 || parameters == 0 || call.run == 0) {
    if (call.grad_weight != nullptr && parameters != 0) {
      std::memset(call.grad_weight, 0, unsigned_of(parameters) * sizeof(T));
      std::memset(call.grad_bias, 0, unsigned_of(parameters) * sizeof(T));
    }
    return;
  }
  RowNormalizer<T> normalizer(call);
  if (call.grad_output == nullptr) {
    normalizer.forward();
  } else {
    normalizer.backward();
  }
}

}  // namespace

void normalize_rows(const RowNormalizationCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
