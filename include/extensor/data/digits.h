// Synthetic handwritten digits, so that a first network needs no download.
#pragma once

#include <cstdint>

#include "extensor/data/images.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

// Draws `count` digits, uint8 [count, 28, 28], with background 0 and ink 255: strokes with random
// affine and elastic distortion, pen width and noise. Image i is a function of (seed, first + i),
// so that a set can be drawn in pieces and two ranges of one seed are disjoint sets. Throws
// ValueError for a negative count or first.
LabelledImages digits(std::int64_t count, std::uint64_t seed = 0, std::int64_t first = 0);

}  // namespace extensor::data

EXTENSOR_END_API
