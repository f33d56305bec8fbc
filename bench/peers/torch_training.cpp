// Training steps in PyTorch's C++ API, with model, autograd and optimizer as a user writes them.
#include <torch/torch.h>

#include "peers/torch_work.h"

namespace extensor::bench {

namespace {

namespace F = torch::nn::functional;

torch::Tensor images(std::vector<std::int64_t> shape) {
  torch::Tensor x = torch::empty(shape);
  fill(x.data_ptr<float>(), x.numel(), 0, 1, 1);
  return x;
}

torch::Tensor labels(std::int64_t n, std::int64_t classes) {
  return torch::arange(n, torch::kLong).remainder(classes);
}

// One step of `model` on x and y.
template <class Model, class Optimizer>
Work training(Model model, std::shared_ptr<Optimizer> optimizer, torch::Tensor x, torch::Tensor y) {
  return [model, optimizer, x, y]() mutable {
    const c10::InferenceMode recording(false);
    optimizer->zero_grad();
    const torch::Tensor logits = model->forward(x);
    F::cross_entropy(logits.reshape({-1, logits.size(-1)}), y).backward();
    optimizer->step();
  };
}
template <class Model>
Work sgd_training(Model model, torch::Tensor x, torch::Tensor y) {
  auto optimizer =
      std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.01));
  return training(model, optimizer, x, y);
}

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

// ---- ResNet-18 for 32 × 32

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", convolution(in, out, 3, stride, 1))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(out))),
        conv2(register_module("conv2", convolution(out, out, 3, 1, 1))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(out))) {
    if (stride != 1 || in != out) {
      downsample = register_module(
          "downsample",
          torch::nn::Sequential(convolution(in, out, 1, stride, 0), torch::nn::BatchNorm2d(out)));
    }
  }
  static torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                       std::int64_t stride, std::int64_t padding) {
    return torch::nn::Conv2d(
        torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding).bias(false));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = bn2(conv2(torch::relu(bn1(conv1(x)))));
    return torch::relu(y + (downsample.is_empty() ? x : downsample->forward(x)));
  }
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(Block);

torch::nn::Sequential resnet18() {
  using namespace torch::nn;
  return Sequential(BlockImpl::convolution(3, 64, 3, 1, 1), BatchNorm2d(64), ReLU(),
                    Block(64, 64, 1), Block(64, 64, 1), Block(64, 128, 2), Block(128, 128, 1),
                    Block(128, 256, 2), Block(256, 256, 1), Block(256, 512, 2), Block(512, 512, 1),
                    AdaptiveAvgPool2d(1), Flatten(), Linear(512, 10));
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
    return sgd_training(mlp({784, 512, 256, 10}), images({128, 784}), labels(128, 10));
  }
  if (task.op == "train_tiny") {
    return sgd_training(mlp({4, 16, 2}), images({8, 4}), labels(8, 2));
  }
  if (task.op == "train_lenet") {
    return sgd_training(lenet(), images({64, 1, 28, 28}), labels(64, 10));
  }
  if (task.op == "train_resnet18") {
    return sgd_training(resnet18(), images({32, 3, 32, 32}), labels(32, 10));
  }
  if (task.op == "train_gpt") {
    Gpt model(65, 64, 4, 4, 128);
    auto optimizer = std::make_shared<torch::optim::AdamW>(model->parameters(),
                                                           torch::optim::AdamWOptions(1e-3));
    return training(model, optimizer, labels(12 * 64, 65).reshape({12, 64}), labels(12 * 64, 65));
  }
  if (task.op == "train_lstm") {
    return sgd_training(Tagger(256, 2), images({64, 32, 256}), labels(32, 256));
  }
  return {};
}

}  // namespace extensor::bench
