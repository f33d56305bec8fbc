// Gradients of operands that were broadcast: no memory for the gradient of the whole shape, and the
// numbers of evaluating it and summing.
#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"

namespace extensor {
namespace {

struct Case {
  Shape full, small;
};

// Reduce outer, inner, all and both axes, and divide the result. A device other than the CPU
// evaluates larger parts.
std::vector<Case> cases() {
  if (default_device() != cpu_device) {
    return {{{4096, 6144}, {6144}}, {{4096, 6144}, {4096, 1}}, {{25'000'000}, {1}}};
  }
  return {{{4000, 512}, {512}},
          {{4000, 512}, {4000, 1}},
          {{2048, 1024}, {}},
          {{16, 64, 2048}, {64, 1}},
          {{16, 64, 2048}, {16, 1, 2048}},
          {{1, 3, 700'001}, {3, 1}},
          {{5, 400'000}, {400'000}},
          {{1'500'000}, {1}},
          {{64, 1, 32'768}, {1, 1, 1}}};
}

// The sum of grad · other in float64, by one plain loop for each result.
std::vector<double> reference(const Tensor& product, const Shape& small) {
  const Tensor wide = product.to(float64);
  return reduce_broadcast_dims(wide, small).to_vector<double>();
}

std::size_t peak_of(const std::function<void()>& function) {
  const Device device = default_device();
  reset_peak_memory_stats(device);
  const std::size_t before = memory_stats(device).allocated_bytes;
  function();
  return memory_stats(device).peak_allocated_bytes - before;
}

TEST(SummedGradient, NeedsNoMemoryForTheWholeShape) {
  for (const auto& [full, small] : cases()) {
    const Tensor g = randn(full), x = rand(full) + 0.5, y = rand(small) + 0.5;
    const std::size_t result = static_cast<std::size_t>(y.numel()) * 4;
    const std::size_t allowed = g.nbytes() / 4 + 2 * result;
    const std::size_t two_steps = peak_of([&] { reduce_broadcast_dims(g * x, small); });
    EXPECT_GE(two_steps, g.nbytes()) << "the whole shape, with the allocator's rounding";
    // One gradient has the whole shape by itself.
    const std::size_t multiply_peak = peak_of([&] { multiply_backward(g, x, y); });
    EXPECT_LT(multiply_peak, two_steps + allowed) << full << " to " << small;
    const std::size_t divide_peak = peak_of([&] { divide_backward(g, x, y); });
    EXPECT_LT(divide_peak, two_steps + allowed) << full << " to " << small;

    Tensor weight = y.clone().requires_grad_();
    const Tensor product = x * weight;
    const std::size_t recorded = peak_of([&] { product.backward(g); });
    EXPECT_LT(recorded, allowed) << full << " to " << small;
    EXPECT_TRUE(all(equal(weight.grad(), multiply_backward(g, x, y).second)).item<bool>());
  }
}

TEST(SummedGradient, IsAsAccurateAsOneSum) {
  for (const auto& [full, small] : cases()) {
    const Tensor g = randn(full), x = rand(full) + 0.5, y = rand(small) + 0.5;
    const Tensor product = g * x;
    const auto got = multiply_backward(g, x, y).second.to(float64).to_vector<double>();
    const auto expected = reference(product, small);
    const auto sizes = reference(abs(product), small);
    // Pairwise sums: the error grows with the logarithm of the number of terms.
    for (std::size_t k = 0; k < got.size(); ++k) {
      ASSERT_NEAR(got[k], expected[k], 24 * 0x1p-24 * sizes[k]) << full << " to " << small;
    }
  }
}

TEST(SummedGradient, DoesNotDependOnTheNumberOfThreads) {
  const int threads = get_num_threads();
  for (const auto& [full, small] : cases()) {
    const Tensor g = randn(full), x = rand(full) + 0.5, y = rand(small) + 0.5;
    set_num_threads(1);
    const Tensor one = divide_backward(g, x, y).second;
    set_num_threads(3);
    const Tensor three = divide_backward(g, x, y).second;
    EXPECT_TRUE(all(equal(one, three)).item<bool>()) << full << " to " << small;
  }
  set_num_threads(threads);
}

TEST(SummedGradient, TakesEveryFloatAndLayout) {
  const Shape full{300, 20, 128};
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const Tensor g = randn(full).to(dtype), y = (rand({20, 1}) + 0.5).to(dtype);
    const Tensor x = (rand({128, 20, 300}) + 0.5).to(dtype).transpose();
    const Tensor got = multiply_backward(g, x, y).second;
    EXPECT_EQ(got.dtype(), dtype);
    const Tensor expected = reduce_broadcast_dims(g.to(float64) * x.to(float64), y.shape());
    const double eps = dtype == float16    ? 0x1p-11
                       : dtype == bfloat16 ? 0x1p-8
                       : dtype == float32  ? 0x1p-20
                                           : 0x1p-48;
    const Tensor scale = reduce_broadcast_dims(abs(g.to(float64) * x.to(float64)), y.shape());
    EXPECT_TRUE(
        all(less_equal(abs(got.to(float64) - expected), abs(expected) * eps + scale * 0x1p-20))
            .item<bool>())
        << dtype;
  }
}

// where and fma reduce in the same way.
TEST(SummedGradient, WhereAndFma) {
  const Shape full = cases()[0].full, small = cases()[0].small;
  const Tensor g = randn(full), x = rand(full), y = rand(small);
  const Tensor condition = greater(x, 0.5);
  const std::size_t peak = peak_of([&] { where_backward(g, condition, small, {}); });
  EXPECT_LT(peak, g.nbytes() / 2);
  const auto [a, b] = where_backward(g, condition, small, {});
  const Tensor chosen = where(condition, g, 0.0).to(float64),
               rest = where(condition, 0.0, g).to(float64);
  EXPECT_TRUE(allclose(a.to(float64), sum(chosen, 0), 0, 1e-3));
  EXPECT_TRUE(allclose(b.to(float64), sum(rest), 0, 1e-2));
  EXPECT_TRUE(allclose(fma_backward(g, x, y, {}).b, multiply_backward(g, x, y).second, 0, 0));
}

// Gradients of gradients are recorded: the large path is not taken, and the numbers are those of
// finite sums.
TEST(SummedGradient, SecondOrderIsRecorded) {
  const Shape full{2000, 512};
  const Tensor x = rand(full) + 0.5;
  Tensor w = (rand({512}) + 0.5).requires_grad_();
  const Tensor loss = sum(x * w * w);
  const Tensor first = grad(loss, {w}, {.create_graph = true})[0];
  const Tensor second = grad(sum(first), {w})[0];
  EXPECT_TRUE(allclose(second.to(float64), 2 * sum(x.to(float64), 0), 1e-5, 0));
}

}  // namespace
}  // namespace extensor
