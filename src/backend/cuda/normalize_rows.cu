// Layer, group, instance and root-mean-square norm. A short row stays in registers; a longer one is
// read again, mostly from the cache. The gradients of the parameters are sums over fixed shares of
// the rows, added in a fixed order.
//
// A mean is kept as a centre, which is a nearby number of the compute type, and a small remainder.
// x − centre is exact for the elements near it, so a large offset common to all elements costs no
// accuracy.
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/parameter_sums.h"

namespace extensor::backend::cuda {

namespace {

template <class S>
struct Arguments {
  using C = Compute<S>;
  bool centred;
  std::int64_t rows, groups, channels, run, length;
  double eps;
  double share;  // 1 / length
  const S* x;
  const C* weight;  // or null
  const C* bias;    // or null
  S* out;
  const S* g;
  const S* residual;
  S* sum;
  const S* grad_sum;
  bool parameter_packs;  // the parameters of a pack can be read at once

  __device__ const C* parameters(const C* values, std::int64_t row) const {
    return values == nullptr ? nullptr : values + row % groups * channels;
  }
};

// ---- statistics

template <class Sum>
struct Pair {
  Sum a, b;
};
using PairSums = Pair<double>;
struct AddPairs {
  template <class Sum>
  __device__ __forceinline__ Pair<Sum> operator()(Pair<Sum> x, Pair<Sum> y) const {
    return {x.a + y.a, x.b + y.b};
  }
};

// Of the sums that threads exchange. A few halves lose nothing in float, which is cheaper.
template <class S>
using SumOf = std::conditional_t<is_half_type<S>, float, double>;

// 1 / √x; by the float's instruction where its range suffices.
template <class C>
__device__ __forceinline__ double reciprocal_root(double x) {
  if constexpr (std::is_same_v<C, float>) {
    const float rounded = static_cast<float>(x);
    if (rounded > 1e-30f) return static_cast<double>(rsqrtf(rounded));
  }
  return 1 / sqrt(x);
}

// The mean is the centre plus `offset`; scale is 1 / √(variance + eps).
template <class C>
struct Statistics {
  C centre;
  double offset, scale;
  // x̂ = (x − centre) · factor() + shift()
  __device__ C factor() const { return static_cast<C>(scale); }
  __device__ C shift() const { return static_cast<C>(-offset * scale); }
};

// for_each(body) calls body(value) for the elements of this thread; twice, or four times if sums
// exceed the range of C.
template <class S, class G, class ForEach>
__device__ __forceinline__ Statistics<Compute<S>> statistics_of(G& group, double share,
                                                                bool centred, double eps,
                                                                const ForEach& for_each) {
  using C = Compute<S>;
  using Sum = SumOf<S>;
  C centre = 0;
  if (centred) {
    C part = 0;
    for_each([&](C value) { part += value; });
    centre = static_cast<C>(
        static_cast<double>(group.reduce(static_cast<Sum>(part), Sum(0), Plus())) * share);
  }
  C deviations = 0, squares = 0;
  for_each([&](C value) {
    const C deviation = value - centre;
    deviations += deviation;
    squares += deviation * deviation;
  });
  const auto pair = group.reduce(Pair<Sum>{static_cast<Sum>(deviations), static_cast<Sum>(squares)},
                                 Pair<Sum>{0, 0}, AddPairs());
  PairSums sums{static_cast<double>(pair.a), static_cast<double>(pair.b)};
  if (!isfinite(sums.b)) {
    double part = 0;
    if (centred) {
      for_each([&](C value) { part += static_cast<double>(value); });
      centre = static_cast<C>(group.reduce(part, 0.0, Plus()) * share);
    }
    sums = {0, 0};
    for_each([&](C value) {
      const double deviation = static_cast<double>(value) - static_cast<double>(centre);
      sums.a += deviation;
      sums.b += deviation * deviation;
    });
    sums = group.reduce(sums, PairSums{0, 0}, AddPairs());
  }
  const double offset = centred ? sums.a * share : 0;
  double variance = sums.b * share - offset * offset;
  if (variance < 0) variance = 0;  // NaN stays NaN
  return {centre, offset, reciprocal_root<C>(variance + eps)};
}

// grad_x = scale · (g · weight − mean(g · weight) − x̂ · mean(g · weight · x̂))
//        = g · weight · scale + (x − centre) · slope + constant
template <class C>
struct Slopes {
  C scale, slope, constant;
};
// Given Σ g · weight and Σ g · weight · x̂.
template <class C>
__device__ __forceinline__ Slopes<C> slopes_of(const Statistics<C>& s, PairSums sums, double share,
                                               bool centred) {
  const double slope = -s.scale * s.scale * sums.b * share;
  const double mean = centred ? sums.a * share : 0;
  return {static_cast<C>(s.scale), static_cast<C>(slope),
          static_cast<C>(-s.scale * mean - slope * s.offset)};
}

template <class C>
__device__ __forceinline__ C parameter(const C* values, std::int64_t at, C missing) {
  return values == nullptr ? missing : values[at];
}

// Parameters at first … first + width − 1.
template <int width, class C>
__device__ __forceinline__ void load_parameters(const C* values, std::int64_t first,
                                                std::int64_t end, bool packs, C missing, C* to) {
  constexpr int at_once = width < pack_width<C> ? 1 : pack_width<C>;
  if (packs && values != nullptr && first < end) {
#pragma unroll
    for (int k = 0; k < width; k += at_once) {
      *reinterpret_cast<Pack<C, at_once>*>(to + k) =
          *reinterpret_cast<const Pack<C, at_once>*>(values + first + k);
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < width; ++k) {
    to[k] = values == nullptr || first + k >= end ? missing : values[first + k];
  }
}

// ---- forward

// Of a block with a row in its registers.
template <class S>
inline constexpr int most_threads = is_half_type<S> ? 512 : 1024;

// One parameter per element, and a row in `packs` packs per thread. The row is kept as it was read and
// converted at each use: for bfloat16 rows of 4096 that takes 0.77 of the time. A limit on the
// registers, which would fit more rows, makes it slower.
template <class S, bool is_block, int width, int packs>
__global__ void __launch_bounds__(is_block ? most_threads<S> : 256) short_forward(Arguments<S> a) {
  using C = Compute<S>;
  using Read = Pack<S, width>;
  Group<is_block> group;
  const std::int64_t n = a.length;
  for (std::int64_t row = group.number(); row < a.rows; row += group.count()) {
    const std::int64_t offset = row * n;
    Read values[packs];
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const std::int64_t at = (p * group.size() + group.rank()) * width;
      values[p] = Read{};
      if (at < n) values[p] = *reinterpret_cast<const Read*>(a.x + offset + at);
    }
    if (a.residual != nullptr) {  // rounded to S, as the sum that is written
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        const std::int64_t at = (p * group.size() + group.rank()) * width;
        if (at >= n) break;
        const Read added = *reinterpret_cast<const Read*>(a.residual + offset + at);
#pragma unroll
        for (int k = 0; k < width; ++k) {
          values[p].at[k] = store_from_compute<S>(load_as_compute(values[p].at[k]) +
                                                  load_as_compute(added.at[k]));
        }
        *reinterpret_cast<Read*>(a.sum + offset + at) = values[p];
      }
    }
    const auto s = statistics_of<S>(group, a.share, a.centred, a.eps, [&](const auto& body) {
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        if ((p * group.size() + group.rank()) * width >= n) break;
#pragma unroll
        for (int k = 0; k < width; ++k) body(load_as_compute(values[p].at[k]));
      }
    });
    const C factor = s.factor(), shift = s.shift();
    const C* weight = a.parameters(a.weight, row);
    const C* bias = a.parameters(a.bias, row);
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const std::int64_t at = (p * group.size() + group.rank()) * width;
      alignas(pack_bytes) C w[width], b[width];
      load_parameters<width>(weight, at, n, a.parameter_packs, C(1), w);
      load_parameters<width>(bias, at, n, a.parameter_packs, C(0), b);
      C results[width];
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const C deviation = load_as_compute(values[p].at[k]) - s.centre;
        results[k] = (deviation * factor + shift) * w[k] + b[k];
      }
      store_pack<width>(results, a.out + offset, at, n);
    }
  }
}

