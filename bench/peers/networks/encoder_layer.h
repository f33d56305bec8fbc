// A layer of a transformer encoder in PyTorch's C++ API, with the fused attention that Python's
// layers use; torch::nn::TransformerEncoderLayer computes scores and weights step by step.
#pragma once

#include <torch/torch.h>

namespace extensor::bench {

struct EncoderLayerImpl : torch::nn::Module {
  EncoderLayerImpl(std::int64_t width, std::int64_t heads, bool norm_first)
      : heads(heads),
        norm_first(norm_first),
        in_proj(register_module("in_proj", torch::nn::Linear(width, 3 * width))),
        out_proj(register_module("out_proj", torch::nn::Linear(width, width))),
        linear1(register_module("linear1", torch::nn::Linear(width, 4 * width))),
        linear2(register_module("linear2", torch::nn::Linear(4 * width, width))),
        norm1(register_module("norm1", norm(width))),
        norm2(register_module("norm2", norm(width))) {}
  static torch::nn::LayerNorm norm(std::int64_t width) {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    if (norm_first) {
      const torch::Tensor y = x + attention(norm1(x));
      return y + feed_forward(norm2(y));
    }
    const torch::Tensor y = norm1(x + attention(x));
    return norm2(y + feed_forward(y));
  }
  torch::Tensor attention(const torch::Tensor& x) {
    const auto n = x.size(0), length = x.size(1), width = x.size(2);
    const auto qkv = in_proj(x).split(width, 2);
    const auto by_heads = [&](const torch::Tensor& part) {
      return part.view({n, length, heads, width / heads}).transpose(1, 2);
    };
    const torch::Tensor seen =
        at::scaled_dot_product_attention(by_heads(qkv[0]), by_heads(qkv[1]), by_heads(qkv[2]));
    return out_proj(seen.transpose(1, 2).reshape({n, length, width}));
  }
  torch::Tensor feed_forward(const torch::Tensor& x) { return linear2(torch::gelu(linear1(x))); }

  std::int64_t heads;
  bool norm_first;
  torch::nn::Linear in_proj, out_proj, linear1, linear2;
  torch::nn::LayerNorm norm1, norm2;
};
TORCH_MODULE(EncoderLayer);

}  // namespace extensor::bench
