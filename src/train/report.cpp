#include "extensor/train/report.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "data/png.h"
#include "io/atomic_file.h"
#include "io/byte_source.h"
#include "io/text.h"
#include "train/chart.h"
#include "train/report_style.h"

namespace extensor::train {

using detail::message;
using Rows = std::vector<std::pair<std::string, std::string>>;

namespace {

// ---- the log

struct Curves {
  Points loss, accuracy, learning_rate, gradient_norm, rate;  // training curves, by step
  Points validation_loss, validation_accuracy;
};

double value_of(const nlohmann::json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_number() ? found->get<double>()
                                                   : std::numeric_limits<double>::quiet_NaN();
}

void add(Points& points, double step, double value) {
  if (!std::isnan(value)) points.emplace_back(step, value);
}

// Examples per second between lines of the log, without the time of evaluations.
class Rate {
 public:
  void add_step(double step, double examples, double seconds, Points& points) {
    constexpr double whole = 0.25;
    examples_ += examples;
    if (since_ < 0 || seconds < since_) {
      restart(seconds);
    } else if (seconds - since_ >= whole) {
      points.emplace_back(step, examples_ / (seconds - since_));
      restart(seconds);
    }
  }
  void restart(double seconds) {
    since_ = seconds;
    examples_ = 0;
  }

