// PyTorch's C++ API. Elementwise functions are looked up by name in its registry, so a new row of
// our tables finds its counterpart without an edit here.
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <algorithm>

#include "peers/torch_work.h"

namespace extensor::bench {
namespace {

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return at::kDouble;
    case DType::float16:
      return at::kHalf;
    case DType::bfloat16:
      return at::kBFloat16;
    default:
      return at::kFloat;
  }
}

}  // namespace

at::Tensor torch_operand(const Task& task, std::size_t index) {
  const Operand& operand = task.operands[index];
  at::Tensor values = at::empty(operand.shape, at::kFloat);
  fill(values.data_ptr<float>(), count(operand), task.lo, task.hi,
       static_cast<std::uint32_t>(index + 1));
  values = values.to(scalar_type(task.dtype));
  if (operand.transposed) values = values.t();
  if (operand.step != 1) values = values.slice(-1, 0, values.size(-1), operand.step);
  return values;
}

namespace {

// Maps our name to PyTorch's where they differ.
std::string torch_name(const std::string& name) {
  static const std::pair<const char*, const char*> spelled[] = {
      {"modulo", "remainder"}, {"power", "pow"},          {"hard_sigmoid", "hardsigmoid"},
      {"negative", "neg"},     {"hard_tanh", "hardtanh"}, {"hard_swish", "hardswish"},
  };
  for (const auto& [ours, theirs] : spelled) {
    if (name == ours) return theirs;
  }
  return name;
}

auto find(const std::string& name) {
  decltype(c10::Dispatcher::singleton().findSchema({"", ""})) found;
  for (const char* overload : {"", "Tensor", "Tensor_Tensor"}) {
    found = c10::Dispatcher::singleton().findSchema({"aten::" + torch_name(name), overload});
    if (found) break;
  }
  return found;
}

// Whether the function maps tensors to one tensor and has defaults for all other arguments.
bool fits(const c10::FunctionSchema& schema, std::size_t tensors) {
  const auto& arguments = schema.arguments();
  if (schema.returns().size() != 1 || arguments.size() < tensors) return false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_tensor = arguments[i].type()->kind() == c10::TypeKind::TensorType;
    if (i < tensors ? !is_tensor : !arguments[i].default_value().has_value()) return false;
  }
  return true;
}

Work by_name(const Task& task, const std::vector<at::Tensor>& x) {
  const auto found = find(task.op);
  if (!found || !fits(found->schema(), x.size())) return {};
  const bool plain = found->schema().arguments().size() == x.size();
  if (plain && x.size() == 1) {
    const auto function = found->typed<at::Tensor(const at::Tensor&)>();
    return [function, a = x[0]] { function.call(a); };
  }
  if (plain && x.size() == 2) {
    const auto function = found->typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
    return [function, a = x[0], b = x[1]] { function.call(a, b); };
  }
  // Further arguments have their defaults; this call costs PyTorch some 0.2 µs more than a typed
  // one.
  return [function = *found, x] {
    torch::jit::Stack stack(x.begin(), x.end());
    const auto& arguments = function.schema().arguments();
    for (std::size_t i = x.size(); i < arguments.size(); ++i) {
      stack.push_back(*arguments[i].default_value());
    }
    function.callBoxed(stack);
  };
}

Work make(const Task& task) {
  for (const auto family : {torch_convolution, torch_layers, torch_network_ops, torch_attention,
                            torch_training, torch_networks}) {
    if (Work work = family(task)) return work;
  }
  if (task.operands.empty()) return {};
  std::vector<at::Tensor> x;
  for (std::size_t i = 0; i < task.operands.size(); ++i) x.push_back(torch_operand(task, i));
  const at::Tensor a = x[0];
  const at::Tensor b = x.size() > 1 ? x[1] : at::Tensor();
  const int axis = task.axis;

  if (task.op == "add" && task.into_buffer) {
    return [a, b, out = at::add(a, b)]() mutable { at::add_out(out, a, b); };
  }
  if (task.op == "add") return [a, b] { at::add(a, b); };
  if (task.op == "subtract") return [a, b] { at::sub(a, b); };
  if (task.op == "multiply") return [a, b] { at::mul(a, b); };
  if (task.op == "divide") return [a, b] { at::div(a, b); };
  if (task.op == "multiply_backward" && x[2].sizes() != a.sizes()) {
    return [g = a, b, w = x[2]] {
      at::mul(g, w);
      at::sum_to(at::mul(g, b), w.sizes());
    };
  }
  if (task.op == "gelu") return [a] { at::gelu(a); };
  if (task.op == "gelu_tanh") return [a] { at::gelu(a, "tanh"); };
  if (task.op == "clip") return [a] { at::clamp(a, -1, 1); };
  if (task.op == "matmul") return [a, b] { at::matmul(a, b); };
  if (task.op == "contiguous") return [a] { a.contiguous(); };
  if (task.op == "sum") {
    if (axis == all_axes) return [a] { at::sum(a); };
    return [a, axis] { at::sum(a, {axis}); };
  }
  if (task.op == "max_reduce") {
    if (axis == all_axes) return [a] { at::max(a); };
    return [a, axis] { at::amax(a, {axis}); };
  }
  if (task.op == "softmax") return [a, axis] { at::softmax(a, axis); };
  if (task.op == "softmax_backward") {
    return [g = a, y = at::softmax(b, axis), axis, type = a.scalar_type()] {
      at::_softmax_backward_data(g, y, axis, type);
    };
  }
  return by_name(task, x);
}

}  // namespace
}  // namespace extensor::bench

extern "C" extensor::bench::Peer* extensor_bench_peer() {
  // Gradients are off: the comparison is of kernels and call overhead without autograd.
  static c10::InferenceMode inference_mode;
  static extensor::bench::Peer peer{"PyTorch", TORCH_VERSION,
                                    [](int threads) { at::set_num_threads(threads); },
                                    extensor::bench::make};
  return &peer;
}
