// Shared by all kernels for CUDA: the stream, errors, scratch memory, dtypes as device types, and
// reports of invalid values.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "extensor/dtype.h"

namespace extensor::backend::cuda {

// ---- errors and order

// DeviceError with the action and the text of CUDA's error. An error after which the device cannot
// be used in this process makes all later calls fail at once.
void check(cudaError_t result, const char* action);
// Call after every <<<>>>, with the name of the family. Reports an error of the launch.
void launched(const char* family);
// With EXTENSOR_CUDA_BLOCKING, waits for the kernels, and reports their errors.
void wait_if_asked(const char* family);

// Of the device of the current call. All kernels and copies run on this stream, in order.
cudaStream_t stream();
int multiprocessors();
int current_device();
// Whether the caller lets products of float32 round their operands to TF32.
bool is_tf32_allowed();

// The number of blocks for a loop in which the threads of the grid share `work` items: at least 1,
// and no more than the device runs at a time.
int blocks_for(std::int64_t work, int threads_per_block, int blocks_per_multiprocessor = 8);

// For blocks_per_multiprocessor: a thread for every item, so that neighbouring blocks run together
// and read neighbouring memory.
inline constexpr int whole_grid = 1 << 14;

// Device memory for the kernels of one call, 256-byte aligned. It may be reused once they have run;
// the memory limit counts it. OutOfMemoryError, naming `operation`.
class Scratch {
 public:
  Scratch(std::size_t bytes, const char* operation);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
  void* block_;
  int device_;
};

// ---- kernels that start while the one before them ends

// `overlaps`: as launch_overlapped below.
void launch_kernel(const char* family, const void* kernel, dim3 blocks, dim3 threads,
                   std::size_t shared_bytes, void** arguments, bool overlaps);

#ifdef __CUDACC__
// The architectures that the device code is compiled for.
constexpr int compiled_architectures[] = {__CUDA_ARCH_LIST__};  // ascending
constexpr bool can_overlap = compiled_architectures[0] >= 900;

// Launches a kernel whose threads all call wait_for_last_launch() before they touch memory: its
// blocks take the places that the last blocks of the kernel before it leave, instead of waiting
// until all of them have ended. `family` is named in errors.
template <class... Parameters>
void launch_overlapped(const char* family, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                       std::size_t shared_bytes,
                       const std::type_identity_t<Parameters>&... values) {
  void* arguments[] = {const_cast<std::remove_const_t<Parameters>*>(&values)...};
  launch_kernel(family, reinterpret_cast<const void*>(kernel), blocks, threads, shared_bytes,
                arguments, can_overlap);
}

// The next kernel of the stream may be given places from here on.
__device__ __forceinline__ void allow_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Waits until the kernel before this one has ended, with all that it waited for.
__device__ __forceinline__ void wait_for_last_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Both, for a kernel that has nothing to prepare.
__device__ __forceinline__ void begin_overlapped() {
  allow_next_launch();
  wait_for_last_launch();
}
#endif

// ---- reports of invalid values (backend/checks.h)

// In device memory. `number` is written last.
struct ReportSlot {
  int lock;
  std::uint32_t number;
  std::uint64_t call;
  std::int64_t position;
  std::uint64_t bits;
  std::uint32_t* noticed;  // in host memory: 1 after a report
};

// Passed to a kernel by value. The report of the earliest call stays, and within a call the one
// with the lowest position.
struct Reporter {
  ReportSlot* slot = nullptr;
  std::uint64_t call = 0;
  std::uint32_t number = 0;  // 0: reports nothing
};

// For the check number of a call; 0 is allowed.
Reporter reporter(std::uint32_t check);

#ifdef __CUDACC__
// Kernels that find an invalid value call this, and do something harmless with the element. `bits`
// is the value as int64, as uint64 if it is one, or as double.
__device__ inline void report(const Reporter& reporter, std::int64_t position, std::uint64_t bits) {
  if (reporter.number == 0) return;
  volatile ReportSlot* slot = reporter.slot;
  const auto is_later = [&] {
    if (slot->number == 0) return false;
    __threadfence();
    return slot->call < reporter.call ||
           (slot->call == reporter.call && slot->position <= position);
  };
  for (bool done = is_later(); !done;) {
    if (atomicCAS(&reporter.slot->lock, 0, 1) != 0) continue;
    __threadfence();
    if (!is_later()) {
      slot->call = reporter.call;
      slot->position = position;
      slot->bits = bits;
      __threadfence();
      slot->number = reporter.number;
      *static_cast<volatile std::uint32_t*>(slot->noticed) = 1;
      __threadfence_system();
    }
    __threadfence();
    atomicExch(&reporter.slot->lock, 0);
    done = true;
  }
}
#endif

// ---- dtypes

// The type of an element in a kernel.
template <DType dtype>
struct Value;
#define EXTENSOR_VALUE(name, type_) \
  template <>                       \
  struct Value<DType::name> {       \
    using type = type_;             \
  };
EXTENSOR_VALUE(bool_, bool)
EXTENSOR_VALUE(int8, std::int8_t)
EXTENSOR_VALUE(int16, std::int16_t)
EXTENSOR_VALUE(int32, std::int32_t)
EXTENSOR_VALUE(int64, std::int64_t)
EXTENSOR_VALUE(uint8, std::uint8_t)
EXTENSOR_VALUE(uint16, std::uint16_t)
EXTENSOR_VALUE(uint32, std::uint32_t)
EXTENSOR_VALUE(uint64, std::uint64_t)
EXTENSOR_VALUE(float16, __half)
EXTENSOR_VALUE(bfloat16, __nv_bfloat16)
EXTENSOR_VALUE(float32, float)
EXTENSOR_VALUE(float64, double)
#undef EXTENSOR_VALUE

// For a dtype that a family does not take: DeviceError.
[[noreturn]] void throw_unexpected_dtype(DType dtype);

#define EXTENSOR_WITH(name)                 \
  case DType::name:                         \
    return std::forward<Function>(function) \
        .template operator()<typename Value<DType::name>::type>();

// Calls function.template operator()<T>(): with_float_type(dtype, [&]<class T>() { … }).
template <class Function>
decltype(auto) with_float_type(DType dtype, Function&& function) {
  switch (dtype) {
    EXTENSOR_WITH(float16)
    EXTENSOR_WITH(bfloat16)
    EXTENSOR_WITH(float32)
    EXTENSOR_WITH(float64)
    default:
      throw_unexpected_dtype(dtype);
  }
}
template <class Function>
decltype(auto) with_integer_type(DType dtype, Function&& function) {  // without bool
  switch (dtype) {
    EXTENSOR_WITH(int8)
    EXTENSOR_WITH(int16)
    EXTENSOR_WITH(int32)
    EXTENSOR_WITH(int64)
    EXTENSOR_WITH(uint8)
    EXTENSOR_WITH(uint16)
    EXTENSOR_WITH(uint32)
    EXTENSOR_WITH(uint64)
    default:
      throw_unexpected_dtype(dtype);
  }
}
template <class Function>
decltype(auto) with_type(DType dtype, Function&& function) {
  if (dtype == DType::bool_) return std::forward<Function>(function).template operator()<bool>();
  if (is_integer(dtype)) return with_integer_type(dtype, std::forward<Function>(function));
  return with_float_type(dtype, std::forward<Function>(function));
}
// An unsigned integer of the same size, for kernels that only move elements.
template <class Function>
decltype(auto) with_bits_type(DType dtype, Function&& function) {
  switch (itemsize(dtype)) {
    case 1:
      return std::forward<Function>(function).template operator()<std::uint8_t>();
    case 2:
      return std::forward<Function>(function).template operator()<std::uint16_t>();
    case 4:
      return std::forward<Function>(function).template operator()<std::uint32_t>();
    default:
      return std::forward<Function>(function).template operator()<std::uint64_t>();
  }
}
#undef EXTENSOR_WITH

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

// The type in which kernels compute with floats: double for double, else float.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

#ifdef __CUDACC__
// An element in its compute type.
template <class T>
__device__ __forceinline__ Compute<T> load_as_compute(T value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else {
    return static_cast<Compute<T>>(value);
  }
}

// A float or double rounded once to T, to nearest even.
template <class T, class C>
__device__ __forceinline__ T store_from_compute(C value) {
  static_assert(std::is_floating_point_v<C>);
  if constexpr (std::is_same_v<T, __half>) {
    if constexpr (std::is_same_v<C, double>)
      return __double2half(value);
    else
      return __float2half_rn(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if constexpr (std::is_same_v<C, double>)
      return __double2bfloat16(value);
    else
      return __float2bfloat16_rn(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}
#endif

}  // namespace extensor::backend::cuda
