// Samplers, splits, datasets made of others and collate functions: the same batches for any number
// of workers and from any batch on.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "extensor/extensor.h"
#include "support/batches.h"
#include "support/child_process.h"

namespace {

using namespace extensor;
using data::Batch;
using data::DataLoader;
using data::Draws;
using data::Example;
using data::FunctionDataset;
using test_support::batches_of;
using test_support::expect_equal;
using test_support::expect_error;
using test_support::expect_reproducible;
using test_support::expect_same;
using Numbers = std::vector<std::int64_t>;

// Example k has the input [k, a random number] and the target k.
FunctionDataset numbered(std::int64_t size) {
  return FunctionDataset(size, [](std::int64_t k, Draws& draws) {
    return Example{tensor({static_cast<double>(k), draws.uniform()}), scalar(k)};
  });
}

std::shared_ptr<const data::Dataset> shared(FunctionDataset dataset) {
  return std::make_shared<const FunctionDataset>(std::move(dataset));
}

Numbers order_of(std::int64_t size, data::SamplerPointer sampler, std::int64_t epoch = 0,
                 std::uint64_t seed = 3) {
  return DataLoader(numbered(size), {.seed = seed, .sampler = std::move(sampler)}).order(epoch);
}

// ---- samplers

TEST(Sampler, SequentialAndRandomAreThoseOfShuffle) {
  for (const bool shuffle : {false, true}) {
    const DataLoader plain(numbered(20), {.shuffle = shuffle, .seed = 3});
    const auto sampler = shuffle ? data::random_sampler() : data::sequential_sampler();
    EXPECT_EQ(plain.order(4), order_of(20, sampler, 4));
  }
}

TEST(Sampler, ReproducesBatches) {
  const std::vector<double> weights(23, 1.0);
  for (const auto& sampler :
       {data::sequential_sampler(), data::random_sampler(), data::weighted_sampler(weights, 30),
        data::weighted_sampler(weights, 17, false), data::subset_sampler({1, 4, 9, 16, 2, 3, 5, 7}),
        data::distributed_sampler({.process = 1, .processes = 2})}) {
    expect_reproducible([&](int workers) {
      return DataLoader(numbered(23),
                        {.batch_size = 3, .workers = workers, .seed = 5, .sampler = sampler});
    });
  }
}

TEST(Sampler, WeightedDrawsHaveTheFrequenciesOfTheWeights) {
  const std::vector<double> weights = {1, 0, 2, 5, 0};
  const int count = 80'000;
  std::vector<int> seen(5);
  for (const std::int64_t index : order_of(5, data::weighted_sampler(weights, count))) {
    ++seen[static_cast<std::size_t>(index)];
  }
  EXPECT_EQ(seen[1], 0);
  EXPECT_EQ(seen[4], 0);
  double chi = 0;
  for (const std::size_t k : {0, 2, 3}) {
    const double expected = count * weights[k] / 8;
    chi += (seen[k] - expected) * (seen[k] - expected) / expected;
  }
  EXPECT_LT(chi, 13.8);  // 2 degrees of freedom, 0.1 %
}

TEST(Sampler, WeightedDrawsWithoutReplacementAreDistinct) {
  const std::vector<double> weights = {1, 0, 3, 4};
  // The first draw has probabilities 1/8, 3/8, 4/8; the second, given the first, those of the rest.
  std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
  const int count = 20'000;
  for (int epoch = 0; epoch < count; ++epoch) {
    const Numbers order = order_of(4, data::weighted_sampler(weights, 3, false), epoch);
    EXPECT_EQ(std::set(order.begin(), order.end()), (std::set<std::int64_t>{0, 2, 3}));
    ++seen[{order[0], order[1]}];
  }
  double chi = 0;
  for (const std::int64_t a : {0, 2, 3}) {
    for (const std::int64_t b : {0, 2, 3}) {
      if (a == b) continue;
      const double wa = weights[static_cast<std::size_t>(a)];
      const double wb = weights[static_cast<std::size_t>(b)];
      const double expected = count * wa / 8 * wb / (8 - wa);
      chi += std::pow(seen[{a, b}] - expected, 2) / expected;
    }
  }
  EXPECT_LT(chi, 20.5);  // 5 degrees of freedom, 0.1 %
}

TEST(Sampler, ASubsetIsShuffledOrKept) {
  const Numbers indices = {7, 3, 3, 0, 9, 5};
  EXPECT_EQ(order_of(10, data::subset_sampler(indices, false)), indices);
  const Numbers shuffled = order_of(10, data::subset_sampler(indices), 1);
  EXPECT_NE(shuffled, indices);
  EXPECT_EQ(std::multiset(shuffled.begin(), shuffled.end()),
            std::multiset(indices.begin(), indices.end()));
  EXPECT_NE(shuffled, order_of(10, data::subset_sampler(indices), 2));
}

TEST(Sampler, ProcessesShareAnEpoch) {
  for (const bool drop : {false, true}) {
    for (const bool shuffle : {false, true}) {
      std::multiset<std::int64_t> seen;
      for (std::int64_t process = 0; process < 4; ++process) {
        const Numbers part = order_of(
            10,
            data::distributed_sampler(
                {.process = process, .processes = 4, .shuffle = shuffle, .drop_last = drop}),
            6);
        EXPECT_EQ(part.size(), drop ? 2u : 3u);
        seen.insert(part.begin(), part.end());
      }
      const std::set<std::int64_t> distinct(seen.begin(), seen.end());
      EXPECT_EQ(distinct.size(), drop ? 8u : 10u);
      EXPECT_EQ(seen.size(), drop ? 8u : 12u);
    }
  }
  EXPECT_EQ(
      order_of(3, data::distributed_sampler({.process = 4, .processes = 8, .shuffle = false})),
      Numbers{1})
      << "more processes than examples";
}

// A sampler of the user's: every second example.
struct Evens final : data::Sampler {
  std::int64_t size(std::int64_t examples) const override { return (examples + 1) / 2 + wrong; }
  Numbers order(std::int64_t examples, std::uint64_t, std::int64_t epoch) const override {
    Numbers list;
    for (std::int64_t k = 0; k < examples; k += 2) list.push_back(k + epoch);
    return list;
  }
  std::int64_t wrong = 0;
};

TEST(Sampler, CanBeTheUsers) {
  const auto evens = std::make_shared<const Evens>();
  EXPECT_EQ(order_of(7, evens), (Numbers{0, 2, 4, 6}));
  const DataLoader loader(numbered(7), {.batch_size = 3, .sampler = evens});
  EXPECT_EQ(loader.batches(), 2);
  EXPECT_EQ(loader.epoch(0, 1).next()->indices, Numbers{6});
  expect_error<IndexError>([&] { loader.epoch(1); }, {"DataLoader::order", "sampler", "7"});
  auto wrong = std::make_shared<Evens>();
  wrong->wrong = 1;
  expect_error<ValueError>([&] { order_of(7, wrong); }, {"DataLoader::order", "sampler", "4", "5"});
}

TEST(Sampler, RefusesWhatDoesNotFit) {
  const double nan = std::nan("");
  expect_error<ValueError>(
      [] {
        data::weighted_sampler({1, -1}, 2);
      },
      {"weighted_sampler", "weight 1", "-1"});
  expect_error<ValueError>([&] { data::weighted_sampler({nan}, 2); }, {"weighted_sampler", "nan"});
  expect_error<ValueError>([] { data::weighted_sampler({0, 0}, 2); }, {"weighted_sampler", "0"});
  expect_error<ValueError>([] { data::weighted_sampler({1}, -2); }, {"weighted_sampler", "-2"});
  expect_error<ValueError>(
      [] {
        data::weighted_sampler({1, 0, 1}, 3, false);
      },
      {"weighted_sampler", "3", "2"});
  expect_error<ValueError>(
      [] {
        order_of(4, data::weighted_sampler({1, 1}, 2));
      },
      {"weighted_sampler", "2 weights", "4 examples"});
  expect_error<IndexError>([] { data::subset_sampler({1, -3}); }, {"subset_sampler", "-3"});
  expect_error<IndexError>([] { order_of(4, data::subset_sampler({4})); },
                           {"index 4", "4 examples"});
  expect_error<ValueError>([] { data::distributed_sampler({.process = 2, .processes = 2}); },
                           {"distributed_sampler", "process is 2"});
  expect_error<ValueError>([] { data::distributed_sampler({.processes = 0}); },
                           {"distributed_sampler", "0"});
  EXPECT_EQ(order_of(0, data::weighted_sampler({}, 0)), Numbers());
}

// ---- splits, subsets, concatenations

TEST(RandomSplit, DividesByFractionsOrCounts) {
  const auto whole = shared(numbered(11));
  const auto check = [&](const std::vector<double>& parts, const Numbers& sizes) {
    const auto split = data::random_split(whole, parts, 9);
    ASSERT_EQ(split.size(), sizes.size());
    std::set<std::int64_t> seen;
    for (std::size_t k = 0; k < split.size(); ++k) {
      EXPECT_EQ(split[k]->size(), sizes[k]);
      if (sizes[k] == 0) continue;
      Numbers all(static_cast<std::size_t>(sizes[k]));
      std::iota(all.begin(), all.end(), 0);
      const Batch batch = split[k]->batch({all});
      seen.insert(batch.indices.begin(), batch.indices.end());
      EXPECT_EQ(batch.targets.to_vector<std::int64_t>(), batch.indices);
    }
    EXPECT_EQ(seen.size(), 11u) << "disjoint, and complete";
  };
  check({0.7, 0.2, 0.1}, {8, 2, 1});  // 7.7, 2.2 and 1.1, and one that is left over
  check({0.5, 0, 0.5}, {6, 0, 5});
  check({3, 8}, {3, 8});
  check({11, 0}, {11, 0});
  check({1}, {11});
  const auto first = data::random_split(whole, {5, 6}, 9),
             again = data::random_split(whole, {5, 6}, 9);
  const auto other = data::random_split(whole, {5, 6}, 10);
  const Numbers five = {0, 1, 2, 3, 4};
  EXPECT_EQ(first[0]->batch({five}).indices, again[0]->batch({five}).indices);
  EXPECT_NE(first[0]->batch({five}).indices, other[0]->batch({five}).indices);
  expect_error<ValueError>(
      [&] {
        data::random_split(whole, {5, 5});
      },
      {"random_split", "10", "11"});
  expect_error<ValueError>([&] { data::random_split(whole, {5.5, 5.5}); }, {"random_split", "5.5"});
  expect_error<ValueError>([&] { data::random_split(whole, {12, -1}); }, {"random_split", "-1"});
  expect_error<ValueError>([&] { data::random_split(whole, {}); }, {"random_split", "0", "11"});
  expect_error<ValueError>([] { data::random_split(nullptr, {1}); },
                           {"random_split", "no dataset"});
}

TEST(Subset, TakesIndices) {
  const auto whole = shared(numbered(10));
  const data::Subset some(whole, {9, 2, 2});
  EXPECT_EQ(some.size(), 3);
  const Numbers request = {2, 0}, expected = {2, 9};
  const Batch got = some.batch({request, 7, 1});
  expect_equal(got, whole->batch({expected, 7, 1}));
  EXPECT_EQ(data::Subset(whole, Numbers()).size(), 0);
  expect_error<IndexError>([&] { data::Subset(whole, {1, 10}); }, {"Subset", "10"});
  const Numbers beyond = {3};
  expect_error<IndexError>([&] { some.batch({beyond}); }, {"Subset", "3"});
}

TEST(ConcatDataset, JoinsBatches) {
  const auto a = std::make_shared<const data::TensorDataset>(arange(6).reshape({3, 2}), arange(3));
  const auto none =
      std::make_shared<const data::TensorDataset>(zeros({0, 2}, int64), zeros({0}, int64));
  const auto b =
      std::make_shared<const data::TensorDataset>(arange(6, 14).reshape({4, 2}), arange(3, 7));
  const data::ConcatDataset both({a, none, b});
  EXPECT_EQ(both.size(), 7);
  const data::TensorDataset expected(arange(14).reshape({7, 2}), arange(7));
  for (const Numbers& request : {Numbers{6, 0, 3, 2, 2}, Numbers{1, 0}, Numbers{5}}) {
    expect_equal(both.batch({request}), expected.batch({request}));
  }
  expect_reproducible([&](int workers) {
    return DataLoader(data::ConcatDataset({shared(numbered(5)), shared(numbered(6))}),
                      {.batch_size = 3, .workers = workers, .seed = 1});
  });
  // Example 0 of both has draws of its own.
  const Numbers zeros_of_both = {0, 5};
  const Batch drawn =
      data::ConcatDataset({shared(numbered(5)), shared(numbered(6))}).batch({zeros_of_both, 1, 0});
  const auto values = drawn.inputs.to_vector<float>();
  EXPECT_NE(values[1], values[3]);
  EXPECT_EQ(data::ConcatDataset({}).size(), 0);
  const auto wide = std::make_shared<const data::TensorDataset>(zeros({1, 3}, int64), arange(1));
  const auto floats = std::make_shared<const data::TensorDataset>(zeros({1, 2}), arange(1));
  const auto two = std::make_shared<const data::TensorDataset>(
      std::vector<Tensor>{zeros({1, 2}, int64), zeros({1, 2}, int64)},
      std::vector<Tensor>{arange(1)});
  const Numbers border = {2, 3};
  expect_error<ShapeError>(
      [&] {
        data::ConcatDataset({a, wide}).batch({border});
      },
      {"ConcatDataset", "dataset 1", "[1, 3]"});
  expect_error<DTypeError>(
      [&] {
        data::ConcatDataset({a, floats}).batch({border});
      },
      {"ConcatDataset", "float32", "int64"});
  expect_error<ValueError>(
      [&] {
        data::ConcatDataset({a, two}).batch({border});
      },
      {"ConcatDataset", "dataset 1 has 2 inputs"});
  expect_error<ValueError>([&] { data::ConcatDataset({a, nullptr}); }, {"ConcatDataset", "1"});
  const Numbers beyond = {7};
  expect_error<IndexError>([&] { both.batch({beyond}); }, {"ConcatDataset", "7"});
}

// ---- several inputs and targets, collate

TEST(TensorDataset, HasSeveralInputsAndTargets) {
  const Tensor x = arange(10).reshape({5, 2}), y = arange(5) * 3, z = ones({5, 1}), t = arange(5);
  const data::TensorDataset rows({x, y}, {t, z, x});
  const Numbers request = {4, 1};
  const Batch batch = rows.batch({request});
  const Tensor at = tensor({4, 1});
  ASSERT_EQ(batch.all_inputs().size(), 2u);
  ASSERT_EQ(batch.all_targets().size(), 3u);
  expect_same(batch.inputs, take(x, at, 0));
  expect_same(batch.more_inputs[0], take(y, at, 0));
  expect_same(batch.targets, take(t, at, 0));
  expect_same(batch.more_targets[0], take(z, at, 0));
  expect_same(batch.more_targets[1], take(x, at, 0));
  expect_error<ShapeError>(
      [&] {
        data::TensorDataset({x, arange(4)}, {t});
      },
      {"TensorDataset", "inputs", "[4]", "5"});
  expect_error<ShapeError>(
      [&] {
        data::TensorDataset({x}, {t, scalar(1)});
      },
      {"TensorDataset", "targets", "[]"});
  expect_error<ValueError>([&] { data::TensorDataset(std::vector<Tensor>{}, {t}); },
                           {"TensorDataset", "0 inputs"});
}

TEST(Collate, StacksSeveral) {
  const FunctionDataset pairs(9, [](std::int64_t k, Draws& draws) {
    return Example{
        scalar(k), scalar(-k), {tensor({k, k}), scalar(draws.uniform())}, {scalar(2 * k)}};
  });
  expect_reproducible(
      [&](int workers) { return DataLoader(pairs, {.batch_size = 2, .workers = workers}); });
  const Numbers request = {3, 5};
  const Batch batch = pairs.batch({request});
  expect_same(batch.more_inputs[0], tensor({{3, 3}, {5, 5}}));
  expect_same(batch.more_targets[0], tensor({6, 10}));
  const FunctionDataset uneven(2, [](std::int64_t k, Draws&) {
    Example example{scalar(k), scalar(k)};
    if (k == 1) example.more_inputs = {scalar(1)};
    return example;
  });
  const Numbers both = {0, 1};
  expect_error<ValueError>([&] { uneven.batch({both}); },
                           {"FunctionDataset", "example 1", "2 inputs", "1 and 1"});
}

// Sentence k has k + 1 words.
Example sentence(std::int64_t k) {
  return {arange(1, k + 2), scalar(k), {}, {full({k % 3 + 1, 2}, k)}};
}

TEST(Collate, PadsToTheLargest) {
  const FunctionDataset sentences(
      8, [](std::int64_t k, Draws&) { return sentence(k); }, data::pad_examples(0, -100));
  const Numbers request = {2, 0, 1};
  const Batch batch = sentences.batch({request});
  expect_same(batch.inputs, tensor({{1, 2, 3}, {1, 0, 0}, {1, 2, 0}}));
  expect_same(batch.targets, tensor({2, 0, 1}));
  expect_same(batch.more_targets[0], tensor({{{2, 2}, {2, 2}, {2, 2}},
                                             {{0, 0}, {-100, -100}, {-100, -100}},
                                             {{1, 1}, {1, 1}, {-100, -100}}}));
  expect_reproducible(
      [&](int workers) { return DataLoader(sentences, {.batch_size = 2, .workers = workers}); });
  const Example flat{arange(3), scalar(0)}, deep{zeros({2, 2}, int64), scalar(0)};
  const Example mixed[] = {flat, deep};
  expect_error<ShapeError>([&] { data::pad_examples()(mixed); },
                           {"pad_examples", "example 1", "[2, 2]", "1 dimensions"});
}

TEST(Collate, CanBeTheUsers) {
  const auto longest = [](std::span<const Example> examples) {
    std::int64_t most = 0;
    for (const Example& example : examples) most = std::max(most, example.input.numel());
    return Batch{scalar(most), scalar(static_cast<std::int64_t>(examples.size())), {}};
  };
  const FunctionDataset lengths(
      8, [](std::int64_t k, Draws&) { return sentence(k); }, longest);
  const Numbers request = {2, 6, 1};
  const Batch batch = lengths.batch({request});
  EXPECT_EQ(batch.inputs.item<std::int64_t>(), 7);
  EXPECT_EQ(batch.indices, request);
  const FunctionDataset failing(
      8, [](std::int64_t k, Draws&) { return sentence(k); },
      [](std::span<const Example>) -> Batch { throw std::domain_error("collate fails"); });
  for (const int workers : {0, 1, 3}) {
    auto epoch = DataLoader(failing, {.workers = workers}).epoch(0);
    try {
      epoch.next();
      FAIL() << "no exception";
    } catch (const std::domain_error& error) {
      EXPECT_STREQ(error.what(), "collate fails");
    }
  }
  const FunctionDataset undefined(
      1, [](std::int64_t k, Draws&) { return sentence(k); },
      [](std::span<const Example>) { return Batch{}; });
  const Numbers zero = {0};
  expect_error<ValueError>([&] { undefined.batch({zero}); },
                           {"FunctionDataset", "collate", "inputs"});
  expect_error<ValueError>(
      [] {
        FunctionDataset(
            1, [](std::int64_t k, Draws&) { return sentence(k); }, nullptr);
      },
      {"FunctionDataset", "collate"});
}

}  // namespace
