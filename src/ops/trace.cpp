#include "ops/trace.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "backend/device.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "ops/expression.h"
#include "ops/launch.h"

namespace extensor::ops {

namespace {

using backend::FormulaStep;
using backend::FormulaValue;
using expression::Value;

// Also tells 0 from −0; a NaN equals itself.
bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
bool same(const FormulaValue& a, const FormulaValue& b) {
  return a.kind == b.kind && a.index == b.index && same(a.number, b.number);
}
bool same(const FormulaStep& a, const FormulaStep& b) {
  if (a.op != b.op || a.input_count != b.input_count) return false;
  for (int k = 0; k < a.input_count; ++k) {
    if (!same(a.inputs[k], b.inputs[k])) return false;
  }
  return same(a.parameters[0], b.parameters[0]) && same(a.parameters[1], b.parameters[1]);
}

}  // namespace

Trace::Trace(DType compute) : compute_(compute) {
  static std::atomic<std::uint32_t> last{0};
  do serial_ = ++last;
  while (serial_ == 0);
}

// Nodes below 0 are inputs.
Value Trace::make(std::int32_t node) const {
  Value value;
  value.trace_ = serial_;
  value.node_ = node;
  return value;
}

Value Trace::input(int index) const { return make(-1 - index); }

Trace& Trace::of(const Value& value) {
  const ExpressionScope* scope = ExpressionScope::current();
  Trace* trace = scope == nullptr ? nullptr : scope->trace();
  if (trace == nullptr || trace->serial_ != value.trace_) throw NotTraceable();
  return *trace;
}

FormulaValue Trace::value_of(const Value& value) const {
  if (value.is_number()) return {FormulaValue::Kind::number, 0, value.number()};
  if (value.trace_ != serial_) throw NotTraceable();
  return value.node_ < 0 ? FormulaValue{FormulaValue::Kind::input, -1 - value.node_, 0}
                         : FormulaValue{FormulaValue::Kind::step, value.node_, 0};
}

Value Trace::apply(backend::ElementwiseOp op, std::initializer_list<const Value*> values,
                   backend::Parameter first, backend::Parameter second) {
  FormulaStep step{op, 0, {}, {first.real, second.real}};
  for (const Value* value : values) step.inputs[step.input_count++] = value_of(*value);
  const auto found = std::find_if(steps_.begin(), steps_.end(),
                                  [&](const FormulaStep& other) { return same(step, other); });
  const auto node = static_cast<std::int32_t>(found - steps_.begin());
  if (found == steps_.end()) {
    if (steps_.size() == backend::max_formula_steps) throw NotTraceable();
    steps_.push_back(step);
  }
  return make(node);
}

namespace {

// Traces the function; false if it cannot be.
bool trace_function(const ChunkedCall& call, const ChunkFunction& function, Device device,
                    Trace& trace, backend::FormulaCall& formula) {
  std::vector<Value> in, out(call.outputs.size());
  try {
    for (const Tensor& input : call.inputs) {
      if (!input.defined()) {
        in.emplace_back(0);
      } else if (!(input.device() == device)) {
        in.emplace_back(input.item<double>());  // acts as a number
      } else {
        if (formula.input_count == backend::max_formula_inputs) return false;
        in.push_back(trace.input(formula.input_count));
        formula.inputs[formula.input_count++] = {input.impl().data, input.dtype(), nullptr};
      }
    }
    const ExpressionScope scope(call.eps, &trace);
    function(in, out);
    for (const Value& value : out) {
      const FormulaValue result = trace.value_of(value);
      const bool is_mask =
          result.kind == FormulaValue::Kind::step &&
          backend::is_test(trace.steps()[static_cast<std::size_t>(result.index)].op);
      if (is_mask) return false;
      formula.outputs[formula.output_count++].value = result;
    }
  } catch (const NotTraceable&) {
    return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Tensor>> evaluate_compiled(const ChunkedCall& call,
                                                     const ChunkFunction& function, Device device) {
  const auto run = backend::interface_of(device, call.operation).kernels.formula;
  const std::int64_t numel = detail::checked_numel(call.operation, call.shape);
  if (run == nullptr || numel == 0 || call.outputs.size() > backend::max_formula_outputs) {
    return std::nullopt;
  }
  backend::FormulaCall formula{};
  formula.operation = call.operation;
  formula.compute = call.compute;
  formula.shape = &call.shape;
  formula.numel = numel;
  Trace trace(call.compute);
  if (!trace_function(call, function, device, trace, formula)) return std::nullopt;
  formula.step_count = static_cast<int>(trace.steps().size());
  formula.steps = trace.steps().data();

  Strides strides[backend::max_formula_inputs];
  int next = 0;
  for (const Tensor& input : call.inputs) {
    if (!input.defined() || !(input.device() == device)) continue;
    strides[next] = compute_broadcast_strides(input.shape(), input.strides(), call.shape);
    formula.inputs[next].strides = strides[next].data();
    ++next;
  }
  std::vector<Tensor> results;
  for (std::size_t k = 0; k < call.outputs.size(); ++k) {
    results.push_back(detail::make_empty(call.operation, call.shape, call.outputs[k], device));
    formula.outputs[k].data = results[k].impl().data;
    formula.outputs[k].dtype = call.outputs[k];
  }
  if (!run(formula)) return std::nullopt;
  return results;
}

}  // namespace extensor::ops
