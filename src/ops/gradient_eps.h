// The eps that recorded functions give to their backward; GradientEps in extensor/autograd.h sets
// it. A function recorded under an eps of 0 keeps that: so the parts of a gradient, recorded for
// the next order, have no floor besides the one of the gradient itself.
#pragma once

namespace extensor::ops {

double gradient_eps();
double set_gradient_eps(double eps);  // gives what it was

class EpsScope {
 public:
  explicit EpsScope(double eps) : before_(set_gradient_eps(eps)) {}
  EpsScope(const EpsScope&) = delete;
  EpsScope& operator=(const EpsScope&) = delete;
  ~EpsScope() { set_gradient_eps(before_); }

 private:
  double before_;
};

}  // namespace extensor::ops
