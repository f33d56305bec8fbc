// Resamples planes. Both axes are sparse matrices, the interpolation or, for a gradient, its
// transpose: each element of the result is a weighted sum of a few elements. The axes are applied
// one after the other, to blocks of rows of the result, which threads share.
#include "backend/cpu/interpolation/interpolation.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "backend/cpu/interpolation/kernels.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::InterpolationAxis;
using backend::InterpolationCall;
using backend::InterpolationTaps;
using detail::Scratch;

// A sparse matrix with `slots` entries per row; unused entries have weight 0 and a valid index.
// Entry k of row i is at k · rows + i.
template <class T>
struct Matrix {
  std::int64_t rows, columns;
  std::int64_t slots;
  bool copies;  // every row has one entry, of weight 1
  Scratch<TapIndex<T>> index;
  Scratch<T> weights;

  Matrix(const InterpolationAxis& axis, bool transposed)
      : rows(transposed ? axis.in : axis.out), columns(transposed ? axis.out : axis.in) {
    Scratch<std::int32_t> used(static_cast<std::size_t>(rows), 0);
    // Calls entry(row, column, weight) for each weight of the matrix.
    const auto for_each = [&](const auto& entry) {
      for (std::int64_t i = 0; i < axis.out; ++i) {
        const InterpolationTaps taps = axis.taps<T>(i);
        for (int k = 0; k < taps.count; ++k) {
          const std::int64_t j = taps.index[k];
          entry(transposed ? j : i, transposed ? i : j, taps.weights[k]);
        }
      }
    };
    for_each([&](std::int64_t row, std::int64_t, double) { ++used[at(row)]; });
    slots = rows == 0 ? 0 : *std::max_element(used.begin(), used.end());
    index.assign(at(slots * rows), 0);
    weights.assign(at(slots * rows), T(0));
    std::fill(used.begin(), used.end(), 0);
    for_each([&](std::int64_t row, std::int64_t column, double weight) {
      const std::size_t entry = at(used[at(row)]++ * rows + row);
      index[entry] = static_cast<TapIndex<T>>(column);
      weights[entry] = static_cast<T>(weight);
    });
    copies = slots == 1 && std::all_of(weights.begin(), weights.end(), [](T w) { return w == 1; });
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  // The columns that rows [begin, end) use, as the range [first, last).
  std::pair<std::int64_t, std::int64_t> reach(std::int64_t begin, std::int64_t end) const {
    std::int64_t first = columns, last = 0;
    for (std::int64_t k = 0; k < slots; ++k) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (weights[at(k * rows + i)] == 0) continue;
        first = std::min<std::int64_t>(first, index[at(k * rows + i)]);
        last = std::max<std::int64_t>(last, index[at(k * rows + i)] + 1);
      }
    }
    return {std::min(first, last), last};
  }
};

// The windows of a matrix for the kernels, and their memory.
template <class T>
class Windows {
 public:
  Windows(const Matrix<T>& matrix, std::size_t lanes)
      : view_{lanes, at(matrix.slots), at(matrix.rows), false, nullptr, nullptr, nullptr} {
    const std::size_t terms = view_.vectors() * view_.slots;
    starts_.assign(terms, -1);
    indices_.assign(terms * lanes, 0);
    weights_.assign(terms * lanes, T(0));
    for (std::size_t v = 0; v < view_.vectors(); ++v) {
      for (std::size_t k = 0; k < view_.slots; ++k) copy_term(matrix, v, k);
    }
    view_.wide = widest_ > static_cast<std::int64_t>(lanes);
    for (std::size_t term = 0; term < terms; ++term) place_window(matrix.columns, term);
    view_.starts = starts_.data();
    view_.indices = indices_.data();
    view_.weights = weights_.data();
  }

  const TapWindows<T>& view() const { return view_; }
  // The least number of elements in a row of x that is read by windows.
  std::size_t window() const { return view_.wide ? 2 * view_.lanes : view_.lanes; }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  // The first element that a term uses, and the number of elements from there to the last one.
  std::pair<std::int64_t, std::int64_t> reach(std::size_t term) const {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1;
    for (std::size_t i = term * view_.lanes; i < (term + 1) * view_.lanes; ++i) {
      if (weights_[i] == 0) continue;
      first = std::min<std::int64_t>(first, indices_[i]);
      last = std::max<std::int64_t>(last, indices_[i]);
    }
    return last < 0 ? std::pair<std::int64_t, std::int64_t>{0, 1}
                    : std::pair{first, last - first + 1};
  }

