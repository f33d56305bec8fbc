// Batch norm: every channel of [outer, channels, inner] has one mean and one variance. The first
// pass sums fixed parts of each channel, a small kernel combines them, and the last pass applies
// the result. If inner is 1 (channels last), threads side by side have neighbouring channels.
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

constexpr int threads = 256;

template <class S>
struct Arguments {
  using C = Compute<S>;
  std::int64_t outer, channels, inner;
  const S* x;
  const S* g;  // null: forward
  const S* residual;
  const S* result;
  S* out;
  S* grad_residual;
  bool relu, training;
  const double* mean;
  const C* coefficients;  // of the last pass, [4, channels]
};

// The parts into which the elements of a channel are divided.
struct Parts {
  std::int64_t count;
  std::int64_t size;   // elements of a channel in a part, but for the last one
  std::int64_t total;  // elements of a channel
  int lanes;           // channels last: threads side by side
  std::int64_t tiles;  // channels last: blocks side by side

  __device__ std::int64_t elements(std::int64_t part) const {
    return min(size, total - part * size);
  }
};

// For each channel and part, at channel · parts + part: the mean and the sum of squared deviations
// from it, or Σ g and Σ g · (x − centre).
using Record = double2;

struct AddRecords {
  __device__ __forceinline__ Record operator()(Record a, Record b) const {
    return {a.x + b.x, a.y + b.y};
  }
};

// The gradient of the normalized values: with a relu, the part of it that passes.
template <int width, class S>
__device__ __forceinline__ void load_gradient(const Arguments<S>& a, std::int64_t at,
                                              std::int64_t end, Compute<S>* g) {
  using C = Compute<S>;
  load_pack<width>(a.g, at, end, C(0), g);
  if (a.result != nullptr) {
    C y[width];
    load_pack<width>(a.result, at, end, C(0), y);
#pragma unroll
    for (int k = 0; k < width; ++k) g[k] = y[k] > 0 ? g[k] : C(0);
  }
}

// Sums of x − centre and its square, where the centre is near the mean of the first elements.
template <class C>
struct Deviations {
  C centre = 0, sum = 0, squares = 0;

  __device__ __forceinline__ void add(C x) {
    const C deviation = x - centre;
    sum += deviation;
    squares += deviation * deviation;
  }
  __device__ __forceinline__ Record record(double n) const {
    if (n == 0) return {0, 0};
    const double total = static_cast<double>(sum);
    const double rest = static_cast<double>(squares) - total * total / n;
    return {static_cast<double>(centre) + total / n, rest < 0 ? 0 : rest};
  }
};

// ---- channels last

// The rows and the channels of a thread: rows begin + down, begin + down + slices, …
struct ColumnPlace {
  int down, slices;
  std::int64_t column, begin, end;
  std::int64_t least;  // rows of every slice,
  int longer;          // and the slices that have one more

  template <int width>
  static __device__ ColumnPlace of(const Parts& parts) {
    const int lane = static_cast<int>(threadIdx.x);
    const std::int64_t part = blockIdx.x / parts.tiles;
    const int slices = threads / parts.lanes;
    const std::int64_t begin = part * parts.size, end = min(parts.total, begin + parts.size);
    return {lane / parts.lanes,
            slices,
            (blockIdx.x % parts.tiles * parts.lanes + lane % parts.lanes) * width,
            begin,
            end,
            (end - begin) / slices,
            static_cast<int>((end - begin) % slices)};
  }
  // Rows of the part for the threads of slice `s`.
  __device__ std::int64_t rows(int s) const { return least + (s < longer ? 1 : 0); }
};

