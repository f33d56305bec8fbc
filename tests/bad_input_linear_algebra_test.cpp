// Bad inputs 51, 52, 53 and 56: products of shapes that do not fit.
#include <vector>

#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

CHILD_TEST(BadInputLinearAlgebra, Item51InnerDimensionsDiffer) {
  const Tensor a = ones({3, 4}), b = ones({5, 2}), v = ones({5});
  expect_error<ShapeError>([&] { matmul(a, b); },
                           {"matmul: inner dimensions differ", "a is [3, 4]", "b is [5, 2]"},
                           {a, b});
  expect_error<ShapeError>([&] { matmul(a, v); }, {"matmul", "[3, 4]", "[5]"}, {a, v});
  expect_error<ShapeError>([&] { matmul(v, a); }, {"matmul", "[5]", "[3, 4]"}, {a, v});
  expect_error<ShapeError>([&] { matmul(ones({2, 3, 4}), b); }, {"matmul", "[2, 3, 4]"}, {b});
  expect_error<ShapeError>([&] { dot(v, ones({4})); }, {"dot", "[5]", "[4]"}, {v});
  expect_error<ShapeError>([&] { dot(a, v); }, {"dot", "one dimension", "[3, 4]"}, {a, v});
  expect_error<ShapeError>([&] { outer(a, v); }, {"outer", "[3, 4]"}, {a, v});
  const Tensor g = ones({3, 2});
  expect_error<ShapeError>([&] { matmul_backward(g, a, b); }, {"matmul_backward", "[5, 2]"},
                           {g, a, b});
  expect_error<DTypeError>(
      [&] {
        matmul(a.to(int64), ones({4, 1}, uint64));
      },
      {"int64", "uint64"}, {a});
  EXPECT_EQ(matmul(a, ones({4, 1})).to_vector<float>(), (std::vector<float>{4, 4, 4}));
}

CHILD_TEST(BadInputLinearAlgebra, Item52InnerDimensionZeroGivesZeros) {
  for (DType dtype : {float64, float32, float16, bfloat16, int32, uint8, bool_}) {
    SCOPED_TRACE(name(dtype));
    // Memory that held something else before must not shine through.
    { const Tensor dirty = full({3, 2}, 1, dtype); }
    const Tensor product = matmul(zeros({3, 0}, dtype), zeros({0, 2}, dtype));
    EXPECT_EQ(product.shape(), (Shape{3, 2}));
    EXPECT_EQ(product.dtype(), dtype);
    EXPECT_EQ(product.to(float64).to_vector<double>(), std::vector<double>(6, 0.0));
    { const Tensor dirty = full({}, 1, dtype); }
    EXPECT_EQ(dot(zeros({0}, dtype), zeros({0}, dtype)).item<double>(), 0.0);
    { const Tensor dirty = full({4, 3, 2}, 1, dtype); }
    const Tensor batched = matmul(zeros({4, 3, 0}, dtype), zeros({0, 2}, dtype));
    EXPECT_EQ(batched.to(float64).to_vector<double>(), std::vector<double>(24, 0.0));
    { const Tensor dirty = full({3}, 1, dtype); }
    EXPECT_EQ(matmul(zeros({3, 0}, dtype), zeros({0}, dtype)).to(float64).to_vector<double>(),
              std::vector<double>(3, 0.0));
  }
  EXPECT_EQ(matmul(zeros({0, 3}), zeros({3, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(matmul(zeros({0, 2, 3}), zeros({3, 2})).shape(), (Shape{0, 2, 2}));
  const auto [grad_a, grad_b] = matmul_backward(ones({3, 2}), zeros({3, 0}), zeros({0, 2}));
  EXPECT_EQ(grad_a.shape(), (Shape{3, 0}));
  EXPECT_EQ(grad_b.shape(), (Shape{0, 2}));
}

CHILD_TEST(BadInputLinearAlgebra, Item53BatchDimensionsThatDoNotBroadcast) {
  const Tensor a = ones({2, 3, 4}), b = ones({3, 4, 5});
  expect_error<ShapeError>([&] { matmul(a, b); }, {"matmul", "batch", "[2, 3, 4]", "[3, 4, 5]"},
                           {a, b});
  const Tensor g = ones({2, 3, 5});
  expect_error<ShapeError>([&] { matmul_backward(g, a, b); }, {"matmul_backward", "batch"},
                           {g, a, b});
  const Tensor product = matmul(a.unsqueeze(1), b);
  EXPECT_EQ(product.shape(), (Shape{2, 3, 3, 5}));
  EXPECT_EQ(product.to_vector<float>(), std::vector<float>(90, 4.0F));
}

CHILD_TEST(BadInputLinearAlgebra, Item56MatmulOfZeroDimensions) {
  const Tensor a = scalar(2.0), b = ones({2, 2});
  expect_error<ShapeError>([&] { matmul(a, b); }, {"matmul", "a is []", "b is [2, 2]"}, {a, b});
  expect_error<ShapeError>([&] { matmul(b, a); }, {"matmul", "b is []"}, {a, b});
  expect_error<ShapeError>([&] { matmul(a, a); }, {"matmul", "[]"}, {a});
  expect_error<ShapeError>([&] { dot(a, a); }, {"dot", "[]"}, {a});
  expect_error<ShapeError>([&] { matmul_backward(a, a, a); }, {"matmul_backward", "[]"}, {a});
}

}  // namespace
