// Batch norm: every channel of [outer, channels, inner] has one mean and one variance. The first
// pass computes moments of fixed blocks, independent of the threads, and the second one applies
// them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/normalization/edge.h"
#include "backend/cpu/normalization/kernels.h"
#include "backend/cpu/normalization/normalization.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::BatchNormalizationCall;

constexpr std::int64_t block_rows = 64;      // of one element per channel
constexpr std::int64_t block_columns = 128;  // channels that a unit of such rows spans
constexpr std::int64_t piece = 16384;        // elements of one channel in a unit
constexpr std::int64_t short_piece = 1024;   // samples with fewer elements share a unit
constexpr std::int64_t elements_per_thread = 4096;

std::size_t unsigned_of(std::int64_t n) { return static_cast<std::size_t>(n); }
std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class T>
class BatchNormalizer {
 public:
  explicit BatchNormalizer(const BatchNormalizationCall& call)
      : call_(call),
        edge_(call.dtype, call.outer * call.channels * call.inner * tensors_of(call)),
        by_columns_(call.inner == 1),
        pieces_(by_columns_ ? 1 : rounded_up(call.inner, piece)),
        samples_(edge_.writes_buffers() ? 1 : std::max<std::int64_t>(1, short_piece / call.inner)),
        blocks_(by_columns_ ? rounded_up(call.outer, block_rows)
                            : rounded_up(call.outer, samples_) * pieces_),
        count_(static_cast<double>(call.outer) * static_cast<double>(call.inner)) {}

  void run() {
    const bool backward = call_.grad_output != nullptr;
    if (backward || call_.training) {
      take_moments();
      combine_moments();
    }
    prepare();
    if (by_columns_) {
      apply_to_rows();
    } else {
      apply_to_pieces();
    }
  }

 private:
  // The number of tensors as long as x that the call reads and writes.
  static std::int64_t tensors_of(const BatchNormalizationCall& call) {
    if (call.grad_output == nullptr) return call.residual == nullptr ? 2 : 3;
    return 3 + (call.result == nullptr ? 0 : 1) + (call.grad_residual == nullptr ? 0 : 1);
  }

  // If so, a pass over x computes only the sums of the gradients.
  bool knows_statistics() const { return !call_.training || call_.statistics_given; }

  // For every block and channel, [blocks, channels].
  struct Records {
    std::vector<T> centre, sum, squares, gradient, product;
  };

  // Calls body(begin, end, buffer) for ranges of units, with `room` elements for each thread.
  template <class Body>
  void run_units(std::int64_t units, std::int64_t unit_elements, std::int64_t room, Body&& body) {
    const std::int64_t grain = std::max<std::int64_t>(1, elements_per_thread / unit_elements);
    const int threads = detail::threads_for(units, grain);
    // Allocated here, so that the result stays unwritten if memory runs out.
    std::vector<T> memory(static_cast<std::size_t>(threads) * unsigned_of(room));
    detail::parallel_for(threads, units, grain,
                         [&](std::int64_t begin, std::int64_t end, int slot) {
                           for (std::int64_t unit = begin; unit < end; ++unit)
                             body(unit, memory.data() + slot * room);
                           edge_.finish();
                         });
  }

  // ---- the first pass

  void take_moments() {
    const std::size_t size = unsigned_of(blocks_ * call_.channels);
    for (std::vector<T>* list : {&records_.centre, &records_.sum, &records_.squares}) {
      list->resize(size);
    }
    if (call_.grad_output != nullptr) {
      records_.gradient.resize(size);
      records_.product.resize(size);
    }
    if (by_columns_) {
      const std::int64_t spans = rounded_up(call_.channels, block_columns);
      const std::int64_t elements = block_rows * std::min(block_columns, call_.channels);
      run_units(blocks_ * spans, elements, edge_.writes_buffers() ? 3 * elements : 0,
                [&](std::int64_t unit, T* buffer) {
                  moments_of_rows(unit / spans, unit % spans * block_columns, buffer);
                });
    } else {
      const std::int64_t elements = std::min(piece, call_.inner);
      run_units(blocks_ * call_.channels, samples_ * elements,
                edge_.writes_buffers() ? 3 * elements : 0,
                [&](std::int64_t unit, T* buffer) { moments_of_piece(unit, buffer); });
    }
  }

