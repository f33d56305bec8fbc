// A walker that tracks the full name of each member.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "extensor/nn/walker.h"

namespace extensor::nn::detail {

class NamingWalker : public Walker {
 public:
  void enter(std::string_view name, const ModuleDescription&) override {
    lengths_.push_back(prefix_.size());
    prefix_.append(name).append(".");
  }
  void leave() override {
    prefix_.resize(lengths_.back());
    lengths_.pop_back();
  }
  void tensor(std::string_view name, const Tensor& tensor) override {
    Walker::tensor(named(name), tensor);
  }

 protected:
  // The full name, such as "layers.0.weight" for "weight".
  std::string named(std::string_view name) const { return prefix_ + std::string(name); }
  // The path of the current module, such as "layers.0"; empty for the outermost one.
  std::string_view path() const {
    return std::string_view(prefix_).substr(0, prefix_.empty() ? 0 : prefix_.size() - 1);
  }

 private:
  std::string prefix_;
  std::vector<std::size_t> lengths_;
};

}  // namespace extensor::nn::detail
