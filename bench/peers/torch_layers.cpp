// Losses, normalization and embedding in PyTorch's C++ API.
#include <ATen/core/Reduction.h>

#include "peers/torch_work.h"

namespace extensor::bench {

namespace {

// Integers below `limit`, the same for ExTensor and every peer.
at::Tensor integers(std::int64_t n, std::int64_t limit) {
  at::Tensor values = at::empty({n}, at::kFloat), result = at::empty({n}, at::kLong);
  fill(values.data_ptr<float>(), n, 0, static_cast<double>(limit), 9);
  for (std::int64_t i = 0; i < n; ++i) {
    result.data_ptr<std::int64_t>()[i] =
        static_cast<std::int64_t>(values.data_ptr<float>()[i]) % limit;
  }
  return result;
}

// The functions that autograd runs for F.cross_entropy: log_softmax and nll_loss, and their
// backwards.
Work cross_entropy_work(const Task& task) {
  const at::Tensor logits = torch_operand(task, 0);
  const at::Tensor target = integers(logits.size(0), logits.size(1));
  return [logits, target, g = at::ones({})] {
    const at::Tensor logs = at::log_softmax(logits, 1);
    const auto [loss, weight] = at::nll_loss_forward(logs, target, {}, at::Reduction::Mean, -100);
    const at::Tensor of_logs =
        at::nll_loss_backward(g, logs, target, {}, at::Reduction::Mean, -100, weight);
    at::_log_softmax_backward_data(of_logs, logs, 1, logits.scalar_type());
  };
}

Work embedding_work(const Task& task) {
  const at::Tensor weight = torch_operand(task, 0), g = torch_operand(task, 1);
  const at::Tensor ids = integers(g.size(0), weight.size(0));
  return [weight, g, ids] {
    at::embedding(weight, ids);
    at::embedding_dense_backward(g, ids, weight.size(0), -1, false);
  };
}

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
  if (task.op == "cross_entropy") return cross_entropy_work(task);
  if (task.op == "embedding") return embedding_work(task);
  return torch_layer_norm(task);
}

}  // namespace extensor::bench
