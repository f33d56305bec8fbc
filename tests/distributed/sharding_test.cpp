// Optimizer states that are divided between ranks against states that every rank has whole.
// tests/distributed/run.sh starts this program with 1 to 4 ranks; all of them run every test.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "extensor/distributed.h"
#include "extensor/extensor.h"

namespace extensor::distributed {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  const NoGrad off;
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         std::memcmp(x.impl().data, y.impl().data, x.nbytes()) == 0;
}

double difference(const Tensor& a, const Tensor& b) {
  const NoGrad off;
  const double scale = max(abs(b.to(float64))).item<double>();
  return max(abs(a.to(float64) - b.to(float64))).item<double>() / std::max(scale, 1e-300);
}

// Small integers, of which sums over ranks are exact in every dtype and order.
Tensor integers(const Shape& shape, DType dtype, std::uint64_t seed) {
  Generator generator(seed);
  return randint(-3, 4, shape, {}, generator).to(dtype);
}

// Parameters of several sizes, one of them not row-major, one 0-d and one empty.
NamedTensors parameters_of(DType dtype) {
  NamedTensors list;
  std::uint64_t seed = 40;
  for (const Shape& shape : {Shape{0, 2}, Shape{5, 3}, Shape{7}, Shape{}, Shape{2, 3, 4}}) {
    list.emplace_back("p" + std::to_string(list.size()), integers(shape, dtype, seed++));
  }
  list.emplace_back("transposed", integers({6, 4}, dtype, seed).transpose());
  for (auto& [name, tensor] : list) tensor.requires_grad_();
  return list;
}

std::vector<Tensor> tensors_of(const NamedTensors& list) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : list) tensors.push_back(tensor);
  return tensors;
}

// The gradient of each parameter is a tensor of integers, another one on each rank and step.
Tensor loss_of(const NamedTensors& list, const Communicator& world, int step) {
  Tensor total;
  auto seed = static_cast<std::uint64_t>(100 * step + world.rank());
  for (const auto& [name, tensor] : list) {
    const Tensor part = sum(tensor * integers(tensor.shape(), tensor.dtype(), 7 * seed++));
    total = total.defined() ? total + part : part;
  }
  return total;
}

void expect_same_states(const optim::StateDict& a, const optim::StateDict& b) {
  EXPECT_EQ(a.numbers, b.numbers);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    ASSERT_TRUE(b.tensors.contains(name)) << name;
    EXPECT_TRUE(same_bits(tensor, b.tensors.at(name))) << name;
  }
}

template <class Optimizer, class Options>
void train_both(DType dtype, const Options& options, std::int64_t bucket_bytes) {
  Communicator& world = init();
  const NamedTensors whole = parameters_of(dtype), divided = parameters_of(dtype);
  DistributedDataParallel first(whole, {}, world, {.bucket_bytes = bucket_bytes});
  DistributedDataParallel second(divided, {}, world, {.bucket_bytes = bucket_bytes});
  Optimizer expected(tensors_of(whole), options);
  auto found = std::make_unique<Optimizer>(tensors_of(divided), options);
  second.shard(*found);
  for (int step = 0; step < 4; ++step) {
    expected.zero_grad();
    found->zero_grad();
    loss_of(whole, world, step).backward();
    loss_of(divided, world, step).backward();
    expected.step();
    found->step();
    for (std::size_t k = 0; k < whole.size(); ++k) {
      EXPECT_TRUE(same_bits(divided[k].second, whole[k].second)) << whole[k].first << " " << step;
    }
    if (step % 2 == 0) continue;
    const optim::StateDict saved = found->state_dict();
    expect_same_states(saved, expected.state_dict());
    if (step == 1) found->load_state_dict(saved);
  }
}

TEST(Sharding, HasTheBitsOfWholeStates) {
  for (const DType dtype : {float64, float32, float16, bfloat16}) {
    for (const std::int64_t bucket_bytes : {1, 64, 1 << 20}) {
      if (dtype != float32 && bucket_bytes != 64) continue;
#define OPTIMIZER(row, Class, Options, ...) \
  train_both<optim::Class>(dtype, Options{.lr = 0.125}, bucket_bytes);
#include "extensor/tables/optimizers.def"
      train_both<optim::SGD>(dtype, SgdOptions{.lr = 0.125, .momentum = 0.5}, bucket_bytes);
      train_both<optim::Adam>(dtype, AdamOptions{.lr = 0.125, .amsgrad = true}, bucket_bytes);
    }
  }
}

