#include "ops/record_elementwise.h"

#include <optional>
#include <string>
#include <vector>

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/dual.h"
#include "extensor/elementwise.h"
#include "ops/chunks.h"
#include "ops/complex_gradient.h"
#include "ops/gradient_eps.h"
#include "ops/summed_row.h"

namespace extensor::ops {

using detail::Gradients;
using detail::NodePointer;
using detail::Saved;
using detail::SavedResult;
using expression::Dual;
using expression::Value;

namespace {

Value value_of(const Tensor& x, DType compute) { return Value(x.to(compute)); }

Tensor tensor_of(const Value& value, const Tensor& like, DType dtype) {
  return value.is_number() ? full_like(like, value.number(), dtype) : value.elements();
}

// A node is made before the result is written. In a call in place, `written` is the tensor that is
// about to be overwritten, and the node saves copies of the operands in its memory.
class RowNode final : public CallNode {
 public:
  RowNode(const RowCall& call, const Shape& shape, const Tensor* written = nullptr)
      : CallNode(row_role(call.op).op, call.operation, call.inputs.size(), 1),
        call_(call, written != nullptr),
        role_(row_role(call.op)),
        ieee_(gradient_eps() == 0) {
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      const Source& input = call.inputs[k];
      Operand& operand = operands_[k];
      operand.dtype = input.dtype();
      if (!input.is_tensor()) continue;
      const Tensor& x = input.tensor();
      detail::link(*this, k, x);
      operand.device = x.device();
      operand.stretched = !(x.shape() == shape);
      if (operand.stretched) operand.shape = x.shape();
      const bool kept =
          is_complex(call.compute) ? complex_gradient_reads(call.op, k) : keeps(call.inputs, k);
      if (kept) operand.saved = Saved(survives(x, written) ? x : copy_of(x));
    }
  }

  const void* attributes() const override { return &call_; }

  void save_result(const Tensor& output) {
    if (op().reads[0].has(result())) result_ = SavedResult(output);
  }

  Gradients backward(Gradients& grad_outputs) override {
    Gradients gradients(edges().size());
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      if (needs(k)) gradients[k] = gradient(k, grad_outputs[0]);
    }
    return gradients;
  }
  void drop() override {
    for (Operand& operand : operands_) operand.saved = Saved();
    result_ = SavedResult();
  }

 private:
  static bool survives(const Tensor& x, const Tensor* written) {
    return written == nullptr || x.impl().storage.get() != written->impl().storage.get();
  }
  // Copies the elements and the history that x has before it is written.
  static Tensor copy_of(const Tensor& x) {
    Tensor copy = detail::unrecorded([&] { return x.clone(); });
    if (detail::tracked(x)) copy = detail::adopt(x.impl().node, std::move(copy), x.impl().output);
    return copy;
  }

  struct Operand {
    Saved saved;  // undefined if no gradient reads it
    DType dtype = DType::float32;
    Device device;  // for the gradient: a 0-d CPU operand may mix with another device
    bool stretched = false;
    Shape shape;  // if it differs from the shape of the result
  };

