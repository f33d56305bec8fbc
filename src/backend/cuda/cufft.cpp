// cuFFT's plans. One is made for every kind of batch, device and stream, and kept: it is never used
// by two streams at once. Their work areas are memory of the caching allocator.
#include "backend/cuda/cufft.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/context.h"
#include "backend/cuda/libraries.h"
#include "backend/cuda/state.h"
#include "core/check.h"

namespace extensor::backend::cuda {

namespace {

using detail::message;

// ---- cuFFT's C interface, which is stable; its header is not needed to build

using Handle = int;
using Long = long long;

enum Result { success = 0, alloc_failed = 2 };
enum Type {
  type_c2c = 0x29,
  type_r2c = 0x2a,
  type_c2r = 0x2c,
  type_z2z = 0x69,
  type_d2z = 0x6a,
  type_z2d = 0x6c,
};
enum Direction { direction_forward = -1, direction_inverse = 1 };

#define EXTENSOR_CUFFT(X)                                                                \
  X(Create, int, (Handle*))                                                              \
  X(Destroy, int, (Handle))                                                              \
  X(SetAutoAllocation, int, (Handle, int))                                               \
  X(SetWorkArea, int, (Handle, void*))                                                   \
  X(SetStream, int, (Handle, cudaStream_t))                                              \
  X(MakePlanMany64, int,                                                                 \
    (Handle, int, Long*, Long*, Long, Long, Long*, Long, Long, int, Long, std::size_t*)) \
  X(ExecC2C, int, (Handle, void*, void*, int))                                           \
  X(ExecR2C, int, (Handle, void*, void*))                                                \
  X(ExecC2R, int, (Handle, void*, void*))                                                \
  X(ExecZ2Z, int, (Handle, void*, void*, int))                                           \
  X(ExecD2Z, int, (Handle, void*, void*))                                                \
  X(ExecZ2D, int, (Handle, void*, void*))

struct Cufft {
#define EXTENSOR_DECLARE(name, result, arguments) result(*name) arguments = nullptr;
  EXTENSOR_CUFFT(EXTENSOR_DECLARE)
#undef EXTENSOR_DECLARE
};

const Cufft& cufft() {
  static const Cufft loaded = [] {
    const RequiredLibrary opened("fft: transforms of CUDA tensors need cuFFT", "libcufft.so.12",
                                 "nvidia-cufft");
    Cufft result;
#define EXTENSOR_FIND(name, ...) opened.find(result.name, "cufft" #name);
    EXTENSOR_CUFFT(EXTENSOR_FIND)
#undef EXTENSOR_FIND
    return result;
  }();
  return loaded;
}

const char* text_of(int result) {
  switch (result) {
    case 0x1:
      return "CUFFT_INVALID_PLAN";
    case 0x2:
      return "CUFFT_ALLOC_FAILED";
    case 0x3:
      return "CUFFT_INVALID_TYPE";
    case 0x4:
      return "CUFFT_INVALID_VALUE";
    case 0x5:
      return "CUFFT_INTERNAL_ERROR";
    case 0x6:
      return "CUFFT_EXEC_FAILED";
    case 0x7:
      return "CUFFT_SETUP_FAILED";
    case 0x8:
      return "CUFFT_INVALID_SIZE";
    case 0x9:
      return "CUFFT_UNALIGNED_DATA";
    case 0x10:
      return "CUFFT_NOT_SUPPORTED";
    default:
      return "an error of cuFFT";
  }
}

[[noreturn]] void fail(int result, const char* function, const FftBatch& batch) {
  const std::string text = message("fft: ", function, ": ", text_of(result), " (", result, ") for ",
                                   batch.batch, " transforms of length ", batch.n);
  if (result == alloc_failed) throw OutOfMemoryError(text);
  throw DeviceError(text);
}
void check_fft(int result, const char* function, const FftBatch& batch) {
  if (result != success) fail(result, function, batch);
}

// ---- plans

int type_of(const FftBatch& batch) {
  switch (batch.kind) {
    case FftKind::complex_to_complex:
      return batch.is_double ? type_z2z : type_c2c;
    case FftKind::real_to_complex:
      return batch.is_double ? type_d2z : type_r2c;
    default:
      return batch.is_double ? type_z2d : type_c2r;
  }
}

using Key = std::array<std::int64_t, 8>;

struct Plan {
  Key key;
  Handle handle;
  std::size_t work;  // bytes
  std::uint64_t last_use;
};

constexpr std::size_t most_plans = 64;  // of a device

struct State {
  std::mutex mutex;
  std::uint64_t uses = 0;
  std::map<int, std::vector<Plan>> plans;  // by device
};
State& state() {
  static State* kept = new State;  // never freed: CUDA may be gone when static objects are
  return *kept;
}

// Makes a plan of cuFFT; its result.
int make_plan(const FftBatch& batch, Plan& plan) {
  check_fft(cufft().Create(&plan.handle), "cufftCreate", batch);
  int result = cufft().SetAutoAllocation(plan.handle, 0);
  const std::int64_t half = batch.n / 2 + 1;
  Long n = batch.n;
  Long in_embed = batch.kind == FftKind::complex_to_real ? half : batch.n;
  Long out_embed = batch.kind == FftKind::real_to_complex ? half : batch.n;
  if (result == success) {
    result = cufft().MakePlanMany64(plan.handle, 1, &n, &in_embed, batch.in_stride,
                                    batch.in_distance, &out_embed, batch.out_stride,
                                    batch.out_distance, type_of(batch), batch.batch, &plan.work);
  }
  if (result == success) result = cufft().SetStream(plan.handle, stream());
  if (result != success) cufft().Destroy(plan.handle);
  return result;
}

// The plan for the current device and stream; valid until the next call. The mutex is held.
const Plan& plan_of(State& kept, const FftBatch& batch) {
  const Key key{
      type_of(batch),     batch.n,
      batch.batch,        batch.in_stride,
      batch.in_distance,  batch.out_stride,
      batch.out_distance, static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(stream()))};
  std::vector<Plan>& plans = kept.plans[current_device()];
  const auto found = std::ranges::find(plans, key, &Plan::key);
  if (found != plans.end()) {
    found->last_use = ++kept.uses;
    return *found;
  }
  if (plans.size() >= most_plans) {
    const auto oldest = std::ranges::min_element(plans, {}, &Plan::last_use);
    // Its transforms may still run. They end before the memory of its tables is freed.
    check(cudaDeviceSynchronize(), "fft");
    cufft().Destroy(oldest->handle);
    plans.erase(oldest);
  }
  Plan plan{key, 0, 0, ++kept.uses};
  int result = make_plan(batch, plan);
  if (result == alloc_failed) {
    // Tables are not memory of the allocator, which may hold all that is free.
    current().memory.empty_cache();
    result = make_plan(batch, plan);
  }
  if (result != success) fail(result, "cufftMakePlanMany64", batch);
  plans.push_back(plan);
  return plans.back();
}

int execute(Handle handle, const FftBatch& batch, void* x, void* y) {
  const Cufft& library = cufft();
  const int direction = batch.inverse ? direction_inverse : direction_forward;
  switch (type_of(batch)) {
    case type_c2c:
      return library.ExecC2C(handle, x, y, direction);
    case type_z2z:
      return library.ExecZ2Z(handle, x, y, direction);
    case type_r2c:
      return library.ExecR2C(handle, x, y);
    case type_d2z:
      return library.ExecD2Z(handle, x, y);
    case type_c2r:
      return library.ExecC2R(handle, x, y);
    default:
      return library.ExecZ2D(handle, x, y);
  }
}

void run_part(const FftBatch& batch, void* x, void* y) {
  State& kept = state();
  const std::lock_guard lock(kept.mutex);
  const Plan& plan = plan_of(kept, batch);
  const Scratch work(std::max<std::size_t>(plan.work, 1), "fft");
  check_fft(cufft().SetWorkArea(plan.handle, work.as<void>()), "cufftSetWorkArea", batch);
  check_fft(execute(plan.handle, batch, x, y), "cufftExec", batch);
  launched("fft");
}

}  // namespace

void run_cufft(const FftBatch& batch, void* x, void* y) {
  // Parts of about this many numbers, so that work areas stay small. Each begins at a multiple of
  // four numbers and is thus aligned.
  constexpr std::int64_t most_numbers = std::int64_t{1} << 28;
  const std::int64_t most = std::max<std::int64_t>(4, most_numbers / batch.n / 4 * 4);
  const std::int64_t part = batch.is_double ? 8 : 4;
  const std::int64_t in_size = batch.kind == FftKind::real_to_complex ? part : 2 * part;
  const std::int64_t out_size = batch.kind == FftKind::complex_to_real ? part : 2 * part;
  for (std::int64_t first = 0; first < batch.batch; first += most) {
    FftBatch now = batch;
    now.batch = std::min(most, batch.batch - first);
    run_part(now, static_cast<std::byte*>(x) + first * batch.in_distance * in_size,
             static_cast<std::byte*>(y) + first * batch.out_distance * out_size);
  }
}

}  // namespace extensor::backend::cuda
