// Batches with several inputs and targets, and streams, in the trainer and the evaluation.
#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"
#include "support/child_process.h"
#include "support/files.h"

namespace extensor::train {
namespace {

using test_support::expect_error;
using test_support::TemporaryDirectory;

using Tensors = std::vector<Tensor>;

// Two inputs, two outputs.
struct Pair : nn::Module<Pair> {
  nn::Linear left{3, 4}, right{2, 4};
  nn::Dropout dropout{0.2};
  std::pair<Tensor, Tensor> forward(const Tensor& a, const Tensor& b) {
    const Tensor hidden = left(a) + right(b);
    return {dropout(hidden), sum(hidden, 1)};
  }
};

Tensor joint_loss(const Tensors& outputs, const Tensors& targets) {
  return cross_entropy(outputs[0], targets[0]) + mean_squared_error(outputs[1], targets[1]);
}

data::TensorDataset pairs(std::int64_t count) {
  Generator generator(4);
  const Tensor a = randn({count, 3}, {}, generator), b = randn({count, 2}, {}, generator);
  return data::TensorDataset({a, b}, {argmax(a, 1), sum(b, 1)});
}

struct Result {
  NamedTensors weights;
  Outcome outcome;
};

Result run(const data::DataLoader& loader, std::int64_t stop_after,
           const std::filesystem::path& checkpoints, bool resume) {
  manual_seed(3);
  Pair model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.05});
  std::int64_t steps = 0;
  TrainerOptions options{
      .epochs = 2, .accumulate = 2, .loss = joint_loss, .checkpoints = checkpoints};
  if (loader.is_stream()) options.steps = 12;
  options.stop = [&] { return ++steps == stop_after; };
  Trainer trainer(model, optimizer, options);
  if (resume) {
    EXPECT_TRUE(trainer.resume().has_value());
  }
  Result result{{}, trainer.fit(loader, &loader)};
  for (const auto& [name, tensor] : model.state_dict())
    result.weights.emplace_back(name, tensor.clone());
  return result;
}

void expect_equal(const Result& a, const Result& b) {
  EXPECT_EQ(a.outcome.step, b.outcome.step);
  EXPECT_EQ(a.outcome.last.loss, b.outcome.last.loss);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t k = 0; k < a.weights.size(); ++k) {
    EXPECT_TRUE(all(equal(a.weights[k].second, b.weights[k].second)).item<bool>());
  }
}

TEST(SeveralInputs, TrainResumeAndEvaluate) {
  for (const int workers : {0, 1, 3}) {
    const data::DataLoader loader(pairs(50), {.batch_size = 8, .workers = workers, .seed = 1});
    const TemporaryDirectory directory;
    const Result whole = run(loader, 0, {}, false);
    EXPECT_EQ(whole.outcome.step, 8);
    EXPECT_TRUE(std::isfinite(whole.outcome.last.loss));
    // The classes are the first targets.
    EXPECT_GT(whole.outcome.last.accuracy, 0);
    ASSERT_TRUE(whole.outcome.last.confusion.has_value());
    EXPECT_EQ(whole.outcome.last.confusion->count(), 50);
    EXPECT_EQ(run(loader, 3, directory.path(), false).outcome.end, End::interrupted);
    expect_equal(run(loader, 0, directory.path(), true), whole);
  }
}

// The trainer's steps are those of a loop by hand.
TEST(SeveralInputs, StepsAreThoseOfALoop) {
  const data::DataLoader loader(pairs(24), {.batch_size = 8, .seed = 1});
  manual_seed(3);
  Pair one, two;
  two = one;
  optim::SGD optimizer(one.parameters(), {.lr = 0.05}), by_hand(two.parameters(), {.lr = 0.05});
  manual_seed(5);
  Trainer trainer(one, optimizer, {.loss = joint_loss});
  trainer.fit(loader);
  manual_seed(5);
  for (const data::Batch& batch : loader.epoch(0)) {
    const Device device = two.left.weight.tensor().device();
    const auto [classes, sums] = two(batch.inputs.to(device), batch.more_inputs[0].to(device));
    joint_loss({classes, sums}, {batch.targets.to(device), batch.more_targets[0].to(device)})
        .backward();
    by_hand.step();
    by_hand.zero_grad();
  }
  EXPECT_TRUE(all(equal(one.left.weight, two.left.weight)).item<bool>());
  EXPECT_TRUE(all(equal(one.right.weight, two.right.weight)).item<bool>());
}

struct ListModel : nn::Module<ListModel> {
  nn::Linear out{3, 2};
  Tensors forward(const Tensors& inputs) { return {out(inputs[0]), out(inputs[0]) * 2}; }
};
struct OneOrTwo : nn::Module<OneOrTwo> {
  nn::Linear out{3, 4};
  Tensor forward(const Tensor& a) { return out(a); }
  Tensor forward(const Tensor& a, const Tensor& b) { return out(a) + sum(b); }
};

