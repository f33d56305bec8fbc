// Every row of the op tables on all 65,536 numbers of float16 and bfloat16. Functions of one tensor
// are correctly rounded; gradients and functions of two tensors are within one unit of the last
// place.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cuda/cuda_test.h"
#include "op_database/elementwise_reference.h"
#include "op_database/elementwise_rows.h"
#include "support/compare.h"

namespace extensor {
namespace {

using cuda_test::device;
using op_database::BinaryRow;
using op_database::UnaryRow;

template <class Half>
Tensor every_half() {
  std::vector<Half> halves;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    halves.push_back(Half::from_bits(static_cast<std::uint16_t>(bits)));
  }
  return from_data(halves);
}

// Counts differences and describes the first of them.
class Differences {
 public:
  void add(const std::string& text) {
    if (count_++ == 0) first_ = text;
  }
  void expect_none(const std::string& what) const {
    EXPECT_EQ(count_, 0) << what << ": first " << first_;
  }

 private:
  int count_ = 0;
  std::string first_;
};

std::string described(double x, double got, double expected) {
  return "at " + testing::PrintToString(x) + ": got " + testing::PrintToString(got) +
         ", expected " + testing::PrintToString(expected);
}

// Within one unit of the last place of results in float64, or the CPU's: where a term of the
// formula overflows in float32, so it does on the CPU. A NaN has no sign.
void expect_close(const std::string& what, const Tensor& x, const Tensor& got, const Tensor& near,
                  const Tensor& exact) {
  const compare::Format format = compare::format_of(got.dtype());
  const auto at = compare::values_of(x), a = compare::values_of(got.to(cpu_device)),
             b = compare::values_of(exact), c = compare::values_of(near);
  ASSERT_EQ(a.size(), b.size()) << what;
  Differences differences;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_zero = a[i] == 0 && compare::rounded_to(format, b[i]) == 0;
    if (a[i] == c[i] || both_zero || compare::ulp_error(format, a[i], b[i]) <= 1) continue;
    if (at[i] != at[i] && std::fabs(a[i]) == std::fabs(b[i])) continue;
    differences.add(described(at[i], a[i], b[i]));
  }
  differences.expect_none(what + " of " + name(got.dtype()));
}

class CudaHalves : public cuda_test::CudaTest, public ::testing::WithParamInterface<UnaryRow> {};

TEST_P(CudaHalves, ValuesAreRoundedCorrectly) {
  const UnaryRow& row = GetParam();
  const reference::Unary& exact = reference::unary_references().at(row.name);
  reference::Parameters parameters;  // in the dtype in which halves are computed
  if (!row.parameters.empty()) parameters.p = static_cast<float>(row.parameters[0]);
  if (row.parameters.size() > 1) parameters.q = static_cast<float>(row.parameters[1]);
  for (const Tensor& inputs : {every_half<Float16>(), every_half<BFloat16>()}) {
    const compare::Format format = compare::format_of(inputs.dtype());
    const auto x = compare::values_of(inputs);
    const auto got = compare::values_of(row.forward(inputs.to(device)).to(cpu_device));
    Differences differences;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto expected =
          static_cast<double>(compare::rounded_to(format, exact(x[i], parameters)));
      const bool right = expected == got[i] ? expected != 0 || compare::same_zero(expected, got[i])
                                            : expected != expected && got[i] != got[i];
      if (!right) differences.add(described(x[i], got[i], expected));
    }
    differences.expect_none(name(inputs.dtype()));
  }
  RecordProperty("cases", 2 * 65536);
}

TEST_P(CudaHalves, GradientsAreClose) {
  const UnaryRow& row = GetParam();
  for (const Tensor& inputs : {every_half<Float16>(), every_half<BFloat16>()}) {
    const Tensor saved = row.saved(inputs), g = full_like(inputs, 1.25);
    const Tensor exact = row.backward(g.to(float64), saved.to(float64));
    const Tensor near = row.backward(g, saved);
    expect_close("gradient", saved, row.backward(g.to(device), saved.to(device)), near, exact);
    // Large gradients of bfloat16 look up the derivative.
    const Tensor many = concatenate(std::vector<Tensor>(64, saved)).to(device);
    const Tensor long_result = row.backward(full_like(many, 1.25), many);
    expect_close("long gradient", saved, long_result.slice(0, 63 * 65536), near, exact);
  }
  RecordProperty("cases", 4 * 65536);
}

INSTANTIATE_TEST_SUITE_P(Rows, CudaHalves, ::testing::ValuesIn(op_database::unary_rows()),
                         [](const auto& info) { return info.param.label; });

class CudaHalfPairs : public cuda_test::CudaTest,
                      public ::testing::WithParamInterface<BinaryRow> {};

// All halves with each of a few others.
TEST_P(CudaHalfPairs, AreClose) {
  const BinaryRow& row = GetParam();
  const double others[] = {0.0, 1.0, -1.0, 0.3125, -2.5, 3.0, 100.0};
  for (const Tensor& inputs : {every_half<Float16>(), every_half<BFloat16>()}) {
    for (const double other : others) {
      const Tensor b = full_like(inputs, other);
      const std::string what = row.name + " with " + testing::PrintToString(other);
      expect_close(what, inputs, row.forward(inputs.to(device), b.to(device)),
                   row.forward(inputs, b), row.forward(inputs.to(float64), b.to(float64)));
      expect_close(what + " on the left", inputs, row.forward(b.to(device), inputs.to(device)),
                   row.forward(b, inputs), row.forward(b.to(float64), inputs.to(float64)));
    }
  }
  RecordProperty("cases", 2 * 2 * 7 * 65536);
}

INSTANTIATE_TEST_SUITE_P(Rows, CudaHalfPairs, ::testing::ValuesIn(op_database::binary_rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace extensor
