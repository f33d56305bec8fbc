// Matrix products and transposes: values against plain loops, gradients, rules, and identical bits
// for any number of threads.
#include "extensor/matrix.h"

#include <gtest/gtest.h>

#include "support/family_test.h"

namespace extensor {
namespace {

using namespace family_test;

const std::vector<std::pair<Shape, Shape>>& product_shapes() {
  static const std::vector<std::pair<Shape, Shape>> shapes = {
      {{5}, {5}},        // vector · vector
      {{3, 4}, {4}},     // matrix · vector
      {{4}, {4, 3}},     // vector · matrix
      {{3, 4}, {4, 5}},  // matrix · matrix
      {{1, 9}, {9, 1}},
      {{17, 3}, {3, 8}},
      {{1, 1}, {1, 1}},
      {{2, 3, 4}, {2, 4, 5}},  // batched
      {{2, 3, 4}, {4, 5}},     // one matrix for the whole batch
      {{3, 4}, {2, 4, 5}},
      {{2, 1, 3, 4}, {3, 4, 2}},  // broadcast batches
      {{2, 3, 4}, {4}},
      {{4}, {2, 4, 3}},
      {{1, 3, 4}, {5, 4, 2}},
      {{3, 0}, {0, 4}},  // an empty sum: zeros
      {{0, 3}, {3, 2}},
      {{0}, {0}},
      {{2, 0, 3}, {3, 2}},
      {{0, 2, 3}, {3, 2}},
  };
  return shapes;
}

// The product by its definition, in long double.
std::vector<long double> product(const Tensor& a, const Tensor& b,
                                 std::vector<long double>* sizes) {
  const Tensor left = a.ndim() == 1 ? a.unsqueeze(0) : a;
  const Tensor right = b.ndim() == 1 ? b.unsqueeze(1) : b;
  const std::int64_t m = left.size(-2), k = left.size(-1), n = right.size(-1);
  const auto batch_of = [](const Tensor& x) {
    Shape shape = x.shape();
    shape.resize(shape.size() - 2);
    return shape;
  };
  const Shape batch = broadcast_shapes(batch_of(left), batch_of(right));
  const auto expand = [&](const Tensor& x) {
    Shape shape = batch;
    shape.push_back(x.size(-2));
    shape.push_back(x.size(-1));
    return values_of(x.broadcast_to(shape));
  };
  const auto x = expand(left), y = expand(right);
  std::vector<long double> result;
  for (std::int64_t i = 0; i < layouts::element_count(batch); ++i) {
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        long double sum = 0, size = 0;
        for (std::int64_t j = 0; j < k; ++j) {
          const long double term =
              static_cast<long double>(x[static_cast<std::size_t>((i * m + row) * k + j)]) *
              y[static_cast<std::size_t>((i * k + j) * n + column)];
          sum += term;
          size += std::fabs(term);
        }
        result.push_back(sum);
        sizes->push_back(size);
      }
    }
  }
  return result;
}

TEST(Matmul, ValuesForEveryRankAndLayout) {
  const std::tuple<DType, double, double> dtypes[] = {{DType::float64, 1e-15, 0},
                                                      {DType::float32, 6e-7, 0},
                                                      {DType::float16, 6e-7, 0x1p-11},
                                                      {DType::bfloat16, 6e-7, 0x1p-8}};
  auto shapes = product_shapes();
  shapes.insert(shapes.end(), {{{33, 65}, {65, 31}}, {{7, 130}, {130, 9}}, {{65, 65}, {65}}});
  for (const auto& [dtype, accumulated, rounded] : dtypes) {
    for (const auto& [a_shape, b_shape] : shapes) {
      for (Layout a_layout : layouts::every_layout) {
        for (Layout b_layout : layouts::every_layout) {
          SCOPED_TRACE(testing::Message()
                       << name(dtype) << " " << a_layout << a_shape << " " << b_layout << b_shape);
          const Tensor a = laid_out(a_shape, a_layout, 1, dtype);
          const Tensor b = laid_out(b_shape, b_layout, 2, dtype);
          const Tensor got = matmul(a, b);
          EXPECT_EQ(got.dtype(), dtype);
          std::vector<long double> sizes;
          const auto exact = product(a, b, &sizes);
          const auto results = values_of(got);
          ASSERT_EQ(results.size(), exact.size());
          for (std::size_t i = 0; i < exact.size(); ++i) {
            // The error of a sum is relative to its terms, that of rounding to the result.
            EXPECT_LE(std::fabs(results[i] - exact[i]),
                      accumulated * sizes[i] + rounded * std::fabs(exact[i]));
          }
        }
      }
    }
  }
}

