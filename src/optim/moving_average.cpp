#include "extensor/optim/moving_average.h"

#include "core/check.h"
#include "core/graph.h"
#include "optim/group.h"

namespace extensor::optim {

using detail::message;
using detail::RecordingScope;

namespace {

void check_decay(const char* operation, double decay) {
  if (decay >= 0 && decay <= 1) return;
  throw ValueError(message(operation, ": decay is ", decay, ", must be in [0, 1]"));
}

std::string shadow(std::size_t index) { return "shadow_params." + std::to_string(index); }

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(const std::vector<Tensor>& parameters,
                                                   double decay)
    : parameters_(parameters), decay_(decay) {
  constexpr const char* name = "ExponentialMovingAverage";
  if (parameters.empty()) throw ValueError(message(name, ": there are no parameters"));
  check_decay(name, decay);
  for (std::size_t k = 0; k < parameters.size(); ++k) check_parameter(name, k, parameters[k]);
  const RecordingScope off(false);
  for (const Tensor& parameter : parameters) {
    const DType dtype = ops::state_dtype(parameter.dtype());
    averages_.push_back(dtype == parameter.dtype() ? parameter.contiguous().clone()
                                                   : parameter.contiguous().to(dtype));
  }
}

void ExponentialMovingAverage::update() {
  if (applied()) {
    throw ValueError(
        "ExponentialMovingAverage.update: the averages are applied; restore() comes first");
  }
  // The module may have been moved to another device.
  for (std::size_t k = 0; k < averages_.size(); ++k) {
    averages_[k] = averages_[k].to(parameters_[k].device());
  }
  ops::move_averages(averages_, parameters_, 1 - decay_);
  ++updates_;
}

void ExponentialMovingAverage::apply() {
  if (applied()) {
    throw ValueError("ExponentialMovingAverage.apply: the averages are applied already");
  }
  const RecordingScope off(false);
  std::vector<Tensor> originals;
  originals.reserve(parameters_.size());
  for (const Tensor& parameter : parameters_) originals.push_back(parameter.clone());
  for (std::size_t k = 0; k < parameters_.size(); ++k) parameters_[k].copy_from(averages_[k]);
  originals_ = std::move(originals);
}

void ExponentialMovingAverage::restore() {
  if (!applied()) {
    throw ValueError("ExponentialMovingAverage.restore: the averages are not applied");
  }
  const RecordingScope off(false);
  for (std::size_t k = 0; k < parameters_.size(); ++k) parameters_[k].copy_from(originals_[k]);
  originals_.clear();
}

void ExponentialMovingAverage::apply_to(const std::vector<Tensor>& others) const {
  constexpr const char* name = "ExponentialMovingAverage.apply_to";
  if (others.size() != averages_.size()) {
    throw ValueError(
        message(name, ": ", others.size(), " tensors for ", averages_.size(), " averages"));
  }
  for (std::size_t k = 0; k < others.size(); ++k) {
    check_parameter(name, k, others[k]);
    if (!(others[k].shape() == averages_[k].shape())) {
      throw ShapeError(message(name, ": parameter ", k, " is ", others[k].shape(),
                               ", its average is ", averages_[k].shape()));
    }
  }
  const RecordingScope off(false);
  for (std::size_t k = 0; k < others.size(); ++k) Tensor(others[k]).copy_from(averages_[k]);
}

StateDict ExponentialMovingAverage::state_dict() const {
  StateDict saved;
  saved.numbers = {{"decay", decay_}, {"num_updates", static_cast<double>(updates_)}};
  for (std::size_t k = 0; k < averages_.size(); ++k) {
    saved.tensors[shadow(k)] = averages_[k].clone();
  }
  return saved;
}

void ExponentialMovingAverage::load_state_dict(const StateDict& saved) {
  StateReader reader("ExponentialMovingAverage.load_state_dict", saved);
  const double decay = reader.number("decay");
  check_decay(reader.operation().c_str(), decay);
  const std::int64_t updates = reader.count("num_updates");
  if (saved.tensors.size() != averages_.size()) {
    throw ValueError(message(reader.operation(), ": the state is of ", saved.tensors.size(),
                             " parameters, here are ", averages_.size()));
  }
  std::vector<Tensor> averages;
  for (std::size_t k = 0; k < averages_.size(); ++k) {
    averages.push_back(reader.tensor(shadow(k), averages_[k].shape(), averages_[k].dtype(),
                                     averages_[k].device()));
  }
  reader.finish();
  averages_ = std::move(averages);
  decay_ = decay;
  updates_ = updates;
}

}  // namespace extensor::optim
