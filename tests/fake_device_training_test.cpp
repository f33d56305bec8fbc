// Modules, optimizers, the trainer and files with tensors on the fake device: bit-identical to the
// CPU, and no waits in a training step.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/device_test.h"
#include "support/files.h"

namespace extensor {
namespace {

using fake_device::expect_words;
using fake_device::FakeDevice;
using fake_device::message_of;
using fake_device::same_bits;
using test_support::TemporaryDirectory;

constexpr Device device = fake_device::first;

void expect_same_bits(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    EXPECT_EQ(a[k].first, b[k].first);
    EXPECT_TRUE(same_bits(a[k].second, b[k].second)) << a[k].first;
  }
}

// Tied parameters, buffers, dropout and a layer without parameters.
struct Net : nn::Module<Net> {
  nn::Embedding words{11, 6};
  nn::BatchNorm1d norm{6};
  nn::Dropout dropout{0.25};
  nn::Linear out{6, 11};
  Net() { out.weight.tie_to(words.weight); }
  void visit(nn::Walker& walk) {
    walk("words", words)("norm", norm)("dropout", dropout)("out", out);
  }
  Tensor forward(const Tensor& ids) { return out(dropout(norm(mean(words(ids), 1)))); }
};

struct Data {
  Tensor ids = randint(0, 11, {8, 5}), targets = randint(0, 11, {8});
};

template <class Optimizer>
void steps(Net& net, Optimizer& optimizer, const Data& data, Device place, int count) {
  for (int k = 0; k < count; ++k) {
    optimizer.zero_grad();
    cross_entropy(net(data.ids.to(place)), data.targets.to(place)).backward();
    optim::clip_grad_norm(net.parameters(), 0.5);
    optimizer.step();
  }
}

TEST_F(FakeDevice, AModuleMovesWithItsGradientsAndStaysTheSameTensors) {
  Net net;
  const std::vector<Tensor> before = net.parameters();
  const NamedTensors values = [&] {
    NamedTensors copies;
    for (const auto& [name, tensor] : net.state_dict()) copies.emplace_back(name, tensor.clone());
    return copies;
  }();
  Data data;
  cross_entropy(net(data.ids), data.targets).backward();
  const Tensor gradient = net.out.weight.tensor().grad().clone();
  EXPECT_EQ(&net.to(device), &net);
  const std::vector<Tensor> after = net.parameters();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t k = 0; k < after.size(); ++k) {
    EXPECT_EQ(after[k].impl_or_null(), before[k].impl_or_null()) << "another tensor";
    EXPECT_EQ(after[k].device(), device);
    EXPECT_EQ(after[k].grad().device(), device);
    EXPECT_TRUE(after[k].requires_grad());
    EXPECT_TRUE(after[k].is_leaf());
  }
  EXPECT_EQ(net.out.weight.tensor().impl_or_null(), net.words.weight.tensor().impl_or_null());
  EXPECT_TRUE(same_bits(net.out.weight.tensor().grad(), gradient));
  for (const auto& [name, buffer] : net.named_buffers()) EXPECT_EQ(buffer.device(), device) << name;
  EXPECT_TRUE(same_bits(net.words.weight, values[0].second));
  net.to(cpu_device).to(cpu_device);
  EXPECT_EQ(net.norm.running_mean.tensor().device(), cpu_device);
  EXPECT_THROW(net.to(Device{Device::Type::cuda, 0}), DeviceError);
  EXPECT_EQ(net.words.weight.tensor().device(), cpu_device);
}

TEST_F(FakeDevice, ASavedTensorOfAModuleThatMovedIsFound) {
  nn::Linear layer(3, 2);
  const Tensor loss = sum(square(layer(ones({4, 3}).requires_grad_())));
  layer.to(device);
  EXPECT_THROW(loss.backward(), ValueError) << "the weight was saved, and is another one now";
}

