// Every function of the op database either is listed here as one that takes complex numbers, or
// refuses them with a DTypeError that names the dtype.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "op_database/op_database.h"
#include "op_database/variants.h"

namespace extensor {
namespace {

using op_database::Tensors;

// Functions of the database that take complex numbers.
const std::set<std::string> takes_complex = {"abs",
                                             "acos",
                                             "acosh",
                                             "add",
                                             "all",
                                             "allclose",
                                             "any",
                                             "asin",
                                             "asinh",
                                             "atan",
                                             "atanh",
                                             "broadcast_to",
                                             "clone",
                                             "concatenate",
                                             "cos",
                                             "cosh",
                                             "count_nonzero",
                                             "cumulative_prod",
                                             "cumulative_sum",
                                             "divide",
                                             "dot",
                                             "equal",
                                             "exp",
                                             "exp2",
                                             "expm1",
                                             "flatten",
                                             "flip",
                                             "gather",
                                             "index",
                                             "index_add",
                                             "index_put",
                                             "inner",
                                             "isclose",
                                             "isfinite",
                                             "isinf",
                                             "isnan",
                                             "log",
                                             "log10",
                                             "log1p",
                                             "log2",
                                             "logical_and",
                                             "logical_not",
                                             "logical_or",
                                             "logical_xor",
                                             "masked_fill",
                                             "masked_select",
                                             "matmul",
                                             "mean",
                                             "moveaxis",
                                             "multiply",
                                             "negative",
                                             "nonzero",
                                             "norm",
                                             "not_equal",
                                             "outer",
                                             "pad",
                                             "positive",
                                             "power",
                                             "prod",
                                             "reciprocal",
                                             "repeat",
                                             "reshape",
                                             "roll",
                                             "round",
                                             "rsqrt",
                                             "scatter",
                                             "scatter_add",
                                             "sign",
                                             "sin",
                                             "sinh",
                                             "slice",
                                             "split",
                                             "sqrt",
                                             "square",
                                             "squeeze",
                                             "stack",
                                             "subtract",
                                             "sum",
                                             "take",
                                             "take_along_axis",
                                             "tan",
                                             "tanh",
                                             "tensordot",
                                             "tile",
                                             "transpose",
                                             "tril",
                                             "triu",
                                             "unsqueeze",
                                             "unstack",
                                             "vecdot",
                                             "where"};

class ComplexRefusal : public ::testing::TestWithParam<std::string> {};

TEST_P(ComplexRefusal, IsADTypeError) {
  const op_database::Op& op = *op_database::find_op(GetParam());
  if (takes_complex.contains(op.name)) return;
  for (const op_database::Sample& sample : op.samples()) {
    if (!op_database::has_dtypes(sample)) continue;
    Tensors inputs = sample.inputs;
    bool changed = false;
    for (Tensor& x : inputs) {
      if (!x.defined() || x.dtype() != float64) continue;
      x = x.to(complex64);
      changed = true;
    }
    if (!changed) continue;
    SCOPED_TRACE(op.name + " " + sample.label);
    try {
      const Tensors results = sample.forward(inputs);
      ADD_FAILURE() << "takes complex numbers and returns "
                    << (results.empty() || !results[0].defined() ? "nothing"
                                                                 : name(results[0].dtype()));
    } catch (const DTypeError& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("complex"), std::string::npos) << said;
      EXPECT_FALSE(said.starts_with("kernel:")) << said;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "throws something else: " << error.what();
    }
    return;
  }
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const op_database::Op& op : op_database::ops()) names.push_back(op.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, ComplexRefusal, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace extensor
