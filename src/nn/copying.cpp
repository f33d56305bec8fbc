// Copying and assigning parameters, both alone and as members of modules.
//
// C++ copies a module member by member, and no member knows about the others. But tied parameters
// must stay tied in the copy, and `model = best;` must write into the existing tensors of `model`,
// even if a member is a std::map or another container that creates new elements on assignment. So
// Module plans the copies of its parameters before C++ makes them: the plan says which tensor the
// copy of a parameter uses, and copying that parameter consumes the entry.
#include <cstring>
#include <map>
#include <memory>
#include <unordered_map>

#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/autograd.h"
#include "extensor/nn/module.h"
#include "nn/layer_checks.h"
#include "nn/naming_walker.h"

namespace extensor::nn {

using extensor::detail::message;

namespace {

bool is_same(const Tensor& a, const Tensor& b) { return a.impl_or_null() == b.impl_or_null(); }

// A planned copy of a parameter.
struct PlannedCopy {
  Tensor source;               // tensor of the parameter to copy
  std::shared_ptr<Tensor> to;  // shared by tied parameters; if undefined, the first copy creates it
};

// The plan, by source parameter. Empty except while a module is copied. An exception may leave
// entries, which forget_planned_copies() drops when a module is next used.
thread_local std::unordered_map<const Parameter*, PlannedCopy> plan;

// Returns null if there is no plan for `from`.
const PlannedCopy* find_planned(const Parameter& from) {
  const auto found = plan.find(&from);
  if (found == plan.end()) return nullptr;
  // A failed copy may have left an entry for another parameter at the same address.
  return is_same(found->second.source, from.tensor()) ? &found->second : nullptr;
}

std::shared_ptr<Tensor> take_planned(const Parameter& from) {
  const PlannedCopy* planned = plan.empty() ? nullptr : find_planned(from);
  if (planned == nullptr) return nullptr;
  std::shared_ptr<Tensor> to = planned->to;
  plan.erase(&from);
  return to;
}

// A leaf with these values in separate memory.
Tensor leaf_of(const Tensor& value) {
  if (!value.defined()) return {};
  const NoGrad off;
  Tensor leaf = value.detach().clone();
  return leaf.requires_grad_();
}

Tensor copied(const Tensor& parameter) {
  Tensor copy = leaf_of(parameter);
  if (copy.defined() && !parameter.requires_grad()) copy.requires_grad_(false);
  return copy;
}

// Whether the values of `from` can be written into the tensor `to`.
bool fits(const Tensor& to, const Tensor& from) {
  return to.defined() && from.defined() && to.shape() == from.shape();
}

// Assigns the values and dtype of `from` to `to`, which keeps its identity and device.
void write(Tensor& to, const Tensor& from) {
  if (is_same(to, from)) return;
  const NoGrad off;
  if (to.dtype() == from.dtype()) {
    to.copy_from(from.detach());
    return;
  }
  const Tensor grad = to.grad();
  const Tensor values = from.detach().to(to.device());
  extensor::detail::replace_elements(to, is_same(values, from) ? values.clone() : values);
  if (grad.defined()) to.set_grad(grad.to(to.dtype()));
}

// Executes a planned copy of `from` and returns its tensor.
Tensor fulfilled(const std::shared_ptr<Tensor>& to, const Tensor& from) {
  if (to->defined()) {
    write(*to, from);
  } else {
    *to = copied(from);
  }
  return *to;
}

}  // namespace

Parameter::Parameter(const Tensor& value) : Tensor(leaf_of(value)) {}

Parameter::Parameter(const Parameter& other) : Parameter() {
  const std::shared_ptr<Tensor> planned = take_planned(other);
  tensor() = planned ? fulfilled(planned, other.tensor()) : copied(other.tensor());
}

Parameter& Parameter::operator=(const Parameter& other) {
  if (this == &other) return *this;
  if (const std::shared_ptr<Tensor> planned = take_planned(other)) {
    tensor() = fulfilled(planned, other.tensor());
  } else if (fits(tensor(), other.tensor())) {
    write(tensor(), other.tensor());
  } else {
    tensor() = copied(other.tensor());
  }
  return *this;
}

// Writes values if the shapes match, which may throw.
// NOLINTNEXTLINE(performance-noexcept-move-constructor)
Parameter& Parameter::operator=(Parameter&& other) {
  if (this == &other) return *this;
  if (fits(tensor(), other.tensor())) {
    write(tensor(), other.tensor());
    other.tensor() = Tensor();
  } else {
    tensor() = std::move(other.tensor());
  }
  return *this;
}

void Parameter::tie_to(const Parameter& other) {
  if (!other.defined()) throw ValueError("tie_to: the other parameter is undefined");
  if (defined() && !(shape() == other.shape())) {
    throw ShapeError(message("tie_to: this parameter is ", shape(), ", the other one is ",
                             other.shape(), " (allowed: the same shape)"));
  }
  tensor() = other.tensor();
}

Buffer::Buffer(const Buffer& other) : Buffer() {
  if (!other.defined()) return;
  const NoGrad off;
  tensor() = other.tensor().detach().clone();
}

Buffer& Buffer::operator=(const Buffer& other) {
  if (this == &other) return *this;
  Buffer copy(other);
  // Stay on the current device, as parameters do.
  if (defined() && copy.defined()) copy.tensor() = copy.tensor().to(tensor().device());
  return *this = std::move(copy);
}

// ---- modules

namespace detail {

namespace {

struct Place {
  std::string name;
  Parameter* parameter;
  bool shared;  // held by a std::shared_ptr
};

class PlaceCollector final : public NamingWalker {
 public:
  void parameter(std::string_view name, Parameter& parameter) override {
    places.push_back({named(name), &parameter, shared_ > 0});
  }
  void tensor(std::string_view, const Tensor&) override {}
  void enter_shared() override { ++shared_; }
  void leave_shared() override { --shared_; }

