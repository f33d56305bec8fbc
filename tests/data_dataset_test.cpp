// Datasets, their random numbers, and the loader: the same batches for any number of workers,
// starting at any batch, and ending at any moment.
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "data/draw_blocks.h"
#include "support/child_process.h"
#include "support/files.h"

namespace {

using namespace extensor;
using data::Batch;
using data::DataLoader;
using data::DataLoaderOptions;
using data::Draws;
using data::Example;
using data::FunctionDataset;
using test_support::expect_error;
using test_support::expect_same;
using Numbers = std::vector<std::int64_t>;

// ---- draws --------------------------------------------------------------------------------------

// Computed by an independent implementation of Philox and of the layout in draw_blocks.h.
TEST(Draws, AreThoseOfThePage) {
  Draws wide(1, (std::int64_t{1} << 39) + 5, (std::int64_t{1} << 47) + (std::int64_t{1} << 31) + 2);
  for (const double expected : {5815575487234542., 5050139656047513., 6508240925824319.}) {
    EXPECT_EQ(wide.uniform(), expected * 0x1p-53);
  }
  Draws high((std::uint64_t{5} << 32) + 7, 3, 9);
  for (const std::uint64_t expected :
       {0x1cc58bffadd26263U, 0xfef23bc4077439beU, 0xff5eebcb3addbe81U, 0x8500b01c0ec067caU}) {
    EXPECT_EQ(high.uniform(), static_cast<double>(expected >> 11) * 0x1p-53);
  }
  Draws small(7, 1, 2);
  for (const std::int64_t expected : {9, 2, 9, 9, 7, 2, 3, 9, 9, 6, 9, 8}) {
    EXPECT_EQ(small.below(10), expected);
  }
}

TEST(Draws, AreNeverThoseOfTensors) {
  // They differ in the highest byte of the counter.
  for (const auto kind : {data::examples_kind, data::order_kind}) {
    EXPECT_GT(static_cast<unsigned>(kind), static_cast<unsigned>(detail::DrawKind::integer));
    EXPECT_LT(static_cast<unsigned>(kind), 256U);
  }
  EXPECT_NE(data::examples_kind, data::order_kind);
}

TEST(Draws, DifferByEachOfSeedEpochAndIndex) {
  std::set<double> seen;
  const std::vector<std::int64_t> some = {0, 1, 2, 3, 1 << 16, std::int64_t{1} << 32, 65535};
  for (const std::int64_t seed : some) {
    for (const std::int64_t epoch : some) {
      for (const std::int64_t index : some) {
        Draws draws(static_cast<std::uint64_t>(seed), epoch, index);
        for (int i = 0; i < 3; ++i) seen.insert(draws.uniform());
      }
    }
  }
  EXPECT_EQ(seen.size(), some.size() * some.size() * some.size() * 3);
}

TEST(Draws, DoNotDependOnTheThread) {
  Draws here(3, 4, 5);
  std::vector<double> mine, others;
  for (int i = 0; i < 100; ++i) mine.push_back(here.uniform());
  std::thread([&] {
    Draws there(3, 4, 5);
    for (int i = 0; i < 100; ++i) others.push_back(there.uniform());
  }).join();
  EXPECT_EQ(mine, others);
}

TEST(Draws, AreEvenlySpread) {
  Draws draws(11, 0, 0);
  constexpr int count = 70'000;
  std::vector<int> below(7);
  double sum = 0, squares = 0;
  int heads = 0;
  for (int i = 0; i < count; ++i) {
    const std::int64_t face = draws.below(7);
    ASSERT_TRUE(face >= 0 && face < 7);
    ++below[static_cast<std::size_t>(face)];
    const double u = draws.uniform(-2, 3);
    ASSERT_TRUE(u >= -2 && u < 3);
    sum += u;
    squares += (u - .5) * (u - .5);
    heads += draws.chance(.3) ? 1 : 0;
  }
  double chi = 0;
  for (const int found : below) chi += (found - 1e4) * (found - 1e4) / 1e4;
  EXPECT_LT(chi, 22.5);                // 6 degrees of freedom, 0.1 %
  EXPECT_NEAR(sum / count, .5, .022);  // four deviations of 5 / √12 / √n
  EXPECT_NEAR(squares / count, 25. / 12, .03);
  EXPECT_NEAR(static_cast<double>(heads) / count, .3, .007);
}

TEST(Draws, KeepToTheirBounds) {
  Draws draws(1, 2, 3);
  const double above = std::nextafter(1., 2.);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  bool far = false;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(draws.uniform(1, above), 1);  // half of the sums round up to the excluded bound
    EXPECT_EQ(draws.uniform(2, 2), 2);
    EXPECT_EQ(draws.below(1), 0);
    EXPECT_FALSE(draws.chance(0));
    EXPECT_TRUE(draws.chance(1));
    const std::int64_t large = draws.below(most);
    ASSERT_TRUE(large >= 0 && large < most);
    far = far || large > most / 2;
  }
  EXPECT_TRUE(far);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  expect_error<ValueError>([&] { draws.below(0); }, {"Draws::below", "0", "1 or more"});
  expect_error<ValueError>([&] { draws.uniform(2, 1); }, {"Draws::uniform", "2", "1"});
  expect_error<ValueError>([&] { draws.uniform(0, inf); }, {"Draws::uniform", "inf"});
  expect_error<ValueError>([&] { draws.uniform(nan, 1); }, {"Draws::uniform", "nan"});
  expect_error<ValueError>([&] { draws.chance(1.5); }, {"Draws::chance", "1.5"});
  expect_error<ValueError>([&] { draws.chance(nan); }, {"Draws::chance", "nan"});
  expect_error<ValueError>([] { Draws(0, -1, 0); }, {"Draws", "-1"});
  expect_error<ValueError>([] { Draws(0, 0, -1); }, {"Draws", "-1"});
  expect_error<ValueError>([] { Draws(0, std::int64_t{1} << 40, 0); }, {"Draws", "1099511627776"});
}

