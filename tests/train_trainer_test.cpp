// The trainer: an interrupted and resumed run has the weights of an uninterrupted one, and its
// callbacks work as documented.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "extensor/extensor.h"
#include "support/child_process.h"
#include "support/files.h"

namespace extensor::train {
namespace {

using test_support::expect_error;
using test_support::read_file;
using test_support::TemporaryDirectory;
using test_support::write_file;

// All sources of randomness at once: dropout, batch statistics, image shifts.
struct Net : nn::Module<Net> {
  nn::Conv2d conv{1, 4, 3, {.stride = 4}};
  nn::BatchNorm2d norm{4};
  nn::Dropout dropout{0.3};
  nn::Flatten flat;
  nn::Linear out{196, 10};
  Tensor forward(const Tensor& x) { return out(dropout(flat(relu(norm(conv(x)))))); }
};

data::ImageDataset digits(std::int64_t count) {
  return data::ImageDataset(data::digits(count, 3),
                            {data::random_affine({.degrees = 10, .translate = 0.1}),
                             data::random_crop(2), data::normalize({0.16}, {0.32})});
}

struct Setup {
  int workers = 2;
  std::int64_t stop_after = 0;  // steps; 0: all
  std::filesystem::path checkpoints = {};
  std::filesystem::path log = {};
};

struct Result {
  NamedTensors weights;
  Outcome outcome;
};

// 100 digits in batches of 8, two of which make a step: the last step of an epoch is half.
Result train(const Setup& setup, bool resume = false) {
  manual_seed(11);
  Net net;
  optim::AdamW optimizer(net.parameters(), {.lr = 5e-3});
  optim::OneCycleLR schedule(optimizer, {.max_lr = 5e-3, .total_steps = 22});
  const data::DataLoader training(digits(100),
                                  {.batch_size = 8, .workers = setup.workers, .seed = 5});
  const data::DataLoader held_out(digits(32), {.batch_size = 16, .shuffle = false});
  std::int64_t steps = 0;
  TrainerOptions options;
  options.epochs = 3;
  options.accumulate = 2;
  options.clip_norm = 1;
  options.schedule = &schedule;
  options.checkpoints = setup.checkpoints;
  options.checkpoint_every = 2;
  options.stop = [&] { return ++steps == setup.stop_after; };
  Trainer trainer(net, optimizer, options);
  trainer.add<EarlyStopping>(EarlyStoppingOptions{.patience = 100});
  if (!setup.log.empty()) trainer.add<JsonLog>(setup.log);
  EXPECT_EQ(resume && trainer.resume().has_value(), resume);
  const Outcome outcome = trainer.fit(training, &held_out);
  NamedTensors weights;
  for (const auto& [name, tensor] : net.state_dict()) weights.emplace_back(name, tensor.clone());
  return {weights, outcome};
}

void expect_same_bits(const NamedTensors& a, const NamedTensors& b, const std::string& what) {
  SCOPED_TRACE(what);
  test_support::expect_same(a, b);
}

TEST(Trainer, StopsAndGoesOnAtAnyStepWithTheSameWeights) {
  const Result whole = train({});
  EXPECT_EQ(whole.outcome.end, End::finished);
  EXPECT_EQ(whole.outcome.step, 21);
  for (std::int64_t stop = 1; stop < 21; ++stop) {
    const TemporaryDirectory directory;
    const Result first = train({.stop_after = stop, .checkpoints = directory.path()});
    EXPECT_EQ(first.outcome.end, End::interrupted);
    EXPECT_EQ(first.outcome.step, stop);
    EXPECT_TRUE(std::filesystem::exists(first.outcome.checkpoint));
    const Result second = train({.workers = 0, .checkpoints = directory.path()}, true);
    EXPECT_EQ(second.outcome.end, End::finished);
    EXPECT_EQ(second.outcome.step, 21);
    expect_same_bits(second.weights, whole.weights, "stopped at " + std::to_string(stop));
    EXPECT_EQ(second.outcome.last.loss, whole.outcome.last.loss);
  }
}

TEST(Trainer, GivesTheSameWeightsForAnyNumberOfWorkersAndThreads) {
  const Result none = train({.workers = 0});
  const int threads = get_num_threads();
  for (const int workers : {1, 3}) {
    expect_same_bits(train({.workers = workers}).weights, none.weights, std::to_string(workers));
  }
  set_num_threads(1);
  expect_same_bits(train({.workers = 2}).weights, none.weights, "one thread");
  set_num_threads(threads);
}

// The files of a killed process: checkpoints, the newest one damaged, and a log that is ahead of
// them.
TEST(Trainer, GoesOnFromTheNewestWholeCheckpoint) {
  const Result whole = train({});
  const TemporaryDirectory directory;
  train({.stop_after = 9, .checkpoints = directory / "c", .log = directory / "log"});
  Checkpoints all(directory / "c");
  ASSERT_EQ(all.list().size(), 2U);
  const std::string bytes = read_file(all.list()[1]);
  write_file(all.list()[1], bytes.substr(0, bytes.size() - 1));
  const Result second = train({.checkpoints = directory / "c", .log = directory / "log"}, true);
  expect_same_bits(second.weights, whole.weights, "from the one before");

  // Every step is in the log once, in order.
  std::istringstream lines(read_file(directory / "log"));
  std::int64_t next = 1;
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record["type"] == "step") {
      EXPECT_EQ(record["step"], next++);
    }
  }
  EXPECT_EQ(next, 22);
}

