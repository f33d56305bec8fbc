// Functions of one half: 65,536 results, which are looked up once they have been worth computing.
#pragma once

#include <cstdint>

#include "backend/cpu/elementwise/kernels.h"

namespace extensor::cpu {

// All results of a function of one half, by the bits of its argument.
struct HalfTable {
  std::uint16_t results[65536];
  backend::Parameter parameter;  // how look_up_loop is told of the results
};

// Fills `results` by computing each of them.
using FillHalfTable = void (*)(backend::ElementwiseOp op, DType half, std::uint16_t* results);

// The table of (op, half), or null while so few elements have been asked for (counting these
// `numel`) that computing them costs less than a table.
const HalfTable* half_table(backend::ElementwiseOp op, DType half, std::int64_t numel,
                            FillHalfTable fill);

// An ElementwiseLoop that reads a table.
void look_up_loop(const void* const* inputs, const std::size_t* steps, void* out, std::size_t n,
                  const backend::Parameter* table);

}  // namespace extensor::cpu
