// Products of shapes that do not fit.
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
    // Previous contents of the memory must not affect the result.
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

CHILD_TEST(BadInputLinearAlgebra, Item54MalformedEinsum) {
  const Tensor a = ones({2, 3}), b = ones({3, 4});
  const std::vector<Tensor> one{a}, two{a, b};
  const auto malformed = [](const std::string& subscripts, const std::vector<Tensor>& operands,
                            const std::vector<std::string>& parts) {
    std::vector<std::string> expected = parts;
    expected.push_back("\"" + subscripts + "\"");
    SCOPED_TRACE(subscripts);
    expected.push_back("einsum: ");
    expect_error<ValueError>([&] { einsum(subscripts, operands); }, expected, operands);
    expected.back() = "einsum_backward: ";
    expect_error<ValueError>([&] { einsum_backward(ones({}), subscripts, operands); }, expected,
                             operands);
  };
  malformed("ij,jk->ik->", two, {"two arrows"});
  malformed("i%,jk->ik", two, {"'%' at position 1"});
  malformed("ij-ik", one, {"'-' at position 2"});
  malformed("ij>ik", one, {"'>' at position 2"});
  malformed("i1", one, {"'1' at position 1"});
  malformed("i\x01", one, {"character 1"});
  malformed("i\xc3\xa9", one, {"character 195"});
  malformed("i..", one, {"'.' at position 1"});
  malformed("....i", one, {"'.' at position 3"});
  malformed("...i...", one, {"two ellipses"});
  malformed("ij->...i...", one, {"two ellipses"});
  malformed("ij->ii", one, {"names 'i' twice"});
  malformed("ij->ik", one, {"names 'k', which no operand has"});
  malformed("ij->i,j", one, {"comma"});
  malformed("ij", two, {"groups of subscripts: 1, operands: 2"});
  malformed("ij,jk,kl", two, {"groups of subscripts: 3, operands: 2"});
  malformed("ij,", one, {"groups of subscripts: 2, operands: 1"});
  malformed("ij", {}, {"no operands"});
  malformed("", {}, {"no operands"});

  const auto misfit = [](const std::string& subscripts, const std::vector<Tensor>& operands,
                         const std::vector<std::string>& parts) {
    std::vector<std::string> expected = parts;
    expected.push_back("\"" + subscripts + "\"");
    SCOPED_TRACE(subscripts);
    expect_error<ShapeError>([&] { einsum(subscripts, operands); }, expected, operands);
  };
  misfit("ijk", one, {"operand 0 is [2, 3]", "name 3 dimensions"});
  misfit("i", one, {"operand 0 is [2, 3]", "name 1 dimensions"});
  misfit("", one, {"operand 0 is [2, 3]", "name 0 dimensions"});
  misfit("ijk...", one, {"operand 0 is [2, 3]", "beside the ellipsis"});
  misfit("ii", one, {"operand 0 is [2, 3]", "'i' is both 2 and 3"});
  misfit("ij,ij", two, {"'i' is 2 in operand 0, [2, 3], and 3 in operand 1, [3, 4]"});
  misfit("...,...", two, {"dimension -2 of '...'", "[2, 3]", "[3, 4]"});
  misfit("...i,...i", {ones({2, 3}), ones({4, 3})}, {"dimension -1 of '...'", "2", "4"});
  expect_error<ValueError>([&] { einsum("ij", {Tensor()}); }, {}, {});
  // As many indices as a result may have dimensions, and no more.
  misfit("...,abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
         {ones(Shape(20, 1)), ones(Shape(52, 1))}, {"72 different indices", "62"});
  // A result with too many elements to count.
  const Tensor long_one = ones({1}).broadcast_to({std::int64_t{1} << 40});
  expect_error<ShapeError>([&] { einsum("i,j->ij", {long_one, long_one}); }, {"einsum"}, {});
  EXPECT_EQ(einsum("ij,jk", two).to_vector<float>(), std::vector<float>(8, 3.0F));
}

CHILD_TEST(BadInputLinearAlgebra, Item55TensordotOverUnequalAxes) {
  const Tensor a = ones({2, 3, 4}), b = ones({4, 3, 5});
  expect_error<ShapeError>([&] { tensordot(a, b); },
                           {"tensordot: axis 1 of a, [2, 3, 4], and axis 0 of b, [4, 3, 5]"},
                           {a, b});
  expect_error<ShapeError>([&] { tensordot(a, b, {0}, {0}); }, {"tensordot", "axis 0"}, {a, b});
  // A length of 1 does not broadcast here.
  expect_error<ShapeError>([&] { tensordot(ones({2, 1}), ones({3, 2}), 1); }, {"tensordot"}, {});
  expect_error<ValueError>(
      [&] {
        tensordot(a, b, {0, 1}, {0});
      },
      {"pairs", "[0, 1]", "[0]"}, {a, b});
  expect_error<ValueError>([&] { tensordot(a, b, {1, 1}, {1, 0}); }, {"tensordot"}, {a, b});
  expect_error<ValueError>([&] { tensordot(a, b, {1, -2}, {1, 0}); }, {"tensordot"}, {a, b});
  expect_error<IndexError>([&] { tensordot(a, b, {3}, {0}); }, {"tensordot", "3"}, {a, b});
  expect_error<IndexError>([&] { tensordot(a, b, {0}, {-4}); }, {"tensordot", "-4"}, {a, b});
  expect_error<ValueError>([&] { tensordot(a, b, 4); }, {"axes is 4", "from 0 to 3"}, {a, b});
  expect_error<ValueError>([&] { tensordot(a, b, -1); }, {"axes is -1"}, {a, b});
  expect_error<ValueError>([&] { tensordot(a, b, INT64_MAX); }, {"axes is"}, {a, b});
  const Tensor g = ones({2, 5});
  expect_error<ShapeError>([&] { tensordot_backward(g, a, b); }, {"tensordot_backward: axis 1"},
                           {g, a, b});
  const Tensor many = ones(Shape(40, 1));
  expect_error<ShapeError>([&] { tensordot(many, many, 0); }, {"tensordot", "62"}, {many});
  expect_error<ShapeError>([&] { inner(a, b); }, {"inner", "[2, 3, 4]", "[4, 3, 5]"}, {a, b});
  expect_error<ShapeError>([&] { vecdot(a, b); }, {"vecdot", "[2, 3, 4]", "[4, 3, 5]"}, {a, b});
  EXPECT_EQ(tensordot(a, b, {1, 2}, {1, 0}).to_vector<float>(), std::vector<float>(10, 12.0F));
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
