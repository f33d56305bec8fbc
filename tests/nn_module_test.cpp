// Modules: members by name, state, copies, modes, and printing.
#include <gtest/gtest.h>

#include <sstream>

#include "extensor/extensor.h"

namespace extensor {
namespace {

struct Block : nn::Module<Block> {
  nn::Linear linear{4, 4};
  nn::Dropout dropout{0.5};
  Tensor forward(const Tensor& x) const { return x + dropout(relu(linear(x))); }
};

struct Net : nn::Module<Net> {
  nn::Linear first{3, 4};
  std::vector<Block> blocks{Block(), Block()};
  nn::Sequential head{nn::BatchNorm1d(4), nn::Linear(4, 2, {.bias = false})};
  nn::Parameter scale{ones({2})};
  nn::Buffer offset{zeros({2})};
  double factor = 2;
  Tensor forward(const Tensor& x) const {
    Tensor y = first(x);
    for (const Block& block : blocks) y = block(y);
    return head(y) * scale.tensor() + offset.tensor() * factor;
  }
};

// A module with a constructor lists its members.
class Scaled : public nn::Module<Scaled> {
 public:
  explicit Scaled(std::int64_t width) : inner(width, width), scale(full({}, 3.0)) {}
  Tensor forward(const Tensor& x) const { return inner(x) * scale.tensor(); }
  void visit(nn::Walker& walk) { walk("inner", inner)("scale", scale); }

  nn::Linear inner;
  nn::Parameter scale;
};

std::vector<std::string> names(const nn::NamedTensors& list) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : list) result.push_back(name);
  return result;
}

TEST(NnModule, NamesOfMembersAreFoundWithoutMacros) {
  const Net net;
  EXPECT_EQ(names(net.named_parameters()),
            (std::vector<std::string>{"first.weight", "first.bias", "blocks.0.linear.weight",
                                      "blocks.0.linear.bias", "blocks.1.linear.weight",
                                      "blocks.1.linear.bias", "head.0.weight", "head.0.bias",
                                      "head.1.weight", "scale"}));
  EXPECT_EQ(names(net.named_buffers()),
            (std::vector<std::string>{"head.0.running_mean", "head.0.running_var",
                                      "head.0.num_batches_tracked", "offset"}));
  EXPECT_EQ(net.parameters().size(), 10U);
  EXPECT_EQ(net.parameter_count(), 12 + 4 + 2 * (16 + 4) + 4 + 4 + 8 + 2);
  EXPECT_EQ(names(Scaled(2).named_parameters()),
            (std::vector<std::string>{"inner.weight", "inner.bias", "scale"}));
}

TEST(NnModule, EveryParameterGetsAGradient) {
  Net net;
  sum(net(rand({5, 3}))).backward();
  for (const auto& [name, tensor] : net.named_parameters()) {
    ASSERT_TRUE(tensor.grad().defined()) << name;
    EXPECT_EQ(tensor.grad().shape(), tensor.shape()) << name;
  }
  net.zero_grad();
  for (const auto& [name, tensor] : net.named_parameters()) EXPECT_FALSE(tensor.grad().defined());
}

TEST(NnModule, ACopyHasParametersOfItsOwn) {
  Net net;
  net.eval();
  const Net copy = net;
  const Tensor x = rand({2, 3});
  EXPECT_TRUE(allclose(net(x), copy(x)));
  {
    const NoGrad off;
    for (Tensor parameter : net.parameters()) parameter += 1.0;
  }
  EXPECT_FALSE(allclose(net(x), copy(x)));
  for (const Tensor& parameter : copy.parameters()) EXPECT_TRUE(parameter.requires_grad());
}

TEST(NnModule, StateGoesFromOneToAnother) {
  Net from, to;
  from.eval(), to.eval();
  const Tensor x = rand({2, 3});
  EXPECT_FALSE(allclose(from(x), to(x)));
  to.load_state_dict(from.state_dict());
  EXPECT_TRUE(allclose(from(x), to(x)));
}

