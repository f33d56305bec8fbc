#include "train/machine_rates.h"

#include <algorithm>
#include <limits>

#include "core/context.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/error.h"
#include "extensor/matrix.h"
#include "extensor/threads.h"

namespace extensor::train {

namespace {

// The best of some repetitions of a call, in seconds.
template <class Function>
double best_time(int repetitions, const Function& function) {
  double best = std::numeric_limits<double>::infinity();
  for (int k = 0; k < repetitions; ++k) {
    const std::int64_t begin = detail::steady_nanoseconds();
    function();
    best = std::min(best, 1e-9 * static_cast<double>(detail::steady_nanoseconds() - begin));
  }
  return best;
}

double copy_rate(std::int64_t bytes, int repetitions) {
  const TensorOptions options{.dtype = DType::uint8, .device = cpu_device};
  const Tensor from = zeros({bytes}, options);
  Tensor to = zeros({bytes}, options);
  return 2 * static_cast<double>(bytes) / best_time(repetitions, [&] { to.copy_from(from); });
}

double product_rate() {
  constexpr std::int64_t side = 512;
  const TensorOptions options{.dtype = DType::float32, .device = cpu_device};
  const Tensor a = ones({side, side}, options), b = ones({side, side}, options);
  return 2.0 * side * side * side / best_time(4, [&] { matmul(a, b); });
}

MachineRates measure() {
  // The program's modes do not matter here, and no hook sees these calls.
  const detail::ContextScope modes({.recording = false});
  constexpr std::int64_t large = 48 << 20, small = 128 << 10;
  MachineRates rates;
  try {
    rates.memory = copy_rate(large, 4);
    rates.cache = std::max(rates.memory, copy_rate(small * get_num_threads(), 30));
    rates.product = product_rate();
    rates.cache_bytes = static_cast<double>(4 * small) * get_num_threads();
  } catch (const OutOfMemoryError&) {  // a low memory limit: no floor is known
    rates = {};
  }
  return rates;
}

}  // namespace

double MachineRates::floor_seconds(double bytes, double flops, DType dtype) const {
  if (product == 0) return std::numeric_limits<double>::quiet_NaN();
  const double width = dtype == DType::float64 ? 2 : 1;
  return std::max(bytes / (bytes <= cache_bytes ? cache : memory), width * flops / product);
}

const MachineRates& machine_rates() {
  static const MachineRates rates = measure();
  return rates;
}

}  // namespace extensor::train
