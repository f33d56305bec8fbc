#include "table.h"

#include <algorithm>
#include <cstdio>
#include <ostream>

namespace extensor::bench {
namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

// Three digits and a unit.
std::string three_digits(double value, const char* unit) {
  const char* pattern = value < 9.995 ? "%.2f " : value < 99.95 ? "%.1f " : "%.0f ";
  return format(pattern, value) + unit;
}

std::string time_text(double seconds) {
  if (seconds <= 0) return "";
  if (seconds < 1e-6) return three_digits(seconds * 1e9, "ns");
  if (seconds < 1e-3) return three_digits(seconds * 1e6, "us");
  if (seconds < 1) return three_digits(seconds * 1e3, "ms");
  return three_digits(seconds, "s");
}

std::string ratio_text(double ratio) {
  if (ratio <= 0) return "";
  return format(ratio < 9.995 ? "%.2f" : "%.1f", ratio);
}

void line(std::ostream& out, const std::vector<std::string>& cells) {
  static const int widths[] = {37, 9, 9, 6, 9, 9, 9, 6, 9, 5};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i == std::size(widths)) {
      out << "  " << cells[i];
      break;
    }
    char text[256];
    std::snprintf(text, sizeof text, i == 0 ? "%-*s" : " %*s", widths[i], cells[i].c_str());
    out << text;
  }
  out << std::endl;
}

}  // namespace

Table::Table(const std::vector<Case>& cases) {
  for (const Case& c : cases) cases_[c.name] = &c;
}

bool Table::ReportContext(const Context&) {
  line(GetOutputStream(), {"work", "ExTensor", "PyTorch", "ratio", "oneDNN", "OpenBLAS", "libxsmm",
                           "ratio", "floor", "of it", "figure to reach"});
  return true;
}

void Table::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) print(run);
}

void Table::print(const Run& run) {
  std::string name = run.run_name.function_name;
  const Case& c = *cases_.at(name);
  std::ostream& out = GetOutputStream();
  const auto seconds = [&](const char* counter) {
    const auto found = run.counters.find(counter);
    return found == run.counters.end() ? 0.0 : static_cast<double>(found->second);
  };
  const double own = seconds("ExTensor");
  if (run.error_occurred || own <= 0) {
    line(out, {name, "-", "", "", "", "", "", "", "", "", run.error_message});
    return;
  }

  const double torch = seconds("PyTorch"), floor = seconds("floor");
  double best_library = 0;
  for (const char* library : {"oneDNN", "OpenBLAS", "libxsmm"}) {
    const double time = seconds(library);
    if (time > 0 && (best_library == 0 || time < best_library)) best_library = time;
  }

  std::string reached, missed;
  const auto ask = [&](double wanted, double found, const std::string& text) {
    if (wanted <= 0 || found <= 0) return;
    std::string& list = found >= wanted ? reached : missed;
    list += (list.empty() ? "" : ", ") + text;
  };
  const Goal& goal = c.goal;
  ask(goal.amount, own <= goal.amount ? goal.amount : goal.amount / 2,
      "<= " + (c.in_bytes ? three_digits(goal.amount / 1e6, "MB") : time_text(goal.amount)));
  ask(goal.torch, torch / own, ">= " + ratio_text(goal.torch) + " x PyTorch");
  ask(goal.library, best_library / own, ">= " + ratio_text(goal.library) + " x best library");
  ask(goal.floor, floor / own, ">= " + format("%.0f%%", goal.floor * 100) + " of floor");
  const double reference = seconds("reference") / own;
  ask(goal.reference, reference,
      ">= " + format("%.0f%%", goal.reference * 100) + " of " + c.reference_name + " (is " +
          format("%.0f%%", reference * 100) + ")");
  std::string goals;
  if (!missed.empty()) {
    goals = "MISS " + missed + (reached.empty() ? "" : "; ok " + reached);
    ++missed_;
  } else if (!reached.empty()) {
    goals = "ok   " + reached;
    ++reached_;
  }

  const auto amount_text = [&](double amount) {
    return !c.in_bytes ? time_text(amount) : amount > 0 ? three_digits(amount / 1e6, "MB") : "";
  };
  line(out, {name, amount_text(own), amount_text(torch), ratio_text(torch / own),
             time_text(seconds("oneDNN")), time_text(seconds("OpenBLAS")),
             time_text(seconds("libxsmm")), ratio_text(best_library / own), time_text(floor),
             floor > 0 ? format("%.0f%%", 100 * floor / own) : "", goals});
}

void Table::Finalize() {
  GetOutputStream() << "\n" << reached_ << " figures reached, " << missed_ << " missed.\n";
}

}  // namespace extensor::bench
