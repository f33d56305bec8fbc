// Pooling of planes. Planes are independent, so threads share them; within one, rows of windows are
// pooled along the height first, whole rows of x at a time, then along the width.
#include "backend/cpu/pooling/pooling.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "backend/cpu/pooling/channels_last.h"
#include "backend/cpu/pooling/kernels.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::PoolingCall;
using backend::PoolingOp;
using backend::PoolingWindow;

// The range of the windows that lie entirely inside x; empty for windows without a fixed size.
std::pair<std::int64_t, std::int64_t> whole_windows(const backend::PoolingAxis& axis) {
  if (axis.kernel == 0) return {0, 0};
  const std::int64_t first = (axis.padding + axis.stride - 1) / axis.stride;
  const std::int64_t reach = (axis.kernel - 1) * axis.dilation;  // from the first tap to the last
  const std::int64_t slack = axis.length - 1 - reach + axis.padding;
  if (slack < 0 || first >= axis.count) return {0, 0};
  return {first, std::max(first, std::min(axis.count, slack / axis.stride + 1))};
}

template <class T>
class Plane {
 public:
  Plane(const PoolingCall& call, const PoolingWindow* rows, const PoolingWindow* columns,
        const std::int64_t* offsets, std::int64_t index, std::byte* line)
      : call_(call),
        rows_(rows),
        columns_(columns),
        offsets_(offsets),
        kernels_(pooling_kernels<T>()),
        whole_(whole_windows(call.columns)),
        width_(static_cast<std::size_t>(call.in_width)),
        line_(line) {
    const std::int64_t in = index * call.in_height * call.in_width;
    const std::int64_t out = index * call.out_height * call.out_width;
    const bool gradient =
        call.op == PoolingOp::largest_gradient || call.op == PoolingOp::average_gradient;
    x_ = reinterpret_cast<const T*>(call.x) + (call.x != nullptr ? in : 0);
    y_ = reinterpret_cast<const T*>(call.y) + (call.y != nullptr ? out : 0);
    out_ = reinterpret_cast<T*>(call.out) + (gradient ? in : out);
  }

  void run() {
    switch (call_.op) {
      case PoolingOp::largest:
        return call_.pairs ? largest_of_pairs() : largest();
      case PoolingOp::largest_gradient:
        return call_.pairs ? spread_over_pairs() : spread_to_largest();
      case PoolingOp::average:
        return average();
      case PoolingOp::average_gradient:
        return spread_average();
    }
  }

 private:
  const T* row(std::int64_t i) const { return x_ + i * call_.in_width; }

  std::size_t whole_count() const { return static_cast<std::size_t>(whole_.second - whole_.first); }
  // Calls cut(j) for each window of a row that the padding cuts and whole() for all others, from
  // left to right.
  template <class Cut, class Whole>
  void for_windows(const Cut& cut, const Whole& whole) const {
    for (std::int64_t j = 0; j < whole_.first; ++j) cut(j);
    if (whole_.first != whole_.second) whole();
    for (std::int64_t j = whole_.second; j < call_.out_width; ++j) cut(j);
  }

  void largest_of_pairs() {
    for (std::int64_t i = 0; i < call_.out_height; ++i) {
      kernels_.largest_of_pairs(row(2 * i), row(2 * i + 1), out_ + i * call_.out_width,
                                static_cast<std::size_t>(call_.out_width));
    }
  }

  void spread_over_pairs() {
    for (std::int64_t i = 0; i < call_.out_height; ++i) {
      T* top = out_ + 2 * i * call_.in_width;
      T* bottom = top + call_.in_width;
      kernels_.spread_over_pairs(row(2 * i), row(2 * i + 1), y_ + i * call_.out_width, top, bottom,
                                 static_cast<std::size_t>(call_.out_width));
      std::fill(top + 2 * call_.out_width, bottom, T(0));
      std::fill(bottom + 2 * call_.out_width, bottom + call_.in_width, T(0));
    }
    std::fill(out_ + 2 * call_.out_height * call_.in_width, out_ + call_.in_height * call_.in_width,
              T(0));
  }

