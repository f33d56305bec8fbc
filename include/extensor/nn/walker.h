// Walker visits all members of a module by name. A member that may hold a parameter is either
// walked or rejected by a static_assert; nothing is skipped silently.
//
// Supported types are Parameter, Buffer, Training, modules and nn::AnyLayer, and
//   std::optional, std::unique_ptr, std::shared_ptr, std::variant   under the member's own name
//   std::vector, std::array, std::deque, std::list, C arrays        name.0, name.1, …
//   std::pair, std::tuple                                           name.0, name.1, …
//   std::map, std::unordered_map (keys: strings, integers, enums)   name.key, ordered by key
//   structs without constructors or bases                           name.member
// of them, nested arbitrarily. Empty optionals and null pointers contribute nothing. A plain Tensor
// is not part of a module's state; walking a module throws if one requires a gradient.
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/nn/parameter.h"
#include "extensor/reflect.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

// The type and description of a module.
struct ModuleDescription {
  std::string_view type;  // "Linear"; empty for a list of members
  std::string detail;     // "784 → 128"
  const void* address = nullptr;
};

// Visits all members of a module, in order.
class Walker {
 public:
  virtual ~Walker() = default;
  virtual void parameter(std::string_view, Parameter&) {}
  virtual void buffer(std::string_view, Buffer&) {}
  virtual void training(Training&) {}
  // A plain tensor. Throws ValueError if it is a leaf that requires a gradient.
  virtual void tensor(std::string_view name, const Tensor& tensor);
  // Called before and after the members of a nested module.
  virtual void enter(std::string_view, const ModuleDescription&) {}
  virtual void leave() {}
  // Called before and after the target of a std::shared_ptr, which copies of the module share.
  virtual void enter_shared() {}
  virtual void leave_shared() {}
  // Whether enter() receives the detail of a module.
  virtual bool wants_detail() const { return false; }

  // Walks a member under its name. A type that may hold parameters but cannot be walked does not
  // compile; a type that cannot hold parameters is ignored.
  template <class Member>
  Walker& operator()(std::string_view name, Member& member);
};

