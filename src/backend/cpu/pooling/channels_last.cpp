// Pooling of channels_last images. Every loop over channels is dense, so windows are processed tap
// by tap for many channels at once. A unit of work is a run of channels of one image, which no
// other unit writes.
#include "backend/cpu/pooling/channels_last.h"

#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/pooling/kernels.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::PoolingCall;
using backend::PoolingOp;
using backend::PoolingWindow;

constexpr std::int64_t run_of_channels = 64;  // if there are fewer images than threads

template <class T>
class ChannelRun {
 public:
  // The size of `memory`, in doubles, for a run of `channels` channels.
  static std::int64_t room(const PoolingCall& call, std::int64_t channels) {
    return channels * std::max<std::int64_t>(2, call.in_width);
  }

  ChannelRun(const PoolingCall& call, const PoolingWindow* rows, const PoolingWindow* columns,
             std::int64_t image, std::int64_t first, std::int64_t count, double* memory)
      : call_(call),
        rows_(rows),
        columns_(columns),
        n_(static_cast<std::size_t>(count)),
        memory_(memory) {
    const std::int64_t in = image * call.in_height * call.in_width * call.channels + first;
    const std::int64_t out = image * call.out_height * call.out_width * call.channels + first;
    const bool gradient =
        call.op == PoolingOp::largest_gradient || call.op == PoolingOp::average_gradient;
    x_ = reinterpret_cast<const T*>(call.x) + (call.x != nullptr ? in : 0);
    y_ = reinterpret_cast<const T*>(call.y) + (call.y != nullptr ? out : 0);
    out_ = reinterpret_cast<T*>(call.out) + (gradient ? in : out);
  }

  void run() {
    switch (call_.op) {
      case PoolingOp::largest:
        return for_windows([&](auto&... window) { largest(window...); });
      case PoolingOp::largest_gradient:
        clear();
        return for_windows([&](auto&... window) { spread_to_largest(window...); });
      case PoolingOp::average:
        return for_windows([&](auto&... window) { average(window...); });
      case PoolingOp::average_gradient:
        clear();
        return spread_average();
    }
  }

 private:
  std::int64_t in_pixel(std::int64_t row, std::int64_t column) const {
    return (row * call_.in_width + column) * call_.channels;
  }

  void clear() {
    const std::int64_t pixels = call_.in_height * call_.in_width;
    for (std::int64_t p = 0; p < pixels; ++p) std::fill_n(out_ + p * call_.channels, n_, T(0));
  }

