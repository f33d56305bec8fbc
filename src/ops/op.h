// An op is a constant of type OpOf: its name, its inputs, the tensors that its gradient reads, a
// forward function and a gradient function. dispatch() implements the steps common to all ops: it
// determines the device, applies Autocast, runs the forward without recording, and records the call
// as a node that holds the op, its attributes and the saved tensors.
//
//   struct Axis { std::int64_t axis; };                                  // the attributes
//   Tensor softmax_forward(const Run&, const Axis&, const Tensor& x);    // checks, then one kernel
//   Gradients softmax_gradient(const GradientCall& call, const Axis& attributes) {
//     return softmax_backward(call.grad(), call.result(), attributes.axis);
//   }
//   constexpr auto softmax_op = define<softmax_forward, softmax_gradient>(
//       {.name = "softmax", .inputs = {"x"}, .reads = {result()}});
//
//   Tensor softmax(const Tensor& x, StrictInt axis) { return dispatch(softmax_op, {axis}, x); }
//
// A function composed of other ops needs none of this: its gradient follows from theirs.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "backend/device.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/tensor.h"
#include "ops/attributes.h"

namespace extensor::ops {

using detail::Gradients;
// The results of an op. Like gradients, some may be undefined.
using Results = detail::Gradients;

struct Op;
class OpNode;

inline constexpr std::size_t most_inputs = 16;  // of an op that does not take a list
inline constexpr std::size_t most_results = 8;

// The set of inputs, results and input shapes that the gradient of an input reads.
struct Reads {
  std::uint64_t bits = 0;
  constexpr Reads operator|(Reads other) const { return {bits | other.bits}; }
  constexpr bool has(Reads other) const { return (bits & other.bits) == other.bits; }
};
constexpr Reads nothing{};
constexpr Reads input(unsigned k) { return {std::uint64_t{1} << k}; }
constexpr Reads result(unsigned k = 0) { return {std::uint64_t{1} << (16 + k)}; }
constexpr Reads shape(unsigned k = 0) { return {std::uint64_t{1} << (32 + k)}; }
// The input is a constant of the op and never gets a gradient.
constexpr Reads no_gradient{std::uint64_t{1} << 63};
// For an op on a list: all constant inputs, such as the index tensors that follow x.
constexpr Reads constants{std::uint64_t{1} << 15};

// How an op treats its inputs under an Autocast: products cast float32 down to the half dtype,
// losses cast halves up to float32.
enum class Cast : std::uint8_t { none, down, up };

// The description that define() turns into an op.
struct OpFacts {
  const char* name;
  std::array<const char*, most_inputs> inputs;
  // The tensors and shapes that the gradient of each input reads. An op on a list has one entry.
  std::array<Reads, most_inputs> reads = {};
  Cast cast = Cast::none;
  std::uint32_t cast_along = 0;  // bit k: Autocast casts input k only if it casts another one
  bool view = false;             // the results share the memory of input 0
  bool complex = false;          // takes complex inputs; dispatch() refuses them otherwise
  bool row = false;              // an elementwise row, whose forward records the call itself
  std::uint32_t optional = 0;    // bit k: input k may be undefined
};

// The inputs of a call.
class Inputs {
 public:
  Inputs(const Tensor* const* first, std::size_t count) : first_(first), count_(count) {}
  std::size_t size() const { return count_; }
  const Tensor& operator[](std::size_t k) const { return *first_[k]; }

 private:
  const Tensor* const* first_;
  std::size_t count_;
};

// One execution of an op, as passed to its forward function.
struct Run {
  const Op& op;
  Device device;
  // Whether the call is recorded. If not, results that only the gradient reads stay undefined.
  bool recorded;

  const char* name() const;
  Tensor empty(const Shape& shape, DType dtype) const {
    return detail::make_empty(name(), shape, dtype, device);
  }
  const backend::Backend& kernels() const { return backend::interface_of(device).kernels; }
};

// One backward pass through a recorded call, as passed to the gradient function of the op.
class GradientCall {
 public:
  GradientCall(OpNode& node, Gradients& grads) : node_(node), grads_(grads) {}

  // The gradient of a result; undefined if nothing depends on that result.
  const Tensor& grad(std::size_t result = 0) const { return grads_[result]; }
  // The tensors and shapes that the op declares as reads of the requested gradients; an input that
  // only other gradients read may be undefined. Throws ValueError if a tensor was changed in place
  // since, or if the op does not declare the read.
  const Tensor& input(std::size_t k) const;
  Tensor result(std::size_t k = 0) const;
  const Shape& shape(std::size_t k = 0) const;
  // Whether the gradient of input k is requested; otherwise it may be left undefined.
  bool needs(std::size_t k) const;
  // Whether this is the last backward pass through the call, which may overwrite saved tensors.
  bool is_last() const { return detail::Node::dropping; }
  std::size_t inputs() const;
  const char* name() const;

