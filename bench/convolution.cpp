// Cases of convolution and pooling, and their ExTensor implementation.
#include <extensor/extensor.h>

#include "cases.h"

namespace extensor::bench {

namespace {

// Attributes of a convolution: stride, padding, groups. A case is the forward and the gradients of
// x and weight; "/forward", "/input" and "/weight" are its parts.
Case convolution(std::string name, std::string part, std::vector<std::int64_t> x,
                 std::vector<std::int64_t> weight, std::vector<std::int64_t> attributes,
                 Goal goal) {
  Case c;
  c.name = "conv2d/" + std::move(name) + (part.empty() ? "" : "/" + part);
  const std::int64_t padding = attributes[1], stride = attributes[0];
  const std::vector<std::int64_t> y = {x[0], weight[0],
                                       (x[2] + 2 * padding - weight[2]) / stride + 1,
                                       (x[3] + 2 * padding - weight[3]) / stride + 1};
  c.task.op = "conv2d" + (part.empty() ? "" : "/" + part);
  c.task.operands = {{std::move(x)}, {std::move(weight)}, {y}};
  c.task.attributes = std::move(attributes);
  c.goal = goal;
  c.rounds = 15;
  return c;
}

}  // namespace

void add_convolution(std::vector<Case>& cases) {
  for (const char* part : {"", "forward", "input", "weight"}) {
    const bool whole = std::string(part).empty();
    const Goal goal{.torch = whole ? 1.2 : 0};
    cases.push_back(convolution("lenet 1-6 5x5 28x28 (64)", part, {64, 1, 28, 28}, {6, 1, 5, 5},
                                {1, 0, 1}, goal));
    cases.push_back(convolution("64-64 3x3 32x32 (64)", part, {64, 64, 32, 32}, {64, 64, 3, 3},
                                {1, 1, 1}, goal));
    cases.push_back(convolution("128-128 3x3 16x16 (64)", part, {64, 128, 16, 16}, {128, 128, 3, 3},
                                {1, 1, 1}, goal));
    cases.push_back(convolution("256-64 1x1 56x56 (8)", part, {8, 256, 56, 56}, {64, 256, 1, 1},
                                {1, 0, 1}, goal));
    cases.push_back(convolution("depthwise 128 3x3 28x28 (32)", part, {32, 128, 28, 28},
                                {128, 1, 3, 3}, {1, 1, 128}, goal));
  }
  cases.push_back({"max_pool2d/2x2 64x6x28x28",
                   {"max_pool2d", DType::float32, {{{64, 6, 28, 28}}, {{64, 6, 14, 14}}}},
                   {.torch = 2},
                   {},
                   {}});
}

Work convolution_work(const Task& task) {
  if (task.op == "max_pool2d") {
    return [x = task_operand(task, 0), g = task_operand(task, 1)] {
      max_pool2d(x, 2);
      max_pool2d_backward(g, x, 2);
    };
  }
  if (task.op.rfind("conv2d", 0) != 0) return {};
  const Tensor x = task_operand(task, 0), w = task_operand(task, 1), g = task_operand(task, 2);
  const Conv2dOptions options{
      .stride = task.attributes[0], .padding = task.attributes[1], .groups = task.attributes[2]};
  if (task.op == "conv2d/forward") return [=] { conv2d(x, w, {}, options); };
  if (task.op == "conv2d/input") {
    return [=] { conv2d_backward(g, x, w, options, {true, false, false}); };
  }
  if (task.op == "conv2d/weight") {
    return [=] { conv2d_backward(g, x, w, options, {false, true, false}); };
  }
  return [=] {
    conv2d(x, w, {}, options);
    conv2d_backward(g, x, w, options, {true, true, false});
  };
}

}  // namespace extensor::bench
