// Line charts as HTML: an SVG plot that stretches with the page, with labels and tooltips in HTML
// so that their text keeps its size. The page defines the colours (train/report_style.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace extensor::train {

using Points = std::vector<std::pair<double, double>>;

// pale: a thin line in the background, whose outliers do not stretch the axis.
// marks: a line with a dot at every point.
enum class Look { line, pale, marks };

struct Series {
  std::string name;
  std::string style;  // CSS class: "train", "validation"
  Points points;      // in ascending order of x
  Look look = Look::line;
  std::string note = {};  // follows the name in the legend: ", mean of 9 steps"
};

struct Chart {
  std::string title;
  std::string unit;         // suffix of the numbers: " %"
  bool may_be_log = false;  // use a logarithmic scale if the values range widely
  std::vector<Series> series;
};

// Returns an empty string if there is nothing to draw.
std::string chart_html(const Chart& chart);

// Escapes text for HTML.
std::string escaped(std::string_view text);

// Reduces to at most `most` points, each the mean of the points it replaces, at the step of the
// last: axes end at a step that was made.
Points thinned(const Points& points, std::size_t most);

// Replaces every value by the mean of the `half` values before it, itself and the `half` values
// after it; near the ends, of as many on both sides as there are.
Points smoothed(const Points& points, std::size_t half);

}  // namespace extensor::train
