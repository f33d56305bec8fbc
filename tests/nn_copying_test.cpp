// Copies of modules, assignment under an optimizer, and tied parameters.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "extensor/extensor.h"
#include "support/files.h"

namespace extensor {
namespace {

using Names = std::vector<std::string>;

Names names(const nn::NamedTensors& list) {
  Names result;
  for (const auto& [name, tensor] : list) result.push_back(name);
  return result;
}

bool is_same(const Tensor& a, const Tensor& b) { return a.impl_or_null() == b.impl_or_null(); }

template <class Module>
void fill(Module& module, double value) {
  const NoGrad off;
  for (auto& [name, tensor] : module.state_dict()) tensor.fill(value);
}

// Every kind of container that may create new elements in an assignment.
struct Everything : nn::Module<Everything> {
  nn::Linear linear{2, 2};
  nn::Parameter scale{ones({2})};
  nn::BatchNorm1d norm{2};
  nn::Sequential sequential{nn::Linear(2, 3), nn::ReLU(), nn::Linear(3, 2)};
  nn::AnyLayer any{nn::Linear(2, 2)};
  std::vector<nn::Linear> vector{nn::Linear(2, 2), nn::Linear(2, 2)};
  std::map<std::string, nn::Linear> map{{"a", nn::Linear(2, 2)}, {"b", nn::Linear(2, 2)}};
  std::unordered_map<int, nn::Linear> hash{{1, nn::Linear(2, 2)}, {2, nn::Linear(2, 2)}};
  std::optional<nn::Linear> optional{nn::Linear(2, 2)};
  std::pair<nn::Linear, nn::Linear> pair{nn::Linear(2, 2), nn::Linear(2, 2)};
  nn::Linear array[2] = {nn::Linear(2, 2), nn::Linear(2, 2)};
  nn::ModuleList<nn::Linear> list{nn::Linear(2, 2)};
  nn::ParameterDict dict;
};

Everything everything() {
  Everything module;
  module.dict.add("p", ones({3}));
  return module;
}

void expect_same_tensors(const std::vector<Tensor>& held, const std::vector<Tensor>& now,
                         double value) {
  ASSERT_EQ(held.size(), now.size());
  for (std::size_t k = 0; k < held.size(); ++k) {
    EXPECT_TRUE(is_same(held[k], now[k])) << k;
    EXPECT_TRUE(held[k].requires_grad()) << k;
    EXPECT_EQ(min_reduce(now[k]).item<double>(), value) << k;
    EXPECT_EQ(max_reduce(now[k]).item<double>(), value) << k;
  }
}

TEST(NnCopying, AssignmentKeepsTheTensors) {
  Everything model = everything(), best = everything();
  fill(best, 3);
  const std::vector<Tensor> held = model.parameters();
  model = best;
  expect_same_tensors(held, model.parameters(), 3);
  EXPECT_EQ(model.norm.running_mean.tensor()[0].item<float>(), 3);
  // The other one is unchanged, and shares nothing.
  fill(model, 4);
  for (const auto& [name, tensor] : best.state_dict()) {
    EXPECT_EQ(max_reduce(tensor).item<double>(), 3) << name;
  }
}

TEST(NnCopying, AssignmentOfATemporaryKeepsTheTensors) {
  Everything model = everything();
  const std::vector<Tensor> held = model.parameters();
  model = [] {
    Everything best = everything();
    fill(best, 3);
    return best;
  }();
  expect_same_tensors(held, model.parameters(), 3);
  model.linear = nn::Linear(2, 2);
  model.any = nn::Linear(2, 2);
  model.scale = nn::Parameter(zeros({2}));
  const std::vector<Tensor> now = model.parameters();
  for (std::size_t k = 0; k < held.size(); ++k) EXPECT_TRUE(is_same(held[k], now[k])) << k;
}

TEST(NnCopying, AnOptimizerGoesOnAfterAssignment) {
  nn::Sequential model{nn::Linear(2, 4), nn::ReLU(), nn::Linear(4, 1)};
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const nn::Sequential best = model;
  const auto step = [&] {
    optimizer.zero_grad();
    mean(square(model(ones({3, 2})) - 5.0)).backward();
    optimizer.step();
  };
  step();
  model = best;
  const Tensor before = model(ones({1, 2})).detach();
  step();
  EXPECT_NE(model(ones({1, 2})).item<float>(), before.item<float>());
  EXPECT_EQ(best(ones({1, 2})).item<float>(), before.item<float>());
}

TEST(NnCopying, AssignmentTakesTheDtypeAndKeepsTheFlag) {
  nn::Linear model(2, 2), other(2, 2, {.dtype = float64});
  const Tensor held = model.weight;
  model.bias.tensor().requires_grad_(false);
  model = other;
  EXPECT_EQ(held.dtype(), float64);
  EXPECT_TRUE(is_same(held, model.weight));
  EXPECT_FALSE(model.bias.tensor().requires_grad());
  EXPECT_TRUE(allclose(model.weight, other.weight));
}

TEST(NnCopying, AnotherShapeIsANewTensor) {
  nn::Linear model(2, 2);
  const nn::Linear other(3, 2);
  const Tensor held = model.weight;
  model = other;
  EXPECT_EQ(model.weight.shape(), (Shape{2, 3}));
  EXPECT_FALSE(is_same(held, model.weight));
  EXPECT_FALSE(is_same(other.weight, model.weight));
  std::vector<nn::Linear> list;
  list.push_back(nn::Linear(1, 1));
  list.push_back(nn::Linear(2, 2));
  list.push_back(nn::Linear(3, 3));
  list.erase(list.begin());  // moves into modules that were moved from
  EXPECT_EQ(list[0].weight.shape(), (Shape{2, 2}));
  EXPECT_EQ(list[1].weight.shape(), (Shape{3, 3}));
}

TEST(NnCopying, ManyModulesMoveWithinAList) {
  std::vector<nn::Linear> list;
  for (int k = 0; k < 4; ++k) {
    list.push_back(nn::Linear(2, 2));
    fill(list.back(), k);
  }
  list.erase(list.begin());
  std::swap(list[0], list[2]);
  std::vector<float> firsts;
  for (const nn::Linear& linear : list)
    firsts.push_back(linear.weight.tensor()[{0, 0}].item<float>());
  EXPECT_EQ(firsts, (std::vector<float>{3, 2, 1}));
  for (const nn::Linear& linear : list) EXPECT_EQ(linear.parameters().size(), 2U);
}

// ---- shared pointers

struct Sharing : nn::Module<Sharing> {
  nn::Linear own{2, 2};
  std::shared_ptr<nn::Linear> shared = std::make_shared<nn::Linear>(2, 2);
};

TEST(NnCopying, ASharedPointerIsSharedByCopiesAndNotAssigned) {
  Sharing model;
  const Sharing copy = model;
  EXPECT_TRUE(is_same(copy.shared->weight, model.shared->weight));
  EXPECT_FALSE(is_same(copy.own.weight, model.own.weight));
  model = copy;  // assigns the same module to both
  const Tensor before = model.own.weight.tensor().clone();
  const Sharing other;
  try {
    model = other;
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("shared.weight is behind a std::shared_ptr"),
              std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(allclose(model.own.weight, before));
  EXPECT_FALSE(is_same(model.shared->weight, other.shared->weight));
  model.load_state_dict(other.state_dict());
  EXPECT_TRUE(allclose(model.shared->weight, other.shared->weight));
}

// ---- tied parameters

struct Tied : nn::Module<Tied> {
  nn::Embedding wte{5, 3};
  nn::Dropout dropout{0.5};
  nn::Linear lm_head{3, 5, {.bias = false}};
  Tensor forward(const Tensor& ids) const { return lm_head(wte(ids)); }
};
Tied tied() {
  Tied model;
  model.lm_head.weight.tie_to(model.wte.weight);
  return model;
}

TEST(NnTying, AParameterIsListedOnceAndSavedUnderBothNames) {
  const Tied model = tied();
  EXPECT_EQ(names(model.named_parameters()), (Names{"wte.weight"}));
  EXPECT_EQ(model.parameters().size(), 1U);
  EXPECT_EQ(model.parameter_count(), 15);
  EXPECT_EQ(names(model.state_dict()), (Names{"wte.weight", "lm_head.weight"}));
  const std::string text = model.summary();
  EXPECT_NE(text.find("weight [5, 3] = wte.weight"), std::string::npos) << text;
  nn::Linear other(2, 5);
  EXPECT_THROW(other.weight.tie_to(model.wte.weight), ShapeError);
  EXPECT_THROW(other.weight.tie_to(nn::Parameter()), ValueError);
}

TEST(NnTying, AnOptimizerUpdatesItOnce) {
  Tied model = tied();
  optim::SGD optimizer(model.parameters(), {.lr = 1});
  const Tensor ids = tensor({1, 4}, int64);
  sum(model(ids)).backward();
  // d/dw of the sum over both uses, by hand: as embedding, rows 1 and 4 get the sum of all rows of
  // w; as head, every row gets the sum of the embedded rows.
  const Tensor w = model.wte.weight.tensor().detach().clone();
  Tensor expected = broadcast_to(w[1] + w[4], {5, 3}).clone();
  const Tensor all = sum(w, 0);
  for (const int row : {1, 4}) {
    Tensor at = expected[row];
    at += all;
  }
  EXPECT_TRUE(allclose(model.wte.weight.tensor().grad(), expected));
  optimizer.step();
  EXPECT_TRUE(allclose(model.wte.weight, w - expected));
  EXPECT_TRUE(is_same(model.wte.weight, model.lm_head.weight));
}

TEST(NnTying, CopiesAreTiedAmongThemselves) {
  const Tied model = tied();
  const Tied copy = model, second = model;
  EXPECT_TRUE(is_same(copy.wte.weight, copy.lm_head.weight));
  EXPECT_TRUE(is_same(second.wte.weight, second.lm_head.weight));
  EXPECT_FALSE(is_same(copy.wte.weight, model.wte.weight));
  EXPECT_FALSE(is_same(copy.wte.weight, second.wte.weight));
  EXPECT_TRUE(allclose(copy.wte.weight, model.wte.weight));
  // A part that is copied alone is not tied.
  const nn::Linear head = model.lm_head;
  const nn::Embedding table = model.wte;
  EXPECT_FALSE(is_same(head.weight, table.weight));
  EXPECT_FALSE(is_same(head.weight, model.wte.weight));
  const std::vector<Tied> three(3, model);
  for (const Tied& each : three) EXPECT_TRUE(is_same(each.wte.weight, each.lm_head.weight));
  EXPECT_FALSE(is_same(three[0].wte.weight, three[1].wte.weight));
  nn::AnyLayer any(model);
  nn::AnyLayer again = any;
  EXPECT_TRUE(is_same(again.get<Tied>()->wte.weight, again.get<Tied>()->lm_head.weight));
}

struct TwoTied : nn::Module<TwoTied> {
  std::map<std::string, nn::Linear> map{{"a", nn::Linear(2, 2)}, {"b", nn::Linear(2, 2)}};
  nn::Sequential list{nn::Linear(2, 2), nn::Linear(2, 2)};
};
TEST(NnTying, AcrossContainers) {
  TwoTied model;
  model.list[1].get<nn::Linear>()->weight.tie_to(model.map.at("b").weight);
  const auto weights = [](TwoTied& of) {
    return std::pair(of.list[1].get<nn::Linear>()->weight.tensor(), of.map.at("b").weight.tensor());
  };
  TwoTied copy = model;
  EXPECT_TRUE(is_same(weights(copy).first, weights(copy).second));
  EXPECT_FALSE(is_same(weights(copy).first, weights(model).first));
  TwoTied other;  // becomes tied by the assignment
  const Tensor held = weights(other).second;
  other = model;
  EXPECT_TRUE(is_same(weights(other).first, weights(other).second));
  EXPECT_TRUE(is_same(weights(other).second, held));
  EXPECT_EQ(other.parameters().size(), model.parameters().size());
}

TEST(NnTying, AssignmentKeepsTheTie) {
  Tied model = tied(), best = tied();
  const Tensor held = model.wte.weight;
  model = best;
  EXPECT_TRUE(is_same(model.wte.weight, held));
  EXPECT_TRUE(is_same(model.lm_head.weight, held));
  EXPECT_TRUE(allclose(held, best.wte.weight));
  model = tied();
  EXPECT_TRUE(is_same(model.wte.weight, held));
  EXPECT_TRUE(is_same(model.lm_head.weight, held));
  const Tied untied;
  EXPECT_THROW(model = untied, ValueError);
  EXPECT_TRUE(is_same(model.lm_head.weight, held));
}

TEST(NnTying, StatesOfOneNameOrBoth) {
  const Tied from = tied();
  Tied model = tied();
  model.load_state_dict(from.state_dict());
  EXPECT_TRUE(allclose(model.wte.weight, from.wte.weight));
  for (const char* name : {"wte.weight", "lm_head.weight"}) {
    const Tensor value = uniform({5, 3}, -1, 1);
    model.load_state_dict({{name, value}});
    EXPECT_TRUE(allclose(model.wte.weight, value)) << name;
    EXPECT_TRUE(is_same(model.wte.weight, model.lm_head.weight));
  }
  const Tensor before = model.wte.weight.tensor().clone();
  try {
    model.load_state_dict(Tied().state_dict());
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("wte.weight and lm_head.weight are tied"),
              std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(allclose(model.wte.weight, before));
  EXPECT_THROW(model.load_state_dict({}), ValueError);
  EXPECT_THROW(model.load_state_dict({{"lm_head.weight", ones({2, 2})}}), ShapeError);
  for (const DType dtype : {int64, complex64}) {
    EXPECT_THROW(model.load_state_dict({{"lm_head.weight", ones({5, 3}, dtype)}}), DTypeError);
  }
}

TEST(NnTying, ThroughSafetensorsAndCheckpoints) {
  const test_support::TemporaryDirectory directory;
  const Tied from = tied();
  save_safetensors(directory / "tied.safetensors", from.state_dict());
  const auto file = load_safetensors(directory / "tied.safetensors");
  EXPECT_EQ(file.tensors.size(), 2U);  // as in PyTorch's files
  Tied model = tied();
  model.load_state_dict(file.tensors);
  EXPECT_TRUE(is_same(model.wte.weight, model.lm_head.weight));
  EXPECT_TRUE(allclose(model.wte.weight, from.wte.weight));
  Tied untied;  // both names are present
  untied.load_state_dict(file.tensors);
  EXPECT_TRUE(allclose(untied.lm_head.weight, from.wte.weight));

  // An interrupted and resumed run has the weights of an uninterrupted one.
  const auto ids = arange(40) % 5;
  const data::DataLoader loader(data::TensorDataset(ids, ids), {.batch_size = 10});
  const auto train_for = [&](std::int64_t epochs, const std::filesystem::path& checkpoints) {
    manual_seed(3);
    Tied model = tied();
    model.dropout = nn::Dropout(0.0);
    optim::AdamW optimizer(model.parameters(), {.lr = 0.1});
    train::Trainer trainer(model, optimizer, {.epochs = epochs, .checkpoints = checkpoints});
    trainer.resume();
    trainer.fit(loader);
    EXPECT_TRUE(is_same(model.wte.weight, model.lm_head.weight));
    return model.wte.weight.tensor().to_vector<float>();
  };
  train_for(1, directory / "part");
  EXPECT_EQ(train_for(3, directory / "part"), train_for(3, directory / "whole"));
}

TEST(NnTying, ConversionAndGradientsHappenOnce) {
  Tied model = tied();
  model.to(float64);
  EXPECT_TRUE(is_same(model.wte.weight, model.lm_head.weight));
  EXPECT_EQ(model.lm_head.weight.tensor().dtype(), float64);
  optim::ExponentialMovingAverage average(model.parameters(), 0.5);
  average.update();
  EXPECT_EQ(average.state_dict().tensors.size(), 1U);
}

}  // namespace
}  // namespace extensor
