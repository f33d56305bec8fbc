// Checks of the tensors passed to a writer or a dataset, made before a file is touched. The tensors
// may be on any device: their elements are copied to the host.
#pragma once

#include <set>
#include <string>

#include "core/check.h"
#include "extensor/named_tensors.h"
#include "io/text.h"

namespace extensor::io {

// Throws ValueError for an undefined tensor.
inline void check_tensors(const std::string& label, const Tensor& tensor) {
  if (!tensor.defined()) throw ValueError(detail::message(label, " is undefined"));
}

// Also throws ValueError for a duplicate name and for a name that a file cannot contain.
inline void check_tensors(const std::string& label, const NamedTensors& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    const std::string place = detail::message(label, ": tensor ", in_quotes(name));
    if (const std::string_view fault = fault_of_name(name); !fault.empty()) {
      throw ValueError(detail::message(place, ": the name has ", fault));
    }
    if (!names.insert(name).second) {
      throw ValueError(detail::message(place, " is given twice (allowed: every name once)"));
    }
    check_tensors(place, tensor);
  }
}

// The elements in row-major order on the host, detached from the graph.
inline Tensor dense(const Tensor& tensor) { return tensor.detach().to(cpu_device).contiguous(); }

}  // namespace extensor::io
