// Formats numbers as NumPy does in an array: one common width and precision for all shown elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "extensor/tensor.h"

namespace extensor::detail {

// The elements at these offsets (in elements, from the tensor's first), padded to one width.
std::vector<std::string> format_elements(const TensorImpl& tensor,
                                         const std::vector<std::int64_t>& offsets);

// The element of a 0-d tensor, as NumPy prints a scalar.
std::string format_scalar(const TensorImpl& tensor);

// Example: 61,706
std::string with_commas(std::int64_t number);

}  // namespace extensor::detail
