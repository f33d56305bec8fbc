// Losses, normalization and embedding: the cases, and ExTensor's side of them.
#include <extensor/extensor.h>

#include "cases.h"

namespace extensor::bench {

namespace {

// ---- normalization
// ---------------------------------------------------------------------------------

// x, grad_output, weight and bias; forward and backward are one piece of work.
void add_layer_norm(std::vector<Case>& cases) {
  const std::int64_t rows = 4096, length = 768;
  Case c;
  c.name = "layer_norm forward+backward/4096x768";
  c.task.op = "layer_norm";
  c.task.operands = {{{rows, length}}, {{rows, length}}, {{length}}, {{length}}};
  c.goal.torch = 1.5;
  // x in and the result out, then x and grad_output in and the gradient out.
  const double bytes = 5.0 * rows * length * 4;
  c.floor = [bytes](int threads) { return copy_floor(bytes, threads); };
  cases.push_back(c);
}

Work layer_norm_work(const Task& task) {
  if (task.op != "layer_norm") return {};
  std::vector<Tensor> operands;
  for (const Operand& operand : task.operands) {
    Tensor values = empty(operand.shape, DType::float32);
    fill(values.data<float>(), count(operand), task.lo, task.hi,
         static_cast<std::uint32_t>(operands.size() + 1));
    operands.push_back(values.to(task.dtype));
  }
  const Shape normalized = operands[2].shape();
  return [x = operands[0], g = operands[1], w = operands[2], b = operands[3], normalized] {
    const Tensor y = layer_norm(x, normalized, w, b);
    layer_norm_backward(g, x, normalized, w, b);
  };
}

}  // namespace

void add_layers(std::vector<Case>& cases) { add_layer_norm(cases); }

Work layers_work(const Task& task) {
  if (Work work = layer_norm_work(task)) return work;
  return {};
}

}  // namespace extensor::bench
