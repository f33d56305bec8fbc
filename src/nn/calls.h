// Calls of modules: observers, and the names of types in messages.
#pragma once

#include <string>
#include <string_view>

#include "extensor/nn/module.h"

namespace extensor::nn::detail {

// Reports the calls of modules in this thread to an observer until the end of a scope.
class [[nodiscard]] ObserverScope {
 public:
  explicit ObserverScope(ModuleObserver& observer);
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
  ~ObserverScope();

 private:
  ModuleObserver* before_;
};

// Converts "ModuleList<net::Block>" to "ModuleList<Block>".
std::string unqualified(std::string_view type);

}  // namespace extensor::nn::detail
