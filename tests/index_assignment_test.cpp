// Assignment through an index expression writes into the tensor; assignment to a name rebinds it;
// generic code handles both. advanced_indexing_test.cpp compares random expressions with a
// reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/extensor.h"

namespace {

using namespace extensor;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

Floats floats(const Tensor& x) { return x.to(float32).to_vector<float>(); }
Integers integers(const Tensor& x) { return x.to(int64).to_vector<std::int64_t>(); }

// ---- types --------------------------------------------------

template <class T>
concept IndexableBy = requires(const Tensor& x, T index) {
  x[index];
};

// relu(x) = y and x.reshape({2}) = y do not compile.
static_assert(!std::is_assignable_v<Tensor, Tensor>);
static_assert(!std::is_assignable_v<Tensor, const Tensor&>);
static_assert(!std::is_assignable_v<Tensor, double>);
static_assert(std::is_assignable_v<IndexedTensor, Tensor>);
static_assert(std::is_assignable_v<IndexedTensor, const Tensor&>);
static_assert(std::is_assignable_v<IndexedTensor, IndexedTensor>);
static_assert(std::is_assignable_v<IndexedTensor, int>);
static_assert(std::is_assignable_v<IndexedTensor, double>);
// A name is rebound to a tensor, never filled with a number.
static_assert(std::is_assignable_v<IndexedTensor&, Tensor>);
static_assert(!std::is_assignable_v<IndexedTensor&, double>);
static_assert(std::is_nothrow_move_constructible_v<Tensor>);
static_assert(std::is_nothrow_copy_assignable_v<Tensor>);
static_assert(std::is_nothrow_move_assignable_v<Tensor>);
static_assert(std::is_nothrow_swappable_v<Tensor>);
static_assert(std::is_nothrow_move_constructible_v<IndexedTensor>);
static_assert(std::is_nothrow_move_assignable_v<IndexedTensor>);
static_assert(std::is_convertible_v<IndexedTensor, Tensor>);
static_assert(std::is_same_v<std::common_type_t<Tensor, IndexedTensor>, Tensor>);
// A bool or a float is not an index.
static_assert(IndexableBy<int> && IndexableBy<std::int64_t> && IndexableBy<Tensor>);
static_assert(!IndexableBy<bool> && !IndexableBy<float> && !IndexableBy<double>);
static_assert(!std::is_constructible_v<Index, bool> && !std::is_constructible_v<Index, double>);

// ---- views --------------------------------------------------

TEST(IndexAssignment, IntegersAndSlicesWrite) {
  const Tensor x = zeros({3, 4});
  x[0] = tensor({1, 2, 3, 4});
  x[{1, 2}] = 5;
  x[{Slice{1, 3}, 0}] = tensor({6.0F, 7.0F});
  x[{-1, Slice{{}, {}, -2}}] = tensor({8.0F, 9.0F});
  x[{ellipsis, 1}] = -1;
  EXPECT_EQ(floats(x), (Floats{1, -1, 3, 4, 6, -1, 5, 0, 7, -1, 0, 8}));
  x[{newaxis, 0}] = zeros({1, 4});
  EXPECT_EQ(floats(x[0]), (Floats{0, 0, 0, 0}));
  x[0][1] = 3;
  x[2] = x[0] = tensor({9.0F});  // the right-hand side is assigned to both
  EXPECT_EQ(floats(x), (Floats{9, 9, 9, 9, 6, -1, 5, 0, 9, 9, 9, 9}));
  x[{}] = 2;
  EXPECT_EQ(floats(x), Floats(12, 2));
  x.index({1, Slice{}}) = 4;
  EXPECT_EQ(floats(x[{Slice{}, 0}]), (Floats{2, 4, 2}));
}

TEST(IndexAssignment, ANameIsRebound) {
  const Tensor x = zeros({2, 2}), y = ones({2});
  auto v = x[0];
  v = y;
  EXPECT_EQ(floats(x), Floats(4, 0));
  EXPECT_EQ(floats(v), Floats(2, 1));
  Tensor w = x[1];
  w = y;
  EXPECT_EQ(floats(x), Floats(4, 0));
  auto&& bound = x[0];
  bound = y;
  EXPECT_EQ(floats(x), Floats(4, 0));
  auto through = x[0];
  through += 3;  // in place: a view
  through.copy_from(through * 2);
  EXPECT_EQ(floats(x), (Floats{6, 6, 0, 0}));
}

TEST(IndexAssignment, SourcesBroadcastAndConvert) {
  const Tensor x = zeros({2, 3}, int32);
  x[0] = tensor({{7}});  // leading dimensions of length 1 are dropped
  x[{Slice{}, Slice{1, 3}}] = tensor({{1}, {2}}, int8);
  EXPECT_EQ(integers(x), (Integers{7, 1, 1, 0, 2, 2}));
  EXPECT_THROW(x[0] = tensor({1.5F}), DTypeError);
  EXPECT_THROW(x[0] = 1.5, DTypeError);
  EXPECT_THROW(x[x > 0] = 2.0, DTypeError);
  EXPECT_THROW(x[0] = std::int64_t{1} << 40, ValueError);
  EXPECT_THROW(x[0] = tensor({1, 2}), ShapeError);
  EXPECT_THROW(x[0] = ones({2, 3}, int32), ShapeError);
  EXPECT_EQ(integers(x), (Integers{7, 1, 1, 0, 2, 2}));
}

TEST(IndexAssignment, OverlappingSources) {
  const Tensor x = arange(5);
  x[{Slice{1, {}}}] = x[{Slice{{}, -1}}];
  EXPECT_EQ(integers(x), (Integers{0, 0, 1, 2, 3}));
  x[tensor({4, 3, 2, 1, 0})] = x;
  EXPECT_EQ(integers(x), (Integers{3, 2, 1, 0, 0}));
  // The index tensor is the tensor that is written.
  const Tensor p = tensor({1, 2, 0});
  p[p] = tensor({10, 11, 12});
  EXPECT_EQ(integers(p), (Integers{12, 10, 11}));
}

// ---- tensors as indices ------------------------------------

TEST(IndexAssignment, MasksWrite) {
  const Tensor x = arange(6).reshape({2, 3});
  x[x > 3] = 0;
  EXPECT_EQ(integers(x), (Integers{0, 1, 2, 3, 0, 0}));
  const Tensor rows = tensor({false, true});
  x[rows] = tensor({7, 8, 9});
  x[x == 1] = tensor({-1});
  x[{rows, 0}] = 5;
  x[{Slice{}, tensor({false, true, true})}] *= 2;
  EXPECT_EQ(integers(x), (Integers{0, -2, 4, 5, 16, 18}));
  x[x < 0].fill(3);
  x[x == 18].copy_from(tensor({1}));
  EXPECT_EQ(integers(x), (Integers{0, 3, 4, 5, 16, 1}));
  x[x > 100] = 1;  // the mask is all false
  x[x > 100] = zeros({0}, int64);
  EXPECT_EQ(integers(x), (Integers{0, 3, 4, 5, 16, 1}));
  const Tensor y = ones({2, 3});
  y[full({}, true, bool_)] = 4;  // a mask without dimensions selects all or nothing
  y[full({}, false, bool_)] = 5;
  EXPECT_EQ(floats(y), Floats(6, 4));
}

TEST(IndexAssignment, IntegerTensorsWrite) {
  const Tensor x = zeros({3, 3}, int64);
  const Tensor rows = tensor({0, 1, 2}), columns = tensor({2, 1, 0});
  x[{rows, columns}] = tensor({1, 2, 3});
  x[{rows, 1}] += 10;
  EXPECT_EQ(integers(x), (Integers{0, 10, 1, 0, 12, 0, 3, 10, 0}));
  x[{Slice{0, 2}, columns}] = arange(6).reshape({2, 3});
  EXPECT_EQ(integers(x), (Integers{2, 1, 0, 5, 4, 3, 3, 10, 0}));
  x[tensor({-1})] = -7;
  EXPECT_EQ(integers(x[2]), (Integers{-7, -7, -7}));
  EXPECT_EQ(integers(x[{rows, columns}]), (Integers{0, 4, -7}));
  EXPECT_EQ((x[{rows.reshape({3, 1}), columns}].shape()), (Shape{3, 3}));
}

TEST(IndexAssignment, TheLastOfRepeatedWritesStays) {
  const int before = get_num_threads();
  for (int threads : {1, 2, 4}) {
    set_num_threads(threads);
    const Tensor x = zeros({10, 40}, int64), indices = modulo(multiply(arange(50000), 7919), 10);
    x[indices] = arange(50000).reshape({50000, 1});
    Integers expected(10);
    for (std::int64_t i = 0; i < 50000; ++i) expected[static_cast<std::size_t>(i * 7919 % 10)] = i;
    EXPECT_EQ(integers(x[{Slice{}, 0}]), expected);
    EXPECT_EQ(integers(x[{Slice{}, 39}]), expected);
    const Tensor counts = zeros({3}, int64);
    counts[tensor({0, 2, 0, 0})] += 1;  // read, add, write back: not a count
    EXPECT_EQ(integers(counts), (Integers{1, 0, 1}));
  }
  set_num_threads(before);
}

TEST(IndexAssignment, ASelectionWithANameIsACopy) {
  const Tensor x = arange(4);
  auto y = x[x > 1];
  y += 10;
  y = y * 2;
  EXPECT_EQ(integers(y), (Integers{24, 26}));
  EXPECT_EQ(integers(x), (Integers{0, 1, 2, 3}));
  const auto z = x[x > 1];
  x[2] = 50;
  EXPECT_EQ(integers(z), (Integers{2, 3}));
  auto copied = z;
  copied.fill(0);
  EXPECT_EQ(integers(z), (Integers{0, 0}));  // two handles on one copy
  EXPECT_EQ(integers(x), (Integers{0, 1, 50, 3}));
}

TEST(IndexAssignment, APartOfASelectionCannotBeAssigned) {
  const Tensor x = arange(4);
  EXPECT_EQ(x[x > 1][0].item<std::int64_t>(), 2);
  EXPECT_THROW(x[x > 1][0] = 9, ValueError);
  EXPECT_THROW(x[x > 1][0] += 9, ValueError);
  EXPECT_THROW((x[x > 1][{Slice{0, 1}}] = 9), ValueError);
  EXPECT_THROW(x[x > 1][tensor({0})] = tensor({9}), ValueError);
  EXPECT_THROW(x[x > 1].index({0}) = 9, ValueError);
  EXPECT_EQ(integers(x), (Integers{0, 1, 2, 3}));
}

TEST(IndexAssignment, BracesChooseTheRightIndex) {
  const Tensor x = arange(12).reshape({3, 4});
  const Tensor t = tensor({2, 0}), mask = tensor({true, false, true});
  EXPECT_EQ((x[{1, 2}].item<std::int64_t>()), 6);
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wbraced-scalar-init"
#endif
  EXPECT_EQ(x[{0}].shape(), (Shape{4}));  // the integer 0, not a list of one index
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
  EXPECT_EQ(x[{}].shape(), (Shape{3, 4}));
  EXPECT_EQ(integers(x[{t}]), integers(x[t]));
  EXPECT_EQ(integers(x[{mask}]), integers(x[mask]));
  EXPECT_EQ((integers(x[{t, t}])), (Integers{10, 0}));
  EXPECT_EQ((integers(x[{t, 1}])), (Integers{9, 1}));
  EXPECT_EQ((integers(x[{x[{0, Slice{0, 2}}], 1}])), (Integers{1, 5}));
  EXPECT_EQ(integers(x[x[{0, Slice{0, 2}}]]), integers(x[tensor({0, 1})]));
}

TEST(IndexAssignment, UndefinedTensorsAreRefused) {
  const Tensor x = arange(3), none;
  EXPECT_THROW(x[0] = none, ValueError);
  EXPECT_THROW(x[x > 0] = none, ValueError);
  EXPECT_THROW((void)x[none], ValueError);
  EXPECT_THROW((void)none[0], ValueError);
  EXPECT_THROW(x[0] = {}, ValueError);
  EXPECT_EQ(integers(x), (Integers{0, 1, 2}));
}

// ---- gradients ---------------------------------------------

TEST(IndexAssignment, WritesTakePartInAutograd) {
  Tensor w = tensor({2.0, 3.0}).requires_grad_();
  Tensor buffer = zeros({4}, w.dtype());
  buffer[tensor({1, 3})] = w * w;
  buffer[tensor({0, 0})] = w;  // the second write remains
  (sum(buffer * tensor({1.0, 10.0, 100.0, 1000.0})) + sum(w)).backward();
  EXPECT_EQ(floats(w.grad()), (Floats{2 * 2 * 10 + 1, 2 * 3 * 1000 + 1 + 1}));

  Tensor v = tensor({1.0, 2.0, 3.0}).requires_grad_();
  Tensor y = v * 1;
  y[tensor({true, false, true})] *= v[tensor({0, 1})];
  sum(y).backward();  // v0·v0 + v1 + v2·v1
  EXPECT_EQ(floats(v.grad()), (Floats{2, 1 + 3, 2}));

  EXPECT_THROW(v[tensor({0})] = 1, ValueError);  // a leaf
  {
    const NoGrad off;
    v[tensor({0})] = 5;
  }
  EXPECT_EQ(floats(v), (Floats{5, 2, 3}));
}

TEST(IndexAssignment, AChangedIndexIsNoticedByTheBackward) {
  Tensor x = ones({3}).requires_grad_();
  const Tensor indices = tensor({0, 1});
  const Tensor y = x[indices];
  indices[0] = 2;
  EXPECT_THROW(sum(y).backward(), ValueError);
}

// ---- generic code ------------------------------------------

TEST(IndexAssignment, GenericCodeWorks) {
  const Tensor x = arange(6).reshape({3, 2});
  Tensor a = x[0], b = x[1];
  std::swap(a, b);
  EXPECT_EQ(integers(a), (Integers{2, 3}));
  EXPECT_EQ(integers(std::exchange(a, x[2])), (Integers{2, 3}));
  EXPECT_EQ(integers(a), (Integers{4, 5}));
  auto p = x[0], q = x[1];
  std::swap(p, q);
  EXPECT_EQ(integers(p), (Integers{2, 3}));
  EXPECT_EQ(integers(x), integers(arange(6)));

  std::vector<Tensor> list{x[2], x[0]};
  list.push_back(x[1]);
  list.insert(list.begin(), x[x > 4]);
  list[0] = x[1];
  list.erase(list.begin() + 1);
  std::sort(list.begin(), list.end(), [](const Tensor& l, const Tensor& r) {
    return l[0].item<std::int64_t>() < r[0].item<std::int64_t>();
  });
  EXPECT_EQ(integers(stack(list)), (Integers{0, 1, 2, 3, 2, 3}));

  std::optional<Tensor> maybe = x[0];
  maybe = x[1];
  EXPECT_EQ(integers(*maybe), (Integers{2, 3}));
  auto [first, second] = std::pair<Tensor, Tensor>{x[0], x[1]};
  std::tie(first, second) = std::pair<Tensor, Tensor>{x[1], x[0]};
  EXPECT_EQ(integers(first), (Integers{2, 3}));
  for (const bool which : {false, true}) {
    const Tensor chosen = which ? x[0] : a;
    EXPECT_EQ(integers(chosen), which ? (Integers{0, 1}) : (Integers{4, 5}));
    EXPECT_EQ((which ? x[0] : x[x > 4]).numel(), which ? 2 : 1);
  }
  a = {};
  EXPECT_FALSE(a.defined());
  b = b[0];  // a view of itself
  EXPECT_EQ(b.item<std::int64_t>(), 0);
  EXPECT_EQ(integers(x), integers(arange(6)));
}

}  // namespace
