// float16 and bfloat16: every function of one tensor, on all 65,536 inputs, is the value in long
// double, rounded once. The only ambiguity is close to 0: gelu, silu and hard_swish are x/2 + cx²
// there, for a subnormal bfloat16 long double represents only the x/2, and a tie rounds to even.
#include <gtest/gtest.h>

#include "op_database/elementwise_reference.h"
#include "op_database/elementwise_rows.h"
#include "support/compare.h"

namespace extensor {
namespace {

using op_database::UnaryRow;

class HalfRounding : public ::testing::TestWithParam<UnaryRow> {};

template <class Half>
Tensor every_half() {
  std::vector<Half> halves;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    halves.push_back(Half::from_bits(static_cast<std::uint16_t>(bits)));
  }
  return from_data(halves);
}

// The number of results that are not correctly rounded, and the first of them.
struct Misses {
  int count = 0;
  double x = 0, got = 0, expected = 0;
};

Misses count_misses(const UnaryRow& row, const reference::Unary& exact, const Tensor& inputs) {
  const compare::Format format = compare::format_of(inputs.dtype());
  // Weak parameters have the dtype in which halves are computed.
  reference::Parameters parameters;
  if (!row.parameters.empty()) parameters.p = static_cast<float>(row.parameters[0]);
  if (row.parameters.size() > 1) parameters.q = static_cast<float>(row.parameters[1]);
  const auto x = compare::values_of(inputs), got = compare::values_of(row.forward(inputs));
  Misses misses;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto expected = static_cast<double>(compare::rounded_to(format, exact(x[i], parameters)));
    const bool right = expected == got[i] ? expected != 0 || compare::same_zero(expected, got[i])
                                          : expected != expected && got[i] != got[i];
    if (right) continue;
    if (misses.count++ == 0) misses = {1, x[i], got[i], expected};
  }
  return misses;
}

TEST_P(HalfRounding, EveryInputIsRoundedCorrectly) {
  const UnaryRow& row = GetParam();
  const auto found = reference::unary_references().find(row.name);
  ASSERT_NE(found, reference::unary_references().end())
      << "the row '" << row.name
      << "' has no reference: add a line to op_database/elementwise_reference.h";
  for (const Tensor& inputs : {every_half<Float16>(), every_half<BFloat16>()}) {
    const Misses misses = count_misses(row, found->second, inputs);
    EXPECT_EQ(misses.count, 0) << name(inputs.dtype())
                               << ", first at x = " << testing::PrintToString(misses.x) << ": got "
                               << testing::PrintToString(misses.got) << ", expected "
                               << testing::PrintToString(misses.expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, HalfRounding, ::testing::ValuesIn(op_database::unary_rows()),
                         [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace extensor