// Three steps on the CPU, three on the device, three on the CPU again.
TEST_F(FakeDevice, AnOptimizerGoesOnWhenItsModuleMoves) {
  const auto trained = [](Device place) {
    manual_seed(3);
    Net net;
    Data data;
    optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
    optim::ExponentialMovingAverage average(net.parameters(), 0.9);
    for (const Device each : {cpu_device, place, cpu_device}) {
      net.to(each);
      steps(net, optimizer, data, each, 3);
      average.update();
    }
    net.to(place);
    average.apply();
    NamedTensors state = net.state_dict();
    for (const auto& [name, tensor] : optimizer.state_dict().tensors) {
      state.emplace_back(name, tensor);
    }
    return state;
  };
  expect_same_bits(trained(device), trained(cpu_device));
}

TEST_F(FakeDevice, AnOptimizerGoesOnWhenItsModuleIsConverted) {
  nn::Linear layer(4, 3);
  optim::Adam optimizer(layer.parameters());
  for (const DType dtype : {float32, float64, bfloat16, float64}) {
    layer.to(dtype);
    sum(square(layer(ones({2, 4}, dtype)))).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  EXPECT_EQ(optimizer.state_dict().tensors.at("state.0.exp_avg").dtype(), float64);
}

TEST_F(FakeDevice, AssignmentCopiesValuesAndLeavesModulesWhereTheyAre) {
  Net near, far;
  far.to(device);
  const Tensor handle = far.out.weight;
  near.norm.running_mean.tensor().fill(3);
  far = near;
  EXPECT_EQ(far.out.weight.tensor().impl_or_null(), handle.impl_or_null());
  for (const auto& [name, tensor] : far.state_dict()) EXPECT_EQ(tensor.device(), device) << name;
  expect_same_bits(far.state_dict(), near.state_dict());
  const Net copy = far;
  EXPECT_EQ(copy.out.weight.tensor().device(), device);
  Net again;
  again = std::move(far);
  EXPECT_EQ(again.out.weight.tensor().device(), cpu_device);
  expect_same_bits(again.state_dict(), near.state_dict());
}

TEST_F(FakeDevice, StatesAreSavedFromAndLoadedIntoAnyDevice) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "net.safetensors";
  Net net, other, near;
  net.to(device);
  other.to(fake_device::second);
  save_safetensors(file, net.state_dict(), {}, {.checksums = true});
  other.load_state_dict(load_safetensors(file).tensors);
  EXPECT_EQ(other.out.weight.tensor().device(), fake_device::second);
  expect_same_bits(other.state_dict(), net.state_dict());
  near.load_state_dict(other.state_dict());
  expect_same_bits(near.state_dict(), net.state_dict());
  save_npy(directory.path() / "x.npy", net.out.weight.tensor().transpose());
  EXPECT_TRUE(same_bits(load_npy(directory.path() / "x.npy"), net.out.weight.tensor().transpose()));
  save_npz(directory.path() / "x.npz", net.state_dict());
  expect_same_bits(load_npz(directory.path() / "x.npz"), near.state_dict());

  // Optimizers accept states of another device, too.
  optim::Adam there(net.parameters()), here(near.parameters());
  steps(net, there, {}, device, 2);
  here.load_state_dict(there.state_dict());
  EXPECT_EQ(here.state_dict().tensors.at("state.0.exp_avg").device(), cpu_device);
}

TEST_F(FakeDevice, MetricsTakeTensorsOfADevice) {
  const Tensor scores = randn({20, 4}), targets = randint(0, 4, {20});
  train::ConfusionMatrix near(4), far(4);
  near.add(scores, targets);
  far.add(scores.to(device), targets.to(device));
  EXPECT_TRUE(same_bits(near.matrix(), far.matrix()));
  EXPECT_EQ(train::top_k_accuracy(scores, targets, 2),
            train::top_k_accuracy(scores.to(device), targets.to(device), 2));
}

TEST_F(FakeDevice, GradientsAreCheckedOnADevice) {
  const std::vector<Tensor> inputs = {rand({3, 2}, {float64, device}),
                                      rand({2, 3}, {float64, device}).transpose()};
  const auto forward = [](const std::vector<Tensor>& in) { return in[0] * in[1]; };
  const auto backward = [](const Tensor& g, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{g * in[1], g * in[0]};
  };
  EXPECT_TRUE(gradcheck(forward, backward, inputs).passed);
  const auto wrong = [](const Tensor& g, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{g * in[0], g * in[0]};
  };
  EXPECT_FALSE(gradcheck(forward, wrong, inputs).passed);
}