template <class S, int width>
__global__ void __launch_bounds__(threads, 3)
    column_moments(Arguments<S> a, Parts parts, Record* records) {
  using C = Compute<S>;
  constexpr int together = 4;
  __shared__ Record shared[threads * width];
  const auto place = ColumnPlace::of<width>(parts);
  Deviations<C> sums[width];
  if (place.column < a.channels) {
    bool fresh = true;
    for (std::int64_t row = place.begin + place.down; row < place.end;
         row += together * place.slices) {
      C x[together][width];
      int found = 0;
#pragma unroll
      for (int r = 0; r < together; ++r) {
        const bool valid = row + r * place.slices < place.end;
        const std::int64_t at = (row + r * place.slices) * a.channels + place.column;
        load_pack<width>(a.x, at, valid ? at + 1 : 0, C(0), x[r]);
        found += valid ? 1 : 0;
      }
      if (fresh) {
        const C share = C(1) / static_cast<C>(found);
#pragma unroll
        for (int k = 0; k < width; ++k) {
          C total = 0;
#pragma unroll
          for (int r = 0; r < together; ++r) total += x[r][k];
          sums[k].centre = total * share;
        }
        fresh = false;
      }
#pragma unroll
      for (int r = 0; r < together; ++r) {
        if (r < found) {
#pragma unroll
          for (int k = 0; k < width; ++k) sums[k].add(x[r][k]);
        }
      }
    }
  }
  const auto own = static_cast<double>(place.rows(place.down));
#pragma unroll
  for (int k = 0; k < width; ++k) shared[threadIdx.x * width + k] = sums[k].record(own);
  __syncthreads();
  // A thread combines the slices of a channel.
  const int channels = parts.lanes * width;
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += threads) {
    const std::int64_t channel = blockIdx.x % parts.tiles * channels + c;
    if (channel >= a.channels) break;
    double total = 0;
    for (int s = 0; s < place.slices; ++s) {
      total += static_cast<double>(place.rows(s)) * shared[s * channels + c].x;
    }
    const double mean = total / static_cast<double>(place.end - place.begin);
    double squares = 0;
    for (int s = 0; s < place.slices; ++s) {
      const Record record = shared[s * channels + c];
      const double distance = record.x - mean;
      squares += record.y + static_cast<double>(place.rows(s)) * distance * distance;
    }
    records[channel * parts.count + blockIdx.x / parts.tiles] = {mean, squares};
  }
}

template <class S, int width>
__global__ void __launch_bounds__(threads, 3)
    column_gradient_sums(Arguments<S> a, Parts parts, Record* records) {
  using C = Compute<S>;
  constexpr int together = width >= 8 ? 2 : 4;
  __shared__ Record shared[threads * width];
  const auto place = ColumnPlace::of<width>(parts);
  C centre[width] = {}, gradients[width] = {}, products[width] = {};
  if (place.column < a.channels) {
#pragma unroll
    for (int k = 0; k < width; ++k) centre[k] = static_cast<C>(a.mean[place.column + k]);
    for (std::int64_t row = place.begin + place.down; row < place.end;
         row += together * place.slices) {
      C x[together][width], g[together][width];
#pragma unroll
      for (int r = 0; r < together; ++r) {
        const std::int64_t at = (row + r * place.slices) * a.channels + place.column;
        const std::int64_t end = row + r * place.slices < place.end ? at + 1 : 0;
        load_pack<width>(a.x, at, end, C(0), x[r]);
        load_gradient<width>(a, at, end, g[r]);
        if (a.grad_residual != nullptr && a.result != nullptr) {
          store_pack<width>(g[r], a.grad_residual, at, end);
        }
      }
#pragma unroll
      for (int r = 0; r < together; ++r) {  // g is 0 past the end
#pragma unroll
        for (int k = 0; k < width; ++k) {
          gradients[k] += g[r][k];
          products[k] += g[r][k] * (x[r][k] - centre[k]);
        }
      }
    }
  }
#pragma unroll
  for (int k = 0; k < width; ++k) {
    shared[threadIdx.x * width + k] = {static_cast<double>(gradients[k]),
                                       static_cast<double>(products[k])};
  }
  __syncthreads();
  const int channels = parts.lanes * width;
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += threads) {
    const std::int64_t channel = blockIdx.x % parts.tiles * channels + c;
    if (channel >= a.channels) break;
    Record total{0, 0};
    for (int s = 0; s < place.slices; ++s) total = AddRecords()(total, shared[s * channels + c]);
    records[channel * parts.count + blockIdx.x / parts.tiles] = total;
  }
}

