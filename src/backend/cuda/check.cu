// Checks of integers, and the positions of true elements.
#include <thrust/iterator/counting_iterator.h>
#include <cub/device/device_select.cuh>

#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

struct IntegerRange {
  std::int64_t lowest, size;
  bool has_also;
  std::int64_t also;
  bool nonzero;
};

template <class T>
__device__ bool in_range(T value, const IntegerRange& range) {
  if constexpr (std::is_unsigned_v<T>) {
    return static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(range.size);
  } else {
    return value >= range.lowest && value < range.size;
  }
}
template <class T>
__device__ bool is_also_allowed(T value, const IntegerRange& range) {
  if (!range.has_also) return false;
  if constexpr (std::is_unsigned_v<T>) {
    return range.also >= 0 &&
           static_cast<std::uint64_t>(value) == static_cast<std::uint64_t>(range.also);
  } else {
    return value == range.also;
  }
}

template <class T>
__global__ void check_values(const T* values, std::int64_t count, IntegerRange range,
                             Reporter reporter, std::int64_t* out) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t j = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; j < count;
       j += step) {
    const T value = values[j];
    const bool inside = in_range(value, range);
    const bool also = is_also_allowed(value, range);
    const bool allowed = range.nonzero ? value != T(0) : inside || also;
    if (!allowed) report(reporter, j, static_cast<std::uint64_t>(value));
    if (out == nullptr) continue;
    const auto index = static_cast<std::int64_t>(value);
    out[j] = inside ? (index < 0 ? index + range.size : index) : also ? index : 0;
  }
}

}  // namespace

void check_integers(const CheckIntegersCall& call) {
  if (call.count == 0 || call.dtype == DType::bool_) return;
  const IntegerRange range{call.lowest, call.size, call.also.has_value(), call.also.value_or(0),
                           call.nonzero};
  with_integer_type(call.dtype, [&]<class T>() {
    check_values<<<blocks_for(call.count, 256), 256, 0, stream()>>>(
        elements<T>(call.values), call.count, range, reporter(call.check), call.out);
  });
  launched("check_integers");
}

void nonzero(const NonzeroCall& call) {
  if (call.count == 0) return;
  const Scratch selected(sizeof(std::int64_t), "nonzero");
  const thrust::counting_iterator<std::int64_t> positions(0);
  std::size_t bytes = 0;
  const auto run = [&](void* memory) {
    check(cub::DeviceSelect::Flagged(memory, bytes, positions, call.mask, call.out,
                                     selected.as<std::int64_t>(), call.count, stream()),
          "nonzero");
  };
  run(nullptr);
  const Scratch memory(bytes < 1 ? 1 : bytes, "nonzero");
  run(memory.as<void>());
}

}  // namespace extensor::backend::cuda
