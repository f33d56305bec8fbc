#include "ops/record_elementwise.h"

#include <optional>

#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/dual.h"
#include "extensor/elementwise.h"
#include "ops/chunks.h"
#include "ops/gradient_eps.h"

namespace extensor::ops {

using detail::Gradients;
using detail::Node;
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

class ElementwiseNode final : public Node {
 public:
  ElementwiseNode(const ElementwiseRecord& call, const Shape& shape, const Tensor* written)
      : Node(call.operation, call.inputs.size(), 1),
        op_(call.op),
        role_(row_role(call.op)),
        first_(call.first),
        second_(call.second),
        ieee_(gradient_eps() == 0) {
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      const Source& input = call.inputs[k];
      Operand& operand = operands_[k];
      operand.dtype = input.dtype();
      if (!input.is_tensor()) {
        operand.number.emplace(input);
        continue;
      }
      const Tensor& x = input.tensor();
      detail::link(*this, k, x);
      operand.device = x.device();
      operand.stretched = !(x.shape() == shape);
      if (operand.stretched) operand.shape = x.shape();
      if (keeps(call.inputs, k)) operand.saved = Saved(survives(x, written) ? x : copy_of(x));
    }
  }

  void save_result(const Tensor& result) {
    if (role_.unary != nullptr && role_.gradient < 0 && role_.unary->saves_result &&
        role_.unary->reads_saved) {
      result_ = SavedResult(result);
    }
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
  // The elements and the history that x has before it is written to.
  static Tensor copy_of(const Tensor& x) {
    Tensor copy = detail::unrecorded([&] { return x.clone(); });
    if (detail::tracked(x)) copy = detail::adopt(x.impl().node, std::move(copy), x.impl().output);
    return copy;
  }

  struct Operand {
    Saved saved;  // only where some gradient reads it
    std::optional<Source> number;
    DType dtype = DType::float32;
    Device device;  // a number of the CPU beside tensors of another device gets its gradient back
    bool stretched = false;
    Shape shape;  // where it is not the result's
  };

  // Whether a gradient that is asked for reads operand k.
  bool keeps(std::span<const Source> inputs, std::size_t k) const {
    const auto asks = [&](std::size_t j) {
      return inputs[j].is_tensor() && detail::tracked(inputs[j].tensor());
    };
    if (role_.unary != nullptr) {
      const bool reads = role_.unary->reads_saved;
      if (role_.gradient < 0) return reads && !role_.unary->saves_result;
      return k == 0 ? asks(1) : reads;
    }
    if (role_.binary != nullptr) {
      const auto& reads = role_.binary->reads;
      if (role_.gradient < 0) return (asks(0) && reads[0][k]) || (asks(1) && reads[1][k]);
      return k == 0 ? asks(1) || asks(2) : reads[role_.gradient][k - 1];
    }
    if (op_ == ElementwiseOp::where) return k == 0;
    if (op_ == ElementwiseOp::fma) return (k == 0 && asks(1)) || (k == 1 && asks(0));
    return false;
  }

  double eps_of_gradient() const { return ieee_ ? 0 : gradient_eps(); }

  // Operand k for a kernel; 0 where the kernel does not look at it.
  Source source(std::size_t k) const {
    const Operand& operand = operands_[k];
    if (operand.number) return *operand.number;
    const Tensor& x = operand.saved.get(*this);
    return x.defined() ? Source(x) : Source(0.0, DType::float64);
  }

  Tensor gradient(std::size_t k, const Tensor& g) {
    if (role_.unary != nullptr) {
      return role_.gradient < 0 ? unary_gradient(g) : gradient_of_unary_backward(k, g);
    }
    if (role_.binary != nullptr) {
      return role_.gradient < 0 ? binary_gradient(*role_.binary, k, g)
                                : gradient_of_binary_gradient(k, g);
    }
    const Source zero(0.0, DType::float64);
    if (op_ == ElementwiseOp::where) {
      const Source inputs[] = {source(0), k == 1 ? Source(g) : zero, k == 1 ? zero : Source(g)};
      return kernel(ElementwiseOp::where, name(), g, inputs, k, {});
    }
    if (op_ == ElementwiseOp::fma && k < 2) {
      return binary_gradient(*row_role(ElementwiseOp::multiply).binary, k, g);
    }
    return fitted(g, k);  // copy, and what fma adds
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
                    inputs, row.takes_eps ? eps : first_, row.takes_eps ? Parameter{} : second_);
  }

