// Whole networks in PyTorch's C++ API, in training and in inference. Each is written in a file of
// networks/.
#include "peers/networks/gru.h"
#include "peers/networks/mobilenet.h"
#include "peers/networks/resnet.h"
#include "peers/networks/transformer.h"
#include "peers/networks/unet.h"
#include "peers/networks/vit.h"
#include "peers/torch_training_step.h"
#include "peers/torch_work.h"

namespace extensor::bench {

namespace {

template <class Model>
Model checked(const Task& task, Model model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model->parameters()) count += parameter.numel();
  check_parameters(task, count);
  return model;
}

torch::nn::Sequential wide_mlp() {
  using namespace torch::nn;
  return Sequential(Linear(1024, 2048), BatchNorm1d(2048), ReLU(), Linear(2048, 2048),
                    BatchNorm1d(2048), ReLU(), Linear(2048, 10));
}

template <class Model>
Work inference_of(const Task& task, Model model, torch::Tensor x) {
  checked(task, model)->eval();
  return [model, x]() mutable {
    const c10::InferenceMode inference;
    model->forward(x);
  };
}

}  // namespace

Work torch_networks(const Task& task) {
  // The other families need no gradients, so the peer disables them globally.
  const c10::InferenceMode recording(false);
  if (task.op == "train_vit") {
    return torch_adamw_step(checked(task, TorchVit()), torch_images({32, 3, 32, 32}),
                            torch_labels(32, 10), task.dtype);
  }
  if (task.op == "train_mobilenet") {
    return torch_sgd_step(checked(task, TorchMobileNet()), torch_images({8, 3, 64, 64}),
                          torch_labels(8, 10));
  }
  if (task.op == "train_unet") {
    return torch_sgd_step(checked(task, TorchUNet()), torch_images({4, 3, 64, 64}),
                          torch_labels(4 * 64 * 64, 2).reshape({4, 64, 64}));
  }
  if (task.op == "train_gru") {
    return torch_sgd_step(checked(task, TorchGru()), torch_images({64, 32, 128}),
                          torch_labels(32, 128));
  }
  if (task.op == "train_wide_mlp") {
    return torch_sgd_step(checked(task, wide_mlp()), torch_images({128, 1024}),
                          torch_labels(128, 10));
  }
  if (task.op == "infer_resnet18") {
    return inference_of(task, torch_resnet18(false, 1000), torch_images({1, 3, 224, 224}));
  }
  if (task.op == "infer_transformer") {
    return inference_of(task, TorchSentenceEncoder(), torch_labels(128, 1000).reshape({1, 128}));
  }
  return {};
}

}  // namespace extensor::bench
