#include "train/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace extensor::train {

namespace {

constexpr double width = 560, height = 260;
constexpr double left = 58, right = 14, top = 34, bottom = 34;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text,
                std::abs(value) >= 1e4 && std::abs(value) < 1e9 ? "%.0f" : "%.4g", value);
  return text;
}

std::string place(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// A scale from values to positions, with its tick marks.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1;
  bool is_log = false;

  double scaled(double value) const { return is_log ? std::log10(value) : value; }
  double at(double value) const {
    return from + (scaled(value) - scaled(low)) / (scaled(high) - scaled(low)) * (to - from);
  }
  std::vector<double> ticks() const {
    std::vector<double> list;
    if (is_log) {
      const auto last = static_cast<int>(std::ceil(scaled(high)));
      for (auto power = static_cast<int>(std::floor(scaled(low))); power <= last; ++power) {
        for (double digit : {1.0, 2.0, 5.0}) {
          const double value = digit * std::pow(10, power);
          if (value >= low && value <= high) list.push_back(value);
        }
      }
      return list;
    }
    const double rough = (high - low) / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (double digit : {5.0, 2.0, 1.0}) {
      if (digit * power >= rough) step = digit * power;
    }
    const auto last = static_cast<std::int64_t>(std::floor(high / step * (1 + 1e-12)));
    for (auto k = static_cast<std::int64_t>(std::ceil(low / step)); k <= last; ++k) {
      list.push_back(static_cast<double>(k) * step);
    }
    return list;
  }
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Adds a margin, also if all values are equal.
  void widen() {
    const double room = high > low ? 0.05 * (high - low) : std::max(0.5, 0.1 * std::abs(high));
    low = low >= 0 ? std::max(0.0, low - room) : low - room;
    high += room;
  }
};

std::string text_at(double x, double y, const char* style, std::string_view text) {
  return "<text x=\"" + place(x) + "\" y=\"" + place(y) + "\" class=\"" + style + "\">" +
         escaped(text) + "</text>";
}

std::string line_of(const Series& series, const Axis& x, const Axis& y) {
  std::string points;
  for (const auto& [step, value] : series.points) {
    if (std::isfinite(value)) points += place(x.at(step)) + "," + place(y.at(value)) + " ";
  }
  return "<polyline class=\"line " + series.style + "\" points=\"" + points + "\"/>";
}

std::string marks_of(const Series& series, const Chart& chart, const Axis& x, const Axis& y) {
  std::string marks;
  for (const auto& [step, value] : series.points) {
    if (!std::isfinite(value)) continue;
    marks += "<circle class=\"mark " + series.style + "\" cx=\"" + place(x.at(step)) + "\" cy=\"" +
             place(y.at(value)) + "\" r=\"3.5\"><title>" + escaped(series.name) + ", step " +
             number(step) + ": " + number(value) + chart.unit + "</title></circle>";
  }
  return marks;
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

std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<std::pair<double, double>> result;
  result.reserve(most);
  for (std::size_t k = 0; k < most; ++k) {
    const std::size_t begin = k * points.size() / most, end = (k + 1) * points.size() / most;
    double x = 0, y = 0;
    for (std::size_t i = begin; i < end; ++i) {
      x += points[i].first;
      y += points[i].second;
    }
    const auto count = static_cast<double>(end - begin);
    result.emplace_back(x / count, y / count);
  }
  return result;
}

std::string svg(const Chart& chart) {
  Range steps, values;
  for (const Series& series : chart.series) {
    for (const auto& [step, value] : series.points) {
      if (!std::isfinite(value)) continue;
      steps.add(step);
      values.add(value);
    }
  }
  if (!(values.low <= values.high)) return {};
  Axis x{0, steps.high > 0 ? steps.high : 1, left, width - right};
  constexpr double wide = 30;
  const bool is_log = chart.may_be_log && values.low > 0 && values.high / values.low > wide;
  if (!is_log) values.widen();
  Axis y{values.low, values.high, height - bottom, top, is_log};

  std::string body = text_at(left, 20, "chart-title", chart.title);
  for (double tick : y.ticks()) {
    body += "<line class=\"grid\" x1=\"" + place(left) + "\" x2=\"" + place(width - right) +
            "\" y1=\"" + place(y.at(tick)) + "\" y2=\"" + place(y.at(tick)) + "\"/>";
    body += text_at(left - 8, y.at(tick) + 4, "tick end", number(tick) + chart.unit);
  }
  for (double tick : x.ticks()) {
    const std::string label = (tick == 0 ? "step " : "") + number(tick);
    body += text_at(x.at(tick), height - bottom + 18, "tick middle", label);
  }
  double legend = width - right;
  for (std::size_t k = chart.series.size(); k-- > 0;) {
    const Series& series = chart.series[k];
    if (series.points.empty()) continue;
    body += line_of(series, x, y);
    if (series.marks) body += marks_of(series, chart, x, y);
    if (chart.series.size() > 1) {
      legend -= 7.0 * static_cast<double>(series.name.size()) + 22;
      body += "<rect class=\"key " + series.style + "\" x=\"" + place(legend) +
              "\" y=\"12\" width=\"10\" height=\"10\" rx=\"2\"/>" +
              text_at(legend + 15, 21, "tick", series.name);
    }
  }
  return "<svg viewBox=\"0 0 560 260\" role=\"img\" aria-label=\"" + escaped(chart.title) + "\">" +
         body + "</svg>";
}

}  // namespace extensor::train
