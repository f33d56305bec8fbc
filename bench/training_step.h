// One training step in ExTensor, with autograd and optimizer as a user writes it, and its data.
#pragma once

#include <extensor/extensor.h>

#include <memory>
#include <utility>

#include "task.h"

namespace extensor::bench {

inline Tensor images(const Shape& shape) {
  Tensor x = empty(shape);
  fill(x.data<float>(), x.numel(), 0, 1, 1);
  return x;
}

inline Tensor labels(std::int64_t n, std::int64_t classes) { return arange(n) % classes; }

// One step of `model` on x and y, the forward under Autocast if the dtype is a half one. Logits of
// three axes, [batch, length, classes], are those of sequences.
template <class Options, class Model>
Work training(Model model, const Options& options, const Tensor& x, const Tensor& y,
              DType dtype = DType::float32) {
  auto kept = std::make_shared<Model>(std::move(model));
  auto optimizer = std::make_shared<optim::OptimizerOf<Options>>(kept->parameters(), options);
  return [kept, optimizer, x, y, dtype] {
    optimizer->zero_grad();
    Tensor loss;
    {
      const bool half = dtype != DType::float32;
      const Autocast autocast(half ? dtype : DType::bfloat16, half);
      const Tensor logits = (*kept)(x);
      loss = cross_entropy(logits.ndim() == 3 ? logits.reshape({-1, logits.size(-1)}) : logits, y);
    }
    loss.backward();
    optimizer->step();
  };
}

}  // namespace extensor::bench