// Batches that are too irregular for strides per level: every other dimension is reversed or
// broadcast.
TEST(Matmul, BatchesOfManyDimensions) {
  for (const std::size_t rank : {7, 8, 9, 11}) {
    const Shape batch(rank, 2);
    Shape left = batch, right = batch;
    left.push_back(2), left.push_back(3);
    right.push_back(3), right.push_back(2);
    Dims reversed;
    for (std::size_t d = rank; d-- > 0;) reversed.push_back(static_cast<std::int64_t>(d));
    reversed.push_back(static_cast<std::int64_t>(rank));
    reversed.push_back(static_cast<std::int64_t>(rank) + 1);
    const Tensor a = uniform(left, -1, 1, float64).transpose(reversed);
    Shape some = right;
    for (std::size_t d = 0; d < rank; d += 2) some[d] = 1;
    const Tensor b = uniform(some, -1, 1, float64);
    const Tensor expected = matmul(a.contiguous(), b.broadcast_to(right).contiguous());
    EXPECT_EQ(matmul(a, b).to_vector<double>(), expected.to_vector<double>()) << rank;
    // One matrix of the batch by its definition.
    Tensor one = a, other = b.broadcast_to(right), result = matmul(a, b);
    for (std::size_t d = 0; d < rank; ++d) {
      const auto at = static_cast<std::int64_t>(d % 2);
      one = one[at], other = other[at], result = result[at];
    }
    EXPECT_EQ(result.to_vector<double>(), matmul(one, other).to_vector<double>()) << rank;
  }
}

TEST(Matmul, GradientOfOneOperandReadsTheOther) {
  Tensor leaf = ones({2, 3}, float64).requires_grad_();
  Tensor a = leaf * 2.0, b = full({3, 1}, 5, float64);
  const auto product = [&] {
    a = leaf * 2.0;
    return sum(matmul(a, b));
  };
  Tensor y = product();
  a.fill(0);
  y.backward();
  EXPECT_EQ(leaf.grad().to_vector<double>(), std::vector<double>(6, 10));
  y = product();
  b.fill(0);
  EXPECT_THROW(y.backward(), ValueError);
}

TEST(Matmul, IntegersWrapAndDtypesPromote) {
  const Tensor a = tensor({{1, 2}, {3, 4}}), b = tensor({{5, 6}, {7, 8}});
  EXPECT_EQ(matmul(a, b).to_vector<std::int64_t>(), (std::vector<std::int64_t>{19, 22, 43, 50}));
  EXPECT_EQ(matmul(a.to(DType::int8) * 20, b.to(DType::int8)).to_vector<std::int8_t>()[0],
            static_cast<std::int8_t>(380));
  EXPECT_EQ(matmul(a.to(DType::float16), b.to(DType::bfloat16)).dtype(), DType::float32);
  EXPECT_EQ(matmul(a, b.to(DType::float32)).dtype(), DType::float32);
  EXPECT_EQ(matmul(a, b.to(DType::float64)).dtype(), DType::float64);
}

