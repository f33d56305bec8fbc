#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/convolution/direct_kernels.cpp"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h, as Highway requires.
#include <algorithm>

#include "backend/cpu/convolution/direct_kernels.h"
#include "backend/cpu/gemm/elements-inl.h"
#include "backend/cpu/simd/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::direct {

namespace hn = hwy::HWY_NAMESPACE;
using conv::DirectForward;
using conv::DirectKernels;
using conv::DirectWeightGradient;
using conv::Interleaved;
using conv::PaddedRows;
using conv::RowPhase;
using conv::Segment;
using product::Unroll;

// The sums that fit in the registers together with their operands.
inline constexpr int kSums = HWY_MAX_BYTES == 64 ? 24 : 12;

constexpr int RowsTogether(int channels) {
  return std::clamp(kSums / (2 * channels), 1, channels == 1 ? 4 : 2);
}
constexpr int TapsTogether(int channels) { return std::clamp(kSums / channels, 1, 9); }

template <class T, int kRows, int kVectors>
HWY_INLINE void StoreRows(const DirectForward<T>& call, std::int64_t channel, std::int64_t row,
                          std::int64_t column,
                          const hn::Vec<hn::ScalableTag<T>> (&sum)[kRows][kVectors]) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  const std::int64_t last = std::min(kLanes, call.columns - column - (kVectors - 1) * kLanes);
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(last));
  Unroll<kRows>([&](auto r) EXTENSOR_INLINED {
    T* to = call.y + channel * call.channel_stride + (row + r) * call.columns + column;
    if constexpr (kVectors == 2) hn::StoreU(sum[r][0], d, to);
    if (last == kLanes) {
      hn::StoreU(sum[r][kVectors - 1], d, to + (kVectors - 1) * kLanes);
    } else {
      hn::BlendedStore(sum[r][kVectors - 1], mask, d, to + (kVectors - 1) * kLanes);
    }
  });
}

// kVectors vectors of columns from `column` on, in kRows rows of kChannels channels of y.
template <class T, int kChannels, int kRows, int kVectors>
void ForwardTile(const DirectForward<T>& call, std::int64_t channel, std::int64_t row,
                 std::int64_t column) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  V sum[kChannels][kRows][kVectors];
  Unroll<kChannels>([&](auto c) EXTENSOR_INLINED {
    const V start = hn::Set(d, call.bias != nullptr ? call.bias[channel + c] : T(0));
    Unroll<kRows * kVectors>([&](auto q)
                                 EXTENSOR_INLINED { sum[c][q / kVectors][q % kVectors] = start; });
  });
  const T* image = call.image + row * call.row_step + column;
  const T* weight = call.weight + channel * call.patch;
  const std::int64_t patch = call.patch, row_step = call.row_step;
  for (std::int64_t p = 0; p < patch; ++p) {
    const T* from = image + call.offsets[p];
    V x[kRows][kVectors];
    Unroll<kRows * kVectors>([&](auto q) EXTENSOR_INLINED {
      constexpr int r = q / kVectors, v = q % kVectors;
      x[r][v] = hn::LoadU(d, from + r * row_step + v * kLanes);
    });
    Unroll<kChannels>([&](auto c) EXTENSOR_INLINED {
      const V w = hn::Set(d, weight[c * patch + p]);
      Unroll<kRows * kVectors>([&](auto q) EXTENSOR_INLINED {
        constexpr int r = q / kVectors, v = q % kVectors;
        sum[c][r][v] = hn::MulAdd(w, x[r][v], sum[c][r][v]);
      });
    });
  }
  Unroll<kChannels>([&](auto c) EXTENSOR_INLINED {
    StoreRows<T, kRows, kVectors>(call, channel + c, row, column, sum[c]);
  });
}

