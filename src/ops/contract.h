// Sums of products over named indices: the engine of einsum, tensordot, inner and vecdot, forward
// and backward.
#pragma once

#include <vector>

#include "extensor/tensor.h"

namespace extensor::ops {

// An index ≥ 0; equal numbers denote the same index throughout a contraction.
using Label = int;
using Labels = std::vector<Label>;

// A tensor with one label per dimension. A repeated label selects the diagonal of its dimensions.
struct Term {
  Tensor tensor;
  Labels labels;
};

// Maximum number of labels in a contraction of several terms: a batched product adds two
// dimensions.
inline constexpr int max_contracted_labels = max_rank - 2;

// Sums the product of the terms over all labels that are not in `output`; a dimension of length 1
// broadcasts against a longer one of the same label. The caller has checked that sizes match and
// that the labels of the output are distinct and occur in a term. Dtypes promote; half dtypes are
// rounded once. The result may be a view of a single term.
Tensor contract(const char* operation, const std::vector<Term>& terms, const Labels& output);

// The gradients of the terms, each in the shape and dtype of its term. Checks that dtypes are
// floats and that grad_output has the right shape.
std::vector<Tensor> contract_backward(const char* operation, const Tensor& grad_output,
                                      const std::vector<Term>& terms, const Labels& output);

// The shape of the result of contract().
Shape contracted_shape(const std::vector<Term>& terms, const Labels& output);

}  // namespace extensor::ops