namespace detail {

struct ModuleTag {};

template <class T>
concept IsModule = std::derived_from<T, ModuleTag>;

template <class T>
concept NamesItsMembers = requires(T& owner, Walker& walker) {
  owner.visit(walker);
};

// True for nn::AnyLayer, which is defined later.
template <class T>
concept HoldsLayer = requires(T& holder, Walker& walker) {
  { holder.reference(true) } -> std::same_as<ModuleDescription>;
  holder.walk(walker);
};

// ---- kinds of members

using reflect::member_count;
using reflect::member_name;
using reflect::most_members;
using reflect::type_name;
using reflect::with_members;

enum class MemberKind : std::uint8_t {
  nothing,  // cannot hold a parameter
  tensor,
  parameter,
  buffer,
  training,
  submodule,
  layer,    // nn::AnyLayer
  pointer,  // optional, unique_ptr, shared_ptr
  variant,
  tuple,
  map,
  list,
  names_members,  // a class with visit() that is not a module
  aggregate,
  // Rejected:
  raw_pointer,  // also reference_wrapper, weak_ptr, span, smart pointers to arrays
  map_key,      // a map whose keys cannot be names
  function,     // a callable that accepts a tensor and may hold parameters
};

template <class... Types>
struct TypeList {};

template <class T>
struct PointerTarget {};  // `owned`: walked; `seen`: rejected
template <class T>
struct PointerTarget<std::optional<T>> {
  using owned = T;
};
template <class T, class Deleter>
struct PointerTarget<std::unique_ptr<T, Deleter>> {
  using owned = T;
};
template <class T, class Deleter>
struct PointerTarget<std::unique_ptr<T[], Deleter>> {
  using seen = T;
};
template <class T>
struct PointerTarget<std::shared_ptr<T>> {
  using owned = T;
};
template <class T>
struct PointerTarget<std::shared_ptr<T[]>> {
  using seen = T;
};
template <class T>
struct PointerTarget<T*> {
  using seen = T;
};
template <class T>
struct PointerTarget<std::weak_ptr<T>> {
  using seen = T;
};
template <class T>
struct PointerTarget<std::reference_wrapper<T>> {
  using seen = T;
};
template <class T, std::size_t extent>
struct PointerTarget<std::span<T, extent>> {
  using seen = T;
};

template <class T>
inline constexpr bool is_shared_pointer = false;
template <class T>
inline constexpr bool is_shared_pointer<std::shared_ptr<T>> = true;

// Detects std::variant by its interface: <variant> would slow down every user's compilation by 5 %.
template <class T>
struct Alternatives {};
template <template <class...> class Variant, class... Types>
requires requires(const Variant<Types...>& variant) { variant.valueless_by_exception(); }
struct Alternatives<Variant<Types...>> {
  using types = TypeList<Types...>;
};
template <class Function, class Variant>
void visit_alternative(const Function& function, Variant& variant) {
  visit(function, variant);  // std::visit, found by ADL
}
template <class T>
struct Elements {};
template <class First, class Second>
struct Elements<std::pair<First, Second>> {
  using types = TypeList<First, Second>;
};
template <class... Types>
struct Elements<std::tuple<Types...>> {
  using types = TypeList<Types...>;
};

template <class T>
concept IsMap = requires {
  typename T::key_type;
  typename T::mapped_type;
};
template <class T>
concept IsRange = std::is_array_v<T> || requires(T& list) {
  typename T::value_type;
  list.begin();
  list.end();
};
template <class T>
struct ValueType {
  using type = typename T::value_type;
};
template <class T, std::size_t size>
struct ValueType<T[size]> {
  using type = T;
};
template <class T>
concept IsKey = std::integral<T> || std::is_enum_v<T> || std::convertible_to<T, std::string_view>;

// Callable with a tensor, like a layer.
template <class T>
concept TakesTensor = requires(T& object, const Tensor& x) {
  { object(x) } -> std::convertible_to<Tensor>;
}
|| requires(T& object, const Tensor& x) {
  { object.forward(x) } -> std::convertible_to<Tensor>;
};

template <class T>
consteval bool is_complete() {
  return std::is_void_v<T> || std::is_function_v<T> || requires { sizeof(T); };
}

template <class T, class... Seen>
consteval MemberKind kind_of();

// Whether T may hold something to walk, or must be rejected. `Seen` are the enclosing types.
template <class T, class... Seen>
consteval bool matters() {
  using Plain = std::remove_cv_t<T>;
  if constexpr (!is_complete<Plain>() || (std::is_same_v<Plain, Seen> || ...)) {
    return false;
  } else {
    return kind_of<Plain, Seen...>() != MemberKind::nothing;
  }
}
template <class... Seen, class... Types>
consteval bool any_matters(TypeList<Types...>) {
  return (matters<Types, Seen...>() || ...);
}

template <class T>
using MemberTypes =
    decltype(with_members<member_count<T, false>>(std::declval<T&>(), [](auto&... member) {
      return TypeList<std::remove_reference_t<decltype(member)>...>();
    }));

template <class T, class... Seen>
consteval MemberKind kind_of() {
  using enum MemberKind;
  const auto if_any = [](bool any, MemberKind kind) { return any ? kind : nothing; };
  if constexpr (std::is_same_v<T, Tensor>) {
    return tensor;
  } else if constexpr (std::is_same_v<T, Parameter>) {
    return parameter;
  } else if constexpr (std::is_same_v<T, Buffer>) {
    return buffer;
  } else if constexpr (std::is_same_v<T, Training>) {
    return training;
  } else if constexpr (std::is_scalar_v<T> && !std::is_pointer_v<T>) {
    return nothing;
  } else if constexpr (IsModule<T>) {
    return submodule;
  } else if constexpr (HoldsLayer<T>) {
    return layer;
  } else if constexpr (NamesItsMembers<T>) {
    return names_members;
  } else if constexpr (requires { typename PointerTarget<T>::owned; }) {
    return if_any(matters<typename PointerTarget<T>::owned, T, Seen...>(), pointer);
  } else if constexpr (requires { typename PointerTarget<T>::seen; }) {
    return if_any(matters<typename PointerTarget<T>::seen, T, Seen...>(), raw_pointer);
  } else if constexpr (requires { typename Alternatives<T>::types; }) {
    return if_any(any_matters<T, Seen...>(typename Alternatives<T>::types()), variant);
  } else if constexpr (requires { typename Elements<T>::types; }) {
    return if_any(any_matters<T, Seen...>(typename Elements<T>::types()), tuple);
  } else if constexpr (IsMap<T>) {
    return if_any(matters<typename T::mapped_type, T, Seen...>(),
                  IsKey<typename T::key_type> ? map : map_key);
  } else if constexpr (IsRange<T>) {
    return if_any(matters<typename ValueType<T>::type, T, Seen...>(), list);
  } else if constexpr (std::is_trivially_copyable_v<T> || !std::is_class_v<T>) {
    return nothing;
  } else if constexpr (TakesTensor<T>) {
    return function;
  } else if constexpr (std::is_aggregate_v<T>) {
    if constexpr (member_count < T, false >> most_members) {
      return nothing;
    } else if constexpr (member_count<T, false> > most_members) {
      return aggregate;  // walking it reports the limit
    } else {
      return if_any(any_matters<T, Seen...>(MemberTypes<T>()), aggregate);
    }
  } else {
    return nothing;
  }
}

// Instantiated to reject a member: the compiler prints its type as Member.
template <class Member, MemberKind kind>
struct Refuse {
  static_assert(
      kind != MemberKind::raw_pointer,
      "a module does not own what this member points to, so its parameters would be neither "
      "trained nor saved: hold it by value, std::optional, std::unique_ptr, std::shared_ptr "
      "or std::vector, or name the members to walk in void visit(nn::Walker& walk)");
  static_assert(
      kind != MemberKind::map_key,
      "the keys of this map make no names for its parameters: use a key that is a string, "
      "an integer or an enum");
  static_assert(
      kind != MemberKind::function,
      "this member takes a tensor, but is no module, so parameters inside it would be "
      "neither trained nor saved: derive its class from nn::Module, hold it as an "
      "nn::AnyLayer (which takes modules and plain functions), or use a function pointer");
  static_assert(
      kind == MemberKind::raw_pointer || kind == MemberKind::map_key ||
          kind == MemberKind::function,
      "this member is const, so it cannot be trained, loaded or switched to eval: declare it "
      "without const");
};

// ---- modules

// The class that declares the member function.
template <class Class, class Result, class... Arguments>
Class declaring_class(Result (Class::*)(Arguments...));
template <class Class, class Result, class... Arguments>
Class declaring_class(Result (Class::*)(Arguments...) const);

// Whether T declares visit() itself, or has one that is overloaded or a template.
template <class T>
consteval bool declares_visit() {
  if constexpr (requires { declaring_class(&T::visit); }) {
    return std::is_same_v<decltype(declaring_class(&T::visit)), T>;
  } else {
    return NamesItsMembers<T>;
  }
}

template <bool has_base, class Object>
void walk_members(Object& object, Walker& walker) {
  using T = std::remove_const_t<Object>;
  constexpr std::size_t n = member_count<T, has_base>;
  with_members<n>(object, [&](auto&... members) {
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      (walker(member_name<T, n, k>(), members), ...);
    }
    (std::make_index_sequence<sizeof...(members)>());
  });
}

