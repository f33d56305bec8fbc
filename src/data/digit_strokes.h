// The shapes of the ten digits: strokes of a pen through control points, x to the right and y down,
// both from 0 to 1. Some digits are written in more than one way.
#pragma once

#include <vector>

namespace extensor::data {

struct Point {
  float x, y;
};
using Stroke = std::vector<Point>;  // a smooth curve through its points
using Glyph = std::vector<Stroke>;

// The ways to write `digit`, at least one.
const std::vector<Glyph>& glyphs_of(int digit);

}  // namespace extensor::data
