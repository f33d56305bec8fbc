// Gradients, weights and batches of several ranks against one process that computes whole batches.
// tests/distributed/run.sh starts this program with 1 to 4 ranks; all of them run every test.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "extensor/distributed.h"
#include "extensor/extensor.h"
#include "support/device_checks.h"
#include "support/fake_device.h"

namespace extensor::distributed {
namespace {

// This rank's rows of a batch: contiguous parts that differ by one at most.
Tensor part(const Tensor& x, const Communicator& world) {
  const std::int64_t each = x.size(0) / world.size(), more = x.size(0) % world.size();
  const std::int64_t rank = world.rank();
  const std::int64_t first = rank * each + std::min(rank, more);
  return x.slice(0, first, first + each + (rank < more ? 1 : 0));
}

// With these weights, the mean over ranks of the losses of parts is the loss of the whole batch.
double weight(const Tensor& own, const Tensor& whole, const Communicator& world) {
  return static_cast<double>(own.size(0) * world.size()) / static_cast<double>(whole.size(0));
}

// The largest |a − b| relative to the largest |b|.
double difference(const Tensor& a, const Tensor& b) {
  const NoGrad off;
  const double scale = max(abs(b.to(float64))).item<double>();
  return max(abs(a.to(float64) - b.to(float64))).item<double>() / std::max(scale, 1e-300);
}

double norm_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double largest = 0;
  for (std::size_t k = 0; k < a.size(); ++k) largest = std::max(largest, difference(a[k], b[k]));
  return largest;
}

std::vector<Tensor> gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> list;
  for (const Tensor& each : parameters) list.push_back(each.grad().clone());
  return list;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.contiguous().impl().data, b.contiguous().impl().data, a.nbytes()) == 0;
}

bool same_on_all_ranks(const std::vector<Tensor>& list, Communicator& world) {
  const NoGrad off;
  for (const Tensor& each : list) {
    Tensor first = each.detach().clone();
    world.broadcast(first);
    Tensor differs = full({}, same_bits(first, each) ? 0 : 1);
    world.all_reduce(differs, ReduceOp::maximum);
    if (differs.item<std::int64_t>() != 0) return false;
  }
  return true;
}

struct Batch {
  Tensor x, y;
};
Batch batch_of(std::int64_t size, DType dtype, std::uint64_t seed = 5) {
  Generator generator(seed);
  const Tensor x = randn({size, 1, 12, 12}, {}, generator).to(dtype);
  return {x, randint(0, 10, {size}, {}, generator)};
}

// Another start on every rank: that of rank 0 counts.
models::LeNet lenet(int rank, DType dtype) {
  manual_seed(static_cast<std::uint64_t>(rank) + 1);
  models::LeNet model({.height = 12, .width = 12});
  model.to(dtype);
  return model;
}

TEST(DataParallel, HasTheGradientsOfTheWholeBatch) {
  Communicator& world = init();
  for (const DType dtype : {float64, float32}) {
    for (const std::int64_t size : {24, 13}) {
      for (const std::int64_t bucket :
           {std::int64_t{1}, std::int64_t{4096}, std::int64_t{1} << 25}) {
        for (const bool overlap : {true, false}) {
          if (size == 24 && (bucket != 4096 || !overlap)) continue;
          const Batch batch = batch_of(size, dtype);
          models::LeNet reference = lenet(0, dtype), model = lenet(world.rank(), dtype);
          cross_entropy(reference(batch.x), batch.y).backward();
          const DistributedDataParallel parallel(model, world,
                                                 {.bucket_bytes = bucket, .overlap = overlap});
          if (bucket == 1) {
            EXPECT_EQ(parallel.bucket_count(), std::ssize(model.parameters()));
          }
          const Tensor x = part(batch.x, world), y = part(batch.y, world);
          (cross_entropy(model(x), y) * weight(x, batch.x, world)).backward();
          const double found =
              norm_difference(gradients(model.parameters()), gradients(reference.parameters()));
          EXPECT_LE(found, dtype == float64 ? 1e-12 : 1e-6);
          EXPECT_TRUE(same_on_all_ranks(gradients(model.parameters()), world));
          if (world.rank() == 0 && bucket == 4096 && overlap) {
            std::printf("%d ranks, %s, batch of %lld: gradients differ by %.2g\n", world.size(),
                        dtype == float64 ? "float64" : "float32", static_cast<long long>(size),
                        found);
          }
        }
      }
    }
  }
}

