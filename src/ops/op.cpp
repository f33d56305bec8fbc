#include "ops/op.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/check.h"
#include "ops/autocast.h"
#include "ops/call_log.h"
#include "ops/launch.h"

namespace extensor::ops {

using detail::message;
using detail::NodePointer;
using detail::Saved;
using detail::SavedResult;

namespace {

// Here, because every program that calls ops links this file.
[[maybe_unused]] const bool logs_calls = start_call_log();

struct Placement {
  Device device;
  bool mixed = false;  // some inputs act as numbers among tensors of the device
};

// Checks that required inputs are defined, and returns their device.
void check_real_inputs(const Op& op, Inputs inputs) {
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].defined() || !is_complex(inputs[k].dtype())) continue;
    const char* argument = op.inputs[op.input_count == 0 ? 0 : k];
    check_real(op.name, argument == nullptr ? "an input" : argument, inputs[k]);
  }
}

Placement common_device(const Op& op, Inputs inputs) {
  const Tensor* first = nullptr;
  bool mixed = false;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& x = inputs[k];
    if (!x.defined()) {
      if (op.input_count != 0 && (op.optional >> k & 1) != 0) continue;
      detail::throw_undefined_tensor();
    }
    if (first == nullptr) {
      first = &x;
    } else if (!(x.device() == first->device())) {
      mixed = true;
      if (acts_as_number(*first)) {
        first = &x;
      } else if (!acts_as_number(x)) {
        throw DeviceError(message(op.name, ": operands are on different devices: ", first->device(),
                                  " and ", x.device()));
      }
    }
  }
  return {first == nullptr ? cpu_device : first->device(), mixed};
}

bool records(const Op& op, const void* attributes, Inputs inputs) {
  if (!op.differentiable || !detail::recording_enabled()) return false;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (detail::tracked(inputs[k]) && !op.reads_of(op, attributes, k).has(no_gradient)) return true;
  }
  return false;
}

bool casts(const Op& op, std::size_t k, const Tensor& x) {
  if (op.input_count != 0 && (op.cast_along >> k & 1) != 0) return false;
  return op.cast == Cast::down ? lowers_one(x) : raises(x);
}

// Calls the op with `function` applied to every input, such as a recorded cast or copy.
template <class Function>
Results dispatch_changed(const Op& op, const void* attributes, Inputs inputs,
                         const Function& function) {
  std::vector<Tensor> changed(inputs.size());
  std::vector<const Tensor*> list(inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    changed[k] = function(inputs[k]);
    list[k] = &changed[k];
  }
  return dispatch(op, attributes, Inputs(list.data(), list.size()));
}

bool is_an_input(const Tensor& result, Inputs inputs) {
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].impl_or_null() == result.impl_or_null()) return true;
  }
  return false;
}

void record(const Op& op, const void* attributes, Inputs inputs, Results& results) {
  // An op that returns its input unchanged, such as dropout with p = 0, is not recorded.
  if (results.size() == 1 && is_an_input(results[0], inputs)) return;
  OpNode* made = op.make_node(op, attributes, inputs.size(), results.size());
  const NodePointer node(made);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!op.reads_of(op, attributes, k).has(no_gradient)) detail::link(*made, k, inputs[k]);
  }
  made->save(inputs, {results.begin(), results.size()});
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!results[k].defined() || !is_differentiable(results[k].dtype())) continue;
    results[k] = detail::adopt(node, std::move(results[k]), static_cast<std::uint32_t>(k));
  }
}

// Reports the call to the hook, and runs the ops inside it without the hook.
Results dispatch_captured(detail::CaptureHook hook, const Op& op, const void* attributes,
                          Inputs inputs) {
  const std::int64_t began = detail::steady_nanoseconds();
  const detail::CaptureScope off(nullptr);
  Results results = dispatch(op, attributes, inputs);
  detail::captured_since = began;
  hook(op, attributes, inputs, {results.begin(), results.size()});
  return results;
}

}  // namespace

const char* Run::name() const { return op.name; }

