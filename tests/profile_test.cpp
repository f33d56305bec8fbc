// Seeing inside: summaries with outputs and FLOPs, profiles, and traces.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "extensor/extensor.h"
#include "support/files.h"

namespace extensor {
namespace {

using test_support::read_file;
using test_support::TemporaryDirectory;

struct Net : nn::Module<Net> {
  nn::Conv2d conv{1, 6, 5};
  nn::BatchNorm2d norm{6};
  nn::Linear out{6 * 12 * 12, 10};
  Tensor forward(const Tensor& x) {
    return out(max_pool2d(relu(norm(conv(x))), 2).reshape({x.shape()[0], -1}));
  }
};

// The words of the line of the summary that has `name`.
std::string line_with(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return "no " + name + " in\n" + text;
  const std::size_t begin = text.rfind('\n', at) + 1;
  std::string line = text.substr(begin, text.find('\n', at) - begin);
  line.erase(
      std::unique(line.begin(), line.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
      line.end());
  return line;
}

TEST(Summary, ShowsOutputsAndOperationsOfACall) {
  Net net;
  const Tensor mean = net.norm.named_buffers()[0].second.clone();
  const std::string text = net.summary(ones({2, 1, 28, 28}));
  EXPECT_EQ(line_with(text, "module"), "module output FLOPs parameters");
  // 2 · [2, 6, 24, 24] · 25
  EXPECT_EQ(line_with(text, "conv: "),
            " conv: Conv2d(1 → 6, kernel 5) [2, 6, 24, 24] 346 k 156 weight [6, 1, 5, 5], bias [6]")
      << text;
  // 2 · 2 · 864 · 10
  EXPECT_NE(line_with(text, "out: ").find("[2, 10] 34.6 k 8,650"), std::string::npos) << text;
  // conv 345600, norm, relu and pool 6912 each, out 34560
  EXPECT_NE(line_with(text, "Net").find("[2, 10] 401 k 8,818"), std::string::npos) << text;
  // The call neither trains the module nor changes its modes.
  EXPECT_TRUE(allclose(net.norm.named_buffers()[0].second, mean, 0, 0));
  net(ones({2, 1, 28, 28}));
  EXPECT_FALSE(allclose(net.norm.named_buffers()[0].second, mean, 0, 0));
  EXPECT_EQ(net.summary().find("FLOPs"), std::string::npos);
  EXPECT_THROW(net.summary(ones({2, 3, 28, 28})), ShapeError);
}

// A layer that is called twice counts twice; one that is not called has no output.
TEST(Summary, AddsUpCalls) {
  struct Twice : nn::Module<Twice> {
    nn::Linear used{4, 4}, unused{4, 4};
    Tensor forward(const Tensor& x) { return used(used(x)); }
  };
  Twice twice;
  const std::string text = twice.summary(ones({1, 4}));
  EXPECT_NE(line_with(text, "  used").find("[1, 4] 64 20"), std::string::npos) << text;
  EXPECT_EQ(line_with(text, "unused").find("[1, 4]"), std::string::npos) << text;
}

std::map<std::string, OpProfile> by_name(const Profile& profile) {
  std::map<std::string, OpProfile> all;
  for (const OpProfile& op : profile.ops()) all[op.name] = op;
  return all;
}

TEST(Profile, CountsCallsBytesAndOperations) {
  const Tensor a = ones({32, 64}), b = ones({64, 16});
  Tensor c = ones({32, 16});
  Profile profile({.print = false});
  for (int k = 0; k < 3; ++k) {
    Tensor y = relu(matmul(a, b) + 1);
    y.transpose();
    c += y;
  }
  profile.stop();
  matmul(a, b);  // after the end
  auto ops = by_name(profile);
  EXPECT_EQ(ops["matmul"].calls, 3);
  EXPECT_EQ(ops["matmul"].flops, 3 * 2.0 * 32 * 64 * 16);
  EXPECT_EQ(ops["matmul"].bytes, 3 * 4.0 * (32 * 64 + 64 * 16 + 32 * 16));
  EXPECT_EQ(ops["matmul"].new_bytes, 3 * 4.0 * 32 * 16);
  EXPECT_EQ(ops["relu"].flops, 3 * 32.0 * 16);
  EXPECT_EQ(ops["add"].calls, 6);
  EXPECT_EQ(ops["add"].new_bytes, 3 * 4.0 * 32 * 16);  // c += y makes nothing
  EXPECT_EQ(ops["transpose"].bytes, 0);                // a view
  EXPECT_EQ(ops["transpose"].new_bytes, 0);
  double sum = 0;
  for (const auto& [name, op] : ops) {
    EXPECT_GT(op.seconds, 0) << name;
    EXPECT_FALSE(op.floor_seconds < 0) << name;
    sum += op.seconds;
  }
  EXPECT_LE(sum, profile.seconds());
  EXPECT_GT(ops["matmul"].floor_seconds, 0);
  const std::string table = profile.table();
  for (const char* part : {"op", "calls", "share", "floor", "new memory", "matmul", "all ops",
                           "most memory in live tensors: "}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << " in\n" << table;
  }
}

TEST(Profile, SeesGradientsAndNestedProfiles) {
  Tensor w = ones({8, 8}).requires_grad_();
  Profile outer({.print = false});
  const Tensor loss = sum(matmul(w, w));
  {
    Profile inner({.print = false});
    loss.backward();
    EXPECT_EQ(by_name(inner)["matmul"].calls, 2);
  }
  EXPECT_EQ(by_name(outer)["matmul"].calls, 3);
  Profile ended({.print = false});
  ended.stop();
  ended.stop();
  EXPECT_TRUE(ended.ops().empty());
}

TEST(Profile, WritesATrace) {
  const TemporaryDirectory directory;
  Net net;
  {
    const auto scope = profile({.print = false, .trace = directory / "trace.json"});
    net(ones({1, 1, 28, 28}));
  }
  const auto trace = nlohmann::json::parse(read_file(directory / "trace.json"));
  std::vector<std::string> names;
  double linear_begin = 0, linear_end = 0, module_begin = -1, module_end = -1;
  for (const auto& event : trace.at("traceEvents")) {
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("dur").get<double>(), 0);
    names.push_back(event.at("name"));
    const double begin = event.at("ts"), end = begin + event.at("dur").get<double>();
    if (event.at("name") == "linear") linear_begin = begin, linear_end = end;
    if (event.at("name") == "Linear") module_begin = begin, module_end = end;
    if (event.at("name") == "conv2d") {
      EXPECT_EQ(event.at("args").at("inputs"),
                "float32 [1, 1, 28, 28], float32 [6, 1, 5, 5], float32 [6]");
    }
  }
  for (const char* name : {"conv2d", "relu", "max_pool2d", "linear", "Conv2d", "Linear", "Net"}) {
    EXPECT_EQ(std::ranges::count(names, name), 1) << name;
  }
  // The op lies within the call of its module.
  EXPECT_LE(module_begin, linear_begin);
  EXPECT_LE(linear_end, module_end + 1e-2);

  Profile unwritable({.print = false, .trace = directory / "none" / "trace.json"});
  EXPECT_THROW(unwritable.stop(), IoError);
}

}  // namespace
}  // namespace extensor
