// Finds the data members of an aggregate and their names without macros. Thanks to this, modules,
// options and the attributes of ops are plain structs.
//
// A module is reflected if it has public members, no constructors, no virtual functions and no base
// except nn::Module<…>; other structs if they have no base at all. C++20 has no reflection, so the
// number of members is the number of initializers that the struct accepts, structured bindings
// access the members, and names are read from the compiler's spelling of a member's address.
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::reflect {

// Converts to any type except T's bases: an initializer of any member of T, and of nothing else.
// Like the two below, it is never called; it has a body because Clang requires one for what it
// instantiates.
template <class T>
struct AnythingFor {
  template <class Member>
  requires(!std::is_base_of_v<Member, T>) operator Member() const {  // NOLINT: implicit
    __builtin_unreachable();
  }
};
// Converts to classes only: {AnyClassFor<T>} initializes a class without using its constructors
// from numbers.
template <class T>
struct AnyClassFor {
  template <class Member>
  requires(std::is_class_v<Member> && !std::is_base_of_v<Member, T>) operator Member()
      const {  // NOLINT: implicit
    __builtin_unreachable();
  }
};
// Converts to T's bases only.
template <class T>
struct BaseFor {
  template <class Base>
  requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>) operator Base()
      const {  // NOLINT: implicit
    __builtin_unreachable();
  }
};

template <class T>
struct IsAnything : std::false_type {};
template <class T>
struct IsAnything<AnythingFor<T>> : std::true_type {};
template <class T>
struct IsAnything<AnyClassFor<T>> : std::true_type {};

inline constexpr std::size_t most_members = 64;
inline constexpr std::size_t members_unknown = static_cast<std::size_t>(-1);

// Counts the members of T. `has_base` means that T has one base, which is initialized by {}.
template <class T, bool has_base>
class MemberCounter {
  using Anything = AnythingFor<T>;

  template <std::size_t... k>
  static constexpr bool takes(std::index_sequence<k...>) {
    if constexpr (has_base) {
      return requires { T{{}, (static_cast<void>(k), Anything{})...}; };
    } else {
      return requires { T{(static_cast<void>(k), Anything{})...}; };
    }
  }
  // Initializes the member after `before` by braces around `Inside`s.
  template <class... Inside, std::size_t... before, std::size_t... after>
  static constexpr bool takes_braces(std::index_sequence<before...>,
                                     std::index_sequence<after...>) {
    if constexpr (has_base) {
      return requires {
        T{{},
          (static_cast<void>(before), Anything{})...,
          {Inside{}...},
          (static_cast<void>(after), Anything{})...};
      };
    } else {
      return requires {
        T{(static_cast<void>(before), Anything{})...,
          {Inside{}...},
          (static_cast<void>(after), Anything{})...};
      };
    }
  }
  template <std::size_t before, std::size_t after, class... Inside>
  static constexpr bool nested() {
    return takes_braces<Inside...>(std::make_index_sequence<before>(),
                                   std::make_index_sequence<after>());
  }
  template <std::size_t before, std::size_t after, std::size_t... inside>
  static constexpr bool nested(std::index_sequence<inside...>) {
    return nested<before, after, std::conditional_t<inside == 0, Anything, Anything>...>();
  }

  // The largest number of initializers that T accepts. A smaller number may be rejected, if a
  // member or an element of an array has no default; a number larger than the bytes of T always is.
  template <std::size_t count = 1, std::size_t last = members_unknown>
  static consteval std::size_t initializers() {
    if constexpr (count > most_members + 1 || count > sizeof(T)) {
      return last;
    } else if constexpr (takes(std::make_index_sequence<count>())) {
      return initializers<count + 1, count>();
    } else {
      return initializers<count + 1, last>();
    }
  }