template <class T>
consteval void check_derivation() {
  static_assert(
      std::is_same_v<typename T::ModuleType, T>,
      "a class derived from a module is walked as that module, without its own members and "
      "its own forward(): derive it by struct B : nn::Module<B, A>, not struct B : A");
}

// Walks every member of `owner`.
template <class T>
void walk(T& owner, Walker& walker) {
  check_derivation<T>();
  if constexpr (!std::is_same_v<typename T::ModuleBase, ModuleTag>) {
    using Base = typename T::ModuleBase;
    walk(static_cast<Base&>(owner), walker);
    static_assert(declares_visit<T>() || sizeof(T) == sizeof(Base),
                  "a module derived from another one names the members it adds: give it a member "
                  "function void visit(nn::Walker& walk) { walk(\"name\", member); }");
    if constexpr (declares_visit<T>()) owner.visit(walker);
  } else if constexpr (NamesItsMembers<T>) {
    owner.visit(walker);
  } else {
    static_assert(std::is_aggregate_v<T>,
                  "a module with constructors names its members: give it a member function "
                  "void visit(nn::Walker& walk) { walk(\"name\", member)(\"other\", other); }");
    if constexpr (std::is_aggregate_v<T>) walk_members<true>(owner, walker);
  }
}

template <class T>
ModuleDescription reference_to(const T& module, bool with_detail = true) {
  if constexpr (requires { module.describe(); }) {
    if (with_detail) return {type_name<T>(), module.describe(), &module};
  }
  return {type_name<T>(), {}, &module};
}

