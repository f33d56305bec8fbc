// Losses, normalization and embedding in PyTorch's C++ API.
#include "peers/torch_work.h"

namespace extensor::bench {

namespace {

Work torch_layer_norm(const Task& task) {
  if (task.op != "layer_norm") return {};
  const at::Tensor x = torch_operand(task, 0), g = torch_operand(task, 1);
  const at::Tensor w = torch_operand(task, 2), b = torch_operand(task, 3);
  return [x, g, w, b] {
    const auto [y, mean, scale] = at::native_layer_norm(x, w.sizes(), w, b, 1e-5);
    at::native_layer_norm_backward(g, x, w.sizes(), mean, scale, w, b, {true, true, true});
  };
}

}  // namespace

Work torch_layers(const Task& task) {
  if (Work work = torch_layer_norm(task)) return work;
  return {};
}

}  // namespace extensor::bench
