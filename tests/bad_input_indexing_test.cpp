// Indices and masks that do not fit, and invalid arguments of sorting. bad_input_losses_test covers
// the embedding.
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;
using Integers = std::vector<std::int64_t>;

Integers integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }

CHILD_TEST(BadInputIndexing, Item37TopkWithTooLargeAK) {
  const Tensor x = arange(12).reshape({3, 4}), none = zeros({0});
  expect_error<ValueError>([&] { topk(x, 5); }, {"topk", "k is 5", "4", "[3, 4]"}, {x});
  expect_error<ValueError>([&] { topk(x, 4, 0); }, {"topk", "k is 4", "axis 0"}, {x});
  expect_error<ValueError>([&] { topk(x, -1); }, {"topk", "-1"}, {x});
  expect_error<ValueError>([&] { topk(x, INT64_MAX); }, {"topk"}, {x});
  expect_error<ValueError>([&] { topk(x, INT64_MIN); }, {"topk"}, {x});
  expect_error<ValueError>([&] { topk(none, 1); }, {"topk", "[0]"}, {none});
  expect_error<IndexError>([&] { topk(x, 1, 2); }, {"topk", "2"}, {x});
  EXPECT_EQ(integers(topk(x, 4).values[0]), (Integers{3, 2, 1, 0}));
  EXPECT_EQ(topk(none, 0).values.shape(), (Shape{0}));
}

CHILD_TEST(BadInputIndexing, Item38SortWithNan) {
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    for (std::int64_t at : {0, 1, 15, 16, 999, 1000, 1999}) {
      Tensor x = arange(2000).to(dtype);
      x[at].fill(std::nan(""));
      for (bool descending : {false, true}) {
        const auto [values, indices] = sort_with_indices(x, 0, descending);
        EXPECT_EQ(indices[-1].item<std::int64_t>(), at);
        EXPECT_TRUE(isnan(values[-1]).item<bool>());
        EXPECT_FALSE(any(isnan(values.slice(0, 0, -1))).item<bool>());
      }
    }
    const Tensor all_nan = full({100}, std::nan("")).to(dtype);
    EXPECT_EQ(integers(argsort(all_nan)), integers(arange(100)));
  }
}

CHILD_TEST(BadInputIndexing, Item40GatherOutOfRange) {
  const Tensor x = arange(6).reshape({2, 3});
  const Tensor high = tensor({{0, 1, 2}, {0, 3, 0}}), low = tensor({{0, -4, 2}});
  expect_error<IndexError>([&] { gather(x, 1, high); },
                           {"gather", "index 3", "[1, 1]", "axis 1", "size 3"}, {x, high});
  expect_error<IndexError>([&] { gather(x, 0, low); }, {"gather", "index -4", "[0, 1]", "size 2"},
                           {x, low});
  expect_error<IndexError>([&] { take(x, high, 1); }, {"take", "index 3", "[1, 1]", "size 3"}, {x});
  expect_error<IndexError>([&] { take(x, tensor({6})); }, {"take", "index 6", "size 6"}, {x});
  expect_error<IndexError>([&] { take_along_axis(x, high, 1); }, {"take_along_axis", "index 3"},
                           {x});
  expect_error<IndexError>([&] { (void)x[tensor({2})]; }, {"index", "index 2"}, {x});
  for (std::int64_t index : {INT64_MIN, INT64_MAX}) {
    expect_error<IndexError>([&] { take(x, full({1}, index), 0); }, {"take", std::to_string(index)},
                             {x});
  }
  const Tensor huge = from_data(std::vector<std::uint64_t>{0, UINT64_MAX});
  expect_error<IndexError>([&] { take(x, huge, 0); }, {"take", std::to_string(UINT64_MAX)},
                           {x, huge});
  // One bad index after many good ones.
  Tensor many = zeros({100000}, int64);
  many[99999].fill(2);
  expect_error<IndexError>([&] { take(x, many, 0); }, {"index 2", "[99999]"}, {x, many});
  EXPECT_EQ(integers(gather(x, 1, tensor({{-1}, {0}}))), (Integers{2, 3}));
}