  void copy_term(const Matrix<T>& matrix, std::size_t v, std::size_t k) {
    const std::size_t term = v * view_.slots + k, first = view_.first_sum(v);
    for (std::size_t i = 0; i < std::min(view_.lanes, view_.sums); ++i) {
      indices_[term * view_.lanes + i] = matrix.index[k * view_.sums + first + i];
      weights_[term * view_.lanes + i] = matrix.weights[k * view_.sums + first + i];
    }
    const std::int64_t length = reach(term).second;
    if (length <= static_cast<std::int64_t>(2 * view_.lanes)) widest_ = std::max(widest_, length);
  }

  // Windows do not extend past the row, unless it is shorter than a window.
  void place_window(std::int64_t columns, std::size_t term) {
    const auto size = static_cast<std::int64_t>(window());
    const auto [first, length] = reach(term);
    if (length > size) return;
    const std::int64_t start = std::clamp<std::int64_t>(columns - size, 0, first);
    starts_[term] = static_cast<TapIndex<T>>(start);
    for (std::size_t i = term * view_.lanes; i < (term + 1) * view_.lanes; ++i) {
      indices_[i] = weights_[i] == 0 ? 0 : static_cast<TapIndex<T>>(indices_[i] - start);
    }
  }

  TapWindows<T> view_;
  std::int64_t widest_ = 1;  // of the terms that fit a window
  Scratch<TapIndex<T>> starts_, indices_;
  Scratch<T> weights_;
};

template <class T>
class Plane {
 public:
  // `windows` are those of `horizontal`, if there is one channel.
  Plane(const Matrix<T>& vertical, const Matrix<T>& horizontal, const Windows<T>& windows,
        std::int64_t channels)
      : vertical_(vertical),
        horizontal_(horizontal),
        windows_(windows),
        channels_(channels),
        in_width_(horizontal.columns * channels),
        out_width_(horizontal.rows * channels),
        kernels_(interpolation_kernels<T>()),
        rows_(Matrix<T>::at(std::max(vertical.slots, horizontal.slots))),
        row_weights_(rows_.size()) {
    // Compares the work of both orders; gathering an element costs about four times as much as
    // loading it.
    const auto cost = [](std::int64_t a, std::int64_t b, std::int64_t slots) {
      return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(slots);
    };
    horizontal_first_ = 4 * cost(vertical.columns, horizontal.rows, horizontal.slots) +
                            cost(vertical.rows, horizontal.rows, vertical.slots) <=
                        cost(vertical.rows, horizontal.columns, vertical.slots) +
                            4 * cost(vertical.rows, horizontal.rows, horizontal.slots);
  }

  // Computes rows [begin, end) of the result.
  void run(const T* x, T* out, std::int64_t begin, std::int64_t end) {
    if (!horizontal_first_) {
      between_.resize(Matrix<T>::at(in_width_));
      for (std::int64_t i = begin; i < end; ++i) {
        combine_rows(x, 0, in_width_, i, between_.data());
        resample_row(between_.data(), out + i * out_width_);
      }
      return;
    }
    const auto [first, last] = vertical_.reach(begin, end);
    between_.resize(Matrix<T>::at((last - first) * out_width_));
    for (std::int64_t r = first; r < last; ++r) {
      resample_row(x + r * in_width_, between_.data() + (r - first) * out_width_);
    }
    for (std::int64_t i = begin; i < end; ++i) {
      combine_rows(between_.data(), first, out_width_, i, out + i * out_width_);
    }
  }

