// Collectives and training on CUDA devices over NCCL: every dtype, layout and op against closed
// forms, and gradients, weights and statistics against one process that computes whole batches.
// tests/distributed/run.sh starts this program with several ranks; all of them run every test.
// Ranks may share a device. EXTENSOR_TRACE names a file for the trace of a backward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "extensor/cuda.h"
#include "extensor/distributed.h"
#include "extensor/extensor.h"
#include "support/device_checks.h"

namespace extensor::distributed {
namespace {

using device_checks::expect_words;
using device_checks::message_of;
using device_checks::same_bits;

constexpr DType all_dtypes[] = {
#define DTYPE(name, type) DType::name,
    EXTENSOR_DTYPES(DTYPE)
#undef DTYPE
};

int device_count() {
  const std::vector<DeviceInfo> all = devices();
  return static_cast<int>(std::ranges::count_if(
      all, [](const DeviceInfo& info) { return info.device.type == Device::Type::cuda; }));
}

// Why this process cannot call NCCL; empty if it can.
std::string missing_part() {
  if (!cuda_is_available()) return "no CUDA device: " + cuda_unavailable_reason();
  Communicator& world = init();
  if (world.size() == 1) return "one rank needs no NCCL (tests/distributed/run.sh 2 nccl_test)";
  // NCCL takes ranks on one device only if it believes them to be on different machines.
  if (world.local_size() > device_count()) {
    setenv("NCCL_HOSTID", ("host" + std::to_string(world.rank())).c_str(), 0);
  }
  try {
    Tensor x = ones({1}, cuda(world.local_rank() % device_count()));
    world.all_reduce(x);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = missing_part();
    if (!missing.empty()) GTEST_SKIP() << missing;
    world = &init();
    device = cuda(world->local_rank() % device_count());
    synchronize(device);
  }

  Communicator* world = nullptr;
  Device device;
};

// Small numbers, which every dtype holds exactly: so are their sums and products.
double element(int rank, std::int64_t k) { return 1 + (rank + k) % 3; }

Tensor numbers(int rank, std::int64_t count, DType dtype) {
  Tensor values = empty({count}, {float64, cpu_device});
  for (std::int64_t k = 0; k < count; ++k) values.data<double>()[k] = element(rank, k);
  return values.to(dtype);
}

std::vector<double> doubles(const Tensor& x) {
  return x.to(cpu_device).to(float64).to_vector<double>();
}

double reduced(ReduceOp op, int ranks, std::int64_t k) {
  double result = element(0, k);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = element(rank, k);
    if (op == ReduceOp::sum || op == ReduceOp::mean) result += next;
    if (op == ReduceOp::product) result *= next;
    if (op == ReduceOp::minimum) result = std::min(result, next);
    if (op == ReduceOp::maximum) result = std::max(result, next);
  }
  return op == ReduceOp::mean ? result / ranks : result;
}

constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::product, ReduceOp::minimum,
                                ReduceOp::maximum};

bool is_allowed(ReduceOp op, DType dtype) {
  if (is_complex(dtype) || dtype == int16 || dtype == uint16) return false;
  if (dtype == bool_) return op == ReduceOp::minimum || op == ReduceOp::maximum;
  return op != ReduceOp::mean || is_floating_point(dtype);
}

// ---- collectives

