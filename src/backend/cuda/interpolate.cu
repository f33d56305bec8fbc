// Resampling of planes and of channels_last images. The taps of both axes are computed first; then
// one thread computes one element of the result. A gradient gathers along the width, then along the
// height: an element adds up the elements that it was a tap of, in their order, so sums are
// reproducible.
#include <type_traits>

#include "backend/cuda/context.h"
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

constexpr int tap_threads = 256;

// The taps of an axis in device memory: tap k of element i is at k · length + i.
template <class T>
struct AxisTaps {
  std::int32_t* index;
  T* weights;
  int count;
  std::int64_t length;
  // For gradients: element j of x is a tap of the elements [first[j], last[j]) of the result.
  std::int32_t *first, *last;
};

// Keys' kernel with a = −0.75.
__device__ __forceinline__ double cubic_weight(double distance) {
  constexpr double a = -0.75;
  if (distance <= 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
  if (distance >= 2) return 0;
  return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
}

// As InterpolationAxis::taps. Products are rounded before they are added to, as on the CPU: that
// decides where an element begins.
template <class T>
__global__ void compute_taps(InterpolationAxis axis, AxisTaps<T> taps) {
  const auto bounded = [&](double at) {
    const auto last = static_cast<double>(axis.in - 1);
    return static_cast<std::int32_t>(at < 0 ? 0 : at > last ? last : at);
  };
  const std::int64_t grid = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
       i < axis.out; i += grid) {
    if (axis.rule == InterpolationRule::nearest || axis.rule == InterpolationRule::nearest_exact) {
      const T half = axis.rule == InterpolationRule::nearest ? T(0) : T(0.5);
      const T at = floor((static_cast<T>(i) + half) * static_cast<T>(axis.scale));
      taps.index[i] = bounded(static_cast<double>(at));
      taps.weights[i] = T(1);
      continue;
    }
    const auto place = static_cast<double>(i);
    double at = axis.align_corners ? __dmul_rn(place, axis.scale)
                                   : __dsub_rn(__dmul_rn(__dadd_rn(place, 0.5), axis.scale), 0.5);
    const bool linear = axis.rule == InterpolationRule::linear;
    if (linear && at < 0) at = 0;
    const double whole = floor(at), t = at - whole;
    const int before = linear ? 0 : 1;
    for (int k = 0; k < taps.count; ++k) {
      taps.index[k * taps.length + i] = bounded(whole + (k - before));
      taps.weights[k * taps.length + i] = static_cast<T>(
          linear ? (k == 0 ? 1 - t : t) : cubic_weight(fabs(t + static_cast<double>(before - k))));
    }
  }
}

// The taps of an element grow with the element, so those that contain j are neighbours.
template <class T>
__global__ void find_users(std::int64_t in, AxisTaps<T> taps) {
  const std::int64_t grid = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  // The number of elements whose tap is below `bound`.
  const auto count_below = [&](const std::int32_t* index, std::int64_t bound) {
    std::int64_t low = 0, high = taps.length;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (index[middle] < bound) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return static_cast<std::int32_t>(low);
  };
  for (std::int64_t j = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; j < in;
       j += grid) {
    taps.first[j] = count_below(taps.index + (taps.count - 1) * taps.length, j);
    taps.last[j] = count_below(taps.index, j + 1);
  }
}

// The weight of element j of x in element i of the result.
template <class T>
__device__ __forceinline__ T weight_of(const AxisTaps<T>& taps, std::int64_t i, std::int64_t j) {
  T weight = 0;
  for (int k = 0; k < taps.count; ++k) {
    if (taps.index[k * taps.length + i] == j) weight += taps.weights[k * taps.length + i];
  }
  return weight;
}

// Rows of elements that lie side by side: [images · height] rows of width · channels.
struct Rows {
  std::int64_t count, height, width, channels;
};

// Calls compute(row, image, row within the image, element of the row) for every element. Threads
// side by side compute neighbours.
template <class Compute>
__device__ __forceinline__ void for_each_element(const Rows& rows, Compute&& compute) {
  const std::int64_t length = rows.width * rows.channels;
  for (std::int64_t row = blockIdx.x * static_cast<std::int64_t>(blockDim.y) + threadIdx.y;
       row < rows.count; row += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
    const std::int64_t image = row / rows.height, inside = row - image * rows.height;
    for (std::int64_t p = blockIdx.y * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
         p < length; p += static_cast<std::int64_t>(gridDim.y) * blockDim.x) {
      compute(row, image, inside, p);
    }
  }
}

// sum + weight · value; an infinity without weight does not count.
template <class T>
__device__ __forceinline__ T add_weighted(T sum, T weight, T value) {
  return weight == 0 ? sum : fma(weight, value, sum);
}

template <class T>
__global__ void __launch_bounds__(tap_threads)
    resample(Rows out, std::int64_t in_height, std::int64_t in_width, AxisTaps<T> vertical,
             AxisTaps<T> horizontal, const T* x, T* y) {
  const std::int64_t in_row = in_width * out.channels, out_row = out.width * out.channels;
  for_each_element(out, [&](std::int64_t row, std::int64_t image, std::int64_t i, std::int64_t p) {
    const std::int64_t column = out.channels == 1 ? p : p / out.channels;
    const std::int64_t channel = p - column * out.channels;
    const T* from = x + image * in_height * in_row + channel;
    T sum = 0;
    for (int v = 0; v < vertical.count; ++v) {
      const T* line = from + vertical.index[v * vertical.length + i] * in_row;
      T partial = 0;
      for (int h = 0; h < horizontal.count; ++h) {
        const std::int64_t at = h * horizontal.length + column;
        partial = add_weighted(partial, horizontal.weights[at],
                               line[horizontal.index[at] * out.channels]);
      }
      sum = add_weighted(sum, vertical.weights[v * vertical.length + i], partial);
    }
    y[row * out_row + p] = sum;
  });
}