constexpr int long_row_threads = 512;

// The elements of a long row for this thread, in the compute type: body(position, values).
template <int width, class S, class Body>
__device__ __forceinline__ void for_packs(const S* x, std::int64_t n, const Body& body) {
  constexpr int together = 4;
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * width;
  for (std::int64_t at = threadIdx.x * width; at < n; at += together * step) {
    Compute<S> values[together][width];
#pragma unroll
    for (int p = 0; p < together; ++p) {
      load_pack<width>(x, at + p * step, n, Compute<S>(0), values[p]);
    }
#pragma unroll
    for (int p = 0; p < together; ++p) {
      if (at + p * step < n) body(at + p * step, values[p]);
    }
  }
}

// Sums in double, because a thread may add many elements.
template <int width, class S>
__device__ __forceinline__ Statistics<Compute<S>> statistics_of_long_row(Group<true>& group,
                                                                         const Arguments<S>& a,
                                                                         const S* x) {
  using C = Compute<S>;
  const auto n = static_cast<double>(a.length);
  C centre = 0;
  if (a.centred) {
    double total = 0;
    for_packs<width>(x, a.length, [&](std::int64_t, const C* values) {
#pragma unroll
      for (int k = 0; k < width; ++k) total += static_cast<double>(values[k]);
    });
    centre = static_cast<C>(group.reduce(total, 0.0, Plus()) / n);
  }
  PairSums sums{0, 0};
  for_packs<width>(x, a.length, [&](std::int64_t, const C* values) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const double deviation = static_cast<double>(values[k] - centre);
      sums.a += deviation;
      sums.b += deviation * deviation;
    }
  });
  sums = group.reduce(sums, PairSums{0, 0}, AddPairs());
  const double offset = a.centred ? sums.a / n : 0;
  double variance = sums.b / n - offset * offset;
  if (variance < 0) variance = 0;  // NaN stays NaN
  return {centre, offset, 1 / sqrt(variance + a.eps)};
}

