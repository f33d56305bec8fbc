// The binary versions of CIFAR. A record has one label (CIFAR-10) or a coarse and a fine label
// (CIFAR-100), followed by 3 · 32 · 32 bytes: the red, green and blue planes.
#pragma once

#include <cstdint>
#include <span>

#include "extensor/data/images.h"
#include "io/byte_source.h"

namespace extensor::io {

struct CifarKind {
  std::int64_t coarse_classes;  // 0: no coarse label
  std::int64_t classes;
};
inline constexpr CifarKind cifar10{0, 10}, cifar100{20, 100};

// Reads the records of all sources in order, without class names. Throws FormatError for a source
// that is empty or not a whole number of records.
data::LabelledImages read_cifar(std::span<const ByteSource* const> sources, const CifarKind& kind);

}  // namespace extensor::io
