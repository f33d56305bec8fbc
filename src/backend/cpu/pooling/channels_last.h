// Pooling of channels_last images, and the rules that it shares with pooling of planes.
#pragma once

#include <algorithm>
#include <vector>

#include "backend/pooling_call.h"

namespace extensor::cpu {

// NaN is larger than everything.
template <class T>
bool is_better(T value, T best) {
  return value > best || value != value;
}

// The divisor of an average. A window entirely inside the padding has no elements, and its mean is
// 0.
inline double averaged_count(const backend::PoolingWindow& rows,
                             const backend::PoolingWindow& columns) {
  return std::max(1.0, static_cast<double>(rows.size) * static_cast<double>(columns.size));
}

// All windows of an axis: every plane has the same ones.
inline std::vector<backend::PoolingWindow> windows_of(const backend::PoolingAxis& axis) {
  std::vector<backend::PoolingWindow> windows(static_cast<std::size_t>(axis.count));
  for (std::int64_t i = 0; i < axis.count; ++i) windows[static_cast<std::size_t>(i)] = axis[i];
  return windows;
}

// Computes the same bits as pooling of planes.
template <class T>
void pool_channels_last(const backend::PoolingCall& call);

}  // namespace extensor::cpu