  // Whether a requested gradient reads operand k.
  bool keeps(std::span<const Source> inputs, std::size_t k) const {
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      if (op().reads[j].has(input(static_cast<unsigned>(k))) && inputs[j].is_tensor() &&
          detail::tracked(inputs[j].tensor())) {
        return true;
      }
    }
    return false;
  }

  double eps_of_gradient() const { return ieee_ ? 0 : gradient_eps(); }

  // Operand k for a kernel; 0 if the kernel does not read it.
  Source source(std::size_t k) const {
    if (const std::optional<Source>& number = call_.numbers[k]) return *number;
    const Tensor& x = operands_[k].saved.get(*this);
    return x.defined() ? Source(x) : Source(0.0, DType::float64);
  }

  Tensor gradient(std::size_t k, const Tensor& g) {
    if (is_complex(call_.compute)) [[unlikely]] {
      return fitted(complex_gradient(k, g), k);
    }
    if (role_.unary != nullptr) {
      return role_.gradient < 0 ? unary_gradient(g) : gradient_of_unary_backward(k, g);
    }
    if (role_.binary != nullptr) {
      return role_.gradient < 0 ? binary_gradient(*role_.binary, k, g)
                                : gradient_of_binary_gradient(k, g);
    }
    const Source zero(0.0, DType::float64);
    if (call_.row == ElementwiseOp::where) {
      const Source inputs[] = {source(0), k == 1 ? Source(g) : zero, k == 1 ? zero : Source(g)};
      return kernel(ElementwiseOp::where, name(), g, inputs, k, {});
    }
    if (call_.row == ElementwiseOp::fma && k < 2) {
      return binary_gradient(*row_role(ElementwiseOp::multiply).binary, k, g);
    }
    return fitted(g, k);  // copy, and the addend of fma
  }

  // The gradient of operand k of a call on complex numbers, in the convention of PyTorch: where the
  // function is holomorphic, g times the conjugate of its derivative.
  Tensor complex_gradient(std::size_t k, const Tensor& g) {
    const auto operand = [&](std::size_t j) {
      if (const std::optional<Source>& number = call_.numbers[j]) {
        return full({}, number->scalar(), {call_.compute, cpu_device});
      }
      const Tensor x = operands_[j].saved.get(*this);
      // A real operand acts as a complex number, whose powers and logarithms differ below 0.
      const bool is_condition = call_.row == ElementwiseOp::where && j == 0;
      return is_condition ? x : x.to(call_.compute);
    };
    return ops::complex_gradient(call_.row, k, g, operand);
  }

  Tensor unary_gradient(const Tensor& g) {
    const UnaryGradient& row = *role_.unary;
    const Tensor saved = !row.reads_saved   ? g
                         : row.saves_result ? result_.get(*this)
                                            : operands_[0].saved.get(*this);
    const Source inputs[] = {g, saved};
    const DType wide = promote_types(g.dtype(), saved.dtype());
    const Parameter eps{eps_of_gradient(), 0};
    return evaluate(row.backward, row.backward_name, compute_dtype(wide), operands_[0].dtype,
                    inputs, row.takes_eps ? eps : call_.first,
                    row.takes_eps ? Parameter{} : call_.second);
  }

  // The call is backward(g0, saved), linear in g0.
  Tensor gradient_of_unary_backward(std::size_t k, const Tensor& g) {
    const UnaryGradient& row = *role_.unary;
    if (k == 0) {
      const Tensor& saved = operands_[1].saved.get(*this);
      const Source inputs[] = {g, saved.defined() ? saved : g};
      return evaluate(call_.row, name(), compute_dtype(promote_types(g.dtype(), inputs[1].dtype())),
                      operands_[0].dtype, inputs, call_.first, call_.second);
    }
    const Tensor& saved = operands_[1].saved.get(*this);
    if (!saved.defined()) return {};
    const double parameters[] = {call_.first.real, call_.second.real};
    return second_gradient(row, name(), parameters, g, operands_[0].saved.get(*this), saved);
  }

  Tensor binary_gradient(const BinaryGradient& row, std::size_t k, const Tensor& g) {
    if (row.texts[k] == "g") return fitted(g, k);
    const Source inputs[] = {g, source(0), source(1)};
    const Parameter eps{row.takes_eps ? eps_of_gradient() : 0, 0};
    return kernel(row.gradients[k], row.backward_name, g, inputs, k, eps);
  }

  // The call is gradient_a(g0, a, b) or gradient_b, linear in g0.
  Tensor gradient_of_binary_gradient(std::size_t k, const Tensor& g) {
    const Source inputs[] = {g, source(1), source(2)};
    if (k == 0) return kernel(call_.row, name(), g, inputs, 0, call_.first);
    if (!role_.binary->reads[role_.gradient][k - 1]) return {};
    const Tensor& g0 = operands_[0].saved.get(*this);
    DType wide = promote_types(g.dtype(), g0.dtype());
    for (std::size_t j = 1; j < 3; ++j) {
      if (inputs[j].is_tensor()) wide = promote_types(wide, inputs[j].dtype());
    }
    const DType compute = compute_dtype(wide);
    const auto operand = [&](std::size_t j) {
      const Source& from = inputs[j];
      if (from.is_tensor()) return value_of(from.tensor(), compute);
      return Value(from.real());
    };
    const Value along = value_of(g, compute);
    const Value zero(0);
    const EpsScope ieee(0);  // the row applies its own floor, in call_.first
    const Dual derivative = role_.binary->expressions[role_.gradient](
        &call_.first.real, Dual(value_of(g0, compute)), Dual(operand(1), k == 1 ? along : zero),
        Dual(operand(2), k == 2 ? along : zero));
    return fitted(tensor_of(derivative.derivative(), g, compute), k);
  }

  // Runs a kernel on g and operands, and sums the result to the shape of operand k.
  Tensor kernel(ElementwiseOp op, const char* operation, const Tensor& g,
                std::span<const Source> inputs, std::size_t k, Parameter first) {
    DType wide = g.dtype();
    for (const Source& input : inputs) {
      if (input.is_tensor() && input.dtype() != DType::bool_) {
        wide = promote_types(wide, input.dtype());
      }
    }
    const DType compute = compute_dtype(wide);
    const Operand& operand = operands_[k];
    if (operand.stretched) {
      return evaluate_summed(op, operation, compute, operand.dtype, inputs, operand.shape, first)
          .to(operand.device);
    }
    return fitted(evaluate(op, operation, compute, operand.dtype, inputs, first), k);
  }

  Tensor fitted(const Tensor& full, std::size_t k) {
    const Operand& operand = operands_[k];
    return fitted_to(full, operand.stretched ? operand.shape : full.shape(), operand.dtype)
        .to(operand.device);
  }

  RowAttributes call_;
  const RowRole& role_;
  bool ieee_;  // recorded with eps = 0: inside a gradient, which applies its own floor
  Operand operands_[backend::max_inputs];
  SavedResult result_;
};

