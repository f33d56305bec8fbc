// Ops as values: the registry; printing, comparing and replaying calls; and errors of dispatch.
#include "ops/op.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "extensor/extensor.h"
#include "op_database/op_database.h"
#include "op_database/variants.h"
#include "ops/registry.h"

namespace extensor {
namespace {

using ops::CallNode;
using ops::find_op;
using ops::Op;
using ops::registered_ops;

const CallNode& node_of(const Tensor& x) {
  return dynamic_cast<const CallNode&>(*detail::node_of(x.impl()));
}

TEST(OpRegistry, NamesAreUniqueAndInputsAreNamed) {
  std::set<std::string> names;
  for (const Op* op : registered_ops()) {
    EXPECT_TRUE(names.insert(op->name).second) << op->name << " is listed twice";
    EXPECT_NE(op->inputs[0], nullptr) << op->name;
    for (std::size_t k = 0; k < op->input_count; ++k) {
      ASSERT_NE(op->inputs[k], nullptr) << op->name << ", input " << k;
      EXPECT_STRNE(op->inputs[k], "") << op->name << ", input " << k;
    }
  }
  EXPECT_GT(names.size(), 5U);
}

// Every op that a sample of the database runs is listed, and every listed op is run by one.
TEST(OpRegistry, ListsWhatTheDatabaseRuns) {
  static std::set<const Op*> seen;
  seen.clear();
  const detail::CaptureScope capture(
      [](const Op& op, const void*, ops::Inputs, std::span<const Tensor>) { seen.insert(&op); });
  for (const op_database::Op& op : op_database::ops()) {
    for (const op_database::Sample& sample : op.samples()) {
      const DType dtype = contains(op.dtypes, float64) ? float64 : int64;
      op_database::Tensors inputs = op_database::has_dtypes(sample)
                                        ? arranged(sample, dtype, layouts::Layout::contiguous)
                                        : sample.inputs;
      op_database::Tensors leaves;
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (!sample.backward || !op_database::is_differentiable(sample, k)) continue;
        inputs[k] = inputs[k].detach().requires_grad_();
        leaves.push_back(inputs[k]);
      }
      op_database::Tensors outputs = sample.forward(inputs);
      if (!sample.backward) continue;
      op_database::Tensors grads;
      for (const Tensor& y : outputs) {
        grads.push_back(is_floating_point(y.dtype()) ? ones_like(y) : Tensor());
      }
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (grads[k].defined() && outputs[k].requires_grad()) {
          grad({outputs[k]}, leaves,
               {.create_graph = true, .allow_unused = true, .grad_outputs = {grads[k]}});
        }
      }
      if (sample.saves_results) inputs.insert(inputs.end(), outputs.begin(), outputs.end());
      sample.backward(grads, inputs);
      // Some backwards are composed of other ops when they are recorded.
      const NoGrad off;
      sample.backward(grads, inputs);
    }
  }
  cross_entropy_with_statistics(ones({2, 3}), zeros({2}, int64));
  // The samples of the database are real.
  const Tensor z = complex(ones({2}), ones({2}));
  for (const Tensor& y : {real(z), imag(z), conj(z), angle(z), view_as_complex(view_as_real(z))}) {
    EXPECT_EQ(y.numel(), 2);
  }
  const std::set<const Op*> listed(registered_ops().begin(), registered_ops().end());
  for (const Op* op : seen) EXPECT_TRUE(listed.contains(op)) << op->name << " is not listed";
  for (const Op* op : listed) {
    // Copies between devices need a second device: fake_device_test makes them. The gradient of a
    // sum is the incoming one, without a call.
    static const std::set<std::string_view> not_run{"to", "add_gradient_a", "add_gradient_b",
                                                    "subtract_gradient_a"};
    if (not_run.contains(op->name)) continue;
    EXPECT_TRUE(seen.contains(op)) << op->name << " is run by no sample";
  }
}

TEST(RecordedCall, IsPrintedWithItsAttributes) {
  const Tensor x = ones({2, 3}).requires_grad_();
  EXPECT_EQ(node_of(softmax(x, 1)).describe(), "softmax(axis=1)");
  EXPECT_EQ(node_of(logsumexp(x, {0, 1}, true)).describe(),
            "logsumexp(axes=[0, 1], keepdims=true)");
  EXPECT_EQ(node_of(logsumexp(x)).describe(), "logsumexp(axes=all, keepdims=false)");
}

TEST(RecordedCall, OfARowIsPrintedWithItsNumbersAndParameters) {
  const Tensor x = ones({2, 3}).requires_grad_();
  EXPECT_EQ(node_of(x + x).describe(), "add()");
  EXPECT_EQ(node_of(x * 2).describe(), "multiply(b=2)");
  EXPECT_EQ(node_of(2.5 / x).describe(), "divide(a=2.5)");
  EXPECT_EQ(node_of(leaky_relu(x, 0.25)).describe(), "leaky_relu(alpha=0.25)");
  EXPECT_EQ(node_of(clip(x, -1, 1)).describe(), "clip(lo=-1, hi=1)");
  EXPECT_EQ(node_of(x.to(float16)).describe(), "to(dtype=float16)");
  Tensor y = x * 1;
  y += 3;
  EXPECT_EQ(node_of(y).describe(), "add_(b=3)");
}