  // Whether T has a base: the first initializer may be one.
  template <std::size_t... k>
  static constexpr bool takes_base(std::index_sequence<k...>) {
    return requires { T{BaseFor<T>{}, (static_cast<void>(k), Anything{})...}; };
  }
  template <std::size_t all, std::size_t after = 0>
  static consteval bool is_derived() {
    if constexpr (after > all) {
      return false;
    } else if constexpr (takes_base(std::make_index_sequence<after>())) {
      return true;
    } else {
      return is_derived<all, after + 1>();
    }
  }

  // The number of initializers, out of `all`, for the member that initializer `at` belongs to: one,
  // or as many as a C array has elements. An array takes them inside braces, and fewer can follow
  // then; any other member does not change the number after it.
  template <std::size_t all, std::size_t at>
  static consteval bool may_be_array() {
    // Two quick checks rule out an array; if both fail, array_size() tries all sizes. Empty braces
    // come first: they do not instantiate code of std::vector and others.
    if constexpr (nested<at, all - at - 1>()) {
      return false;
    } else {
      return !nested<at, all - at - 1, AnyClassFor<T>>();
    }
  }
  template <std::size_t all, std::size_t at, std::size_t size>
  static consteval std::size_t array_size() {
    using Elements = std::make_index_sequence<size>;
    if constexpr (size < 2) {
      return 1;
    } else if constexpr (nested<at, all - at - size>(Elements()) &&
                         !nested<at, all - at - 1>(Elements())) {
      return size;
    } else {
      return array_size<all, at, size - 1>();
    }
  }
  template <std::size_t all, std::size_t at>
  static consteval std::size_t taken() {
    if constexpr (may_be_array<all, at>()) {
      return array_size<all, at, all - at>();
    } else {
      return 1;
    }
  }
  template <std::size_t all, std::size_t at = 0>
  static consteval std::size_t members() {
    if constexpr (at >= all) {
      return 0;
    } else {
      return 1 + members<all, at + taken<all, at>()>();
    }
  }

 public:
  // members_unknown if T accepts no number of initializers up to the limit, or has another base.
  static consteval std::size_t count() {
    constexpr std::size_t all = std::is_empty_v<T> ? 0 : initializers();
    if constexpr (all == members_unknown || all > most_members) {
      return all;
    } else if constexpr (!has_base && is_derived<all>()) {
      return members_unknown;
    } else {
      return members<all>();
    }
  }
};

template <class T, bool has_base>
inline constexpr std::size_t member_count = MemberCounter<T, has_base>::count();