// Of a pack that starts at `at`; runs longer than one element hold whole packs.
__device__ __forceinline__ std::int64_t channel_of(std::int64_t at, int k, std::int64_t run) {
  return run == 1 ? at + k : at / run;
}

template <class S, int width>
__global__ void __launch_bounds__(long_row_threads) long_forward(Arguments<S> a) {
  using C = Compute<S>;
  Group<true> group;
  const std::int64_t n = a.length;
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const S* x = a.x + row * n;
    if (a.residual != nullptr) {
      S* sum = a.sum + row * n;
      for_packs<width>(x, n, [&](std::int64_t at, C* values) {
        C added[width];
        load_pack<width>(a.residual + row * n, at, n, C(0), added);
#pragma unroll
        for (int k = 0; k < width; ++k) values[k] += added[k];
        store_pack<width>(values, sum, at, n);
      });
      x = sum;  // each thread reads only what it wrote
    }
    const auto s = statistics_of_long_row<width>(group, a, x);
    const C factor = s.factor(), shift = s.shift();
    const C* weight = a.parameters(a.weight, row);
    const C* bias = a.parameters(a.bias, row);
    for_packs<width>(x, n, [&](std::int64_t at, C* values) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const std::int64_t channel = channel_of(at, k, a.run);
        values[k] = ((values[k] - s.centre) * factor + shift) * parameter(weight, channel, C(1)) +
                    parameter(bias, channel, C(0));
      }
      store_pack<width>(values, a.out + row * n, at, n);
    });
  }
}

// ---- backward

// One parameter per element, one group, and a row in `packs` packs per thread. Block b works on
// rows b, b + grid, …, and writes its sums of the parameters' gradients to partials[b].
template <class S, int width, int packs>
__global__ void __launch_bounds__(1024) short_backward(Arguments<S> a, Compute<S>* partials) {
  using C = Compute<S>;
  Group<true> group;
  const std::int64_t n = a.length;
  C grad_weight[packs][width] = {}, grad_bias[packs][width] = {};
  alignas(pack_bytes) C w[packs][width];
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    load_parameters<width>(a.weight, (p * group.size() + group.rank()) * width, n,
                           a.parameter_packs, C(1), w[p]);
  }
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const std::int64_t offset = row * n;
    C x[packs][width], g[packs][width];
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const std::int64_t at = (p * group.size() + group.rank()) * width;
      load_pack<width>(a.x + offset, at, n, C(0), x[p]);
      load_pack<width>(a.g + offset, at, n, C(0), g[p]);
    }
    const auto s = statistics_of<S>(group, a.share, a.centred, a.eps, [&](const auto& body) {
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        if ((p * group.size() + group.rank()) * width >= n) break;
#pragma unroll
        for (int k = 0; k < width; ++k) body(x[p][k]);
      }
    });
    const C factor = s.factor(), shift = s.shift();
    C gradients = 0, products = 0;
