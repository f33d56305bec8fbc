// Losses, embedding and dropout on the op database's samples: values in every dtype and layout,
// gradients against finite differences, narrow dtypes against float64, second derivatives.
#include <gtest/gtest.h>

#include "op_database/op_database.h"
#include "support/compare.h"
#include "support/gradients.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using gradients::expect_gradient;
using gradients::Tensors;
using layouts::Layout;
using op_database::Op;
using op_database::Sample;

const auto* const counter = ::testing::AddGlobalTestEnvironment(new gradients::Counter);

struct Narrow {
  DType dtype;
  double tolerance;
};
constexpr Narrow narrow_dtypes[] = {
    {DType::float32, 1.3e-6}, {DType::float16, 1e-3}, {DType::bfloat16, 1.6e-2}};

std::vector<Sample> samples_of(const std::string& name) {
  const Op* op = op_database::find_op(name);
  EXPECT_NE(op, nullptr) << name;
  return op == nullptr ? std::vector<Sample>() : op->samples();
}

Tensor arranged(const Tensor& x, Layout layout) {
  if (!layouts::is_distinct(layout, x.shape())) return x;
  // A broadcast view can hold other numbers only, which the samples allow for.
  const Tensor drawn = layout == Layout::broadcast ? x.slice(0, 0, 1) : x;
  return layouts::with_layout(drawn, layout, x.shape());
}

Tensors arranged(const Tensors& inputs, Layout layout, DType dtype) {
  Tensors result;
  for (const Tensor& x : inputs) {
    result.push_back(is_floating_point(x.dtype()) ? arranged(x.to(dtype), layout) : x);
  }
  return result;
}

Tensors widened(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& x : tensors) {
    result.push_back(x.defined() && is_floating_point(x.dtype()) ? x.to(DType::float64) : x);
  }
  return result;
}

void expect_close(const Tensor& got, const Tensor& expected, double tolerance,
                  const std::string& where) {
  ASSERT_EQ(got.shape(), expected.shape()) << where;
  if (got.numel() == 0) return;
  const double largest = max_reduce(abs(expected)).item<double>();
  const double error = max_reduce(abs(got.to(DType::float64) - expected)).item<double>();
  EXPECT_LE(error, tolerance * largest) << where << ": got " << got << " expected " << expected;
}

Tensors random_gradients(const Tensors& outputs) {
  Tensors result;
  unsigned seed = 31;
  for (const Tensor& y : outputs) {
    result.push_back(draw::uniform(y.shape(), 0.5, 1.5, seed++).to(y.dtype()));
  }
  return result;
}

const char* const names[] = {"binary_cross_entropy",
                             "binary_cross_entropy_with_logits",
                             "mean_squared_error",
                             "l1_loss",
                             "smooth_l1_loss",
                             "huber_loss",
                             "hinge_loss",
                             "kl_divergence",
                             "focal_loss",
                             "cross_entropy",
                             "nll_loss",
                             "triplet_margin_loss",
                             "embedding",
                             "dropout"};

class EverySample : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Losses, EverySample, ::testing::ValuesIn(names),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EverySample, ValuesInEveryDtypeAndLayout) {
  for (const Sample& sample : samples_of(GetParam())) {
    for (Layout layout : layouts::every_layout) {
      const auto check = [&](DType dtype, double tolerance) {
        const Tensors inputs = arranged(sample.inputs, layout, dtype);
        const Tensors got = sample.forward(inputs), expected = sample.reference(widened(inputs));
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(got[i].dtype(), dtype);
          expect_close(got[i], expected[i], tolerance,
                       sample.label + " " + name(dtype) + " " + layouts::name(layout));
        }
      };
      check(DType::float64, 1e-13);
      for (const Narrow& narrow : narrow_dtypes) check(narrow.dtype, narrow.tolerance);
    }
  }
}