  std::vector<Place> places;

 private:
  int shared_ = 0;
};

std::vector<Place> places_of(const Walk& walk) {
  PlaceCollector collector;
  walk(collector);
  return std::move(collector.places);
}

struct Match {
  Parameter* from;
  Tensor to;  // tensor that receives its values
};

// The parameters of `from` with a counterpart in `to`. Tied parameters of `from` get one tensor.
std::vector<Match> matches(const Walk& to, const Walk& from, bool is_copy) {
  std::map<std::string, Place> targets;
  for (Place& place : places_of(to)) targets.emplace(place.name, place);
  std::vector<Match> list;
  std::map<const void*, Tensor> target_of;        // by source tensor
  std::map<const void*, const Place*> source_of;  // by target tensor
  const std::vector<Place> sources = places_of(from);
  for (const Place& source : sources) {
    const auto found = targets.find(source.name);
    if (found == targets.end()) continue;
    const Tensor& tensor = source.parameter->tensor();
    const Tensor& target = found->second.parameter->tensor();
    if (source.shared || found->second.shared) {
      if (is_copy && !is_same(tensor, target)) {
        throw ValueError(
            message("assignment of a module: ", source.name,
                    " is behind a std::shared_ptr, so that both modules would share it afterwards "
                    "(to copy the values: model.load_state_dict(other.state_dict()))"));
      }
      continue;
    }
    if (!fits(target, tensor)) continue;
    const auto tied = target_of.find(tensor.impl_or_null());
    if (tied != target_of.end()) {
      list.push_back({source.parameter, tied->second});
      continue;
    }
    const auto [other, is_first] = source_of.emplace(target.impl_or_null(), &source);
    if (!is_first && !have_same_values(other->second->parameter->tensor(), tensor)) {
      throw ValueError(message("assignment of a module: ", other->second->name, " and ",
                               source.name,
                               " are tied in the module that is assigned to, but differ in the "
                               "other one"));
    }
    target_of.emplace(tensor.impl_or_null(), target);
    list.push_back({source.parameter, target});
  }
  return list;
}

}  // namespace

bool have_same_values(const Tensor& a, const Tensor& b) {
  if (is_same(a, b)) return true;
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const NoGrad off;
  const Tensor x = a.detach().to(cpu_device).contiguous(),
               y = b.detach().to(cpu_device).contiguous();
  return x.numel() == 0 || std::memcmp(extensor::detail::dense_data(x),
                                       extensor::detail::dense_data(y), x.nbytes()) == 0;
}

void forget_planned_copies() { plan.clear(); }

void begin_copy(const Walk& from) {
  std::map<const void*, std::vector<const Parameter*>> by_tensor;
  for (const Place& place : places_of(from)) {
    if (!place.shared)
      by_tensor[place.parameter->tensor().impl_or_null()].push_back(place.parameter);
  }
  for (const auto& [tensor, tied] : by_tensor) {
    // The plan of an enclosing module covers more.
    if (tied.size() < 2 || find_planned(*tied.front()) != nullptr) continue;
    const auto to = std::make_shared<Tensor>();
    for (const Parameter* parameter : tied) {
      plan.insert_or_assign(parameter, PlannedCopy{parameter->tensor(), to});
    }
  }
}

void begin_assignment(const Walk& to, const Walk& from) {
  for (const Match& match : matches(to, from, true)) {
    if (find_planned(*match.from) != nullptr) continue;  // planned by an enclosing module
    plan.insert_or_assign(match.from,
                          PlannedCopy{match.from->tensor(), std::make_shared<Tensor>(match.to)});
  }
}

void begin_move_assignment(const Walk& to, const Walk& from) {
  // The moved-from module adopts the tensors of the other one, and then returns them together with
  // its other members.
  for (Match& match : matches(to, from, false)) {
    write(match.to, match.from->tensor());
    match.from->tensor() = match.to;
  }
}

}  // namespace detail
}  // namespace extensor::nn
