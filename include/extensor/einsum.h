// Einstein's summation: products of any number of tensors, summed over named indices.
//
//   Tensor scores = extensor::einsum("bqhd,bkhd->bhqk", {queries, keys});
//   Tensor trace = extensor::einsum("ii->", {x});
#pragma once

#include <string_view>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// `subscripts` names the dimensions of each operand by letters, one group per operand, and after
// "->" those of the result. An index that the result lacks is summed; one that an operand names
// twice reads its diagonal. Without "->" the result has the indices named once, in alphabetical
// order, capitals first. "..." stands for any further dimensions, which broadcast; it leads the
// implicit result, and an explicit one without it sums over them. A dimension of 1 repeats. Several
// operands are multiplied in pairs, cheapest first. The result may be a view if nothing is summed
// or multiplied. Dtypes promote; halves are rounded once. ValueError for malformed subscripts,
// ShapeError if they do not fit the operands.
Tensor einsum(std::string_view subscripts, const std::vector<Tensor>& operands);
std::vector<Tensor> einsum_backward(const Tensor& grad_output, std::string_view subscripts,
                                    const std::vector<Tensor>& operands);

}  // namespace extensor

EXTENSOR_END_API