// This rank's rows of a batch, and the factor for the mean of unequal parts.
Tensor part(const Tensor& x, const Communicator& world) {
  const std::int64_t each = x.size(0) / world.size(), more = x.size(0) % world.size();
  const std::int64_t rank = world.rank();
  const std::int64_t first = rank * each + std::min(rank, more);
  return x.slice(0, first, first + each + (rank < more ? 1 : 0));
}

struct Setting {
  bool shards = false;
  double clip = std::numeric_limits<double>::infinity();
  double norm_type = 2;
  DType dtype = float64;
};

struct Trained {
  std::vector<Tensor> weights;
  std::vector<double> norms;
};

Trained train(const Setting& setting) {
  Communicator& world = init();
  manual_seed(2);
  models::LeNet model({.height = 12, .width = 12});
  model.to(setting.dtype);
  DistributedDataParallel parallel(model, world, {.bucket_bytes = 20'000});
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  if (setting.shards) parallel.shard(optimizer);
  Trained result;
  for (int step = 0; step < 4; ++step) {
    Generator generator(static_cast<std::uint64_t>(step));
    const std::int64_t size = step == 2 ? 2 : 10;  // step 2 leaves ranks without examples
    const Tensor x = randn({size, 1, 12, 12}, {}, generator).to(setting.dtype);
    const Tensor y = randint(0, 10, {size}, {}, generator);
    const Tensor own = part(x, world);
    optimizer.zero_grad();
    if (own.size(0) == 0) {
      parallel.backward_empty();
    } else {
      const double weight =
          static_cast<double>(own.size(0) * world.size()) / static_cast<double>(size);
      (cross_entropy(model(own), part(y, world)) * weight).backward();
    }
    result.norms.push_back(
        optim::clip_grad_norm(model.parameters(), setting.clip, setting.norm_type));
    optimizer.step();
  }
  for (const Tensor& each : model.parameters()) result.weights.push_back(each.detach().clone());
  return result;
}

TEST(Sharding, ClipsByTheNormOfAllParts) {
  Communicator& world = init();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double norm_type : {2.0, 1.0, 3.0, infinity}) {
    const Trained whole = train({.clip = 0.05, .norm_type = norm_type});
    const Trained divided = train({.shards = true, .clip = 0.05, .norm_type = norm_type});
    for (std::size_t k = 0; k < whole.norms.size(); ++k) {
      EXPECT_GT(whole.norms[k], 0.05);
      EXPECT_NEAR(divided.norms[k] / whole.norms[k], 1, 1e-9) << norm_type;
    }
    for (std::size_t k = 0; k < whole.weights.size(); ++k) {
      EXPECT_LE(difference(divided.weights[k], whole.weights[k]), 1e-9) << norm_type;
      Tensor first = divided.weights[k].clone();
      world.broadcast(first);
      EXPECT_TRUE(same_bits(first, divided.weights[k]));
    }
  }
}

TEST(Sharding, TwoRunsHaveTheSameBits) {
  const Trained first = train({.shards = true, .clip = 0.05, .dtype = float32});
  const Trained second = train({.shards = true, .clip = 0.05, .dtype = float32});
  for (std::size_t k = 0; k < first.weights.size(); ++k) {
    EXPECT_TRUE(same_bits(first.weights[k], second.weights[k]));
  }
  // a + b is b + a: with two ranks, the order of sums is that of whole gradients.
  if (init().size() > 2) return;
  const Trained divided = train({.shards = true, .dtype = float32});
  const Trained whole = train({.dtype = float32});
  for (std::size_t k = 0; k < whole.weights.size(); ++k) {
    EXPECT_TRUE(same_bits(divided.weights[k], whole.weights[k]));
  }
}

TEST(Sharding, AnOverflowInOnePartSkipsTheStepOfAll) {
  Communicator& world = init();
  NamedTensors list{{"x", zeros({8})}};
  list[0].second.requires_grad_();
  DistributedDataParallel parallel(list, {}, world);
  optim::Adam optimizer({list[0].second});
  parallel.shard(optimizer);
  optim::GradScaler scaler({.init_scale = 4});
  for (const std::int64_t at : {0, 7}) {
    for (const double value :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1.0}) {
      const Tensor before = list[0].second.detach().clone();
      Tensor factor = ones({8});
      factor.slice(0, at, at + 1).fill(value);
      scaler.scale(sum(list[0].second * factor)).backward();
      const bool made = static_cast<bool>(scaler.step(optimizer));
      scaler.update();
      optimizer.zero_grad();
      EXPECT_EQ(made, value == 1.0) << at;
      EXPECT_EQ(same_bits(before, list[0].second), value != 1.0);
    }
  }
  // Four overflows, each halves the scale.
  EXPECT_EQ(scaler.scale(), 0.25);
}

