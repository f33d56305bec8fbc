// The public headers as text, and the functions they declare.
#pragma once

#include <string>
#include <vector>

namespace extensor::op_database {

struct HeaderText {
  std::string name;  // "reduction.h"
  std::string text;
};

// Written by embed_headers.cmake.
const std::vector<HeaderText>& header_texts();

struct Declaration {
  std::string header;
  std::string function;
  std::string text;  // "Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdims = false)"
};

// Every free function declared at the outermost level of namespace extensor, operators excepted.
const std::vector<Declaration>& declarations();

}  // namespace extensor::op_database