#pragma unroll
    for (int p = 0; p < packs; ++p) {
#pragma unroll
      for (int k = 0; k < width; ++k) {  // g is 0 past the end
        const C product = g[p][k] * ((x[p][k] - s.centre) * factor + shift);
        grad_weight[p][k] += product;
        grad_bias[p][k] += g[p][k];
        gradients += g[p][k] * w[p][k];
        products += product * w[p][k];
      }
    }
    using Sum = SumOf<S>;
    const auto pair =
        group.reduce(Pair<Sum>{static_cast<Sum>(gradients), static_cast<Sum>(products)},
                     Pair<Sum>{0, 0}, AddPairs());
    const PairSums sums{static_cast<double>(pair.a), static_cast<double>(pair.b)};
    const Slopes<C> slopes = slopes_of(s, sums, a.share, a.centred);
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const std::int64_t at = (p * group.size() + group.rank()) * width;
#pragma unroll
      for (int k = 0; k < width; ++k) {
        g[p][k] = g[p][k] * w[p][k] * slopes.scale +
                  ((x[p][k] - s.centre) * slopes.slope + slopes.constant);
      }
      if (a.grad_sum != nullptr) {
        C added[width];
        load_pack<width>(a.grad_sum + offset, at, n, C(0), added);
#pragma unroll
        for (int k = 0; k < width; ++k) g[p][k] += added[k];
      }
      store_pack<width>(g[p], a.out + offset, at, n);
    }
  }
  if (partials == nullptr) return;
  C* own = partials + static_cast<std::int64_t>(blockIdx.x) * 2 * n;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const std::int64_t at = (p * group.size() + group.rank()) * width;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      if (at + k >= n) break;
      own[at + k] = grad_weight[p][k];
      own[n + at + k] = grad_bias[p][k];
    }
  }
}

// The numbers by which x̂ of a row is found again.
template <class C>
struct Standardizer {
  C centre, factor, shift;
};

template <class S, int width>
__global__ void __launch_bounds__(long_row_threads)
    long_backward(Arguments<S> a, Standardizer<Compute<S>>* standardizers) {
  using C = Compute<S>;
  Group<true> group;
  const std::int64_t n = a.length;
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const S* x = a.x + row * n;
    const S* g = a.g + row * n;
    const C* weight = a.parameters(a.weight, row);
    const auto s = statistics_of_long_row<width>(group, a, x);
    const C factor = s.factor(), shift = s.shift();
    PairSums sums{0, 0};
    for_packs<width>(x, n, [&](std::int64_t at, C* values) {
      C gradients[width];
      load_pack<width>(g, at, n, C(0), gradients);
      C of_g = 0, of_product = 0;
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const C weighted = gradients[k] * parameter(weight, channel_of(at, k, a.run), C(1));
        of_g += weighted;
        of_product += weighted * ((values[k] - s.centre) * factor + shift);
      }
      sums.a += static_cast<double>(of_g);
      sums.b += static_cast<double>(of_product);
    });
    sums = group.reduce(sums, PairSums{0, 0}, AddPairs());
    const Slopes<C> slopes = slopes_of(s, sums, a.share, a.centred);
    for_packs<width>(x, n, [&](std::int64_t at, C* values) {
      C gradients[width];
      load_pack<width>(g, at, n, C(0), gradients);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const C weighted = gradients[k] * parameter(weight, channel_of(at, k, a.run), C(1));
        values[k] =
            weighted * slopes.scale + ((values[k] - s.centre) * slopes.slope + slopes.constant);
      }
      if (a.grad_sum != nullptr) {
        load_pack<width>(a.grad_sum + row * n, at, n, C(0), gradients);
#pragma unroll
        for (int k = 0; k < width; ++k) values[k] += gradients[k];
      }
      store_pack<width>(values, a.out + row * n, at, n);
    });
    if (standardizers != nullptr && threadIdx.x == 0) {
      standardizers[row] = {s.centre, factor, shift};
    }
  }
}