TEST_P(EverySample, GradientsOfNarrowDtypesAgreeWithFloat64) {
  for (const Sample& sample : samples_of(GetParam())) {
    if (!sample.backward) continue;
    for (const Narrow& narrow : narrow_dtypes) {
      for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::stepped}) {
        const Tensors inputs = arranged(sample.inputs, layout, narrow.dtype);
        const Tensors g = random_gradients(sample.forward(inputs));
        const Tensors got = sample.backward(g, inputs);
        const Tensors expected = sample.backward(widened(g), widened(inputs));
        ASSERT_EQ(got.size(), inputs.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i].defined(), expected[i].defined());
          if (!got[i].defined()) continue;
          EXPECT_EQ(got[i].dtype(), narrow.dtype);
          expect_close(got[i], expected[i], narrow.tolerance,
                       sample.label + " " + name(narrow.dtype) + " input " + std::to_string(i));
        }
      }
    }
  }
}

// A sample's forward and backward as functions of the inputs that have gradients.
struct Differentiable {
  Tensors inputs;
  ForwardFunction forward;
  BackwardFunction backward;
};

std::vector<Differentiable> gradients_of(const std::string& name) {
  std::vector<Differentiable> result;
  for (const Sample& sample : samples_of(name)) {
    if (!sample.backward) continue;
    for (Layout layout : layouts::every_layout) {
      const Tensors all = arranged(sample.inputs, layout, DType::float64);
      const Tensors probe = sample.backward(random_gradients(sample.forward(all)), all);
      std::vector<std::size_t> moved;
      Differentiable d;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (!probe[i].defined()) continue;
        moved.push_back(i);
        d.inputs.push_back(all[i]);
      }
      const auto complete = [=](const Tensors& in) {
        Tensors inputs = all;
        for (std::size_t k = 0; k < moved.size(); ++k) inputs[moved[k]] = in[k];
        return inputs;
      };
      d.forward = [=](const Tensors& in) { return sample.forward(complete(in))[0]; };
      d.backward = [=](const Tensor& g, const Tensors& in) {
        const Tensors gradients = sample.backward({g}, complete(in));
        Tensors wanted;
        for (std::size_t k : moved) wanted.push_back(gradients[k]);
        return wanted;
      };
      result.push_back(d);
    }
  }
  EXPECT_FALSE(result.empty()) << name;
  return result;
}

