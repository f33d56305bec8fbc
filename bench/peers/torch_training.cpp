// Training steps in PyTorch's C++ API, with model, autograd and optimizer as a user writes them.
#include "peers/networks/resnet.h"
#include "peers/torch_training_step.h"
#include "peers/torch_work.h"

namespace extensor::bench {

namespace {

torch::nn::Sequential mlp(const std::vector<std::int64_t>& widths) {
  torch::nn::Sequential model;
  for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
    model->push_back(torch::nn::Linear(widths[k], widths[k + 1]));
    if (k + 2 < widths.size()) model->push_back(torch::nn::ReLU());
  }
  return model;
}

torch::nn::Sequential lenet() {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(1, 6, 5).padding(2)), ReLU(), MaxPool2d(2),
                    Conv2d(Conv2dOptions(6, 16, 5)), ReLU(), MaxPool2d(2), Flatten(),
                    Linear(400, 120), ReLU(), Linear(120, 84), ReLU(), Linear(84, 10));
}

// ---- GPT

struct GptBlockImpl : torch::nn::Module {
  GptBlockImpl(std::int64_t width, std::int64_t heads)
      : heads(heads),
        ln_1(register_module("ln_1", norm(width))),
        c_attn(register_module("c_attn", torch::nn::Linear(width, 3 * width))),
        out(register_module("out", torch::nn::Linear(width, width))),
        ln_2(register_module("ln_2", norm(width))),
        fc(register_module("fc", torch::nn::Linear(width, 4 * width))),
        proj(register_module("proj", torch::nn::Linear(4 * width, width))) {}
  static torch::nn::LayerNorm norm(std::int64_t width) {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto n = x.size(0), length = x.size(1), width = x.size(2);
    const auto qkv = c_attn(ln_1(x)).split(width, 2);
    const auto by_heads = [&](const torch::Tensor& part) {
      return part.view({n, length, heads, width / heads}).transpose(1, 2);
    };
    const torch::Tensor seen = at::scaled_dot_product_attention(by_heads(qkv[0]), by_heads(qkv[1]),
                                                                by_heads(qkv[2]), {}, 0.0, true);
    const torch::Tensor y = x + out(seen.transpose(1, 2).reshape({n, length, width}));
    return y + proj(torch::gelu(fc(ln_2(y))));
  }
  std::int64_t heads;
  torch::nn::LayerNorm ln_1;
  torch::nn::Linear c_attn, out;
  torch::nn::LayerNorm ln_2;
  torch::nn::Linear fc, proj;
};
TORCH_MODULE(GptBlock);

struct GptImpl : torch::nn::Module {
  GptImpl(std::int64_t vocabulary, std::int64_t block, std::int64_t layers, std::int64_t heads,
          std::int64_t width)
      : wte(register_module("wte", torch::nn::Embedding(vocabulary, width))),
        wpe(register_module("wpe", torch::nn::Embedding(block, width))),
        ln_f(register_module("ln_f", GptBlockImpl::norm(width))),
        lm_head(register_module(
            "lm_head",
            torch::nn::Linear(torch::nn::LinearOptions(width, vocabulary).bias(false)))) {
    for (std::int64_t k = 0; k < layers; ++k) {
      h.push_back(register_module("h" + std::to_string(k), GptBlock(width, heads)));
    }
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = wte(tokens) + wpe(torch::arange(tokens.size(1), torch::kLong));
    for (GptBlock& block : h) x = block(x);
    return lm_head(ln_f(x));
  }
  torch::nn::Embedding wte, wpe;
  std::vector<GptBlock> h;
  torch::nn::LayerNorm ln_f;
  torch::nn::Linear lm_head;
};
TORCH_MODULE(Gpt);

// ---- LSTM

struct TaggerImpl : torch::nn::Module {
  TaggerImpl(std::int64_t width, std::int64_t layers)
      : lstm(register_module(
            "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(width, width).num_layers(layers)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return std::get<0>(lstm(x))[-1]; }
  torch::nn::LSTM lstm;
};
TORCH_MODULE(Tagger);

}  // namespace

Work torch_training(const Task& task) {
  // The other families need no gradients, so the peer disables them globally.
  const c10::InferenceMode recording(false);
  if (task.op == "train_mlp") {
    return torch_sgd_step(mlp({784, 512, 256, 10}), torch_images({128, 784}),
                          torch_labels(128, 10));
  }
  if (task.op == "train_tiny") {
    return torch_sgd_step(mlp({4, 16, 2}), torch_images({8, 4}), torch_labels(8, 2));
  }
  if (task.op == "train_lenet") {
    return torch_sgd_step(lenet(), torch_images({64, 1, 28, 28}), torch_labels(64, 10));
  }
  if (task.op == "train_resnet18") {
    return torch_sgd_step(torch_resnet18(true, 10), torch_images({32, 3, 32, 32}),
                          torch_labels(32, 10));
  }
  if (task.op == "train_gpt") {
    return torch_adamw_step(Gpt(65, 64, 4, 4, 128), torch_labels(12 * 64, 65).reshape({12, 64}),
                            torch_labels(12 * 64, 65));
  }
  if (task.op == "train_lstm") {
    return torch_sgd_step(Tagger(256, 2), torch_images({64, 32, 256}), torch_labels(32, 256));
  }
  return {};
}

}  // namespace extensor::bench
