// The shapes of the ten digits: pen strokes through control points, with x to the right and y down,
// both from 0 to 1. Some digits have more than one shape.
#pragma once

#include <vector>

namespace extensor::data {

struct Point {
  float x, y;
};
using Stroke = std::vector<Point>;  // a smooth curve through its points
using Glyph = std::vector<Stroke>;

// The shapes of `digit`, at least one.
const std::vector<Glyph>& glyphs_of(int digit);

}  // namespace extensor::data
