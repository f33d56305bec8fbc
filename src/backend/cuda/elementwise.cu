// The elementwise family: chooses the kernel of a call. Copies are in copy_elements.cu, functions
// of a half in half_tables.cu.
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

// Runs the dense kernel; false if an operand has another dtype, layout or alignment.
bool run_contiguous(const ElementwiseCall& call) {
  const DType dtype = call.out.dtype;
  if (!call.contiguous || !is_aligned(call.out.data) || !is_floating_point(dtype)) return false;
  if ((dtype == DType::float64) != (call.compute == DType::float64)) return false;
  if (!is_floating_point(call.compute)) return false;
  const ContiguousKernel kernel = contiguous_table(dtype)[static_cast<int>(call.op)];
  if (kernel == nullptr) return false;
  ContiguousCall passed{};
  passed.count = call.numel;
  passed.out = call.out.data;
  for (int k = 0; k < call.input_count; ++k) {
    const Operand& input = call.inputs[k];
    if (input.is_number()) {
      passed.form[k] = Form::number;
      passed.number[k] = number_of(input, call.compute);
      continue;
    }
    if (input.dtype != dtype) return false;
    if (!call.repeats[k] && !is_aligned(input.data)) return false;
    passed.form[k] = call.repeats[k] ? Form::single : Form::dense;
    passed.inputs[k] = input.data;
  }
  passed.parameters[0] = call.parameters[0];
  passed.parameters[1] = call.parameters[1];
  const int blocks = blocks_for(call.numel * static_cast<std::int64_t>(itemsize(dtype)) / 16 + 1,
                                elementwise_threads, 16);
  kernel<<<blocks, elementwise_threads, 0, stream()>>>(passed);
  launched("elementwise");
  return true;
}

}  // namespace

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
    const int blocks = blocks_for(over.count, elementwise_threads, 8);
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
  if (half_function) return run_half_function(call);
  if (run_contiguous(call)) return;
  run_strided(call, call.compute, strided_table(call.compute)[static_cast<int>(call.op)]);
}

}  // namespace extensor::backend::cuda
