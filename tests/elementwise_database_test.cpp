// The op database's entries of the op tables: none is missing, and their samples agree.
#include <gtest/gtest.h>

#include <cmath>

#include "op_database/elementwise_rows.h"
#include "op_database/op_database.h"
#include "op_database/readable.h"
#include "support/gradients.h"

namespace extensor {
namespace {

using gradients::expect_gradient;
using op_database::Op;
using op_database::readable;
using op_database::Sample;
using op_database::Tensors;

std::vector<Op> elementwise_ops() {
  std::vector<Op> ops;
  op_database::add_elementwise(ops);
  return ops;
}

TEST(ElementwiseDatabase, EveryRowIsAnOp) {
  const auto expect_op = [](const std::string& name) {
    EXPECT_NE(op_database::find_op(name), nullptr) << name;
  };
  for (const auto& row : op_registry::unary_rows()) expect_op(row.name);
  for (const auto& row : op_registry::binary_rows()) expect_op(row.name);
  for (const auto& row : op_registry::compare_rows()) expect_op(row.name);
  for (const auto& row : op_registry::predicate_rows()) expect_op(row.name);
  for (const auto& row : op_registry::bitwise_rows()) expect_op(row.name);
  for (const auto& row : op_registry::bitwise_unary_rows()) expect_op(row.name);
}

TEST(ElementwiseDatabase, ForwardsAgreeWithReferences) {
  for (const Op& op : elementwise_ops()) {
    for (const Sample& sample : op.samples()) {
      SCOPED_TRACE(op.name + " " + sample.label);
      ASSERT_TRUE(sample.reference);
      const Tensor got = sample.forward(sample.inputs)[0];
      const Tensor expected = sample.reference(sample.inputs)[0];
      ASSERT_EQ(got.shape(), expected.shape());
      const auto values = got.to(float64).to_vector<double>();
      const auto exact = expected.to(float64).to_vector<double>();
      for (std::size_t i = 0; i < exact.size(); ++i) {
        EXPECT_LE(std::fabs(values[i] - exact[i]), 1e-14 * std::fabs(exact[i]));
      }
    }
  }
}

// All gradients of one input's gradient at a time, each against finite differences.
TEST(ElementwiseDatabase, DoubleBackwardsAgreeWithFiniteDifferences) {
  for (const Op& op : elementwise_ops()) {
    for (const Sample& sample : op.samples()) {
      if (!sample.double_backward || sample.inputs[0].dtype() != float64) continue;
      SCOPED_TRACE(op.name + " " + sample.label);
      const Tensor output = sample.forward(sample.inputs)[0];
      Tensors inputs = {op_database::sample_uniform(output.shape(), 0.5, 1.5, 3)};
      inputs.insert(inputs.end(), sample.inputs.begin(), sample.inputs.end());
      const auto rest = [](const Tensors& in) { return Tensors(in.begin() + 1, in.end()); };
      for (std::size_t k = 0; k < sample.inputs.size(); ++k) {
        expect_gradient(
            op.name, [&](const Tensors& in) { return sample.backward({in[0]}, rest(in))[k]; },
            [&](const Tensor& gg, const Tensors& in) {
              Tensors grad_gradients;
              for (const Tensor& input : rest(in)) grad_gradients.push_back(zeros_like(input));
              grad_gradients[k] = gg;
              return sample.double_backward(grad_gradients, {in[0]}, rest(in));
            },
            inputs);
      }
    }
  }
}

TEST(ElementwiseDatabase, FormulasAreReadable) {
  EXPECT_EQ(readable("2 * g * x"), "2 · g · x");
  EXPECT_EQ(readable("select(x > 0, g, 0)"), "g where x > 0, else 0");
  EXPECT_EQ(readable("g * select(x >= lo && x <= hi, 1, select(x < 0, a(b, c), -1))"),
            "g · (1 where x ≥ lo and x ≤ hi, else a(b, c) where x < 0, else −1)");
  EXPECT_EQ(op_database::find_op("elu")->formula, "y = x where x > 0, else alpha · expm1(x)");
  EXPECT_EQ(op_database::find_op("multiply")->gradient, "grad a = g · b, grad b = g · a");
  EXPECT_EQ(op_database::find_op("log2")->gradient, "grad x = g / (safe(x) · ln 2)");
  for (const Op& op : elementwise_ops()) {
    EXPECT_EQ(op.formula.find('*'), std::string::npos) << op.name << ": " << op.formula;
    EXPECT_EQ(op.gradient.find("select"), std::string::npos) << op.name << ": " << op.gradient;
  }
}

}  // namespace
}  // namespace extensor
