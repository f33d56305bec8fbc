#include "op_database/functions.h"

#include <algorithm>

namespace extensor::op_database {

namespace {

// A string literal, whose length is known without reading it: Clang limits the steps of a constant.
struct Text : std::string_view {
  template <std::size_t n>
  constexpr Text(const char (&literal)[n])  // NOLINT: implicit
      : std::string_view(literal, n - 1) {}
};

// A row of functions.inc. Parameters, fields and values follow what they belong to.
struct Row {
  enum Of : std::uint8_t { function, parameter, record, field, enumeration, value } of;
  Type type;
  Text name, space, header, default_value, comment, head;
};

constexpr Type no_type{Kind::nothing, Count::one, "", ""};

constexpr Row rows[] = {
#define HEADER(header, hash)
#define FUNCTION(space, name, kind, count, named, text, header, comment, ...) \
  {Row::function, {Kind::kind, Count::count, named, text}, #name, #space, header, "", comment, ""},
#define TEMPLATE(space, name, kind, count, named, text, header, comment, head)                 \
  {Row::function, {Kind::kind, Count::count, named, text}, #name, #space, header, "", comment, \
   head},
#define PARAMETER(kind, count, named, text, name, default_value) \
  {Row::parameter, {Kind::kind, Count::count, named, text}, name, "", "", default_value, "", ""},
#define RECORD(name, header, comment) {Row::record, no_type, #name, "", header, "", comment, ""},
#define FIELD(kind, count, named, text, name, default_value, comment) \
  {Row::field, {Kind::kind, Count::count, named, text}, name, "", "", default_value, comment, ""},
#define ENUMERATION(name, header, comment) \
  {Row::enumeration, no_type, #name, "", header, "", comment, ""},
#define VALUE(of, name, comment) {Row::value, no_type, #name, "", "", "", comment, ""},
#include "op_database/functions.inc"
};

struct Lists {
  std::vector<Function> functions;
  std::vector<Record> records;
  std::vector<Enumeration> enumerations;
};

const Lists& lists() {
  static const Lists made = [] {
    Lists all;
    for (const Row& row : rows) {
      const Parameter parameter{row.type, row.name, row.default_value, row.comment};
      switch (row.of) {
        case Row::function:
          all.functions.push_back(
              {row.space, row.name, row.type, row.header, row.comment, row.head});
          break;
        case Row::parameter:
          all.functions.back().parameters.push_back(parameter);
          break;
        case Row::record:
          all.records.push_back({row.name, row.header, row.comment});
          break;
        case Row::field:
          all.records.back().fields.push_back(parameter);
          break;
        case Row::enumeration:
          all.enumerations.push_back({row.name, row.header, row.comment});
          break;
        case Row::value:
          all.enumerations.back().values.push_back({row.name, row.comment});
          break;
      }
    }
    return all;
  }();
  return made;
}

template <class List>
auto find(const List& list, std::string_view name) {
  const auto found =
      std::ranges::find_if(list, [&](const auto& each) { return each.name == name; });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

bool Type::is_written() const {
  if (text.starts_with("std::span<")) return !text.starts_with("std::span<const ");
  return text.ends_with("&") && !text.starts_with("const ");
}

std::string Function::declaration() const {
  std::string line;
  if (!head.empty()) (line += head) += ' ';
  ((line += result.text) += ' ') += name;
  line += '(';
  for (const Parameter& parameter : parameters) {
    if (&parameter != &parameters.front()) line += ", ";
    // The name of a pointer to a function is inside its type: void (*release)(void*).
    const std::size_t pointer = parameter.type.text.find("(*)");
    if (pointer == std::string_view::npos) {
      line += parameter.type.text;
      if (!parameter.name.empty()) (line += ' ') += parameter.name;
    } else {
      (line += parameter.type.text.substr(0, pointer + 2)) += parameter.name;
      line += parameter.type.text.substr(pointer + 2);
    }
    if (!parameter.default_value.empty()) (line += " = ") += parameter.default_value;
  }
  return line + ')';
}

const std::vector<Function>& functions() { return lists().functions; }
const std::vector<Record>& records() { return lists().records; }
const std::vector<Enumeration>& enumerations() { return lists().enumerations; }
const Record* find_record(std::string_view name) { return find(records(), name); }
const Enumeration* find_enumeration(std::string_view name) { return find(enumerations(), name); }

}  // namespace extensor::op_database
