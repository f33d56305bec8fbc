#include "train/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace extensor::train {

namespace {

// "12,345", "0.0312", "1.2e+09"
std::string number(double value) {
  char text[32];
  const double size = std::abs(value);
  const bool is_long = size >= 1e4 && size < 1e9;
  std::snprintf(text, sizeof text, is_long ? "%.0f" : "%.4g", value);
  std::string result = text;
  if (is_long) {
    for (auto at = std::ssize(result) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
      result.insert(static_cast<std::size_t>(at), ",");
    }
  }
  return result;
}

// A position in the plot: 0 to 100, in percent of its width or height.
std::string place(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

// The smallest of 1, 2 and 5 times a power of ten that is at least `value`.
double nice_above(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= value * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

double nice_below(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double digit : {5.0, 2.0}) {
    if (digit * power <= value * (1 + 1e-9)) return digit * power;
  }
  return power;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return !(low <= high); }
};

// A scale from values to percent of the plot, with its tick marks.
struct Axis {
  double low = 0, high = 1;
  bool is_log = false;
  std::vector<double> ticks = {};

  double scaled(double value) const { return is_log ? std::log10(value) : value; }
  double at(double value) const {
    const double part = (scaled(value) - scaled(low)) / (scaled(high) - scaled(low));
    return 100 * std::clamp(part, 0.0, 1.0);
  }
};

double tick_distance(double low, double high) { return nice_above((high - low) / 5); }

std::vector<double> ticks_between(double low, double high, double distance) {
  std::vector<double> ticks;
  const auto last = static_cast<std::int64_t>(std::floor(high / distance * (1 + 1e-12)));
  for (auto k = static_cast<std::int64_t>(std::ceil(low / distance)); k <= last; ++k) {
    ticks.push_back(static_cast<double>(k) * distance);
  }
  return ticks;
}

// The axis of steps begins at 0 and ends at the last step, which is always labelled.
Axis step_axis(double last) {
  Axis axis{0, last > 0 ? last : 1};
  for (double tick : ticks_between(0, axis.high, std::max(1.0, tick_distance(0, axis.high)))) {
    constexpr double room = 12;  // percent of the width that a label needs
    if (axis.at(tick) <= 100 - room) axis.ticks.push_back(tick);
  }
  axis.ticks.push_back(axis.high);
  return axis;
}

// Ends at round numbers, so that the first and the last grid line are labelled.
Axis value_axis(Range range, bool may_be_log) {
  constexpr double wide = 30;
  if (may_be_log && range.low > 0 && range.high / range.low > wide) {
    Axis axis{nice_below(range.low), nice_above(range.high), true};
    const double decades = axis.scaled(axis.high) - axis.scaled(axis.low);
    const int each = static_cast<int>(std::ceil(decades / 6));
    const auto first = static_cast<int>(std::floor(axis.scaled(axis.low) + 1e-9));
    for (int power = first; power <= axis.scaled(axis.high) + 1e-9; ++power) {
      if ((power - first) % each != 0) continue;
      for (double digit : {1.0, 2.0, 5.0}) {
        if (digit != 1 && decades > 3) continue;
        const double value = digit * std::pow(10, power);
        if (value >= axis.low * (1 - 1e-9) && value <= axis.high * (1 + 1e-9)) {
          axis.ticks.push_back(value);
        }
      }
    }
    return axis;
  }
  if (!(range.high - range.low > 1e-9 * std::abs(range.high))) {
    const double room = std::max(0.5, 0.1 * std::abs(range.high));
    range = {range.low >= 0 ? std::max(0.0, range.low - room) : range.low - room,
             range.high + room};
  }
  const double distance = tick_distance(range.low, range.high);
  Axis axis{std::floor(range.low / distance + 1e-9) * distance,
            std::ceil(range.high / distance - 1e-9) * distance};
  axis.ticks = ticks_between(axis.low, axis.high, distance);
  return axis;
}

// The values that the axis must show: all of them, but for pale lines without outliers.
Range values_of(const Chart& chart) {
  Range range;
  for (const Series& series : chart.series) {
    std::vector<double> values;
    for (const auto& [step, value] : series.points) {
      if (std::isfinite(value)) values.push_back(value);
    }
    if (values.empty()) continue;
    std::ranges::sort(values);
    const std::size_t cut = series.look == Look::pale ? values.size() / 50 : 0;
    range.add(values[cut]);
    range.add(values[values.size() - 1 - cut]);
  }
  return range;
}

std::string line_of(const Series& series, const Axis& x, const Axis& y) {
  std::string points;
  for (const auto& [step, value] : series.points) {
    if (!std::isfinite(value)) continue;
    points += place(x.at(step)) + "," + place(100 - y.at(value)) + " ";
  }
  return "<polyline class=\"" + series.style + (series.look == Look::pale ? " pale" : "") +
         "\" points=\"" + points + "\"/>";
}

// Lines of no length with round ends: circles would be stretched with the plot.
std::string marks_of(const Series& series, const Axis& x, const Axis& y) {
  std::string path;
  for (const auto& [step, value] : series.points) {
    if (!std::isfinite(value)) continue;
    path += "M" + place(x.at(step)) + " " + place(100 - y.at(value)) + "h0";
  }
  return "<path class=\"mark " + series.style + "\" d=\"" + path + "\"/>";
}

const std::pair<double, double>* nearest(const Points& points, double step) {
  const std::pair<double, double>* best = nullptr;
  for (const auto& point : points) {
    if (!std::isfinite(point.second)) continue;
    if (best == nullptr || std::abs(point.first - step) < std::abs(best->first - step)) {
      best = &point;
    }
  }
  return best;
}

// One strip of the plot per tooltip; the style sheet shows the tooltip of the strip that is pointed
// at. Every strip names the nearest value of every series.
std::string tooltips(const Chart& chart, const Axis& x) {
  constexpr std::size_t most = 60;
  Points strips;
  for (const Series& series : chart.series) {
    if (series.look != Look::pale && series.points.size() > strips.size()) strips = series.points;
  }
  strips = thinned(strips, most);
  std::string body;
  for (std::size_t k = 0; k < strips.size(); ++k) {
    const double step = strips[k].first, at = x.at(step);
    const double from = k == 0 ? 0 : (x.at(strips[k - 1].first) + at) / 2;
    const double to = k + 1 == strips.size() ? 100 : (x.at(strips[k + 1].first) + at) / 2;
    std::string lines = "step " + number(std::round(step));
    for (const Series& series : chart.series) {
      const auto* point = series.look == Look::pale ? nullptr : nearest(series.points, step);
      if (point == nullptr) continue;
      lines += "<br><i class=\"" + series.style + "\"></i>" + escaped(series.name) + " " +
               number(point->second) + escaped(chart.unit);
      if (series.look == Look::marks && std::round(point->first) != std::round(step)) {
        lines += " at step " + number(point->first);
      }
    }
    body += "<div class=\"strip\" style=\"left:" + place(from) + "%;width:" + place(to - from) +
            "%\"><div class=\"tip\" style=\"--at:" + place(at) + "\">" + lines + "</div></div>";
  }
  return body;
}

std::string legend_of(const Chart& chart, bool is_log) {
  std::string body;
  for (const Series& series : chart.series) {
    if (chart.series.size() < 2 || series.points.empty()) continue;
    body += "<span><i class=\"" + series.style + (series.look == Look::pale ? " pale" : "") +
            "\"></i>" + escaped(series.name + series.note) + "</span>";
  }
  if (is_log) body += "<span>logarithmic scale</span>";
  return body.empty() ? "" : "<div class=\"legend\">" + body + "</div>";
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

Points thinned(const Points& points, std::size_t most) {
  if (points.size() <= most) return points;
  Points result;
  result.reserve(most);
  for (std::size_t k = 0; k < most; ++k) {
    const std::size_t begin = k * points.size() / most, end = (k + 1) * points.size() / most;
    double y = 0;
    for (std::size_t i = begin; i < end; ++i) y += points[i].second;
    result.emplace_back(points[end - 1].first, y / static_cast<double>(end - begin));
  }
  return result;
}

Points smoothed(const Points& points, std::size_t half) {
  std::vector<double> sums = {0};
  for (const auto& [x, y] : points) sums.push_back(sums.back() + y);
  Points result;
  result.reserve(points.size());
  for (std::size_t k = 0; k < points.size(); ++k) {
    const std::size_t reach = std::min({half, k, points.size() - 1 - k});
    const double sum = sums[k + reach + 1] - sums[k - reach];
    result.emplace_back(points[k].first, sum / static_cast<double>(2 * reach + 1));
  }
  return result;
}

std::string chart_html(const Chart& chart) {
  const Range values = values_of(chart);
  if (values.is_empty()) return {};
  double last = 0;
  for (const Series& series : chart.series) {
    if (!series.points.empty()) last = std::max(last, series.points.back().first);
  }
  const Axis x = step_axis(last), y = value_axis(values, chart.may_be_log);

  std::string grid, labels, lines;
  for (double tick : y.ticks) {
    const std::string at = place(100 - y.at(tick));
    grid += "<path class=\"grid\" d=\"M0 " + at + "H100\"/>";
    labels += "<span class=\"y\" style=\"top:" + at + "%\">" + number(tick) + escaped(chart.unit) +
              "</span>";
  }
  labels += "<span class=\"x-name\">step</span>";
  for (std::size_t k = 0; k < x.ticks.size(); ++k) {
    // Narrow pages hide every other of many labels, but not the first and the last.
    const bool may_hide = x.ticks.size() > 4 && k % 2 == 1 && k + 1 != x.ticks.size();
    labels += std::string("<span class=\"x") + (may_hide ? " spare" : "") +
              "\" style=\"left:" + place(x.at(x.ticks[k])) + "%\">" + number(x.ticks[k]) +
              "</span>";
  }
  for (const Series& series : chart.series) {
    if (series.points.empty()) continue;
    lines += line_of(series, x, y);
    if (series.look == Look::marks) lines += marks_of(series, x, y);
  }
  return "<figure class=\"chart\"><figcaption><b>" + escaped(chart.title) + "</b>" +
         legend_of(chart, y.is_log) +
         "</figcaption><div class=\"plot\"><svg viewBox=\"0 0 100 100\" "
         "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" +
         escaped(chart.title) + "\">" + grid + lines + "</svg>" + labels + tooltips(chart, x) +
         "</div></figure>";
}

}  // namespace extensor::train
