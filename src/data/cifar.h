// The binary versions of CIFAR: records of one label (CIFAR-10) or a coarse and a fine one
// (CIFAR-100), and 3 · 32 · 32 bytes: the red plane, the green, the blue.
#pragma once

#include <cstdint>
#include <span>

#include "extensor/data/images.h"
#include "io/byte_source.h"

namespace extensor::io {

struct CifarKind {
  std::int64_t coarse_classes;  // 0: there is no such label
  std::int64_t classes;
};
inline constexpr CifarKind cifar10{0, 10}, cifar100{20, 100};

// The records of all sources, one after the other, without the classes' names. FormatError for a
// source that is not a whole number of records, or has none.
data::LabelledImages read_cifar(std::span<const ByteSource* const> sources, const CifarKind& kind);

}  // namespace extensor::io
