// Random fills. Each element is computed from its own draw, so the split over threads does not
// matter.
#include "backend/cpu/random.h"

#include <algorithm>

#include "backend/cpu/philox.h"
#include "backend/cpu/width.h"
#include "core/convert.h"
#include "core/parallel.h"
#include "core/truncated_normal.h"

namespace extensor::cpu {

namespace {

using backend::RandomCall;
using backend::RandomOp;

// out[i] = make(draw i)
template <class T, class Draw, class Make>
void fill(const RandomCall& call, Make&& make) {
  detail::parallel_for(call.numel, 4096, [&](std::int64_t begin, std::int64_t end) {
    Draws<Draw> draws;
    for (std::int64_t at = begin; at < end; at += Draws<Draw>::most) {
      const std::int64_t count = std::min(Draws<Draw>::most, end - at);
      const auto* values =
          draws.make(call.seed, call.stream, call.offset + static_cast<std::uint64_t>(at), count);
      T* out = reinterpret_cast<T*>(call.out) + at;
      for (std::int64_t i = 0; i < count; ++i) out[i] = detail::convert<T>(make(values[i]));
    }
  });
}

// Uniform draws of a half have as many bits as it holds, so that none rounds up to `high`.
template <class Half>
Half uniform_half(std::uint32_t word) {
  if constexpr (std::is_same_v<Half, Float16>) {
    return detail::uniform_float16(word);
  } else {
    return detail::uniform_bfloat16(word);
  }
}

template <class Half>
void fill_uniform_half(const RandomCall& call) {
  const float low = static_cast<float>(call.first);
  const float range = static_cast<float>(call.second - call.first);
  fill<Half, detail::Uniform32>(call, [=](std::uint32_t word) {
    return Half(low + range * static_cast<float>(uniform_half<Half>(word)));
  });
}

void fill_uniform(const RandomCall& call) {
  const double low = call.first, range = call.second - call.first;
  if (call.dtype == DType::float64) {
    return fill<double, detail::Uniform64>(
        call, [=](std::uint64_t bits) { return low + range * detail::uniform_double(bits); });
  }
  if (call.dtype == DType::float16) return fill_uniform_half<Float16>(call);
  if (call.dtype == DType::bfloat16) return fill_uniform_half<BFloat16>(call);
  const auto low32 = static_cast<float>(low), range32 = static_cast<float>(range);
  fill<float, detail::Uniform32>(
      call, [=](std::uint32_t word) { return low32 + range32 * detail::uniform_float(word); });
}

void fill_normal(const RandomCall& call) {
  const double mean = call.first, deviation = call.second;
  if (call.dtype == DType::float64) {
    return fill<double, detail::Normal64>(call, [=](double z) { return mean + deviation * z; });
  }
  const auto mean32 = static_cast<float>(mean), deviation32 = static_cast<float>(deviation);
  const auto make = [=](float z) { return mean32 + deviation32 * z; };
  if (call.dtype == DType::float16) return fill<Float16, detail::Normal32>(call, make);
  if (call.dtype == DType::bfloat16) return fill<BFloat16, detail::Normal32>(call, make);
  fill<float, detail::Normal32>(call, make);
}

void fill_truncated_normal(const RandomCall& call) {
  const detail::TruncatedNormal draw(call.first, call.second, call.lower, call.upper);
  visit_float(call.dtype, [&]<class T>() {
    fill<T, detail::Uniform64>(call, [=](std::uint64_t bits) { return draw(bits); });
  });
}

void fill_integers(const RandomCall& call) {
  const auto low = static_cast<std::uint64_t>(call.integer_first);
  const std::uint64_t range = static_cast<std::uint64_t>(call.integer_second) - low;
  with_width(itemsize(call.dtype), [&](auto width) {
    fill<decltype(width), detail::Integer64>(
        call, [=](std::uint64_t bits) { return low + detail::bounded_integer(bits, range); });
  });
}

void fill_bernoulli(const RandomCall& call) {
  const double probability = call.first;
  visit_unsigned(call.dtype, [&]<class T>() {
    fill<T, detail::Uniform32>(call, [=](std::uint32_t word) {
      return static_cast<std::int64_t>(static_cast<double>(word) * 0x1p-32 < probability);
    });
  });
}

}  // namespace

void random(const RandomCall& call) {
  switch (call.op) {
    case RandomOp::uniform:
      return fill_uniform(call);
    case RandomOp::normal:
      return fill_normal(call);
    case RandomOp::truncated_normal:
      return fill_truncated_normal(call);
    case RandomOp::integers:
      return fill_integers(call);
    case RandomOp::bernoulli:
      return fill_bernoulli(call);
  }
}

}  // namespace extensor::cpu
