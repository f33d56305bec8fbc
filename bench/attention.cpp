// Attention and optimizer steps: the cases, and ExTensor's side of them.
#include <extensor/extensor.h>

#include "cases.h"

namespace extensor::bench {

namespace {

// ---- optimizer steps
// -------------------------------------------------------------------------------

// One step on 10⁷ parameters. Attribute 0: which of PyTorch's implementations, 0 its default, a
// sequence of tensor operations, 1 its fused one.
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
  std::vector<Tensor> operands;
  for (const Operand& operand : task.operands) {
    Tensor values = empty(operand.shape, DType::float32);
    fill(values.data<float>(), count(operand), task.lo, task.hi,
         static_cast<std::uint32_t>(operands.size() + 1));
    operands.push_back(values.to(task.dtype));
  }
  AdamState state{zeros_like(operands[0]), zeros_like(operands[0])};
  return [param = operands[0], grad = operands[1], state, step = std::int64_t{0}]() mutable {
    adamw_step(param, grad, state, ++step);
  };
}

}  // namespace

void add_attention(std::vector<Case>& cases) { add_adamw_step(cases); }

Work attention_work(const Task& task) {
  if (Work work = adamw_step_work(task)) return work;
  return {};
}

}  // namespace extensor::bench
