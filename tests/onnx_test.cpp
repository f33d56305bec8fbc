// Export to ONNX and import: every model and function comes back with the same results.
#include <gtest/gtest.h>

#include <complex>
#include <cstdlib>
#include <set>

#include "onnx/graph_builder.h"
#include "onnx/model.h"
#include "ops/registry.h"
#include "support/files.h"
#include "support/onnx_cases.h"
#include "support/onnx_functions.h"

namespace {

using namespace extensor;
using test_support::OnnxCase;
using test_support::TemporaryDirectory;

template <class Function>
void run_case(const OnnxCase& each, const Function& function) {
  SCOPED_TRACE(each.name);
  try {
    function(each);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}
// Calls the function for every case; an error fails the test, but not the other cases.
template <class Function>
void for_each_case(const Function& function) {
  for (const OnnxCase& each : test_support::onnx_models()) run_case(each, function);
  for (const auto& [name, called] : test_support::onnx_functions()) {
    run_case(test_support::onnx_case(name, called, {test_support::values({2, 3, 4})}), function);
  }
}

// The largest difference, relative to the largest finite magnitude; 0 for equal bytes.
double distance(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return INFINITY;
  const Tensor x = a.to(float64), y = b.to(float64);
  if (x.numel() == 0) return 0;
  const Tensor same = logical_or(equal(x, y), logical_and(isnan(x), isnan(y)));  // also infinities
  const double difference = where(same, 0.0, abs(x - y)).max().item<double>();
  const double largest = where(isfinite(y), abs(y), 0.0).max().item<double>();
  return difference / std::max(1.0, largest);
}

void expect_same(const OnnxCase& each, const std::vector<Tensor>& found,
                 const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size()) << each.name;
  for (std::size_t k = 0; k < found.size(); ++k) {
    const double allowed = each.same_ops ? 0 : 2e-6;
    EXPECT_LE(distance(found[k], expected[k]), allowed) << each.name << " output " << k;
  }
}

template <class E, class Function>
void expect_refused(const Function& function, const std::vector<std::string>& parts) {
  try {
    function();
    FAIL() << "nothing was thrown";
  } catch (const E& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
  }
}

TEST(Onnx, EveryCaseComesBackWithTheSameResults) {
  const TemporaryDirectory folder;
  for_each_case([&](const OnnxCase& each) {
    const std::filesystem::path path = folder / (each.name + ".onnx");
    each.write(path, {.dynamic_batch = !each.other_batch.empty()});
    const OnnxModel model = load_onnx(path);
    EXPECT_EQ(model.inputs().size(), each.inputs.size());
    expect_same(each, model.run(each.inputs), each.call(each.inputs));
    if (!each.other_batch.empty()) {
      expect_same(each, model.run(each.other_batch), each.call(each.other_batch));
    }
  });
}

// Compositions of operators may multiply −∞ by 0.
TEST(Onnx, ActivationsOfInfinities) {
  const TemporaryDirectory folder;
  using Function = Tensor (*)(const Tensor&);
  const std::pair<const char*, Function> functions[] = {
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"gelu_tanh", [](const Tensor& x) { return gelu(x, true); }},
      {"linear", [](const Tensor& x) {
         return linear(x.unsqueeze(1), ones({1, 1}, x.dtype()), {}, Activation::silu).flatten();
       }}};
  for (const DType dtype : {float32, float64}) {
    const Tensor x =
        tensor({-INFINITY, -1e30, -2000., -700., -130., -90., -8., -0., 0., 3., 50., INFINITY, NAN},
               dtype);
    for (const auto& [name, function] : functions) {
      for (const std::int64_t opset : {18, 23}) {
        SCOPED_TRACE(std::string(name) + " in " + extensor::name(dtype) + ", opset " +
                     std::to_string(opset));
        const auto model = [&](const Tensor& in) { return function(in); };
        export_onnx(folder / "x.onnx", model, {.opset = opset}, x);
        const Tensor found = load_onnx(folder / "x.onnx").run({x})[0], expected = function(x);
        EXPECT_LE(distance(found, expected), 2e-6);
        EXPECT_EQ(found[0].item<double>(), 0) << found;
        EXPECT_TRUE(all(equal(signbit(found), signbit(expected)) || isnan(expected)).item<bool>())
            << found;
      }
    }
  }
}

