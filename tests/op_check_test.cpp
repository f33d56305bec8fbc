// The checks of the op database on ops with one fault each: the check for a fault must report it.
#include <gtest/gtest.h>

#include <cmath>

#include "op_database/check.h"
#include "op_database/loops.h"

namespace extensor::op_database {
namespace {

struct Report {
  int checks = 0, failures = 0;
  std::string text;  // the failures
};

Report report_of(const Op& op, CheckKind kind) {
  Report report;
  check_op(op, {}, [&](const Check& check, const CheckResult& result) {
    if (check.kind != kind) return;
    ++report.checks;
    if (result.passed) return;
    ++report.failures;
    report.text += std::string(extensor::name(check.dtype)) + ": " + result.message + "\n";
  });
  return report;
}

void expect_reported(const Op& op, CheckKind kind, const std::string& message) {
  const Report report = report_of(op, kind);
  EXPECT_GT(report.checks, 0) << "no check of that kind was made";
  EXPECT_GT(report.failures, 0);
  EXPECT_NE(report.text.find(message), std::string::npos) << report.text;
}

void expect_clean(const Op& op) {
  for (CheckKind kind :
       {CheckKind::value, CheckKind::refusal, CheckKind::gradient, CheckKind::second_gradient}) {
    const Report report = report_of(op, kind);
    EXPECT_GT(report.checks, 0) << name(kind);
    EXPECT_EQ(report.failures, 0) << name(kind) << "\n" << report.text;
  }
}

// a · b of two vectors, element by element, as an op without a fault.
Sample product() {
  return multilinear_sample(
      "[5], [5]", {sample_uniform({5}, 1, 2, 1), sample_uniform({5}, 1, 2, 2)},
      [](const Tensors& in) {
        if (in[0].dtype() == bool_) throw DTypeError("product: a is bool");
        return multiply(in[0], in[1]);
      },
      [](const Tensors& in) {
        Doubles values = doubles(in[0]);
        const Doubles others = doubles(in[1]);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] *= others[i];
        return from_data(values, in[0].shape());
      },
      [](const Tensor& g, const Tensors& in) {
        return Tensors{multiply(g, in[1]), multiply(g, in[0])};
      });
}

Op op_of(const Sample& sample, DTypes dtypes = DTypes::numbers) {
  return {"product",
          "test",
          "a · b",
          "grad a = g · b, grad b = g · a",
          {"product_backward"},
          dtypes,
          [sample] { return std::vector<Sample>{sample}; }};
}

// x with element i of its last dimension changed by `change`, if x has dtype `dtype`.
Tensor spoiled(const Tensor& x, DType dtype, std::int64_t i,
               const std::function<double(double)>& change) {
  if (x.dtype() != dtype) return x;
  Tensor result = x.to(float64).contiguous().clone();
  Tensor element = result.slice(-1, i, i + 1);
  element.copy_from(scalar(change(element.flatten()[0].item<double>()), float64));
  return result.to(dtype);
}

TEST(OpChecks, PassAnOpWithoutAFault) { expect_clean(op_of(product())); }

// ---- gradients

TEST(OpChecks, ReportAnUndefinedGradient) {
  for (std::size_t input : {0, 1}) {
    Sample sample = product();
    sample.backward = [backward = sample.backward, input](const Tensors& g, const Tensors& in) {
      Tensors gradients = backward(g, in);
      gradients[input] = Tensor();
      return gradients;
    };
    expect_reported(op_of(sample), CheckKind::gradient,
                    "the gradient of input " + std::to_string(input) + " is undefined");
    expect_reported(op_of(sample), CheckKind::second_gradient,
                    "the gradient of input " + std::to_string(input) + " is undefined");
  }
}

TEST(OpChecks, ReportABackwardWithoutAnyGradient) {
  Sample sample = product();
  sample.backward = [](const Tensors&, const Tensors&) { return Tensors(2); };
  expect_reported(op_of(sample), CheckKind::gradient, "is undefined");
  sample.backward = [](const Tensors&, const Tensors&) { return Tensors(); };
  expect_reported(op_of(sample), CheckKind::gradient, "0 gradients for 2 inputs");
}

TEST(OpChecks, ReportAGradientOfAConstant) {
  Sample sample = product();
  sample.constants = {1};
  expect_reported(op_of(sample), CheckKind::gradient,
                  "the gradient of input 1 is defined, but the input is not differentiable");
}

TEST(OpChecks, ReportAWrongGradient) {
  Sample sample = product();
  sample.backward = [backward = sample.backward](const Tensors& g, const Tensors& in) {
    Tensors gradients = backward(g, in);
    gradients[1] = spoiled(gradients[1], float64, 3, [](double x) { return x * (1 + 1e-5); });
    return gradients;
  };
  expect_reported(op_of(sample), CheckKind::gradient, "float64: gradcheck: input 1");
}

TEST(OpChecks, ReportAMissingSecondGradient) {
  for (std::size_t which : {0, 1, 2}) {
    Sample sample = product();
    sample.double_backward = [double_backward = sample.double_backward, which](
                                 const Tensors& gg, const Tensors& g, const Tensors& in) {
      Tensors gradients = double_backward(gg, g, in);
      gradients[which] = Tensor();
      return gradients;
    };
    expect_reported(op_of(sample), CheckKind::second_gradient,
                    "gradcheck: input " + std::to_string(which));
  }
}

TEST(OpChecks, ReportAWrongSecondGradientInANarrowDtype) {
  Sample sample = product();
  sample.double_backward = [double_backward = sample.double_backward](
                               const Tensors& gg, const Tensors& g, const Tensors& in) {
    Tensors gradients = double_backward(gg, g, in);
    gradients[0] = spoiled(gradients[0], bfloat16, 2, [](double x) { return 1.25 * x; });
    return gradients;
  };
  expect_reported(op_of(sample), CheckKind::second_gradient, "result 0, element 2");
}

// ---- values

TEST(OpChecks, ReportASampleWithoutAReference) {
  Sample sample = product();
  sample.reference = nullptr;
  const Report report = report_of(op_of(sample), CheckKind::value);
  EXPECT_EQ(report.failures, report.checks);
  EXPECT_NE(report.text.find("the sample has no reference"), std::string::npos);
}

// Softmax with an element a thousand times smaller than the largest and wrong by a quarter: far
// less than the tolerance of the largest element.
Sample softmax_sample(const std::function<Tensor(const Tensor&)>& change) {
  const auto reference = [](const Tensors& in) {
    Doubles values = doubles(in[0]);
    double sum = 0;
    for (double& x : values) sum += x = std::exp(x);
    for (double& x : values) x /= sum;
    return from_data(values, in[0].shape());
  };
  return sample_of(
      "[4]", {from_data(Doubles{0.5, -6.5, 0.25, -0.75})},
      [change](const Tensors& in) { return change(softmax(in[0], 0)); }, reference,
      [](const Tensor& g, const Tensors& in) {
        return Tensors{softmax_backward(g, softmax(in[0], 0), 0)};
      });
}

TEST(OpChecks, ReportAWrongSmallElement) {
  const auto same = [](const Tensor& y) { return y; };
  EXPECT_EQ(report_of(op_of(softmax_sample(same), DTypes::as_float32), CheckKind::value).failures,
            0);
  for (const auto& [dtype, change] :
       {std::pair{float32, 1 + 1e-5}, {float16, 1.01}, {bfloat16, 1.25}}) {
    const auto spoil = [&dtype = dtype, &change = change](const Tensor& y) {
      return spoiled(y, dtype, 1, [&](double x) { return x * change; });
    };
    expect_reported(op_of(softmax_sample(spoil), DTypes::as_float32), CheckKind::value,
                    std::string(extensor::name(dtype)) + ": result 0, element 1");
  }
}

TEST(OpChecks, ReportAWrongSmallGradient) {
  Sample sample = softmax_sample([](const Tensor& y) { return y; });
  sample.backward = [backward = sample.backward](const Tensors& g, const Tensors& in) {
    return Tensors{spoiled(backward(g, in)[0], bfloat16, 1, [](double x) { return 1.25 * x; })};
  };
  expect_reported(op_of(sample), CheckKind::gradient, "bfloat16: result 0, element 1");
}

// A sum that cancels may be off by a fraction of its terms, and by no more.
TEST(OpChecks, MeasureASumByItsTerms) {
  const auto sum_sample = [](double error) {
    return sample_of(
        "[3]", {from_data(Doubles{1, 1e-3, -1})},
        [error](const Tensors& in) {
          return spoiled(sum(in[0]).reshape({1}), float32, 0,
                         [error](double x) { return x + error; });
        },
        [](const Tensors& in) {
          double total = 0;
          for (double x : doubles(in[0])) total += x;
          return from_data(Doubles{total});
        });
  };
  EXPECT_EQ(report_of(op_of(sum_sample(1e-7), DTypes::as_64_bits), CheckKind::value).failures, 0);
  expect_reported(op_of(sum_sample(1e-5), DTypes::as_64_bits), CheckKind::value, "float32: ");
}

TEST(OpChecks, ReportAWrongShapeAndAWrongDtype) {
  Sample sample = product();
  sample.forward = [forward = sample.forward](const Tensors& in) {
    return Tensors{forward(in)[0].unsqueeze(0)};
  };
  expect_reported(op_of(sample), CheckKind::value, "result 0 is [1, 5], expected [5]");
  sample = product();
  sample.forward = [forward = sample.forward](const Tensors& in) {
    const Tensor y = forward(in)[0];
    return Tensors{y.dtype() == int16 ? y.to(int32) : y};
  };
  expect_reported(op_of(sample), CheckKind::value, "int16: result 0 is int32, expected int16");
  sample.forward = [](const Tensors& in) {
    Tensors results{multiply(in[0], in[1])};
    results.emplace_back();
    return results;
  };
  expect_reported(op_of(sample), CheckKind::value, "2 results, expected 1");
}

// ---- dtypes

TEST(OpChecks, ReportAListedDtypeThatIsRefused) {
  expect_reported(op_of(product(), DTypes::all), CheckKind::value,
                  "bool: threw: product: a is bool");
  Sample sample = product();
  sample.forward = [forward = sample.forward](const Tensors& in) {
    if (in[0].dtype() == uint16) throw DTypeError("product: a is uint16");
    return forward(in);
  };
  expect_reported(op_of(sample), CheckKind::value, "uint16: threw: product: a is uint16");
}

TEST(OpChecks, ReportAWrongValueInAnInteger) {
  for (DType dtype : {int8, int16, int32, int64, uint8, uint16, uint32, uint64}) {
    Sample sample = product();
    sample.forward = [forward = sample.forward, dtype](const Tensors& in) {
      return Tensors{spoiled(forward(in)[0], dtype, 4, [](double x) { return x + 1; })};
    };
    expect_reported(op_of(sample), CheckKind::value,
                    std::string(extensor::name(dtype)) + ": result 0, element 4");
  }
}

TEST(OpChecks, ReportAnUnlistedDtypeThatIsTaken) {
  expect_reported(op_of(product(), DTypes::floats), CheckKind::refusal,
                  "int32: the dtype is not listed, but was taken");
  Sample sample = product();
  sample.forward = [](const Tensors& in) -> Tensors {
    if (in[0].dtype() == bool_) throw ValueError("product: a is bool");
    return {multiply(in[0], in[1])};
  };
  expect_reported(op_of(sample), CheckKind::refusal, "something else than a DTypeError");
}

}  // namespace
}  // namespace extensor::op_database
