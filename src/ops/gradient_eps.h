// The floor that recorded functions pass to their backward (GradientEps in extensor/autograd.h).
#pragma once

#include "core/context.h"

namespace extensor::ops {

inline double gradient_eps() { return detail::context.gradient_eps; }
using detail::EpsScope;

}  // namespace extensor::ops
