// What evaluates expressions sets for the thread it works on.
#pragma once

#include "extensor/dual.h"

namespace extensor::ops {

// The eps of the rows' gradients while derivatives of dual numbers are taken on this thread.
class GradientEps {
 public:
  explicit GradientEps(double eps);
  GradientEps(const GradientEps&) = delete;
  GradientEps& operator=(const GradientEps&) = delete;
  ~GradientEps();

 private:
  double before_;
};

}  // namespace extensor::ops