TEST(SampleGradient, BinaryCrossEntropy) {
  for (const Differentiable& d : gradients_of("binary_cross_entropy")) {
    expect_gradient("binary_cross_entropy_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, BinaryCrossEntropyWithLogits) {
  for (const Differentiable& d : gradients_of("binary_cross_entropy_with_logits")) {
    expect_gradient("binary_cross_entropy_with_logits_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, MeanSquaredError) {
  for (const Differentiable& d : gradients_of("mean_squared_error")) {
    expect_gradient("mean_squared_error_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, L1Loss) {
  for (const Differentiable& d : gradients_of("l1_loss")) {
    expect_gradient("l1_loss_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, SmoothL1Loss) {
  for (const Differentiable& d : gradients_of("smooth_l1_loss")) {
    expect_gradient("smooth_l1_loss_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, HuberLoss) {
  for (const Differentiable& d : gradients_of("huber_loss")) {
    expect_gradient("huber_loss_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, HingeLoss) {
  for (const Differentiable& d : gradients_of("hinge_loss")) {
    expect_gradient("hinge_loss_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, KlDivergence) {
  for (const Differentiable& d : gradients_of("kl_divergence")) {
    expect_gradient("kl_divergence_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, FocalLoss) {
  for (const Differentiable& d : gradients_of("focal_loss")) {
    expect_gradient("focal_loss_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, CrossEntropy) {
  for (const Differentiable& d : gradients_of("cross_entropy")) {
    expect_gradient("cross_entropy_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, NllLoss) {
  for (const Differentiable& d : gradients_of("nll_loss")) {
    expect_gradient("nll_loss_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, TripletMarginLoss) {
  for (const Differentiable& d : gradients_of("triplet_margin_loss")) {
    expect_gradient("triplet_margin_loss_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, Embedding) {
  for (const Differentiable& d : gradients_of("embedding")) {
    expect_gradient("embedding_backward", d.forward, d.backward, d.inputs);
  }
}
TEST(SampleGradient, Dropout) {
  for (const Differentiable& d : gradients_of("dropout")) {
    expect_gradient("dropout_backward", d.forward, d.backward, d.inputs);
  }
}

// The backward as a function of grad_output and the inputs, weighted by random numbers: its
// derivative is what the double backward gives.
void expect_double_backward(const std::string& op) {
  int checked = 0;
  for (const Sample& sample : samples_of(op)) {
    if (!sample.double_backward) continue;
    ++checked;
    const Tensors& all = sample.inputs;
    const Tensors g = random_gradients(sample.forward(all));
    const Tensors first = sample.backward(g, all);
    Tensors weights;
    for (std::size_t i = 0; i < first.size(); ++i) {
      weights.push_back(first[i].defined() ? draw::uniform(first[i].shape(), -1, 1, 40 + i)
                                           : Tensor());
    }
    // grad_output, then the inputs that have gradients.
    std::vector<std::size_t> moved;
    Tensors inputs{g[0]};
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!first[i].defined()) continue;
      moved.push_back(i);
      inputs.push_back(all[i]);
    }
    const auto complete = [&](const Tensors& in) {
      Tensors result = all;
      for (std::size_t k = 0; k < moved.size(); ++k) result[moved[k]] = in[k + 1];
      return result;
    };
    const auto forward = [&](const Tensors& in) {
      const Tensors gradients = sample.backward({in[0]}, complete(in));
      Tensor total = zeros({}, DType::float64);
      for (std::size_t k : moved) total = total + sum(gradients[k] * weights[k]);
      return total;
    };
    const auto backward = [&](const Tensor& of_total, const Tensors& in) {
      Tensors scaled;
      for (const Tensor& w : weights) scaled.push_back(w.defined() ? w * of_total : w);
      const Tensors second = sample.double_backward(scaled, {in[0]}, complete(in));
      EXPECT_EQ(second.size(), 1 + all.size());
      Tensors wanted{second[0]};
      for (std::size_t k : moved) wanted.push_back(second[k + 1]);
      return wanted;
    };
    SCOPED_TRACE(sample.label);
    expect_gradient(op + "_double_backward", forward, backward, inputs);
  }
  EXPECT_GT(checked, 0) << op;
}

TEST(SampleGradient, DoubleBackward) {
  for (const char* op : {"mean_squared_error", "binary_cross_entropy_with_logits", "cross_entropy",
                         "embedding", "dropout"}) {
    expect_double_backward(op);
  }
}

// gradcheck_test reads the names from calls that spell them out.
TEST(SampleGradient, DoubleBackwardOfOneLogit) {
  const Tensor x = full({1}, 0.3, DType::float64), y = full({1}, 0.8, DType::float64);
  const Tensor a = full({1}, 0.7, DType::float64);
  expect_gradient(
      "mean_squared_error_double_backward",
      [&](const Tensors& in) { return mean_squared_error_backward(in[0], in[1], y).first * a; },
      [&](const Tensor& g, const Tensors& in) {
        const auto second = mean_squared_error_double_backward(a * g, Tensor(), in[0], in[1], y);
        return Tensors{second.grad_output, second.input};
      },
      {full({}, 1.1, DType::float64), x});
  expect_gradient(
      "binary_cross_entropy_with_logits_double_backward",
      [&](const Tensors& in) {
        return binary_cross_entropy_with_logits_backward(in[0], in[1], y).first * a;
      },
      [&](const Tensor& g, const Tensors& in) {
        const auto second =
            binary_cross_entropy_with_logits_double_backward(a * g, Tensor(), in[0], in[1], y);
        return Tensors{second.grad_output, second.input};
      },
      {full({}, 1.1, DType::float64), x});
  const Tensor logits = draw::uniform({4}, -1, 1, 3), label = scalar(2);
  const Tensor weights = draw::uniform({4}, -1, 1, 4);
  expect_gradient(
      "cross_entropy_double_backward",
      [&](const Tensors& in) {
        return cross_entropy_backward(in[0], in[1], label).first * weights;
      },
      [&](const Tensor& g, const Tensors& in) {
        const auto [of_output, of_logits] =
            cross_entropy_double_backward(weights * g, in[0], in[1], label);
        return Tensors{of_output, of_logits};
      },
      {full({}, 1.1, DType::float64), logits});
}

}  // namespace
}  // namespace extensor