// Calls function(member…) with all n members of `object`.
template <std::size_t n, class T, class Function>
constexpr auto with_members(T& object, const Function& function) {
  static_assert(n != members_unknown,
                "the members of this struct cannot be found (a reference, an anonymous union, a "
                "second base or more than 64 members prevent it): give it a member function "
                "void visit(nn::Walker& walk) { walk(\"name\", member)(\"other\", other); }");
  static_assert(n == members_unknown || n <= most_members,
                "a struct of more than 64 members has to name them: give it a member function "
                "void visit(nn::Walker& walk) { walk(\"name\", member)(\"other\", other); }, "
                "or put some of them into a struct or a std::vector");
  // clang-format off
  if constexpr (n == 0 || n > most_members) { return function(); }
#define EXTENSOR_MEMBERS(count, ...) \
  else if constexpr (n == count) { auto& [__VA_ARGS__] = object; return function(__VA_ARGS__); }
  EXTENSOR_MEMBERS(1, m0)
  EXTENSOR_MEMBERS(2, m0, m1)
  EXTENSOR_MEMBERS(3, m0, m1, m2)
  EXTENSOR_MEMBERS(4, m0, m1, m2, m3)
  EXTENSOR_MEMBERS(5, m0, m1, m2, m3, m4)
  EXTENSOR_MEMBERS(6, m0, m1, m2, m3, m4, m5)
  EXTENSOR_MEMBERS(7, m0, m1, m2, m3, m4, m5, m6)
  EXTENSOR_MEMBERS(8, m0, m1, m2, m3, m4, m5, m6, m7)
  EXTENSOR_MEMBERS(9, m0, m1, m2, m3, m4, m5, m6, m7, m8)
  EXTENSOR_MEMBERS(10, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9)
  EXTENSOR_MEMBERS(11, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10)
  EXTENSOR_MEMBERS(12, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11)
  EXTENSOR_MEMBERS(13, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12)
  EXTENSOR_MEMBERS(14, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13)
  EXTENSOR_MEMBERS(15, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14)
  EXTENSOR_MEMBERS(16, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15)
  EXTENSOR_MEMBERS(17, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16)
  EXTENSOR_MEMBERS(18, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17)
  EXTENSOR_MEMBERS(19, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18)
  EXTENSOR_MEMBERS(20, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19)
  EXTENSOR_MEMBERS(21, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20)
  EXTENSOR_MEMBERS(22, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21)
  EXTENSOR_MEMBERS(23, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22)
  EXTENSOR_MEMBERS(24, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23)
  EXTENSOR_MEMBERS(25, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24)
  EXTENSOR_MEMBERS(26, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25)
  EXTENSOR_MEMBERS(27, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26)
  EXTENSOR_MEMBERS(28, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27)
  EXTENSOR_MEMBERS(29, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28)
  EXTENSOR_MEMBERS(30, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29)
  EXTENSOR_MEMBERS(31, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30)
  EXTENSOR_MEMBERS(32, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31)
  EXTENSOR_MEMBERS(33, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32)
  EXTENSOR_MEMBERS(34, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33)
  EXTENSOR_MEMBERS(35, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34)
  EXTENSOR_MEMBERS(36, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35)
  EXTENSOR_MEMBERS(37, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36)
  EXTENSOR_MEMBERS(38, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37)
  EXTENSOR_MEMBERS(39, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38)
  EXTENSOR_MEMBERS(40, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39)
  EXTENSOR_MEMBERS(41, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40)
  EXTENSOR_MEMBERS(42, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41)
  EXTENSOR_MEMBERS(43, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42)
  EXTENSOR_MEMBERS(44, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43)
  EXTENSOR_MEMBERS(45, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44)
  EXTENSOR_MEMBERS(46, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45)
  EXTENSOR_MEMBERS(47, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46)
  EXTENSOR_MEMBERS(48, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47)
  EXTENSOR_MEMBERS(49, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48)
  EXTENSOR_MEMBERS(50, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49)
  EXTENSOR_MEMBERS(51, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50)
  EXTENSOR_MEMBERS(52, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51)
  EXTENSOR_MEMBERS(53, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52)
  EXTENSOR_MEMBERS(54, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53)
  EXTENSOR_MEMBERS(55, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54)
  EXTENSOR_MEMBERS(56, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55)
  EXTENSOR_MEMBERS(57, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56)
  EXTENSOR_MEMBERS(58, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57)
  EXTENSOR_MEMBERS(59, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58)
  EXTENSOR_MEMBERS(60, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59)
  EXTENSOR_MEMBERS(61, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59, m60)
  EXTENSOR_MEMBERS(62, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59, m60, m61)
  EXTENSOR_MEMBERS(63, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59, m60, m61, m62)
  EXTENSOR_MEMBERS(64, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59, m60, m61, m62, m63)
#undef EXTENSOR_MEMBERS
  // clang-format on
}

// An object that is never created: the compiler knows the addresses of its members, and spells them
// with their names.
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

template <class T, std::size_t n>
constexpr auto member_addresses() {
  return with_members<n>(never_made<T>.object,
                         [](auto&... member) { return std::tuple(&member...); });
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

template <class T, std::size_t n, std::size_t k>
consteval std::string_view member_name() {
  constexpr auto pointer = std::get<k>(member_addresses<T, n>());
  return last_word(spelled<Address{pointer}>());
}

// "Net" from the full spelling of a type.
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

}  // namespace extensor::reflect

EXTENSOR_END_API