// ---- the last pass

// Halves are so coarse that their centre need not be subtracted first: it is part of the shift.
template <class C>
struct Coefficients {
  C centre, scale, shift, slope;

  template <class S>
  __device__ __forceinline__ C deviation(C x) const {
    return is_half_type<S> ? x : x - centre;
  }
};
template <class C>
__device__ __forceinline__ Coefficients<C> coefficients_of(const C* lists, std::int64_t channels,
                                                           std::int64_t c) {
  return {lists[c], lists[channels + c], lists[2 * channels + c], lists[3 * channels + c]};
}

// Forward: (x − centre) · scale + shift. Backward: g · scale and, in training,
// + (x − centre) · slope + shift. For packs at `places`, of which −1 stands for none; all are read
// before the first is written. coefficients(t, k) are those of element k of pack t.
template <bool backward, int width, int together, class S, class Find>
__device__ __forceinline__ void apply_packs(const Arguments<S>& a,
                                            const std::int64_t (&places)[together],
                                            const Find& coefficients) {
  using C = Compute<S>;
  C values[together][width], others[together][width];
  if constexpr (!backward) {
#pragma unroll
    for (int t = 0; t < together; ++t) {
      const std::int64_t at = places[t], end = at < 0 ? at : at + 1;
      load_pack<width>(a.x, at, end, C(0), values[t]);
      if (a.residual != nullptr) load_pack<width>(a.residual, at, end, C(0), others[t]);
    }
#pragma unroll
    for (int t = 0; t < together; ++t) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const Coefficients<C> c = coefficients(t, k);
        C y = c.template deviation<S>(values[t][k]) * c.scale + c.shift;
        if (a.relu) {
          if (a.residual != nullptr) y += others[t][k];
          y = y <= 0 ? C(0) : y;  // NaN stays NaN
        }
        values[t][k] = y;
      }
      store_pack<width>(values[t], a.out, places[t], places[t] < 0 ? places[t] : places[t] + 1);
    }
  } else {
#pragma unroll
    for (int t = 0; t < together; ++t) {
      const std::int64_t at = places[t], end = at < 0 ? at : at + 1;
      if (a.result != nullptr && a.grad_residual != nullptr) {
        load_pack<width>(a.grad_residual, at, end, C(0), values[t]);
      } else {
        load_gradient<width>(a, at, end, values[t]);
      }
      if (a.training) load_pack<width>(a.x, at, end, C(0), others[t]);
    }
#pragma unroll
    for (int t = 0; t < together; ++t) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const Coefficients<C> c = coefficients(t, k);
        values[t][k] *= c.scale;
        if (a.training) values[t][k] += c.template deviation<S>(others[t][k]) * c.slope + c.shift;
      }
      store_pack<width>(values[t], a.out, places[t], places[t] < 0 ? places[t] : places[t] + 1);
    }
  }
}

template <class S, int width, bool backward>
__global__ void __launch_bounds__(threads, 3) apply_columns(Arguments<S> a, Parts parts) {
  using C = Compute<S>;
  constexpr int together = width >= 8 && backward ? 2 : 4;
  const auto place = ColumnPlace::of<width>(parts);
  if (place.column >= a.channels) return;
  Coefficients<C> own[width];
#pragma unroll
  for (int k = 0; k < width; ++k) {
    own[k] = coefficients_of(a.coefficients, a.channels, place.column + k);
  }
  for (std::int64_t row = place.begin + place.down; row < place.end;
       row += together * place.slices) {
    std::int64_t places[together];
#pragma unroll
    for (int t = 0; t < together; ++t) {
      const std::int64_t here = row + t * place.slices;
      places[t] = here < place.end ? here * a.channels + place.column : -1;
    }
    apply_packs<backward, width>(a, places, [&](int, int k) { return own[k]; });
  }
}