// ---- without waits

// Clipping has the CPU's bits whether it clips or not, and for norms that are not finite.
TEST_F(FakeDevice, ClippingDoesNotWait) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double order : {2.0, 1.0, 3.0, infinity}) {
    for (const double limit : {0.1, 1e6, 0.0, infinity}) {
      for (const double extra : {1.0, infinity, std::nan("")}) {
        std::vector<Tensor> near = {randn({5, 3}), randn({7}).to(float64),
                                    randn({4, 4}).to(bfloat16), zeros({0})};
        near[1][2].fill(extra);
        std::vector<Tensor> far;
        for (const Tensor& x : near) far.push_back(x.to(device));
        far[0] = far[0].transpose().contiguous().transpose();
        const std::int64_t waits = fake_device::waits();
        const GradientNorm norm = clip_grad_norm(far, limit, order);
        EXPECT_EQ(fake_device::waits(), waits);
        EXPECT_TRUE(same_bits(norm.tensor(), clip_grad_norm(near, limit, order).tensor()));
        for (std::size_t k = 0; k < near.size(); ++k) {
          EXPECT_TRUE(same_bits(far[k], near[k])) << order << " " << limit << " " << extra;
        }
      }
    }
  }
  std::vector<Tensor> bad = {full({2}, infinity, device)};
  EXPECT_THROW(clip_grad_norm(bad, 1, 2, true), ValueError);
  // Gradients on several devices have one norm.
  std::vector<Tensor> spread = {full({1}, 3.0, device), full({1}, 4.0, fake_device::second),
                                full({1}, 12.0)};
  EXPECT_EQ(clip_grad_norm(spread, 1), 13.0);
  EXPECT_EQ(spread[1].device(), fake_device::second);
  EXPECT_NEAR(spread[2].item<double>(), 12.0 / 13, 1e-6);
}

// A training step of a GPT: embeddings, attention, layer norm, dropout, cross-entropy, backward,
// clipping, AdamW and a schedule, with the loss and the norm read one step late.
TEST_F(FakeDevice, AGptTrainsWithoutWaitsToTheBitsOfTheCpu) {
  for (const double dropout : {0.0, 0.1}) {
    const auto trained = [&](Device place) {
      manual_seed(7);
      models::Gpt model({.vocabulary = 29,
                         .block = 12,
                         .layers = 2,
                         .heads = 2,
                         .width = 16,
                         .dropout = dropout});
      const Tensor text = randint(0, 29, {4, 13});
      model.to(place);
      optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
      optim::CosineAnnealingLR schedule(optimizer, {.t_max = 10});
      const std::vector<Tensor> parameters = model.parameters();
      std::vector<double> seen;
      PendingItem loss_before, norm_before;
      const auto read = [&] {
        if (!loss_before.defined()) return;
        seen.push_back(loss_before.item<double>());
        seen.push_back(norm_before.item<double>());
      };
      const std::int64_t waits = fake_device::waits(), idle_reads = fake_device::idle_reads();
      for (int k = 0; k < 4; ++k) {
        const Tensor tokens = text.slice(1, 0, 12).contiguous().to(place);
        const Tensor next = text.slice(1, 1, 13).contiguous().to(place);
        optimizer.zero_grad();
        const Tensor loss = train::classification_loss(model(tokens), next);
        loss.backward();
        const GradientNorm norm = optim::clip_grad_norm(parameters, 0.5);
        optimizer.step();
        schedule.step();
        read();
        loss_before = PendingItem(loss);
        norm_before = PendingItem(norm.tensor());
      }
      EXPECT_EQ(fake_device::waits(), waits) << "host waits in 4 steps";
      EXPECT_EQ(fake_device::idle_reads(), idle_reads);
      read();
      EXPECT_LT(seen[6], seen[0]) << "it learns";
      return std::pair(model.state_dict(), seen);
    };
    const auto [expected, expected_numbers] = trained(cpu_device);
    const auto [got, numbers] = trained(device);
    expect_same_bits(got, expected);
    EXPECT_EQ(numbers, expected_numbers);
  }
}

// ---- the trainer