// ---- datasets -----------------------------------------------------------------------------------

TEST(TensorDataset, GathersRowsOfEveryDtype) {
  const Numbers indices = {4, 0, 4, 2};
  for (const DType dtype : test_support::every_dtype()) {
    const Tensor x = (arange(30).reshape({5, 3, 2}).to(float64) * 1.5).to(dtype);
    const Tensor turned = arange(20).reshape({4, 5}).to(dtype).transpose();  // not contiguous
    const data::TensorDataset rows(x, turned);
    EXPECT_EQ(rows.size(), 5);
    const Batch batch = rows.batch({indices});
    EXPECT_EQ(batch.indices, indices);
    EXPECT_EQ(batch.size(), 4);
    expect_same(batch.inputs, take(x, tensor({4, 0, 4, 2}), 0));
    expect_same(batch.targets, take(turned, tensor({4, 0, 4, 2}), 0).contiguous());
  }
}

TEST(TensorDataset, TakesWhatIsEmpty) {
  const data::TensorDataset none(zeros({0, 3}), zeros({0}));
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.batch({}).inputs.shape(), (Shape{0, 3}));
  const data::TensorDataset thin(zeros({4, 0}), arange(4));
  const Numbers indices = {3, 1};
  EXPECT_EQ(thin.batch({indices}).inputs.shape(), (Shape{2, 0}));
  EXPECT_EQ(thin.batch({indices}).targets.to_vector<std::int64_t>(), (Numbers{3, 1}));
}

TEST(TensorDataset, RefusesWhatDoesNotFit) {
  expect_error<ShapeError>(
      [] {
        data::TensorDataset(zeros({3, 2}), zeros({4}));
      },
      {"TensorDataset", "[3, 2]", "[4]"});
  expect_error<ShapeError>([] { data::TensorDataset(scalar(1.), zeros({1})); }, {"TensorDataset"});
  expect_error<ValueError>([] { data::TensorDataset(Tensor(), zeros({1})); },
                           {"TensorDataset: inputs", "undefined"});
  const data::TensorDataset rows(zeros({3, 2}), zeros({3}));
  for (const std::int64_t index : {std::int64_t{-1}, std::int64_t{3}, INT64_MAX, INT64_MIN}) {
    const Numbers indices = {0, index};
    expect_error<IndexError>([&] { rows.batch({indices}); },
                             {"TensorDataset", std::to_string(index), "3"});
  }
}

