#include "support/call_expression.h"

#include <cstdlib>

namespace extensor::test {

using nlohmann::json;

Value evaluate(const json& expression, const std::map<std::string, Tensor>& tensors) {
  switch (expression.type()) {
    case json::value_t::null:
      return {};
    case json::value_t::boolean:
      return expression.get<bool>();
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return expression.get<std::int64_t>();
    case json::value_t::number_float:
      return expression.get<double>();
    case json::value_t::string:
      return expression.get<std::string>();
    case json::value_t::array: {
      Value::List list;
      for (const json& each : expression) list.push_back(evaluate(each, tensors));
      return list;
    }
    default:
      break;
  }
  if (expression.contains("tensor")) return tensors.at(expression["tensor"]);
  if (expression.contains("number")) {
    return std::strtod(expression["number"].get<std::string>().c_str(), nullptr);
  }
  const auto map = [&](const json& fields) {
    Value::Map made;
    for (const auto& [name, value] : fields.items()) made[name] = evaluate(value, tensors);
    return made;
  };
  if (expression.contains("options")) return map(expression["options"]);
  if (expression.contains("part")) {
    const Value whole = evaluate(expression["of"], tensors);
    return whole.as<Value::List>()->at(expression["part"].get<std::size_t>());
  }
  const Value arguments = evaluate(expression["arguments"], tensors);
  return call_by_name(expression["call"], *arguments.as<Value::List>(), map(expression["named"]));
}

void flatten(const Value& value, std::vector<Tensor>& all) {
  if (const Tensor* tensor = value.as<Tensor>()) {
    all.push_back(*tensor);
  } else if (const bool* boolean = value.as<bool>()) {
    all.push_back(scalar(*boolean));
  } else if (const Value::List* list = value.as<Value::List>()) {
    for (const Value& each : *list) flatten(each, all);
  }
}

}  // namespace extensor::test
