// The trainer on several ranks against one process. tests/distributed/run.sh starts this program
// with 1 to 4 ranks; all of them run every test.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "extensor/distributed.h"
#include "extensor/extensor.h"

namespace extensor::train {
namespace {

using distributed::Communicator;
namespace fs = std::filesystem;

// 0 … count − 1 as points in the plane, and whether they lie above its diagonal.
data::TensorDataset points(std::int64_t count, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor x = randn({count, 2}, float64, generator);
  return {x, greater(x.slice(1, 0, 1), x.slice(1, 1, 2)).reshape({count}).to(int64)};
}

struct Result {
  std::vector<Tensor> weights;
  Evaluation evaluation;
  std::vector<double> losses;
  std::vector<std::int64_t> examples;
};

class Records final : public Callback {
 public:
  explicit Records(Result& run) : run_(run) {}
  void step(const StepRecord& record) override {
    run_.losses.push_back(record.loss);
    run_.examples.push_back(record.examples);
  }

 private:
  Result& run_;
};

struct Options {
  Communicator* communicator = nullptr;
  fs::path checkpoints = {};
  std::int64_t stop_after = 0;
  bool resume = false;
  bool dropout = false;
  bool shards = false;
  std::optional<DType> autocast = {};
};

struct Net final : nn::Module<Net> {
  nn::Linear first{2, 8, {.dtype = float64}}, second{8, 2, {.dtype = float64}};
  nn::Dropout dropout{0.5};
  nn::Training training;
  bool drops = false;
  explicit Net(bool with_dropout) : drops(with_dropout) {}
  Tensor forward(const Tensor& x) const {
    const Tensor hidden = relu(first(x));
    return second(drops ? dropout(hidden) : hidden);
  }
  void visit(nn::Walker& walk) {
    walk("first", first)("second", second)("dropout", dropout)("training", training);
  }
};

Result fit(const Options& options) {
  Result run;
  Communicator* world = options.communicator;
  // The stream as well: an earlier run gave this rank its own.
  const auto rank = static_cast<std::uint64_t>(world == nullptr ? 0 : world->rank());
  default_generator().set_state({4 + rank, 0, 0});
  Net model(options.dropout);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  const auto loader = [&](std::int64_t count, std::uint64_t seed, bool shuffle) {
    return data::DataLoader(points(count, seed), {.batch_size = 8,
                                                  .shuffle = shuffle,
                                                  .seed = 9,
                                                  .rank = world == nullptr ? 0 : world->rank(),
                                                  .ranks = world == nullptr ? 1 : world->size()});
  };
  // The last batch of an epoch has one example: all ranks but one have none.
  const data::DataLoader training = loader(41, 1, true), held_out = loader(29, 2, false);
  std::int64_t steps = 0;
  TrainerOptions settings{.epochs = 3,
                          .accumulate = 2,
                          .clip_norm = 1,
                          .autocast = options.autocast,
                          .checkpoints = options.checkpoints,
                          .checkpoint_every = 4,
                          .communicator = world,
                          .shard_optimizer = options.shards};
  settings.stop = [&] { return ++steps == options.stop_after; };
  Trainer trainer(model, optimizer, settings);
  trainer.add<Records>(run);
  if (options.resume) {
    EXPECT_TRUE(trainer.resume().has_value());
  }
  run.evaluation = trainer.fit(training, &held_out).last;
  for (const Tensor& each : model.parameters()) run.weights.push_back(each.detach().clone());
  return run;
}

double difference(const Result& a, const Result& b) {
  double largest = 0;
  for (std::size_t k = 0; k < a.weights.size(); ++k) {
    largest = std::max(largest, max(abs(a.weights[k] - b.weights[k])).item<double>());
  }
  return largest;
}

bool same_bits(const Result& a, const Result& b) {
  for (std::size_t k = 0; k < a.weights.size(); ++k) {
    if (std::memcmp(a.weights[k].impl().data, b.weights[k].impl().data, a.weights[k].nbytes()) != 0)
      return false;
  }
  return true;
}

// A directory that rank 0 makes and removes.
class Shared {
 public:
  explicit Shared(Communicator& world) : world_(world) {
    std::string made;
    if (world.rank() == 0) {
      std::string pattern = (fs::temp_directory_path() / "extensor-ranks-XXXXXX").string();
      made = mkdtemp(pattern.data());
    }
    path = world.all_gather_text(made)[0];
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    world_.barrier();
    if (world_.rank() == 0) fs::remove_all(path);
  }
  fs::path path;

