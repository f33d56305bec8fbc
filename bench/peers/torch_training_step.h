// One training step in PyTorch's C++ API, with autograd and optimizer as a user writes it, and its
// data.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <memory>

#include "task.h"

namespace extensor::bench {

inline torch::Tensor torch_images(std::vector<std::int64_t> shape) {
  torch::Tensor x = torch::empty(shape);
  fill(x.data_ptr<float>(), x.numel(), 0, 1, 1);
  return x;
}

inline torch::Tensor torch_labels(std::int64_t n, std::int64_t classes) {
  return torch::arange(n, torch::kLong).remainder(classes);
}

// torch.autocast("cpu", dtype=torch.bfloat16), which only Python has as a class.
class TorchAutocast {
 public:
  explicit TorchAutocast(bool enabled) : enabled_(enabled) {
    if (!enabled_) return;
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::increment_nesting();
  }
  TorchAutocast(const TorchAutocast&) = delete;
  TorchAutocast& operator=(const TorchAutocast&) = delete;
  ~TorchAutocast() {
    if (!enabled_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }

 private:
  bool enabled_;
};

// One step of `model` on x and y, the forward under autocast for bfloat16. Logits of three axes,
// [batch, length, classes], are those of sequences.
template <class Model, class Optimizer>
Work torch_training_step(Model model, std::shared_ptr<Optimizer> optimizer, torch::Tensor x,
                         torch::Tensor y, DType dtype = DType::float32) {
  return [model, optimizer, x, y, dtype]() mutable {
    const c10::InferenceMode recording(false);
    optimizer->zero_grad();
    torch::Tensor loss;
    {
      const TorchAutocast autocast(dtype == DType::bfloat16);
      const torch::Tensor logits = model->forward(x);
      loss = torch::nn::functional::cross_entropy(
          logits.dim() == 3 ? logits.reshape({-1, logits.size(-1)}) : logits, y);
    }
    loss.backward();
    optimizer->step();
  };
}

template <class Model>
Work torch_sgd_step(Model model, torch::Tensor x, torch::Tensor y) {
  auto optimizer =
      std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.01));
  return torch_training_step(model, optimizer, x, y);
}

template <class Model>
Work torch_adamw_step(Model model, torch::Tensor x, torch::Tensor y, DType dtype = DType::float32) {
  auto optimizer =
      std::make_shared<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-3));
  return torch_training_step(model, optimizer, x, y, dtype);
}

}  // namespace extensor::bench
