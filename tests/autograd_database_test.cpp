// Every op of the database through autograd: its gradient is that of its explicit backward, and the
// gradient of its gradient agrees with finite differences.
#include <gtest/gtest.h>

#include "op_database/op_database.h"

namespace extensor::op_database {
namespace {

bool is_float(const Tensor& x) { return x.defined() && is_floating_point(x.dtype()); }

// The sample's inputs as leaves that ask for a gradient where they can have one.
Tensors leaves_of(const Tensors& inputs, DType dtype) {
  Tensors leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(is_float(input) ? input.to(dtype).clone().requires_grad_() : input);
  }
  return leaves;
}

Tensors only_floats(const Tensors& list) {
  Tensors floats;
  for (const Tensor& x : list) {
    if (is_float(x)) floats.push_back(x);
  }
  return floats;
}

// Results that depend on an input, and a gradient for each.
struct Outputs {
  Tensors all, tracked, gradients;
};
Outputs run(const Sample& sample, const Tensors& leaves) {
  Outputs outputs;
  outputs.all = sample.forward(leaves);
  std::uint64_t seed = 7;
  for (const Tensor& result : outputs.all) {
    if (!is_float(result) || !result.requires_grad()) continue;
    outputs.tracked.push_back(result);
    outputs.gradients.push_back(sample_uniform(result.shape(), -1, 1, seed++).to(result.dtype()));
  }
  return outputs;
}

void expect_same(const Tensor& got, const Tensor& expected, const Tensor& input, double tolerance,
                 const std::string& what) {
  const Tensor zero = zeros_like(input);
  const Tensor a = got.defined() ? got : zero, b = expected.defined() ? expected : zero;
  ASSERT_EQ(a.shape(), input.shape()) << what;
  EXPECT_EQ(a.dtype(), input.dtype()) << what;
  if (a.numel() == 0) return;
  const Tensor x = a.to(float64), y = b.to(float64);
  const double scale = std::max(1.0, max_reduce(abs(y)).item<double>());
  const double error = max_reduce(abs(x - y)).item<double>();
  EXPECT_LE(error, tolerance * scale) << what;
}

class AutogradDatabase : public ::testing::TestWithParam<std::string> {};

// What the explicit backward gives for every input, undefined where there is no gradient.
Tensors explicit_gradients(const Sample& sample, const Tensors& leaves, const Outputs& outputs) {
  Tensors arguments, grad_outputs;
  for (const Tensor& input : leaves) {
    arguments.push_back(is_float(input) ? input.detach() : input);
  }
  std::size_t next = 0;
  for (const Tensor& result : outputs.all) {
    if (sample.saves_results) arguments.push_back(result.defined() ? result.detach() : result);
    const bool tracked = is_float(result) && result.requires_grad();
    grad_outputs.push_back(tracked ? outputs.gradients[next++] : Tensor());
  }
  return sample.backward(grad_outputs, arguments);
}

TEST_P(AutogradDatabase, GradientIsTheExplicitOne) {
  const Op& op = *find_op(GetParam());
  for (const Sample& sample : op.samples()) {
    if (!sample.backward) continue;
    for (const DType dtype : {float64, float32, bfloat16}) {
      const std::string what = op.name + " " + sample.label + ", " + extensor::name(dtype);
      const Tensors leaves = leaves_of(sample.inputs, dtype);
      const Outputs outputs = run(sample, leaves);
      ASSERT_FALSE(outputs.tracked.empty()) << what << ": was not recorded";
      const Tensors got = grad(outputs.tracked, only_floats(leaves),
                               {.allow_unused = true, .grad_outputs = outputs.gradients});
      const Tensors expected = explicit_gradients(sample, leaves, outputs);
      std::size_t k = 0;
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        if (!is_float(leaves[i])) continue;
        // Two units in the last place: where rounding comes is all they may differ in.
        const double tolerance = dtype == float64 ? 1e-15 : dtype == float32 ? 2.4e-7 : 7.8e-3;
        expect_same(got[k++], expected[i], leaves[i], tolerance,
                    what + ", input " + std::to_string(i));
      }
    }
  }
}

// The first gradients as one vector, a function of the inputs and of the gradients of the results.
// Inputs without a gradient, class weights say, are constants.
Tensor first_gradients(const Sample& sample, const Tensors& has_gradient, const Tensors& leaves,
                       const Tensors& grad_leaves, bool create_graph) {
  Tensors arguments = sample.inputs;
  std::size_t next = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (has_gradient[i].defined()) arguments[i] = leaves[next++];
  }
  const Outputs outputs = run(sample, arguments);
  Tensors flat;
  const Tensors gradients =
      grad(outputs.tracked, leaves,
           {.create_graph = create_graph, .allow_unused = true, .grad_outputs = grad_leaves});
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    flat.push_back(flatten(gradients[k].defined() ? gradients[k] : zeros_like(leaves[k])));
  }
  return concatenate(flat);
}

TEST_P(AutogradDatabase, SecondGradientAgreesWithFiniteDifferences) {
  const Op& op = *find_op(GetParam());
  for (const Sample& sample : op.samples()) {
    if (!sample.double_backward) continue;
    const std::string what = op.name + " " + sample.label;
    const Tensors first_leaves = leaves_of(sample.inputs, float64);
    const Outputs outputs = run(sample, first_leaves);
    ASSERT_FALSE(outputs.tracked.empty()) << what << ": was not recorded";
    const Tensors has_gradient = explicit_gradients(sample, first_leaves, outputs);
    Tensors points;
    for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
      if (has_gradient[i].defined()) points.push_back(sample.inputs[i]);
    }
    const std::size_t count = points.size();
    points.insert(points.end(), outputs.gradients.begin(), outputs.gradients.end());
    const auto split = [&](const Tensors& in, bool tracked) {
      std::pair<Tensors, Tensors> parts;
      for (std::size_t k = 0; k < in.size(); ++k) {
        Tensor x = in[k].clone();
        if (tracked || k < count) x.requires_grad_();
        (k < count ? parts.first : parts.second).push_back(x);
      }
      return parts;
    };
    const auto result = gradcheck(
        [&](const Tensors& in) {
          const auto [x, g] = split(in, false);
          return first_gradients(sample, has_gradient, x, g, false);
        },
        [&](const Tensor& v, const Tensors& in) {
          const auto [x, g] = split(in, true);
          Tensors all = x;
          all.insert(all.end(), g.begin(), g.end());
          const Tensor first = first_gradients(sample, has_gradient, x, g, true);
          Tensors second(all.size());
          if (first.requires_grad()) {
            second = grad(std::vector{first}, all, {.allow_unused = true, .grad_outputs = {v}});
          }
          for (std::size_t k = 0; k < all.size(); ++k) {
            if (!second[k].defined()) second[k] = zeros_like(all[k]);
          }
          return second;
        },
        points);
    EXPECT_TRUE(result) << what << ": " << result.message;
  }
}

std::vector<std::string> differentiable_ops() {
  std::vector<std::string> names;
  for (const Op& op : ops()) {
    if (!op.backward.empty()) names.push_back(op.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, AutogradDatabase, ::testing::ValuesIn(differentiable_ops()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace extensor::op_database
