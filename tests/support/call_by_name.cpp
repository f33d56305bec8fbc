#include "support/call_by_name.h"

#include <algorithm>
#include <stdexcept>
#include <typeindex>

#include "op_database/functions.h"

namespace extensor::test {
namespace {

// ---- from values to C++ types

struct EnumerationValue {
  std::type_index type;
  std::string_view name;
  std::int64_t value;
};

const std::vector<EnumerationValue>& enumeration_values() {
  static const std::vector<EnumerationValue> all = {
#define HEADER(...)
#define FUNCTION(...)
#define TEMPLATE(...)
#define PARAMETER(...)
#define RECORD(...)
#define FIELD(...)
#define ENUMERATION(...)
#define VALUE(of, name, ...) {typeid(of), #name, static_cast<std::int64_t>(of::name)},
#include "op_database/functions.inc"
#undef HEADER
#undef FUNCTION
#undef TEMPLATE
#undef PARAMETER
#undef RECORD
#undef FIELD
#undef ENUMERATION
#undef VALUE
#define EXTENSOR_NAME(name, type) {typeid(DType), #name, static_cast<std::int64_t>(DType::name)},
      EXTENSOR_ALL_DTYPES(EXTENSOR_NAME)
#undef EXTENSOR_NAME
  };
  return all;
}

template <class T, template <class...> class Template>
inline constexpr bool is_a = false;
template <class... Parts, template <class...> class Template>
inline constexpr bool is_a<Template<Parts...>, Template> = true;

template <class T, class... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

// An aggregate that is no array.
template <class T>
inline constexpr bool is_record = std::is_aggregate_v<T> && !requires {
  std::tuple_size<T>::value;
};

template <class T>
constexpr bool is_supported() {
  if constexpr (is_a<T, std::optional> || is_a<T, std::vector>) {
    return is_supported<typename T::value_type>();
  } else if constexpr (is_a<T, std::pair>) {
    return std::is_same_v<typename T::first_type, typename T::second_type> &&
           is_supported<typename T::first_type>();
  } else {
    return std::is_enum_v<T> || is_record<T> ||
           is_one_of<T, Tensor, bool, StrictBool, std::int64_t, StrictInt, double, StrictDouble,
                     Scalar, std::string, std::string_view, Dims, Axes, Size2d, Size3d, Scale2d,
                     Index>;
  }
}

// The argument as a T, or nothing if it is something else.
template <class T>
std::optional<T> convert(const Value& value);

template <class T>
std::optional<T> convert_enumeration(const Value& value) {
  const std::string* name = value.as<std::string>();
  if (name == nullptr) return {};
  for (const EnumerationValue& each : enumeration_values()) {
    if (each.type == typeid(T) && each.name == *name) return static_cast<T>(each.value);
  }
  return {};
}

// A struct from a map that names some of its fields.
template <class T>
std::optional<T> convert_record(const Value& value) {
  if (value.is_null()) return T{};
  const Value::Map* map = value.as<Value::Map>();
  if (map == nullptr) return {};
  constexpr std::size_t n = reflect::member_count<T, false>;
  T made{};
  std::size_t set = 0;
  const auto set_field = [&](std::string_view name, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    const auto found = map->find(std::string(name));
    if (found == map->end()) return;
    if constexpr (is_supported<Field>()) {
      if (auto converted = convert<Field>(found->second)) {
        field = std::move(*converted);
        ++set;
      }
    }
  };
  reflect::with_members<n>(made, [&](auto&... fields) {
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      (set_field(reflect::member_name<T, n, k>(), fields), ...);
    }
    (std::make_index_sequence<n>());
  });
  if (set != map->size()) return {};
  return made;
}

template <class T>
std::optional<T> convert_list(const Value& value) {
  if (value.is_null()) return T{};
  const Value::List* list = value.as<Value::List>();
  if (list == nullptr) return {};
  T made;
  for (const Value& each : *list) {
    auto converted = convert<typename T::value_type>(each);
    if (!converted) return {};
    made.push_back(std::move(*converted));
  }
  return made;
}

// One number for all of a size, or a list of `count` numbers.
template <class T, class Number, std::size_t count>
std::optional<T> convert_size(const Value& value) {
  if (const auto all = convert<Number>(value)) return T(*all);
  const auto list = convert<std::vector<Number>>(value);
  if (!list || list->size() != count) return {};
  return [&]<std::size_t... k>(std::index_sequence<k...>) { return T((*list)[k]...); }
  (std::make_index_sequence<count>());
}

std::optional<Index> convert_index(const Value& value) {
  if (value.is_null()) return Index(newaxis);
  if (const auto* integer = value.as<std::int64_t>()) return Index(*integer);
  if (const Tensor* tensor = value.as<Tensor>()) return Index(*tensor);
  const std::string* text = value.as<std::string>();
  if (text != nullptr && *text == "...") return Index(ellipsis);
  if (const auto slice = convert_record<Slice>(value)) return Index(*slice);
  return {};
}

template <class T>
std::optional<T> convert(const Value& value) {
  if constexpr (is_a<T, std::optional>) {
    if (value.is_null()) return T();
    if (auto converted = convert<typename T::value_type>(value)) return T(std::move(*converted));
  } else if constexpr (is_a<T, std::vector>) {
    return convert_list<T>(value);
  } else if constexpr (is_a<T, std::pair>) {
    const auto list = convert<std::vector<typename T::first_type>>(value);
    if (list && list->size() == 2) return T((*list)[0], (*list)[1]);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    if (value.is_null()) return T();
    if (const T* tensor = value.as<T>()) return *tensor;
  } else if constexpr (std::is_same_v<T, Scalar>) {
    if (const auto* boolean = value.as<bool>()) return T(*boolean);
    if (const auto* integer = value.as<std::int64_t>()) return T(*integer);
    if (const auto* number = value.as<double>()) return T(*number);
  } else if constexpr (is_one_of<T, bool, StrictBool>) {
    if (const auto* boolean = value.as<bool>()) return T(*boolean);
  } else if constexpr (is_one_of<T, std::int64_t, StrictInt>) {
    if (const auto* integer = value.as<std::int64_t>()) return T(*integer);
  } else if constexpr (is_one_of<T, double, StrictDouble>) {
    if (const auto* integer = value.as<std::int64_t>()) return T(static_cast<double>(*integer));
    if (const auto* number = value.as<double>()) return T(*number);
  } else if constexpr (is_one_of<T, std::string, std::string_view>) {
    if (const auto* text = value.as<std::string>()) return T(*text);
  } else if constexpr (std::is_same_v<T, Dims>) {
    if (const auto list = convert<std::vector<std::int64_t>>(value)) return T(*list);
  } else if constexpr (std::is_same_v<T, Axes>) {
    if (value.is_null()) return T();
    if (const auto* axis = value.as<std::int64_t>()) return T(*axis);
    if (const auto list = convert<Dims>(value)) return T(*list);
  } else if constexpr (std::is_same_v<T, Size2d>) {
    return convert_size<T, std::int64_t, 2>(value);
  } else if constexpr (std::is_same_v<T, Size3d>) {
    return convert_size<T, std::int64_t, 3>(value);
  } else if constexpr (std::is_same_v<T, Scale2d>) {
    return convert_size<T, double, 2>(value);
  } else if constexpr (std::is_same_v<T, Index>) {
    return convert_index(value);
  } else if constexpr (std::is_enum_v<T>) {
    return convert_enumeration<T>(value);
  } else {
    return convert_record<T>(value);
  }
  return {};
}

// ---- from C++ results to values

template <class T>
inline constexpr bool is_result =
    std::is_same_v<T, Tensor> || std::is_same_v<T, bool> ||
    std::is_same_v<T, std::vector<Tensor>> || std::is_same_v<T, std::pair<Tensor, Tensor>>;

template <class T>
Value value_of(const T& result) {
  Value::List list;
  const auto add = [&](const auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Tensor>) {
      list.push_back(member);
    }
  };
  if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, bool>) {
    return result;
  } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    for (const Tensor& each : result) add(each);
  } else if constexpr (std::is_same_v<T, std::pair<Tensor, Tensor>>) {
    add(result.first);
    add(result.second);
  } else {
    reflect::with_members<reflect::member_count<const T, false>>(
        result, [&](const auto&... members) { (add(members), ...); });
  }
  return list;
}

