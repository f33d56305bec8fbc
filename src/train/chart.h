// Line charts as SVG, to stand in a page of HTML that has the colours.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace extensor::train {

struct Series {
  std::string name;
  std::string style;  // a CSS class: "train", "held-out"
  std::vector<std::pair<double, double>> points;
  bool marks = false;  // a dot with its value at every point
};

struct Chart {
  std::string title;
  std::string unit;         // behind the numbers: " %"
  bool may_be_log = false;  // where the values range widely, their logarithms are drawn
  std::vector<Series> series;
};

// Empty where there is nothing to draw.
std::string svg(const Chart& chart);

// Text for HTML.
std::string escaped(std::string_view text);

// At most `most` points, each the mean of those that it stands for.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               std::size_t most);

}  // namespace extensor::train