TEST(TensorDataset, BatchesHaveNoHistory) {
  Tensor x = ones({3, 2});
  x.requires_grad_();
  const data::TensorDataset rows(x * 2., x);
  const Numbers indices = {1};
  EXPECT_FALSE(rows.batch({indices}).inputs.requires_grad());
  EXPECT_FALSE(rows.batch({indices}).targets.requires_grad());
}

FunctionDataset drawn_squares(std::int64_t size) {
  return {size, [](std::int64_t index, Draws& draws) {
            const double x = draws.uniform(-1, 1);
            return Example{tensor({x, static_cast<double>(index)}), scalar(x * x, float64)};
          }};
}

TEST(FunctionDataset, StacksWhatTheFunctionGives) {
  const Numbers indices = {5, 2, 5};
  const Batch batch = drawn_squares(6).batch({indices, 9, 4});
  EXPECT_EQ(batch.inputs.shape(), (Shape{3, 2}));
  EXPECT_EQ(batch.targets.shape(), (Shape{3}));
  EXPECT_EQ(batch.indices, indices);
  for (std::int64_t k = 0; k < 3; ++k) {
    const std::int64_t index = indices[static_cast<std::size_t>(k)];
    const double x = Draws(9, 4, index).uniform(-1, 1);
    EXPECT_EQ(batch.inputs[k][0].item<float>(), static_cast<float>(x));
    EXPECT_EQ(batch.inputs[k][1].item<float>(), static_cast<float>(index));
    EXPECT_EQ(batch.targets[k].item<double>(), x * x);
  }
}

TEST(FunctionDataset, RefusesWhatCannotBeStacked) {
  const auto with = [](const Tensor& even, const Tensor& odd) {
    return FunctionDataset(4, [=](std::int64_t index, Draws&) {
      return Example{index % 2 == 0 ? even : odd, scalar(1.)};
    });
  };
  const Numbers both = {0, 1};
  const Tensor x = zeros({2});
  EXPECT_EQ(with(x, x.reshape({2, 1}).squeeze({1})).batch({both}).inputs.shape(), (Shape{2, 2}));
  expect_error<ShapeError>([&] { with(x, zeros({3})).batch({both}); },
                           {"FunctionDataset", "input of example 1", "[3]", "[2]"}, {x});
  expect_error<DTypeError>([&] { with(x, zeros({2}, int64)).batch({both}); },
                           {"FunctionDataset", "example 1", "int64", "float32"}, {x});
  expect_error<ValueError>([&] { with(x, Tensor()).batch({both}); },
                           {"FunctionDataset", "input of example 1", "undefined"}, {x});
  expect_error<ValueError>([&] { with(x, x).batch({}); }, {"FunctionDataset", "1 or more"}, {x});
  expect_error<IndexError>(
      [&] {
        const Numbers beyond = {4};
        with(x, x).batch({beyond});
      },
      {"FunctionDataset", "4"}, {x});
  expect_error<ValueError>(
      [] { FunctionDataset(-1, [](std::int64_t, Draws&) { return Example{}; }); },
      {"FunctionDataset", "-1"});
  expect_error<ValueError>([] { FunctionDataset(1, nullptr); }, {"FunctionDataset", "function"});
}

TEST(Subset, HasTheExamplesAndDrawsOfTheWhole) {
  const auto whole = std::make_shared<FunctionDataset>(drawn_squares(10));
  const data::Subset part(whole, 3, 8);
  EXPECT_EQ(part.size(), 5);
  const Numbers inside = {0, 4, 1}, outside = {3, 7, 4};
  const Batch batch = part.batch({inside, 1, 2}), expected = whole->batch({outside, 1, 2});
  expect_same(batch.inputs, expected.inputs);
  expect_same(batch.targets, expected.targets);
  EXPECT_EQ(batch.indices, outside);
  EXPECT_EQ(data::Subset(whole, 10, 10).size(), 0);
  expect_error<IndexError>(
      [&] {
        const Numbers beyond = {5};
        part.batch({beyond});
      },
      {"Subset", "index 5"});
  expect_error<IndexError>([&] { data::Subset(whole, 3, 11); }, {"Subset", "3", "11", "10"});
  expect_error<IndexError>([&] { data::Subset(whole, -1, 4); }, {"Subset", "-1"});
  expect_error<IndexError>([&] { data::Subset(whole, 5, 4); }, {"Subset", "5", "4"});
  expect_error<ValueError>([] { data::Subset(nullptr, 0, 0); }, {"Subset", "no dataset"});
}

