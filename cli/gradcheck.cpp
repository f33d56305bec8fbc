#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "op_database/check.h"

namespace extensor::cli {

namespace {

using op_database::Check;
using op_database::CheckOptions;
using op_database::CheckResult;
using op_database::Op;

std::string describe(const Check& check) {
  return check.op->name + " " + check.sample + ", " + extensor::name(check.dtype) + ", " +
         layouts::name(check.layout) + ", " + op_database::name(check.kind);
}

struct Totals {
  std::int64_t cases = 0, passed = 0;
  double worst_float64 = 0;  // compared with finite differences
  std::vector<std::string> failures;
};

nlohmann::ordered_json as_json(const std::string& name, const Totals& totals) {
  return {{"op", name},
          {"cases", totals.cases},
          {"passed", totals.passed},
          {"worst_float64_error", totals.worst_float64},
          {"failures", totals.failures}};
}

void run(const std::vector<std::string>& words, bool json, bool verbose) {
  std::vector<std::string> names;
  for (const Op& op : op_database::ops()) {
    if (!op.backward.empty()) names.push_back(op.name);
  }
  const CheckOptions options{.values = false, .gradients = true, .second_gradients = true};
  std::vector<const Op*> selected;
  std::int64_t count = 0;
  for (const std::string& name : chosen(words, names, "op with a gradient")) {
    selected.push_back(op_database::find_op(name));
    count += op_database::count_checks(*selected.back(), options);
  }
  Totals all;
  std::size_t widest = 0;
  for (const Op* op : selected) widest = std::max(widest, op->name.size());
  std::optional<TableWriter> rows;
  if (!json) {
    rows.emplace(std::vector<std::string>{"op", "cases", "passed", "worst error (float64)"},
                 std::vector<std::size_t>{widest});
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto start = std::chrono::steady_clock::now();
  {
    Progress progress(count);
    for (const Op* op : selected) {
      Totals totals;
      op_database::check_op(*op, options, [&](const Check& check, const CheckResult& result) {
        progress.advance(op->name);
        ++totals.cases;
        if (check.dtype == float64) {
          totals.worst_float64 = std::max(totals.worst_float64, result.error);
        }
        if (result.passed) {
          ++totals.passed;
        } else {
          totals.failures.push_back(describe(check) + ": " + result.message);
        }
        if (verbose) {
          progress.clear();
          std::cout << (result.passed ? "ok    " : "FAIL  ") << describe(check) << ", error "
                    << short_number(result.error) << '\n';
        }
      });
      if (rows) {
        progress.clear();
        rows->add({op->name, std::to_string(totals.cases), std::to_string(totals.passed),
                   short_number(totals.worst_float64)});
      }
      list.push_back(as_json(op->name, totals));
      all.cases += totals.cases;
      all.passed += totals.passed;
      all.worst_float64 = std::max(all.worst_float64, totals.worst_float64);
      all.failures.insert(all.failures.end(), totals.failures.begin(), totals.failures.end());
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (json) {
    std::cout << nlohmann::ordered_json{{"cases", all.cases},
                                        {"passed", all.passed},
                                        {"seconds", seconds},
                                        {"ops", list}}
                     .dump(2)
              << '\n';
  } else {
    std::cout << '\n';
    for (const std::string& failure : all.failures) std::cout << "FAIL  " << failure << '\n';
    char rate[16];
    std::snprintf(rate, sizeof rate, "%.2f",
                  all.cases == 0
                      ? 100.0
                      : 100.0 * static_cast<double>(all.passed) / static_cast<double>(all.cases));
    std::cout << all.cases << " cases, " << all.passed << " passed (" << rate
              << " %), worst error in float64 " << short_number(all.worst_float64) << ", "
              << short_number(seconds) << " s\n";
  }
  if (all.passed != all.cases) throw CLI::RuntimeError(1);
}

}  // namespace

void add_gradcheck_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "gradcheck", "Compare every backward with finite differences of its forward");
  static std::vector<std::string> words;
  static bool json, verbose;
  command->add_option("op", words, "The ops to check; all without any");
  command->add_flag("--json", json, "As JSON");
  command->add_flag("--verbose", verbose, "A line for every case");
  command->footer(
      "Each case is an op on a sample in one dtype and one memory layout. The float64 gradients "
      "of\n"
      "dense and of broadcast inputs are compared with fourth-order central differences (relative\n"
      "1e-6), those in other dtypes and layouts with the float64 gradients of the same numbers,\n"
      "element by element. An undefined gradient fails. Exit code 1 when a case fails.\n\n"
      "Examples:\n  extensor gradcheck\n  extensor gradcheck conv2d layer_norm --json");
  command->callback([] { run(words, json, verbose); });
}

}  // namespace extensor::cli
