#include "op_database/readable.h"

#include <cctype>
#include <cstdio>
#include <utility>
#include <vector>

namespace extensor::op_database {

namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The arguments of the call whose opening parenthesis is at `open`; sets `end` to the position
// after its closing parenthesis.
std::vector<std::string> arguments(const std::string& text, std::size_t open, std::size_t& end) {
  std::vector<std::string> found(1);
  int depth = 0;
  for (end = open; end < text.size(); ++end) {
    const char c = text[end];
    if (c == '(' && depth++ == 0) continue;
    if (c == ')' && --depth == 0) break;
    if (c == ',' && depth == 1) {
      found.emplace_back();
    } else if (!(c == ' ' && found.back().empty())) {
      found.back() += c;
    }
  }
  ++end;
  return found;
}

// select(condition, yes, no) → (yes where condition, else no), inside out.
std::string without_selects(const std::string& text) {
  static const std::string word = "select(";
  std::size_t at = text.find(word);
  while (at != std::string::npos && at > 0 && is_word(text[at - 1])) at = text.find(word, at + 1);
  if (at == std::string::npos) return text;
  std::size_t end = 0;
  const auto parts = arguments(text, at + word.size() - 1, end);
  std::string choice = without_selects(parts[1]) + " where " + without_selects(parts[0]) +
                       ", else " + without_selects(parts[2]);
  const bool alone = at == 0 && end == text.size();
  if (!alone) choice = "(" + choice + ")";
  return text.substr(0, at) + choice + without_selects(text.substr(end));
}

}  // namespace

std::string readable(const std::string& expression) {
  std::string text = without_selects(expression);
  static const std::pair<const char*, const char*> spellings[] = {
      {"0.693147180559945309417", "ln 2"},
      {"2.302585092994045684018", "ln 10"},
      {"logistic(", "sigmoid("},
      {"exp_of_negative(", "exp("},
      {"1.128379167095512573896", "2/√π"},
      {"0.886226925452758013649", "√π/2"},
      {" * ", " · "},
      {"<=", "≤"},
      {">=", "≥"},
      {"!=", "≠"},
      {"==", "="},
      {" && ", " and "},
      {" || ", " or "},
      {" - ", " − "},
      {"-", "−"},
  };
  for (const auto& [from, to] : spellings) replace_all(text, from, to);
  return text;
}

std::string readable_number(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%g", value);
  return digits;
}

}  // namespace extensor::op_database