TEST(ModelReference, CallsWithListsAndArities) {
  ListModel list;
  const Tensor x = ones({2, 3}), y = ones({2, 2});
  EXPECT_EQ(ModelReference(list)(Tensors{x, y}).size(), 2u);
  OneOrTwo several;
  const ModelReference reference(several);
  EXPECT_EQ(reference(x).shape(), (Shape{2, 4}));
  EXPECT_TRUE(all(equal(reference(Tensors{x, y})[0], reference(x) + 4)).item<bool>());
  expect_error<ValueError>(
      [&] {
        reference(Tensors{x, y, y});
      },
      {"ModelReference", "3 inputs", "1, 2"});
  const ModelReference two_outputs(list);
  expect_error<ValueError>([&] { two_outputs(x); }, {"ModelReference", "2 tensors"});
}

TEST(SeveralInputs, ErrorsNameWhatDoesNotFit) {
  const data::DataLoader loader(pairs(8), {.batch_size = 8});
  nn::Linear one(3, 4);
  optim::SGD optimizer(one.parameters(), {.lr = 0.1});
  expect_error<ValueError>([&] { Trainer(one, optimizer, {.loss = joint_loss}).fit(loader); },
                           {"ModelReference", "2 inputs", "allowed: 1"});
  Pair model;
  optim::SGD other(model.parameters(), {.lr = 0.1});
  expect_error<ValueError>([&] { Trainer(model, other).fit(loader); },
                           {"Loss", "2 outputs", "2 targets"});
  expect_error<ValueError>([&] { evaluate(model, loader); }, {"Loss", "2 outputs", "2 targets"});
}

TEST(SeveralInputs, ASummaryShowsAllOutputs) {
  Pair model;
  const Tensor a = ones({5, 3}), b = ones({5, 2});
  for (const std::string& text : {model.summary(a, b), ModelReference(model).summary({a, b})}) {
    EXPECT_NE(text.find("[5, 4], [5]"), std::string::npos) << text;
  }
}

TEST(SeveralInputs, AnInputThatIsNotFiniteIsNamed) {
  if (default_device() != cpu_device) GTEST_SKIP() << "a device detects it later";
  const Tensor a = ones({2, 3}), bad = full({2, 2}, std::nan(""));
  const data::DataLoader loader(data::TensorDataset({a, bad}, {tensor({0, 1}), ones({2})}));
  Pair model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  expect_error<DivergedError>([&] { Trainer(model, optimizer, {.loss = joint_loss}).fit(loader); },
                              {"inputs of the batch"});
}

// ---- streams

data::StreamDataset stream(std::int64_t count) {
  const data::TensorDataset rows = pairs(count);
  return data::StreamDataset(
      [=](std::int64_t) {
        return [=, next = std::int64_t{0}]() mutable -> std::optional<data::Example> {
          if (next == count) return std::nullopt;
          const std::vector<std::int64_t> one = {next++};
          const data::Batch batch = rows.batch({one});
          return data::Example{batch.inputs[0],
                               batch.targets[0],
                               {batch.more_inputs[0][0]},
                               {batch.more_targets[0][0]}};
        };
      },
      {.shuffle_buffer = 10});
}

TEST(StreamTraining, ReadsTheStreamAgainAndResumes) {
  for (const int workers : {0, 1, 3}) {
    // 7 batches, 4 steps in an epoch; 12 steps are 3 epochs.
    const data::DataLoader loader(stream(50), {.batch_size = 8, .workers = workers, .seed = 1});
    const Result whole = run(loader, 0, {}, false);
    EXPECT_EQ(whole.outcome.step, 12);
    EXPECT_EQ(whole.outcome.epoch, 3);
    EXPECT_EQ(whole.outcome.last.examples, 50);
    // Within an epoch, and at its end.
    for (const std::int64_t stop : {5, 8}) {
      const TemporaryDirectory directory;
      EXPECT_EQ(run(loader, stop, directory.path(), false).outcome.end, End::interrupted);
      expect_equal(run(loader, 0, directory.path(), true), whole);
    }
  }
}

TEST(StreamTraining, NeedsStepsAndExamples) {
  Pair model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  expect_error<ValueError>(
      [&] { Trainer(model, optimizer, {.loss = joint_loss}).fit(data::DataLoader(stream(8))); },
      {"Trainer", "steps is 0", "stream"});
  expect_error<ValueError>(
      [&] {
        Trainer(model, optimizer, {.steps = 2, .loss = joint_loss})
            .fit(data::DataLoader(stream(0)));
      },
      {"Trainer", "no batches"});
}

}  // namespace
}  // namespace extensor::train