TEST(Onnx, NewerOperatorsGiveTheSameResults) {
  const TemporaryDirectory folder;
  for_each_case([&](const OnnxCase& each) {
    if (each.name != "gelu" && each.name != "encoder_gelu" && each.name != "bicubic") return;
    for (const std::int64_t opset : {19, 20, 21, 22, 23}) {
      each.write(folder / "x.onnx", {.opset = opset});
      expect_same(each, load_onnx(folder / "x.onnx").run(each.inputs), each.call(each.inputs));
    }
  });
}

// tests/onnx/runtime.py names a folder, and runs the files in it with onnxruntime.
TEST(Onnx, WritesExamplesForOtherRuntimes) {
  const char* given = std::getenv("EXTENSOR_ONNX_FOLDER");
  const TemporaryDirectory temporary;
  const std::filesystem::path folder = given == nullptr ? temporary.path() : given;
  for_each_case([&](const OnnxCase& each) {
    const std::filesystem::path own = folder / each.name;
    std::filesystem::create_directories(own);
    each.write(own / "model.onnx", {.dynamic_batch = !each.other_batch.empty()});
    const auto save = [&](const std::string& prefix, const std::vector<Tensor>& inputs) {
      const std::vector<Tensor> outputs = each.call(inputs);
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        save_npy(own / (prefix + "input_" + std::to_string(k) + ".npy"), inputs[k]);
      }
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        save_npy(own / (prefix + "output_" + std::to_string(k) + ".npy"), outputs[k]);
      }
    };
    save("", each.inputs);
    if (!each.other_batch.empty()) save("other_", each.other_batch);
  });
}

TEST(Onnx, ParametersKeepTheirNamesAndTrain) {
  const TemporaryDirectory folder;
  const models::Mlp net({4, 8, 2});
  export_onnx(folder / "net.onnx", net, {.input_names = {"x"}, .output_names = {"y"}},
              ones({3, 4}));
  OnnxModel model = load_onnx(folder / "net.onnx");
  EXPECT_EQ(model.inputs()[0].name, "x");
  EXPECT_EQ(model.outputs()[0].name, "y");
  EXPECT_EQ(*model.inputs()[0].shape, (std::vector<std::int64_t>{3, 4}));
  const NamedTensors own = model.named_parameters(), theirs = net.named_parameters();
  ASSERT_EQ(own.size(), theirs.size());
  for (std::size_t k = 0; k < own.size(); ++k) EXPECT_EQ(own[k].first, theirs[k].first);

  const Tensor x = test_support::values({3, 4});
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const double before = square(model(x)).sum().item<float>();
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    square(model(x)).sum().backward();
    optimizer.step();
  }
  EXPECT_LT(square(model(x)).sum().item<float>(), before);
  // A layer of any type has the names of its module.
  const nn::AnyLayer any = net;
  export_onnx(folder / "any.onnx", any, x);
  EXPECT_EQ(load_onnx(folder / "any.onnx").named_parameters()[0].first, "layers.0.weight");
  // A copy has parameters of its own, and the state goes back into the first model.
  const OnnxModel copy = model;
  EXPECT_EQ(distance(copy(x), model(x)), 0);
  models::Mlp other({4, 8, 2});
  other.load_state_dict(model.state_dict());
  EXPECT_EQ(distance(other(x), model(x)), 0);
}

TEST(Onnx, StatisticsAreBuffersAndTheModelExportsAgain) {
  const TemporaryDirectory folder;
  auto net = test_support::with_statistics(
      nn::Sequential{nn::Conv2d(1, 2, 3), nn::BatchNorm2d(2), nn::ReLU()});
  const Tensor x = test_support::values({2, 1, 5, 5});
  export_onnx(folder / "a.onnx", net, {.dynamic_batch = true}, x);
  EXPECT_TRUE(net.named_buffers().size() == 3);
  const OnnxModel first = load_onnx(folder / "a.onnx");
  EXPECT_EQ(first.named_buffers().size(), 2);
  EXPECT_EQ(first.named_parameters().size(), 4);
  export_onnx(folder / "b.onnx", first, {.dynamic_batch = true}, x);
  const OnnxModel second = load_onnx(folder / "b.onnx");
  net.eval();
  EXPECT_EQ(distance(first(x), net(x)), 0);
  EXPECT_EQ(distance(second(x), net(x)), 0);
  EXPECT_EQ(first.state_dict().size(), second.state_dict().size());
}

