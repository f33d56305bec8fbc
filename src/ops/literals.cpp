// tensor({{1, 2}, {3, 4}}): nested lists of numbers.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/check.h"
#include "extensor/creation.h"

namespace extensor {

namespace {

using detail::message;
using List = std::initializer_list<Literal>;

// The shape of nested lists, from the first entry of each depth.
Shape shape_of(const List& values) {
  Shape shape;
  for (const List* list = &values;;) {
    shape.push_back(static_cast<std::int64_t>(list->size()));
    if (list->size() == 0 || list->begin()->is_number()) return shape;
    list = &list->begin()->list();
  }
}

// Appends the numbers in row-major order. ShapeError where a list does not have the shape.
void collect(const List& list, const Shape& shape, std::size_t depth, std::vector<Scalar>& out) {
  const bool holds_numbers = depth + 1 == shape.size();
  std::size_t row = 0;
  for (const Literal& entry : list) {
    if (entry.is_number() != holds_numbers) {
      throw ShapeError(message("tensor: numbers and lists are mixed at depth ", depth,
                               " (allowed: only one kind at each depth)"));
    }
    if (holds_numbers) {
      out.push_back(entry.number());
      continue;
    }
    if (static_cast<std::int64_t>(entry.list().size()) != shape[depth + 1]) {
      throw ShapeError(message("tensor: row ", row, " at depth ", depth, " has ",
                               entry.list().size(), " entries, the first one has ",
                               shape[depth + 1]));
    }
    collect(entry.list(), shape, depth + 1, out);
    ++row;
  }
}

template <class T, class Convert>
Tensor stored_as(const std::vector<Scalar>& numbers, const Shape& shape, DType default_dtype,
                 const TensorOptions& options, Convert convert) {
  // Not std::vector<bool>, whose elements have no addresses.
  std::vector<std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>> values;
  values.reserve(numbers.size());
  for (const Scalar& number : numbers) values.push_back(convert(number));
  return detail::from_literals(values.data(), values.size(), dtype_of<T>, shape, default_dtype,
                               options);
}

}  // namespace

Tensor tensor(std::initializer_list<Literal> values, const TensorOptions& options) {
  const Shape shape = shape_of(values);
  std::vector<Scalar> numbers;
  collect(values, shape, 0, numbers);
  using Kind = Scalar::Kind;
  if (std::ranges::any_of(numbers, [](const Scalar& x) { return x.is_complex(); })) {
    return stored_as<std::complex<double>>(numbers, shape, complex_dtype(default_float), options,
                                           [](const Scalar& x) { return x.as_complex(); });
  }
  bool has_float = false, has_integer = false, has_negative = false, is_large = false;
  for (const Scalar& number : numbers) {
    has_float = has_float || number.is_floating();
    has_integer = has_integer || number.kind() != Kind::boolean;
    has_negative = has_negative || (number.kind() == Kind::integer && number.as_integer() < 0);
    is_large = is_large || number.default_dtype() == DType::uint64;
  }
  if (has_float || numbers.empty()) {
    return stored_as<double>(numbers, shape, default_float, options,
                             [](const Scalar& x) { return x.as_double(); });
  }
  if (!has_integer) {
    return stored_as<bool>(numbers, shape, DType::bool_, options, [](const Scalar& x) {
      return static_cast<unsigned char>(x.as_integer() != 0);
    });
  }
  const auto as_unsigned = [](const Scalar& x) {
    return x.kind() == Kind::unsigned_integer ? x.as_unsigned()
                                              : static_cast<std::uint64_t>(x.as_integer());
  };
  if (!is_large) {
    return stored_as<std::int64_t>(numbers, shape, default_integer, options, [&](const Scalar& x) {
      return static_cast<std::int64_t>(as_unsigned(x));
    });
  }
  if (has_negative) {
    throw DTypeError(
        "tensor: the list has negative integers and integers above the largest int64 (allowed: "
        "one kind; write one of them as a float)");
  }
  return stored_as<std::uint64_t>(numbers, shape, DType::uint64, options, as_unsigned);
}

}  // namespace extensor