// The same for one channel whose rows of y use rows of x in common: kStride is the step between
// rows of y in rows of taps. A row of x is loaded once for all rows of y.
template <class T, int kHeight, int kStride, int kRows, int kVectors>
void SharedRowsTile(const DirectForward<T>& call, std::int64_t channel, std::int64_t row,
                    std::int64_t column) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  V sum[kRows][kVectors];
  const V start = hn::Set(d, call.bias != nullptr ? call.bias[channel] : T(0));
  Unroll<kRows * kVectors>([&](auto q)
                               EXTENSOR_INLINED { sum[q / kVectors][q % kVectors] = start; });
  const T* image = call.image + row * call.row_step + column;
  const std::int64_t step = call.tap_row_step, kernel_width = call.kernel_width;
  for (std::int64_t p = 0; p < call.patch; p += kHeight * kernel_width) {
    for (std::int64_t s = 0; s < kernel_width; ++s) {
      const T* weight = call.weight + channel * call.patch + p + s;
      const T* from = image + call.offsets[p + s];
      V w[kHeight];
      Unroll<kHeight>([&](auto r)
                          EXTENSOR_INLINED { w[r] = hn::Set(d, weight[r * kernel_width]); });
      Unroll<(kRows - 1) * kStride + kHeight>([&](auto line) EXTENSOR_INLINED {
        V x[kVectors];
        Unroll<kVectors>(
            [&](auto v) EXTENSOR_INLINED { x[v] = hn::LoadU(d, from + line * step + v * kLanes); });
        Unroll<kRows>([&](auto i) EXTENSOR_INLINED {
          constexpr int r = line - i * kStride;
          if constexpr (r >= 0 && r < kHeight) {
            Unroll<kVectors>(
                [&](auto v) EXTENSOR_INLINED { sum[i][v] = hn::MulAdd(w[r], x[v], sum[i][v]); });
          }
        });
      });
    }
  }
  StoreRows<T, kRows, kVectors>(call, channel, row, column, sum);
}

template <class T, int kHeight, int kStride, int kRows>
void SharedRows(const DirectForward<T>& call, std::int64_t channel, std::int64_t row) {
  constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  std::int64_t column = 0;
  for (; column + kLanes < call.columns; column += 2 * kLanes) {
    SharedRowsTile<T, kHeight, kStride, kRows, 2>(call, channel, row, column);
  }
  if (column < call.columns) {
    SharedRowsTile<T, kHeight, kStride, kRows, 1>(call, channel, row, column);
  }
}

// The last tile overlaps the one before: its rows are computed twice, with the same bits.
template <class T, int kHeight, int kStride>
void SharedRowsChannel(const DirectForward<T>& call, std::int64_t channel) {
  constexpr int kRows = HWY_MAX_BYTES == 64 ? 7 : 2;
  constexpr int kFewRows = HWY_MAX_BYTES == 64 ? 4 : 1;
  const std::int64_t rows = call.rows;
  const auto run = [&](auto size) {
    for (std::int64_t row = 0; row < rows; row += size) {
      SharedRows<T, kHeight, kStride, size>(call, channel,
                                            std::min<std::int64_t>(row, rows - size));
    }
  };
  const auto computed = [&](std::int64_t size) { return (rows + size - 1) / size * size; };
  if constexpr (kStride == 1) {
    if (rows >= kRows && computed(kRows) <= computed(kFewRows) + 1) {
      return run(std::integral_constant<int, kRows>());
    }
  }
  if (rows >= kFewRows) {
    run(std::integral_constant<int, kFewRows>());
  } else {
    run(std::integral_constant<int, 1>());
  }
}

// Returns false if the rows of y do not use rows of x in common, or the kernel is of another
// height.
template <class T>
bool ShareRows(const DirectForward<T>& call, std::int64_t channel) {
  using Run = void (*)(const DirectForward<T>&, std::int64_t);
  const std::int64_t height = call.kernel_height;
  Run run = nullptr;
  if (call.row_step == call.tap_row_step) {
    run = height == 3   ? &SharedRowsChannel<T, 3, 1>
          : height == 5 ? &SharedRowsChannel<T, 5, 1>
          : height == 7 ? &SharedRowsChannel<T, 7, 1>
                        : nullptr;
  } else if (call.row_step == 2 * call.tap_row_step) {
    run = height == 3   ? &SharedRowsChannel<T, 3, 2>
          : height == 5 ? &SharedRowsChannel<T, 5, 2>
                        : nullptr;
  }
  if (run != nullptr) run(call, channel);
  return run != nullptr;
}

template <class T, int kChannels, int kRows>
void ForwardRows(const DirectForward<T>& call, std::int64_t channel, std::int64_t row) {
  constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  std::int64_t column = 0;
  for (; column + kLanes < call.columns; column += 2 * kLanes) {
    ForwardTile<T, kChannels, kRows, 2>(call, channel, row, column);
  }
  if (column < call.columns) ForwardTile<T, kChannels, kRows, 1>(call, channel, row, column);
}

template <class T, int kChannels>
void ForwardChannels(const DirectForward<T>& call, std::int64_t channel) {
  constexpr int kRows = RowsTogether(kChannels);
  std::int64_t row = 0;
  for (; row + kRows <= call.rows; row += kRows) {
    ForwardRows<T, kChannels, kRows>(call, channel, row);
  }
  for (; row < call.rows; ++row) ForwardRows<T, kChannels, 1>(call, channel, row);
}

