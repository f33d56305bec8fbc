// Every function of the op database either is listed here as one that takes complex numbers, or
// refuses them with a DTypeError that names the dtype.
#include <gtest/gtest.h>

#include <string>

#include "op_database/op_database.h"
#include "op_database/variants.h"
#include "support/complex_ops.h"

namespace extensor {
namespace {

using op_database::Tensors;

class ComplexRefusal : public ::testing::TestWithParam<std::string> {};

void expect_names_the_dtype(const DTypeError& error) {
  const std::string said = error.what();
  EXPECT_NE(said.find("complex"), std::string::npos) << said;
  EXPECT_FALSE(said.starts_with("kernel:")) << said;
}

TEST_P(ComplexRefusal, IsADTypeError) {
  const op_database::Op& op = *op_database::find_op(GetParam());
  const bool takes = takes_complex.contains(op.name);
  for (const op_database::Sample& sample : op.samples()) {
    // The samples of arange round the bounds of every dtype that is not a float.
    if (!op_database::has_dtypes(sample) || op.name == "arange") continue;
    for (const DType dtype : {complex64, complex128}) {
      Tensors inputs = sample.inputs;
      if (!make_complex(inputs, dtype)) continue;
      SCOPED_TRACE(op.name + " " + sample.label);
      try {
        const Tensors results = sample.forward(inputs);
        if (takes) continue;
        ADD_FAILURE() << "takes complex numbers and returns "
                      << (results.empty() || !results[0].defined() ? "nothing"
                                                                   : name(results[0].dtype()));
      } catch (const DTypeError& error) {
        // The samples of scatter include those of scatter_reduce.
        EXPECT_FALSE(takes && !std::string(error.what()).starts_with("scatter_reduce"))
            << error.what();
        expect_names_the_dtype(error);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "throws something else: " << error.what();
      }
    }
  }
}

// The public backward of an op that takes complex numbers takes them too and agrees with autograd;
// that of any other refuses them.
TEST_P(ComplexRefusal, HoldsForTheBackward) {
  const op_database::Op& op = *op_database::find_op(GetParam());
  const bool takes = takes_complex.contains(op.name);
  for (const op_database::Sample& sample : op.samples()) {
    // The samples of index_add round alpha for dtypes that are no floats, but not in the backward.
    if (!sample.backward || !op_database::has_dtypes(sample) || op.name == "index_add") continue;
    SCOPED_TRACE(op.name + " " + sample.label);
    const Tensors real_outputs = sample.forward(sample.inputs);
    Tensors inputs = sample.inputs, grads;
    std::uint64_t seed = 5;
    for (const Tensor& y : real_outputs) {
      const bool floats = y.defined() && is_floating_point(y.dtype());
      grads.push_back(floats ? op_database::sample_uniform(y.shape(), 0.5, 1.5, ++seed) : Tensor());
    }
    if (!make_complex(inputs, complex128)) continue;
    Tensors found, outputs, leaves = inputs, asked;
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      if (!op_database::is_differentiable(sample, k)) continue;
      leaves[k] = leaves[k].detach().requires_grad_();
      asked.push_back(leaves[k]);
    }
    if (takes) {
      try {
        outputs = sample.forward(leaves);
      } catch (const DTypeError& error) {
        // The samples of scatter include those of scatter_reduce.
        EXPECT_TRUE(std::string(error.what()).starts_with("scatter_reduce")) << error.what();
        continue;
      }
    }
    try {
      // abs and norm have real gradients, all others complex ones; those of vectors whose phases
      // are free are in complex_linalg_test.
      const bool has_phases = op.name == "eigh" || op.name == "svd";
      for (std::size_t k = 0; k < grads.size(); ++k) {
        if (!grads[k].defined() || (takes && !is_complex(outputs[k]))) continue;
        const Tensor g = has_phases ? zeros_like(grads[k]) : grads[k];
        grads[k] = complex(g, g * 0.3 + (has_phases ? 0 : 0.1));
      }
      Tensors given = inputs;
      if (sample.saves_results) {
        const Tensors saved = takes ? sample.forward(inputs) : real_outputs;
        given.insert(given.end(), saved.begin(), saved.end());
      }
      found = sample.backward(grads, given);
    } catch (const DTypeError& error) {
      EXPECT_FALSE(takes) << "the backward refuses complex numbers: " << error.what();
      expect_names_the_dtype(error);
      continue;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "throws something else: " << error.what();
      continue;
    }
    if (!takes) {
      ADD_FAILURE() << "the backward takes complex numbers";
      continue;
    }
    const Tensors expected = grad(outputs, asked, {.allow_unused = true, .grad_outputs = grads});
    std::size_t next = 0;
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      if (!op_database::is_differentiable(sample, k)) continue;
      const Tensor& wanted = expected[next++];
      if (!wanted.defined() || !found[k].defined()) continue;
      EXPECT_TRUE(allclose(found[k], wanted, 1e-10, 1e-12)) << "input " << k;
    }
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