// Sums of the parameters' gradients over `samples_together` samples: partials[share] has those of
// the weights, then those of the biases. For runs of one element: neighbouring threads have
// neighbouring parameters.
template <class S>
__global__ void __launch_bounds__(256)
    sum_parameters(Arguments<S> a, const Standardizer<Compute<S>>* standardizers,
                   std::int64_t samples, std::int64_t samples_together, Compute<S>* partials) {
  using C = Compute<S>;
  const std::int64_t parameters = a.groups * a.channels;
  const std::int64_t shares = (samples + samples_together - 1) / samples_together;
  const std::int64_t grid = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
       i < parameters * shares; i += grid) {
    const std::int64_t at = i % parameters, share = i / parameters;
    const std::int64_t group = at / a.channels;
    const std::int64_t end = min(samples, (share + 1) * samples_together);
    double of_weight = 0, of_bias = 0;
    for (std::int64_t sample = share * samples_together; sample < end; ++sample) {
      const std::int64_t element = sample * parameters + at;
      const Standardizer<C> s = standardizers[sample * a.groups + group];
      const C g = load_as_compute(a.g[element]);
      of_weight += g * ((load_as_compute(a.x[element]) - s.centre) * s.factor + s.shift);
      of_bias += g;
    }
    partials[share * 2 * parameters + at] = static_cast<C>(of_weight);
    partials[share * 2 * parameters + parameters + at] = static_cast<C>(of_bias);
  }
}

// Likewise for longer runs, of which a warp sums one: a share is a sample.
template <class S>
__global__ void __launch_bounds__(256)
    sum_runs(Arguments<S> a, const Standardizer<Compute<S>>* standardizers, Compute<S>* partials) {
  using C = Compute<S>;
  Group<false> group;
  const std::int64_t parameters = a.groups * a.channels;
  for (std::int64_t unit = group.number(); unit < a.rows * a.channels; unit += group.count()) {
    const std::int64_t row = unit / a.channels, sample = row / a.groups;
    const Standardizer<C> s = standardizers[row];
    PairSums sums{0, 0};
    for (std::int64_t i = group.rank(); i < a.run; i += 32) {
      const C g = load_as_compute(a.g[unit * a.run + i]);
      sums.a += g * ((load_as_compute(a.x[unit * a.run + i]) - s.centre) * s.factor + s.shift);
      sums.b += g;
    }
    sums = group.reduce(sums, PairSums{0, 0}, AddPairs());
    if (group.rank() == 0) {
      C* own = partials + sample * 2 * parameters + unit % parameters;
      own[0] = static_cast<C>(sums.a);
      own[parameters] = static_cast<C>(sums.b);
    }
  }
}

// ---- launches

template <class S>
class RowNormalizer {
 public:
  using C = Compute<S>;

  explicit RowNormalizer(const RowNormalizationCall& call) : call_(call) {
    a_.centred = call.centred;
    a_.rows = call.rows;
    a_.groups = call.groups;
    a_.channels = call.channels;
    a_.run = call.run;
    a_.length = call.channels * call.run;
    a_.eps = call.eps;
    a_.share = 1 / static_cast<double>(a_.length);
    a_.x = elements<S>(call.x);
    a_.weight = elements<C>(call.weight);
    a_.bias = elements<C>(call.bias);
    a_.out = elements<S>(call.out);
    a_.g = elements<S>(call.grad_output);
    a_.residual = elements<S>(call.residual);
    a_.sum = elements<S>(call.sum);
    a_.grad_sum = elements<S>(call.grad_sum);
    const std::int64_t unit = call.run == 1 ? a_.length : call.run;
    vectors_ = unit % pack_width<S> == 0 && are_aligned(call.x, call.out, call.grad_output,
                                                        call.residual, call.sum, call.grad_sum);
    a_.parameter_packs = call.channels % pack_width<S> == 0 && are_aligned(call.weight, call.bias);
  }

  void run() const {
    if (vectors_) {
      run_with<pack_width<S>>();
    } else {
      run_with<1>();
    }
  }

 private:
  template <int width>
  void run_with() const {
    if (call_.grad_output == nullptr) {
      forward<width>();
    } else {
      backward<width>();
    }
  }

