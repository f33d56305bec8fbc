// Attention and optimizer steps in PyTorch's C++ API.
#include "peers/torch_work.h"

namespace extensor::bench {

namespace {

// What scaled_dot_product_attention and its gradient run on a CPU.
Work scaled_dot_product_work(const Task& task) {
  const bool step = task.op == "attention_step";
  if (!step && task.op != "attention") return {};
  const at::Tensor q = torch_operand(task, 0), k = torch_operand(task, 1);
  const at::Tensor v = torch_operand(task, 2);
  const bool causal = task.attributes[0] != 0;
  if (!step) {
    return [=] { at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal); };
  }
  return [=, g = torch_operand(task, 3)] {
    const auto [out, logsumexp] =
        at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal);
    at::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, out, logsumexp, 0.0,
                                                             causal);
  };
}

}  // namespace

Work torch_attention(const Task& task) { return scaled_dot_product_work(task); }

}  // namespace extensor::bench
