// Calls that could be misunderstood: a bool for an axis or a number, a number for a flag, a
// reference into a temporary, and the name std after a using-directive. The compiler must reject
// the wrong calls, so most checks here are static.
#include <gtest/gtest.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/extensor.h"

// At global scope, as in a small program.
using namespace extensor;

namespace {

// Whether an expression of the tensors x and y compiles, `yes` being a bool and `one` an int.
#define COMPILES(...)                                                              \
  []<class T>(std::type_identity<T>) {                                             \
    return requires(const T& x, const T& y, std::conditional_t<true, bool, T> yes, \
                    std::conditional_t<true, int, T> one) {                        \
      __VA_ARGS__;                                                                 \
    };                                                                             \
  }(std::type_identity<Tensor>{})

// ---- booleans and numbers

static_assert(COMPILES(sum(x, 1, true)) && COMPILES(sum(x, {0, 1}, true)));
static_assert(COMPILES(sum(x, {}, true)) && COMPILES(sum(x, -1L)) && COMPILES(sum(x, 1u)));
static_assert(COMPILES(sum(x, std::vector<std::int64_t>{0})) && COMPILES(sum(x, Dims{0})));

// A bool is not an axis.
static_assert(!COMPILES(sum(x, true)) && !COMPILES(sum(x, {true})) && !COMPILES(sum(x, {0, true})));
static_assert(!COMPILES(mean(x, false)) && !COMPILES(max(x, true)) && !COMPILES(all(x, true)));
static_assert(!COMPILES(argmax(x, true)) && COMPILES(argmax(x, 0, true)));
static_assert(!COMPILES(cumulative_sum(x, true)) && !COMPILES(logsumexp(x, true)));
static_assert(!COMPILES(softmax(x, true)) && !COMPILES(sort(x, true)) && !COMPILES(glu(x, true)));
static_assert(!COMPILES(topk(x, 3, true)) && COMPILES(topk(x, 3, -1, true)));
static_assert(!COMPILES(squeeze(x, true)) && !COMPILES(x.squeeze(true)) &&
              !COMPILES(flip(x, true)));
static_assert(!COMPILES(x.unsqueeze(true)) && !COMPILES(x.size(true)) &&
              !COMPILES(x.slice(0, true)));
static_assert(!COMPILES(x[true]) && !COMPILES(x[{true, 0}]) && COMPILES(x[1u]) &&
              COMPILES(x[{0, 1}]));
static_assert(!COMPILES(take(x, y, true)) && !COMPILES(repeat(x, 2, true)));
static_assert(!COMPILES(repeat(x, true)) && !COMPILES(roll(x, true)) && COMPILES(roll(x, 1, 0)));
static_assert(!COMPILES(tensordot(x, y, true)) && COMPILES(tensordot(x, y, 1)));
static_assert(!COMPILES(max_pool2d(x, true)) && COMPILES(max_pool2d(x, 2)));

// A bool is not a number.
static_assert(!COMPILES(var(x, 1, true)) && COMPILES(var(x, 1, 0, true)));
static_assert(!COMPILES(extensor::std(x, 1, true)) && COMPILES(extensor::std(x, 1, 1.0, true)));
static_assert(!COMPILES(norm(x, true)) && COMPILES(norm(x, 1, {}, true)));
static_assert(!COMPILES(leaky_relu(x, true)) && COMPILES(leaky_relu(x, 1)));
static_assert(!COMPILES(dropout(x, true)) && COMPILES(dropout(x, 0.5, true)));
static_assert(!COMPILES(isclose(x, y, true)) && !COMPILES(linspace(0, yes, 3)));
static_assert(!COMPILES(arange(yes)) && !COMPILES(arange(5, yes)) && COMPILES(arange(0, 5, one)));
static_assert(!COMPILES(layer_norm(x, {2}, y, y, true)) && !COMPILES(eye(yes)));
static_assert(!COMPILES(huber_loss(x, y, Reduction::mean, true)));
static_assert(!COMPILES(nn::Dropout(yes)) && COMPILES(nn::Dropout(0.5)));
static_assert(!COMPILES(nn::Softmax(yes)) && COMPILES(nn::Softmax(1)));

// A number or a pointer is not a flag.
static_assert(!COMPILES(sum(x, 0, 1)) && !COMPILES(sum(x, 1, 0.5)));
static_assert(!COMPILES(sort(x, -1, 1)) && !COMPILES(sort(x, -1, "descending")));
static_assert(!COMPILES(gelu(x, 1)) && COMPILES(gelu(x, true)));
static_assert(!COMPILES(scaled_dot_product_attention(x, y, y, {}, 0.125)));
static_assert(COMPILES(scaled_dot_product_attention(x, y, y, {}, true, 0.125)));
static_assert(!COMPILES(batch_norm(x, y, y, y, y, 0.1)));
static_assert(!COMPILES(T(x).requires_grad_(one)));

// A floating-point number is not an axis or a count.
static_assert(!COMPILES(sum(x, 0.5)) && !COMPILES(softmax(x, 1.0)) && !COMPILES(topk(x, 2.5)));
static_assert(!COMPILES(argmax(x, 0.5)) && !COMPILES(x.size(1.0)));

TEST(Calls, KeepdimsIsTheLastArgument) {
  const Tensor x = arange(6).reshape({2, 3}).to(float64);
  EXPECT_EQ(sum(x, 1, true).shape(), Shape({2, 1}));
  EXPECT_EQ(var(x, 1, 1, true).to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(sum(x, std::int8_t{-1}).to_vector<double>(), (std::vector<double>{3, 12}));
}

// Bools are accepted as values.
TEST(Calls, BooleansStayValues) {
  EXPECT_EQ(full({2}, true, bool_).to_vector<bool>(), (std::vector<bool>{true, true}));
  EXPECT_EQ(full({1}, true).dtype(), bool_);
  EXPECT_EQ(tensor({true, false}).dtype(), bool_);
  Tensor x = zeros({2}, bool_);
  EXPECT_TRUE(x.fill(true)[1].item<bool>());
  EXPECT_TRUE(masked_fill(zeros({1}, bool_), ones({1}, bool_), true).item<bool>());
  EXPECT_TRUE((x == true)[0].item<bool>());
  EXPECT_FALSE(logical_and(x, false)[0].item<bool>());
}

// ---- the name std

TEST(Calls, NamesAfterAUsingDirective) {
  const std::vector<double> values{1, 3};  // std is the namespace here, extensor::std a function
  const Tensor x = from_data(values);
  EXPECT_EQ(standard_deviation(x).item<double>(), 1);
  EXPECT_EQ(ext::std(x).item<double>(), 1);
  EXPECT_EQ(standard_deviation(x, 0, 1, true).shape(), Shape({1}));
  EXPECT_EQ(max(x).item<double>(), 3);
  EXPECT_EQ(pow(x, 2)[1].item<double>(), 9);
}

// ---- temporaries

// The result of a call on a temporary is a value, so that no reference to it can dangle.
template <class T>
constexpr bool is_value = !std::is_reference_v<T>;
static_assert(is_value<decltype(std::declval<Tensor>().shape())>);
static_assert(is_value<decltype(std::declval<const Tensor>().strides())>);
static_assert(is_value<decltype(std::declval<Tensor>().requires_grad_())>);
static_assert(is_value<decltype(std::declval<Tensor>().fill(1))>);
static_assert(is_value<decltype(std::declval<Tensor>().copy_from(std::declval<Tensor>()))>);
static_assert(is_value<decltype(std::declval<Tensor>() += 1)>);
static_assert(is_value<decltype(std::declval<Tensor>() *= std::declval<Tensor>())>);
static_assert(std::is_same_v<decltype(std::declval<Tensor&>().shape()), const Shape&>);
static_assert(std::is_same_v<decltype(std::declval<Tensor&>().requires_grad_()), Tensor&>);
static_assert(std::is_same_v<decltype(std::declval<Tensor&>().fill(1)), Tensor&>);
static_assert(std::is_same_v<decltype(std::declval<Tensor&>() += 1), Tensor&>);

TEST(Calls, TemporariesDoNotDangle) {
  const Tensor x = ones({2, 3, 4, 5, 6, 7, 8});  // more dimensions than a shape holds inline
  std::vector<std::int64_t> sizes, steps;
  for (auto d : (x + x).shape()) sizes.push_back(d);
  for (auto d : (x + x).strides()) steps.push_back(d);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{20160, 6720, 1680, 336, 56, 8, 1}));

  auto&& w = ones({3}).requires_grad_();
  EXPECT_TRUE(w.requires_grad());
  const Tensor& filled = empty({2}).fill(4);
  EXPECT_EQ(filled.to_vector<float>(), (std::vector<float>{4, 4}));
  const Tensor& added = zeros({2}) += 3;
  EXPECT_EQ(added.to_vector<float>(), (std::vector<float>{3, 3}));
}

// A view is a temporary too, and writes to its base.
TEST(Calls, WritesThroughTemporaryViews) {
  Tensor x = zeros({2, 2});
  x[0] += 1;
  x[1].fill(5);
  x.slice(1, 1).copy_from(full({2, 1}, 7.0));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 7, 5, 7}));
}

}  // namespace
