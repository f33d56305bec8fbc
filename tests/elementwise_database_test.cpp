// The op database has an entry for every row of the op tables, with a readable formula.
#include <gtest/gtest.h>

#include "op_database/elementwise_rows.h"
#include "op_database/op_database.h"
#include "op_database/readable.h"

namespace extensor {
namespace {

using op_database::Op;
using op_database::readable;

std::vector<Op> elementwise_ops() {
  std::vector<Op> ops;
  op_database::add_elementwise(ops);
  return ops;
}

TEST(ElementwiseDatabase, EveryRowIsAnOp) {
  const auto expect_op = [](const std::string& name) {
    EXPECT_NE(op_database::find_op(name), nullptr) << name;
  };
  for (const auto& row : op_database::unary_rows()) expect_op(row.name);
  for (const auto& row : op_database::binary_rows()) expect_op(row.name);
  for (const auto& row : op_database::compare_rows()) expect_op(row.name);
  for (const auto& row : op_database::predicate_rows()) expect_op(row.name);
  for (const auto& row : op_database::bitwise_rows()) expect_op(row.name);
  for (const auto& row : op_database::bitwise_unary_rows()) expect_op(row.name);
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
