// Checks of the ops in the database: every sample, in every dtype and layout it can take.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "op_database/layouts.h"
#include "op_database/op_database.h"

namespace extensor::op_database {

// What SPEC §4 allows in a float dtype, relative to the largest element of a result.
double tolerance_of(DType dtype);

enum class CheckKind : std::uint8_t {
  value,            // the forward against the reference
  gradient,         // the backward against finite differences, or in narrow dtypes against float64
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
  double error = 0;      // the worst, relative
  double tolerance = 0;  // what it may be
  std::string message;   // what is wrong, where
};

struct CheckOptions {
  bool values = true;
  bool gradients = true;
  bool second_gradients = true;
};

// Runs every check of `op` and calls `report` after each.
void check_op(const Op& op, const CheckOptions& options,
              const std::function<void(const Check&, const CheckResult&)>& report);

// One check of `op` by choice: below(n) picks each of its sample, dtype and layout. No finite
// differences, which would take too long where many are drawn.
void check_drawn(const Op& op, const std::function<std::int64_t(std::int64_t)>& below,
                 const std::function<void(const Check&, const CheckResult&)>& report);

// How many checks check_op makes.
std::int64_t count_checks(const Op& op, const CheckOptions& options);

}  // namespace extensor::op_database