// ---- recording

bool records(const RowCall& call) {
  if (!is_differentiable(call.dtype)) return false;
  for (const Source& input : call.inputs) {
    if (input.is_tensor() && detail::tracked(input.tensor())) return detail::recording_enabled();
  }
  return false;
}

void capture(detail::CaptureHook hook, const RowCall& call, bool in_place, const Tensor& result) {
  static const Tensor undefined;
  const RowAttributes attributes(call, in_place);
  const Tensor* list[backend::max_inputs] = {};
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    list[k] = call.inputs[k].is_tensor() ? &call.inputs[k].tensor() : &undefined;
  }
  hook(row_role(call.op).op, &attributes, ops::Inputs(list, call.inputs.size()), {&result, 1});
}

}  // namespace

RowAttributes::RowAttributes(const RowCall& call, bool in_place)
    : row(call.op),
      compute(call.compute),
      dtype(call.dtype),
      first(call.first),
      second(call.second),
      in_place(in_place) {
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    if (!call.inputs[k].is_tensor()) numbers[k].emplace(call.inputs[k]);
  }
}

void record_row(const RowCall& call, Tensor& result) {
  if (records(call)) {
    auto* node = new RowNode(call, result.shape());
    NodePointer owner(node);
    node->save_result(result);
    result = detail::adopt(std::move(owner), std::move(result));
  }
  if (const detail::CaptureHook hook = detail::context.capture; hook != nullptr) [[unlikely]] {
    capture(hook, call, false, result);
  }
}