  // The gradient of the normalized values: grad_output or, with a relu, the part of it that passes,
  // which the first pass leaves in grad_residual, or in the result that the second one overwrites.
  std::byte* passed() const {
    return call_.grad_residual != nullptr ? call_.grad_residual : call_.out;
  }
  const std::byte* gradient() const {
    return call_.result == nullptr ? call_.grad_output : passed();
  }
  // n elements of that gradient in the first pass. If they do not stay in memory, they are in the
  // buffer starting at `at`, with room for n more after `spare`.
  const T* find_gradient(std::int64_t offset, std::int64_t n, T* buffer, std::int64_t at,
                         std::int64_t spare) const {
    const T* g = edge_.read(call_.grad_output, offset, n, buffer, at);
    if (call_.result == nullptr) return g;
    const T* y = edge_.read(call_.result, offset, n, buffer, spare);
    T* out = edge_.target(passed(), offset, buffer, at);
    kernels_.relu_gradient(g, y, out, unsigned_of(n));
    edge_.write(out, passed(), offset, n);
    return out;
  }
  // Whether find_gradient() puts the gradient into the buffer.
  bool buffers_gradient() const {
    return call_.result == nullptr ? edge_.converts() : edge_.writes_buffers();
  }

  // The rows of a block of channels_last elements.
  void moments_of_rows(std::int64_t block, std::int64_t first, T* buffer) {
    const std::int64_t begin = block * block_rows, rows = rows_of(block);
    const std::int64_t columns = std::min(block_columns, call_.channels - first);
    const auto offset = [&](std::int64_t r) { return (begin + r) * call_.channels + first; };
    const std::int64_t stride = edge_.converts() ? columns : call_.channels;
    const T* x = edge_.read(call_.x, offset(0), columns, buffer);
    for (std::int64_t r = 1; edge_.converts() && r < rows; ++r) {
      edge_.read(call_.x, offset(r), columns, buffer, r * columns);
    }
    const std::size_t at = unsigned_of(block * call_.channels + first);
    if (knows_statistics()) {
      for (std::int64_t c = 0; c < columns; ++c) {
        records_.centre[at + unsigned_of(c)] = static_cast<T>(call_.mean[first + c]);
      }
    } else {
      kernels_.column_moments(x, unsigned_of(rows), unsigned_of(columns), unsigned_of(stride),
                              &records_.centre[at], &records_.sum[at], &records_.squares[at]);
    }
    if (call_.grad_output == nullptr) return;
    const std::int64_t behind_x = block_rows * columns, spare = 2 * behind_x;
    const T* g = find_gradient(offset(0), columns, buffer, behind_x, spare);
    const bool row_by_row = edge_.converts() || call_.result != nullptr;
    for (std::int64_t r = 1; row_by_row && r < rows; ++r) {
      find_gradient(offset(r), columns, buffer, behind_x + r * columns, spare);
    }
    const std::int64_t g_stride = buffers_gradient() ? columns : call_.channels;
    kernels_.column_gradient_sums(g, unsigned_of(g_stride), x, unsigned_of(stride),
                                  unsigned_of(rows), unsigned_of(columns), &records_.centre[at],
                                  &records_.gradient[at], &records_.product[at]);
  }

  // Unit (samples, channel, piece): n elements of each sample.
  struct Piece {
    std::int64_t channel, offset, samples, n;
    std::size_t record;
  };
  Piece piece_of(std::int64_t unit) const {
    const std::int64_t part = unit % pieces_, segment = unit / pieces_;
    const std::int64_t channel = segment % call_.channels, group = segment / call_.channels;
    const std::int64_t sample = group * samples_;
    return {channel, (sample * call_.channels + channel) * call_.inner + part * piece,
            std::min(samples_, call_.outer - sample), std::min(piece, call_.inner - part * piece),
            unsigned_of((group * pieces_ + part) * call_.channels + channel)};
  }
  // The distance between the samples of a piece.
  std::int64_t sample_stride() const { return call_.channels * call_.inner; }