TEST(Trainer, ASecondRunThatIsFinishedDoesNothing) {
  const TemporaryDirectory directory;
  const Result first = train({.checkpoints = directory.path()});
  const Result second = train({.checkpoints = directory.path()}, true);
  EXPECT_EQ(second.outcome.end, End::finished);
  EXPECT_EQ(second.outcome.step, first.outcome.step);
  expect_same_bits(second.weights, first.weights, "again");
}

TEST(Trainer, RefusesTheCheckpointOfAnotherModel) {
  const TemporaryDirectory directory;
  train({.stop_after = 2, .checkpoints = directory.path()});
  nn::Linear other(3, 2);
  const Tensor before = other.weight.tensor().clone();
  optim::SGD optimizer(other.parameters(), {.lr = 0.1});
  Trainer trainer(other, optimizer, {.checkpoints = directory.path()});
  EXPECT_THROW(trainer.resume(), ValueError);
  test_support::expect_same(other.weight.tensor(), before);
}

// ---- callbacks

data::TensorDataset line(std::int64_t count) {
  const Tensor x = linspace(-1, 1, count, float32).reshape({count, 1});
  return {x, x * 2};
}

Tensor squares(const Tensor& y, const Tensor& target) { return mean_squared_error(y, target); }

TEST(Trainer, LearnsALine) {
  manual_seed(0);
  nn::Linear model(1, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  Trainer trainer(model, optimizer, {.epochs = 40, .loss = squares});
  const data::DataLoader loader(line(64), {.batch_size = 16});
  const Outcome outcome = trainer.fit(loader, &loader);
  EXPECT_LT(outcome.last.loss, 1e-4);
  EXPECT_TRUE(std::isnan(outcome.last.accuracy));
  EXPECT_EQ(outcome.step, 160);
}

class Counting final : public Callback {
 public:
  void begin(const RunRecord& run) override {
    ++begun;
    EXPECT_EQ(run.last_step, 7);
  }
  void step(const StepRecord& record) override {
    ++steps;
    EXPECT_EQ(record.step, steps);
    EXPECT_GT(record.gradient_norm, 0);
    EXPECT_EQ(record.learning_rate, 0.1);
  }
  void evaluation(const EvaluationRecord& record) override { evaluated.push_back(record.step); }
  void end(const Outcome&) override { ++ended; }
  int begun = 0, ended = 0;
  std::int64_t steps = 0;
  std::vector<std::int64_t> evaluated;
};

TEST(Trainer, TellsCallbacksEverything) {
  nn::Linear model(1, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  Trainer trainer(model, optimizer,
                  {.epochs = 9, .steps = 7, .evaluate_every = 3, .loss = squares});
  auto& counting = trainer.add<Counting>();
  const data::DataLoader loader(line(64), {.batch_size = 16});
  trainer.fit(loader, &loader);
  EXPECT_EQ(counting.begun, 1);
  EXPECT_EQ(counting.ended, 1);
  EXPECT_EQ(counting.steps, 7);
  EXPECT_EQ(counting.evaluated, (std::vector<std::int64_t>{3, 6, 7}));
}

TEST(Trainer, EndsEarlyWhenNothingGetsBetter) {
  nn::Linear model(1, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 1e-30});
  Trainer trainer(model, optimizer, {.epochs = 50, .loss = squares});
  trainer.add<EarlyStopping>(EarlyStoppingOptions{.patience = 3});
  const data::DataLoader loader(line(16), {.batch_size = 16});
  const Outcome outcome = trainer.fit(loader, &loader);
  EXPECT_EQ(outcome.end, End::stopped_early);
  EXPECT_EQ(outcome.step, 4);  // the best one so far, and three that are not better
  EXPECT_THROW(EarlyStopping({.patience = 0}), ValueError);
}

TEST(Trainer, KeepsTheBestWeights) {
  const TemporaryDirectory directory;
  manual_seed(0);
  nn::Linear model(1, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  optim::StepLR worse(optimizer, {.step_size = 20, .gamma = 100});  // it diverges from step 20 on
  Trainer trainer(model, optimizer,
                  {.epochs = 6, .evaluate_every = 1, .loss = squares, .schedule = &worse});
  const auto& best = trainer.add<BestModel>(directory / "best.safetensors", Watched::loss);
  const data::DataLoader loader(line(64), {.batch_size = 16, .shuffle = false});
  const Outcome outcome = trainer.fit(loader, &loader);
  EXPECT_GT(outcome.last.loss, best.best());
  nn::Linear kept(1, 1);
  kept.load_state_dict(load_safetensors(directory / "best.safetensors").tensors);
  EXPECT_EQ(evaluate(kept, loader, {.loss = squares}).loss, best.best());
}

// Once everything is classified correctly, the more certain network is the better one.
TEST(Trainer, KeepsTheLowerLossOfTheSameAccuracy) {
  const TemporaryDirectory directory;
  nn::Linear model(1, 1);
  BestModel best(directory / "best.safetensors");
  best.begin({.model = model});
  const auto evaluated = [&](double accuracy, double loss) {
    {
      const NoGrad off;
      model.bias.tensor().fill(loss);
    }
    EvaluationRecord record;
    record.evaluation.accuracy = accuracy;
    record.evaluation.loss = loss;
    best.evaluation(record);
    nn::Linear kept(1, 1);
    kept.load_state_dict(load_safetensors(directory / "best.safetensors").tensors);
    return kept.bias.tensor().item<float>();
  };
  EXPECT_EQ(evaluated(.5, 2), 2);
  EXPECT_EQ(evaluated(1, 3), 3);
  EXPECT_EQ(evaluated(1, 4), 3);
  EXPECT_EQ(evaluated(1, 1), 1);
  EXPECT_EQ(evaluated(.5, .25), 1);
  Checkpoint checkpoint;
  best.save(checkpoint);
  BestModel resumed(directory / "other.safetensors");
  resumed.load(checkpoint);
  EXPECT_EQ(resumed.best(), 1);
  EXPECT_EQ(checkpoint.numbers.at("best_model.loss"), 1);
}

TEST(Trainer, NamesWhatIsNotFinite) {
  nn::Linear model(1, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  Trainer trainer(model, optimizer, {.epochs = 50, .loss = squares});
  const data::DataLoader loader(line(16), {.batch_size = 16});
  {
    const NoGrad off;
    model.weight.tensor().fill(std::nan(""));
  }
  try {
    trainer.fit(loader);
    FAIL() << "nothing was thrown";
  } catch (const DivergedError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("step "), std::string::npos) << text;
    EXPECT_NE(text.find("'weight'"), std::string::npos) << text;
  }
}

TEST(Trainer, NamesABatchThatIsNotFinite) {
  nn::Linear model(1, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  Trainer trainer(model, optimizer, {.loss = squares});
  const data::DataLoader loader(
      data::TensorDataset(full({4, 1}, std::nan(""), float32), zeros({4, 1}, float32)),
      {.batch_size = 4});
  try {
    trainer.fit(loader);
    FAIL() << "nothing was thrown";
  } catch (const DivergedError& error) {
    EXPECT_NE(std::string(error.what()).find("inputs of the batch"), std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(all(isfinite(model.weight.tensor())).item<bool>());
}

TEST(Trainer, ChecksItsOptions) {
  nn::Linear model(1, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  EXPECT_THROW(Trainer(model, optimizer, {.epochs = 0}), ValueError);
  EXPECT_THROW(Trainer(model, optimizer, {.accumulate = 0}), ValueError);
  EXPECT_THROW(Trainer(model, optimizer, {.clip_norm = -1}), ValueError);
  EXPECT_THROW(Trainer(model, optimizer, {.clip_norm = std::nan("")}), ValueError);
  EXPECT_THROW(Trainer(model, optimizer, {.loss = nullptr}), ValueError);
  Trainer trainer(model, optimizer, {.loss = squares});
  const data::DataLoader nothing(line(0), {.batch_size = 4});
  EXPECT_THROW(trainer.fit(nothing), ValueError);
  const data::DataLoader whole(line(8), {.batch_size = 4});
  const data::DataLoader half(line(8), {.batch_size = 4, .rank = 1, .ranks = 2});
  expect_error<ValueError>([&] { trainer.fit(half); }, {"Trainer", "rank 1 of 2", "communicator"});
  expect_error<ValueError>([&] { trainer.fit(whole, &half); }, {"Trainer", "rank 1 of 2"});
  EXPECT_EQ(trainer.step(), 0);
}

// An optimizer of a part of the model is allowed, one of another model is not.
TEST(Trainer, ChecksTheParametersOfItsOptimizer) {
  nn::Linear model(1, 1), other(1, 1);
  optim::SGD foreign(other.parameters(), {.lr = 0.1});
  expect_error<ValueError>([&] { Trainer(model, foreign); },
                           {"Trainer", "optimizer", "none of the model's parameters"});
  optim::SGD part({model.bias.tensor()}, {.lr = 0.1});
  model.weight.tensor().requires_grad_(false);
  Trainer trainer(model, part, {.loss = squares});
  trainer.fit(data::DataLoader(line(8), {.batch_size = 4}));
  model.weight.tensor().requires_grad_();
  model.bias.tensor().requires_grad_(false);
  expect_error<ValueError>([&] { Trainer(model, part); }, {"Trainer", "require a gradient"});
  model.weight.tensor().requires_grad_(false);
  Trainer frozen(model, foreign);  // a loss may have parameters
}

// Invalid numbers of steps are rejected; a step of more batches than an epoch has uses all of them.
TEST(Trainer, CountsStepsWithoutOverflow) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(steps_of_epoch(10, most), 1);
  EXPECT_EQ(steps_of_epoch(10, 3), 4);
  EXPECT_EQ(steps_of_epoch(9, 3), 3);
  nn::Linear model(1, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const data::DataLoader loader(line(32), {.batch_size = 4});
  Trainer one(model, optimizer, {.epochs = 2, .accumulate = most, .loss = squares});
  EXPECT_EQ(one.fit(loader).step, 2);
  Trainer many(model, optimizer, {.epochs = most, .loss = squares});
  EXPECT_THROW(many.fit(loader), ValueError);
}

// A checkpoint's position in the data is meaningless in other data.
TEST(Trainer, RefusesToResumeOnAnotherNumberOfBatches) {
  const TemporaryDirectory directory;
  const auto train = [&](std::int64_t examples, bool allow, int steps) {
    nn::Linear model(1, 1);
    optim::SGD optimizer(model.parameters(), {.lr = 0.01});
    int taken = 0;
    Trainer trainer(model, optimizer,
                    {.epochs = 3,
                     .loss = squares,
                     .checkpoints = directory / "checkpoints",
                     .stop = [&] { return ++taken == steps; },
                     .allow_changed_data = allow});
    trainer.resume();
    return trainer.fit(data::DataLoader(line(examples), {.batch_size = 4}));
  };
  EXPECT_EQ(train(32, false, 7).step, 7);
  EXPECT_THROW(train(20, false, 100), ValueError);
  EXPECT_EQ(train(20, true, 100).step, 15);
}

TEST(Evaluate, CountsWhatIsRight) {
  // A model that returns its input, which is a row of logits.
  nn::Sequential model;
  const Tensor logits =
      tensor({{2.F, 1.F, 0.F}, {0.F, 3.F, 0.F}, {0.F, 1.F, 5.F}, {9.F, 0.F, 0.F}});
  const data::DataLoader loader(data::TensorDataset(logits, tensor({0, 1, 1, 2})),
                                {.batch_size = 3, .shuffle = false});
  const Evaluation result = evaluate(model, loader, {.worst = 5});
  EXPECT_EQ(result.examples, 4);
  EXPECT_EQ(result.accuracy, 0.5);
  ASSERT_TRUE(result.confusion.has_value());
  EXPECT_EQ(result.confusion->at(1, 2), 1);
  EXPECT_EQ(result.confusion->at(2, 0), 1);
  ASSERT_EQ(result.worst.size(), 4U);  // the mistakes, then correct but less certain ones
  EXPECT_EQ(result.worst[2].index, 0);
  EXPECT_EQ(result.worst[3].index, 1);
  EXPECT_TRUE(result.worst[2].is_right() && !result.worst[1].is_right());
  EXPECT_EQ(result.worst[0].index, 3);
  EXPECT_EQ(result.worst[0].prediction, 0);
  EXPECT_EQ(result.worst[1].index, 2);
  EXPECT_NEAR(result.worst[0].probability, std::exp(9) / (std::exp(9) + 2), 1e-6);
  // −log softmax by hand.
  const double expected =
      (std::log(1 + std::exp(-1) + std::exp(-2)) + std::log(1 + 2 * std::exp(-3)) +
       std::log(std::exp(-1) + 1 + std::exp(4)) + std::log(std::exp(9) + 2)) /
      4;
  EXPECT_NEAR(result.loss, expected, 1e-6);
}

}  // namespace
}  // namespace extensor::train