// ---- overloads

// A generator is always the default one.
template <class P>
inline constexpr bool is_generator = std::is_same_v<std::remove_cvref_t<P>, Generator>;
template <class P>
inline constexpr bool is_argument = is_generator<P> || is_supported<std::remove_cvref_t<P>>();

template <class P>
using Held = std::conditional_t<is_generator<P>, Value, std::remove_cvref_t<P>>;

template <class P>
std::optional<Held<P>> hold(const Value& value) {
  if constexpr (is_generator<P>) {
    return value;
  } else {
    return convert<std::remove_cvref_t<P>>(value);
  }
}

template <class P>
decltype(auto) pass(std::optional<Held<P>>& held) {
  if constexpr (is_generator<P>) {
    return (default_generator());
  } else {
    return (*held);
  }
}

using AnyFunction = void (*)();

struct Overload {
  const op_database::Function* listed;
  AnyFunction function;
  // Returns false if the arguments have other types.
  bool (*call)(AnyFunction function, const Value::List& arguments, Value& result);
};

template <class R, class... P>
bool call(AnyFunction function, const Value::List& arguments, Value& result) {
  return [&]<std::size_t... k>(std::index_sequence<k...>) {
    std::tuple<std::optional<Held<P>>...> held{hold<P>(arguments[k])...};
    if (!(std::get<k>(held).has_value() && ...)) return false;
    result = value_of(reinterpret_cast<R (*)(P...)>(function)(pass<P>(std::get<k>(held))...));
    return true;
  }
  (std::index_sequence_for<P...>());
}

