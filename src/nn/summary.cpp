// The table of a module: its tree, parameters and, for an example input, outputs and FLOPs.
#include <algorithm>
#include <cstdio>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "core/context.h"
#include "core/format_number.h"
#include "extensor/autograd.h"
#include "extensor/nn/module.h"
#include "nn/calls.h"
#include "nn/naming_walker.h"
#include "ops/op_cost.h"

namespace extensor::nn::detail {

using extensor::detail::message;

namespace {

struct Line {
  std::string text, shapes;
  std::int64_t count = 0;
  const void* address = nullptr;
  std::string_view type = {};
};

// The calls of one module.
struct Calls {
  std::string_view type;
  std::string output;  // the shape of the last one
  double flops = 0;
};
using CallsOf = std::unordered_multimap<const void*, Calls>;

class Table final : public NamingWalker {
 public:
  explicit Table(const ModuleDescription& root) {
    lines_.push_back(
        {unqualified(root.type) + bracketed(root.detail), "", 0, root.address, root.type});
    open_.push_back(0);
  }
  void parameter(std::string_view name, Parameter& parameter) override {
    Line& line = lines_[open_.back()];
    line.shapes +=
        (line.shapes.empty() ? "" : ", ") + std::string(name) + " " + message(parameter.shape());
    const auto [first, is_new] = first_of_.emplace(parameter.tensor().impl_or_null(), named(name));
    if (!is_new) {
      line.shapes += " = " + first->second;
      return;
    }
    for (std::size_t at : open_) lines_[at].count += parameter.tensor().numel();
  }
  void enter(std::string_view name, const ModuleDescription& module) override {
    NamingWalker::enter(name, module);
    const std::string indent(2 * open_.size(), ' ');
    std::string text = indent + std::string(name);
    if (!module.type.empty()) text += ": " + unqualified(module.type) + bracketed(module.detail);
    open_.push_back(lines_.size());
    lines_.push_back({text, "", 0, module.address, module.type});
  }
  void leave() override {
    NamingWalker::leave();
    open_.pop_back();
  }
  bool wants_detail() const override { return true; }

  // `calls` adds the columns of outputs and FLOPs, with a heading.
  std::string text(const CallsOf* calls) const {
    std::vector<std::vector<std::string>> rows;
    if (calls != nullptr) rows.push_back({"module", "output", "FLOPs", "parameters", ""});
    for (const Line& line : lines_) {
      const std::string count = line.count == 0 ? "" : extensor::detail::with_commas(line.count);
      if (calls == nullptr) {
        rows.push_back({line.text, count, line.shapes});
      } else {
        const Calls* found = calls_of(line, *calls);
        rows.push_back({line.text, found == nullptr ? "" : found->output,
                        found == nullptr ? "" : short_count(found->flops), count, line.shapes});
      }
    }
    const std::size_t numbers = calls == nullptr ? 1 : 2;  // the first column that is right-aligned
    std::vector<std::size_t> widths(rows[0].size());
    for (const auto& row : rows) {
      for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], columns(row[k]));
    }
    std::string result;
    for (const auto& row : rows) {
      std::string text;
      for (std::size_t k = 0; k < row.size(); ++k) {
        const std::string space(widths[k] - columns(row[k]), ' ');
        const bool is_number = k >= numbers && k + 1 < row.size();
        text += (k == 0 ? "" : "  ") + (is_number ? space + row[k] : row[k] + space);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      result += text + "\n";
    }
    return result;
  }

 private:
  static const Calls* calls_of(const Line& line, const CallsOf& calls) {
    const auto [first, last] = calls.equal_range(line.address);
    for (auto found = first; found != last; ++found) {
      if (found->second.type == line.type) return &found->second;
    }
    return nullptr;
  }
  // "1.23 G"
  static std::string short_count(double number) {
    const std::pair<double, const char*> units[] = {
        {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
    char text[32];
    for (const auto& [size, unit] : units) {
      if (number < size) continue;
      std::snprintf(text, sizeof text, "%.3g%s", number / size, unit);
      return text;
    }
    std::snprintf(text, sizeof text, "%.0f", number);
    return text;
  }
  static std::string bracketed(const std::string& detail) {
    return detail.empty() ? "" : "(" + detail + ")";
  }
  // Counts characters instead of bytes: an arrow is one column.
  static std::size_t columns(const std::string& text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  }

  std::vector<Line> lines_;
  std::vector<std::size_t> open_;                          // lines of the enclosing modules
  std::unordered_map<const void*, std::string> first_of_;  // names of tensors, to show tied ones
};

// Counts the FLOPs of every module, and notes the shapes of the outputs.
class Counter final : public ModuleObserver {
 public:
  Counter() : before_(std::exchange(current_, this)) {}
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  ~Counter() { current_ = before_; }

  void enter(const ModuleDescription& module) override {
    open_.push_back({module.address, {module.type, "", flops_}});
  }
  void result(const Tensor& output) override {
    if (!output.defined()) return;
    std::string& text = open_.back().second.output;
    text += message(text.empty() ? "" : ", ", output.shape());
  }
  void leave() override {
    auto [address, call] = std::move(open_.back());
    open_.pop_back();
    call.flops = flops_ - call.flops;
    const auto [first, last] = calls.equal_range(address);
    const auto same = std::find_if(first, last, [&, type = call.type](const auto& entry) {
      return entry.second.type == type;
    });
    if (same == last) {
      calls.emplace(address, call);
    } else {
      same->second.flops += call.flops;
      if (!call.output.empty()) same->second.output = call.output;
    }
  }
  static void count(const ops::Op& op, const void*, ops::Inputs inputs,
                    std::span<const Tensor> results) {
    for (Counter* one = current_; one != nullptr; one = one->before_) {
      one->flops_ += ops::flops_of(op, inputs, results);
    }
  }

  CallsOf calls;

 private:
  static thread_local Counter* current_;
  Counter* before_;
  double flops_ = 0;
  std::vector<std::pair<const void*, Calls>> open_;
};
thread_local Counter* Counter::current_ = nullptr;

// Sets evaluation mode until the end of a scope.
class EvaluationMode {
 public:
  explicit EvaluationMode(const Walk& walk) {
    struct Flags final : NamingWalker {
      explicit Flags(std::vector<std::pair<Training*, bool>>& list) : flags(list) {}
      void training(Training& flag) override { flags.emplace_back(&flag, flag); }
      std::vector<std::pair<Training*, bool>>& flags;
    } flags(before_);
    walk(flags);
    for (const auto& [flag, on] : before_) flag->set(false);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    for (const auto& [flag, on] : before_) flag->set(on);
  }

 private:
  std::vector<std::pair<Training*, bool>> before_;
};

}  // namespace

std::string summary(const Walk& walk, const ModuleDescription& root) {
  Table table(root);
  walk(table);
  return table.text(nullptr);
}

std::string summary(const Walk& walk, const ModuleDescription& root,
                    const std::function<void()>& call) {
  Table table(root);
  walk(table);
  Counter counter;
  {
    const NoGrad off;
    const EvaluationMode evaluation(walk);
    const ObserverScope observer(counter);
    const extensor::detail::CaptureScope capture(Counter::count);
    call();
  }
  return table.text(&counter.calls);
}

}  // namespace extensor::nn::detail