  void largest() {
    T* largest_of_rows = reinterpret_cast<T*>(line_);
    for (std::int64_t i = 0; i < call_.out_height; ++i, out_ += call_.out_width) {
      const PoolingWindow& rows = rows_[i];
      const T* line = row(rows.begin);
      if (rows.begin >= rows.end) {
        std::fill(largest_of_rows, largest_of_rows + width_, -std::numeric_limits<T>::infinity());
        line = largest_of_rows;
      } else if (rows.begin + call_.row_step < rows.end) {
        std::copy(line, line + width_, largest_of_rows);
        for (std::int64_t r = rows.begin + call_.row_step; r < rows.end; r += call_.row_step) {
          kernels_.take_larger(row(r), largest_of_rows, width_);
        }
        line = largest_of_rows;
      }
      const auto cut = [&](std::int64_t j) {
        const PoolingWindow& columns = columns_[j];
        T best = -std::numeric_limits<T>::infinity();
        for (std::int64_t c = columns.begin; c < columns.end; c += call_.column_step) {
          if (is_better(line[c], best)) best = line[c];
        }
        out_[j] = best;
      };
      for_windows(cut, [&] {
        kernels_.largest_of_windows(line + columns_[whole_.first].begin, out_ + whole_.first,
                                    whole_count(), static_cast<std::size_t>(call_.columns.stride),
                                    static_cast<std::size_t>(call_.columns.kernel),
                                    static_cast<std::size_t>(call_.column_step));
      });
    }
  }

  void spread_to_largest() {
    std::fill(out_, out_ + call_.in_height * call_.in_width, T(0));
    for (std::int64_t i = 0; i < call_.out_height; ++i, y_ += call_.out_width) {
      const PoolingWindow& rows = rows_[i];
      if (rows.begin >= rows.end) continue;
      for_windows([&](std::int64_t j) { spread_to_largest(rows, columns_[j], y_[j]); },
                  [&] { spread_to_largest(rows); });
    }
  }

  void spread_to_largest(const PoolingWindow& rows, const PoolingWindow& columns, T gradient) {
    if (columns.begin >= columns.end) return;
    std::int64_t at = rows.begin * call_.in_width + columns.begin;
    for (std::int64_t r = rows.begin; r < rows.end; r += call_.row_step) {
      for (std::int64_t c = columns.begin; c < columns.end; c += call_.column_step) {
        const std::int64_t here = r * call_.in_width + c;
        if (is_better(x_[here], x_[at])) at = here;
      }
    }
    out_[at] += gradient;
  }

  // The whole windows of one row of windows, tap by tap.
  void spread_to_largest(const PoolingWindow& rows) {
    const std::size_t n = whole_count(), stride = static_cast<std::size_t>(call_.columns.stride);
    const std::int64_t taps = call_.columns.kernel;
    const std::int64_t first = columns_[whole_.first].begin;
    T* best = reinterpret_cast<T*>(line_);
    auto* winner = reinterpret_cast<TapNumber<T>*>(best + n);
    const T* corner = row(rows.begin) + first;
    kernels_.largest_of_windows(corner, best, n, stride, 1, 1);
    std::fill_n(winner, n, TapNumber<T>(0));
    TapNumber<T> tap = 0;
    for (std::int64_t r = rows.begin; r < rows.end; r += call_.row_step) {
      for (std::int64_t k = 0; k < taps; ++k, ++tap) {
        if (tap == 0) continue;  // the best so far
        kernels_.track_windows(row(r) + first + k * call_.column_step, best, winner, tap, n,
                               stride);
      }
    }
    T* out = out_ + rows.begin * call_.in_width + first;
    const T* g = y_ + whole_.first;
    const std::int64_t row_stride = call_.row_step * call_.in_width;
    // Windows that neither overlap nor leave gaps along a row.
    const bool is_single = taps == 1 && stride == 1;
    if (is_single || (taps == 2 && stride == 2 && call_.column_step == 1)) {
      for (TapNumber<T> of_row = 0; of_row < tap; out += row_stride) {
        const auto add = is_single ? kernels_.add_to_winner : kernels_.add_to_pairs;
        add(winner, of_row, g, out, n);
        of_row += static_cast<TapNumber<T>>(taps);
      }
      return;
    }
    for (std::size_t j = 0; j < n; ++j, out += stride) out[offsets_[winner[j]]] += g[j];
  }

