// The source of the kernel of a formula.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/formula_arguments.h"
#include "backend/formula_call.h"

namespace extensor::backend::cuda {

static_assert(sizeof(FormulaOperands::inputs) / sizeof(void*) == max_formula_inputs);
static_assert(sizeof(FormulaOperands::outputs) / sizeof(void*) == max_formula_outputs);

// How a kernel reads its inputs.
struct FormulaLayout {
  int width = 1;     // elements that a thread computes together
  bool flat = true;  // every input is dense or one element; if not, `over` has their offsets
  bool is_single[max_formula_inputs] = {};  // the same element for all of a pack, or for all
  FormulaIteration over{};
};

// False if no kernel can compute the call: the inputs have too many dimensions, or an op has no
// row.
bool lay_out(const FormulaCall& call, FormulaLayout& layout);

// Everything that the source depends on: calls with equal keys have the same kernel.
std::string formula_key(const FormulaCall& call, const FormulaLayout& layout);

// The source, whose kernel is named "formula", and which includes formula_kernel.cuh.
std::string formula_source(const FormulaCall& call, const FormulaLayout& layout);

// The numbers that the kernel takes as arguments. They are not part of the source, so that a
// formula with other numbers has the same kernel.
std::vector<double> formula_numbers(const FormulaCall& call);

}  // namespace extensor::backend::cuda