 private:
  Communicator& world_;
};

TEST(TrainerOnRanks, TrainsLikeOneProcess) {
  Communicator& world = distributed::init();
  const Result alone = fit({}), together = fit({.communicator = &world});
  EXPECT_LE(difference(together, alone), 1e-9);
  EXPECT_NEAR(together.evaluation.loss, alone.evaluation.loss, 1e-9);
  EXPECT_EQ(together.evaluation.accuracy, alone.evaluation.accuracy);
  EXPECT_EQ(together.evaluation.examples, 29);
  ASSERT_TRUE(together.evaluation.confusion.has_value());
  EXPECT_EQ(together.evaluation.confusion->matrix().to_vector<std::int64_t>(),
            alone.evaluation.confusion->matrix().to_vector<std::int64_t>());
  // Rank 0 alone calls callbacks, with the numbers of all ranks.
  if (world.rank() == 0) {
    EXPECT_EQ(together.examples, alone.examples);
    ASSERT_EQ(together.losses.size(), alone.losses.size());
    for (std::size_t k = 0; k < alone.losses.size(); ++k) {
      EXPECT_NEAR(together.losses[k], alone.losses[k], 1e-9);
    }
  } else {
    EXPECT_TRUE(together.losses.empty());
  }
}

TEST(TrainerOnRanks, ResumesWithTheSameBits) {
  Communicator& world = distributed::init();
  const Shared directory(world);
  for (const bool dropout : {false, true}) {
    const fs::path path = directory.path / (dropout ? "dropout" : "plain");
    const Result whole = fit({.communicator = &world, .dropout = dropout});
    // Interrupted within an epoch of three steps.
    fit({.communicator = &world, .checkpoints = path, .stop_after = 5, .dropout = dropout});
    const Result resumed =
        fit({.communicator = &world, .checkpoints = path, .resume = true, .dropout = dropout});
    EXPECT_TRUE(same_bits(resumed, whole)) << dropout;
    EXPECT_EQ(resumed.evaluation.loss, whole.evaluation.loss);
  }
}

TEST(TrainerOnRanks, ResumesWithAnotherNumberOfRanks) {
  Communicator& world = distributed::init();
  const Shared directory(world);
  const Result alone = fit({});
  fit({.communicator = &world, .checkpoints = directory.path / "ranks", .stop_after = 5});
  world.barrier();
  // Every rank goes on alone, in a copy of the directory.
  const fs::path own = directory.path / ("own" + std::to_string(world.rank()));
  fs::copy(directory.path / "ranks", own, fs::copy_options::recursive);
  const Result resumed = fit({.checkpoints = own, .resume = true});
  EXPECT_LE(difference(resumed, alone), 1e-9);

  if (world.rank() == 0) fit({.checkpoints = directory.path / "one", .stop_after = 4});
  world.barrier();
  const Result spread =
      fit({.communicator = &world, .checkpoints = directory.path / "one", .resume = true});
  EXPECT_LE(difference(spread, alone), 1e-9);
}

TEST(TrainerOnRanks, DividesTheStatesOfTheOptimizer) {
  Communicator& world = distributed::init();
  const Shared directory(world);
  const Result alone = fit({});
  const Result divided = fit({.communicator = &world, .shards = true});
  EXPECT_LE(difference(divided, alone), 1e-9);
  EXPECT_NEAR(divided.evaluation.loss, alone.evaluation.loss, 1e-9);

  // Interrupted and resumed, with the same bits.
  fit({.communicator = &world,
       .checkpoints = directory.path / "same",
       .stop_after = 5,
       .shards = true});
  const Result resumed = fit({.communicator = &world,
                              .checkpoints = directory.path / "same",
                              .resume = true,
                              .shards = true});
  EXPECT_TRUE(same_bits(resumed, divided));

  // The checkpoint is read by ranks with whole states, and by one process.
  fit({.communicator = &world,
       .checkpoints = directory.path / "whole",
       .stop_after = 5,
       .shards = true});
  world.barrier();
  const fs::path own = directory.path / ("own" + std::to_string(world.rank()));
  fs::copy(directory.path / "whole", own, fs::copy_options::recursive);
  world.barrier();
  EXPECT_LE(difference(fit({.checkpoints = own, .resume = true}), alone), 1e-9);
  EXPECT_LE(
      difference(
          fit({.communicator = &world, .checkpoints = directory.path / "whole", .resume = true}),
          alone),
      1e-9);

  // One of one process is read by ranks that divide the states.
  if (world.rank() == 0) fit({.checkpoints = directory.path / "one", .stop_after = 4});
  world.barrier();
  const Result spread = fit({.communicator = &world,
                             .checkpoints = directory.path / "one",
                             .resume = true,
                             .shards = true});
  EXPECT_LE(difference(spread, alone), 1e-9);
}

TEST(TrainerOnRanks, DividesTheStatesUnderLossScaling) {
  Communicator& world = distributed::init();
  const Result whole = fit({.communicator = &world, .autocast = float16});
  const Result divided = fit({.communicator = &world, .shards = true, .autocast = float16});
  // Products are rounded to float16; what differs is the order of sums of gradients.
  EXPECT_LE(difference(divided, whole), 1e-6);
}

TEST(TrainerOnRanks, RefusesTheLoaderOfAnotherRank) {
  Communicator& world = distributed::init();
  if (world.size() == 1) GTEST_SKIP() << "one rank has every loader";
  models::Mlp model({2, 2});
  optim::SGD optimizer(model.parameters());
  Trainer trainer(model, optimizer, {.communicator = &world});
  const data::DataLoader all(points(8, 1), {.batch_size = 4});
  EXPECT_THROW(trainer.fit(all), ValueError);
  const data::DataLoader other(
      points(8, 1),
      {.batch_size = 4, .rank = (world.rank() + 1) % world.size(), .ranks = world.size()});
  EXPECT_THROW(evaluate(model, other), ValueError);
}

}  // namespace
}  // namespace extensor::train