// Index is uint32 if it can number all packs.
template <class S, int width, bool backward, class Index>
__global__ void __launch_bounds__(threads, 3) apply_segments(Arguments<S> a, Index packs) {
  constexpr int together = 2;
  const Index per_segment = static_cast<Index>(a.inner / width);
  const Index channels = static_cast<Index>(a.channels);
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * threads;
  for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(threads) + threadIdx.x; i < packs;
       i += together * step) {
    std::int64_t places[together];
    Coefficients<Compute<S>> own[together];
#pragma unroll
    for (int t = 0; t < together; ++t) {
      const std::uint64_t at = i + t * step;
      places[t] = at < packs ? static_cast<std::int64_t>(at) * width : -1;
      const Index channel = static_cast<Index>(at < packs ? at : 0) / per_segment % channels;
      own[t] = coefficients_of(a.coefficients, a.channels, channel);
    }
    apply_packs<backward, width>(a, places, [&](int t, int) { return own[t]; });
  }
}

// ---- channels first: a block for each part of a channel

// Calls body(offset of a pack) for the packs of this thread, `together` at a time: body gets an
// array, in which −1 stands for none.
template <int width, int together, class Body>
__device__ __forceinline__ void for_channel_packs(std::int64_t channel, std::int64_t channels,
                                                  std::int64_t inner, std::int64_t begin,
                                                  std::int64_t end, const Body& body) {
  const std::int64_t step = static_cast<std::int64_t>(threads) * width;
  for (std::int64_t first = begin + threadIdx.x * width; first < end; first += together * step) {
    std::int64_t places[together];
#pragma unroll
    for (int t = 0; t < together; ++t) {
      const std::int64_t at = first + t * step;
      // Elements of a channel are numbered within 32 bits almost always; that division is faster.
      const std::int64_t sample =
          at < std::int64_t{1} << 32 && inner < std::int64_t{1} << 32
              ? static_cast<std::uint32_t>(at) / static_cast<std::uint32_t>(inner)
              : at / inner;
      places[t] = at < end ? (sample * channels + channel) * inner + (at - sample * inner) : -1;
    }
    body(places);
  }
}

template <class S, int width>
__global__ void __launch_bounds__(threads)
    segment_moments(Arguments<S> a, Parts parts, Record* records) {
  using C = Compute<S>;
  constexpr int together = 4;
  Group<true> group;
  const std::int64_t channel = blockIdx.x / parts.count, part = blockIdx.x % parts.count;
  const std::int64_t begin = part * parts.size, n = parts.elements(part);
  Deviations<C> sums;
  double count = 0;
  for_channel_packs<width, together>(
      channel, a.channels, a.inner, begin, begin + n, [&](const std::int64_t* places) {
        C x[together][width];
#pragma unroll
        for (int t = 0; t < together; ++t) {
          load_pack<width>(a.x, places[t], places[t] < 0 ? places[t] : places[t] + 1, C(0), x[t]);
        }
        if (count == 0) {
          C total = 0;
          int found = 0;
#pragma unroll
          for (int t = 0; t < together; ++t) {
            found += places[t] < 0 ? 0 : width;
#pragma unroll
            for (int k = 0; k < width; ++k) total += x[t][k];
          }
          sums.centre = total / static_cast<C>(found);
        }
#pragma unroll
        for (int t = 0; t < together; ++t) {
          if (places[t] < 0) break;
          count += width;
#pragma unroll
          for (int k = 0; k < width; ++k) sums.add(x[t][k]);
        }
      });
  const Record own = sums.record(count);
  const double mean = group.reduce(count * own.x, 0.0, Plus()) / static_cast<double>(n);
  const double distance = own.x - mean;
  const double squares =
      group.reduce(count == 0 ? 0 : own.y + count * distance * distance, 0.0, Plus());
  if (threadIdx.x == 0) records[blockIdx.x] = {mean, squares};
}