struct Overloads {
  std::multimap<std::string, Overload, std::less<>> by_name;
  std::size_t row = 0;  // of op_database::functions()
};

Overloads& overloads() {
  static Overloads all;
  return all;
}

bool skip_row() {
  ++overloads().row;
  return false;
}

template <class R, class... P>
bool add_row(R (*function)(P...)) {
  const op_database::Function& listed = op_database::functions()[overloads().row++];
  using Result = std::remove_cvref_t<R>;
  if constexpr (!std::is_void_v<R> && (is_argument<P> && ...)) {
    if constexpr (is_result<Result> || std::is_aggregate_v<Result>) {
      // Functions of inner namespaces have these in their names: linalg.solve.
      std::string name(listed.name);
      if (listed.space == "extensor::linalg" || listed.space == "extensor::fft") {
        name = std::string(listed.space.substr(listed.space.rfind(':') + 1)) + "." + name;
      } else if (listed.space != "extensor") {
        return false;
      }
      overloads().by_name.emplace(
          name, Overload{&listed, reinterpret_cast<AnyFunction>(function), &call<R, P...>});
      return true;
    }
  }
  return false;
}

// The value of a default argument as the header spells it; false if it is none of these.
bool parse_default(std::string_view text, Value& value) {
  if (text == "{}" || text == "default_generator()") {
    value = Value();
  } else if (text == "true" || text == "false") {
    value = text == "true";
  } else if (text == "default_eps") {
    value = default_eps;
  } else if (text == "default_ignore_index") {
    value = default_ignore_index;
  } else if (text == "default_integer") {
    value = std::string(name(default_integer));
  } else if (const auto scope = text.rfind("::"); scope != std::string_view::npos) {
    value = std::string(text.substr(scope + 2));
  } else {
    const std::string number(text);
    char* end = nullptr;
    const double parsed = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0') return false;
    if (number.find_first_of(".e") == std::string::npos) {
      value = static_cast<std::int64_t>(parsed);
    } else {
      value = parsed;
    }
  }
  return true;
}

// One value for each parameter, or nothing if there are too many, too few or unknown names.
std::optional<Value::List> bind(const op_database::Function& function, const Value::List& arguments,
                                const Value::Map& named) {
  if (arguments.size() > function.parameters.size()) return {};
  Value::List bound = arguments;
  std::size_t used = 0;
  for (std::size_t k = arguments.size(); k < function.parameters.size(); ++k) {
    const op_database::Parameter& parameter = function.parameters[k];
    bound.emplace_back();
    if (const auto found = named.find(std::string(parameter.name)); found != named.end()) {
      bound.back() = found->second;
      ++used;
    } else if (!parse_default(parameter.default_value, bound.back())) {
      return {};
    }
  }
  if (used != named.size()) return {};
  return bound;
}

}  // namespace
}  // namespace extensor::test

// Names in the type of a function are those of its namespace.
#define HEADER(...)
#define PARAMETER(...)
#define RECORD(...)
#define FIELD(...)
#define ENUMERATION(...)
#define VALUE(...)
#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b) JOIN_TOKENS(a, b)
#define ROW [[maybe_unused]] static const bool JOIN(row_, __COUNTER__)
#define TEMPLATE(...) ROW = extensor::test::skip_row();
#define FUNCTION(space, name, kind, count, named, text, header, comment, ...)         \
  namespace space {                                                                   \
  ROW = extensor::test::add_row(static_cast<std::add_pointer_t<__VA_ARGS__>>(&name)); \
  }
#include "op_database/functions.inc"

namespace extensor::test {

Value call_by_name(const std::string& name, const Value::List& arguments, const Value::Map& named) {
  if (name == "clone" && arguments.size() == 1) return arguments[0].as<Tensor>()->clone();
  if (name == "to" && arguments.size() == 2) {
    const auto dtype = convert<DType>(arguments[1]);
    if (dtype) return arguments[0].as<Tensor>()->to(*dtype);
  }
  if (name == "index" && arguments.size() == 2) {
    const auto index = convert<std::vector<Index>>(arguments[1]);
    if (index) return Tensor(arguments[0].as<Tensor>()->index(*index));
  }
  const auto [begin, end] = overloads().by_name.equal_range(name);
  for (auto each = begin; each != end; ++each) {
    const Overload& overload = each->second;
    const std::optional<Value::List> bound = bind(*overload.listed, arguments, named);
    Value result;
    if (bound && overload.call(overload.function, *bound, result)) return result;
  }
  throw std::invalid_argument(name + ": no overload takes these arguments");
}

}  // namespace extensor::test