 private:
  double since_ = -1, examples_ = 0;
};

std::string type_of(const nlohmann::json& line) {
  const auto found = line.find("type");
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Skips unreadable lines, each with a warning: a log torn by a crash or a full disk must not
// prevent a run from finishing.
Curves curves_of(const std::string& label, const std::string& text,
                 std::vector<std::string>& warnings) {
  Curves curves;
  Rate rate;
  std::size_t begin = 0, number = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    ++number;
    const auto line =
        nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    begin = end + 1;
    const double step = line.is_object() ? value_of(line, "step") : NAN;
    if (std::isnan(step)) {
      warnings.push_back(message(label, ": line ", number, " is skipped: ",
                                 line.is_object() ? "it has no step" : "it is no JSON object"));
      continue;
    }
    const std::string type = type_of(line);
    if (type == "step") {
      add(curves.loss, step, value_of(line, "loss"));
      add(curves.accuracy, step, 100 * value_of(line, "accuracy"));
      add(curves.learning_rate, step, value_of(line, "learning_rate"));
      add(curves.gradient_norm, step, value_of(line, "gradient_norm"));
      rate.add_step(step, value_of(line, "examples"), value_of(line, "seconds"), curves.rate);
    } else if (type == "evaluation") {
      add(curves.validation_loss, step, value_of(line, "loss"));
      add(curves.validation_accuracy, step, 100 * value_of(line, "accuracy"));
      rate.restart(value_of(line, "seconds"));
    }
  }
  return curves;
}

std::string text_of(const std::filesystem::path& path) {
  const io::FileSource source("write_report", path);
  std::string text(static_cast<std::size_t>(source.size()), '\0');
  source.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

// ---- the parts

std::string section(const std::string& title, const std::string& body) {
  if (body.empty()) return {};
  return message("<section><h2>", escaped(title), "</h2>", body, "</section>\n");
}

std::string tiles(const Rows& facts) {
  std::string body;
  for (const auto& [name, value] : facts) {
    body += message("<div class=\"tile\"><div class=\"value\">", escaped(value),
                    "</div><div class=\"name\">", escaped(name), "</div></div>");
  }
  return message("<div class=\"tiles\">", body, "</div>\n");
}

// The training curve: every step in the background, and the mean of neighbouring steps where there
// are enough of them.
std::vector<Series> training_series(const std::string& name, const Points& points) {
  constexpr std::size_t most = 400, least_to_smooth = 40, windows = 30;
  if (points.size() < least_to_smooth) return {{name, "train", points, Look::line}};
  const std::size_t half = std::max<std::size_t>(1, points.size() / (2 * windows));
  return {{"each step", "train", thinned(points, most), Look::pale},
          {name, "train", thinned(smoothed(points, half), most), Look::line,
           message(", mean of ", 2 * half + 1, " steps")}};
}

std::string charts(const Curves& curves) {
  constexpr std::size_t most = 400;
  const auto pair = [](const Points& training, const Points& validation) {
    std::vector<Series> series = training_series("training", training);
    series.push_back({"validation", "validation", validation, Look::marks});
    return series;
  };
  const Chart all[] = {
      {"Loss", "", true, pair(curves.loss, curves.validation_loss)},
      {"Accuracy", " %", false, pair(curves.accuracy, curves.validation_accuracy)},
      {"Learning rate",
       "",
       false,
       {{"learning rate", "train", thinned(curves.learning_rate, most), Look::line}}},
      {"Norm of the gradients", "", true, training_series("norm", curves.gradient_norm)},
      {"Examples per second", "", false, {{"rate", "train", thinned(curves.rate, most)}}},
  };
  std::string body;
  for (const Chart& chart : all) body += chart_html(chart);
  return body.empty() ? "" : message("<div class=\"charts\">", body, "</div>");
}

std::string class_name(const Report& report, std::int64_t k) {
  const auto at = static_cast<std::size_t>(k);
  return at < report.classes.size() ? report.classes[at] : std::to_string(k);
}

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", 100 * part);
  return std::isnan(part) ? "–" : text;
}

std::string cell(const Report& report, const ConfusionMatrix& matrix, std::int64_t target,
                 std::int64_t k, std::int64_t all) {
  const std::int64_t count = matrix.at(target, k);
  if (count == 0) return "<td></td>";
  const double part = static_cast<double>(count) / static_cast<double>(all);
  // Mistakes are rare: the square root makes them visible.
  const double shade = k == target ? 0.85 * part : std::min(0.9, 1.5 * std::sqrt(part));
  constexpr double strong = 0.6;
  char style[64];
  std::snprintf(style, sizeof style, "style=\"--shade:%.2f\"", shade);
  return message("<td class=\"", k == target ? "right" : "wrong", shade > strong ? " strong" : "",
                 "\" ", style, " title=\"", escaped(class_name(report, target)),
                 k == target ? " recognized" : " taken for ",
                 k == target ? "" : escaped(class_name(report, k)), ": ", count, " of ", all, " (",
                 percent(part), " %)\">", count, "</td>");
}

// Rows are targets. A cell is darker the larger its fraction of the row; mistakes have another
// colour.
std::string matrix_table(const Report& report, const ConfusionMatrix& matrix) {
  const std::int64_t classes = matrix.classes();
  std::string names;
  bool is_long = false;
  for (std::int64_t k = 0; k < classes; ++k) {
    constexpr std::size_t fits = 3;
    is_long = is_long || class_name(report, k).size() > fits;
    names += message("<th>", escaped(class_name(report, k)), "</th>");
  }
  std::string body = message("<table class=\"confusion\"><tr", is_long ? " class=\"long\"" : "",
                             "><th></th>", names, "</tr>\n");
  for (std::int64_t target = 0; target < classes; ++target) {
    std::int64_t all = 0;
    for (std::int64_t k = 0; k < classes; ++k) all += matrix.at(target, k);
    body += message("<tr><th>", escaped(class_name(report, target)), "</th>");
    for (std::int64_t k = 0; k < classes; ++k) body += cell(report, matrix, target, k, all);
    body += "</tr>\n";
  }
  return message("<div class=\"scroll\">", body, "</table></div>");
}

std::string metrics_table(const Report& report, const ConfusionMatrix& matrix) {
  std::string body =
      "<table class=\"by-class\"><tr><th>class</th><th>recall %</th><th>precision %</th>"
      "<th>F1 %</th></tr>\n";
  for (std::int64_t k = 0; k < matrix.classes(); ++k) {
    body += message("<tr><th>", escaped(class_name(report, k)), "</th><td>",
                    percent(matrix.recall(k)), "</td><td>", percent(matrix.precision(k)),
                    "</td><td>", percent(matrix.f1(k)), "</td></tr>\n");
  }
  return message("<div class=\"scroll\">", body, "</table></div>");
}

std::string confusion_tables(const Report& report) {
  constexpr std::int64_t most = 100;
  if (!report.confusion || report.confusion->classes() > most) return {};
  return message("<p class=\"note\">Rows are the true classes, columns the predictions.</p>",
                 "<div class=\"tables\">", matrix_table(report, *report.confusion),
                 metrics_table(report, *report.confusion), "</div>");
}

std::string base64(std::span<const std::byte> bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t k = 0; k < bytes.size(); k += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - k);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < count ? std::to_integer<std::uint32_t>(bytes[k + i]) : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= count ? digits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::string png_of(const Tensor& image) {
  io::MemorySink sink;
  io::write_png(sink, "write_report", image);
  return base64(sink.bytes);
}

std::string chances(const ReportImage& picture) {
  std::string body;
  for (const auto& [name, part] : picture.probabilities) {
    const std::string number = percent(part);
    body += message("<div class=\"chance\" style=\"--part:", std::isnan(part) ? "0" : number,
                    "%\"><span>", escaped(name), "</span>", number, " %</div>");
  }
  return body;
}

std::string gallery(const std::vector<ReportImage>& pictures) {
  std::string body;
  for (const ReportImage& picture : pictures) {
    body += message("<figure class=\"picture\"><img alt=\"", escaped(picture.caption),
                    "\" src=\"data:image/png;base64,", png_of(picture.image), "\"><figcaption>",
                    escaped(picture.caption), chances(picture), "</figcaption></figure>");
  }
  return body.empty() ? "" : message("<div class=\"gallery\">", body, "</div>");
}

std::string preformatted(const std::string& text, const char* style) {
  return text.empty() ? "" : message("<pre class=\"", style, "\">", escaped(text), "</pre>");
}

// Allows line breaks between words and behind slashes only, not within a name or an option.
std::string breakable(const std::string& text) {
  std::string result;
  for (const char c : escaped(text)) {
    if (c == ' ') {
      result += "</span> <span>";
    } else {
      result += c;
      if (c == '/') result += "</span><wbr><span>";
    }
  }
  return message("<span>", result, "</span>");
}

std::string list_of(const Rows& rows) {
  std::string body;
  for (const auto& [name, value] : rows) {
    if (value.empty()) continue;
    // Longer entries have a row of their own.
    constexpr std::size_t fits = 30;
    body += message("<div", name.size() + value.size() > fits ? " class=\"long\"" : "", "><dt>",
                    escaped(name), "</dt><dd>", breakable(value), "</dd></div>");
  }
  return body.empty() ? "" : message("<dl>", body, "</dl>");
}

std::string about(const Report& report) {
  std::string body;
  for (const auto& [name, value] : report.about) {
    if (!value.empty()) body += message("<span>", escaped(name), ": ", escaped(value), "</span>");
  }
  if (!report.command.empty()) {
    body += message("<code>$ ", breakable(report.command), "</code>");
  }
  return message("<div class=\"about\">", body, "</div>\n");
}

}  // namespace

std::vector<std::string> write_report(const std::filesystem::path& path, const Report& report) {
  std::vector<std::string> warnings;
  Curves curves;
  if (!report.log.empty()) {
    try {
      const std::string label = message("write_report: ", io::in_quotes(report.log.native()));
      curves = curves_of(label, text_of(report.log), warnings);
    } catch (const IoError& error) {
      warnings.push_back(message(error.what(), "; the report has no curves"));
    }
  }
  const std::string page = message(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>",
      escaped(report.title), "</title><style>", report_style, "</style></head><body><main>\n<h1>",
      escaped(report.title), "</h1>\n", about(report), tiles(report.facts),
      section("Curves", charts(curves)), section("Confusion matrix", confusion_tables(report)),
      section(report.images_title, gallery(report.pictures)),
      section("A sample", preformatted(report.sample, "text")),
      section("Layers", preformatted(report.model, "table")),
      section("Configuration", list_of(report.configuration)),
      section("Timings", list_of(report.timings)), "</main></body></html>\n");
  io::AtomicFile file("write_report", path);
  file.write(page);
  file.commit();
  return warnings;
}

}  // namespace extensor::train