TEST(Onnx, SeveralInputsAndOutputs) {
  const TemporaryDirectory folder;
  const auto function = [](const Tensor& a, const Tensor& b) {
    return std::vector<Tensor>{a + b, a, a + b, b.sum()};
  };
  const Tensor a = test_support::values({2, 3}), b = test_support::values({2, 1}, 3);
  export_onnx(folder / "x.onnx", function, {.dynamic_batch = true}, a, b);
  const OnnxModel model = load_onnx(folder / "x.onnx");
  EXPECT_EQ(model.inputs()[1].name, "input_1");
  EXPECT_EQ(*model.outputs()[0].shape, (std::vector<std::int64_t>{-1, 3}));
  const std::vector<Tensor> found = model.run({a, b}), expected = function(a, b);
  ASSERT_EQ(found.size(), 4);
  for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(distance(found[k], expected[k]), 0) << k;
  expect_refused<ValueError>([&] { model(a); }, {"2 inputs", "4 outputs"});
}

TEST(Onnx, ExportKeepsTheTrainingMode) {
  const TemporaryDirectory folder;
  nn::Dropout dropout(0.5);
  export_onnx(folder / "x.onnx", dropout, ones({3}));
  EXPECT_TRUE(dropout.training);
  EXPECT_EQ(distance(load_onnx(folder / "x.onnx")(ones({3})), ones({3})), 0);
}

// ---- what has no form in ONNX

struct Inverse : nn::Module<Inverse> {
  nn::Linear before{3, 3};
  Tensor forward(const Tensor& x) { return linalg::inv(before(x)); }
};
struct Outer : nn::Module<Outer> {
  nn::Linear first{3, 3};
  Inverse inner;
  Tensor forward(const Tensor& x) { return inner(first(x)); }
};

TEST(Onnx, NamesTheOpWithoutAFormAndItsModule) {
  const TemporaryDirectory folder;
  Outer net;
  expect_refused<ValueError>([&] { export_onnx(folder / "x.onnx", net, eye(3)); },
                             {"export_onnx", "inv in Outer.inner"});
  EXPECT_TRUE(folder.names().empty());
}

TEST(Onnx, RefusesComplexNumbers) {
  const TemporaryDirectory folder;
  const auto path = folder / "x.onnx";
  const auto inside = [](const Tensor& y) {
    return abs(y * std::complex<double>(0, 1)).to(float32);
  };
  expect_refused<DTypeError>([&] { export_onnx(path, inside, ones({3})); },
                             {"multiply", "complex64"});
  const auto twice = [](const Tensor& y) { return y + y; };
  EXPECT_THROW(export_onnx(path, twice, ones({3}, complex64)), DTypeError);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Onnx, RefusesCallsThatDependOnValues) {
  const TemporaryDirectory folder;
  const auto path = folder / "x.onnx";
  const Tensor x = tensor({1.0, 2.0, 3.0, -4.0});
  const auto branch = [](const Tensor& y) {
    return y.slice(0, 0, 1).item<float>() > 0 ? relu(y) : y * 2;
  };
  expect_refused<ValueError>([&] { export_onnx(path, branch, x); }, {"relu", "same for all"});
  const auto outside = [](const Tensor& y) { return y + from_data(y.to_vector<float>()); };
  expect_refused<ValueError>([&] { export_onnx(path, outside, x); },
                             {"not computed by ops", "values of the inputs"});
  const auto number = [](const Tensor& y) { return y * double{y.slice(0, 0, 1).item<float>()}; };
  expect_refused<ValueError>([&] { export_onnx(path, number, x); }, {"multiply"});
  const auto through_a_view = [](const Tensor& y) {
    const Tensor z = y * 2;
    z.slice(0, 0, 2).fill(1);
    return z + 1;
  };
  expect_refused<ValueError>([&] { export_onnx(path, through_a_view, x); }, {"in place"});
  const auto pairs = [](const Tensor& y) { return matmul(y, y.transpose()).reshape({-1}); };
  expect_refused<ValueError>(
      [&] {
        export_onnx(path, pairs, {.dynamic_batch = true}, ones({2, 3}));
      },
      {"batch"});
  EXPECT_TRUE(folder.names().empty());
}