TEST(Matmul, ShapesThatDoNotFit) {
  EXPECT_THROW(matmul(ones({3, 4}), ones({5, 2})), ShapeError);
  EXPECT_THROW(matmul(ones({3}), ones({4})), ShapeError);
  EXPECT_THROW(matmul(ones({}), ones({3})), ShapeError);
  EXPECT_THROW(matmul(ones({3}), ones({})), ShapeError);
  EXPECT_THROW(matmul(ones({2, 3, 4}), ones({3, 4, 5})), ShapeError);
  EXPECT_THROW(dot(ones({3}), ones({4})), ShapeError);
  EXPECT_THROW(dot(ones({3, 3}), ones({3})), ShapeError);
  EXPECT_THROW(outer(ones({3, 3}), ones({3})), ShapeError);
  EXPECT_THROW(matrix_transpose(ones({3})), ShapeError);
  // An inner dimension of 0 is an empty sum.
  EXPECT_TRUE(identical(matmul(ones({3, 0}), ones({0, 4})), zeros({3, 4})));
}

TEST(Matmul, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  const std::pair<Shape, Shape> pairs[] = {{{130, 257}, {257, 190}},
                                           {{600}, {600, 300}},
                                           {{500, 700}, {700}},
                                           {{8, 40, 33}, {33, 50}},
                                           {{100000}, {100000}}};
  for (DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    for (const auto& [a_shape, b_shape] : pairs) {
      for (Layout layout : {Layout::contiguous, Layout::transposed}) {
        const Tensor a = laid_out(a_shape, layout, 1, dtype),
                     b = laid_out(b_shape, layout, 2, dtype);
        set_num_threads(1);
        const Tensor expected = matmul(a, b);
        for (int threads : {2, 4}) {
          set_num_threads(threads);
          EXPECT_TRUE(identical(matmul(a, b), expected))
              << name(dtype) << a_shape << b_shape << " " << layout << " with " << threads;
        }
      }
    }
  }
  set_num_threads(before);
}

// ---- gradients

TEST(MatrixGradient, MatmulOfEveryRank) {
  for (const auto& [a_shape, b_shape] : product_shapes()) {
    for (Layout a_layout : layouts::every_layout) {
      for (Layout b_layout : layouts::every_layout) {
        if (!layouts::is_distinct(a_layout, a_shape) || !layouts::is_distinct(b_layout, b_shape)) {
          if (a_layout != Layout::contiguous || b_layout != Layout::contiguous) continue;
        }
        SCOPED_TRACE(testing::Message() << a_layout << a_shape << " " << b_layout << b_shape);
        expect_gradient(
            "matmul_backward", [](const Tensors& in) { return matmul(in[0], in[1]); },
            [](const Tensor& g, const Tensors& in) {
              auto [grad_a, grad_b] = matmul_backward(g, in[0], in[1]);
              return Tensors{grad_a, grad_b};
            },
            {laid_out(a_shape, a_layout, 1), laid_out(b_shape, b_layout, 2)});
      }
    }
  }
}

TEST(MatrixGradient, DotAndOuter) {
  for (std::int64_t length : {0, 1, 3, 8, 17}) {
    for (Layout layout : layouts::every_layout) {
      if (!layouts::is_distinct(layout, {length})) continue;
      const Tensor a = laid_out({length}, layout, 1), b = laid_out({length}, Layout::contiguous, 2);
      expect_gradient(
          "dot_backward", [](const Tensors& in) { return dot(in[0], in[1]); },
          [](const Tensor& g, const Tensors& in) {
            auto [grad_a, grad_b] = dot_backward(g, in[0], in[1]);
            return Tensors{grad_a, grad_b};
          },
          {a, b});
      for (std::int64_t other : {0, 1, 5}) {
        expect_gradient(
            "outer_backward", [](const Tensors& in) { return outer(in[0], in[1]); },
            [](const Tensor& g, const Tensors& in) {
              auto [grad_a, grad_b] = outer_backward(g, in[0], in[1]);
              return Tensors{grad_a, grad_b};
            },
            {a, laid_out({other}, layout, 3)});
      }
    }
  }
}