struct Image : nn::Module<Image> {
  nn::Conv2d conv{1, 4, 3, {.stride = 4}};
  nn::BatchNorm2d norm{4};
  nn::Dropout dropout{0.3};
  nn::Flatten flat;
  nn::Linear out{196, 10};
  Tensor forward(const Tensor& x) { return out(dropout(flat(relu(norm(conv(x)))))); }
};

struct Counter final : train::Callback {
  void step(const train::StepRecord& record) override { records.push_back(record); }
  std::vector<train::StepRecord> records;
};

struct Trained {
  NamedTensors weights;
  std::vector<train::StepRecord> records;
  train::Outcome outcome;
};

Trained train_images(Device place, const std::filesystem::path& checkpoints = {},
                     std::int64_t stop_after = 0) {
  manual_seed(11);
  Image net;
  net.to(place);
  optim::AdamW optimizer(net.parameters(), {.lr = 5e-3});
  const data::ImageDataset images(data::digits(64, 3), {data::random_crop(2)});
  const data::DataLoader training(images, {.batch_size = 8, .seed = 5});
  const data::DataLoader validation(images, {.batch_size = 32, .shuffle = false});
  std::int64_t asked = 0;
  train::Trainer trainer(
      net, optimizer,
      {.epochs = 2, .accumulate = 2, .clip_norm = 1, .checkpoints = checkpoints, .stop = [&] {
         return ++asked == stop_after;
       }});
  auto& counter = trainer.add<Counter>();
  trainer.resume();
  Trained result;
  result.outcome = trainer.fit(training, &validation);
  result.records = counter.records;
  for (const auto& [name, tensor] : net.state_dict()) {
    result.weights.emplace_back(name, tensor.clone());
  }
  return result;
}

TEST_F(FakeDevice, ATrainerMovesBatchesAndReportsEveryStep) {
  const Trained expected = train_images(cpu_device), got = train_images(device);
  expect_same_bits(got.weights, expected.weights);
  EXPECT_EQ(got.weights[0].second.device(), device);
  EXPECT_EQ(got.outcome.last.loss, expected.outcome.last.loss);
  EXPECT_EQ(got.outcome.last.accuracy, expected.outcome.last.accuracy);
  ASSERT_EQ(got.records.size(), expected.records.size());
  for (std::size_t k = 0; k < got.records.size(); ++k) {
    EXPECT_EQ(got.records[k].step, expected.records[k].step);
    EXPECT_EQ(got.records[k].loss, expected.records[k].loss);
    EXPECT_EQ(got.records[k].accuracy, expected.records[k].accuracy);
    EXPECT_EQ(got.records[k].gradient_norm, expected.records[k].gradient_norm);
    EXPECT_EQ(got.records[k].examples, expected.records[k].examples);
  }
}

TEST_F(FakeDevice, ACheckpointResumesOnEitherDevice) {
  const Trained expected = train_images(cpu_device);
  for (const auto& [first, second] : {std::pair(cpu_device, device), {device, cpu_device}}) {
    const TemporaryDirectory directory;
    const Trained begun = train_images(first, directory.path(), 3);
    EXPECT_EQ(begun.outcome.end, train::End::interrupted);
    EXPECT_EQ(begun.records.size(), 3u);
    expect_same_bits(train_images(second, directory.path()).weights, expected.weights);
  }
}

TEST_F(FakeDevice, ATrainerFindsADivergedLossOneStepLater) {
  Image net;
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 1e30});
  const data::DataLoader training(data::ImageDataset(data::digits(64, 3), {}), {.batch_size = 8});
  train::Trainer trainer(net, optimizer, {.epochs = 2});
  expect_words(message_of<train::DivergedError>([&] { trainer.fit(training); }),
               {"Trainer: the ", " of step "});

  // A batch that is not finite is named, although the weights are no longer finite either.
  nn::Linear layer(2, 3);
  layer.to(device);
  optim::SGD other(layer.parameters());
  const data::DataLoader bad(data::TensorDataset(full({6, 2}, std::nan("")), zeros({6}, int64)),
                             {.batch_size = 2});
  train::Trainer second(layer, other);
  expect_words(message_of<train::DivergedError>([&] { second.fit(bad); }),
               {"the loss of step 1", "inputs of the batch"});
}

}  // namespace
}  // namespace extensor