Results dispatch(const Op& op, const void* attributes, Inputs inputs) {
  if (op.row) [[unlikely]] {  // its forward finds the device, records and captures the call
    return op.forward({op, cpu_device, false}, attributes, inputs);
  }
  if (const detail::CaptureHook hook = detail::context.capture; hook != nullptr) [[unlikely]] {
    return dispatch_captured(hook, op, attributes, inputs);
  }
  if (op.cast != Cast::none && detail::context.autocast) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!casts(op, k, inputs[k])) continue;
      return dispatch_changed(op, attributes, inputs, [&](const Tensor& x) {
        return op.cast == Cast::down ? lowered(x) : raised(x);
      });
    }
  }
  const bool recorded = records(op, attributes, inputs);
  const auto [device, mixed] = common_device(op, inputs);
  if (!op.complex) check_real_inputs(op, inputs);
  if (mixed) [[unlikely]] {
    return dispatch_changed(op, attributes, inputs, [device = device](const Tensor& x) {
      return x.defined() ? x.to(device) : x;
    });
  }
  const Run run{op, device, recorded};
  Results results = recorded
                        ? detail::unrecorded([&] { return op.forward(run, attributes, inputs); })
                        : op.forward(run, attributes, inputs);
  if (recorded) record(op, attributes, inputs, results);
  if (op.view) {
    for (Tensor& view : results) view = detail::as_view_of(inputs[0], std::move(view));
  }
  return results;
}

// ---- a recorded call

std::string CallNode::describe() const {
  return message(name(), "(", op_.attributes->describe(attributes()), ")");
}

bool same_call(const CallNode& a, const CallNode& b) {
  return &a.op() == &b.op() && a.op().attributes->equal(a.attributes(), b.attributes());
}

Results replay(const CallNode& node, Inputs inputs) {
  return dispatch(node.op(), node.attributes(), inputs);
}

void OpNode::save(Inputs inputs, std::span<const Tensor> results) {
  Reads reads;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (edges()[k].node.get() != nullptr) reads = reads | op().reads_of(op(), attributes(), k);
  }
  const std::uint64_t inputs_read = reads.bits & 0xFFFF, results_read = reads.bits >> 16 & 0xFFFF,
                      shapes_read = reads.bits >> 32 & 0xFFFF;
  // Lists extend to the last item read, so most nodes allocate nothing for them.
  const auto length = [](std::uint64_t bits) {
    return static_cast<std::size_t>(64 - std::countl_zero(bits));
  };
  const bool list = op().input_count == 0;
  inputs_ =
      detail::FixedList<Saved, 3>(list && inputs_read != 0 ? inputs.size() : length(inputs_read));
  const bool constants_only = list && inputs_read == constants.bits;
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const bool read = constants_only ? op().reads_of(op(), attributes(), k).has(no_gradient)
                                     : list || (inputs_read >> k & 1) != 0;
    if (read) inputs_[k] = Saved(inputs[k]);
  }
  results_ = detail::FixedList<SavedResult, 1>(length(results_read));
  for (std::size_t k = 0; k < results_.size(); ++k) {
    if ((results_read >> k & 1) == 0 || !results[k].defined()) continue;
    results_[k] = SavedResult(results[k], static_cast<std::uint32_t>(k));
  }
  shapes_ =
      detail::FixedList<Shape, 1>(list && shapes_read != 0 ? inputs.size() : length(shapes_read));
  for (std::size_t k = 0; k < shapes_.size(); ++k) {
    if (inputs[k].defined()) shapes_[k] = inputs[k].shape();
  }
}

Gradients OpNode::backward(Gradients& grad_outputs) {
  Gradients gradients = op().gradient(GradientCall(*this, grad_outputs), attributes());
  const std::size_t given = gradients.size(), count = edges().size();
  for (std::size_t k = 0; k < std::min(given, count); ++k) {
    const detail::Edge& edge = edges()[k];
    if (edge.node.get() != nullptr && gradients[k].defined() &&
        gradients[k].dtype() != edge.dtype) {
      gradients[k] = gradient_as(gradients[k], edge.dtype);
    }
  }
  if (given >= count) return gradients;
  // Trailing inputs that are constants have no gradients.
  Gradients all(count);
  std::move(gradients.begin(), gradients.end(), all.begin());
  return all;
}

void OpNode::drop() {
  inputs_ = {};
  results_ = {};
}

namespace {

// Item k of the list that a node saved.
template <class List>
const auto& saved_item(const List& list, std::size_t k, const OpNode& node, const char* kind) {
  if (k < list.size()) [[likely]] {
    return list[k];
  }
  throw ValueError(message(node.name(), ": its gradient reads ", kind, " ", k,
                           ", which the op does not declare to read"));
}

}  // namespace

const Tensor& GradientCall::input(std::size_t k) const {
  return saved_item(node_.inputs_, k, node_, "input").get(node_);
}
Tensor GradientCall::result(std::size_t k) const {
  return saved_item(node_.results_, k, node_, "result").get(node_);
}
const Shape& GradientCall::shape(std::size_t k) const {
  return saved_item(node_.shapes_, k, node_, "the shape of input");
}
bool GradientCall::needs(std::size_t k) const { return node_.needs(k); }
std::size_t GradientCall::inputs() const { return node_.edges().size(); }
const char* GradientCall::name() const { return node_.name(); }

}  // namespace extensor::ops
