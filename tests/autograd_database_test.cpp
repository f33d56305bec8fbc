// Runs every op of the database through autograd: its gradient must equal that of its explicit
// backward, and the gradient of the gradient must agree with finite differences.
#include <gtest/gtest.h>

#include "op_database/tolerance.h"
#include "op_database/variants.h"

namespace extensor::op_database {
namespace {

bool is_float(const Tensor& x) { return x.defined() && is_floating_point(x.dtype()); }

// The sample's inputs as leaves; the differentiable ones require a gradient.
Tensors leaves_of(const Sample& sample, DType dtype) {
  Tensors leaves;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const Tensor& input = sample.inputs[i];
    leaves.push_back(is_float(input) ? input.to(dtype).clone() : input);
    if (is_differentiable(sample, i)) leaves.back().requires_grad_();
  }
  return leaves;
}

Tensors differentiable(const Sample& sample, const Tensors& list) {
  Tensors chosen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_differentiable(sample, i)) chosen.push_back(list[i]);
  }
  return chosen;
}

// The floating results, which all depend on an input, and a gradient for each.
struct Outputs {
  Tensors all, tracked, gradients;
};
Outputs run(const Sample& sample, const Tensors& leaves) {
  Outputs outputs;
  outputs.all = sample.forward(leaves);
  std::uint64_t seed = 7;
  for (const Tensor& result : outputs.all) {
    if (!is_float(result)) continue;
    EXPECT_TRUE(result.requires_grad()) << sample.label << ": was not recorded";
    outputs.tracked.push_back(result);
    outputs.gradients.push_back(sample_uniform(result.shape(), -1, 1, seed++).to(result.dtype()));
  }
  return outputs;
}

// One unit in the last place, relative to the smallest number that has it.
double unit_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 0x1p-23;
    case DType::float16:
      return 0x1p-10;
    case DType::bfloat16:
      return 0x1p-7;
    default:
      return 0x1p-52;
  }
}

// Ops whose recorded form saves the rounded result and reads it in the backward, where the explicit
// backward computes the result again.
bool reads_rounded_result(const std::string& op) {
  return op == "linear" || op == "scaled_dot_product_attention" ||
         op == "scaled_dot_product_attention_packed";
}

class AutogradDatabase : public ::testing::TestWithParam<std::string> {};

// The arguments of the explicit backward: the gradients of the results, then the tensors that it
// reads.
struct BackwardCall {
  Tensors arguments;
  std::size_t results = 0;
};
BackwardCall backward_call(const Sample& sample, const Tensors& leaves, const Outputs& outputs) {
  Tensors arguments, grad_outputs;
  for (const Tensor& input : leaves) {
    arguments.push_back(is_float(input) ? input.detach() : input);
  }
  std::size_t next = 0;
  for (const Tensor& result : outputs.all) {
    if (sample.saves_results) arguments.push_back(result.defined() ? result.detach() : result);
    grad_outputs.push_back(is_float(result) ? outputs.gradients[next++] : Tensor());
  }
  return {joined(grad_outputs, arguments), grad_outputs.size()};
}

TEST_P(AutogradDatabase, GradientIsTheExplicitOne) {
  const Op& op = *find_op(GetParam());
  for (const Sample& sample : op.samples()) {
    if (!sample.backward) continue;
    for (const DType dtype : {float64, float32, float16, bfloat16}) {
      if (!contains(op.dtypes, dtype)) continue;
      const std::string what = op.name + " " + sample.label + ", " + extensor::name(dtype);
      const Tensors leaves = leaves_of(sample, dtype);
      const Outputs outputs = run(sample, leaves);
      const Tensors got = grad(outputs.tracked, differentiable(sample, leaves),
                               {.allow_unused = true, .grad_outputs = outputs.gradients});
      const auto [arguments, results] = backward_call(sample, leaves, outputs);
      const auto backward = [&sample, results = results](const Tensors& all) {
        const auto middle = all.begin() + static_cast<std::ptrdiff_t>(results);
        return differentiable(
            sample, sample.backward(Tensors(all.begin(), middle), Tensors(middle, all.end())));
      };
      const Tensors expected = backward(arguments);
      for (std::size_t k = 0; k < got.size(); ++k) {
        ASSERT_TRUE(got[k].defined()) << what << ": autograd gives no gradient " << k;
        ASSERT_TRUE(expected[k].defined()) << what << ": the backward gives no gradient " << k;
        EXPECT_EQ(got[k].dtype(), dtype) << what;
      }
      // They may differ only in rounding: two units in the last place of the result and of the
      // accumulated magnitudes.
      const bool reads_rounded = reads_rounded_result(op.name);
      const DType accumulated = reads_rounded || dtype == float64 ? dtype : float32;
      const Allowance allowance{2 * unit_of(dtype), 2 * unit_of(accumulated)};
      Comparison comparison = compare(got, expected, allowance, {});
      if (!comparison.message.empty()) {
        const Magnitudes magnitudes = magnitudes_of(backward, in_float64(dense(arguments)), 1e-6,
                                                    reads_rounded ? 1 : sample.cancelling_terms);
        comparison = compare(got, expected, allowance, magnitudes);
      }
      EXPECT_EQ(comparison.message, "") << what;
    }
  }
}

// The first gradients as one vector, a function of the differentiable inputs and of the gradients
// of the results.
Tensor first_gradients(const Sample& sample, const Tensors& leaves, const Tensors& grad_leaves,
                       bool create_graph) {
  Tensors arguments = sample.inputs;
  std::size_t next = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (is_differentiable(sample, i)) arguments[i] = leaves[next++];
  }
  const Outputs outputs = run(sample, arguments);
  Tensors flat;
  for (const Tensor& gradient :
       grad(outputs.tracked, leaves, {.create_graph = create_graph, .grad_outputs = grad_leaves})) {
    flat.push_back(flatten(gradient));
  }
  return concatenate(flat);
}

TEST_P(AutogradDatabase, SecondGradientAgreesWithFiniteDifferences) {
  const Op& op = *find_op(GetParam());
  for (const Sample& sample : op.samples()) {
    if (!sample.backward) continue;
    const std::string what = op.name + " " + sample.label;
    const Outputs outputs = run(sample, leaves_of(sample, float64));
    Tensors points = differentiable(sample, sample.inputs);
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
          return first_gradients(sample, x, g, false);
        },
        [&](const Tensor& v, const Tensors& in) {
          const auto [x, g] = split(in, true);
          Tensors all = x;
          all.insert(all.end(), g.begin(), g.end());
          const Tensor first = first_gradients(sample, x, g, true);
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
