// Handwritten-looking digits, drawn by the library itself, so that a first network needs no
// download.
#pragma once

#include <cstdint>

#include "extensor/data/images.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

// `count` digits, uint8 [count, 28, 28], 0 is paper and 255 is ink: strokes under random affine and
// elastic distortion, pens of different width, and noise. Image i is a function of (seed, first +
// i), so that a set can be drawn in pieces and two ranges of one seed are disjoint sets. ValueError
// for a negative count or first.
LabelledImages digits(std::int64_t count, std::uint64_t seed = 0, std::int64_t first = 0);

}  // namespace extensor::data

EXTENSOR_END_API