// Calls run(constant, first channel) for groups of 6, 4, 3, 2 or 1 channels.
template <class Run>
HWY_INLINE void ForChannelGroups(std::int64_t channels, Run run) {
  std::int64_t c = 0;
  for (; channels - c >= 6; c += 6) run(std::integral_constant<int, 6>(), c);
  switch (channels - c) {
    case 5:
      run(std::integral_constant<int, 3>(), c);
      return run(std::integral_constant<int, 2>(), c + 3);
    case 4:
      return run(std::integral_constant<int, 4>(), c);
    case 3:
      return run(std::integral_constant<int, 3>(), c);
    case 2:
      return run(std::integral_constant<int, 2>(), c);
    case 1:
      return run(std::integral_constant<int, 1>(), c);
    default:
      return;
  }
}

template <class T>
void Forward(const DirectForward<T>& call) {
  ForChannelGroups(call.channels, [&](auto channels, std::int64_t first) {
    if constexpr (channels == 1) {
      if (ShareRows(call, first)) return;
    }
    ForwardChannels<T, channels>(call, first);
  });
}

// Elements first … first + kTaps − 1 of the patch; results past its end are discarded.
template <class T, int kChannels, int kTaps>
void WeightTile(const DirectWeightGradient<T>& call, std::int64_t channel, std::int64_t first) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  V sum[kChannels][kTaps];
  Unroll<kChannels * kTaps>([&](auto q)
                                EXTENSOR_INLINED { sum[q / kTaps][q % kTaps] = hn::Zero(d); });
  std::int64_t offset[kTaps];
  for (int t = 0; t < kTaps; ++t) offset[t] = call.offsets[std::min(first + t, call.patch - 1)];
  const T* gradient = call.y + channel * call.channel_stride;
  const std::int64_t whole = call.columns / kLanes * kLanes, rest = call.columns - whole;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(rest));
  const auto add = [&](const V* y, auto load) EXTENSOR_INLINED {
    Unroll<kTaps>([&](auto t) EXTENSOR_INLINED {
      const V x = load(offset[t]);
      Unroll<kChannels>([&](auto c)
                            EXTENSOR_INLINED { sum[c][t] = hn::MulAdd(x, y[c], sum[c][t]); });
    });
  };
  for (std::int64_t i = 0; i < call.rows; ++i) {
    const T* y_row = gradient + i * call.columns;
    const T* x_row = call.image + i * call.row_step;
    V y[kChannels];
    for (std::int64_t j = 0; j < whole; j += kLanes) {
      Unroll<kChannels>([&](auto c) EXTENSOR_INLINED {
        y[c] = hn::LoadU(d, y_row + c * call.channel_stride + j);
      });
      add(y, [&](std::int64_t at) EXTENSOR_INLINED { return hn::LoadU(d, x_row + j + at); });
    }
    if (rest > 0) {
      Unroll<kChannels>([&](auto c) EXTENSOR_INLINED {
        y[c] = hn::MaskedLoad(mask, d, y_row + c * call.channel_stride + whole);
      });
      add(y, [&](std::int64_t at)
                 EXTENSOR_INLINED { return hn::MaskedLoad(mask, d, x_row + whole + at); });
    }
  }
  const auto taps = std::min<std::int64_t>(kTaps, call.patch - first);
  Unroll<kChannels * kTaps>([&](auto q) EXTENSOR_INLINED {
    constexpr int c = q / kTaps, t = q % kTaps;
    if (t >= taps) return;
    T* to = call.sums + ((channel + c) * call.patch + first + t) * kLanes;
    hn::StoreU(hn::Add(hn::LoadU(d, to), sum[c][t]), d, to);
  });
}

template <class T>
void WeightGradient(const DirectWeightGradient<T>& call) {
  ForChannelGroups(call.channels, [&](auto channels, std::int64_t first) {
    constexpr int kTaps = TapsTogether(channels);
    for (std::int64_t p = 0; p < call.patch; p += kTaps) {
      WeightTile<T, channels, kTaps>(call, first, p);
    }
  });
}

// `count` elements, `stride` apart; writes whole vectors, with zeros after the last element.
template <class T>
HWY_INLINE void CopyStrided(const T* from, std::int64_t stride, std::int64_t count, T* to) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  const auto some = [&](std::int64_t n) EXTENSOR_INLINED {
    return hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(n, 0, kLanes)));
  };
  std::int64_t i = 0;
  if (stride == 1) {
    for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    if (i < count) hn::StoreU(hn::MaskedLoad(some(count - i), d, from + i), d, to + i);
    return;
  }