TEST(NnModule, AStateThatDoesNotFitChangesNothing) {
  Net net;
  net.eval();
  const Tensor x = rand({2, 3});
  const Tensor before = net(x);
  nn::NamedTensors state = net.state_dict();
  for (auto& [name, tensor] : state) tensor = zeros_like(tensor);
  auto lacking = state;
  lacking.erase(lacking.begin());
  EXPECT_THROW(net.load_state_dict(lacking), ValueError);
  auto unknown = state;
  unknown.emplace_back("second.weight", zeros({1}));
  try {
    net.load_state_dict(unknown);
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("second.weight"), std::string::npos) << error.what();
  }
  auto reshaped = state;
  reshaped.back().second = zeros({3});
  EXPECT_THROW(net.load_state_dict(reshaped), ShapeError);
  EXPECT_TRUE(allclose(net(x), before));
  net.load_state_dict(unknown, {.strict = false});
  EXPECT_EQ(max_reduce(abs(net(x))).item<float>(), 0);
}

TEST(NnModule, TrainAndEval) {
  Net net;
  const Tensor x = rand({8, 3});
  net.eval();
  EXPECT_TRUE(allclose(net(x), net(x)));
  net.train();
  EXPECT_FALSE(allclose(net(x), net(x)));  // dropout
  EXPECT_EQ(net.named_buffers()[2].second.item<std::int64_t>(), 2);
}

TEST(NnModule, AnotherDtype) {
  Net net;
  const std::vector<Tensor> held = net.parameters();
  net.to(float64);
  for (const Tensor& tensor : held) EXPECT_EQ(tensor.dtype(), float64);
  net.eval();
  EXPECT_EQ(net(rand({2, 3}, float64)).dtype(), float64);
  EXPECT_EQ(net.named_buffers()[2].second.dtype(), int64);
  EXPECT_THROW(net.to(int32), DTypeError);
}

TEST(NnModule, ApplyShowsEveryModule) {
  Net net;
  std::vector<std::string> seen;
  net.apply([&](const nn::ModuleView& module) {
    if (module.type != "Linear") return;
    seen.push_back(module.name);
    const NoGrad off;
    for (auto [name, tensor] : module.parameters) {
      if (name == "weight") tensor.fill(0.5);
    }
  });
  EXPECT_EQ(seen,
            (std::vector<std::string>{"first", "blocks.0.linear", "blocks.1.linear", "head.1"}));
  EXPECT_EQ(min_reduce(net.first.weight.tensor()).item<float>(), 0.5F);
}

TEST(NnModule, PrintsAsATable) {
  std::ostringstream text;
  text << nn::Sequential{nn::Conv2d(1, 6, 5, {.padding = 2}), nn::ReLU(), nn::MaxPool2d(2),
                         nn::Flatten(), nn::Linear(1176, 10)};
  EXPECT_EQ(text.str(),
            "Sequential                               11,926\n"
            "  0: Conv2d(1 → 6, kernel 5, padding 2)     156  weight [6, 1, 5, 5], bias [6]\n"
            "  1: ReLU\n"
            "  2: MaxPool2d(2)\n"
            "  3: Flatten\n"
            "  4: Linear(1176 → 10)                   11,770  weight [10, 1176], bias [10]\n");
}

TEST(NnModule, SequentialOfFunctions) {
  nn::Sequential model{nn::Linear(2, 2), [](const Tensor& x) { return x * 0.0; }};
  EXPECT_EQ(max_reduce(model(rand({3, 2}))).item<float>(), 0);
  EXPECT_NE(model[0].get<nn::Linear>(), nullptr);
  EXPECT_EQ(model[0].get<nn::ReLU>(), nullptr);
  EXPECT_THROW(model[2], IndexError);
}

// A member with an explicit default constructor does not hide the others.
struct WithDefaults : nn::Module<WithDefaults> {
  nn::Linear first{2, 3};
  nn::Flatten flat;
  nn::Dropout dropout;
  nn::Linear second{3, 1};
};

TEST(NnModule, FindsMembersBesideExplicitDefaults) {
  WithDefaults model;
  const auto parameters = model.named_parameters();
  ASSERT_EQ(parameters.size(), 4U);
  EXPECT_EQ(parameters[0].first, "first.weight");
  EXPECT_EQ(parameters[3].first, "second.bias");
}

}  // namespace
}  // namespace extensor