// ---- the order ----------------------------------------------------------------------------------

DataLoader loader_of(std::int64_t size, const DataLoaderOptions& options = {}) {
  return DataLoader(drawn_squares(size), options);
}

// Computed by an independent implementation.
TEST(DataLoader, OrderIsThatOfThePage) {
  EXPECT_EQ(loader_of(12).order(0), (Numbers{7, 2, 10, 5, 3, 4, 8, 6, 0, 11, 9, 1}));
  EXPECT_EQ(loader_of(12, {.seed = (std::uint64_t{5} << 32) + 7}).order(3),
            (Numbers{9, 10, 6, 2, 5, 7, 11, 0, 4, 3, 1, 8}));
  EXPECT_EQ(loader_of(12).order((std::int64_t{1} << 33) + 1),
            (Numbers{11, 9, 10, 7, 5, 1, 3, 8, 0, 6, 4, 2}));
}

TEST(DataLoader, OrderIsAPermutationOfItsOwn) {
  std::set<Numbers> seen;
  for (const std::uint64_t seed : {0, 1, 2}) {
    for (const std::int64_t epoch : {0, 1, 2}) {
      Numbers order = loader_of(1001, {.seed = seed}).order(epoch);
      EXPECT_EQ(order, loader_of(1001, {.batch_size = 7, .workers = 0, .seed = seed}).order(epoch));
      seen.insert(order);
      std::ranges::sort(order);
      EXPECT_EQ(order, loader_of(1001, {.shuffle = false}).order(epoch));
    }
  }
  EXPECT_EQ(seen.size(), 9U);
  Numbers plain(5);
  std::iota(plain.begin(), plain.end(), 0);
  EXPECT_EQ(loader_of(5, {.shuffle = false}).order(7), plain);
  EXPECT_TRUE(loader_of(0).order(0).empty());
}

TEST(DataLoader, EveryOrderIsAsLikely) {
  const DataLoader loader = loader_of(4);
  std::map<Numbers, int> found;
  for (std::int64_t epoch = 0; epoch < 24'000; ++epoch) ++found[loader.order(epoch)];
  ASSERT_EQ(found.size(), 24U);
  double chi = 0;
  for (const auto& [order, count] : found) chi += (count - 1e3) * (count - 1e3) / 1e3;
  EXPECT_LT(chi, 49.7);  // 23 degrees of freedom, 0.1 %
}

TEST(DataLoader, RefusesOptionsOutsideTheirRange) {
  expect_error<ValueError>([] { loader_of(5, {.batch_size = 0}); },
                           {"DataLoader", "batch_size", "0"});
  expect_error<ValueError>([] { loader_of(5, {.workers = -1}); }, {"DataLoader", "workers", "-1"});
  expect_error<ValueError>([] { loader_of(5, {.prefetch = 0}); }, {"DataLoader", "prefetch", "0"});
  expect_error<ValueError>([] { DataLoader(std::shared_ptr<const data::Dataset>()); },
                           {"DataLoader", "no dataset"});
  const DataLoader loader = loader_of(10, {.batch_size = 4});
  expect_error<ValueError>([&] { loader.order(-1); }, {"order", "-1"});
  expect_error<ValueError>([&] { loader.epoch(-1); }, {"epoch", "-1"});
  expect_error<IndexError>([&] { loader.epoch(0, 4); }, {"epoch", "4", "3"});
  expect_error<IndexError>([&] { loader.epoch(0, -1); }, {"epoch", "-1"});
  EXPECT_FALSE(loader.epoch(0, 3).next().has_value());
}

// ---- epochs -------------------------------------------------------------------------------------

std::vector<Batch> rest_of(DataLoader::Epoch epoch) {
  std::vector<Batch> list;
  while (std::optional<Batch> batch = epoch.next()) list.push_back(*std::move(batch));
  EXPECT_FALSE(epoch.next().has_value());
  return list;
}

void expect_same_batches(std::span<const Batch> actual, std::span<const Batch> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].indices, expected[i].indices);
    expect_same(actual[i].inputs, expected[i].inputs);
    expect_same(actual[i].targets, expected[i].targets);
  }
}