TEST(DataParallel, AccumulatesWithoutCommunication) {
  Communicator& world = init();
  const Batch batch = batch_of(16, float64);
  models::LeNet reference = lenet(0, float64), model = lenet(world.rank(), float64);
  DistributedDataParallel parallel(model, world, {.bucket_bytes = 10'000});
  for (const bool to_none : {true, false}) {
    const Tensor first_x = batch.x.slice(0, 0, 8), first_y = batch.y.slice(0, 0, 8);
    const Tensor second_x = batch.x.slice(0, 8), second_y = batch.y.slice(0, 8);
    reference.zero_grad(to_none);
    model.zero_grad(to_none);
    cross_entropy(reference(batch.x), batch.y).backward();
    {
      const auto local = parallel.no_sync();
      const Tensor x = part(first_x, world);
      (cross_entropy(model(x), part(first_y, world)) * (weight(x, first_x, world) / 2)).backward();
    }
    if (world.size() > 1) {
      EXPECT_FALSE(same_on_all_ranks(gradients(model.parameters()), world));
    }
    const Tensor x = part(second_x, world);
    (cross_entropy(model(x), part(second_y, world)) * (weight(x, second_x, world) / 2)).backward();
    EXPECT_LE(norm_difference(gradients(model.parameters()), gradients(reference.parameters())),
              1e-12);
  }
}

// Several steps with clipping, a schedule of batches of unequal parts and an optimizer with states.
std::vector<Tensor> train(Communicator& world, bool is_parallel, DType dtype, double clip) {
  models::LeNet model = lenet(is_parallel ? world.rank() : 0, dtype);
  std::optional<DistributedDataParallel> parallel;
  if (is_parallel) parallel.emplace(model, world);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  for (int step = 0; step < 4; ++step) {
    const Batch batch = batch_of(step == 3 ? 2 : 10, dtype, static_cast<std::uint64_t>(step));
    const Tensor x = is_parallel ? part(batch.x, world) : batch.x;
    const Tensor y = is_parallel ? part(batch.y, world) : batch.y;
    optimizer.zero_grad();
    if (x.size(0) == 0) {
      parallel->backward_empty();
    } else {
      Tensor loss = cross_entropy(model(x), y);
      if (is_parallel) loss = loss * weight(x, batch.x, world);
      loss.backward();
    }
    optim::clip_grad_norm(model.parameters(), clip);
    optimizer.step();
  }
  std::vector<Tensor> result;
  for (const Tensor& each : model.parameters()) result.push_back(each.detach().clone());
  return result;
}

TEST(DataParallel, TrainsLikeOneProcess) {
  Communicator& world = init();
  const std::vector<Tensor> alone = train(world, false, float64, 0.5);
  const std::vector<Tensor> together = train(world, true, float64, 0.5);
  // Adam divides by the root of tiny second moments, which enlarges rounding errors.
  EXPECT_LE(norm_difference(together, alone), 1e-9);
  EXPECT_TRUE(same_on_all_ranks(together, world));
}

TEST(DataParallel, TwoRunsHaveTheSameBits) {
  Communicator& world = init();
  const std::vector<Tensor> first = train(world, true, float32, 0.5);
  const std::vector<Tensor> second = train(world, true, float32, 0.5);
  for (std::size_t k = 0; k < first.size(); ++k) EXPECT_TRUE(same_bits(first[k], second[k]));
}

TEST(DataParallel, WorksWithLossScalingAndAutocast) {
  Communicator& world = init();
  models::Mlp model({8, 16, 4});
  const DistributedDataParallel parallel(model, world);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  optim::GradScaler scaler({.init_scale = 1024});
  Generator generator(3, static_cast<std::uint64_t>(world.rank()));
  for (int step = 0; step < 3; ++step) {
    const Tensor x = randn({6, 8}, {}, generator), y = randint(0, 4, {6}, {}, generator);
    const std::vector<Tensor> before{model.parameters()[0].detach().clone()};
    Tensor loss;
    {
      const Autocast half(float16);
      loss = cross_entropy(model(x), y);
    }
    // The overflow of one rank makes all skip the step.
    if (step == 1 && world.rank() == world.size() - 1) loss = loss * 1e30;
    scaler.scale(loss).backward();
    scaler.unscale(optimizer);
    optim::clip_grad_norm(model.parameters(), 1.0);
    const bool made = static_cast<bool>(scaler.step(optimizer));
    scaler.update();
    optimizer.zero_grad();
    EXPECT_EQ(made, step != 1);
    EXPECT_EQ(same_bits(before[0], model.parameters()[0]), step == 1);
    EXPECT_TRUE(same_on_all_ranks(model.parameters(), world));
  }
}

struct TwoHeads final : nn::Module<TwoHeads> {
  nn::Linear body{3, 3}, used{3, 1}, unused{3, 1};
  Tensor forward(const Tensor& x) const { return used(body(x)); }
};

TEST(DataParallel, NamesParametersThatAreNotUsed) {
  Communicator& world = init();
  TwoHeads model;
  const DistributedDataParallel parallel(model, world, {.bucket_bytes = 1});
  try {
    sum(model(ones({2, 3}))).backward();
    ADD_FAILURE() << "no error";
  } catch (const ValueError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("2 of 6 parameters"), std::string::npos) << text;
    EXPECT_NE(text.find("unused.weight, unused.bias"), std::string::npos) << text;
  }
  // Without them, the model is trained.
  TwoHeads other;
  other.unused.weight.requires_grad_(false);
  other.unused.bias.requires_grad_(false);
  const DistributedDataParallel rest(other, world);
  sum(other(ones({2, 3}))).backward();
  EXPECT_FALSE(other.unused.weight.grad().defined());
}

TEST(DataParallel, RefusesWhatCannotWork) {
  Communicator& world = init();
  nn::Linear model(2, 2);
  EXPECT_THROW(DistributedDataParallel(model, world, {.bucket_bytes = 0}), ValueError);
  EXPECT_THROW(DistributedDataParallel({}, {}, world), ValueError);
  {
    const DistributedDataParallel parallel(model, world);
    EXPECT_THROW(DistributedDataParallel(model, world), ValueError);
    EXPECT_THROW(sum(model(ones({1, 2}))).backward({.create_graph = true}), ValueError);
  }
  // Its gradients are ordinary again.
  model.zero_grad();
  sum(model(ones({1, 2}))).backward();
  EXPECT_EQ(model.bias.grad().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(DataParallel, RefusesOtherDevices) {
  Communicator& world = init();
  fake_device::install();
  NamedTensors parameters{{"near", zeros({2}).requires_grad_()},
                          {"far", zeros({2}, fake_device::first).requires_grad_()}};
  const auto make = [&] { DistributedDataParallel(parameters, {}, world); };
  device_checks::expect_words(device_checks::message_of<DeviceError>(make),
                              {"parameter far is on test:0, parameter near on cpu (allowed: one "
                               "device)"});
  parameters.erase(parameters.begin());
  device_checks::expect_words(device_checks::message_of<DeviceError>(make),
                              {"parameter far is on test:0 (allowed: cpu, cuda)"});
}

// An object that cannot be made leaves no trace in the parameters that it had begun with.
TEST(DataParallel, TakesNoGradientsIfItCannotBeMade) {
  Communicator& world = init();
  nn::Linear first(2, 1), second(1, 1);
  const DistributedDataParallel parallel(second, world);
  NamedTensors both = first.named_parameters();
  for (const auto& [name, tensor] : second.named_parameters()) {
    both.emplace_back("second." + name, tensor);
  }
  EXPECT_THROW(DistributedDataParallel(both, {}, world), ValueError);
  sum(first(ones({1, 2}))).backward();
  EXPECT_EQ(first.weight.grad().to_vector<float>(), (std::vector<float>{1, 1}));
  const DistributedDataParallel again(first, world);
}

// A graph made before the parameter was frozen still leads to its node.
TEST(DataParallel, ReleasesAParameterThatWasFrozenMeanwhile) {
  nn::Linear layer(2, 1);
  Tensor loss;
  {
    const DistributedDataParallel parallel(layer, init());
    loss = sum(layer(ones({1, 2})));
    layer.weight.requires_grad_(false);
  }
  loss.backward();
  EXPECT_EQ(layer.bias.grad().to_vector<float>(), (std::vector<float>{1}));
}

TEST(DataParallel, ReducesRecomputedPartsAtTheEnd) {
  Communicator& world = init();
  nn::Linear layer(3, 3);
  const auto twice = [&](const Tensor& x) {
    const TensorFunction part = [&](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{layer(in[0])};
    };
    return sum(checkpoint(part, checkpoint(part, {x}))[0]);
  };
  const Tensor x = full({2, 3}, world.rank() + 1.0).requires_grad_();
  std::vector<Tensor> expected;
  {
    // The mean of the gradients of all ranks: the loss is linear in x, and so is the gradient of
    // the weights.
    DistributedDataParallel first(layer, world, {.overlap = false});
    twice(full({2, 3}, (world.size() + 1) / 2.0).requires_grad_()).backward();
    expected = gradients(layer.parameters());
    layer.zero_grad();
    twice(x).backward();
    EXPECT_LE(norm_difference(gradients(layer.parameters()), expected), 1e-6);
  }
  layer.zero_grad();
  const DistributedDataParallel second(layer, world);
  EXPECT_THROW(twice(x).backward(), ValueError);
}

template <class Norm>
struct Normalized final : nn::Module<Normalized<Norm>> {
  nn::Conv2d conv{2, 3, 2};
  Norm norm{3};
  nn::Flatten flat;
  nn::Linear out{12, 4};
  Tensor forward(const Tensor& x) const { return out(flat(relu(norm(conv(x))))); }
  void visit(nn::Walker& walk) { walk("conv", conv)("norm", norm)("flat", flat)("out", out); }
};

TEST(SyncBatchNorm, IsTheBatchNormOfTheWholeBatch) {
  Communicator& world = init();
  for (const DType dtype : {float64, float32}) {
    manual_seed(3);
    Normalized<nn::BatchNorm2d> reference;
    Normalized<SyncBatchNorm> model;
    reference.to(dtype);
    model.to(dtype);
    model.load_state_dict(reference.state_dict());
    const DistributedDataParallel parallel(model, world);
    const double tolerance = dtype == float64 ? 1e-12 : 1e-6;
    for (const std::uint64_t seed : {1, 2}) {
      Generator generator(seed);
      const Tensor x = (randn({9, 2, 3, 3}, {}, generator) * 3 + 1).to(dtype);
      const Tensor y = randint(0, 4, {9}, {}, generator);
      reference.zero_grad();
      model.zero_grad();
      const Tensor whole = reference(x);
      cross_entropy(whole, y).backward();
      const Tensor own_x = part(x, world), own = model(own_x);
      EXPECT_LE(difference(own, part(whole, world)), tolerance);
      (cross_entropy(own, part(y, world)) * weight(own_x, x, world)).backward();
      // The bias before a norm has a gradient of 0, but for rounding.
      std::vector<Tensor> found = gradients(model.parameters());
      std::vector<Tensor> expected = gradients(reference.parameters());
      EXPECT_LE(max(abs(found[1])).item<double>(), tolerance);
      found.erase(found.begin() + 1);
      expected.erase(expected.begin() + 1);
      EXPECT_LE(norm_difference(found, expected), tolerance);
      EXPECT_LE(difference(model.norm.running_mean, reference.norm.running_mean), tolerance);
      EXPECT_LE(difference(model.norm.running_var, reference.norm.running_var), tolerance);
    }
    EXPECT_EQ(model.norm.num_batches_tracked.item<std::int64_t>(), 2);
    model.eval();
    reference.eval();
    const Tensor x = ones({2, 2, 3, 3}, dtype);
    EXPECT_LE(difference(model(x), reference(x)), tolerance);
  }
  SyncBatchNorm norm(3);
  EXPECT_THROW(norm(zeros({0, 3, 2, 2})), ValueError);
  EXPECT_THROW(norm(zeros({2, 4})), ShapeError);
  EXPECT_THROW(norm(zeros({3})), ShapeError);
  EXPECT_THROW(norm(zeros({2, 3}, int64)), DTypeError);
  if (world.size() == 1) {
    EXPECT_THROW(norm(zeros({1, 3})), ValueError);
  }
  for (const double momentum : {-0.1, 1.5, double{NAN}}) {
    EXPECT_THROW(SyncBatchNorm(3, {.momentum = momentum}), ValueError) << momentum;
  }
}

TEST(Loader, GivesEveryExampleOnce) {
  for (const std::int64_t ranks : {1, 2, 3, 4, 7}) {
    for (const std::int64_t examples : {0, 1, 20, 23, 29}) {
      const data::TensorDataset dataset(arange(examples), arange(examples));
      const auto loader = [&](std::int64_t rank, std::int64_t of, int workers) {
        return data::DataLoader(
            dataset, {.batch_size = 7, .workers = workers, .seed = 3, .rank = rank, .ranks = of});
      };
      const data::DataLoader whole = loader(0, 1, 0);
      for (const std::int64_t first : {0, 1, 3}) {
        if (first > whole.batches()) continue;
        std::vector<std::vector<std::int64_t>> joined;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const data::DataLoader own = loader(rank, ranks, static_cast<int>(rank % 2));
          EXPECT_EQ(own.batches(), whole.batches());
          std::size_t k = 0;
          for (const data::Batch& batch : own.epoch(2, first)) {
            if (k == joined.size()) joined.emplace_back();
            joined[k].insert(joined[k].end(), batch.indices.begin(), batch.indices.end());
            EXPECT_EQ(batch.inputs.defined(), batch.size() > 0);
            ++k;
          }
        }
        std::size_t k = 0;
        for (const data::Batch& batch : whole.epoch(2, first)) {
          ASSERT_LT(k, joined.size());
          EXPECT_EQ(joined[k], batch.indices);
          EXPECT_EQ(whole.examples_of_batch(first + static_cast<std::int64_t>(k)), batch.size());
          ++k;
        }
        EXPECT_EQ(k, joined.size());
      }
    }
  }
  const data::TensorDataset dataset(arange(5), arange(5));
  using Loader = data::DataLoader;
  EXPECT_THROW(Loader(dataset, {.rank = 2, .ranks = 2}), ValueError);
  EXPECT_THROW(Loader(dataset, {.rank = -1, .ranks = 2}), ValueError);
  EXPECT_THROW(Loader(dataset, {.ranks = 0}), ValueError);
  EXPECT_THROW(Loader(dataset, {.batch_size = 2, .ranks = 3}), ValueError);
  EXPECT_THROW(Loader(dataset, {.batch_size = 2}).examples_of_batch(3), IndexError);
}

}  // namespace
}  // namespace extensor::distributed
