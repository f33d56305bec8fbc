// Checks of the ops in the database: every sample, in every dtype and layout. A check that cannot
// be made, because a reference or a gradient is missing, fails.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "op_database/layouts.h"
#include "op_database/op_database.h"
#include "op_database/tolerance.h"

namespace extensor::op_database {

enum class CheckKind : std::uint8_t {
  value,            // the forward against the reference, in every dtype that the op lists
  refusal,          // a dtype that the op does not list is a DTypeError
  gradient,         // the backward against finite differences, other dtypes against float64
  second_gradient,  // the double backward against finite differences of the backward
};
const char* name(CheckKind kind);

struct Check {
  const Op* op;
  std::string sample;
  CheckKind kind;
  DType dtype;
  layouts::Layout layout;
};

struct CheckResult {
  bool passed = true;
  double error = 0;     // the largest relative error
  std::string message;  // the first error
};

struct CheckOptions {
  bool values = true;  // and rejected dtypes
  bool gradients = true;
  bool second_gradients = true;
};

// Runs every check of `op` and calls `report` after each.
void check_op(const Op& op, const CheckOptions& options,
              const std::function<void(const Check&, const CheckResult&)>& report);

// Makes one value check and one gradient check of `op`: below(n) picks the sample, the float dtype
// and the layout. Skips finite differences, which are too slow for a fuzzer.
void check_drawn(const Op& op, const std::function<std::int64_t(std::int64_t)>& below,
                 const std::function<void(const Check&, const CheckResult&)>& report);

// The number of checks that check_op makes.
std::int64_t count_checks(const Op& op, const CheckOptions& options);

// The gradients of grad_outputs, then of the inputs, given those of the backward's results. They
// come from the sample's double_backward, or else from autograd through the recorded backward. An
// undefined gradient stands for 0, as argument and as result.
Tensors second_gradients(const Sample& sample, const Tensors& given, const Tensors& grad_outputs,
                         const Tensors& inputs);

}  // namespace extensor::op_database
