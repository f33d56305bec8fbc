// The GRU of bench/networks/gru.h in PyTorch's C++ API.
#pragma once

#include <torch/torch.h>

namespace extensor::bench {

struct TorchGruImpl : torch::nn::Module {
  TorchGruImpl()
      : gru(register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(128, 128).num_layers(2)))) {
  }
  torch::Tensor forward(const torch::Tensor& x) { return std::get<0>(gru(x))[-1]; }
  torch::nn::GRU gru;
};
TORCH_MODULE(TorchGru);

}  // namespace extensor::bench
