// Cases of whole networks, in training and in inference, and their ExTensor implementation. Each
// network is written in a file of networks/ as a user of the library writes it.
#include <extensor/extensor.h>

#include "cases.h"
#include "networks/gru.h"
#include "networks/mobilenet.h"
#include "networks/transformer.h"
#include "networks/unet.h"
#include "networks/vit.h"
#include "networks/wide_mlp.h"
#include "training_step.h"

namespace extensor::bench {

namespace {

template <class Model>
Model checked(const Task& task, Model model) {
  check_parameters(task, model.parameter_count());
  return model;
}

template <class Options, class Model>
Work training_of(const Task& task, Model model, const Options& options, const Tensor& x,
                 const Tensor& y) {
  return training(checked(task, std::move(model)), options, x, y, task.dtype);
}

template <class Model>
Work inference_of(const Task& task, Model model, const Tensor& x) {
  const auto kept = std::make_shared<Model>(checked(task, std::move(model)));
  kept->eval();
  return [kept, x] {
    const NoGrad off;
    (*kept)(x);
  };
}

}  // namespace

void add_networks(std::vector<Case>& cases) {
  const auto add = [&](const char* name, const char* op, std::int64_t parameters, double goal,
                       int rounds) -> Case& {
    Case c;
    c.name = name;
    c.task.op = op;
    c.task.attributes = {parameters};
    c.goal.torch = goal;
    c.rounds = rounds;
    cases.push_back(c);
    return cases.back();
  };
  add("training step/ViT 6x192 on 32x32, batch 32, AdamW", "train_vit", 2'693'578, 1.5, 9);
  Case& half = add("training step/ViT under Autocast, bfloat16", "train_vit", 2'693'578, 1.2, 9);
  half.task.dtype = DType::bfloat16;
  half.reference = half.task;
  half.reference->dtype = DType::float32;
  half.goal.reference = 1.2;
  add("training step/MobileNetV2 x0.5 on 64x64, batch 8, SGD", "train_mobilenet", 700'490, 1.8, 15);
  add("training step/U-Net 16 on 64x64, batch 4, SGD", "train_unet", 1'942'594, 1.8, 15);
  add("training step/GRU 2x128, sequence 64, batch 32, SGD", "train_gru", 198'144, 3, 25);
  add("training step/MLP 1024-2048-2048-10 with batch norm, batch 128, SGD", "train_wide_mlp",
      6'324'234, 1.5, 15);
  add("inference/ResNet-18 on 224x224, batch 1", "infer_resnet18", 11'689'512, 1.1, 15);
  add("inference/transformer 6x256, 128 tokens, batch 1", "infer_transformer", 5'027'328, 1.7, 25);
}

Work networks_work(const Task& task) {
  const SgdOptions sgd{.lr = 0.01};
  if (task.op == "train_vit") {
    return training_of(task, Vit(), AdamWOptions{.lr = 1e-3}, images({32, 3, 32, 32}),
                       labels(32, 10));
  }
  if (task.op == "train_mobilenet") {
    return training_of(task, MobileNet(), sgd, images({8, 3, 64, 64}), labels(8, 10));
  }
  if (task.op == "train_unet") {
    return training_of(task, UNet(), sgd, images({4, 3, 64, 64}),
                       labels(4 * 64 * 64, 2).reshape({4, 64, 64}));
  }
  if (task.op == "train_gru") {
    return training_of(task, Gru(), sgd, images({64, 32, 128}), labels(32, 128));
  }
  if (task.op == "train_wide_mlp") {
    return training_of(task, WideMlp(), sgd, images({128, 1024}), labels(128, 10));
  }
  if (task.op == "infer_resnet18") {
    return inference_of(task, models::ResNet18({.classes = 1000, .small_images = false}),
                        images({1, 3, 224, 224}));
  }
  if (task.op == "infer_transformer") {
    return inference_of(task, SentenceEncoder(), labels(128, 1000).reshape({1, 128}));
  }
  return {};
}

}  // namespace extensor::bench