  void average() {
    double* line = reinterpret_cast<double*>(line_);
    for (std::int64_t i = 0; i < call_.out_height; ++i) {
      const PoolingWindow& rows = rows_[i];
      std::fill(line, line + width_, 0.0);
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        const T* from = row(r);
        for (std::size_t c = 0; c < width_; ++c) line[c] += static_cast<double>(from[c]);
      }
      for (std::int64_t j = 0; j < call_.out_width; ++j) {
        const PoolingWindow& columns = columns_[j];
        double sum = 0;
        for (std::int64_t c = columns.begin; c < columns.end; ++c) sum += line[c];
        *out_++ = static_cast<T>(sum / averaged_count(rows, columns));
      }
    }
  }

  void spread_average() {
    std::fill(out_, out_ + call_.in_height * call_.in_width, T(0));
    double* line = reinterpret_cast<double*>(line_);
    for (std::int64_t i = 0; i < call_.out_height; ++i) {
      const PoolingWindow& rows = rows_[i];
      std::fill(line, line + width_, 0.0);
      for (std::int64_t j = 0; j < call_.out_width; ++j) {
        const PoolingWindow& columns = columns_[j];
        const double share = static_cast<double>(*y_++) / averaged_count(rows, columns);
        for (std::int64_t c = columns.begin; c < columns.end; ++c) line[c] += share;
      }
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        T* to = out_ + r * call_.in_width;
        for (std::size_t c = 0; c < width_; ++c) to[c] += static_cast<T>(line[c]);
      }
    }
  }

  const PoolingCall& call_;
  const PoolingWindow* rows_;
  const PoolingWindow* columns_;
  const std::int64_t* offsets_;  // of the taps of a window that nothing cuts, from the first one
  const PoolingKernels<T>& kernels_;
  const std::pair<std::int64_t, std::int64_t> whole_;  // range of the windows that no padding cuts
  const std::size_t width_;
  std::byte* line_;  // a row of x, as T or as double
  const T* x_;
  const T* y_;
  T* out_;
};

// The offsets of the taps of windows, row by row; none if nothing reads them.
std::vector<std::int64_t> tap_offsets(const PoolingCall& call) {
  std::vector<std::int64_t> offsets;
  if (call.op != PoolingOp::largest_gradient || call.pairs) return offsets;
  const std::int64_t rows = std::min(call.rows.kernel, (call.in_height - 1) / call.row_step + 1);
  const std::pair<std::int64_t, std::int64_t> whole = whole_windows(call.columns);
  if (whole.first == whole.second) return offsets;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < call.columns.kernel; ++k) {
      offsets.push_back(r * call.row_step * call.in_width + k * call.column_step);
    }
  }
  return offsets;
}

template <class T>
void run(const PoolingCall& call) {
  if (call.channels > 1) return pool_channels_last<T>(call);
  const std::vector<PoolingWindow> rows = windows_of(call.rows), columns = windows_of(call.columns);
  const std::vector<std::int64_t> offsets = tap_offsets(call);
  const std::int64_t plane = call.in_height * call.in_width + call.out_height * call.out_width;
  const std::int64_t grain =
      std::max<std::int64_t>(1, 16 * 1024 / std::max<std::int64_t>(1, plane));
  const int threads = detail::threads_for(call.planes, grain);
  const auto width = static_cast<std::size_t>(call.in_width);
  // Room for a row of x, or for a largest element and its tap for each window of a row.
  const std::size_t room = std::max(width, 2 * static_cast<std::size_t>(call.out_width));
  std::vector<std::byte> lines(static_cast<std::size_t>(threads) * room * sizeof(double));
  detail::parallel_for(
      threads, call.planes, grain, [&](std::int64_t begin, std::int64_t end, int slot) {
        std::byte* line = lines.data() + static_cast<std::size_t>(slot) * room * sizeof(double);
        for (std::int64_t i = begin; i < end; ++i) {
          Plane<T>(call, rows.data(), columns.data(), offsets.data(), i, line).run();
        }
      });
}

}  // namespace

void pooling(const PoolingCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
