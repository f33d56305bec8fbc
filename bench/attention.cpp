// Cases of attention, generation and optimizer steps, and their ExTensor implementation.
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

Work scaled_dot_product_work(const Task& task) {
  const bool step = task.op == "attention_step";
  if (!step && task.op != "attention") return {};
  const Tensor q = task_operand(task, 0), k = task_operand(task, 1);
  const Tensor v = task_operand(task, 2);
  const bool causal = task.attributes[0] != 0;
  if (!step) return [=] { scaled_dot_product_attention(q, k, v, {}, causal); };
  return [=, g = task_operand(task, 3)] {
    const AttentionResult result = scaled_dot_product_attention_with_logsumexp(q, k, v, {}, causal);
    scaled_dot_product_attention_backward(g, q, k, v, {}, causal, {}, result);
  };
}

// ---- generation

// 512 tokens after a prompt of one, greedily, with the cache of keys and values and without.
void add_generation(std::vector<Case>& cases) {
  Case c;
  c.name = "generate/GPT 4x128, 512 tokens";
  c.task.op = "generate";
  c.reference = c.task;
  c.reference->op = "generate without a cache";
  c.reference_name = "generating without the cache";
  c.goal.reference = 5;
  c.rounds = 3;
  cases.push_back(c);
}

Work generation_work(const Task& task) {
  if (!task.op.starts_with("generate")) return {};
  const auto model = std::make_shared<models::Gpt>(
      models::GptOptions{.vocabulary = 65, .block = 512, .layers = 4, .heads = 4, .width = 128});
  return [model, prompt = zeros({1, 1}, DType::int64), cache = task.op == "generate"] {
    models::generate(*model, prompt, {.tokens = 512, .temperature = 0, .cache = cache});
  };
}

// ---- optimizer steps

// One step on 10⁷ parameters. Attribute 0 selects PyTorch's implementation: 0 is the default, a
// sequence of tensor operations; 1 is the fused one.
void add_adamw_step(std::vector<Case>& cases) {
  const std::int64_t n = 10000000;
  for (std::int64_t fused : {0, 1}) {
    Case c;
    c.name = fused == 1 ? "adamw_step/1e7 (torch: fused)" : "adamw_step/1e7";
    c.task.op = "adamw_step";
    c.task.operands = {{{n}}, {{n}}};
    c.task.attributes = {fused};
    c.goal.torch = fused == 1 ? 1.1 : 3;
    if (fused == 0) c.goal.floor = 0.9;
    c.floor = [n](int threads) { return in_place_floor(n, threads); };
    c.rounds = 11;
    cases.push_back(c);
  }
}

Work adamw_step_work(const Task& task) {
  if (task.op != "adamw_step") return {};
  const Tensor param = task_operand(task, 0), grad = task_operand(task, 1);
  AdamState state{zeros_like(param), zeros_like(param)};
  return [param = param, grad = grad, state, step = std::int64_t{0}]() mutable {
    adamw_step(param, grad, state, ++step);
  };
}

}  // namespace

void add_attention(std::vector<Case>& cases) {
  add_attention_cases(cases);
  add_generation(cases);
  add_adamw_step(cases);
}

Work attention_work(const Task& task) {
  if (Work work = adamw_step_work(task)) return work;
  if (Work work = generation_work(task)) return work;
  return scaled_dot_product_work(task);
}

}  // namespace extensor::bench