// A type-erased module and the function that walks it.
struct Walk {
  void* module;
  void (*function)(void* module, Walker& walker);
  void operator()(Walker& walker) const { function(module, walker); }
};

template <class T>
Walk walk_of(T& module) {
  return {&module, [](void* of, Walker& walker) { walk(*static_cast<T*>(of), walker); }};
}

template <class Key>
std::string key_name(const Key& key) {
  if constexpr (std::is_enum_v<Key>) {
    return std::to_string(static_cast<std::underlying_type_t<Key>>(key));
  } else if constexpr (std::integral<Key>) {
    return std::to_string(key);
  } else {
    return std::string(std::string_view(key));
  }
}

// Walks the entries in the order of their keys, even if the map is unordered.
template <class Map>
void walk_map(Map& map, Walker& walker) {
  std::vector<decltype(&*map.begin())> entries;
  entries.reserve(map.size());
  for (auto& entry : map) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  for (auto* entry : entries) walker(key_name(entry->first), entry->second);
}

}  // namespace detail

template <class Member>
Walker& Walker::operator()(std::string_view name, Member& member) {
  using enum detail::MemberKind;
  constexpr detail::MemberKind kind = detail::kind_of<std::remove_cv_t<Member>>();
  constexpr bool owns = kind == parameter || kind == buffer || kind == training ||
                        kind == submodule || kind == layer || kind == names_members;
  if constexpr ((owns && std::is_const_v<Member>) || kind == raw_pointer || kind == map_key ||
                kind == function) {
    static_cast<void>(sizeof(detail::Refuse<Member, kind>));
  } else if constexpr (kind == detail::MemberKind::tensor) {
    if (member.defined()) this->tensor(name, member);
  } else if constexpr (kind == detail::MemberKind::parameter) {
    if (member.defined()) this->parameter(name, member);
  } else if constexpr (kind == detail::MemberKind::buffer) {
    if (member.defined()) this->buffer(name, member);
  } else if constexpr (kind == detail::MemberKind::training) {
    this->training(member);
  } else if constexpr (kind == submodule) {
    enter(name, detail::reference_to(member, wants_detail()));
    detail::walk(member, *this);
    leave();
  } else if constexpr (kind == layer) {
    enter(name, member.reference(wants_detail()));
    member.walk(*this);
    leave();
  } else if constexpr (kind == pointer) {
    if (member) {
      constexpr bool shared = detail::is_shared_pointer<std::remove_cv_t<Member>>;
      if constexpr (shared) enter_shared();
      (*this)(name, *member);
      if constexpr (shared) leave_shared();
    }
  } else if constexpr (kind == variant) {
    if (!member.valueless_by_exception()) {
      detail::visit_alternative([&](auto& held) { (*this)(name, held); }, member);
    }
  } else if constexpr (kind != nothing) {
    enter(name, {});
    if constexpr (kind == tuple) {
      std::apply(
          [&](auto&... element) {
            std::size_t position = 0;
            ((*this)(std::to_string(position++), element), ...);
          },
          member);
    } else if constexpr (kind == map) {
      detail::walk_map(member, *this);
    } else if constexpr (kind == list) {
      std::size_t position = 0;
      for (auto& element : member) (*this)(std::to_string(position++), element);
    } else if constexpr (kind == names_members) {
      member.visit(*this);
    } else {
      detail::walk_members<false>(member, *this);
    }
    leave();
  }
  return *this;
}

}  // namespace extensor::nn

EXTENSOR_END_API
