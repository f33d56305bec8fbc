// Members of Tensor that call free functions, rows of a tensor, printing, and parameters and plain
// functions in modules. Nothing here is inside the namespace or uses it, as in a user's program.
#include <gtest/gtest.h>

#include <sstream>
#include <type_traits>

#include "extensor/extensor.h"

namespace {

namespace nn = ext::nn;
using ext::Tensor;
using Values = std::vector<double>;

Values values(const Tensor& x) { return x.to(ext::float64).to_vector<double>(); }

Tensor matrix() { return ext::tensor({{1, -2, 3}, {4, 5, -6}}, ext::float64); }

TEST(CallsMembers, Reductions) {
  const Tensor x = matrix();
  EXPECT_EQ(values(x.sum()), Values{5});
  EXPECT_EQ(values(x.sum(1)), (Values{2, 3}));
  EXPECT_EQ(x.sum({0, 1}, true).shape(), (ext::Shape{1, 1}));
  EXPECT_EQ(values(x.mean(0)), (Values{2.5, 1.5, -1.5}));
  EXPECT_NEAR(x.mean().item<double>(), 5.0 / 6, 1e-15);
  EXPECT_EQ(values(x.prod(1)), (Values{-6, -120}));
  EXPECT_EQ(values(x.max(1)), (Values{3, 5}));
  EXPECT_EQ(values(x.min()), Values{-6});
  EXPECT_EQ(values(x.argmax(1)), (Values{2, 1}));
  EXPECT_EQ(values(x.argmin()), Values{5});
  EXPECT_EQ(values(x.var(0)), (Values{2.25, 12.25, 20.25}));
  EXPECT_EQ(values(x.std(0)), (Values{1.5, 3.5, 4.5}));
  EXPECT_EQ(values(x.std(0, 1)).size(), 3U);
  EXPECT_TRUE((x > -7).all().item<bool>());
  EXPECT_FALSE((x > 7).any().item<bool>());
  EXPECT_EQ(values(x.count_nonzero()), Values{6});
  EXPECT_EQ(values(ext::tensor({3, 4}).norm()), Values{5});
  EXPECT_EQ(values(x.norm(1, 1)), (Values{6, 15}));
}

TEST(CallsMembers, Elementwise) {
  const Tensor x = matrix();
  EXPECT_EQ(values(x.relu()), (Values{1, 0, 3, 4, 5, 0}));
  EXPECT_EQ(values(x.abs()), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(x.leaky_relu(0.5)), (Values{1, -1, 3, 4, 5, -3}));
  EXPECT_EQ(values(x.clip(-1, 2)), (Values{1, -1, 2, 2, 2, -1}));
  EXPECT_EQ(values(x.clamp({.min = 0})), (Values{1, 0, 3, 4, 5, 0}));
  EXPECT_EQ(values(x.pow(2)), (Values{1, 4, 9, 16, 25, 36}));
  EXPECT_EQ(values(x.add(1).multiply(x)), (Values{2, 2, 12, 20, 30, 30}));
  EXPECT_EQ(values(x.maximum(0)), (Values{1, 0, 3, 4, 5, 0}));
  EXPECT_EQ(values(x.less(0)), (Values{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(values(x.isnan()), Values(6, 0));
  EXPECT_EQ(values(ext::tensor({6, 5}).bitwise_and(3)), (Values{2, 1}));
  EXPECT_EQ(values(ext::tensor({0.0}).exp()), Values{1});
  // In place, on a name and through a view.
  Tensor y = matrix();
  EXPECT_EQ(&y.relu_(), &y);
  EXPECT_EQ(values(y.multiply_(2)), (Values{2, 0, 6, 8, 10, 0}));
  y[0].negative_();
  EXPECT_EQ(values(y), (Values{-2, -0., -6, 8, 10, 0}));
  static_assert(std::is_same_v<decltype(std::declval<Tensor>().relu_()), Tensor>);
}

TEST(CallsMembers, ShapesAndPositions) {
  const Tensor x = matrix();
  const Tensor cube = ext::arange(24).reshape(2, 3, 4);
  EXPECT_EQ(cube.shape(), (ext::Shape{2, 3, 4}));
  EXPECT_EQ(cube.transpose(1, 2).shape(), (ext::Shape{2, 4, 3}));
  EXPECT_EQ(values(x.transpose(0, 1)), (Values{1, 4, -2, 5, 3, -6}));
  EXPECT_EQ(values(x.transpose(-1, 0)), values(x.transpose()));
  EXPECT_EQ(cube.permute({2, 0, 1}).shape(), (ext::Shape{4, 2, 3}));
  EXPECT_EQ(cube.view(-1, 6).shape(), (ext::Shape{4, 6}));
  EXPECT_EQ(cube.view({24}).shape(), (ext::Shape{24}));
  EXPECT_EQ(cube.flatten().shape(), (ext::Shape{24}));
  EXPECT_EQ(cube.flatten(1).shape(), (ext::Shape{2, 12}));
  EXPECT_EQ(cube.flatten(0, 1).shape(), (ext::Shape{6, 4}));
  EXPECT_EQ(ext::tensor(3).flatten().shape(), (ext::Shape{1}));
  EXPECT_EQ(cube.dim(), 3);
  EXPECT_THROW(cube.flatten(2, 1), ext::ValueError);
  EXPECT_THROW(cube.flatten(3), ext::IndexError);
  // A view never copies.
  EXPECT_THROW(x.transpose().view(6), ext::ShapeError);
  EXPECT_EQ(x.view(3, 2).data<double>(), x.data<double>());
  EXPECT_NE(x.copy().data<double>(), x.data<double>());
  EXPECT_EQ(values(x.copy()), values(x));

  EXPECT_EQ(values(x.softmax(0)), values(ext::softmax(x, 0)));
  EXPECT_EQ(values(x.cumsum(1)), (Values{1, -1, 2, 4, 9, 3}));
  EXPECT_EQ(values(x.sort()), (Values{-2, 1, 3, -6, 4, 5}));
  EXPECT_EQ(values(x.topk(1).indices), (Values{2, 1}));
  EXPECT_EQ(values(x.matmul(ext::ones({3}, ext::float64))), (Values{2, 3}));
  EXPECT_EQ(values(x.flip(1)), (Values{3, -2, 1, -6, 5, 4}));
  EXPECT_EQ(x.split({1, 2}, 1)[1].shape(), (ext::Shape{2, 2}));
  EXPECT_EQ(x.chunk(2, 1)[1].shape(), (ext::Shape{2, 1}));
  EXPECT_EQ(values(x.gather(1, ext::tensor({{2}, {0}}))), (Values{3, 4}));
  EXPECT_EQ(values(x.index_select(1, ext::tensor({0}))), (Values{1, 4}));
  EXPECT_EQ(values(x.select(0, 1)), (Values{4, 5, -6}));
  EXPECT_EQ(values(x.masked_fill(x < 0, 0)), (Values{1, 0, 3, 4, 5, 0}));
  EXPECT_EQ(values(x.masked_select(x < 0)), (Values{-2, -6}));
  EXPECT_EQ(values(x.tril()), (Values{1, 0, 0, 4, 5, 0}));
}

// Members are recorded like the functions they call.
TEST(CallsMembers, HaveGradients) {
  Tensor x = matrix().requires_grad_();
  x.relu().sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 0, 1, 1, 1, 0}));
}

TEST(CallsMembers, RowsOfATensor) {
  const Tensor x = matrix();
  std::vector<Values> rows;
  for (auto row : x) rows.push_back(values(row));
  EXPECT_EQ(rows, (std::vector<Values>{{1, -2, 3}, {4, 5, -6}}));
  // Rows are views, of temporaries too.
  Tensor y = x.clone();
  for (Tensor row : y) row *= 2;
  EXPECT_EQ(values(y), (Values{2, -4, 6, 8, 10, -12}));
  int count = 0;
  for (auto row : x + x) count += static_cast<int>(row.numel());
  EXPECT_EQ(count, 6);
  for (auto row : ext::zeros({0, 3})) FAIL() << row;
  EXPECT_THROW(ext::tensor(1).begin(), ext::ShapeError);
  EXPECT_THROW(Tensor().begin(), ext::ValueError);

  Tensor leaf = matrix().requires_grad_();
  Tensor total = ext::tensor(0.0, ext::float64);
  double factor = 1;
  for (auto row : leaf) total = total + row.sum() * factor++;
  total.backward();
  EXPECT_EQ(values(leaf.grad()), (Values{1, 1, 1, 2, 2, 2}));
}

template <class T>
std::string printed(const T& object) {
  std::ostringstream stream;
  stream << object;
  return stream.str();
}

TEST(CallsMembers, Printing) {
  EXPECT_EQ(printed(Tensor()), "undefined");
  EXPECT_EQ(to_string(Tensor()), "undefined");
  EXPECT_EQ(printed(ext::float32), "float32");
  EXPECT_EQ(printed(ext::bool_), "bool");
  EXPECT_EQ(printed(static_cast<ext::DType>(99)), "invalid");
  EXPECT_EQ(printed(matrix().dtype()), "float64");
}

// ---- modules

struct Affine : nn::Module<Affine> {
  nn::Parameter scale{ext::full({2}, 3.0)}, shift{ext::full({2}, 1.0)};
  nn::Buffer offset{ext::full({2}, 0.5)};
  Tensor forward(const Tensor& x) const { return scale * x + shift - offset; }
};

TEST(CallsMembers, ParametersAreTensors) {
  Affine module;
  EXPECT_EQ(values(module(ext::tensor({1.0, 2.0}))), (Values{3.5, 6.5}));
  EXPECT_EQ(values(module.scale * module.shift), (Values{3, 3}));
  EXPECT_EQ(values(-module.scale + 1), (Values{-2, -2}));
  EXPECT_EQ(values(2 / module.shift), (Values{2, 2}));
  EXPECT_EQ(values(relu(module.scale)), (Values{3, 3}));  // found in the namespace of its base
  EXPECT_EQ(values(module.scale.sum()), Values{6});
  EXPECT_EQ(printed(module.scale), "[3. 3.]");
  EXPECT_EQ(module.parameters().size(), 2U);
  module.scale.sum().backward();
  EXPECT_EQ(values(module.scale.grad()), (Values{1, 1}));
  // A tensor made from a parameter is the same tensor; a copied parameter is another one.
  const Tensor same = module.scale;
  EXPECT_EQ(same.data<float>(), module.scale.data<float>());
  const nn::Parameter copy = module.scale;
  EXPECT_NE(copy.data<float>(), module.scale.data<float>());
  const Affine other = module;
  EXPECT_NE(other.scale.data<float>(), module.scale.data<float>());
  static_assert(!std::is_assignable_v<nn::Parameter&, Tensor>);
}

TEST(CallsMembers, FunctionsInSequential) {
  nn::Sequential model{nn::Linear(3, 4), ext::relu, nn::Linear(4, 2), ext::tanh};
  const Tensor y = model(ext::ones({5, 3}));
  EXPECT_EQ(y.shape(), (ext::Shape{5, 2}));
  EXPECT_EQ(model.parameters().size(), 4U);
  nn::Sequential only{ext::relu};
  EXPECT_EQ(values(only(matrix())), (Values{1, 0, 3, 4, 5, 0}));
  const nn::Sequential copy = only;
  EXPECT_EQ(values(copy(matrix())), (Values{1, 0, 3, 4, 5, 0}));
  Tensor (*pointer)(const Tensor&) = &ext::relu;
  EXPECT_EQ(values(nn::Sequential{pointer}(matrix())), (Values{1, 0, 3, 4, 5, 0}));
}

}  // namespace
