// The elementwise family: chooses the kernel of a call. Copies are in copy_elements.cu, functions
// of a half in half_tables.cu.
#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cuda/context.h"
#include "backend/cuda/elementwise.h"
#include "backend/cuda/elementwise_plan.h"
#include "backend/cuda/kernels.h"
#include "backend/plan/elementwise_plan.h"
#include "core/convert.h"
#include "core/visit.h"

namespace extensor::backend::cuda {

namespace {

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

bool is_unary_forward(ElementwiseOp op) {
  switch (op) {
#define UNARY(name, ...) case ElementwiseOp::name:
#include "extensor/tables/unary.def"
    return true;
    default:
      return false;
  }
}

const ContiguousKernel* contiguous_table(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return contiguous_float16();
    case DType::bfloat16:
      return contiguous_bfloat16();
    case DType::float32:
      return contiguous_float32();
    default:
      return contiguous_float64();
  }
}

const StridedKernel* strided_table(DType compute) {
  if (compute == DType::float32) return strided_float32();
  if (compute == DType::float64) return strided_float64();
  return is_signed_integer(compute) ? strided_int64() : strided_uint64();
}

// The strides of every operand in packs of `width` elements along the innermost dimension, all of
// which must be dense there or repeat one element; false if they are not.
bool iterate_packs(const ElementwiseCall& call, std::int64_t width, ContiguousCall& passed) {
  const int operands = call.input_count + 1;
  if (call.contiguous) {
    passed.over = one_dimension(call.numel / width, 0, nullptr);
    for (int k = 0; k < call.input_count; ++k) {
      if (passed.form[k] != Form::number) {
        passed.form[k] = call.repeats[k] ? Form::single : Form::dense;
      }
    }
    return true;
  }
  const plan::ElementwisePlan plan = plan_of(call);
  const std::size_t rank = plan.sizes.size(), inner = rank - 1;
  if (rank > max_kernel_dims || plan.strides[0][inner] != 1) return false;
  if (rank > 1 && plan.sizes[inner] % width != 0) return false;
  Dims sizes = plan.sizes, strides[max_inputs + 1];
  sizes[inner] /= width;  // 0 only with one dimension
  for (int k = 0; k < operands; ++k) {
    strides[k] = plan.strides[k];
    const std::int64_t step = strides[k][inner];
    if (step != 0 && step != 1) return false;
    if (k > 0 && passed.form[k - 1] != Form::number) {
      passed.form[k - 1] = step == 1 ? Form::dense : Form::single;
    }
    strides[k][inner] *= width;
    if (step == 0) continue;
    for (std::size_t d = 0; d < inner; ++d) {
      if (strides[k][d] % width != 0) return false;
    }
  }
  if (rank == 1) {
    passed.over = one_dimension(sizes[0], 0, nullptr);
    return true;
  }
  for_each_part(sizes, strides, operands,
                [&](const Iteration& over, const std::int64_t*) { passed.over = over; });
  return true;
}

// Blocks per multiprocessor for the kernel by packs, in which starting a thread takes as long as
// computing a few elements.
constexpr int pack_blocks = 16;

// From here on operands do not stay in the cache until they are used again.
constexpr std::int64_t worth_streaming = std::int64_t{256} << 20;

void launch(const DenseKernel& kernel, unsigned blocks, unsigned threads, const DenseCall& call) {
  void* arguments[] = {const_cast<DenseCall*>(&call)};
  launch_kernel("elementwise", reinterpret_cast<const void*>(kernel.run), blocks, threads, 0,
                arguments, kernel.overlaps && can_overlap);
}

// Runs the kernel for dense operands; false if one is not.
bool run_dense(const ElementwiseCall& call, const ContiguousKernel& kernel) {
  if (!call.contiguous) return false;
  DenseCall passed{};
  const DenseKernel* chosen = &kernel.dense;
  for (int k = 0; k < call.input_count; ++k) {
    const Operand& input = call.inputs[k];
    if (input.is_number() && call.input_count > 1) {
      passed.number[k] = number_of(input, call.compute);
      if (call.compute != DType::float64) {
        passed.number[k].single = static_cast<float>(passed.number[k].real);
      }
      chosen = &kernel.with_numbers;
      continue;
    }
    if (call.repeats[k] || input.dtype != call.out.dtype) return false;
    if (!is_aligned(input.data)) return false;
    passed.inputs[k] = input.data;
  }
  if (chosen->run == nullptr) return false;
  passed.count = call.numel;
  passed.out = call.out.data;
  passed.parameters[0] = call.parameters[0];
  passed.parameters[1] = call.parameters[1];
  const auto width = static_cast<std::int64_t>(16 / itemsize(call.out.dtype));
  const std::int64_t block = chosen->threads * chosen->packs * width;
  const auto blocks = static_cast<unsigned>((call.numel + block - 1) / block);
  passed.streams =
      call.numel * static_cast<std::int64_t>(itemsize(call.out.dtype)) * (call.input_count + 1) >
      worth_streaming;
  // A block that computes few elements needs no more threads than those.
  const auto warps = static_cast<unsigned>((std::min(call.numel, block) + 31) / 32);
  launch(*chosen, blocks, std::min(static_cast<unsigned>(chosen->threads), warps * 32), passed);
  return true;
}

// A function of bfloat16 whose kernel is right for the usual parameter only.
bool is_looked_up(const ElementwiseCall& call) {
  return call.op == ElementwiseOp::elu && call.out.dtype == DType::bfloat16 &&
         call.parameters[0].real != 1;
}

// Runs the kernel that works by packs; false if an operand has another dtype, layout or alignment.
bool run_contiguous(const ElementwiseCall& call) {
  const DType dtype = call.out.dtype;
  if (!is_aligned(call.out.data) || !is_floating_point(dtype)) return false;
  if ((dtype == DType::float64) != (call.compute == DType::float64)) return false;
  if (!is_floating_point(call.compute)) return false;
  const ContiguousKernel kernel = contiguous_table(dtype)[static_cast<int>(call.op)];
  if (kernel.dense.run == nullptr || is_looked_up(call)) return false;
  if (run_dense(call, kernel)) return true;
  if (kernel.packs == nullptr) return false;
  ContiguousCall passed{};
  passed.count = call.numel;
  passed.out = call.out.data;
  for (int k = 0; k < call.input_count; ++k) {
    const Operand& input = call.inputs[k];
    if (input.is_number()) {
      passed.form[k] = Form::number;
      passed.number[k] = number_of(input, call.compute);
    } else if (input.dtype != dtype &&
               (call.compute == DType::float64 || !is_floating_point(input.dtype) ||
                input.dtype == DType::float64)) {
      return false;
    }
    passed.inputs[k] = input.data;
    passed.dtype[k] = input.dtype;
  }
  const auto width = static_cast<std::int64_t>(16 / itemsize(dtype));
  if (!iterate_packs(call, width, passed)) return false;
  for (int k = 0; k < call.input_count; ++k) {
    if (passed.form[k] == Form::dense && !is_aligned(passed.inputs[k])) return false;
  }
  passed.parameters[0] = call.parameters[0];
  passed.parameters[1] = call.parameters[1];
  const int blocks = blocks_for(passed.over.count + 1, elementwise_threads, pack_blocks);
  kernel.packs<<<blocks, elementwise_threads, 0, stream()>>>(passed);
  launched("elementwise");
  return true;
}

}  // namespace