  template <int width>
  void forward() const {
    constexpr int most = width == 1 ? 16 : 4;
    const std::int64_t packs = divide_up(a_.length, width);
    if (a_.run != 1 || packs > most_threads<S> * most) {
      long_forward<S, width><<<grid_for(a_.rows), long_row_threads, 0, stream()>>>(a_);
    } else if (packs <= 32) {
      short_forward<S, false, width, 1><<<grid_for(divide_up(a_.rows, 8)), 256, 0, stream()>>>(a_);
    } else if (packs <= 32 * most) {
      short_forward<S, false, width, most>
          <<<grid_for(divide_up(a_.rows, 8)), 256, 0, stream()>>>(a_);
    } else {
      const auto threads = static_cast<unsigned>(divide_up(packs, 32 * most) * 32);
      short_forward<S, true, width, most><<<grid_for(a_.rows), threads, 0, stream()>>>(a_);
    }
    launched("normalize_rows");
  }

  template <int width>
  void backward() const {
    constexpr int most = width == 1 ? 8 : is_half_type<S> ? 1 : 2;
    const std::int64_t packs = divide_up(a_.length, width);
    const bool parameters = call_.grad_weight != nullptr;
    if (a_.run != 1 || a_.groups != 1 || packs > 1024 * most) return long_backward_of<width>();
    const auto threads = static_cast<unsigned>(divide_up(packs, 32 * most) * 32);
    // As many blocks as are resident at a time.
    const std::int64_t each = 1024 / threads > 8 ? 8 : 1024 / threads;
    const std::int64_t resident = multiprocessors() * each;
    const std::int64_t blocks = a_.rows < resident ? a_.rows : resident;
    const Scratch partials(
        parameters ? static_cast<std::size_t>(blocks * 2 * a_.length) * sizeof(C) : 1,
        "normalize_rows");
    short_backward<S, width, most><<<static_cast<unsigned>(blocks), threads, 0, stream()>>>(
        a_, parameters ? partials.as<C>() : nullptr);
    launched("normalize_rows");
    if (parameters) finish(partials.as<C>(), blocks);
  }

  template <int width>
  void long_backward_of() const {
    const bool parameters = call_.grad_weight != nullptr;
    const std::int64_t samples = a_.rows / a_.groups, count = a_.groups * a_.channels;
    // Enough shares to fill the device.
    const std::int64_t wanted = divide_up(std::int64_t{multiprocessors()} * 2048, count);
    const std::int64_t together =
        a_.run != 1 ? 1 : divide_up(samples, wanted < samples ? wanted : samples);
    const std::int64_t shares = divide_up(samples, together);
    const Scratch standardizers(
        parameters ? static_cast<std::size_t>(a_.rows) * sizeof(Standardizer<C>) : 1,
        "normalize_rows");
    const Scratch partials(
        parameters ? static_cast<std::size_t>(shares * 2 * count) * sizeof(C) : 1,
        "normalize_rows");
    auto* found = parameters ? standardizers.as<Standardizer<C>>() : nullptr;
    long_backward<S, width><<<grid_for(a_.rows), long_row_threads, 0, stream()>>>(a_, found);
    launched("normalize_rows");
    if (!parameters) return;
    if (a_.run == 1) {
      sum_parameters<<<grid_for(divide_up(count * shares, 256)), 256, 0, stream()>>>(
          a_, found, samples, together, partials.as<C>());
    } else {
      sum_runs<<<grid_for(divide_up(a_.rows * a_.channels, 8)), 256, 0, stream()>>>(
          a_, found, partials.as<C>());
    }
    launched("normalize_rows");
    finish(partials.as<C>(), shares);
  }

  void finish(const C* partials, std::int64_t shares) const {
    add_partials(partials, shares, a_.groups * a_.channels, elements<C>(call_.grad_weight),
                 elements<C>(call_.grad_bias), "normalize_rows");
  }

  const RowNormalizationCall& call_;
  Arguments<S> a_{};
  bool vectors_;
};

}  // namespace

void normalize_rows(const RowNormalizationCall& call) {
  with_float_type(call.dtype, [&]<class S>() {
    const std::int64_t parameters = call.groups * call.channels;
    if (call.rows == 0 || parameters == 0 || call.run == 0) {
      if (call.grad_weight == nullptr || parameters == 0) return;
      const std::size_t bytes = static_cast<std::size_t>(parameters) * sizeof(Compute<S>);
      check(cudaMemsetAsync(call.grad_weight, 0, bytes, stream()), "normalize_rows");
      check(cudaMemsetAsync(call.grad_bias, 0, bytes, stream()), "normalize_rows");
      return;
    }
    RowNormalizer<S>(call).run();
  });
}

}  // namespace extensor::backend::cuda