TEST(Sharding, AccumulatesOverSeveralBackwards) {
  Communicator& world = init();
  const NamedTensors whole = parameters_of(float64), divided = parameters_of(float64);
  DistributedDataParallel first(whole, {}, world), second(divided, {}, world);
  optim::SGD expected(tensors_of(whole), {.lr = 0.5}), found(tensors_of(divided), {.lr = 0.5});
  second.shard(found);
  // Averages of several backwards add up, with no_sync() and without.
  for (int step = 0; step < 6; ++step) {
    std::optional<DistributedDataParallel::NoSync> one, other;
    if (step == 1 || step == 4) {
      one.emplace(first);
      other.emplace(second);
    }
    if (step == 3) {
      expected.zero_grad(false);
      found.zero_grad(false);
    }
    loss_of(whole, world, step).backward();
    loss_of(divided, world, step).backward();
  }
  expected.step();
  found.step();
  for (std::size_t k = 0; k < whole.size(); ++k) {
    if (whole[k].second.numel() == 0) continue;
    EXPECT_LE(difference(divided[k].second, whole[k].second), 1e-14) << whole[k].first;
  }
}

TEST(Sharding, DividesTheMemory) {
  Communicator& world = init();
  const auto bytes = [] { return static_cast<double>(memory_stats().allocated_bytes); };
  const auto states = [&](bool shards) {
    models::Mlp model({512, 2048, 2048, 1024});
    DistributedDataParallel parallel(model, world);
    optim::Adam optimizer(model.parameters());
    if (shards) parallel.shard(optimizer);
    sum(model(ones({2, 512}))).backward();
    const double before = bytes();
    optimizer.step();
    return bytes() - before;
  };
  const double whole = states(false), divided = states(true);
  EXPECT_GT(whole, 0);
  // Blocks are rounded up to size classes, 8 for each power of two.
  EXPECT_LE(divided / whole, 1.125 / world.size());
}

TEST(Sharding, DividesAgainAfterAnotherBeginning) {
  Communicator& world = init();
  const NamedTensors whole = parameters_of(float32), divided = parameters_of(float32);
  optim::Adam expected(tensors_of(whole), {.lr = 0.125}), found(tensors_of(divided), {.lr = 0.125});
  DistributedDataParallel reference(whole, {}, world);
  int step = 0;
  const auto both = [&] {
    expected.zero_grad();
    found.zero_grad();
    loss_of(whole, world, step).backward();
    loss_of(divided, world, step++).backward();
    expected.step();
    found.step();
  };
  {
    const DistributedDataParallel parallel(divided, {}, world);
    both();  // states of the first step are whole
  }
  for (const std::int64_t bucket_bytes : {1, 100, 1 << 20}) {
    DistributedDataParallel parallel(divided, {}, world, {.bucket_bytes = bucket_bytes});
    parallel.shard(found);
    both();
    both();
  }
  for (std::size_t k = 0; k < whole.size(); ++k) {
    EXPECT_TRUE(same_bits(divided[k].second, whole[k].second)) << whole[k].first;
  }
  expect_same_states(found.state_dict(), expected.state_dict());
  if (world.size() > 1) {
    EXPECT_THROW(found.step(), ValueError);
  }
}

TEST(Sharding, RefusesWhatCannotWork) {
  Communicator& world = init();
  if (world.size() == 1) GTEST_SKIP() << "one rank divides nothing";
  const NamedTensors list = parameters_of(float32);
  const std::vector<Tensor> tensors = tensors_of(list);
  DistributedDataParallel parallel(list, {}, world);
  Tensor other = zeros({3}).requires_grad_();
  std::vector<Tensor> more = tensors;
  more.push_back(other);
  optim::SGD too_many(more), too_few({tensors[0]}), right(tensors);
  EXPECT_THROW(parallel.shard(too_many), ValueError);
  try {
    parallel.shard(too_few);
    ADD_FAILURE() << "no error";
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("does not have parameter p1"), std::string::npos)
        << error.what();
  }
  parallel.shard(right);
  EXPECT_THROW(parallel.shard(right), ValueError);
  EXPECT_THROW(right.add_group({other}), ValueError);
  EXPECT_THROW(optim::clip_grad_norm(more, 1.0), ValueError);
  loss_of(list, world, 0).backward();
  right.step();
}

}  // namespace
}  // namespace extensor::distributed
