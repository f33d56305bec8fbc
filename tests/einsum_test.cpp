// Sums of products over named indices: einsum, tensordot, inner and vecdot. The op database's
// samples cover values and gradients; this file covers the other rules.
#include "extensor/einsum.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>

#include "op_database/loops.h"
#include "support/family_test.h"

namespace extensor {
namespace {

using namespace family_test;
using op_database::sum_of_products;

TEST(Contraction, HalvesAreRoundedOnceOverAllSteps) {
  // The sum over j alone is 2049, which float16 rounds to 2048: times 3 that is 6144, not 6148.
  const Tensor x = tensor({{2048.0, 1.0}}, DType::float16);
  const Tensor three = tensor({3.0}, DType::float16), one = tensor({1.0}, DType::float16);
  EXPECT_EQ(einsum("ij,i->", {x, three}).item<double>(), 6148);
  EXPECT_EQ(einsum("ij,i,i->i", {x, one, three}).item<double>(), 6148);
}

TEST(Contraction, IntegersWrapAndBoolsAreAnyOfAll) {
  const Tensor a = tensor({{100, 27}, {1, 2}}, DType::int8), b = tensor({2, 3}, DType::int8);
  const Tensor product = einsum("ij,j->i", {a, b});
  EXPECT_EQ(product.dtype(), DType::int8);
  EXPECT_EQ(product.to_vector<std::int8_t>(),
            (std::vector<std::int8_t>{static_cast<std::int8_t>(281), 8}));
  const Tensor total = einsum("ij->", {a});
  EXPECT_EQ(total.dtype(), DType::int8);
  EXPECT_EQ(total.item<std::int64_t>(), static_cast<std::int8_t>(130));
  const Tensor truth = tensor({{true, false}, {false, false}});
  EXPECT_EQ(einsum("ij->i", {truth}).dtype(), DType::bool_);
  EXPECT_EQ(values_of(einsum("ij->i", {truth})), (std::vector<double>{1, 0}));
  EXPECT_EQ(values_of(einsum("ij,jk->ik", {truth, truth})), (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(einsum("i,i->", {b, ones({2}, DType::float16)}).dtype(), DType::float16);
  EXPECT_EQ(einsum("i,i->", {ones({2}, DType::bfloat16), ones({2}, DType::float16)}).dtype(),
            DType::float32);
  EXPECT_THROW(einsum("i,i->", {b, ones({2}, DType::uint64)}), DTypeError);
}

TEST(Contraction, NothingIsCopiedWhereAViewWillDo) {
  Tensor x = draw::uniform({3, 3}, -1, 1, 1);
  EXPECT_EQ(einsum("ij->ji", {x}).data<double>(), x.data<double>());
  const Tensor diagonal = einsum("ii->i", {x});
  EXPECT_EQ(diagonal.data<double>(), x.data<double>());
  EXPECT_EQ(diagonal.strides(), (Strides{4}));
}

TEST(Contraction, SpacesCapitalsAndTheImplicitOrder) {
  const Tensor x = draw::uniform({2, 3}, -1, 1, 1), y = draw::uniform({3, 4}, -1, 1, 2);
  EXPECT_TRUE(identical(einsum(" i j , j k -> i k ", {x, y}), einsum("ij,jk->ik", {x, y})));
  // Upper case precedes lower case.
  EXPECT_EQ(einsum("aB", {x}).shape(), (Shape{3, 2}));
  EXPECT_EQ(einsum("ba", {x}).shape(), (Shape{3, 2}));
  EXPECT_EQ(einsum("i...", {draw::uniform({2, 3, 4}, -1, 1, 3)}).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(einsum("...", {x}).shape(), (Shape{2, 3}));
}

// Twelve matrices in a row: left to right, each product is 2 wide; the worst order is 40 wide.
TEST(Contraction, ManyOperandsInAGoodOrder) {
  Tensors chain;
  std::string subscripts;
  for (int i = 0; i < 12; ++i) {
    chain.push_back(draw::uniform({i == 0 ? 2 : 40, 40}, -0.3, 0.3, static_cast<unsigned>(i)));
    subscripts +=
        std::string(i == 0 ? "" : ",") + static_cast<char>('a' + i) + static_cast<char>('b' + i);
  }
  Tensor expected = chain[0];
  for (std::size_t i = 1; i < chain.size(); ++i) expected = matmul(expected, chain[i]);
  EXPECT_TRUE(allclose(einsum(subscripts + "->am", chain), expected, 1e-12, 1e-15));
  // Outer products of everything would have 40¹³ elements.
  EXPECT_TRUE(allclose(einsum(subscripts + "->", chain), sum(expected), 1e-12, 1e-15));
}

TEST(Contraction, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (DType dtype : float_dtypes) {
    const Tensor q = draw::uniform({2, 50, 4, 33}, -1, 1, 1).to(dtype);
    const Tensor k = draw::uniform({2, 70, 4, 33}, -1, 1, 2).to(dtype);
    const Tensor g = draw::uniform({2, 4, 50, 70}, -1, 1, 3).to(dtype);
    set_num_threads(1);
    const Tensor expected = einsum("bqhd,bkhd->bhqk", {q, k});
    const auto gradients = einsum_backward(g, "bqhd,bkhd->bhqk", {q, k});
    for (int threads : {2, 4}) {
      set_num_threads(threads);
      EXPECT_TRUE(identical(einsum("bqhd,bkhd->bhqk", {q, k}), expected));
      const auto again = einsum_backward(g, "bqhd,bkhd->bhqk", {q, k});
      EXPECT_TRUE(identical(again[0], gradients[0]));
      EXPECT_TRUE(identical(again[1], gradients[1]));
    }
  }
  set_num_threads(before);
}

TEST(Contraction, GradientsKeepTheirOperandsDtype) {
  const Tensor a = ones({2, 3}, DType::float16), b = ones({3}, DType::float64);
  const auto gradients = einsum_backward(ones({2}), "ij,j->i", {a, b});
  EXPECT_EQ(gradients[0].dtype(), DType::float16);
  EXPECT_EQ(gradients[1].dtype(), DType::float64);
  EXPECT_EQ(gradients[0].shape(), (Shape{2, 3}));
  // The gradient of a sum has separate memory, and so has that of a diagonal.
  auto total = einsum_backward(ones({}), "ij->", {a});
  total[0][{0, 0}].fill(7);
  EXPECT_EQ(values_of(total[0]), (std::vector<double>{7, 1, 1, 1, 1, 1}));
  EXPECT_EQ(values_of(einsum_backward(ones({}), "ii", {ones({2, 2})})[0]),
            (std::vector<double>{1, 0, 0, 1}));
}

TEST(Contraction, WrongShapesOfGradOutputAreRefused) {
  const Tensor a = ones({2, 3}), b = ones({3, 4});
  for (const Shape& wrong : {Shape{4, 2}, Shape{2}, Shape{}, Shape{8}, Shape{1, 2, 4}}) {
    EXPECT_THROW(einsum_backward(ones(wrong), "ij,jk->ik", {a, b}), ShapeError) << wrong;
    EXPECT_THROW(tensordot_backward(ones(wrong), a, b, 1), ShapeError) << wrong;
    EXPECT_THROW(tensordot_backward(ones(wrong), a, b, {1}, {0}), ShapeError) << wrong;
    EXPECT_THROW(inner_backward(ones(wrong), a, ones({4, 3})), ShapeError) << wrong;
  }
  EXPECT_THROW(vecdot_backward(ones({3}), a, a), ShapeError);
  EXPECT_THROW(vecdot_backward(ones({2}, DType::int32), a, a), DTypeError);
  EXPECT_THROW(einsum_backward(ones({2}), "ij->i", {a.to(DType::int32)}), DTypeError);
}

TEST(Contraction, VecdotNeedsVectorsOfOneLength) {
  EXPECT_THROW(vecdot(ones({2, 3}), ones({2, 4})), ShapeError);
  EXPECT_THROW(vecdot(ones({2, 3}), ones({2, 1})), ShapeError);
  EXPECT_THROW(vecdot(ones({2, 3}), ones({4, 3})), ShapeError);
  EXPECT_THROW(vecdot(ones({2, 3}), ones({3}), 0), IndexError);  // b has no such axis
  EXPECT_THROW(vecdot(ones({2, 3}), ones({2, 3}), 2), IndexError);
  EXPECT_THROW(vecdot(ones({}), ones({})), IndexError);
  EXPECT_EQ(vecdot(ones({2, 3}), ones({3}), 1).shape(), (Shape{2}));
  EXPECT_THROW(inner(ones({2, 3}), ones({2, 4})), ShapeError);
}

// Finding the next pair must not search all pairs at every step: 400 operands took 15 s.
TEST(Contraction, ManyOperandsTakeNoTime) {
  const auto begin = std::chrono::steady_clock::now();
  std::string vectors = "a", mixed = "ab";
  for (int i = 1; i < 400; ++i) {
    vectors += ",a";
    mixed += i % 3 == 0 ? ",ab" : i % 3 == 1 ? ",bc" : ",ca";
  }
  const std::vector<Tensor> halves(400, full({2}, 0.5, DType::float64));
  EXPECT_EQ(values_of(einsum(vectors + "->a", halves)),
            (std::vector<double>(2, std::ldexp(1.0, -400))));
  // Every element is 1, so the sum counts the positions of a, b and c.
  EXPECT_EQ(
      einsum(mixed + "->", std::vector<Tensor>(400, ones({2, 2}, DType::float64))).item<double>(),
      8);
  // More operands than the search considers at once.
  std::vector<Tensor> factors;
  for (int i = 0; i < 1501; ++i) factors.push_back(scalar(i % 2 == 0 ? 0.5 : 2.0, DType::float64));
  EXPECT_EQ(einsum(std::string(1500, ','), factors).item<double>(), 0.5);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), 10);
}

TEST(Contraction, SumOfProductsIsWhatItSays) {
  // Checks the reference itself, by hand.
  const Tensor a = tensor({{1., 2.}, {3., 4.}}), b = tensor({5., 6.});
  EXPECT_EQ(values_of(sum_of_products({"ij", "j"}, "i", {a, b})), (std::vector<double>{17, 39}));
  EXPECT_EQ(values_of(sum_of_products({"ii"}, "", {a})), (std::vector<double>{5}));
}

}  // namespace
}  // namespace extensor
