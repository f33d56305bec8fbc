// Convolution and pooling in PyTorch's C++ API.
#include <array>

#include "peers/torch_work.h"

namespace extensor::bench {

Work torch_convolution(const Task& task) {
  if (task.op == "max_pool2d") {
    return [x = torch_operand(task, 0), g = torch_operand(task, 1)] {
      const auto [y, indices] = at::max_pool2d_with_indices(x, {2, 2}, {2, 2});
      at::max_pool2d_with_indices_backward(g, x, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, indices);
    };
  }
  if (task.op.rfind("conv2d", 0) != 0) return {};
  const at::Tensor x = torch_operand(task, 0), w = torch_operand(task, 1),
                   g = torch_operand(task, 2);
  const std::int64_t stride = task.attributes[0], padding = task.attributes[1],
                     groups = task.attributes[2];
  const auto forward = [=] {
    at::convolution(x, w, {}, {stride, stride}, {padding, padding}, {1, 1}, false, {0, 0}, groups);
  };
  const auto backward = [=](std::array<bool, 3> wanted) {
    at::convolution_backward(g, x, w, at::OptionalIntArrayRef(), {stride, stride},
                             {padding, padding}, {1, 1}, false, {0, 0}, groups, wanted);
  };
  if (task.op == "conv2d/forward") return forward;
  if (task.op == "conv2d/input") return [=] { backward({true, false, false}); };
  if (task.op == "conv2d/weight") return [=] { backward({false, true, false}); };
  return [=] {
    forward();
    backward({true, true, false});
  };
}

}  // namespace extensor::bench
