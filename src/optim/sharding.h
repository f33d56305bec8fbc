// The division of parameters between ranks, each of which holds the states of its part of every
// parameter and steps only that. src/distributed implements it; optimizers, clipping and loss
// scaling ask for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "extensor/tensor.h"

namespace extensor::optim {

class Optimizer;

class Sharding {
 public:
  // Elements of a parameter, in row-major order.
  struct Part {
    std::int64_t begin = 0, end = 0;
    std::int64_t size() const { return end - begin; }
  };

  virtual ~Sharding();
  virtual bool contains(const Tensor& parameter) const = 0;
  // This rank's part of a parameter that is contained.
  virtual Part part(const Tensor& parameter) const = 0;
  // Throws ValueError, naming `operation`, if gradients are no longer reduced over the ranks.
  virtual void check_active(const char* operation) const = 0;

  // All ranks call these together. Gives the parameters what their ranks have computed:
  virtual void gather_parameters() = 0;
  // The parts of a state of the parameter, joined in the shape of the parameter.
  virtual Tensor gather_state(const Tensor& parameter, const Tensor& own) const = 0;
  // The numbers of all ranks, in their order: a vector of float64.
  virtual Tensor gather_number(const Tensor& own) const = 0;
};

// The part as a vector: a view of x if that is row-major, else a copy.
Tensor part_of(const Tensor& x, const Sharding::Part& part);

// Divides the states of the optimizer, those that it has as well: all ranks call it together.
// Throws ValueError for a parameter that is not contained.
void divide_states(Optimizer& optimizer, std::shared_ptr<Sharding> sharding);

// find_sharding() finds it while it lives, by any of its parameters.
void register_sharding(const std::shared_ptr<Sharding>& sharding);
void unregister_sharding(const Sharding& sharding);
// Null if the gradient of the parameter is whole.
std::shared_ptr<Sharding> find_sharding(const Tensor& parameter);

// The joint norm of the gradients of the parameters, a 0-d float64 tensor; of those that are
// divided, over all ranks. Throws ValueError if only some are divided.
Tensor joint_gradient_norm(const char* operation, const std::vector<Tensor>& parameters,
                           double norm_type);

}  // namespace extensor::optim
