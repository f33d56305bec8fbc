// Activations as modules.
#pragma once

#include "extensor/elementwise.h"
#include "extensor/export.h"
#include "extensor/linear.h"
#include "extensor/nn/module.h"
#include "extensor/softmax.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

#define EXTENSOR_ACTIVATION(Type, function)                       \
  class Type final : public Module<Type> {                        \
   public:                                                        \
    Tensor forward(const Tensor& x) const { return function(x); } \
    void visit(Walker&) {}                                        \
  };
EXTENSOR_ACTIVATION(ReLU, relu)
EXTENSOR_ACTIVATION(ReLU6, relu6)
EXTENSOR_ACTIVATION(Sigmoid, sigmoid)
EXTENSOR_ACTIVATION(LogSigmoid, log_sigmoid)
EXTENSOR_ACTIVATION(Tanh, tanh)
EXTENSOR_ACTIVATION(SELU, selu)
EXTENSOR_ACTIVATION(SiLU, silu)
EXTENSOR_ACTIVATION(Mish, mish)
EXTENSOR_ACTIVATION(Hardsigmoid, hard_sigmoid)
EXTENSOR_ACTIVATION(Hardswish, hard_swish)
#undef EXTENSOR_ACTIVATION

class GELU final : public Module<GELU> {
 public:
  explicit GELU(StrictBool approximate = false) : approximate_(approximate) {}
  Tensor forward(const Tensor& x) const { return gelu(x, approximate_); }
  void visit(Walker&) {}

 private:
  bool approximate_;
};

// Activations with one numeric parameter.
#define EXTENSOR_ACTIVATION(Type, function, parameter, standard)                  \
  class Type final : public Module<Type> {                                        \
   public:                                                                        \
    explicit Type(StrictDouble parameter = standard) : parameter##_(parameter) {} \
    Tensor forward(const Tensor& x) const { return function(x, parameter##_); }   \
    void visit(Walker&) {}                                                        \
                                                                                  \
   private:                                                                       \
    double parameter##_;                                                          \
  };
EXTENSOR_ACTIVATION(LeakyReLU, leaky_relu, slope, 0.01)
EXTENSOR_ACTIVATION(ELU, elu, alpha, 1.0)
EXTENSOR_ACTIVATION(Softplus, softplus, beta, 1.0)
#undef EXTENSOR_ACTIVATION

class Hardtanh final : public Module<Hardtanh> {
 public:
  explicit Hardtanh(StrictDouble lo = -1, StrictDouble hi = 1) : lo_(lo), hi_(hi) {}
  Tensor forward(const Tensor& x) const { return hard_tanh(x, lo_, hi_); }
  void visit(Walker&) {}

 private:
  double lo_, hi_;
};

// Activations along an axis.
#define EXTENSOR_ACTIVATION(Type, function)                              \
  class Type final : public Module<Type> {                               \
   public:                                                               \
    explicit Type(StrictInt axis = -1) : axis_(axis) {}                  \
    Tensor forward(const Tensor& x) const { return function(x, axis_); } \
    void visit(Walker&) {}                                               \
                                                                         \
   private:                                                              \
    std::int64_t axis_;                                                  \
  };
EXTENSOR_ACTIVATION(Softmax, softmax)
EXTENSOR_ACTIVATION(LogSoftmax, log_softmax)
EXTENSOR_ACTIVATION(GLU, glu)
#undef EXTENSOR_ACTIVATION

// A learned slope for negative inputs: one, or one per channel (axis 1).
class PReLU final : public Module<PReLU> {
 public:
  explicit PReLU(StrictInt parameters = 1, StrictDouble initial = 0.25);
  Tensor forward(const Tensor& x) const;
  void visit(Walker& walk) { walk("weight", weight); }

  Parameter weight;
};

}  // namespace extensor::nn

EXTENSOR_END_API
