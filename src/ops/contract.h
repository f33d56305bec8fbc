// Sums of products over named indices: the engine of einsum, tensordot, inner and vecdot, forward
// and backward.
#pragma once

#include <vector>

#include "extensor/tensor.h"

namespace extensor::ops {

// An index, 0 or more; the same number is the same index everywhere in a contraction.
using Label = int;
using Labels = std::vector<Label>;

// One label per dimension. A label named twice reads the diagonal of its two dimensions.
struct Term {
  Tensor tensor;
  Labels labels;
};

// The most labels a contraction of several terms may have: a batched product adds two dimensions.
inline constexpr int max_contracted_labels = max_rank - 2;

// Σ over all labels that are not in `output` of the product of the terms; a dimension of 1 repeats
// against a longer one of its label. Checked already: sizes fit, the output's labels differ and
// occur in a term. Dtypes promote; halves are rounded once. May be a view of a single term.
Tensor contract(const char* operation, const std::vector<Term>& terms, const Labels& output);

// The gradients of the terms, each in its shape and dtype. Checked here: floats, grad_output's
// shape.
std::vector<Tensor> contract_backward(const char* operation, const Tensor& grad_output,
                                      const std::vector<Term>& terms, const Labels& output);

// The shape contract() gives.
Shape contracted_shape(const std::vector<Term>& terms, const Labels& output);

}  // namespace extensor::ops
