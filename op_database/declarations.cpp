#include <cctype>
#include <regex>
#include <utility>

#include "op_database/header_texts.h"

namespace extensor::op_database {

namespace {

// Removes comments and preprocessor lines; the declarations are simple enough for this.
std::string code_of(const std::string& text) {
  std::string code;
  bool continued = false;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(at, end - at);
    at = end + 1;
    const bool directive = continued || (!line.empty() && line.front() == '#');
    continued = directive && !line.empty() && line.back() == '\\';
    if (directive) continue;
    if (const std::size_t comment = line.find("//"); comment != std::string::npos) {
      line.erase(comment);
    }
    code += line + '\n';
  }
  return code;
}

// The statements at the outermost level of `namespace extensor`, without bodies.
std::vector<std::string> outer_statements(const std::string& code) {
  std::vector<std::string> statements;
  const std::regex opening(R"(namespace extensor \{)");
  std::smatch match;
  std::string rest = code;
  while (std::regex_search(rest, match, opening)) {
    std::string after = match.suffix();
    std::string statement;
    int braces = 0, parentheses = 0;
    std::size_t i = 0;
    for (; i < after.size(); ++i) {
      const char c = after[i];
      if (c == '(') ++parentheses;
      if (c == ')') --parentheses;
      // Braces inside parentheses are default arguments.
      if (parentheses == 0 && c == '{') {
        if (braces++ == 0) statements.push_back(std::exchange(statement, {}));
        continue;
      }
      if (parentheses == 0 && c == '}') {
        if (--braces < 0) break;
        continue;
      }
      if (braces > 0) continue;
      if (parentheses == 0 && c == ';') {
        statements.push_back(std::exchange(statement, {}));
        continue;
      }
      statement += c;
    }
    rest = after.substr(i);
  }
  return statements;
}

std::string squeezed(const std::string& text) {
  std::string result;
  for (char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space) {
      result += c;
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

}  // namespace

const std::vector<Declaration>& declarations() {
  static const std::vector<Declaration> found = [] {
    std::vector<Declaration> list;
    // result type, name, arguments
    const std::regex function(R"(^(?:inline |constexpr )*([\w:<>,&\* ]+[ &\*])(\w+)\((.*)\)$)");
    for (const HeaderText& header : header_texts()) {
      for (const std::string& raw : outer_statements(code_of(header.text))) {
        std::string statement = squeezed(raw);
        if (statement.rfind("template", 0) == 0 ||
            statement.find("operator") != std::string::npos) {
          continue;
        }
        std::smatch match;
        if (!std::regex_match(statement, match, function)) continue;
        const std::string type = squeezed(match[1]);
        if (type == "class" || type == "struct" || type == "using" || type == "return") continue;
        list.push_back(
            {header.name, match[2], type + " " + match[2].str() + "(" + match[3].str() + ")"});
      }
    }
    return list;
  }();
  return found;
}

}  // namespace extensor::op_database