CHILD_TEST(BadInputIndexing, Item41ScatterOutOfRange) {
  const Tensor x = zeros({3, 2}), source = ones({3, 2});
  const Tensor bad = tensor({{0, 1}, {2, 3}, {1, 1}});
  expect_error<IndexError>([&] { scatter(x, 0, bad, source); },
                           {"scatter", "index 3", "[1, 1]", "size 3"}, {x, bad, source});
  expect_error<IndexError>([&] { scatter_add(x, 0, bad, source); }, {"scatter_add", "index 3"},
                           {x, bad, source});
  expect_error<IndexError>(
      [&] {
        index_add(x, 0, tensor({0, 1, -4}), source);
      },
      {"index_add", "index -4", "[2]"}, {x, source});
  expect_error<IndexError>(
      [&] {
        scatter_backward(x, 0, bad, {3, 2});
      },
      {"scatter_backward", "index 3"}, {x});
  expect_error<IndexError>([&] { scatter_add_backward(x, 0, bad, {3, 2}); }, {"index 3"}, {x});
  expect_error<IndexError>([&] { index_add_backward(x, 0, tensor({3})); }, {"index 3"}, {x});
  expect_error<IndexError>(
      [&] {
        gather_backward(source, {3, 2}, 0, bad);
      },
      {"gather_backward", "index 3"}, {source});
  expect_error<IndexError>(
      [&] {
        take_backward(source, {2, 2}, tensor({0, 1, 2}), 0);
      },
      {"take_backward", "index 2"}, {source});
  expect_error<ShapeError>(
      [&] {
        scatter(x, 0, bad, ones({2, 2}));
      },
      {"scatter", "source", "[2, 2]", "[3, 2]"}, {x});
  EXPECT_EQ(scatter(x, 0, tensor({{1, -1}}), source).to_vector<float>(),
            (std::vector<float>{0, 0, 1, 0, 0, 1}));
}

CHILD_TEST(BadInputIndexing, Item42ScatterWithRepeatsIsDeterministic) {
  const int before = get_num_threads();
  const Tensor indices = modulo(multiply(arange(50000), 7919), 10);
  const Tensor source = sin(arange(50000).to(float32));
  set_num_threads(1);
  const auto put = scatter(zeros({10}), 0, indices, source).to_vector<float>();
  const auto sum = scatter_add(zeros({10}), 0, indices, source).to_vector<float>();
  const auto rows = index_add(zeros({10}), 0, indices, source).to_vector<float>();
  for (std::int64_t i = 0; i < 10; ++i) {
    // The last source for each position remains.
    std::int64_t last = 49999;
    while (last * 7919 % 10 != i) --last;
    EXPECT_EQ(put[static_cast<std::size_t>(i)], source[last].item<float>());
  }
  for (int threads : {2, 3, 4}) {
    set_num_threads(threads);
    for (int repetition = 0; repetition < 3; ++repetition) {
      EXPECT_EQ(scatter(zeros({10}), 0, indices, source).to_vector<float>(), put);
      EXPECT_EQ(scatter_add(zeros({10}), 0, indices, source).to_vector<float>(), sum);
      EXPECT_EQ(index_add(zeros({10}), 0, indices, source).to_vector<float>(), rows);
    }
  }
  set_num_threads(before);
}