#if HWY_TARGET != HWY_SCALAR
  if (stride == 2) {
    for (; i + kLanes < count; i += kLanes) {
      hn::Vec<decltype(d)> even, odd;
      LoadPairs(d, from + 2 * i, even, odd);
      hn::StoreU(even, d, to + i);
    }
    if (i < count) {
      const std::int64_t rest = 2 * (count - i) - 1;  // nothing past the last element is read
      const auto low = hn::MaskedLoad(some(rest), d, from + 2 * i);
      const auto high = rest > kLanes
                            ? hn::MaskedLoad(some(rest - kLanes), d, from + 2 * i + kLanes)
                            : hn::Zero(d);
      hn::StoreU(hn::ConcatEven(d, high, low), d, to + i);
    }
    return;
  }
#endif
  for (; i < count; ++i) to[i] = from[i * stride];
  hn::StoreU(hn::Zero(d), d, to + count);
}

template <class T>
void CopyRows(const PaddedRows<T>& call) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  // One vector is the rule. The compiler would replace a plain loop by a call of memset.
  const auto clear = [&](T* to, T* end) EXTENSOR_INLINED {
    if (to >= end) return;
    hn::StoreU(hn::Zero(d), d, to);
    for (to += kLanes; to < end; to += kLanes) hn::StoreU(hn::Zero(d), d, to);
  };
  T* to = call.to;
  for (std::int64_t i = 0; i < call.rows; ++i) {
    const T* row = call.from + i * call.from_step;
    for (std::int64_t p = 0; p < call.phase_count; ++p, to += call.phase_size) {
      // In this order, because what each step writes past its end belongs to the next.
      const RowPhase phase = call.phases[p];
      clear(to, to + phase.before);
      CopyStrided(row + phase.from, call.stride, phase.count, to + phase.before);
      clear(to + phase.before + (phase.count + kLanes - 1) / kLanes * kLanes, to + call.phase_size);
    }
  }
}

template <class T>
void CopySegments(const T* image, const std::int64_t* offsets, std::int64_t count,
                  const Segment* first, const Segment* last, std::int64_t row_stride, T* rows) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  for (std::int64_t p = 0; p < count; ++p, rows += row_stride) {
    const T* shifted = image + offsets[p];
    for (const Segment* segment = first; segment != last; ++segment) {
      const T* from = shifted + segment->from;
      T* to = rows + segment->to;
      for (std::int64_t i = 0; i < segment->length; i += kLanes) {
        hn::StoreU(hn::LoadU(d, from + i), d, to + i);
      }
    }
  }
}

// Calls body(d, i) for whole vectors of tag d starting at i, then for single elements.
template <class T, class Body>
HWY_INLINE void ForVectors(std::int64_t n, const Body& body) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(d, i);
  const hn::CappedTag<T, 1> one;
  for (; i < n; ++i) body(one, i);
}

template <class T>
void WeightedSum(const T* const* x, const T* const* weight, std::int64_t count, const T* start,
                 T* out, std::int64_t n) {
  ForVectors<T>(n, [&](auto d, std::int64_t i) EXTENSOR_INLINED {
    hn::Vec<decltype(d)> sum = start != nullptr ? hn::LoadU(d, start + i) : hn::Zero(d);
    for (std::int64_t k = 0; k < count; ++k) {
      sum = hn::MulAdd(hn::LoadU(d, x[k] + i), hn::LoadU(d, weight[k] + i), sum);
    }
    hn::StoreU(sum, d, out + i);
  });
}

template <class T>
void AddProducts(const T* x, const T* y, T* sums, std::int64_t n) {
  ForVectors<T>(n, [&](auto d, std::int64_t i) EXTENSOR_INLINED {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), hn::LoadU(d, sums + i)), d,
               sums + i);
  });
}