Tensor& write_in_place(const RowCall& call, Tensor& x) {
  detail::note_call_begin();
  bool complex = is_complex(x.dtype());
  for (const Source& input : call.inputs) complex |= is_complex(input.dtype());
  if (complex) [[unlikely]] {
    check_complex_row(call.op, call.operation, call.compute, call.inputs, x.device());
  }
  const bool recorded = records(call), rewrites = recorded || detail::has_history(x);
  if (rewrites) detail::check_in_place(call.operation, x);
  RowNode* node = recorded ? new RowNode(call, x.shape(), &x) : nullptr;
  NodePointer owner(node);
  launch(call.op, call.compute, call.inputs, x, call.first, call.second);
  detail::wrote(x);
  if (recorded) node->save_result(x);
  if (rewrites) detail::rewrite_history(x, std::move(owner));
  if (const detail::CaptureHook hook = detail::context.capture; hook != nullptr) [[unlikely]] {
    capture(hook, call, true, x);
  }
  return x;
}

// ---- rows as ops

constinit const AttributeType row_attribute_type{
    [](const void* attributes) {
      const auto& call = *static_cast<const RowAttributes*>(attributes);
      const RowRole& role = row_role(call.row);
      std::string text;
      const auto add = [&](const char* name, const auto& value) {
        text += detail::message(text.empty() ? "" : ", ", name, "=", value);
      };
      for (std::size_t k = 0; k < role.op.input_count; ++k) {
        if (call.numbers[k]) add(role.op.inputs[k], call.numbers[k]->scalar());
      }
      const double values[] = {call.first.real, call.second.real};
      for (int k = 0; k < 2; ++k) {
        if (role.parameters[k] != nullptr) add(role.parameters[k], values[k]);
      }
      if (call.row == ElementwiseOp::copy) add("dtype", call.dtype);
      return text;
    },
    [](const void* a, const void* b) {
      const auto& x = *static_cast<const RowAttributes*>(a);
      const auto& y = *static_cast<const RowAttributes*>(b);
      for (std::size_t k = 0; k < x.numbers.size(); ++k) {
        if (x.numbers[k].has_value() != y.numbers[k].has_value()) return false;
        if (x.numbers[k] && !field::equal_scalar(x.numbers[k]->scalar(), y.numbers[k]->scalar())) {
          return false;
        }
      }
      return x.row == y.row && x.compute == y.compute && x.dtype == y.dtype &&
             x.in_place == y.in_place && field::equal(x.first.real, y.first.real) &&
             field::equal(x.second.real, y.second.real) && x.first.integer == y.first.integer &&
             x.second.integer == y.second.integer;
    }};

Results run_row(const Run& run, const void* attributes, Inputs inputs) {
  const auto& call = *static_cast<const RowAttributes*>(attributes);
  std::vector<Source> operands;
  for (std::size_t k = 0; k < run.op.input_count; ++k) {
    const std::optional<Source>& number = call.numbers[k];
    operands.push_back(number ? *number : Source(inputs[k]));
  }
  return evaluate(call.row, run.name(), call.compute, call.dtype, operands, call.first,
                  call.second);
}

Tensor fitted_to(const Tensor& full, const Shape& shape, DType dtype) {
  if (full.shape() == shape) return gradient_as(full, dtype);
  return gradient_as(reduce_broadcast_dims(full, shape), dtype);
}

Tensor second_gradient(const UnaryGradient& row, const char* operation, const double* parameters,
                       const Tensor& gradient, const Tensor& grad_output, const Tensor& saved) {
  const DType wide =
      promote_types(promote_types(gradient.dtype(), grad_output.dtype()), saved.dtype());
  const DType compute = compute_dtype(wide);
  const Tensor inputs[] = {gradient, grad_output, saved};
  const DType outputs[] = {saved.dtype()};
  const ChunkedCall call{operation, saved.shape(), inputs, outputs, compute};
  return evaluate_in_chunks(call, [&](std::span<const Value> in, std::span<Value> out) {
    out[0] = row.expression(parameters, Dual(in[1]), Dual(in[2], in[0])).derivative();
  })[0];
}

}  // namespace extensor::ops