TEST(DataLoader, GivesTheOrderInBatches) {
  for (const bool drop : {false, true}) {
    for (const std::int64_t size : {0, 1, 3, 4, 5, 8, 11}) {
      const DataLoader loader = loader_of(size, {.batch_size = 4, .drop_last = drop});
      Numbers order = loader.order(2), given;
      if (drop) order.resize(order.size() / 4 * 4);
      EXPECT_EQ(loader.batches(), drop ? size / 4 : (size + 3) / 4);
      std::int64_t count = 0;
      for (const Batch& batch : loader.epoch(2)) {
        ++count;
        EXPECT_EQ(batch.inputs.size(0), batch.size());
        given.insert(given.end(), batch.indices.begin(), batch.indices.end());
      }
      EXPECT_EQ(count, loader.batches());
      EXPECT_EQ(given, order);
    }
  }
}

TEST(DataLoader, GivesTheSameForAnyNumberOfWorkersFromAnyBatchOn) {
  const auto set = std::make_shared<data::ImageDataset>(
      data::digits(103),
      std::vector<data::Transform>{data::random_crop(2),
                                   data::random_affine({.degrees = 10, .translate = .1})});
  const auto loader = [&](int workers, std::int64_t prefetch) {
    return DataLoader(set, {.batch_size = 8, .workers = workers, .prefetch = prefetch, .seed = 5});
  };
  const std::vector<Batch> expected = rest_of(loader(0, 4).epoch(3));
  ASSERT_EQ(expected.size(), 13U);
  EXPECT_EQ(expected.back().size(), 7);
  EXPECT_NE(rest_of(loader(0, 4).epoch(4))[0].indices, expected[0].indices);
  for (const int workers : {0, 1, 3}) {
    for (const std::int64_t prefetch : {1, 2, 100}) {
      for (const std::int64_t first : {0, 1, 6, 12, 13}) {
        expect_same_batches(rest_of(loader(workers, prefetch).epoch(3, first)),
                            std::span(expected).subspan(static_cast<std::size_t>(first)));
      }
    }
  }
}

// The number of live threads that called a dataset, without the one that calls the loader.
std::atomic<int> living{0};
const std::thread::id tester = std::this_thread::get_id();
struct Alive {
  Alive() { living += std::this_thread::get_id() == tester ? 0 : 1; }
  Alive(const Alive&) = delete;
  ~Alive() { living -= std::this_thread::get_id() == tester ? 0 : 1; }
};

TEST(DataLoader, ThrowsWhereTheBatchWouldHaveComeAndEnds) {
  for (const int workers : {0, 1, 3}) {
    for (const std::int64_t failing : {0, 5, 19}) {
      const DataLoader loader(FunctionDataset(20,
                                              [=](std::int64_t index, Draws&) {
                                                thread_local Alive alive;
                                                if (index >= failing) {
                                                  throw std::out_of_range(std::to_string(index));
                                                }
                                                return Example{scalar(1.), scalar(1.)};
                                              }),
                              {.batch_size = 1, .shuffle = false, .workers = workers});
      DataLoader::Epoch epoch = loader.epoch(0);
      for (std::int64_t i = 0; i < failing; ++i) EXPECT_TRUE(epoch.next().has_value());
      try {
        epoch.next();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::out_of_range& error) {
        EXPECT_EQ(error.what(), std::to_string(failing));
      }
      EXPECT_EQ(living, 0);
      EXPECT_FALSE(epoch.next().has_value());
      EXPECT_FALSE(epoch.next().has_value());
    }
  }
}

// Waits for it, with a timeout.
bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 2000 && !holds(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return holds();
}

