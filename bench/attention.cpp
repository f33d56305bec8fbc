// Attention and optimizer steps: the cases, and ExTensor's side of them.
#include <extensor/extensor.h>

#include "cases.h"

namespace extensor::bench {

namespace {

// Operands q, k, v and, for a step of training, the gradient of the result; attribute 0: causal.
Case attention_case(std::string name, std::string op, std::vector<std::int64_t> shape, DType dtype,
                    bool causal, Goal goal) {
  Case result;
  result.name = std::move(name);
  const std::size_t operands = op == "attention" ? 3 : 4;
  result.task = {std::move(op), dtype, std::vector<Operand>(operands, Operand{std::move(shape)})};
  result.task.attributes = {causal ? 1 : 0};
  result.goal = goal;
  result.rounds = 11;
  return result;
}

void add_attention_cases(std::vector<Case>& cases) {
  const std::vector<std::int64_t> shape{8, 8, 512, 64};
  cases.push_back(attention_case("attention_step/causal/8x8x512x64", "attention_step", shape,
                                 DType::float32, true, {.torch = 1}));
  cases.push_back(
      attention_case("attention/causal/8x8x512x64", "attention", shape, DType::float32, true, {}));
  cases.push_back(attention_case("attention_step/8x8x512x64", "attention_step", shape,
                                 DType::float32, false, {}));
  cases.push_back(attention_case("attention_step/causal/bfloat16/8x8x512x64", "attention_step",
                                 shape, DType::bfloat16, true, {}));
}

Tensor attention_operand(const Task& task, std::size_t index) {
  Tensor values = empty(task.operands[index].shape, DType::float32);
  fill(values.data<float>(), values.numel(), task.lo, task.hi,
       static_cast<std::uint32_t>(index + 1));
  return values.to(task.dtype);
}

Work scaled_dot_product_work(const Task& task) {
  const bool step = task.op == "attention_step";
  if (!step && task.op != "attention") return {};
  const Tensor q = attention_operand(task, 0), k = attention_operand(task, 1);
  const Tensor v = attention_operand(task, 2);
  const bool causal = task.attributes[0] != 0;
  if (!step) return [=] { scaled_dot_product_attention(q, k, v, {}, causal); };
  return [=, g = attention_operand(task, 3)] {
    const AttentionResult result = scaled_dot_product_attention_with_logsumexp(q, k, v, {}, causal);
    scaled_dot_product_attention_backward(g, q, k, v, {}, causal, {}, result);
  };
}

}  // namespace

void add_attention(std::vector<Case>& cases) { add_attention_cases(cases); }

Work attention_work(const Task& task) { return scaled_dot_product_work(task); }

}  // namespace extensor::bench
