// Attributes of ops as named fields that can be compared and printed as "axis=1, keepdims=false".
// An attribute struct is an aggregate; extensor/reflect.h enumerates its fields.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/check.h"
#include "extensor/indexed_tensor.h"
#include "extensor/reflect.h"
#include "extensor/shape.h"

namespace extensor::ops {

// Type-erased functions on the attributes of an op.
struct AttributeType {
  std::string (*describe)(const void* attributes);
  bool (*equal)(const void* a, const void* b);
};

namespace field {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

template <class T>
concept Text = requires(std::string& text, const T& value) {
  detail::append_part(text, value);
};
template <class T>
concept List = requires(const T& value) {
  value.begin() != value.end();
};

// Prints an index as 2, {start=…}, ..., newaxis or tensor.
void append_index(std::string& text, const Index& index);
bool equal_index(const Index& a, const Index& b);
bool equal_scalar(const Scalar& a, const Scalar& b);

template <class T>
void append_all(std::string& text, const T& attributes);

template <class T>
void append(std::string& text, const T& value) {
  if constexpr (std::is_same_v<T, Axes>) {
    if (value.all()) {
      text += "all";
    } else {
      detail::append_part(text, value.list());
    }
  } else if constexpr (std::is_same_v<T, Index>) {
    append_index(text, value);
  } else if constexpr (std::is_enum_v<T> && !std::is_same_v<T, DType>) {
    detail::append_signed(text, static_cast<std::int64_t>(value));
  } else if constexpr (Text<T>) {
    detail::append_part(text, value);
  } else if constexpr (requires { value.depth + value.height + value.width; }) {  // Size3d
    text += '(';
    append(text, value.depth);
    text += ", ";
    append(text, value.height);
    text += ", ";
    append(text, value.width);
    text += ')';
  } else if constexpr (requires { value.height + value.width; }) {  // Size2d, Scale2d
    append(text, std::pair(value.height, value.width));
  } else if constexpr (is_optional<T>) {
    if (value) {
      append(text, *value);
    } else {
      text += "none";
    }
  } else if constexpr (is_pair<T>) {
    text += '(';
    append(text, value.first);
    text += ", ";
    append(text, value.second);
    text += ')';
  } else if constexpr (List<T>) {
    text += '[';
    bool first = true;
    for (const auto& each : value) {
      if (!std::exchange(first, false)) text += ", ";
      append(text, each);
    }
    text += ']';
  } else {
    text += '{';
    append_all(text, value);
    text += '}';
  }
}

// Prints the fields of a struct as "name=value, …", and any other value directly.
template <class T>
void append_all(std::string& text, const T& attributes) {
  if constexpr (!std::is_aggregate_v<T> || !std::is_class_v<T> || List<T>) {
    append(text, attributes);
  } else {
    constexpr std::size_t n = reflect::member_count<T, false>;
    reflect::with_members<n>(attributes, [&](const auto&... members) {
      [&]<std::size_t... k>(std::index_sequence<k...>) {
        ((text += k == 0 ? "" : ", ", text += reflect::member_name<T, n, k>(), text += '=',
          append(text, members)),
         ...);
      }
      (std::make_index_sequence<n>());
    });
  }
}

template <class T>
bool equal(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Axes>) {
    return a.all() == b.all() && a.list() == b.list();
  } else if constexpr (std::is_same_v<T, Index>) {
    return equal_index(a, b);
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return equal_scalar(a, b);
  } else if constexpr (std::is_same_v<T, double>) {
    return a == b || (a != a && b != b);
  } else if constexpr (is_optional<T>) {
    return a.has_value() == b.has_value() && (!a || equal(*a, *b));
  } else if constexpr (is_pair<T>) {
    return equal(a.first, b.first) && equal(a.second, b.second);
  } else if constexpr (std::is_aggregate_v<T> && std::is_class_v<T> && !List<T>) {
    constexpr std::size_t n = reflect::member_count<T, false>;
    return reflect::with_members<n>(a, [&](const auto&... of_a) {
      return reflect::with_members<n>(
          b, [&](const auto&... of_b) { return (equal(of_a, of_b) && ...); });
    });
  } else if constexpr (List<T>) {
    auto at = b.begin();
    for (const auto& each : a) {
      if (at == b.end() || !equal(each, *at)) return false;
      ++at;
    }
    return at == b.end();
  } else {
    return a == b;
  }
}

}  // namespace field

template <class A>
inline constexpr AttributeType attribute_type{
    [](const void* attributes) {
      std::string text;
      field::append_all(text, *static_cast<const A*>(attributes));
      return text;
    },
    [](const void* a, const void* b) {
      return field::equal(*static_cast<const A*>(a), *static_cast<const A*>(b));
    }};

}  // namespace extensor::ops