TEST_F(Nccl, ReducesEveryDtype) {
  for (const DType dtype : all_dtypes) {
    for (const ReduceOp op : all_ops) {
      for (const std::int64_t count : {0, 1, 7, 1000, 100'003}) {
        Tensor x = numbers(world->rank(), count, dtype).to(device);
        if (!is_allowed(op, dtype)) {
          EXPECT_THROW(world->all_reduce(x, op), DTypeError);
          continue;
        }
        world->all_reduce(x, op);
        EXPECT_EQ(x.device(), device);
        const std::vector<double> found = doubles(x);
        for (std::int64_t k = 0; k < count; ++k) {
          double expected = reduced(op, world->size(), k);
          if (dtype == bool_) expected = 1;
          if (op == ReduceOp::mean) {
            expected = doubles(full({}, expected, {float64, cpu_device}).to(dtype))[0];
            // The sum is rounded, and its quotient.
            ASSERT_NEAR(found[static_cast<std::size_t>(k)], expected, finfo(dtype).eps * expected);
          } else {
            ASSERT_EQ(found[static_cast<std::size_t>(k)], expected)
                << static_cast<int>(dtype) << " " << static_cast<int>(op) << " " << k;
          }
        }
      }
    }
  }
}

TEST_F(Nccl, BoolIsAllOrAny) {
  Tensor one = tensor({world->rank() == 0}, {bool_, device}), all = one.clone();
  world->all_reduce(one, ReduceOp::maximum);
  world->all_reduce(all, ReduceOp::minimum);
  EXPECT_TRUE(one.item<bool>());
  EXPECT_FALSE(all.item<bool>());
}

TEST_F(Nccl, ScattersGathersAndBroadcasts) {
  const int ranks = world->size();
  for (const DType dtype : all_dtypes) {
    for (const std::int64_t rows : {0, 1, 5}) {
      const Tensor x =
          numbers(world->rank(), ranks * rows * 3, dtype).reshape({ranks * rows, 3}).to(device);
      if (is_allowed(ReduceOp::sum, dtype)) {
        const Tensor part = world->reduce_scatter(x);
        EXPECT_EQ(part.device(), device);
        const std::vector<double> found = doubles(part);
        ASSERT_EQ(std::ssize(found), rows * 3);
        for (std::int64_t k = 0; k < rows * 3; ++k) {
          EXPECT_EQ(found[static_cast<std::size_t>(k)],
                    reduced(ReduceOp::sum, ranks, world->rank() * rows * 3 + k));
        }
      } else {
        EXPECT_THROW(world->reduce_scatter(x), DTypeError);
      }
      const Tensor joined = world->all_gather(numbers(world->rank(), rows * 3, dtype).to(device));
      EXPECT_EQ(joined.device(), device);
      ASSERT_EQ(joined.shape(), (Shape{ranks * rows * 3}));
      std::vector<Tensor> parts;
      for (int rank = 0; rank < ranks; ++rank) parts.push_back(numbers(rank, rows * 3, dtype));
      EXPECT_TRUE(same_bits(joined, concatenate(parts)));
      for (int root = 0; root < ranks; ++root) {
        Tensor y = numbers(world->rank(), rows * 3, dtype).to(device);
        world->broadcast(y, root);
        EXPECT_TRUE(same_bits(y, numbers(root, rows * 3, dtype)));
      }
    }
  }
  world->barrier();
}

TEST_F(Nccl, TakesEveryLayout) {
  const int ranks = world->size();
  const Tensor base = (arange(24, float32).reshape({4, 6}) + world->rank()).to(device);
  Tensor transposed = base.clone().transpose(), reversed = base.clone().slice(1, -1, -7, -1);
  Tensor expected = base.clone();
  world->all_reduce(expected);
  const std::vector<double> found = doubles(expected);
  for (std::int64_t k = 0; k < 24; ++k) {
    EXPECT_EQ(found[static_cast<std::size_t>(k)],
              ranks * static_cast<double>(k) + ranks * (ranks - 1) / 2.0);
  }
  world->all_reduce(transposed);
  EXPECT_TRUE(same_bits(transposed, expected.transpose()));
  EXPECT_THROW((void)world->all_reduce_async(transposed), ValueError);
  EXPECT_THROW((void)world->broadcast_async(transposed), ValueError);
  world->broadcast(transposed);
  Tensor narrow = reversed.slice(0, 1, 3);
  world->all_reduce(narrow);
  EXPECT_TRUE(same_bits(narrow, expected.slice(1, -1, -7, -1).slice(0, 1, 3)));
  EXPECT_TRUE(same_bits(world->all_gather(transposed).slice(0, 0, 6), transposed));
  Tensor scalar_value = full({}, 1.0, device);
  world->all_reduce(scalar_value);
  EXPECT_EQ(scalar_value.item<double>(), ranks);
  EXPECT_EQ(world->all_gather(scalar_value).shape(), (Shape{ranks}));
}

TEST_F(Nccl, RefusesWhatCannotWork) {
  Tensor x = zeros({3}, device);
  Tensor near = zeros({3 * world->size()}, cpu_device);
  expect_words(message_of<DeviceError>([&] { (void)world->all_gather_async(x, near); }),
               {"all_gather", "out is on cpu", "cuda:"});
  Tensor narrow = zeros({3}, {int16, device});
  expect_words(message_of<DTypeError>([&] { world->all_reduce(narrow); }),
               {"all_reduce", "int16", "cuda:", "allowed: bool, int8"});
  Tensor leaf = zeros({2}, device).requires_grad_();
  EXPECT_THROW(world->all_reduce(leaf), ValueError);
  EXPECT_THROW(world->broadcast(x, world->size()), ValueError);
  if (device_count() > 1) {
    Tensor far = zeros({3}, cuda((device.index + 1) % device_count()));
    expect_words(message_of<DeviceError>([&] { world->all_reduce(far); }),
                 {"all_reduce", "allowed: one CUDA device in each process"});
  }
  NamedTensors two{{"near", zeros({2}, cpu_device).requires_grad_()},
                   {"far", zeros({2}, device).requires_grad_()}};
  expect_words(message_of<DeviceError>([&] { DistributedDataParallel(two, {}, *world); }),
               {"DistributedDataParallel", "far", "cuda:", "near", "cpu", "allowed: one device"});
}

TEST_F(Nccl, RunsBesideCollectivesOfTheCpu) {
  const int ranks = world->size();
  std::vector<Tensor> all;
  std::vector<Work> works;
  for (int k = 0; k < 40; ++k) {
    const Device place = k % 2 == 0 ? device : cpu_device;
    all.push_back(full({1000 * k + 1}, 1.0 * (k + world->rank()), {float32, place}));
    works.push_back(world->all_reduce_async(all.back(), ReduceOp::mean));
  }
  for (int k = 39; k >= 0; --k) {
    const auto at = static_cast<std::size_t>(k);
    works[at].wait();
    works[at].wait();
    EXPECT_TRUE(works[at].is_done());
    EXPECT_FLOAT_EQ(all[at].slice(0, -1).item<float>(), static_cast<float>(k) + (ranks - 1) / 2.f);
  }
}

// Some tens of milliseconds of work, then the value.
Tensor late_value(double value, Device device) {
  Tensor a = ones({4096, 4096}, {float64, device});
  for (int k = 0; k < 10; ++k) a = matmul(a, a) * 0x1p-12;
  return a.slice(0, 0, 64) * value;
}

// The values are computed when the collective is called, and freed while it runs.
TEST_F(Nccl, WaitsForTheStreamOfTheCaller) {
  const int ranks = world->size();
  for (const bool in_side_stream : {false, true}) {
    const CudaStream side(device);
    std::optional<CudaStreamScope> scope;
    if (in_side_stream) scope.emplace(side);
    Tensor x = late_value(world->rank() + 1, device);
    Work work = world->all_reduce_async(x);
    const Tensor other = full({64, 4096}, -1, {float64, device});
    work.wait();
    EXPECT_EQ(max(x).item<double>(), ranks * (ranks + 1) / 2);
    EXPECT_EQ(min(x).item<double>(), ranks * (ranks + 1) / 2);
    Tensor joined = empty({64 * ranks, 4096}, {float64, device});
    work = world->all_gather_async(late_value(world->rank(), device), joined);
    work.wait();
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(mean(joined.slice(0, 64 * rank, 64 * (rank + 1))).item<double>(), rank);
    }
  }
}