  // The call is backward(g0, saved), linear in g0.
  Tensor gradient_of_unary_backward(std::size_t k, const Tensor& g) {
    const UnaryGradient& row = *role_.unary;
    if (k == 0) {
      const Tensor& saved = operands_[1].saved.get(*this);
      const Source inputs[] = {g, saved.defined() ? saved : g};
      return evaluate(op_, name(), compute_dtype(promote_types(g.dtype(), inputs[1].dtype())),
                      operands_[0].dtype, inputs, first_, second_);
    }
    const Tensor& saved = operands_[1].saved.get(*this);
    if (!saved.defined()) return {};
    const double parameters[] = {first_.real, second_.real};
    return second_gradient(row, name(), parameters, g, operands_[0].saved.get(*this), saved);
  }

  Tensor binary_gradient(const BinaryGradient& row, std::size_t k, const Tensor& g) {
    if (row.texts[k] == "g") return fitted(g, k);
    const Source inputs[] = {g, source(0), source(1)};
    const Parameter eps{row.takes_eps ? eps_of_gradient() : 0, 0};
    return kernel(row.gradients[k], row.backward_name, g, inputs, k, eps);
  }

  // The call is gradient_a(g0, a, b), linear in g0, or gradient_b.
  Tensor gradient_of_binary_gradient(std::size_t k, const Tensor& g) {
    const Source inputs[] = {g, source(1), source(2)};
    if (k == 0) return kernel(op_, name(), g, inputs, 0, first_);
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
    const EpsScope ieee(0);  // the row has its own floor, in first_
    const Dual derivative = role_.binary->expressions[role_.gradient](
        &first_.real, Dual(value_of(g0, compute)), Dual(operand(1), k == 1 ? along : zero),
        Dual(operand(2), k == 2 ? along : zero));
    return fitted(tensor_of(derivative.derivative(), g, compute), k);
  }

  // A kernel of g and operands, summed to operand k.
  Tensor kernel(ElementwiseOp op, const char* operation, const Tensor& g,
                std::span<const Source> inputs, std::size_t k, Parameter first) {
    DType wide = g.dtype();
    for (const Source& input : inputs) {
      if (input.is_tensor() && input.dtype() != DType::bool_) {
        wide = promote_types(wide, input.dtype());
      }
    }
    const DType compute = compute_dtype(wide);
    const DType result = operands_[k].stretched ? compute : operands_[k].dtype;
    return fitted(evaluate(op, operation, compute, result, inputs, first), k);
  }

  Tensor fitted(const Tensor& full, std::size_t k) {
    const Operand& operand = operands_[k];
    return fitted_to(full, operand.stretched ? operand.shape : full.shape(), operand.dtype)
        .to(operand.device);
  }

  ElementwiseOp op_;
  const RowRole& role_;
  Parameter first_, second_;
  bool ieee_;  // recorded under an eps of 0: inside a gradient, whose own floor is the only one
  Operand operands_[backend::max_inputs];
  SavedResult result_;
};

}  // namespace

bool records(const ElementwiseRecord& call) {
  if (!is_floating_point(call.dtype)) return false;
  for (const Source& input : call.inputs) {
    if (input.is_tensor() && detail::tracked(input.tensor())) return detail::recording_enabled();
  }
  return false;
}

NodePointer make_elementwise_node(const ElementwiseRecord& call, const Shape& shape,
                                  const Tensor* written) {
  return NodePointer(new ElementwiseNode(call, shape, written));
}

void finish_elementwise_node(const NodePointer& node, Tensor& result) {
  static_cast<ElementwiseNode&>(*node).save_result(result);
  result = detail::adopt(node, std::move(result));
}

Tensor& write_in_place(const ElementwiseRecord& call, DType compute, Tensor& x) {
  const bool recorded = records(call), rewrites = recorded || detail::has_history(x);
  if (rewrites) detail::check_in_place(call.operation, x);
  NodePointer node;
  if (recorded) node = make_elementwise_node(call, x.shape(), &x);
  launch(call.op, compute, call.inputs, x, call.first, call.second);
  detail::wrote(x);
  if (recorded) static_cast<ElementwiseNode&>(*node).save_result(x);
  if (rewrites) detail::rewrite_history(x, std::move(node));
  return x;
}

Tensor fitted_to(const Tensor& full, const Shape& shape, DType dtype) {
  if (full.shape() == shape) return full.to(dtype);
  return reduce_broadcast_dims(full, shape).to(dtype);
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
