#include "extensor/train/model_reference.h"

#include "core/check.h"

namespace extensor {

using detail::message;

void nn::detail::throw_input_count(std::size_t given, const std::vector<std::size_t>& allowed) {
  std::string list;
  for (const std::size_t count : allowed) list += message(list.empty() ? "" : ", ", count);
  throw ValueError(message("ModelReference: the model is called with ", given,
                           " inputs (allowed: ", list.empty() ? "none" : list, ")"));
}

namespace train {

std::vector<Tensor> ModelReference::operator()(const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> outputs = forward_(inputs);
  if (outputs.empty()) {
    throw ValueError("ModelReference: the model returned no tensors (allowed: 1 or more)");
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].defined()) {
      throw ValueError(message("ModelReference: output ", k, " of the model is undefined"));
    }
  }
  return outputs;
}

Tensor ModelReference::operator()(const Tensor& x) const {
  std::vector<Tensor> outputs = (*this)(std::vector<Tensor>{x});
  if (outputs.size() != 1) {
    throw ValueError(message("ModelReference: the model returned ", outputs.size(),
                             " tensors (allowed: 1 for a call with a tensor; a call with a list of "
                             "inputs returns all)"));
  }
  return std::move(outputs[0]);
}

}  // namespace train
}  // namespace extensor