// Sums and extremes stay the same where the elements are only reordered.
TEST(Onnx, RefusesNumbersThatAreReducedFromInputs) {
  const TemporaryDirectory folder;
  const auto path = folder / "x.onnx";
  const auto by_largest = [](const Tensor& y) { return y * double{y.max().item<float>()}; };
  const auto by_sum = [](const Tensor& y) { return y.sum().item<float>() > 4 ? y : y * 2; };
  for (const Tensor& x : {tensor({1.0, 2.0, 3.0, -4.0}), ones({5}), zeros({2, 3}), ones({})}) {
    expect_refused<ValueError>([&] { export_onnx(path, by_largest, x); }, {"multiply"});
  }
  expect_refused<ValueError>([&] { export_onnx(path, by_sum, ones({8})); }, {"same for all"});
  const auto longest = [](const Tensor& lengths) {
    return arange(lengths.max().item<std::int64_t>()) + lengths.sum();
  };
  expect_refused<ValueError>(
      [&] {
        export_onnx(path, longest, tensor({4, 1, 3}));
      },
      {"values of the inputs"});
  EXPECT_TRUE(folder.names().empty());
}

TEST(Onnx, NumbersMayDependOnTheBatch) {
  const TemporaryDirectory folder;
  const auto path = folder / "x.onnx";
  const auto mean = [](const Tensor& y) { return y.sum(0) / y.size(0) + (2 * y.size(0) + 1); };
  const Tensor x = test_support::values({3, 4}), more = test_support::values({7, 4});
  export_onnx(path, mean, {.dynamic_batch = true}, x);
  const OnnxModel model = load_onnx(path);
  EXPECT_LT(distance(model(x), mean(x)), 1e-6);
  EXPECT_LT(distance(model(more), mean(more)), 1e-6);
  // Parameters of nodes cannot.
  const auto slope = [](const Tensor& y) { return leaky_relu(y, static_cast<double>(y.size(0))); };
  expect_refused<ValueError>([&] { export_onnx(path, slope, {.dynamic_batch = true}, x); },
                             {"leaky_relu", "depends on the size of the batch"});
  const auto limit = [](const Tensor& y) { return clip(y, 0, y.size(0)); };
  expect_refused<ValueError>([&] { export_onnx(path, limit, {.dynamic_batch = true}, x); },
                             {"clip", "depends on the size of the batch"});
  const auto width = [](const Tensor& y) {
    return pad(y, {{0, 0}, {1, 1}}, PadMode::constant, static_cast<double>(y.size(0)));
  };
  expect_refused<ValueError>([&] { export_onnx(path, width, {.dynamic_batch = true}, x); },
                             {"pad", "depends on the size of the batch"});
}

// The derivative of a loaded function at each element of x.
Tensor loaded_gradient(test_support::OneTensor function, const std::vector<float>& x) {
  const TemporaryDirectory folder;
  Tensor given = from_data(x);
  export_onnx(folder / "x.onnx", function, given);
  given.requires_grad_();
  load_onnx(folder / "x.onnx")(given).sum().backward();
  return given.grad();
}

TEST(Onnx, LoadedFunctionsHaveTheGradientsOfTheOps) {
  const auto clipped = [](const Tensor& x) { return clip(x, -1, 2); };
  EXPECT_EQ(loaded_gradient(clipped, {-2, -1, 0, 2, 3}).to_vector<float>(),
            (std::vector<float>{0, 1, 1, 1, 0}));
  const auto sizes = [](const Tensor& x) { return hypot(x, x * 0); };
  EXPECT_EQ(loaded_gradient(sizes, {-2, 0, 3}).to_vector<float>(), (std::vector<float>{-1, 0, 1}));
  const auto doubled = [](const Tensor& x) { return logaddexp(x, x.slice(0, 0, 1)); };
  EXPECT_EQ(loaded_gradient(doubled, {0, 0}).to_vector<float>(), (std::vector<float>{1.5, 0.5}));
}

// A bound may have axes, as long as it is one number.
TEST(Onnx, ClipKeepsTheShape) {
  onnx::Model model;
  model.opset = 18;
  model.graph.inputs = {{"x", DType::float32, std::nullopt}};
  model.graph.outputs = {{"y", DType::float32, std::nullopt}};
  model.graph.initializers = {{"low", tensor({-1.0})}, {"high", scalar(2.0)}};
  model.graph.nodes = {{"", "Clip", "", {"x", "low", "high"}, {"y"}, {}}};
  const TemporaryDirectory folder;
  io::MemorySink sink;
  onnx::write_model("x", sink, model);
  test_support::write_file(folder / "x.onnx",
                           {reinterpret_cast<const char*>(sink.bytes.data()), sink.bytes.size()});
  const OnnxModel loaded = load_onnx(folder / "x.onnx");
  EXPECT_EQ(distance(loaded(scalar(5.0)), scalar(2.0)), 0);
  EXPECT_EQ(distance(loaded(tensor({-3.0, double{NAN}})), tensor({-1.0, double{NAN}})), 0);
}

