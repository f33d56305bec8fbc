// Constructors for Python from C++ types: the fields of an options struct become keyword arguments
// with the defaults of the struct.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "bindings.h"
#include "extensor/reflect.h"

namespace extensor::python {

// How Python passes a T: its type object, its reading, and a default as text.
template <class T>
struct Argument;

#define EXTENSOR_ARGUMENT(T, type_name, reader)                    \
  template <>                                                      \
  struct Argument<T> {                                             \
    static constexpr const ArgumentType* type = &types::type_name; \
    static T read(Call& call, int i) { return T(call.reader(i)); } \
  };
EXTENSOR_ARGUMENT(std::int64_t, integer, integer)
EXTENSOR_ARGUMENT(std::uint64_t, integer, unsigned_integer)
EXTENSOR_ARGUMENT(StrictInt, integer, integer)
EXTENSOR_ARGUMENT(double, number, number)
EXTENSOR_ARGUMENT(StrictDouble, number, number)
EXTENSOR_ARGUMENT(bool, boolean, boolean)
EXTENSOR_ARGUMENT(StrictBool, boolean, boolean)
EXTENSOR_ARGUMENT(DType, dtype, dtype)
EXTENSOR_ARGUMENT(std::optional<DType>, dtype_or_none, dtype)
EXTENSOR_ARGUMENT(std::optional<std::int64_t>, integer_or_none, integer)
EXTENSOR_ARGUMENT(std::optional<double>, number_or_none, number)
EXTENSOR_ARGUMENT(std::optional<Size2d>, size2d_or_none, size2d)
EXTENSOR_ARGUMENT(std::optional<Size3d>, size3d_or_none, size3d)
EXTENSOR_ARGUMENT(std::optional<Scale2d>, scale2d_or_none, scale2d)
EXTENSOR_ARGUMENT(Size2d, size2d, size2d)
EXTENSOR_ARGUMENT(Size3d, size3d, size3d)
EXTENSOR_ARGUMENT(Shape, shape, shape)
EXTENSOR_ARGUMENT(Tensor, tensor_or_none, tensor)
EXTENSOR_ARGUMENT(std::string, string, string)
EXTENSOR_ARGUMENT(std::filesystem::path, path, path)
#undef EXTENSOR_ARGUMENT
template <>
struct Argument<int> {
  static constexpr const ArgumentType* type = &types::integer;
  static int read(Call& call, int i) {
    const std::int64_t value = call.integer(i);
    if (value != static_cast<int>(value)) {
      throw ValueError(std::string(call.function) + ": argument '" + call.parameters[i].name +
                       "' is " + std::to_string(value) + " (allowed: −2³¹ to 2³¹ − 1)");
    }
    return static_cast<int>(value);
  }
};
template <>
struct Argument<std::pair<double, double>> {
  static constexpr const ArgumentType* type = &types::number_pair;
  static std::pair<double, double> read(Call& call, int i) { return call.number_pair(i); }
};
template <>
struct Argument<std::vector<std::int64_t>> {
  static constexpr const ArgumentType* type = &types::shape;
  static std::vector<std::int64_t> read(Call& call, int i) {
    const Dims dims = call.shape(i);
    return {dims.begin(), dims.end()};
  }
};
template <class E>
requires std::is_enum_v<E> &&(!std::is_same_v<E, DType>)struct Argument<E> {
  static constexpr const ArgumentType* type = Names<E>::type;
  static E read(Call& call, int i) {
    return Names<E>::values[static_cast<std::size_t>(call.enumeration(i))];
  }
};

inline std::string text_of(bool value) { return value ? "True" : "False"; }
inline std::string text_of(int value) { return std::to_string(value); }
inline std::string text_of(std::int64_t value) { return std::to_string(value); }
inline std::string text_of(std::uint64_t value) { return std::to_string(value); }
inline std::string text_of(double value) {
  const Owned number(PyFloat_FromDouble(value));
  const Owned text(PyObject_Repr(number.get()));
  const std::string result = PyUnicode_AsUTF8(text.get());
  return result == "nan" || result == "inf" ? "..." : result;
}
inline std::string text_of(const Size2d& size) {
  if (size.height == size.width) return std::to_string(size.height);
  return "(" + std::to_string(size.height) + ", " + std::to_string(size.width) + ")";
}
inline std::string text_of(const Size3d& size) { return std::to_string(size.depth); }
inline std::string text_of(const std::pair<double, double>& both) {
  return "(" + text_of(both.first) + ", " + text_of(both.second) + ")";
}
inline std::string text_of(const std::string& text) { return "'" + text + "'"; }
inline std::string text_of(const std::filesystem::path& path) { return "'" + path.string() + "'"; }
// A tensor, a function or a pointer has no literal.
template <class T>
requires(!std::is_enum_v<T>) std::string text_of(const T&) { return "None"; }
inline std::string text_of(const std::vector<std::int64_t>&) { return "()"; }
inline std::string text_of(DType dtype) { return std::string("'") + name(dtype) + "'"; }
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "None";
}
template <class E>
requires std::is_enum_v<E> std::string text_of(E value) {
  for (std::size_t k = 0; k < Names<E>::values.size(); ++k) {
    if (Names<E>::values[k] == value) {
      return std::string("'") + Names<E>::type->names[k] + "'";
    }
  }
  return "...";
}

// A string that lives as long as the process.
inline const char* keep(std::string_view text) {
  return (new std::string(text))->c_str();  // NOLINT: rows are never freed
}

struct NoOptions {};

template <class Options>
inline constexpr std::size_t field_count = reflect::member_count<Options, false>;
template <>
inline constexpr std::size_t field_count<NoOptions> = 0;

template <class Options>
auto addresses(Options& options) {
  return reflect::with_members<field_count<Options>>(
      options, [](auto&... member) { return std::tuple(&member...); });
}

// The fields of Options as keyword-only parameters.
template <class Options>
void append_fields(std::vector<Parameter>& parameters) {
  constexpr std::size_t count = field_count<Options>;
  if constexpr (count > 0) {
    Options standard{};
    const auto members = addresses(standard);
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      (parameters.push_back(
           {keep(reflect::member_name<Options, count, k>()),
            Argument<std::remove_pointer_t<std::tuple_element_t<k, decltype(members)>>>::type,
            keep(text_of(*std::get<k>(members))), true}),
       ...);
    }
    (std::make_index_sequence<count>());
  }
}

// Reads them; the first field is argument `first`.
template <class Options>
Options read_fields(Call& call, int first) {
  constexpr std::size_t count = field_count<Options>;
  Options result{};
  if constexpr (count > 0) {
    const auto members = addresses(result);
    const auto read = [&]<class Member>(Member* member, int i) {
      if (call.has(i)) *member = Argument<Member>::read(call, i);
    };
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      (read(std::get<k>(members), first + static_cast<int>(k)), ...);
    }
    (std::make_index_sequence<count>());
  }
  return result;
}

// Adds a function whose rows are made at run time.
inline void add_function(PyObject* target, const char* name, const char* documentation,
                         std::vector<Parameter> parameters, const char* result,
                         PyObject* (*call)(Call&)) {
  auto* kept = new std::vector<Parameter>(std::move(parameters));   // NOLINT: rows are never freed
  auto* overload = new Overload{*kept, result, call};               // NOLINT
  auto* row = new FunctionRow{name, documentation, {overload, 1}};  // NOLINT
  add_functions(target, {row, 1}, "extensor");
}

}  // namespace extensor::python
