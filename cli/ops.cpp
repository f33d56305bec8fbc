#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "op_database/explanations.h"
#include "op_database/op_database.h"
#include "op_database/page.h"

namespace extensor::cli {

namespace {

using op_database::Op;

bool is_twice_differentiable(const Op& op) {
  return std::ranges::any_of(op.samples(), [](const op_database::Sample& sample) {
    return static_cast<bool>(sample.double_backward);
  });
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

void add_ops_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ops", "Every op: dtypes, backward, second order");
  static bool as_json, as_page;
  command->add_flag("--json", as_json, "As JSON");
  command->add_flag("--markdown", as_page, "The reference page, docs/ops.md");
  command->footer("Example:\n  extensor ops --json");
  command->callback([] {
    if (as_page) {
      std::cout << op_database::reference_page();
      return;
    }
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    std::vector<std::vector<std::string>> rows = {
        {"op", "family", "dtypes", "backward", "second order"}};
    for (const Op& op : op_database::ops()) {
      const bool twice = is_twice_differentiable(op);
      rows.push_back({op.name, op.family, description(op.dtypes), joined(op.backward),
                      op.backward.empty() ? ""
                      : twice             ? "yes"
                                          : "no"});
      list.push_back({{"name", op.name},
                      {"family", op.family},
                      {"formula", op.formula},
                      {"gradient", op.gradient},
                      {"dtypes", description(op.dtypes)},
                      {"backward", op.backward},
                      {"second_order", twice}});
      if (const op_database::Explanation* text = op_database::find_explanation(op.name)) {
        list.back().update({{"derivation", text->derivation},
                            {"broadcasting", text->broadcasting},
                            {"edge_cases", text->edges},
                            {"numerics", text->numerics},
                            {"complexity", text->complexity}});
      }
    }
    if (as_json) {
      std::cout << list.dump(2) << '\n';
      return;
    }
    std::cout << table(rows) << '\n' << op_database::ops().size() << " ops\n";
  });
}

}  // namespace extensor::cli