TEST(Onnx, NormsOfTensorsWithoutAxes) {
  const TemporaryDirectory folder;
  for (const double p : {1.0, 2.0, 3.0}) {
    const auto size = [p](const Tensor& y) { return norm(y, p); };
    export_onnx(folder / "x.onnx", size, scalar(-3.0));
    EXPECT_EQ(load_onnx(folder / "x.onnx")(scalar(-3.0)).item<float>(), 3) << p;
  }
}

TEST(Onnx, RefusesImagesWithoutPixels) {
  const TemporaryDirectory folder;
  const auto pooled = [](const Tensor& y) { return adaptive_avg_pool2d(y, {0, 3}); };
  expect_refused<ValueError>(
      [&] {
        export_onnx(folder / "x.onnx", pooled, ones({1, 2, 4, 6}));
      },
      {"adaptive_avg_pool2d", "without pixels"});
}

TEST(Onnx, PadsWithLargeIntegers) {
  const TemporaryDirectory folder;
  constexpr std::int64_t large = (std::int64_t{1} << 53) + 1;
  const auto padded = [](const Tensor& y) { return pad(y, {{1, 0}}, PadMode::constant, large); };
  export_onnx(folder / "x.onnx", padded, tensor({5, 6}));
  EXPECT_EQ(load_onnx(folder / "x.onnx")(tensor({5, 6}))[0].item<std::int64_t>(), large);
}

// Their floats are below the numbers.
TEST(Onnx, ScalesLeadToTheSameSizes) {
  const TemporaryDirectory folder;
  const Tensor x = test_support::values({1, 2, 10, 10});
  for (const double factor : {0.7, 0.9, 1.3, 1.4, 1.9, 2.3}) {
    for (const InterpolateMode mode : {InterpolateMode::nearest, InterpolateMode::bilinear}) {
      const auto resized = [&](const Tensor& y) {
        return interpolate(y, {.scale_factor = Scale2d(factor), .mode = mode});
      };
      export_onnx(folder / "x.onnx", resized, x);
      EXPECT_LE(distance(load_onnx(folder / "x.onnx")(x), resized(x)), 1e-5) << factor;
    }
  }
}

TEST(Onnx, RefusesOptionsAndInputs) {
  const TemporaryDirectory folder;
  const auto path = folder / "x.onnx";
  models::Mlp net({4, 2});
  const Tensor x = ones({3, 4});
  expect_refused<ValueError>([&] { export_onnx(path, net, {.opset = 17}, x); }, {"17", "18 to 23"});
  expect_refused<ValueError>(
      [&] {
        export_onnx(path, net, {.input_names = {"a", "b"}}, x);
      },
      {"2 input names"});
  expect_refused<ValueError>(
      [&] { export_onnx(path, net, {.input_names = {"layers.0.weight"}}, x); },
      {"layers.0.weight"});
  expect_refused<IoError>([&] { export_onnx(folder / "none" / "x.onnx", net, x); }, {"none"});
  EXPECT_TRUE(folder.names().empty());

  export_onnx(path, net, x);
  const OnnxModel model = load_onnx(path);
  expect_refused<ShapeError>([&] { model(ones({5, 4})); }, {"'input'", "[5, 4]", "[3, 4]"});
  expect_refused<DTypeError>([&] { model(ones({3, 4}, float64)); }, {"float64", "float32"});
  expect_refused<ValueError>([&] { model.run({x, x}); }, {"2 inputs"});
  export_onnx(path, net, {.dynamic_batch = true}, x);
  EXPECT_EQ(load_onnx(path)(ones({5, 4})).shape(), (Shape{5, 2}));
}

// Every rule is for an op that exists.
TEST(Onnx, RulesNameOps) {
  std::set<std::string> seen;
  for (const auto& rules :
       {onnx::elementwise_export_rules, onnx::shape_export_rules, onnx::reduction_export_rules,
        onnx::layer_export_rules, onnx::recurrent_export_rules}) {
    for (const onnx::ExportRule& rule : rules) {
      EXPECT_NE(ops::find_op(rule.op), nullptr) << rule.op;
      EXPECT_TRUE(seen.insert(rule.op).second) << rule.op;
    }
  }
}

}  // namespace