template <class S, int width>
__global__ void __launch_bounds__(threads)
    segment_gradient_sums(Arguments<S> a, Parts parts, Record* records) {
  using C = Compute<S>;
  constexpr int together = width >= 8 ? 2 : 4;
  Group<true> group;
  const std::int64_t channel = blockIdx.x / parts.count, part = blockIdx.x % parts.count;
  const std::int64_t begin = part * parts.size;
  const C centre = static_cast<C>(a.mean[channel]);
  Record sums{0, 0};
  for_channel_packs<width, together>(channel, a.channels, a.inner, begin,
                                     begin + parts.elements(part), [&](const std::int64_t* places) {
                                       C x[together][width], g[together][width];
                                       C gradients = 0, products = 0;
#pragma unroll
                                       for (int t = 0; t < together; ++t) {
                                         const std::int64_t end =
                                             places[t] < 0 ? places[t] : places[t] + 1;
                                         load_pack<width>(a.x, places[t], end, C(0), x[t]);
                                         load_gradient<width>(a, places[t], end, g[t]);
                                         if (a.grad_residual != nullptr && a.result != nullptr) {
                                           store_pack<width>(g[t], a.grad_residual, places[t], end);
                                         }
                                       }
#pragma unroll
                                       for (int t = 0; t < together; ++t) {
                                         if (places[t] < 0) break;
#pragma unroll
                                         for (int k = 0; k < width; ++k) {
                                           gradients += g[t][k];
                                           products += g[t][k] * (x[t][k] - centre);
                                         }
                                       }
                                       sums.x += static_cast<double>(gradients);
                                       sums.y += static_cast<double>(products);
                                     });
  sums = group.reduce(sums, Record{0, 0}, AddRecords());
  if (threadIdx.x == 0) records[blockIdx.x] = sums;
}

// ---- the statistics and coefficients of the channels: a warp for each

template <class C>
struct ChannelArguments {
  std::int64_t channels;
  Parts parts;
  double count;  // elements of a channel
  double eps;
  bool training;
  bool without_centre;      // the last pass does not subtract it
  const Record* moments;    // null: the statistics are given
  const Record* gradients;  // null: forward, or not yet known
  double* mean;
  double* variance;
  const C* weight;
  const C* bias;
  C* grad_weight;
  C* grad_bias;
  C* coefficients;
};

template <class C>
__global__ void __launch_bounds__(threads) finish_channels(ChannelArguments<C> a) {
  Group<false> group;
  for (std::int64_t c = group.number(); c < a.channels; c += group.count()) {
    double mean, variance;
    if (a.moments != nullptr) {
      const Record* own = a.moments + c * a.parts.count;
      double total = 0;
      for (std::int64_t p = group.rank(); p < a.parts.count; p += 32) {
        total += static_cast<double>(a.parts.elements(p)) * own[p].x;
      }
      mean = group.reduce(total, 0.0, Plus()) / a.count;
      double squares = 0;
      for (std::int64_t p = group.rank(); p < a.parts.count; p += 32) {
        const double distance = own[p].x - mean;
        squares += own[p].y + static_cast<double>(a.parts.elements(p)) * distance * distance;
      }
      variance = group.reduce(squares, 0.0, Plus()) / a.count;
      if (group.rank() == 0) {
        a.mean[c] = mean;
        a.variance[c] = variance;
      }
    } else {
      mean = a.mean[c];
      variance = a.variance[c];
    }
    Record sums{0, 0};
    if (a.gradients != nullptr) {
      for (std::int64_t p = group.rank(); p < a.parts.count; p += 32) {
        sums = AddRecords()(sums, a.gradients[c * a.parts.count + p]);
      }
      sums = group.reduce(sums, Record{0, 0}, AddRecords());
    }
    if (group.rank() != 0) continue;
    const C centre = static_cast<C>(mean);
    const double offset = mean - static_cast<double>(centre);
    const double deviation_scale = 1 / sqrt(variance + a.eps);
    const double scale =
        deviation_scale * (a.weight == nullptr ? 1 : static_cast<double>(a.weight[c]));
    const double rest = a.without_centre ? mean : offset;
    double shift = 0, slope = 0;
    if (a.gradients == nullptr) {
      shift = (a.bias == nullptr ? 0 : static_cast<double>(a.bias[c])) - rest * scale;
    } else {
      // Σ g · (x − mean), from the sum relative to the centre.
      const double product = sums.y - offset * sums.x;
      const double grad_weight = deviation_scale * product;
      a.grad_weight[c] = static_cast<C>(grad_weight);
      a.grad_bias[c] = static_cast<C>(sums.x);
      if (a.training) {
        slope = -scale * deviation_scale * grad_weight / a.count;
        shift = -scale * sums.x / a.count - slope * rest;
      }
    }
    a.coefficients[c] = centre;
    a.coefficients[a.channels + c] = static_cast<C>(scale);
    a.coefficients[2 * a.channels + c] = static_cast<C>(shift);
    a.coefficients[3 * a.channels + c] = static_cast<C>(slope);
  }
}