CHILD_TEST(BadInputIndexing, Item46FloatIndex) {
  const Tensor x = arange(6).reshape({2, 3}), real = zeros({2, 3});
  expect_error<DTypeError>([&] { take(x, real, 0); }, {"take", "indices", "float32"}, {x, real});
  expect_error<DTypeError>([&] { gather(x, 0, real); }, {"gather", "float32"}, {x, real});
  expect_error<DTypeError>([&] { take_along_axis(x, real.to(float16), 0); }, {"float16"}, {x});
  expect_error<DTypeError>([&] { scatter(x, 0, real, x); }, {"scatter", "float32"}, {x, real});
  expect_error<DTypeError>([&] { scatter_add(x, 0, real, x); }, {"scatter_add", "float32"}, {x});
  expect_error<DTypeError>([&] { index_add(x, 0, real[0].slice(0, 0, 2), x); },
                           {"index_add", "float32"}, {x});
  expect_error<DTypeError>([&] { one_hot(real, 3); }, {"one_hot", "float32"}, {real});
  expect_error<DTypeError>([&] { (void)x[real]; }, {"float32"}, {x, real});
  // A mask is not a list of indices.
  expect_error<DTypeError>([&] { take(x, zeros({2}, bool_), 0); }, {"take", "bool"}, {x});
  EXPECT_EQ(integers(take(x, tensor({1}, uint8), 0)), (Integers{3, 4, 5}));
}

CHILD_TEST(BadInputIndexing, Item47MaskOfTheWrongShape) {
  const Tensor x = zeros({2, 3});
  for (const Shape& shape : {Shape{3}, Shape{3, 2}, Shape{2, 3, 1}, Shape{2, 2}, Shape{1, 2}}) {
    const Tensor mask = ones(shape, bool_);
    const std::string text = to_string(shape);
    expect_error<ShapeError>([&] { masked_select(x, mask); }, {"masked_select", text, "[2, 3]"},
                             {x, mask});
    expect_error<ShapeError>([&] { (void)x[mask]; }, {text}, {x, mask});
    expect_error<ShapeError>(
        [&] {
          masked_select_backward(zeros({6}), {2, 3}, mask);
        },
        {"masked_select_backward", text}, {mask});
  }
  // A mask of x's rank broadcasts in masked_select, but not in an index.
  EXPECT_EQ(masked_select(x, ones({2, 1}, bool_)).shape(), (Shape{6}));
  expect_error<ShapeError>([&] { (void)x[ones({2, 1}, bool_)]; }, {"[2, 1]"}, {x});
  const Tensor wide = ones({4, 2, 3}, bool_), numbers = ones({2, 3});
  expect_error<ShapeError>([&] { masked_fill(x, wide, 1); }, {"masked_fill", "[4, 2, 3]", "[2, 3]"},
                           {x, wide});
  expect_error<ShapeError>([&] { masked_fill(x, ones({2}, bool_), 1); }, {"masked_fill", "[2]"},
                           {x});
  expect_error<DTypeError>([&] { masked_select(x, numbers); }, {"masked_select", "float32"}, {x});
  expect_error<DTypeError>([&] { masked_fill(x, numbers, 1); }, {"masked_fill", "float32"}, {x});
  EXPECT_EQ(masked_select(x, ones({2}, bool_)).shape(), (Shape{2, 3}));
}

CHILD_TEST(BadInputIndexing, Item48TakeFromAnEmptyAxis) {
  const Tensor x = zeros({2, 0, 3}), flat = zeros({0});
  expect_error<IndexError>([&] { take(x, tensor({0}), 1); },
                           {"take", "index 0", "axis 1", "size 0"}, {x});
  expect_error<IndexError>([&] { take(flat, tensor({0})); }, {"take", "size 0"}, {flat});
  expect_error<IndexError>([&] { take(flat, tensor({-1})); }, {"take", "index -1"}, {flat});
  expect_error<IndexError>(
      [&] {
        gather(x, 1, zeros({2, 1, 3}, int64));
      },
      {"gather", "size 0"}, {x});
  expect_error<IndexError>([&] { index_add(flat, 0, tensor({0}), zeros({1})); },
                           {"index_add", "size 0"}, {flat});
  // Selecting nothing from an empty tensor is valid.
  EXPECT_EQ(take(x, zeros({0}, int64), 1).shape(), (Shape{2, 0, 3}));
  EXPECT_EQ(take(x, tensor({1, 1, 0}), 0).shape(), (Shape{3, 0, 3}));
}