bool is_costly(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::reciprocal:
    case ElementwiseOp::tan:
    case ElementwiseOp::sinh:
    case ElementwiseOp::cosh:
    case ElementwiseOp::asinh:
    case ElementwiseOp::acosh:
    case ElementwiseOp::atanh:
    case ElementwiseOp::normal_cdf:
    case ElementwiseOp::normal_pdf:
    case ElementwiseOp::sigmoid:
    case ElementwiseOp::log_sigmoid:
    case ElementwiseOp::gelu:
    case ElementwiseOp::gelu_tanh:
    case ElementwiseOp::elu:
    case ElementwiseOp::selu:
    case ElementwiseOp::silu:
    case ElementwiseOp::mish:
    case ElementwiseOp::softplus:
    case ElementwiseOp::hard_sigmoid:
    case ElementwiseOp::hard_swish:
    case ElementwiseOp::power:
    case ElementwiseOp::atan2:
    case ElementwiseOp::logaddexp:
    case ElementwiseOp::erf_backward:
    case ElementwiseOp::normal_cdf_backward:
    case ElementwiseOp::normal_pdf_backward:
    case ElementwiseOp::log_sigmoid_backward:
    case ElementwiseOp::gelu_backward:
    case ElementwiseOp::gelu_tanh_backward:
    case ElementwiseOp::silu_backward:
    case ElementwiseOp::mish_backward:
    case ElementwiseOp::softplus_backward:
    case ElementwiseOp::power_gradient_a:
    case ElementwiseOp::power_gradient_b:
    case ElementwiseOp::atan2_gradient_a:
    case ElementwiseOp::atan2_gradient_b:
    case ElementwiseOp::logaddexp_gradient_a:
    case ElementwiseOp::logaddexp_gradient_b:
      return true;
    default:
      return false;
  }
}