// ---- launches

template <class S, int width>
class BatchNormalizer {
 public:
  using C = Compute<S>;

  explicit BatchNormalizer(const BatchNormalizationCall& call)
      : call_(call),
        by_columns_(call.inner == 1),
        parts_(divide(12)),
        last_parts_(divide(48)),
        coefficients_(static_cast<std::size_t>(4 * call.channels) * sizeof(C), "normalize_batch"),
        records_(static_cast<std::size_t>(call.channels * parts_.count) * sizeof(Record),
                 "normalize_batch") {
    a_.outer = call.outer;
    a_.channels = call.channels;
    a_.inner = call.inner;
    a_.x = elements<S>(call.x);
    a_.g = elements<S>(call.grad_output);
    a_.residual = elements<S>(call.residual);
    a_.result = elements<S>(call.result);
    a_.out = elements<S>(call.out);
    a_.grad_residual = elements<S>(call.grad_residual);
    a_.relu = call.relu;
    a_.training = call.training;
    a_.mean = call.mean;
    a_.coefficients = coefficients_.as<C>();
    if (call.grad_output == nullptr) a_.result = nullptr;
  }

  void run() const {
    const bool backward = call_.grad_output != nullptr;
    const bool finds_statistics = call_.training && !(backward && call_.statistics_given);
    if (finds_statistics) {
      if (by_columns_) {
        column_moments<S, width><<<grid(parts_), threads, 0, stream()>>>(a_, parts_, records());
      } else {
        segment_moments<S, width><<<grid(parts_), threads, 0, stream()>>>(a_, parts_, records());
      }
      launched("normalize_batch");
    }
    if (!backward || finds_statistics) finish(finds_statistics, false);
    if (backward) {
      if (by_columns_) {
        column_gradient_sums<S, width>
            <<<grid(parts_), threads, 0, stream()>>>(a_, parts_, records());
      } else {
        segment_gradient_sums<S, width>
            <<<grid(parts_), threads, 0, stream()>>>(a_, parts_, records());
      }
      launched("normalize_batch");
      finish(false, true);
      return apply<true>();
    }
    apply<false>();
  }