template <class T, int kRows>
void AddInterleavedRows(const T* rows, std::int64_t row_stride, T* sums, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  for (; i + kLanes <= n; i += kLanes) {
    T* to = sums + kRows * i;
    const auto add = [&](V sum, int row) {
      return hn::Add(sum, hn::LoadU(d, rows + row * row_stride + i));
    };
    V a, b, c, e;
    if constexpr (kRows == 1) {
      hn::StoreU(add(hn::LoadU(d, to), 0), d, to);
    } else if constexpr (kRows == 2) {
      hn::LoadInterleaved2(d, to, a, b);
      hn::StoreInterleaved2(add(a, 0), add(b, 1), d, to);
    } else if constexpr (kRows == 3) {
      hn::LoadInterleaved3(d, to, a, b, c);
      hn::StoreInterleaved3(add(a, 0), add(b, 1), add(c, 2), d, to);
    } else {
      hn::LoadInterleaved4(d, to, a, b, c, e);
      hn::StoreInterleaved4(add(a, 0), add(b, 1), add(c, 2), add(e, 3), d, to);
    }
  }
#endif
  for (; i < n; ++i) {
    for (int row = 0; row < kRows; ++row) sums[kRows * i + row] += rows[row * row_stride + i];
  }
}

template <class T>
void AddInterleaved(const T* rows, std::int64_t row_stride, std::int64_t k, T* sums,
                    std::int64_t n) {
  static_assert(conv::most_interleaved == 4);
  constexpr decltype(&AddInterleavedRows<T, 1>) kernels[] = {
      &AddInterleavedRows<T, 1>, &AddInterleavedRows<T, 2>, &AddInterleavedRows<T, 3>,
      &AddInterleavedRows<T, 4>};
  kernels[k - 1](rows, row_stride, sums, n);
}

template <class T, int kPhases>
void InterleaveRows(const Interleaved<T>& call) {
  const auto scalar = [&](const T* from, T* to) {
    for (std::int64_t p = 0; p < call.phases; ++p, from += call.phase_stride) {
      for (std::int64_t j = p, q = 0; j < call.to_width; j += call.phases) to[j] = from[q++];
    }
  };
  for (std::int64_t i = 0; i < call.rows; ++i) {
    const T* from = call.from + i * call.width;
    T* to = call.to + i * call.to_step;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kPhases > 0) {
      const hn::ScalableTag<T> d;
      constexpr std::int64_t kLanes = hn::MaxLanes(d), kStep = kPhases * kLanes;
      const auto store = [&](std::int64_t at, T* out) EXTENSOR_INLINED {
        const auto load = [&](int p) EXTENSOR_INLINED {
          return hn::LoadU(d, from + p * call.phase_stride + at);
        };
        if constexpr (kPhases == 1) hn::StoreU(load(0), d, out);
        if constexpr (kPhases == 2) hn::StoreInterleaved2(load(0), load(1), d, out);
        if constexpr (kPhases == 3) hn::StoreInterleaved3(load(0), load(1), load(2), d, out);
        if constexpr (kPhases == 4) {
          hn::StoreInterleaved4(load(0), load(1), load(2), load(3), d, out);
        }
      };
      std::int64_t j = 0;
      for (; j + kStep <= call.to_width; j += kStep) store(j / kPhases, to + j);
      if (j < call.to_width) {
        T last[kStep];
        store(j / kPhases, last);
        for (const T* rest = last; j < call.to_width; j += kLanes, rest += kLanes) {
          const std::int64_t n = std::min(kLanes, call.to_width - j);
          hn::BlendedStore(hn::LoadU(d, rest), hn::FirstN(d, static_cast<std::size_t>(n)), d,
                           to + j);
        }
      }
      continue;
    }
#endif
    scalar(from, to);
  }
}

template <class T>
void Interleave(const Interleaved<T>& call) {
  switch (call.phases) {
    case 1:
      return InterleaveRows<T, 1>(call);
    case 2:
      return InterleaveRows<T, 2>(call);
    case 3:
      return InterleaveRows<T, 3>(call);
    case 4:
      return InterleaveRows<T, 4>(call);
    default:
      return InterleaveRows<T, 0>(call);
  }
}

template <class T>
void fill_direct_kernels(DirectKernels<T>* kernels) {
  *kernels = {hn::MaxLanes(hn::ScalableTag<T>()),
              &Forward<T>,
              &WeightGradient<T>,
              &CopyRows<T>,
              &CopySegments<T>,
              &WeightedSum<T>,
              &AddProducts<T>,
              &AddInterleaved<T>,
              &Interleave<T>};
}
template void fill_direct_kernels(DirectKernels<float>*);
template void fill_direct_kernels(DirectKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE::direct
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu::conv {

template <class T>
const DirectKernels<T>& direct_kernels() {
  static const DirectKernels<T> kernels = [] {
    DirectKernels<T> filled;
    EXTENSOR_DISPATCH(direct::fill_direct_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const DirectKernels<float>& direct_kernels();
template const DirectKernels<double>& direct_kernels();

}  // namespace extensor::cpu::conv
#endif
