// The rows of extensor/tables/optimizers.def for kernels: an op for each, and its layout.
#pragma once

#include <cstdint>

#include "backend/optimizer_call.h"

namespace extensor::backend {

enum class OptimizerOp : std::uint8_t {
#define OPTIMIZER(name, ...) name,
#include "extensor/tables/optimizers.def"
  // Not a row: states[0] += coefficient 0 · (grad − states[0]), without a param.
  average,
  // Not a row: param = grad · coefficient 0, without states.
  scale,
};

// The number of bools, states and coefficients that a row declares, and the states that some
// variants use.
struct OptimizerRow {
  int variants = 0, states = 0, coefficients = 0;
  std::uint32_t used_states = 0;  // bit k: state k
};

template <OptimizerOp op>
constexpr OptimizerRow optimizer_row(std::uint32_t variants);

#define RANGE(...)
#define REQUIRE(...)
#define VARIANT(word, condition) \
  [[maybe_unused]] const bool word = (variants >> row.variants++ & 1) != 0;
#define STATE(name, when, value) row.used_states |= std::uint32_t{when} << row.states++;
#define COEFFICIENT(word, value) ++row.coefficients;
#define OPTIMIZER(name, Class, Options, State, steps, declarations, ...)              \
  template <>                                                                         \
  constexpr OptimizerRow optimizer_row<OptimizerOp::name>(                            \
      [[maybe_unused]] std::uint32_t variants) {                                      \
    [[maybe_unused]] constexpr bool always = true;                                    \
    OptimizerRow row;                                                                 \
    declarations return row;                                                          \
  }                                                                                   \
  static_assert(optimizer_row<OptimizerOp::name>(0).states <= max_optimizer_states && \
                optimizer_row<OptimizerOp::name>(0).coefficients <= max_optimizer_coefficients);
#include "extensor/tables/optimizers.def"
#undef RANGE
#undef REQUIRE
#undef VARIANT
#undef STATE
#undef COEFFICIENT

}  // namespace extensor::backend
