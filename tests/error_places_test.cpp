// Errors say where they occurred: the path of the module, its inputs, and a stack trace on request.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "extensor/extensor.h"

namespace extensor {
namespace {

// The message of the error that the function throws.
template <class Kind = ShapeError, class Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const Kind& error) {
    EXPECT_EQ(typeid(error), typeid(Kind));  // the type is kept
    return error.what();
  }
  ADD_FAILURE() << "no error of the expected kind";
  return {};
}

std::string last_line(const std::string& text) { return text.substr(text.rfind('\n') + 1); }

struct Encoder : nn::Module<Encoder> {
  std::vector<nn::Linear> layers{nn::Linear(4, 4), nn::Linear(4, 4), nn::Linear(5, 4)};
  Tensor forward(const Tensor& x) {
    Tensor y = x;
    for (nn::Linear& layer : layers) y = relu(layer(y));
    return y;
  }
};

struct Net : nn::Module<Net> {
  Encoder encoder;
  nn::Linear head{4, 2};
  Tensor forward(const Tensor& x) { return head(encoder(x)); }
};

TEST(ErrorPlaces, NameThePathOfTheModuleAndItsInputs) {
  Net net;
  const std::string text = message_of([&] { net(ones({3, 4})); });
  EXPECT_EQ(text.substr(0, 8), "linear: ");
  EXPECT_EQ(last_line(text), "  in Net.encoder.layers.2, called with float32 [3, 4]");
  // The first member has the address of its module, but another type.
  EXPECT_EQ(last_line(message_of([&] {
              net(ones({3, 7}));
            })),
            "  in Net.encoder.layers.0, called with float32 [3, 7]");
  EXPECT_EQ(last_line(message_of<DTypeError>([&] {
              net(ones({3, 4}, float64));
            })),
            "  in Net.encoder.layers.0, called with float64 [3, 4]");
  // A later error has its own place, also in the same module.
  EXPECT_EQ(last_line(message_of([&] {
              net.head(ones({1, 3}));
            })),
            "  in Linear, called with float32 [1, 3]");
}

TEST(ErrorPlaces, ReachIntoContainers) {
  nn::Sequential inner{nn::Linear(4, 3), nn::Linear(5, 3)};
  nn::Sequential model{nn::ReLU(), std::move(inner)};
  EXPECT_EQ(last_line(message_of([&] {
              model(ones({2, 4}));
            })),
            "  in Sequential.1.1, called with float32 [2, 3]");

  struct Holder : nn::Module<Holder> {
    std::optional<nn::Linear> maybe;
    std::unique_ptr<nn::Linear> owned;
    std::map<std::string, nn::Linear> by_name;
    Tensor forward(const Tensor& x, int which) {
      return which == 0 ? (*maybe)(x) : which == 1 ? (*owned)(x) : by_name.at("b")(x);
    }
  };
  Holder holder{{}, nn::Linear(2, 2), std::make_unique<nn::Linear>(2, 2), {}};
  holder.by_name.emplace("b", nn::Linear(2, 2));
  const Tensor x = ones({1, 3});
  const std::string inputs = ", called with float32 [1, 3]";
  EXPECT_EQ(last_line(message_of([&] { holder(x, 0); })), "  in Holder.maybe" + inputs);
  EXPECT_EQ(last_line(message_of([&] { holder(x, 1); })), "  in Holder.owned" + inputs);
  EXPECT_EQ(last_line(message_of([&] { holder(x, 2); })), "  in Holder.by_name.b" + inputs);
}

// A module that is no member of the one that calls it keeps its type.
TEST(ErrorPlaces, NameModulesThatAreNoMembers) {
  struct Maker : nn::Module<Maker> {
    Tensor forward(const Tensor& x) { return Net()(x); }
  };
  Maker maker;
  EXPECT_EQ(last_line(message_of([&] {
              maker(ones({1, 9}));
            })),
            "  in Maker > Net.encoder.layers.0, called with float32 [1, 9]");
}

// Errors of the program itself are treated alike; an error that forward() handles leaves no trace.
TEST(ErrorPlaces, CoverErrorsOfTheProgram) {
  struct Picky : nn::Module<Picky> {
    nn::Linear inner{2, 2};
    Tensor forward(const Tensor& x) {
      try {
        return inner(x);
      } catch (const ShapeError&) {
        throw ValueError("picky: not this one");
      }
    }
  };
  Picky picky;
  EXPECT_EQ(message_of<ValueError>([&] {
              picky(ones({1, 5}));
            }),
            "picky: not this one\n  in Picky, called with float32 [1, 5]");
  // Several inputs, of which one is undefined.
  struct Two : nn::Module<Two> {
    Tensor forward(const Tensor& a, const Tensor& b, const Tensor&) { return matmul(a, b); }
  };
  Two two;
  EXPECT_EQ(last_line(message_of([&] {
              two(ones({1, 5}), ones({4}, float64), Tensor());
            })),
            "  in Two, called with float32 [1, 5], float64 [4]");
}

TEST(StackTrace, FollowsTheMessageOnRequest) {
  const auto call = [] { matmul(ones({2, 3}), ones({2, 3})); };
  const std::string plain = message_of(call);
  EXPECT_EQ(plain.find("Stack trace"), std::string::npos);
  EXPECT_EQ(setenv("EXTENSOR_BACKTRACE", "1", 1), 0);
  const std::string traced = message_of(call);
  Net net;
  const std::string inside = message_of([&] { net(ones({3, 4})); });
  EXPECT_EQ(setenv("EXTENSOR_BACKTRACE", "0", 1), 0);
  EXPECT_EQ(message_of(call), plain);
  EXPECT_EQ(unsetenv("EXTENSOR_BACKTRACE"), 0);
  EXPECT_EQ(traced.substr(0, plain.size()), plain);
  EXPECT_NE(traced.find("\nStack trace"), std::string::npos) << traced;
  EXPECT_NE(traced.find("extensor::matmul("), std::string::npos) << traced;
  EXPECT_NE(traced.find("main in "), std::string::npos) << traced;
  // The place precedes the trace.
  EXPECT_NE(inside.find("\nStack trace"), std::string::npos) << inside;
  EXPECT_LT(inside.find("in Net.encoder.layers.2"), inside.find("\nStack trace")) << inside;
}

}  // namespace
}  // namespace extensor
