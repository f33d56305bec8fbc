// Names of options in state dicts: the member names, with ".0" and ".1" for the two numbers of a
// pair, as in PyTorch.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "extensor/reflect.h"

namespace extensor::optim {

// Calls visit(name, field) for every field, which is a double or a bool.
template <class Options, class Visit>
void visit_fields(Options& options, const Visit& visit) {
  using Plain = std::remove_const_t<Options>;
  constexpr std::size_t n = reflect::member_count<Plain, false>;
  const auto visit_one = [&](const std::string& name, auto& field) {
    if constexpr (requires { field.first; }) {
      visit(name + ".0", field.first);
      visit(name + ".1", field.second);
    } else {
      visit(name, field);
    }
  };
  reflect::with_members<n>(options, [&](auto&... fields) {
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      (visit_one(std::string(reflect::member_name<Plain, n, k>()), fields), ...);
    }
    (std::make_index_sequence<n>());
  });
}

}  // namespace extensor::optim
