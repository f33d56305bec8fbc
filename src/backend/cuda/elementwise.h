// Parts of the elementwise family.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/elementwise_call.h"
#include "backend/cuda/elementwise_plan.h"
#include "backend/plan/elementwise_plan.h"

namespace extensor::backend::cuda {

// A number of a call in the type in which it is computed.
Number number_of(const Operand& input, DType compute);

// Whether a row is slower than memory.
bool is_costly(ElementwiseOp op);
// Blocks per multiprocessor for kernels of such rows: a thread computes many elements, since
// starting one takes as long as a few.
inline constexpr int costly_blocks = 16;

// The dimensions of a call that is not contiguous; numbers have strides of 0.
inline plan::ElementwisePlan plan_of(const ElementwiseCall& call) {
  static const std::int64_t zeros[max_rank] = {};
  const std::int64_t* strides[max_inputs + 1] = {call.out.strides};
  for (int k = 0; k < call.input_count; ++k) {
    strides[k + 1] = call.inputs[k].is_number() ? zeros : call.inputs[k].strides;
  }
  return plan::plan_elementwise(*call.shape, call.input_count + 1, strides);
}

// Calls run(iteration, offsets) for the parts of the call, as for_each_part.
template <class Run>
void for_each_iteration(const ElementwiseCall& call, Run&& run) {
  const int operands = call.input_count + 1;
  if (call.contiguous) {
    std::int64_t steps[max_inputs + 1] = {1};
    for (int k = 0; k < call.input_count; ++k) steps[k + 1] = call.repeats[k] ? 0 : 1;
    const std::int64_t offsets[max_inputs + 1] = {};
    run(one_dimension(call.numel, operands, steps), offsets);
    return;
  }
  const plan::ElementwisePlan plan = plan_of(call);
  for_each_part(plan.sizes, plan.strides, operands, run);
}

// Runs a kernel for operands of any dtype and layout, which computes in `compute`.
void run_strided(const ElementwiseCall& call, DType compute, StridedKernel kernel);

// out = input, converted.
void copy_elements(const ElementwiseCall& call);

// A comparison, predicate or `where` on dense operands of one dtype; false for any other call.
bool run_logical(const ElementwiseCall& call);

// A function of one tensor whose result is a half, correctly rounded.
void run_half_function(const ElementwiseCall& call);

// A gradient of dense bfloat16 whose derivative is looked up; false for any other call.
bool run_half_gradient(const ElementwiseCall& call);

}  // namespace extensor::backend::cuda