TEST(DataLoader, MakesNoMoreAheadThanItMay) {
  std::atomic<int> made{0};
  const DataLoader loader(FunctionDataset(1000,
                                          [&](std::int64_t, Draws&) {
                                            ++made;
                                            return Example{scalar(1.), scalar(1.)};
                                          }),
                          {.batch_size = 1, .workers = 2, .prefetch = 3});
  DataLoader::Epoch epoch = loader.epoch(0);
  for (int given = 0; given < 5; ++given) {
    // They resume when half of the places are free, and stop when none is.
    EXPECT_TRUE(eventually([&] { return made >= given + 2; })) << made << " for " << given;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LE(made, given + 3);
    EXPECT_TRUE(epoch.next().has_value());
  }
}

TEST(DataLoader, EpochsEndAtAnyMoment) {
  std::atomic<int> made{0};
  const DataLoader loader(FunctionDataset(100'000,
                                          [&](std::int64_t, Draws&) {
                                            thread_local Alive alive;
                                            ++made;
                                            return Example{scalar(1.), scalar(1.)};
                                          }),
                          {.batch_size = 1, .workers = 3, .prefetch = 4});
  for (int taken = 0; taken < 20; ++taken) {
    made = 0;
    {
      DataLoader::Epoch epoch = loader.epoch(taken);
      for (int i = 0; i < taken; ++i) EXPECT_TRUE(epoch.next().has_value());
    }
    EXPECT_EQ(living, 0);
    EXPECT_LE(made, taken + 4);
  }
  for (const Batch& batch : loader.epoch(0)) {
    EXPECT_EQ(batch.size(), 1);
    break;
  }
  EXPECT_EQ(living, 0);
}

// Each worker uses at most one core, whatever the dataset computes.
TEST(DataLoader, WorkersDoNotStartParallelLoops) {
  const int threads = get_num_threads();
  set_num_threads(3);
  std::atomic<int> asked{0};
  const DataLoader loader(FunctionDataset(40,
                                          [&](std::int64_t, Draws&) {
                                            if (std::this_thread::get_id() == tester) {
                                              EXPECT_EQ(get_num_threads(), 3);
                                            } else {
                                              ++asked;
                                              EXPECT_EQ(get_num_threads(), 1);
                                            }
                                            return Example{scalar(1.), scalar(1.)};
                                          }),
                          {.batch_size = 1, .workers = 2});
  DataLoader::Epoch epoch = loader.epoch(0);
  EXPECT_TRUE(eventually([&] { return asked >= 8; }));
  EXPECT_EQ(rest_of(std::move(epoch)).size(), 40U);
  set_num_threads(threads);
}

TEST(DataLoader, EpochsCanBeMoved) {
  const DataLoader loader = loader_of(20, {.batch_size = 2, .workers = 2});
  const std::vector<Batch> expected = rest_of(loader.epoch(1));
  DataLoader::Epoch first = loader.epoch(1);
  EXPECT_EQ(first.next()->indices, expected[0].indices);
  DataLoader::Epoch second = std::move(first);
  EXPECT_FALSE(first.next().has_value());  // NOLINT: what is left of it
  EXPECT_EQ(second.next()->indices, expected[1].indices);
  first = loader.epoch(1, 5);
  EXPECT_EQ(first.next()->indices, expected[5].indices);
  first = std::move(second);  // ends the threads of the previous epoch
  EXPECT_EQ(first.next()->indices, expected[2].indices);
}

TEST(DataLoader, NoModeOfTheCallersReachesADataset) {
  for (const int workers : {0, 2}) {
    const DataLoader loader(FunctionDataset(4,
                                            [](std::int64_t, Draws&) {
                                              EXPECT_FALSE(is_grad_enabled());
                                              EXPECT_FALSE(autocast_dtype().has_value());
                                              return Example{scalar(1.), scalar(1.)};
                                            }),
                            {.batch_size = 2, .workers = workers});
    const Autocast halves;
    EXPECT_EQ(rest_of(loader.epoch(0)).size(), 2U);
    EXPECT_TRUE(is_grad_enabled());
    EXPECT_TRUE(autocast_dtype().has_value());
  }
}

}  // namespace