  void moments_of_piece(std::int64_t unit, T* buffer) {
    const Piece at = piece_of(unit);
    const T* x = edge_.read(call_.x, at.offset, at.n, buffer);
    if (knows_statistics()) {
      records_.centre[at.record] = static_cast<T>(call_.mean[at.channel]);
    } else {
      const Moments<T> moments = kernels_.moments(
          x, unsigned_of(at.samples), unsigned_of(sample_stride()), unsigned_of(at.n), true);
      records_.centre[at.record] = moments.centre;
      records_.sum[at.record] = static_cast<T>(moments.sum);
      records_.squares[at.record] = static_cast<T>(moments.squares);
    }
    if (call_.grad_output == nullptr) return;
    const T* g = find_gradient(at.offset, at.n, buffer, at.n, 2 * at.n);
    for (std::int64_t s = 1; call_.result != nullptr && s < at.samples; ++s) {
      find_gradient(at.offset + s * sample_stride(), at.n, buffer, at.n, 2 * at.n);
    }
    const GradientSums sums =
        kernels_.gradient_sums(g, x, records_.centre[at.record], unsigned_of(at.samples),
                               unsigned_of(sample_stride()), unsigned_of(at.n));
    records_.gradient[at.record] = static_cast<T>(sums.gradient);
    records_.product[at.record] = static_cast<T>(sums.product);
  }

  std::int64_t rows_of(std::int64_t block) const {
    return std::min(block_rows, call_.outer - block * block_rows);
  }
  double elements_of(std::int64_t block) const {
    if (by_columns_) return static_cast<double>(rows_of(block));
    const std::int64_t samples = std::min(samples_, call_.outer - block / pieces_ * samples_);
    return static_cast<double>(samples * std::min(piece, call_.inner - block % pieces_ * piece));
  }

  // ---- the statistics of the channels