 private:
  // Row i of the result along the height; `from` starts with row `first` of x.
  void combine_rows(const T* from, std::int64_t first, std::int64_t width, std::int64_t i, T* to) {
    std::size_t count = 0;
    for (std::int64_t k = 0; k < vertical_.slots; ++k) {
      const std::size_t entry = Matrix<T>::at(k * vertical_.rows + i);
      if (vertical_.weights[entry] == 0) continue;
      rows_[count] = from + (vertical_.index[entry] - first) * width;
      row_weights_[count++] = vertical_.weights[entry];
    }
    if (count == 1 && row_weights_[0] == 1) {
      std::copy(rows_[0], rows_[0] + width, to);
    } else {
      kernels_.weigh_rows(rows_.data(), row_weights_.data(), count, to, Matrix<T>::at(width));
    }
  }

  // One row of x along the width.
  void resample_row(const T* from, T* to) {
    const auto n = Matrix<T>::at(horizontal_.rows);
    if (channels_ == 1) {
      const auto columns = Matrix<T>::at(horizontal_.columns);
      if (columns < windows_.window()) {
        padded_.resize(windows_.window());
        std::copy(from, from + columns, padded_.data());
        from = padded_.data();
      }
      T* sums = to;
      if (n < kernels_.lanes) {
        vector_.resize(kernels_.lanes);
        sums = vector_.data();
      }
      (horizontal_.copies ? kernels_.take_windows : kernels_.weigh_windows)(from, windows_.view(),
                                                                            sums);
      if (sums != to) std::copy(sums, sums + n, to);
      return;
    }
    for (std::size_t j = 0; j < n; ++j, to += channels_) {
      std::size_t count = 0;
      for (std::size_t k = 0; k < Matrix<T>::at(horizontal_.slots); ++k) {
        if (horizontal_.weights[k * n + j] == 0) continue;
        rows_[count] = from + horizontal_.index[k * n + j] * channels_;
        row_weights_[count++] = horizontal_.weights[k * n + j];
      }
      if (count == 1 && row_weights_[0] == 1) {
        std::copy(rows_[0], rows_[0] + channels_, to);
      } else {
        kernels_.weigh_rows(rows_.data(), row_weights_.data(), count, to, Matrix<T>::at(channels_));
      }
    }
  }

  const Matrix<T>& vertical_;
  const Matrix<T>& horizontal_;
  const Windows<T>& windows_;
  const std::int64_t channels_, in_width_, out_width_;
  const InterpolationKernels<T>& kernels_;
  bool horizontal_first_;
  std::vector<const T*> rows_;
  std::vector<T> row_weights_;
  Scratch<T> between_;
  Scratch<T> padded_, vector_;  // for rows shorter than a window and sums shorter than a vector
};

template <class T>
void run(const InterpolationCall& call) {
  const Matrix<T> vertical(call.rows, call.gradient), horizontal(call.columns, call.gradient);
  // Used if there is one channel: pixels of several are read whole.
  const Windows<T> windows(horizontal, interpolation_kernels<T>().lanes);
  const std::int64_t planes = call.planes / call.channels;
  const std::int64_t in = vertical.columns * horizontal.columns * call.channels;
  const std::int64_t out_width = horizontal.rows * call.channels;
  // Blocks of about 32 Ki elements, so that the rows between the two steps stay in the cache.
  const std::int64_t block =
      std::clamp<std::int64_t>(32 * 1024 / std::max<std::int64_t>(1, out_width), 4,
                               std::max<std::int64_t>(4, vertical.rows));
  const std::int64_t blocks = (vertical.rows + block - 1) / block;
  const std::int64_t grain =
      std::max<std::int64_t>(1, 16 * 1024 / std::max<std::int64_t>(1, block * out_width));
  const int threads = detail::threads_for(planes * blocks, grain);
  std::vector<Plane<T>> slots;
  slots.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i)
    slots.emplace_back(vertical, horizontal, windows, call.channels);
  detail::parallel_for(threads, planes * blocks, grain,
                       [&](std::int64_t begin, std::int64_t end, int slot) {
                         for (std::int64_t i = begin; i < end; ++i) {
                           const std::int64_t plane = i / blocks, row = i % blocks * block;
                           slots[static_cast<std::size_t>(slot)].run(
                               reinterpret_cast<const T*>(call.x) + plane * in,
                               reinterpret_cast<T*>(call.out) + plane * vertical.rows * out_width,
                               row, std::min(row + block, vertical.rows));
                         }
                       });
}

}  // namespace

void interpolate(const InterpolationCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
