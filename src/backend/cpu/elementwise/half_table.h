// Tables of the 65,536 results of a function of one half, used once they pay for their computation.
#pragma once

#include <cstdint>

#include "backend/cpu/elementwise/kernels.h"

namespace extensor::cpu {

// All results of a function of one half, by the bits of its argument.
struct HalfTable {
  std::uint16_t results[65536];
  backend::Parameter parameter;  // passes the results to look_up_loop
};

// Fills `results` by computing each of them.
using FillHalfTable = void (*)(backend::ElementwiseOp op, DType half, std::uint16_t* results);

// The table of (op, half), or null while so few elements have been requested (including these
// `numel`) that computing them costs less than a table.
const HalfTable* half_table(backend::ElementwiseOp op, DType half, std::int64_t numel,
                            FillHalfTable fill);

// An ElementwiseLoop that reads a table.
void look_up_loop(const void* const* inputs, const std::size_t* steps, void* out, std::size_t n,
                  const backend::Parameter* table);

}  // namespace extensor::cpu