TEST(MatrixGradient, Transpose) {
  const std::pair<Shape, Dims> permutations[] = {{{}, {}},
                                                 {{5}, {0}},
                                                 {{2, 3}, {1, 0}},
                                                 {{2, 3}, {-1, 0}},
                                                 {{2, 3, 4}, {}},
                                                 {{2, 3, 4}, {1, 2, 0}},
                                                 {{2, 3, 4}, {2, 0, 1}},
                                                 {{2, 3, 4}, {0, -1, 1}},
                                                 {{0, 3}, {1, 0}},
                                                 {{2, 1, 3, 2}, {3, 1, 0, 2}}};
  for (const auto& [shape, axes] : permutations) {
    for (Layout layout : layouts::every_layout) {
      if (!layouts::is_distinct(layout, shape)) continue;
      SCOPED_TRACE(testing::Message() << layout << shape << " by " << axes);
      expect_gradient(
          "transpose_backward",
          [axes = axes](const Tensors& in) {
            return axes.empty() ? transpose(in[0]) : transpose(in[0], axes);
          },
          [axes = axes](const Tensor& g, const Tensors&) {
            return Tensors{transpose_backward(g, axes)};
          },
          {laid_out(shape, layout, 1)});
    }
  }
}

TEST(MatrixGradient, NarrowDtypesAgreeWithFloat64) {
  const std::pair<DType, double> narrow[] = {
      {DType::float32, 1.3e-6}, {DType::float16, 1e-3}, {DType::bfloat16, 1.6e-2}};
  const std::pair<Shape, Shape> pairs[] = {
      {{40, 70}, {70, 30}}, {{6, 20, 30}, {30, 10}}, {{70}, {70}}, {{50, 30}, {30}}};
  for (const auto& [dtype, tolerance] : narrow) {
    for (const auto& [a_shape, b_shape] : pairs) {
      SCOPED_TRACE(testing::Message() << name(dtype) << a_shape << b_shape);
      const Tensor a = laid_out(a_shape, Layout::contiguous, 1, dtype);
      const Tensor b = laid_out(b_shape, Layout::contiguous, 2, dtype);
      const Tensor g = draw::uniform(matmul(a, b).shape(), 0.5, 1.5, 3).to(dtype);
      const auto got = matmul_backward(g, a, b);
      const auto exact =
          matmul_backward(g.to(DType::float64), a.to(DType::float64), b.to(DType::float64));
      for (const auto& [gradient, reference] :
           {std::pair{got.first, exact.first}, std::pair{got.second, exact.second}}) {
        EXPECT_EQ(gradient.dtype(), dtype);
        // Sums of terms of both signs: relative to the largest of them.
        const double largest = max_reduce(abs(reference)).item<double>();
        const double error =
            max_reduce(abs(gradient.to(DType::float64) - reference)).item<double>();
        EXPECT_LE(error, tolerance * largest);
      }
    }
  }
}

TEST(MatrixGradient, WrongShapesOfGradOutputAreRefused) {
  const Tensor a = ones({2, 3}), b = ones({3, 4}), v = ones({3});
  for (const Shape& wrong : {Shape{4, 2}, Shape{2}, Shape{}, Shape{1, 2, 4}, Shape{8}}) {
    EXPECT_THROW(matmul_backward(ones(wrong), a, b), ShapeError) << wrong;
  }
  EXPECT_THROW(matmul_backward(ones({2, 1}), a, v), ShapeError);
  EXPECT_THROW(matmul_backward(ones({1}), v, v), ShapeError);
  EXPECT_THROW(matmul_backward(ones({2, 4}, DType::int32), a, b), DTypeError);
  EXPECT_THROW(dot_backward(ones({1}), v, v), ShapeError);
  EXPECT_THROW(dot_backward(ones({3}), v, v), ShapeError);
  EXPECT_THROW(outer_backward(ones({3}), v, v), ShapeError);
  EXPECT_THROW(outer_backward(ones({9}), v, v), ShapeError);
  EXPECT_THROW(transpose_backward(ones({3}), {1, 0}), ShapeError);
  EXPECT_THROW(transpose_backward(ones({2, 3}), {0, 0}), Error);
  EXPECT_THROW(transpose_backward(ones({2, 3}), {0, 2}), Error);
}

}  // namespace
}  // namespace extensor