// The message names the result's dtype, not the wider one that accumulates sums.
CHILD_TEST(BadInputIndexing, IndexAddWithAnAlphaThatDoesNotFit) {
  const Tensor x = ones({3}, uint8), first = tensor({0}), source = ones({1}, uint8);
  const auto add = [&](const Tensor& to, const Scalar& alpha) {
    return index_add(to, 0, first, source, alpha);
  };
  expect_error<ValueError>([&] { add(x, -1); }, {"index_add", "-1 does not fit uint8", "255"}, {x});
  expect_error<ValueError>([&] { add(x, 256); }, {"index_add", "256 does not fit uint8"}, {x});
  const Tensor wider = ones({3}, int32);
  expect_error<ValueError>([&] { add(wider, std::int64_t{1} << 40); }, {"does not fit int32"});
  expect_error<DTypeError>([&] { add(wider, 1e30); }, {"index_add", "alpha is 1e+30", "int32"});
  expect_error<DTypeError>([&] { add(x, 0.5); }, {"index_add", "alpha is 0.5", "uint8"}, {x});
  const Tensor truth = ones({1}, bool_);
  expect_error<ValueError>([&] { index_add(truth, 0, first, truth, -1); },
                           {"index_add", "-1", "bool"});
  EXPECT_EQ(integers(add(x, 255).to(int64)), (Integers{0, 1, 1}));  // 256 wraps
}

CHILD_TEST(BadInputIndexing, Item49OneHotWithTooFewClasses) {
  const Tensor classes = tensor({{0, 2}, {1, 3}});
  expect_error<IndexError>([&] { one_hot(classes, 3); }, {"one_hot", "index 3", "[1, 1]", "size 3"},
                           {classes});
  expect_error<IndexError>([&] { one_hot(classes, 0); }, {"one_hot", "index 0"}, {classes});
  expect_error<IndexError>([&] { one_hot(tensor({-1}), 3); }, {"one_hot", "index -1"});
  expect_error<ValueError>([&] { one_hot(classes, -1); }, {"one_hot", "-1"}, {classes});
  expect_error<ShapeError>([&] { one_hot(zeros({4}, int64), INT64_MAX); }, {"one_hot"});
  EXPECT_EQ(integers(one_hot(tensor({2, 0}), 3)), (Integers{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(one_hot(zeros({0}, int64), 0).shape(), (Shape{0, 0}));
  EXPECT_EQ(one_hot(zeros({0}, int64), 1L << 50).shape(), (Shape{0, 1L << 50}));
}

CHILD_TEST(BadInputIndexing, Item50NegativeIndexBelowMinusN) {
  const Tensor x = arange(6).reshape({2, 3});
  expect_error<IndexError>(
      [&] {
        take(x, tensor({0, -4}), 1);
      },
      {"take", "index -4", "[1]", "-3 to 2"}, {x});
  expect_error<IndexError>([&] { take(x, tensor({-7})); }, {"take", "-7", "-6 to 5"}, {x});
  expect_error<IndexError>([&] { gather(x, 0, tensor({{-3}})); }, {"gather", "-3", "-2 to 1"}, {x});
  expect_error<IndexError>([&] { scatter(x, 1, tensor({{-4}}), tensor({{1}})); }, {"scatter", "-4"},
                           {x});
  expect_error<IndexError>([&] { (void)x[-3]; }, {"index", "-3"}, {x});
  EXPECT_EQ(integers(take(x, tensor({-3, -1}), 1)), (Integers{0, 2, 3, 5}));
  EXPECT_EQ(integers(x[tensor({-2})]), (Integers{0, 1, 2}));
}

}  // namespace
