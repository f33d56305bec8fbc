// Dropout. Each element's draw is a function of its position, so the split over threads does not
// matter.
#include "backend/cpu/dropout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "backend/cpu/convert.h"
#include "backend/cpu/philox.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::DropoutCall;

using Words = Draws<detail::Uniform32>;

constexpr std::int64_t block_length = Words::most;

template <class T>
void run(const DropoutCall& call) {
  const bool wide = call.dtype == dtype_of<T>;
  const ConvertLoop widen = wide ? nullptr : convert_loop(call.dtype, dtype_of<T>);
  const ConvertLoop narrow = wide ? nullptr : convert_loop(dtype_of<T>, call.dtype);
  const auto size = static_cast<std::int64_t>(itemsize(call.dtype));
  const T scale = static_cast<T>(call.scale);
  // The largest word that drops its element.
  const auto last_dropped =
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(std::ceil(call.p * 0x1p32)) - 1);
  detail::parallel_for(call.numel, 4 * block_length, [&](std::int64_t begin, std::int64_t end) {
    Words draws;
    T values[block_length];
    for (std::int64_t at = begin; at < end; at += block_length) {
      const std::int64_t count = std::min(block_length, end - at);
      const std::uint32_t* words =
          draws.make(call.seed, call.stream, call.offset + static_cast<std::uint64_t>(at), count);
      const T* x = reinterpret_cast<const T*>(call.x + at * size);
      T* out = reinterpret_cast<T*>(call.out + at * size);
      if (!wide) {
        widen(call.x + at * size, values, static_cast<std::size_t>(count));
        x = out = values;
      }
      // With a mask of bits: a branch would be mispredicted half of the time.
      using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
      for (std::int64_t i = 0; i < count; ++i) {
        const Bits kept = Bits(0) - static_cast<Bits>(words[i] > last_dropped);
        out[i] = std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(x[i] * scale) & kept));
      }
      if (!wide) narrow(values, call.out + at * size, static_cast<std::size_t>(count));
    }
  });
}

}  // namespace

void dropout(const DropoutCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