 private:
  OpNode& node_;
  Gradients& grads_;
};

// A type-erased op: the form that the registry, the graph and dispatch() use.
struct Op : OpFacts {
  std::uint8_t input_count;  // 0: a list
  bool differentiable;
  const AttributeType* attributes;

  Results (*forward)(const Run&, const void* attributes, Inputs);
  Gradients (*gradient)(const GradientCall&, const void* attributes);
  // The reads of the gradient of input k, for these attributes.
  Reads (*reads_of)(const Op&, const void* attributes, std::size_t k);
  OpNode* (*make_node)(const Op&, const void* attributes, std::size_t inputs, std::size_t results);
};

namespace typed {

// The forward function of an op on `count` tensors, or on a list.
template <class Attributes, class Result, class Counts>
struct Function;
template <class Attributes, class Result, std::size_t... k>
struct Function<Attributes, Result, std::index_sequence<k...>> {
  template <std::size_t>
  using Input = const Tensor&;
  using Type = Result (*)(const Run&, const Attributes&, Input<k>...);
};
template <class Attributes, class Result>
struct Function<Attributes, Result, std::index_sequence<>> {
  using Type = Result (*)(const Run&, const Attributes&, Inputs);
};

}  // namespace typed

template <class Attributes, class Result, std::size_t count>
struct OpOf : Op {
  typename typed::Function<Attributes, Result, std::make_index_sequence<count>>::Type function;
};

// A recorded call of an op, which can be printed, compared and replayed.
class CallNode : public detail::Node {
 public:
  // `name` is the function called: "add_" for the op "add" in place.
  CallNode(const Op& op, const char* name, std::size_t inputs, std::size_t results)
      : Node(name, inputs, static_cast<std::uint32_t>(results)), op_(op) {}

  const Op& op() const { return op_; }
  virtual const void* attributes() const = 0;
  std::string describe() const override;

 private:
  const Op& op_;
};

// A call that dispatch() recorded.
class OpNode : public CallNode {
 public:
  OpNode(const Op& op, std::size_t inputs, std::size_t results)
      : CallNode(op, op.name, inputs, results) {}

  void save(Inputs inputs, std::span<const Tensor> results);
  Gradients backward(Gradients& grad_outputs) override;
  void drop() override;

 private:
  friend class GradientCall;

  detail::FixedList<detail::Saved, 3> inputs_;
  detail::FixedList<detail::SavedResult, 1> results_;
  detail::FixedList<Shape, 1> shapes_;
};

template <class Attributes>
class OpNodeOf final : public OpNode {
 public:
  OpNodeOf(const Op& op, const Attributes& attributes, std::size_t inputs, std::size_t results)
      : OpNode(op, inputs, results), attributes_(attributes) {}
  const void* attributes() const override { return &attributes_; }