  void combine_moments() {
    if (call_.grad_output != nullptr) {
      gradient_.resize(unsigned_of(call_.channels));
      product_.resize(unsigned_of(call_.channels));
    }
    detail::parallel_for(call_.channels, std::max<std::int64_t>(8, 8192 / blocks_ / 8 * 8),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t c = begin; c < end; ++c) combine_channel(c);
                         });
  }

  void combine_channel(std::int64_t c) {
    const auto record = [&](const std::vector<T>& list, std::int64_t block) {
      return static_cast<double>(list[unsigned_of(block * call_.channels + c)]);
    };
    if (!knows_statistics()) {
      double total = 0;
      for (std::int64_t b = 0; b < blocks_; ++b) {
        total += elements_of(b) * record(records_.centre, b) + record(records_.sum, b);
      }
      const double mean = total / count_;
      double squares = 0;
      for (std::int64_t b = 0; b < blocks_; ++b) {
        const double n = elements_of(b), sum = record(records_.sum, b);
        const double distance = record(records_.centre, b) + sum / n - mean;
        squares += record(records_.squares, b) - sum * sum / n + n * distance * distance;
      }
      call_.mean[c] = mean;
      call_.variance[c] = squares < 0 ? 0 : squares / count_;
    }
    if (call_.grad_output == nullptr) return;
    double gradient = 0, product = 0;
    for (std::int64_t b = 0; b < blocks_; ++b) {
      const double g = record(records_.gradient, b);
      gradient += g;
      product += record(records_.product, b) + (record(records_.centre, b) - call_.mean[c]) * g;
    }
    gradient_[unsigned_of(c)] = gradient;
    product_[unsigned_of(c)] = product;
  }

  double parameter(const std::byte* values, std::int64_t c, double missing) const {
    return values == nullptr ? missing : static_cast<double>(reinterpret_cast<const T*>(values)[c]);
  }

  // The coefficients of the second pass for each channel:
  //   out = (x − centre) · scale + shift               forward; applied to grad_output if the
  //                                                    statistics do not depend on x
  //   out = g · scale + (x − centre) · slope + shift   backward in training
  void prepare() {
    const std::size_t channels = unsigned_of(call_.channels);
    for (std::vector<T>* list : {&centre_, &scale_, &shift_, &slope_}) list->assign(channels, T(0));
    for (std::int64_t c = 0; c < call_.channels; ++c) {
      const std::size_t at = unsigned_of(c);
      const double deviation_scale = 1 / std::sqrt(call_.variance[c] + call_.eps);
      const double scale = deviation_scale * parameter(call_.weight, c, 1);
      const T centre = static_cast<T>(call_.mean[c]);
      const double offset = call_.mean[c] - static_cast<double>(centre);
      scale_[at] = static_cast<T>(scale);
      if (call_.grad_output == nullptr) {
        centre_[at] = centre;
        shift_[at] = static_cast<T>(parameter(call_.bias, c, 0) - offset * scale);
        continue;
      }
      const double grad_weight = deviation_scale * product_[at];
      reinterpret_cast<T*>(call_.grad_weight)[c] = static_cast<T>(grad_weight);
      reinterpret_cast<T*>(call_.grad_bias)[c] = static_cast<T>(gradient_[at]);
      if (!call_.training) continue;
      const double slope = -scale * deviation_scale * grad_weight / count_;
      centre_[at] = centre;
      slope_[at] = static_cast<T>(slope);
      shift_[at] = static_cast<T>(-scale * gradient_[at] / count_ - slope * offset);
    }
  }

  // ---- the second pass

  // The tensor that is standardized and, only in the backward of training, the gradient.
  const std::byte* first_operand() const {
    return call_.grad_output != nullptr && !call_.training ? gradient() : call_.x;
  }
  const std::byte* second_operand() const {
    return call_.grad_output != nullptr && call_.training ? gradient() : nullptr;
  }

  void apply_to_rows() {
    const std::int64_t n = call_.channels;
    const std::byte *first = first_operand(), *second = second_operand();
    const T *centre = centre_.data(), *scale = scale_.data(), *shift = shift_.data();
    run_units(call_.outer, n, edge_.writes_buffers() ? 3 * n : 0, [&](std::int64_t row, T* buffer) {
      const T* x = edge_.read(first, row * n, n, buffer);
      T* out = edge_.target(call_.out, row * n, buffer, 2 * n);
      if (second != nullptr) {
        const T* g = edge_.read(second, row * n, n, buffer, n);
        kernels_.column_backward(g, x, centre, scale, slope_.data(), shift, out, unsigned_of(n));
      } else if (call_.relu) {
        const T* residual = read_residual(row * n, n, buffer);
        kernels_.column_standardize_relu(x, centre, scale, shift, residual, out, unsigned_of(n));
      } else {
        kernels_.column_standardize(x, centre, scale, shift, out, unsigned_of(n));
      }
      edge_.write(out, call_.out, row * n, n);
    });
  }

  void apply_to_pieces() {
    const std::int64_t elements = std::min(piece, call_.inner);
    run_units(blocks_ * call_.channels, samples_ * elements,
              edge_.writes_buffers() ? 3 * elements : 0, [&](std::int64_t unit, T* buffer) {
                const Piece at = piece_of(unit);
                for (std::int64_t s = 0; s < at.samples; ++s) {
                  apply_to_piece(at.channel, at.offset + s * sample_stride(), at.n, buffer);
                }
              });
  }

  void apply_to_piece(std::int64_t channel, std::int64_t offset, std::int64_t n, T* buffer) const {
    const std::byte *first = first_operand(), *second = second_operand();
    const std::size_t c = unsigned_of(channel), length = unsigned_of(n);
    const Standardizer<T> s{centre_[c], scale_[c], shift_[c]};
    const T* x = edge_.read(first, offset, n, buffer);
    T* out = edge_.target(call_.out, offset, buffer, 2 * n);
    if (second != nullptr) {
      const T* g = edge_.read(second, offset, n, buffer, n);
      kernels_.backward(g, x, s.centre, s.scale, slope_[c], s.shift, out, length);
    } else if (call_.relu) {
      const T* residual = read_residual(offset, n, buffer);
      kernels_.standardize_relu(x, s, residual, out, length);
    } else {
      kernels_.standardize(x, s, out, length);
    }
    edge_.write(out, call_.out, offset, n);
  }

  // n elements after those of x in the buffer; null without a residual.
  const T* read_residual(std::int64_t offset, std::int64_t n, T* buffer) const {
    return call_.residual == nullptr ? nullptr : edge_.read(call_.residual, offset, n, buffer, n);
  }

  const BatchNormalizationCall& call_;
  const Edge<T> edge_;
  const NormalizationKernels<T>& kernels_ = normalization_kernels<T>();
  const bool by_columns_;
  const std::int64_t pieces_, samples_, blocks_;
  const double count_;  // elements of a channel
  Records records_;
  std::vector<double> gradient_, product_;  // Σ g and Σ g · (x − mean) of the channels
  std::vector<T> centre_, scale_, shift_, slope_;
};

template <class T>
void run(const BatchNormalizationCall& call) {
  if (call.channels == 0) return;
  if (call.outer == 0 || call.inner == 0) {
    if (call.grad_weight != nullptr) {
      std::memset(call.grad_weight, 0, unsigned_of(call.channels) * sizeof(T));
      std::memset(call.grad_bias, 0, unsigned_of(call.channels) * sizeof(T));
    }
    return;
  }
  BatchNormalizer<T>(call).run();
}

}  // namespace

void normalize_batch(const BatchNormalizationCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