Number number_of(const Operand& input, DType compute) {
  Number number{};
  detail::visit_dtype(input.dtype, [&]<class From>() {
    From value;
    std::memcpy(&value, input.number, sizeof value);
    detail::visit_dtype(compute, [&]<class To>() {
      const To converted = detail::convert<To>(value);
      if constexpr (std::is_floating_point_v<To>) {
        number.real = static_cast<double>(converted);
      } else if constexpr (std::is_signed_v<To>) {
        number.integer = static_cast<std::int64_t>(converted);
      } else if constexpr (std::is_integral_v<To>) {
        number.natural = static_cast<std::uint64_t>(converted);
      }
    });
  });
  return number;
}

Iteration one_dimension(std::int64_t count, int operands, const std::int64_t* strides) {
  Iteration over{};
  over.count = count;
  over.dims = 1;
  over.short_count = count < (std::int64_t{1} << 31);
  over.sizes[0] = count;
  for (int k = 0; k < operands; ++k) over.strides[k][0] = strides[k];
  return over;
}

void run_strided(const ElementwiseCall& call, DType compute, const StridedKernel kernel) {
  if (kernel == nullptr) throw_unexpected_dtype(compute);
  StridedCall passed{};
  const int operands = call.input_count + 1;
  passed.dtype[0] = call.out.dtype;
  for (int k = 0; k < call.input_count; ++k) {
    const Operand& input = call.inputs[k];
    passed.dtype[k + 1] = input.dtype;
    const bool is_condition = call.op == ElementwiseOp::where && k == 0;
    if (input.is_number()) {
      passed.number[k + 1] = number_of(input, is_condition ? DType::uint8 : compute);
    }
  }
  passed.integer_shift = 64 - 8 * static_cast<int>(itemsize(compute));
  passed.parameters[0] = call.parameters[0];
  passed.parameters[1] = call.parameters[1];
  const auto launch = [&](const Iteration& over, const std::int64_t* offsets) {
    passed.over = over;
    for (int k = 0; k < operands; ++k) {
      std::byte* data = k == 0 ? call.out.data : call.inputs[k - 1].data;
      passed.data[k] =
          data == nullptr
              ? nullptr
              : data + offsets[k] * static_cast<std::int64_t>(itemsize(passed.dtype[k]));
    }
    const int blocks = blocks_for(over.count, elementwise_threads, whole_grid);
    kernel<<<blocks, elementwise_threads, 0, stream()>>>(passed);
    launched("elementwise");
  };
  for_each_iteration(call, launch);
}

void elementwise(const ElementwiseCall& call) {
  if (call.numel == 0) return;
  if (call.op == ElementwiseOp::copy) return copy_elements(call);
  const bool half_function =
      is_half(call.out.dtype) && call.compute == DType::float32 && is_unary_forward(call.op);
  if (run_half_gradient(call) || run_contiguous(call)) return;
  if (half_function) return run_half_function(call);
  if (run_logical(call)) return;
  run_strided(call, call.compute, strided_table(call.compute)[static_cast<int>(call.op)]);
}

}  // namespace extensor::backend::cuda