 private:
  Attributes attributes_;
};

// ---- from typed functions to an Op

namespace typed {

template <class Function>
struct Forward;

// Result forward(const Run&, const Attributes&, const Tensor& x, …)
template <class Returned, class A, class... Tensors>
struct Forward<Returned (*)(const Run&, const A&, Tensors...)> {
  using Attributes = A;
  using Result = Returned;
  static constexpr std::size_t count = sizeof...(Tensors);
  template <auto function, std::size_t... k>
  static Results call(const Run& run, const void* attributes, Inputs in,
                      std::index_sequence<k...>) {
    return function(run, *static_cast<const A*>(attributes), in[k]...);
  }
  template <auto function>
  static Results run(const Run& run, const void* attributes, Inputs in) {
    return call<function>(run, attributes, in, std::make_index_sequence<count>());
  }
};

// Result forward(const Run&, const Attributes&, Inputs list)
template <class Returned, class A>
struct Forward<Returned (*)(const Run&, const A&, Inputs)> {
  using Attributes = A;
  using Result = Returned;
  static constexpr std::size_t count = 0;
  template <auto function>
  static Results run(const Run& run, const void* attributes, Inputs in) {
    return function(run, *static_cast<const A*>(attributes), in);
  }
};

}  // namespace typed

// Defines an op from a forward function, a gradient function (nullptr if it has none) and, if the
// reads depend on the attributes, a function `Reads reads(const Attributes&, size_t k)`.
template <auto forward, auto gradient = nullptr, auto reads = nullptr>
consteval auto define(const OpFacts& facts) {
  using Typed = typed::Forward<decltype(forward)>;
  using Attributes = typename Typed::Attributes;
  OpOf<Attributes, typename Typed::Result, Typed::count> op{};
  static_cast<OpFacts&>(op) = facts;
  op.input_count = Typed::count;
  op.attributes = &attribute_type<Attributes>;
  op.function = forward;
  op.forward = &Typed::template run<forward>;
  op.differentiable = !std::is_null_pointer_v<decltype(gradient)>;
  if constexpr (!std::is_null_pointer_v<decltype(gradient)>) {
    op.gradient = [](const GradientCall& call, const void* attributes) -> Gradients {
      return gradient(call, *static_cast<const Attributes*>(attributes));
    };
  }
  if constexpr (std::is_null_pointer_v<decltype(reads)>) {
    op.reads_of = [](const Op& op, const void*, std::size_t k) {
      return op.reads[op.input_count == 0 ? 0 : k];
    };
  } else {
    op.reads_of = [](const Op&, const void* attributes, std::size_t k) -> Reads {
      return reads(*static_cast<const Attributes*>(attributes), k);
    };
  }
  op.make_node = [](const Op& op, const void* attributes, std::size_t inputs,
                    std::size_t results) -> OpNode* {
    return new OpNodeOf<Attributes>(op, *static_cast<const Attributes*>(attributes), inputs,
                                    results);
  };
  return op;
}

// ---- calling an op

// Attributes that several families of ops share.
struct NoAttributes {};
struct AxisAttribute {
  std::int64_t axis;
};

// Throws DeviceError if inputs are on different devices; 0-d tensors on the CPU count as numbers
// and are copied instead. Throws ValueError if a required input is undefined.
Results dispatch(const Op& op, const void* attributes, Inputs inputs);

// Whether a call needs nothing but its forward function: all inputs are on the CPU, none is
// recorded, and neither Autocast nor a capture is on. Most calls of small ops are such, and the
// other steps of dispatch() would take a tenth of their time.
template <class... X>
bool is_plain(const Op& op, const X&... inputs) {
  const detail::Context& modes = detail::context;
  if (op.row || op.view || modes.capture != nullptr || modes.autocast) return false;
  std::uint32_t optional = op.optional;
  const auto plain = [&](const Tensor& x) {
    const bool may_be_undefined = (optional & 1) != 0;
    optional >>= 1;
    const detail::TensorImpl* impl = x.impl_or_null();
    if (impl == nullptr) return may_be_undefined;
    return impl->storage->device.type == Device::Type::cpu && !is_complex(impl->dtype) &&
           !(modes.recording && detail::tracked(x));
  };
  return (plain(inputs) && ...);
}

template <class Attributes, class Result, std::size_t count, class... X>
requires(sizeof...(X) == count && count > 0) Result
    dispatch(const OpOf<Attributes, Result, count>& op,
             const std::type_identity_t<Attributes>& attributes, const X&... inputs) {
  if (is_plain(op, inputs...)) [[likely]] {
    return op.function({op, cpu_device, false}, attributes, inputs...);
  }
  const Tensor* const list[] = {&inputs...};
  Results results = dispatch(op, &attributes, Inputs(list, count));
  if constexpr (std::is_same_v<Result, Tensor>) {
    return std::move(results[0]);
  } else {
    return results;
  }
}

// Whether a call on x is recorded or captured. If not, very cheap ops, such as views, skip
// dispatch().
inline bool is_observed(const Tensor& x) {
  return detail::records(x) || detail::context.capture != nullptr;
}

// Overload for an op on a list.
template <class Attributes, class Result>
Result dispatch(const OpOf<Attributes, Result, 0>& op,
                const std::type_identity_t<Attributes>& attributes,
                std::span<const Tensor> inputs) {
  std::vector<const Tensor*> list;
  list.reserve(inputs.size());
  for (const Tensor& x : inputs) list.push_back(&x);
  Results results = dispatch(op, &attributes, Inputs(list.data(), list.size()));
  if constexpr (std::is_same_v<Result, Tensor>) {
    return std::move(results[0]);
  } else {
    return results;
  }
}

// Whether two recorded calls have the same op and attributes.
bool same_call(const CallNode& a, const CallNode& b);
// Runs a recorded call again on other inputs. Numbers are attributes; the list has undefined
// tensors in their place. A call in place returns a new tensor.
Results replay(const CallNode& node, Inputs inputs);

}  // namespace extensor::ops
