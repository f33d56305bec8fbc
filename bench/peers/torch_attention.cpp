// Attention and optimizer steps in PyTorch's C++ API.
#include <cmath>

#include "peers/torch_work.h"

namespace extensor::bench {

namespace {

// The functions that scaled_dot_product_attention and its gradient run on a CPU.
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

constexpr double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;

// The operations of torch.optim.AdamW on one tensor on a CPU.
void adamw_by_operations(at::Tensor& param, const at::Tensor& grad, at::Tensor& exp_avg,
                         at::Tensor& exp_avg_sq, double step) {
  param.mul_(1 - lr * weight_decay);
  exp_avg.lerp_(grad, 1 - beta1);
  exp_avg_sq.mul_(beta2).addcmul_(grad, grad, 1 - beta2);
  const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  const at::Tensor denominator = exp_avg_sq.sqrt().div_(std::sqrt(correction2)).add_(eps);
  param.addcdiv_(exp_avg, denominator, -lr / correction1);
}

Work torch_adamw_step(const Task& task) {
  if (task.op != "adamw_step") return {};
  at::Tensor param = torch_operand(task, 0), exp_avg = at::zeros_like(param);
  at::Tensor exp_avg_sq = at::zeros_like(param);
  const at::Tensor grad = torch_operand(task, 1);
  if (task.attributes[0] == 0) {
    return [=, step = 0.0]() mutable {
      adamw_by_operations(param, grad, exp_avg, exp_avg_sq, ++step);
    };
  }
  at::Tensor step = at::zeros({}, at::kFloat);
  return [=]() mutable {
    step.add_(1);
    at::_fused_adamw_({param}, {grad}, {exp_avg}, {exp_avg_sq}, {}, {step}, lr, beta1, beta2,
                      weight_decay, eps, false, false);
  };
}

}  // namespace

Work torch_attention(const Task& task) {
  if (Work work = torch_adamw_step(task)) return work;
  return scaled_dot_product_work(task);
}

}  // namespace extensor::bench