  // Calls body(rows, columns, offset of the window's pixel in y or the result).
  template <class Body>
  void for_windows(const Body& body) {
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < call_.out_height; ++i) {
      for (std::int64_t j = 0; j < call_.out_width; ++j, at += call_.channels) {
        body(rows_[i], columns_[j], at);
      }
    }
  }
  // Calls body(offset of the tap's pixel in x).
  template <class Body>
  void for_taps(const PoolingWindow& rows, const PoolingWindow& columns, const Body& body) const {
    for (std::int64_t r = rows.begin; r < rows.end; r += call_.row_step) {
      for (std::int64_t c = columns.begin; c < columns.end; c += call_.column_step) {
        body(in_pixel(r, c));
      }
    }
  }

  void largest(const PoolingWindow& rows, const PoolingWindow& columns, std::int64_t at) {
    T* best = out_ + at;
    std::fill_n(best, n_, -std::numeric_limits<T>::infinity());
    for_taps(rows, columns,
             [&](std::int64_t pixel) { kernels_.take_larger(x_ + pixel, best, n_); });
  }

  void spread_to_largest(const PoolingWindow& rows, const PoolingWindow& columns, std::int64_t at) {
    if (rows.begin >= rows.end || columns.begin >= columns.end) return;
    T* best = reinterpret_cast<T*>(memory_);
    TapNumber<T>* winner = reinterpret_cast<TapNumber<T>*>(memory_ + n_);
    std::memcpy(best, x_ + in_pixel(rows.begin, columns.begin), n_ * sizeof(T));
    std::fill_n(winner, n_, TapNumber<T>(0));
    TapNumber<T> tap = 0;
    for_taps(rows, columns, [&](std::int64_t pixel) {
      kernels_.track_larger(x_ + pixel, best, winner, tap, n_);
      ++tap;
    });
    const T* g = y_ + at;
    tap = 0;
    for_taps(rows, columns, [&](std::int64_t pixel) {
      kernels_.add_to_winner(winner, tap, g, out_ + pixel, n_);
      ++tap;
    });
  }

  // Sums along the height first, like pooling of planes.
  void average(const PoolingWindow& rows, const PoolingWindow& columns, std::int64_t at) {
    double* sum = memory_;
    double* column = memory_ + n_;
    std::fill_n(sum, n_, 0.0);
    for (std::int64_t c = columns.begin; c < columns.end; ++c) {
      std::fill_n(column, n_, 0.0);
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        const T* x = x_ + in_pixel(r, c);
        for (std::size_t k = 0; k < n_; ++k) column[k] += static_cast<double>(x[k]);
      }
      for (std::size_t k = 0; k < n_; ++k) sum[k] += column[k];
    }
    const double count = averaged_count(rows, columns);
    T* out = out_ + at;
    for (std::size_t k = 0; k < n_; ++k) out[k] = static_cast<T>(sum[k] / count);
  }

  void spread_average() {
    const T* g = y_;
    for (std::int64_t i = 0; i < call_.out_height; ++i) {
      const PoolingWindow& rows = rows_[i];
      std::fill_n(memory_, n_ * static_cast<std::size_t>(call_.in_width), 0.0);
      for (std::int64_t j = 0; j < call_.out_width; ++j, g += call_.channels) {
        const PoolingWindow& columns = columns_[j];
        const double count = averaged_count(rows, columns);
        for (std::int64_t c = columns.begin; c < columns.end; ++c) {
          double* line = memory_ + static_cast<std::size_t>(c) * n_;
          for (std::size_t k = 0; k < n_; ++k) line[k] += static_cast<double>(g[k]) / count;
        }
      }
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        for (std::int64_t c = 0; c < call_.in_width; ++c) {
          T* out = out_ + in_pixel(r, c);
          const double* line = memory_ + static_cast<std::size_t>(c) * n_;
          for (std::size_t k = 0; k < n_; ++k) out[k] += static_cast<T>(line[k]);
        }
      }
    }
  }

  const PoolingCall& call_;
  const PoolingWindow* rows_;
  const PoolingWindow* columns_;
  const PoolingKernels<T>& kernels_ = pooling_kernels<T>();
  const std::size_t n_;
  double* memory_;
  const T* x_;
  const T* y_;
  T* out_;
};

}  // namespace

template <class T>
void pool_channels_last(const PoolingCall& call) {
  const std::vector<PoolingWindow> rows = windows_of(call.rows), columns = windows_of(call.columns);
  const std::int64_t images = call.planes / call.channels;
  const std::int64_t pixels = call.in_height * call.in_width + call.out_height * call.out_width;
  const bool few = images < 4 * detail::max_threads();
  const std::int64_t run = few ? std::min(run_of_channels, call.channels) : call.channels;
  const std::int64_t runs = (call.channels + run - 1) / run;
  const std::int64_t grain =
      std::max<std::int64_t>(1, 16 * 1024 / std::max<std::int64_t>(1, pixels * run));
  const int threads = detail::threads_for(images * runs, grain);
  const std::int64_t room = ChannelRun<T>::room(call, run);
  std::vector<double> memory(static_cast<std::size_t>(threads * room));
  detail::parallel_for(
      threads, images * runs, grain, [&](std::int64_t begin, std::int64_t end, int slot) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t first = unit % runs * run;
          ChannelRun<T>(call, rows.data(), columns.data(), unit / runs, first,
                        std::min(run, call.channels - first), memory.data() + slot * room)
              .run();
        }
      });
}
template void pool_channels_last<float>(const PoolingCall&);
template void pool_channels_last<double>(const PoolingCall&);

}  // namespace extensor::cpu
