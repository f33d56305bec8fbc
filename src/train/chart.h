// Line charts as SVG, for embedding in an HTML page that defines the colours.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace extensor::train {

struct Series {
  std::string name;
  std::string style;  // CSS class: "train", "held-out"
  std::vector<std::pair<double, double>> points;
  bool marks = false;  // draw a dot with its value at every point
};

struct Chart {
  std::string title;
  std::string unit;         // suffix of the numbers: " %"
  bool may_be_log = false;  // use a logarithmic scale if the values range widely
  std::vector<Series> series;
};

// Returns an empty string if there is nothing to draw.
std::string svg(const Chart& chart);

// Escapes text for HTML.
std::string escaped(std::string_view text);

// Reduces to at most `most` points, each the mean of the points it replaces.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               std::size_t most);

}  // namespace extensor::train
