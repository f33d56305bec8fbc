// Functions of one tensor whose result is a half. There are 65,536 halves, so all results are
// computed once, in double, and looked up: exact rounding at the speed of memory. The gradients
// g · f′(x) of bfloat16 look up f′.
#include <cstring>
#include <mutex>

#include "backend/cuda/context.h"
#include "backend/cuda/elementwise.h"
#include "backend/cuda/elementwise_rows.cuh"

namespace extensor::backend::cuda {

namespace {

constexpr std::int64_t half_count = 65536;
constexpr std::size_t table_bytes = half_count * sizeof(std::uint16_t);
// From here on it pays to compute a table for one call, and to copy it to shared memory.
constexpr std::int64_t worth_a_table = std::int64_t{1} << 19;
constexpr std::int64_t worth_shared_memory = std::int64_t{1} << 22;
constexpr int look_up_threads = 1024;

__global__ void every_half(std::uint16_t* out) {
  for (std::int64_t i = first_index(); i < half_count; i += index_step()) {
    out[i] = static_cast<std::uint16_t>(i);
  }
}

struct alignas(16) Eight {
  std::uint16_t at[8];
};

// Dense and 16-byte aligned; the table in shared memory.
__global__ void __launch_bounds__(look_up_threads)
    look_up_shared(const std::uint16_t* x, std::uint16_t* y, std::int64_t count,
                   const std::uint16_t* table) {
  begin_overlapped();
  extern __shared__ std::uint16_t results[];
  // The next packs are loaded before the last ones are looked up.
  constexpr int together = 2;
  const std::int64_t packs = count / 8, step = index_step();
  std::int64_t p = first_index();
  Eight next[together];
  const auto load = [&](std::int64_t from) {
#pragma unroll
    for (int u = 0; u < together; ++u) {
      if (from + u * step < packs) next[u] = reinterpret_cast<const Eight*>(x)[from + u * step];
    }
  };
  load(p);
  for (int i = threadIdx.x; i < half_count / 8; i += look_up_threads) {
    reinterpret_cast<Eight*>(results)[i] = reinterpret_cast<const Eight*>(table)[i];
  }
  __syncthreads();
  for (; p < packs; p += together * step) {
    Eight values[together];
#pragma unroll
    for (int u = 0; u < together; ++u) values[u] = next[u];
    load(p + together * step);
#pragma unroll
    for (int u = 0; u < together; ++u) {
      if (p + u * step >= packs) continue;
#pragma unroll
      for (int e = 0; e < 8; ++e) values[u].at[e] = results[values[u].at[e]];
      reinterpret_cast<Eight*>(y)[p + u * step] = values[u];
    }
  }
  const std::int64_t i = packs * 8 + first_index();
  if (i < count) y[i] = results[x[i]];
}

// Any layout; the table in global memory.
__global__ void __launch_bounds__(elementwise_threads)
    look_up(const __grid_constant__ StridedCall call, const std::uint16_t* table) {
  for (std::int64_t i = first_index(); i < call.over.count; i += index_step()) {
    std::int64_t at[2];
    find_offsets(call.over, i, at);
    reinterpret_cast<std::uint16_t*>(call.data[0])[at[0]] =
        table[reinterpret_cast<const std::uint16_t*>(call.data[1])[at[1]]];
  }
}

// ---- tables

// Fills a table with the op's results for all halves. `halves` is memory for as many.
void fill_table(const ElementwiseCall& call, std::uint16_t* halves, std::uint16_t* table) {
  every_half<<<64, 256, 0, stream()>>>(halves);
  launched("elementwise");
  ElementwiseCall filling = call;
  filling.numel = half_count;
  filling.contiguous = true;
  filling.repeats[0] = false;
  filling.inputs[0].data = reinterpret_cast<std::byte*>(halves);
  filling.inputs[0].dtype = call.out.dtype;
  filling.out.data = reinterpret_cast<std::byte*>(table);
  // As rounded to float32, like on the CPU.
  for (Parameter& parameter : filling.parameters) {
    parameter.real = static_cast<float>(parameter.real);
  }
  run_strided(filling, DType::float64, strided_float64()[static_cast<int>(call.op)]);
}

bool has_parameters(ElementwiseOp op) {
  switch (op) {
#define UNARY(...)
#define UNARY_1(name, ...) case ElementwiseOp::name:
#define UNARY_2 UNARY_1
#define UNARY_2_NUMERIC UNARY_1
#include "extensor/tables/unary.def"
    return true;
    default:
      return false;
  }
}

constexpr int most_devices = 64;

// The table of an op without parameters, made once and kept; null if there is no memory for it.
const std::uint16_t* kept_table(const ElementwiseCall& call) {
  static std::mutex mutex;
  static std::uint16_t* tables[most_devices][elementwise_op_count][2] = {};
  const int device = current_device();
  if (device >= most_devices) return nullptr;
  const std::lock_guard lock(mutex);
  std::uint16_t*& table =
      tables[device][static_cast<int>(call.op)][call.out.dtype == DType::float16 ? 0 : 1];
  if (table != nullptr) return table;
  void* made = nullptr;  // not of the allocator: it is never freed
  if (cudaMalloc(&made, table_bytes) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  const Scratch halves(table_bytes, "elementwise");
  fill_table(call, halves.as<std::uint16_t>(), static_cast<std::uint16_t*>(made));
  check(cudaStreamSynchronize(stream()), "elementwise");  // other streams may use it next
  return table = static_cast<std::uint16_t*>(made);
}

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

void run_look_up(const ElementwiseCall& call, const std::uint16_t* table) {
  const Operand& input = call.inputs[0];
  if (call.contiguous && !call.repeats[0] && call.numel >= worth_shared_memory &&
      is_aligned(input.data) && is_aligned(call.out.data)) {
    check(cudaFuncSetAttribute(&look_up_shared, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(table_bytes)),
          "elementwise");
    launch_overlapped("elementwise", &look_up_shared, multiprocessors(), look_up_threads,
                      table_bytes, reinterpret_cast<const std::uint16_t*>(input.data),
                      reinterpret_cast<std::uint16_t*>(call.out.data), call.numel, table);
    return;
  }
  StridedCall passed{};
  for_each_iteration(call, [&](const Iteration& over, const std::int64_t* offsets) {
    passed.over = over;
    passed.data[0] = call.out.data + 2 * offsets[0];
    passed.data[1] = input.data + 2 * offsets[1];
    look_up<<<blocks_for(over.count, elementwise_threads, whole_grid), elementwise_threads, 0,
              stream()>>>(passed, table);
    launched("elementwise");
  });
}

// ---- gradients g · f′(x) in bfloat16

// f′ is looked up for the 8,192 numbers with 2⁻¹⁶ ≤ |x| < 2¹⁶; it is constant on either side.
constexpr int derivative_count = 8192;
constexpr int magnitudes = derivative_count / 2;
constexpr int lowest_magnitude = (127 - 16) << 7;  // the bits of 2⁻¹⁶
constexpr int gradient_threads = 512;

__global__ void every_argument(std::uint16_t* out) {
  for (std::int64_t i = first_index(); i < derivative_count; i += index_step()) {
    out[i] =
        static_cast<std::uint16_t>((i / magnitudes) << 15 | (lowest_magnitude + i % magnitudes));
  }
}

__global__ void __launch_bounds__(gradient_threads)
    multiply_by_derivative(const std::uint16_t* g, const std::uint16_t* x, std::uint16_t* out,
                           std::int64_t packs, const float* table) {
  begin_overlapped();
  __shared__ float derivatives[derivative_count];
  for (int i = threadIdx.x; i < derivative_count; i += gradient_threads) derivatives[i] = table[i];
  __syncthreads();
  const auto gradient = [&](std::uint16_t given, std::uint16_t argument) {
    const int magnitude = argument & 0x7fff;
    int at = magnitude - lowest_magnitude;
    at = at < 0 ? 0 : at >= magnitudes ? magnitudes - 1 : at;
    const float derivative = magnitude > 0x7f80 ? __int_as_float(0x7fc00000)
                                                : derivatives[at + (argument >> 15) * magnitudes];
    const float product = __int_as_float(static_cast<int>(given) << 16) * derivative;
    return __bfloat16_as_ushort(__float2bfloat16_rn(product));
  };
  constexpr int together = 2;
  const std::int64_t step = index_step();
  std::int64_t p = first_index();
  for (; p + (together - 1) * step < packs; p += together * step) {
    Eight gs[together], xs[together];
#pragma unroll
    for (int u = 0; u < together; ++u) {
      gs[u] = reinterpret_cast<const Eight*>(g)[p + u * step];
      xs[u] = reinterpret_cast<const Eight*>(x)[p + u * step];
    }
#pragma unroll
    for (int u = 0; u < together; ++u) {
#pragma unroll
      for (int e = 0; e < 8; ++e) gs[u].at[e] = gradient(gs[u].at[e], xs[u].at[e]);
      reinterpret_cast<Eight*>(out)[p + u * step] = gs[u];
    }
  }
  for (; p < packs; p += step) {
    Eight gs = reinterpret_cast<const Eight*>(g)[p];
    const Eight xs = reinterpret_cast<const Eight*>(x)[p];
#pragma unroll
    for (int e = 0; e < 8; ++e) gs.at[e] = gradient(gs.at[e], xs.at[e]);
    reinterpret_cast<Eight*>(out)[p] = gs;
  }
}

// Gradients that take more instructions than the memory's speed allows.
bool is_costly_gradient(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::gelu_backward:
    case ElementwiseOp::gelu_tanh_backward:
    case ElementwiseOp::silu_backward:
    case ElementwiseOp::mish_backward:
    case ElementwiseOp::log_sigmoid_backward:
    case ElementwiseOp::normal_cdf_backward:
    case ElementwiseOp::erf_backward:
      return true;
    default:
      return false;
  }
}

// Made once and kept; null if there is no memory for it.
const float* kept_derivatives(ElementwiseOp op) {
  static std::mutex mutex;
  static float* tables[most_devices][elementwise_op_count] = {};
  const int device = current_device();
  if (device >= most_devices) return nullptr;
  const std::lock_guard lock(mutex);
  float*& table = tables[device][static_cast<int>(op)];
  if (table != nullptr) return table;
  void* made = nullptr;  // not of the allocator: it is never freed
  if (cudaMalloc(&made, derivative_count * sizeof(float)) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  const Scratch arguments(derivative_count * sizeof(std::uint16_t), "elementwise");
  every_argument<<<32, 256, 0, stream()>>>(arguments.as<std::uint16_t>());
  launched("elementwise");
  ElementwiseCall filling{};
  filling.op = op;
  filling.input_count = 2;
  filling.numel = derivative_count;
  filling.contiguous = true;
  filling.repeats[0] = true;
  const double one = 1;
  filling.inputs[0].dtype = DType::float64;
  std::memcpy(filling.inputs[0].number, &one, sizeof one);
  filling.inputs[1].data = arguments.as<std::byte>();
  filling.inputs[1].dtype = DType::bfloat16;
  filling.out.data = static_cast<std::byte*>(made);
  filling.out.dtype = DType::float32;
  run_strided(filling, DType::float64, strided_float64()[static_cast<int>(op)]);
  check(cudaStreamSynchronize(stream()), "elementwise");  // other streams may use it next
  return table = static_cast<float*>(made);
}

}  // namespace

bool run_half_gradient(const ElementwiseCall& call) {
  if (!is_costly_gradient(call.op) || call.out.dtype != DType::bfloat16) return false;
  if (!call.contiguous || call.numel < worth_shared_memory || call.numel % 8 != 0) return false;
  if (!is_aligned(call.out.data)) return false;
  for (int k = 0; k < 2; ++k) {
    const Operand& input = call.inputs[k];
    if (input.is_number() || call.repeats[k] || input.dtype != DType::bfloat16) return false;
    if (!is_aligned(input.data)) return false;
  }
  const float* table = kept_derivatives(call.op);
  if (table == nullptr) return false;
  launch_overlapped("elementwise", &multiply_by_derivative, multiprocessors() * 4,
                    gradient_threads, 0, reinterpret_cast<const std::uint16_t*>(call.inputs[0].data),
                    reinterpret_cast<const std::uint16_t*>(call.inputs[1].data),
                    reinterpret_cast<std::uint16_t*>(call.out.data), call.numel / 8, table);
  return true;
}

void run_half_function(const ElementwiseCall& call) {
  const Operand& input = call.inputs[0];
  if (!input.is_number() && input.dtype == call.out.dtype) {
    if (!has_parameters(call.op)) {
      if (const std::uint16_t* table = kept_table(call)) return run_look_up(call, table);
    } else if (call.numel >= worth_a_table) {
      const Scratch memory(2 * table_bytes, "elementwise");
      auto* table = memory.as<std::uint16_t>();
      fill_table(call, table + half_count, table);
      return run_look_up(call, table);
    }
  }
  ElementwiseCall exact = call;
  for (Parameter& parameter : exact.parameters) {
    parameter.real = static_cast<float>(parameter.real);
  }
  run_strided(exact, DType::float64, strided_float64()[static_cast<int>(call.op)]);
}

}  // namespace extensor::backend::cuda