// Long sums of float32 are added up in double.
template <class T>
__global__ void __launch_bounds__(tap_threads)
    gather_width(Rows out, std::int64_t in_width, AxisTaps<T> taps, const T* x, double* y) {
  const std::int64_t in_row = in_width * out.channels, out_row = out.width * out.channels;
  for_each_element(out, [&](std::int64_t row, std::int64_t, std::int64_t, std::int64_t p) {
    const std::int64_t column = out.channels == 1 ? p : p / out.channels;
    const T* from = x + row * in_row + (p - column * out.channels);
    double sum = 0;
    for (std::int64_t i = taps.first[column]; i < taps.last[column]; ++i) {
      sum = add_weighted(sum, static_cast<double>(weight_of(taps, i, column)),
                         static_cast<double>(from[i * out.channels]));
    }
    y[row * out_row + p] = sum;
  });
}
template <class T>
__global__ void __launch_bounds__(tap_threads)
    gather_height(Rows out, std::int64_t in_height, AxisTaps<T> taps, const double* x, T* y) {
  const std::int64_t row_length = out.width * out.channels;
  for_each_element(out, [&](std::int64_t row, std::int64_t image, std::int64_t j, std::int64_t p) {
    const double* from = x + image * in_height * row_length + p;
    double sum = 0;
    for (std::int64_t i = taps.first[j]; i < taps.last[j]; ++i) {
      sum = add_weighted(sum, static_cast<double>(weight_of(taps, i, j)), from[i * row_length]);
    }
    y[row * row_length + p] = static_cast<T>(sum);
  });
}

// ---- launches

// The taps of an axis and the memory that holds them.
template <class T>
class Axis {
 public:
  Axis(const InterpolationAxis& axis, bool gradient)
      : memory_(bytes(axis, gradient), "interpolate") {
    taps.count = count(axis);
    taps.length = axis.out;
    taps.weights = memory_.template as<T>();
    taps.index = reinterpret_cast<std::int32_t*>(taps.weights + taps.count * axis.out);
    taps.first = taps.index + taps.count * axis.out;
    taps.last = taps.first + axis.in;
    compute_taps<<<blocks_for(axis.out, tap_threads), tap_threads, 0, stream()>>>(axis, taps);
    launched("interpolate");
    if (!gradient) return;
    find_users<<<blocks_for(axis.in, tap_threads), tap_threads, 0, stream()>>>(axis.in, taps);
    launched("interpolate");
  }

  AxisTaps<T> taps;

 private:
  static int count(const InterpolationAxis& axis) {
    if (axis.rule == InterpolationRule::linear) return 2;
    return axis.rule == InterpolationRule::cubic ? 4 : 1;
  }
  static std::size_t bytes(const InterpolationAxis& axis, bool gradient) {
    const auto entries = static_cast<std::size_t>(count(axis) * axis.out);
    const std::size_t users = gradient ? 2 * static_cast<std::size_t>(axis.in) : 0;
    return entries * (sizeof(T) + sizeof(std::int32_t)) + users * sizeof(std::int32_t);
  }

  Scratch memory_;
};

struct Launch {
  dim3 blocks, threads;
};
Launch launch_for(const Rows& rows) {
  const std::int64_t length = rows.width * rows.channels;
  unsigned side = 8;  // threads along a row
  while (side < tap_threads && side < length) side *= 2;
  const unsigned lines = tap_threads / side;
  return {dim3(grid_for(divide_up(rows.count, lines)), grid_for(divide_up(length, side), 4096)),
          dim3(side, lines)};
}

template <class T>
void run(const InterpolationCall& call) {
  const Axis<T> vertical(call.rows, call.gradient), horizontal(call.columns, call.gradient);
  const std::int64_t images = call.planes / call.channels;
  const auto* x = reinterpret_cast<const T*>(call.x);
  auto* out = reinterpret_cast<T*>(call.out);
  if (!call.gradient) {
    const Rows rows{images * call.rows.out, call.rows.out, call.columns.out, call.channels};
    const Launch launch = launch_for(rows);
    resample<<<launch.blocks, launch.threads, 0, stream()>>>(
        rows, call.rows.in, call.columns.in, vertical.taps, horizontal.taps, x, out);
    return launched("interpolate");
  }
  const Rows between{images * call.rows.out, call.rows.out, call.columns.in, call.channels};
  const Rows rows{images * call.rows.in, call.rows.in, call.columns.in, call.channels};
  const std::int64_t numel = between.count * between.width * between.channels;
  const Scratch sums(static_cast<std::size_t>(numel) * sizeof(double), "interpolate");
  const Launch first = launch_for(between), second = launch_for(rows);
  gather_width<<<first.blocks, first.threads, 0, stream()>>>(between, call.columns.out,
                                                             horizontal.taps, x, sums.as<double>());
  launched("interpolate");
  gather_height<<<second.blocks, second.threads, 0, stream()>>>(rows, call.rows.out, vertical.taps,
                                                                sums.as<double>(), out);
  launched("interpolate");
}

}  // namespace

void interpolate(const InterpolationCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::backend::cuda
