// The data members of a plain struct and their names, without macros: what lets a module be a
// struct. The struct is an aggregate: public members, no constructors, no virtual functions, one
// empty base.
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace extensor::nn::detail {

// Converts to whatever a member is: as many of these as a struct can be made from, as many members
// it has.
struct Anything {
  template <class Member>
  constexpr operator Member() const;  // NOLINT: implicit, never defined
};

template <class T, std::size_t... k>
constexpr bool is_made_from(std::index_sequence<k...>) {
  return requires { T{{}, (static_cast<void>(k), Anything{})...}; };
}

inline constexpr std::size_t most_members = 24;

// The most that it can be made from: fewer may not do, where a member that is left out has an
// explicit constructor.
template <class T, std::size_t count = most_members + 1>
consteval std::size_t member_count() {
  if constexpr (count == 0 || is_made_from<T>(std::make_index_sequence<count>())) {
    return count;
  } else {
    return member_count<T, count - 1>();
  }
}

// function(member…) of all members of `object`.
template <class T, class Function>
constexpr auto with_members(T& object, const Function& function) {
  constexpr std::size_t n = member_count<std::remove_const_t<T>>();
  static_assert(n <= most_members,
                "a module of this many members has to name them itself: give it a member function "
                "void visit(nn::Walker& walk) { walk(\"name\", member)(\"other\", other); }");
  static_assert(n > 0 || std::is_empty_v<T>,
                "the members of this module cannot be found: give it a member function "
                "void visit(nn::Walker& walk) { walk(\"name\", member)(\"other\", other); }");
  // clang-format off
  if constexpr (n == 0) { return function(); }
#define EXTENSOR_MEMBERS(count, ...) \
  else if constexpr (n == count) { auto& [__VA_ARGS__] = object; return function(__VA_ARGS__); }
  EXTENSOR_MEMBERS(1, a)
  EXTENSOR_MEMBERS(2, a, b)
  EXTENSOR_MEMBERS(3, a, b, c)
  EXTENSOR_MEMBERS(4, a, b, c, d)
  EXTENSOR_MEMBERS(5, a, b, c, d, e)
  EXTENSOR_MEMBERS(6, a, b, c, d, e, f)
  EXTENSOR_MEMBERS(7, a, b, c, d, e, f, g)
  EXTENSOR_MEMBERS(8, a, b, c, d, e, f, g, h)
  EXTENSOR_MEMBERS(9, a, b, c, d, e, f, g, h, i)
  EXTENSOR_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
  EXTENSOR_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
  EXTENSOR_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  EXTENSOR_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  EXTENSOR_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, o)
  EXTENSOR_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p)
  EXTENSOR_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q)
  EXTENSOR_MEMBERS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r)
  EXTENSOR_MEMBERS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s)
  EXTENSOR_MEMBERS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t)
  EXTENSOR_MEMBERS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u)
  EXTENSOR_MEMBERS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v)
  EXTENSOR_MEMBERS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w)
  EXTENSOR_MEMBERS(23, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, x)
  EXTENSOR_MEMBERS(24, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, x, y)
#undef EXTENSOR_MEMBERS
  // clang-format on
}

// An object that is never made: its members' addresses are known to the compiler, which spells
// them with their names.
template <class T>
struct Holder {
  T object;
};
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"  // of a struct in an unnamed namespace
#endif
template <class T>
extern Holder<T> never_made;

template <class T>
constexpr auto member_addresses() {
  return with_members(never_made<T>.object, [](auto&... member) { return std::tuple(&member...); });
}
#ifdef __clang__
#pragma clang diagnostic pop
#endif

template <class Member>
struct Address {
  Member* pointer;
};
template <class Member>
Address(Member*) -> Address<Member>;

template <Address address>
consteval std::string_view spelled() {
  return __PRETTY_FUNCTION__;
}

// Clang spells "… &never_made.object.fc1}]", GCC "… Holder<Net>::object.Net::fc1)};".
consteval std::string_view last_word(std::string_view text) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
#ifdef __clang__
  const std::size_t end = text.rfind('}');
#else
  const std::size_t end = text.find(")}");
#endif
  std::size_t begin = end;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

template <class T, std::size_t k>
consteval std::string_view member_name() {
  constexpr auto pointer = std::get<k>(member_addresses<T>());
  return last_word(spelled<Address{pointer}>());
}

// "Net" of a type's full spelling.
template <class T>
constexpr std::string_view type_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t begin = text.find("T = ") + 4;
  const std::size_t end = text.find_first_of(";]", begin);
  text = text.substr(begin, end - begin);
  const std::size_t template_begin = text.find('<');
  const std::size_t scope = text.substr(0, template_begin).rfind("::");
  return scope == std::string_view::npos ? text : text.substr(scope + 2);
}

}  // namespace extensor::nn::detail
