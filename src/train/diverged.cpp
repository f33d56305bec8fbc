#include "train/diverged.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"
#include "extensor/train/trainer.h"

namespace extensor::train {

using detail::message;

namespace {

bool is_finite(const Tensor& x) {
  return !is_differentiable(x.dtype()) || all(isfinite(x)).item<bool>();
}

// "'a', 'b', 'c' and 4 others".
std::string joined(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t k = 0; k < std::min(names.size(), most); ++k) {
    text += message(k == 0 ? "'" : ", '", names[k], "'");
  }
  if (names.size() > most) text += message(" and ", names.size() - most, " others");
  return text;
}

template <class Of>
std::string not_finite(const ModelReference& model, const Of& of) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const Tensor tensor = of(parameter);
    if (tensor.defined() && !is_finite(tensor)) names.push_back(name);
  }
  return joined(names);
}

std::string weights_not_finite(const ModelReference& model) {
  return not_finite(model, [](const Tensor& parameter) { return parameter; });
}

constexpr const char* advice =
    "; a lower learning rate, clip_norm, or a look at the data may help, the last checkpoint is as "
    "it was";

}  // namespace

void throw_diverged(std::int64_t step, const ModelReference& model, const data::Batch& batch,
                    double loss) {
  const NoGrad off;
  std::string reason;
  // Check the inputs first: if the loss is read late, they have already spoilt the weights.
  if (!std::ranges::all_of(batch.all_inputs(), is_finite)) {
    reason =
        message("the inputs of the batch with example ",
                batch.indices.empty() ? -1 : batch.indices.front(), " contain NaN or infinity");
  } else if (const std::string weights = weights_not_finite(model); !weights.empty()) {
    reason = message("weights contain NaN or infinity: ", weights);
  } else {
    reason = "weights and inputs are finite, so it overflows between them";
  }
  throw DivergedError(
      message("Trainer: the loss of step ", step, " is ", loss, ": ", reason, advice));
}

void throw_diverged(std::int64_t step, const ModelReference& model, double gradient_norm) {
  const NoGrad off;
  const std::string gradients =
      not_finite(model, [](const Tensor& parameter) { return parameter.grad(); });
  const std::string reason = gradients.empty()
                                 ? "every gradient is finite, but their sum of squares overflows"
                                 : "gradients contain NaN or infinity: " + gradients;
  throw DivergedError(message("Trainer: the norm of the gradients of step ", step, " is ",
                              gradient_norm, ": ", reason, advice));
}

}  // namespace extensor::train
