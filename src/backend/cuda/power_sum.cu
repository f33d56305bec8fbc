// The sums of powers of many tensors in two launches: every block sums a fixed part of one tensor,
// then one warp sums the parts of each tensor in order.
#include <algorithm>
#include <cmath>

#include "backend/cuda/context.h"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

constexpr int threads = 256;
constexpr std::int64_t part_length = 1 << 16;
constexpr int items_per_launch = 128;

enum class Power : std::uint8_t { one, two, other, largest };

struct Items {
  const std::byte* x[items_per_launch];
  double* out[items_per_launch];
  std::int64_t numel[items_per_launch];
  std::int64_t first_part[items_per_launch + 1];  // of each item
  int count;
};

__device__ double combine(double a, double b, Power power) {
  if (power != Power::largest) return a + b;
  if (isnan(a)) return a;
  return b > a || isnan(b) ? b : a;
}

__device__ double in_block(double value, Power power) {
  __shared__ double warps[threads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_down_sync(0xffffffffu, value, distance), power);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < threads / 32; ++w) value = combine(value, warps[w], power);
  }
  return value;
}

template <class T>
__global__ void __launch_bounds__(threads)
    sum_parts(const __grid_constant__ Items items, Power power, double exponent, double* parts) {
  const std::int64_t part = blockIdx.x;
  int low = 0, high = items.count - 1;  // the last item that begins at or before `part`
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (items.first_part[middle] <= part) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const std::int64_t begin = (part - items.first_part[low]) * part_length;
  const std::int64_t end =
      begin + part_length < items.numel[low] ? begin + part_length : items.numel[low];
  const T* x = reinterpret_cast<const T*>(items.x[low]);
  double total = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += threads) {
    const double magnitude = fabs(static_cast<double>(load_as_compute(x[i])));
    switch (power) {
      case Power::one:
        total += magnitude;
        break;
      case Power::two:
        total += magnitude * magnitude;
        break;
      case Power::other:
        total += pow(magnitude, exponent);
        break;
      case Power::largest:
        total = combine(total, magnitude, power);
        break;
    }
  }
  total = in_block(total, power);
  if (threadIdx.x == 0) parts[part] = total;
}

__global__ void __launch_bounds__(threads)
    sum_items(const __grid_constant__ Items items, Power power, const double* parts) {
  const int item = blockIdx.x;
  double total = 0;
  for (std::int64_t p = items.first_part[item] + threadIdx.x; p < items.first_part[item + 1];
       p += threads) {
    total = combine(total, parts[p], power);
  }
  total = in_block(total, power);
  if (threadIdx.x == 0) *items.out[item] = total;
}

}  // namespace

void power_sum(const PowerSumCall& call) {
  const Power power = std::isinf(call.power) ? Power::largest
                      : call.power == 1      ? Power::one
                      : call.power == 2      ? Power::two
                                             : Power::other;
  for (std::int64_t first = 0; first < call.item_count; first += items_per_launch) {
    Items items{};
    items.count =
        static_cast<int>(std::min<std::int64_t>(items_per_launch, call.item_count - first));
    std::int64_t parts = 0;
    for (int k = 0; k < items.count; ++k) {
      const PowerSumItem& item = call.items[first + k];
      items.x[k] = item.x;
      items.out[k] = item.out;
      items.numel[k] = item.numel;
      items.first_part[k] = parts;
      parts += (item.numel + part_length - 1) / part_length;
    }
    items.first_part[items.count] = parts;
    const Scratch sums(static_cast<std::size_t>(parts) * sizeof(double), "power_sum");
    if (parts != 0) {
      with_float_type(call.dtype, [&]<class T>() {
        sum_parts<T><<<static_cast<unsigned>(parts), threads, 0, stream()>>>(
            items, power, call.power, sums.as<double>());
      });
      launched("power_sum");
    }
    sum_items<<<static_cast<unsigned>(items.count), threads, 0, stream()>>>(items, power,
                                                                            sums.as<double>());
    launched("power_sum");
  }
}

}  // namespace extensor::backend::cuda