TEST(RecordedCall, OfARowIsComparedAndRunsAgain) {
  const Tensor x = ones({2, 3}).requires_grad_(), other = arange(4, float64);
  EXPECT_TRUE(ops::same_call(node_of(x * 2), node_of(x * 2)));
  EXPECT_FALSE(ops::same_call(node_of(x * 2), node_of(x * 3)));
  EXPECT_FALSE(ops::same_call(node_of(x * 2), node_of(2 * x)));
  EXPECT_FALSE(ops::same_call(node_of(clip(x, 0, 1)), node_of(clip(x, 0, 2))));
  const Tensor wide = zeros({4}, float64).requires_grad_();
  const Tensor none;
  const Tensor* list[] = {&none, &other};
  const Tensor difference = 8 - wide;
  const Tensor again = ops::replay(node_of(difference), ops::Inputs(list, 2))[0];
  EXPECT_TRUE(allclose(again, 8 - other, 0, 0));
  // dispatch() runs rows as it runs other ops, and records them.
  const Tensor* same[] = {&none, &wide};
  const CallNode& call = node_of(difference);
  const Tensor recorded = ops::dispatch(call.op(), call.attributes(), ops::Inputs(same, 2))[0];
  EXPECT_TRUE(ops::same_call(node_of(recorded), call));
}

// A capture sees the calls of the program, with their inputs and results, but not the ops inside
// another op.
TEST(Capture, SeesEveryCallOfTheProgram) {
  static std::vector<std::string> calls;
  static std::vector<const void*> made;
  calls.clear();
  made.clear();
  Tensor x = ones({2, 3});
  const Tensor weight = ones({4, 3}), order = tensor({1, 0});
  {
    const detail::CaptureScope capture(
        [](const Op& op, const void* attributes, ops::Inputs inputs, std::span<const Tensor> out) {
          calls.push_back(std::string(op.name) + "(" + op.attributes->describe(attributes) + ")");
          for (std::size_t k = 0; k < inputs.size(); ++k) {
            if (!inputs[k].defined()) calls.back() += " number " + std::to_string(k);
          }
          made.push_back(out[0].impl_or_null());
        });
    const Tensor y = transpose(x * 2, {1, 0}).slice(0, 0, 2);
    const Tensor row = x[0], flat = x.reshape({6}), some = x[order];
    x += 1;
    const Tensor z = softmax(linear(x, weight), 1);
    EXPECT_EQ(made.back(), z.impl_or_null());
    EXPECT_EQ(made[6], x.impl_or_null());
  }
  const Tensor after = x + x;
  const std::vector<std::string> expected{
      "multiply(b=2) number 1", "transpose", "slice",          "index_view", "reshape", "index",
      "add(b=1) number 1",      "linear",    "softmax(axis=1)"};
  ASSERT_EQ(calls.size(), expected.size());
  for (std::size_t k = 0; k < calls.size(); ++k) {
    EXPECT_EQ(calls[k].substr(0, expected[k].size()), expected[k]);
  }
}

TEST(RecordedCall, ComparesOpAndAttributes) {
  const Tensor x = ones({2, 3}).requires_grad_(), other = zeros({2, 3}).requires_grad_();
  const Tensor a = softmax(x, 1), b = softmax(other, 1), c = softmax(x, 0), d = log_softmax(x, 1);
  EXPECT_TRUE(ops::same_call(node_of(a), node_of(b)));
  EXPECT_FALSE(ops::same_call(node_of(a), node_of(c)));
  EXPECT_FALSE(ops::same_call(node_of(a), node_of(d)));
  const Tensor e = logsumexp(x, {0}), f = logsumexp(x, {0}), g = logsumexp(x);
  EXPECT_TRUE(ops::same_call(node_of(e), node_of(f)));
  EXPECT_FALSE(ops::same_call(node_of(e), node_of(g)));
}

TEST(RecordedCall, RunsAgainOnOtherInputs) {
  const Tensor x = arange(6, float64).reshape({2, 3}).requires_grad_();
  const Tensor y = softmax(x, 0);
  const Tensor other = randn({3, 2});
  const Tensor* list[] = {&other};
  const ops::Results again = ops::replay(node_of(y), ops::Inputs(list, 1));
  EXPECT_TRUE(allclose(again[0], softmax(other, 0), 0, 0));
}

TEST(Dispatch, SavesOnlyWhatAnAskedGradientReads) {
  // linear's gradient of x reads only the weight, so x may change.
  Tensor x = randn({4, 3}).requires_grad_();
  const Tensor weight = randn({2, 3});
  Tensor input = x * 1;
  const Tensor y = linear(input, weight);
  {
    const NoGrad off;
    input.fill(0);
  }
  sum(y).backward();
  EXPECT_TRUE(allclose(x.grad(), matmul(ones({4, 2}), weight)));
}

TEST(Dispatch, RefusesUndefinedInputs) {
  EXPECT_THROW(softmax(Tensor()), ValueError);
  EXPECT_THROW(linear(ones({2, 3}), Tensor()), ValueError);
  EXPECT_NO_THROW(linear(ones({2, 3}), ones({4, 3})));  // the bias is optional
}

}  // namespace
}  // namespace extensor
