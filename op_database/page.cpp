#include "op_database/page.h"

#include <algorithm>
#include <sstream>

#include "op_database/explanations.h"
#include "op_database/functions.h"
#include "op_database/op_database.h"

namespace extensor::op_database {

namespace {

void write_declarations(std::ostringstream& page, const std::string& name) {
  for (const Function& function : functions()) {
    const bool is_op = function.space == "extensor" || function.space == "extensor::linalg" ||
                       function.space == "extensor::fft";
    if (is_op && function.name == name) {
      page << function.declaration() << ";\n";
    }
  }
}

void write_line(std::ostringstream& page, const char* label, const std::string& text) {
  if (!text.empty()) page << "- " << label << ": " << text << "\n";
}

void write_explanation(std::ostringstream& page, const Op& op, const Explanation& text) {
  const bool says_none = text.derivation.starts_with("None");
  write_line(page, says_none ? "Gradient" : "Derivation", text.derivation);
  write_line(page, "Broadcasting", text.broadcasting);
  write_line(page, "Edge cases", text.edges);
  write_line(page, "Numerics", text.numerics);
  write_line(page, "Cost", text.complexity);
  const bool floats_only =
      !op.backward.empty() && op.dtypes != DTypes::floats && op.dtypes != DTypes::wide_floats;
  write_line(
      page, "Dtypes",
      description(op.dtypes) + std::string(floats_only ? "; gradients of floats only." : "."));
}

void write_op(std::ostringstream& page, const Op& op) {
  page << "### " << op.name << "\n\n```cpp\n";
  write_declarations(page, op.name);
  write_declarations(page, op.name + "_");  // in place
  for (const std::string& backward : op.backward) {
    if (backward != op.name) write_declarations(page, backward);
  }
  page << "```\n\n" << op.formula << "\n\n";
  if (!op.aliases.empty()) {
    page << "Also called ";
    for (std::size_t i = 0; i < op.aliases.size(); ++i)
      page << (i == 0 ? "`" : ", `") << op.aliases[i] << "`";
    page << ".\n\n";
  }
  write_line(page, "Gradient", op.gradient);
  const Explanation* text = find_explanation(op.name);
  write_explanation(page, op, text == nullptr ? Explanation{} : *text);
  page << "\n";
}

void write_definitions(std::ostringstream& page) {
  page << "## Words and symbols\n\nFunctions of one number apply to each element.\n\n";
  for (const Definition& definition : definitions()) {
    page << "- `" << definition.words << "`: " << definition.meaning << "\n";
  }
  page << "\n";
}

std::string anchor(const std::string& heading) {
  std::string text;
  for (char c : heading) {
    if (c == ' ') {
      text += '-';
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-') {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return text;
}

}  // namespace

std::string reference_page() {
  std::vector<std::string> families;
  for (const Op& op : ops()) {
    if (std::ranges::find(families, op.family) == families.end()) families.push_back(op.family);
  }
  std::ostringstream page;
  page
      << "# Operations\n\n"
         "Every operation, made from the op database: `extensor ops --markdown` prints this page, "
         "and a "
         "test compares.\nAll functions are in namespace `extensor`, those of [linalg](#linalg) in "
         "`extensor::linalg` and\nthose of [fft](#fourier-transforms) in `extensor::fft`; all take "
         "any layout and "
         "any float "
         "dtype listed, and throw typed errors\nbefore anything is written. `StrictBool`, "
         "`StrictInt` and `StrictDouble` parameters take a bool, an integer and a number,\nand "
         "nothing that merely converts to one: `sum(x, true)` does not compile. The words and "
         "symbols of formulas are\n[defined below](#words-and-symbols).\n\n";
  for (const std::string& family : families) {
    page << "- [" << family << "](#" << anchor(family) << "):";
    for (const Op& op : ops()) {
      if (op.family == family) page << " [" << op.name << "](#" << anchor(op.name) << ")";
    }
    page << "\n";
  }
  page << "\n";
  write_definitions(page);
  for (const std::string& family : families) {
    page << "## " << family << "\n\n";
    for (const Op& op : ops()) {
      if (op.family == family) write_op(page, op);
    }
  }
  std::string text = page.str();
  while (text.size() > 1 && text[text.size() - 2] == '\n') text.pop_back();
  return text;
}

}  // namespace extensor::op_database