TEST_F(Nccl, HasTheSameBitsOnAllRanksAndInEveryRun) {
  for (const std::int64_t count : {3, 1000, 300'000}) {
    for (const DType dtype : {float32, float64, float16, bfloat16}) {
      Generator generator(7, static_cast<std::uint64_t>(world->rank()));
      const Tensor x = randn({count}, {}, generator).to(dtype).to(device);
      Tensor first = x.clone(), second = x.clone();
      world->all_reduce(first);
      world->all_reduce(second);
      EXPECT_TRUE(same_bits(first, second));
      const Tensor everywhere = world->all_gather(first);
      for (int rank = 0; rank < world->size(); ++rank) {
        EXPECT_TRUE(same_bits(everywhere.slice(0, rank * count, (rank + 1) * count), first));
      }
    }
  }
}

// ---- training

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

std::vector<Tensor> copies(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> list;
  for (const Tensor& each : parameters) list.push_back(each.detach().clone());
  return list;
}

bool same_on_all_ranks(const std::vector<Tensor>& list, Communicator& world) {
  const NoGrad off;
  bool same = true;
  for (const Tensor& each : list) {
    Tensor first = each.detach().clone();
    world.broadcast(first);
    Tensor agrees = full({}, same_bits(first, each), cpu_device);
    world.all_reduce(agrees, ReduceOp::minimum);
    same = same && agrees.item<bool>();
  }
  return same;
}

struct Batch {
  Tensor x, y;
};
Batch batch_of(std::int64_t size, DType dtype, Device device, std::uint64_t seed = 5) {
  Generator generator(seed);
  const Tensor x = randn({size, 1, 12, 12}, cpu_device, generator).to(dtype).to(device);
  return {x, randint(0, 10, {size}, cpu_device, generator).to(device)};
}

// Another start on every rank: that of rank 0 counts.
models::LeNet lenet(int rank, DType dtype, Device device) {
  manual_seed(static_cast<std::uint64_t>(rank) + 1);
  models::LeNet model({.height = 12, .width = 12});
  model.to(dtype);
  model.to(device);
  return model;
}

TEST_F(Nccl, HasTheGradientsOfTheWholeBatch) {
  for (const DType dtype : {float64, float32}) {
    for (const std::int64_t size : {24, 13}) {
      for (const std::int64_t bucket :
           {std::int64_t{1}, std::int64_t{4096}, std::int64_t{1} << 25}) {
        for (const bool overlap : {true, false}) {
          const Batch batch = batch_of(size, dtype, device);
          models::LeNet reference = lenet(0, dtype, device);
          models::LeNet model = lenet(world->rank(), dtype, device);
          cross_entropy(reference(batch.x), batch.y).backward();
          const DistributedDataParallel parallel(model, *world,
                                                 {.bucket_bytes = bucket, .overlap = overlap});
          const Tensor x = part(batch.x, *world), y = part(batch.y, *world);
          (cross_entropy(model(x), y) * weight(x, batch.x, *world)).backward();
          const double found =
              norm_difference(gradients(model.parameters()), gradients(reference.parameters()));
          EXPECT_LE(found, dtype == float64 ? 1e-12 : 1e-6);
          EXPECT_TRUE(same_on_all_ranks(gradients(model.parameters()), *world));
          if (world->rank() == 0 && bucket == 4096 && overlap) {
            std::printf("%d ranks, %s, batch of %lld: gradients differ by %.2g\n", world->size(),
                        dtype == float64 ? "float64" : "float32", static_cast<long long>(size),
                        found);
          }
        }
      }
    }
  }
}

TEST_F(Nccl, AccumulatesWithoutCommunication) {
  const Batch batch = batch_of(16, float64, device);
  models::LeNet reference = lenet(0, float64, device);
  models::LeNet model = lenet(world->rank(), float64, device);
  DistributedDataParallel parallel(model, *world, {.bucket_bytes = 10'000});
  const Tensor first_x = batch.x.slice(0, 0, 8), first_y = batch.y.slice(0, 0, 8);
  const Tensor second_x = batch.x.slice(0, 8), second_y = batch.y.slice(0, 8);
  cross_entropy(reference(batch.x), batch.y).backward();
  {
    const auto local = parallel.no_sync();
    const Tensor x = part(first_x, *world);
    (cross_entropy(model(x), part(first_y, *world)) * (weight(x, first_x, *world) / 2)).backward();
  }
  EXPECT_FALSE(same_on_all_ranks(gradients(model.parameters()), *world));
  const Tensor x = part(second_x, *world);
  (cross_entropy(model(x), part(second_y, *world)) * (weight(x, second_x, *world) / 2)).backward();
  EXPECT_LE(norm_difference(gradients(model.parameters()), gradients(reference.parameters())),
            1e-12);
}

struct Setting {
  bool is_parallel = true, shards = false;
  DType dtype = float64;
  double clip = 0.05;
};

// Several steps with clipping, one of them on a batch that leaves ranks without examples. Returns
// the weights.
std::vector<Tensor> train(Communicator& world, Device device, const Setting& setting) {
  models::LeNet model = lenet(setting.is_parallel ? world.rank() : 0, setting.dtype, device);
  std::optional<DistributedDataParallel> parallel;
  if (setting.is_parallel) {
    parallel.emplace(model, world, DataParallelOptions{.bucket_bytes = 20'000});
  }
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  if (setting.shards) parallel->shard(optimizer);
  for (int step = 0; step < 5; ++step) {
    const Batch batch =
        batch_of(step == 3 ? 1 : 10, setting.dtype, device, static_cast<std::uint64_t>(step));
    const Tensor x = setting.is_parallel ? part(batch.x, world) : batch.x;
    const Tensor y = setting.is_parallel ? part(batch.y, world) : batch.y;
    optimizer.zero_grad();
    if (x.size(0) == 0) {
      parallel->backward_empty();
    } else {
      Tensor loss = cross_entropy(model(x), y);
      if (setting.is_parallel) loss = loss * weight(x, batch.x, world);
      loss.backward();
    }
    optim::clip_grad_norm(model.parameters(), setting.clip);
    optimizer.step();
    if (setting.shards && step == 2) optimizer.load_state_dict(optimizer.state_dict());
  }
  return copies(model.parameters());
}

TEST_F(Nccl, TrainsLikeOneProcess) {
  const std::vector<Tensor> alone = train(*world, device, {.is_parallel = false});
  const std::vector<Tensor> together = train(*world, device, {});
  // Adam divides by the root of tiny second moments, which enlarges rounding errors.
  EXPECT_LE(norm_difference(together, alone), 1e-9);
  EXPECT_TRUE(same_on_all_ranks(together, *world));
  const std::vector<Tensor> again = train(*world, device, {});
  for (std::size_t k = 0; k < again.size(); ++k) EXPECT_TRUE(same_bits(again[k], together[k]));
}

TEST_F(Nccl, DividedStatesHaveTheResultsOfWholeOnes) {
  const std::vector<Tensor> whole = train(*world, device, {});
  const std::vector<Tensor> divided = train(*world, device, {.shards = true});
  EXPECT_LE(norm_difference(divided, whole), 1e-9);
  EXPECT_TRUE(same_on_all_ranks(divided, *world));
  // a + b is b + a: with two ranks, the order of sums is that of whole gradients.
  if (world->size() > 2) return;
  const Setting unclipped{.dtype = float32, .clip = 1e9};
  Setting sharded = unclipped;
  sharded.shards = true;
  const std::vector<Tensor> a = train(*world, device, unclipped);
  const std::vector<Tensor> b = train(*world, device, sharded);
  for (std::size_t k = 0; k < a.size(); ++k) EXPECT_TRUE(same_bits(a[k], b[k]));
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

TEST_F(Nccl, SyncBatchNormIsTheBatchNormOfTheWholeBatch) {
  manual_seed(3);
  Normalized<nn::BatchNorm2d> reference;
  Normalized<SyncBatchNorm> model;
  reference.to(float64);
  model.to(float64);
  model.load_state_dict(reference.state_dict());
  reference.to(device);
  model.to(device);
  const DistributedDataParallel parallel(model, *world);
  for (const std::uint64_t seed : {1, 2}) {
    Generator generator(seed);
    const Tensor x = (randn({9, 2, 3, 3}, cpu_device, generator) * 3 + 1).to(float64).to(device);
    const Tensor y = randint(0, 4, {9}, cpu_device, generator).to(device);
    reference.zero_grad();
    model.zero_grad();
    const Tensor whole = reference(x);
    cross_entropy(whole, y).backward();
    const Tensor own_x = part(x, *world), own = model(own_x);
    EXPECT_LE(difference(own, part(whole, *world)), 1e-12);
    (cross_entropy(own, part(y, *world)) * weight(own_x, x, *world)).backward();
    // The bias before a norm has a gradient of 0, but for rounding.
    std::vector<Tensor> found = gradients(model.parameters());
    std::vector<Tensor> expected = gradients(reference.parameters());
    EXPECT_LE(max(abs(found[1])).item<double>(), 1e-12);
    found.erase(found.begin() + 1);
    expected.erase(expected.begin() + 1);
    EXPECT_LE(norm_difference(found, expected), 1e-12);
    EXPECT_LE(difference(model.norm.running_mean, reference.norm.running_mean), 1e-12);
    EXPECT_LE(difference(model.norm.running_var, reference.norm.running_var), 1e-12);
  }
}

TEST_F(Nccl, WorksWithTheTrainer) {
  const auto fit = [&](bool is_parallel, bool shards, std::optional<DType> autocast) {
    manual_seed(4);
    models::Mlp model({2, 8, 2});
    model.to(float64);
    model.to(device);
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
    const auto loader = [&](std::int64_t count, std::uint64_t seed, bool shuffle) {
      Generator generator(seed);
      const Tensor x = randn({count, 2}, {float64, cpu_device}, generator);
      const Tensor above = greater(x.slice(1, 0, 1), x.slice(1, 1, 2)).reshape({count});
      return data::DataLoader(data::TensorDataset(x, above.to(int64)),
                              {.batch_size = 8,
                               .shuffle = shuffle,
                               .seed = 9,
                               .rank = is_parallel ? world->rank() : 0,
                               .ranks = is_parallel ? world->size() : 1});
    };
    // The last batch of an epoch has one example: all ranks but one have none.
    const data::DataLoader training = loader(41, 1, true), held_out = loader(29, 2, false);
    train::Trainer trainer(model, optimizer,
                           {.epochs = 3,
                            .accumulate = 2,
                            .clip_norm = 1,
                            .autocast = autocast,
                            .communicator = is_parallel ? world : nullptr,
                            .shard_optimizer = shards});
    const train::Outcome outcome = trainer.fit(training, &held_out);
    return std::pair(copies(model.parameters()), outcome.last.loss);
  };
  const auto [alone, alone_loss] = fit(false, false, std::nullopt);
  for (const bool shards : {false, true}) {
    const auto [together, loss] = fit(true, shards, std::nullopt);
    EXPECT_LE(norm_difference(together, alone), 1e-9);
    EXPECT_NEAR(loss, alone_loss, 1e-9);
    EXPECT_TRUE(same_on_all_ranks(together, *world));
    EXPECT_TRUE(same_on_all_ranks(fit(true, shards, float16).first, *world));
  }
}

// ---- the trace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double common_seconds(const std::vector<TraceEvent>& events, double begin, double end) {
  double total = 0;
  for (const TraceEvent& each : events) {
    total += std::max(0.0, std::min(each.end, end) - std::max(each.begin, begin));
  }
  return total;
}

// For ui.perfetto.dev.
void write_trace(const char* path, const std::vector<std::vector<TraceEvent>>& tracks) {
  std::ofstream file(path);
  file << "[\n";
  const double origin = tracks[0].front().begin;
  const char* comma = "";
  for (std::size_t track = 0; track < tracks.size(); ++track) {
    for (const TraceEvent& event : tracks[track]) {
      file << comma << R"({"ph": "X", "pid": 0, "tid": )" << track << R"(, "name": ")" << event.name
           << R"(", "ts": )" << 1e6 * (event.begin - origin) << R"(, "dur": )"
           << 1e6 * (event.end - event.begin) << "}";
      comma = ",\n";
    }
  }
  file << "\n]\n";
}

TEST_F(Nccl, ReducesGradientsDuringBackward) {
  // Many examples: the backward of a layer takes longer than the all_reduce of its gradients.
  constexpr std::int64_t width = 512, examples = 131'072;
  manual_seed(1);
  models::Mlp model({width, width, width, width, width, width, width});
  model.to(float64);
  model.to(device);
  const DistributedDataParallel parallel(model, *world, {.bucket_bytes = 3 << 20});
  Tensor x = randn({examples, width}, {float64, device}).requires_grad_();
  CudaEvent begin(device), end(device), after(device);
  // The gradient of the input is the last one that backward computes.
  x.register_hook([&](const Tensor& gradient) {
    end.record();
    return gradient;
  });
  std::vector<TraceEvent> backward, collectives, waits;
  for (int step = 0; step < 3; ++step) {  // the first ones load kernels and connect the ranks
    model.zero_grad();
    const Tensor loss = mean(square(model(x)));
    synchronize(device);
    world->barrier();
    world->start_trace();
    begin.record();
    loss.backward();
    after.record();
    after.synchronize();
    const double at = now();
    collectives.clear();
    waits.clear();
    for (const TraceEvent& event : world->take_trace()) {
      (event.name == "wait" ? waits : collectives).push_back(event);
    }
    backward = {{"backward", at - 1e-3 * after.milliseconds_since(begin),
                 at - 1e-3 * after.milliseconds_since(end)}};
  }
  ASSERT_EQ(std::ssize(collectives), parallel.bucket_count());
  for (const TraceEvent& event : collectives) {
    expect_words(event.name, {"all_reduce (mean) of ", " float64 on cuda"});
  }
  const double total = common_seconds(collectives, 0, now());
  const double hidden = common_seconds(collectives, backward[0].begin, backward[0].end);
  std::printf("rank %d: backward %.1f ms, %d all_reduces %.1f ms, %.0f %% of it during backward\n",
              world->rank(), 1e3 * (backward[0].end - backward[0].begin),
              static_cast<int>(collectives.size()), 1e3 * total, 100 * hidden / total);
  EXPECT_GT(hidden / total, 0.5);
  EXPECT_LT(collectives.front().begin, backward[0].end);
  const char* path = std::getenv("EXTENSOR_TRACE");
  if (path != nullptr && world->rank() == 0) write_trace(path, {backward, collectives, waits});
}

}  // namespace
}  // namespace extensor::distributed