 private:
  // Into as many parts as keep the device busy, in several turns, so that none is left waiting.
  Parts divide(int blocks_per_multiprocessor) const {
    Parts parts{};
    parts.total = call_.outer * call_.inner;
    parts.lanes = 1;
    parts.tiles = 1;
    if (by_columns_) {
      while (parts.lanes < 32 && parts.lanes * width < call_.channels) parts.lanes *= 2;
      parts.tiles = divide_up(call_.channels, parts.lanes * width);
    }
    const std::int64_t units = by_columns_ ? parts.tiles : call_.channels;
    // Each thread gets at least a few packs.
    const std::int64_t shortest = by_columns_ ? 8 * (threads / parts.lanes) : 8 * threads * width;
    const std::int64_t wanted = divide_up(blocks_per_multiprocessor * multiprocessors(), units);
    const std::int64_t size = divide_up(parts.total, wanted);
    parts.size = divide_up(size < shortest ? shortest : size, width) * width;
    parts.count = divide_up(parts.total, parts.size);
    return parts;
  }
  unsigned grid(const Parts& parts) const {
    return static_cast<unsigned>(parts.count * (by_columns_ ? parts.tiles : call_.channels));
  }
  Record* records() const { return records_.as<Record>(); }

  void finish(bool moments, bool gradients) const {
    ChannelArguments<C> arguments{};
    arguments.channels = call_.channels;
    arguments.parts = parts_;
    arguments.count = static_cast<double>(call_.outer) * static_cast<double>(call_.inner);
    arguments.eps = call_.eps;
    arguments.training = call_.training;
    arguments.without_centre = is_half_type<S>;
    arguments.moments = moments ? records() : nullptr;
    arguments.gradients = gradients ? records() : nullptr;
    arguments.mean = call_.mean;
    arguments.variance = call_.variance;
    arguments.weight = elements<C>(call_.weight);
    arguments.bias = elements<C>(call_.bias);
    arguments.grad_weight = elements<C>(call_.grad_weight);
    arguments.grad_bias = elements<C>(call_.grad_bias);
    arguments.coefficients = coefficients_.as<C>();
    finish_channels<<<grid_for(divide_up(call_.channels, 8)), threads, 0, stream()>>>(arguments);
    launched("normalize_batch");
  }

  template <bool backward>
  void apply() const {
    if (by_columns_) {
      apply_columns<S, width, backward>
          <<<grid(last_parts_), threads, 0, stream()>>>(a_, last_parts_);
      return launched("normalize_batch");
    }
    const std::int64_t packs = call_.outer * call_.channels * call_.inner / width;
    const int blocks = blocks_for(packs, threads, 16);
    if (packs < std::int64_t{1} << 31) {
      apply_segments<S, width, backward>
          <<<blocks, threads, 0, stream()>>>(a_, static_cast<std::uint32_t>(packs));
    } else {
      apply_segments<S, width, backward>
          <<<blocks, threads, 0, stream()>>>(a_, static_cast<std::uint64_t>(packs));
    }
    launched("normalize_batch");
  }

  const BatchNormalizationCall& call_;
  const bool by_columns_;
  const Parts parts_, last_parts_;
  const Scratch coefficients_, records_;
  Arguments<S> a_{};
};

template <class S>
void run(const BatchNormalizationCall& call) {
  if (call.channels == 0) return;
  if (call.outer == 0 || call.inner == 0) {
    if (call.grad_weight == nullptr) return;
    const std::size_t bytes = static_cast<std::size_t>(call.channels) * sizeof(Compute<S>);
    check(cudaMemsetAsync(call.grad_weight, 0, bytes, stream()), "normalize_batch");
    check(cudaMemsetAsync(call.grad_bias, 0, bytes, stream()), "normalize_batch");
    return;
  }
  const std::int64_t unit = call.inner == 1 ? call.channels : call.inner;
  const bool vectors =
      unit % pack_width<S> == 0 && are_aligned(call.x, call.grad_output, call.residual, call.result,
                                               call.out, call.grad_residual);
  if (vectors) {
    BatchNormalizer<S, pack_width<S>>(call).run();
  } else {
    BatchNormalizer<S, 1>(call).run();
  }
}

}  // namespace

void normalize_batch(const BatchNormalizationCall& call) {
  with_float_type(call.dtype, [&]<class S>() { run<S>(call); });
}

}  // namespace extensor::backend::cuda
