// Two runs of the same work on a CUDA device give identical bits.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cuda/cuda_test.h"
#include "op_database/op_database.h"
#include "op_database/variants.h"

namespace extensor {
namespace {

using cuda_test::device;
using cuda_test::same_bits;
using op_database::Op;
using op_database::Sample;
using op_database::Tensors;

bool all_same(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k].defined() != b[k].defined()) return false;
    if (a[k].defined() && !same_bits(a[k], b[k])) return false;
  }
  return true;
}

class CudaDeterminism : public cuda_test::CudaTest,
                        public ::testing::WithParamInterface<std::string> {};

// Values and gradients of every op, three times.
TEST_P(CudaDeterminism, OpsGiveTheSameBits) {
  const Op& op = *op_database::find_op(GetParam());
  int cases = 0;
  for (const Sample& sample : op.samples()) {
    for (const DType dtype : {float32, bfloat16}) {
      if (!contains(op.dtypes, dtype)) continue;
      Tensors inputs;
      for (const Tensor& x : arranged(sample, dtype, layouts::Layout::contiguous)) {
        inputs.push_back(x.defined() ? x.to(device) : x);
      }
      const auto run = [&] {
        manual_seed(3);
        Tensors results = sample.forward(inputs);
        if (!sample.backward) return results;
        Tensors grads;
        for (const Tensor& y : results) {
          grads.push_back(y.defined() && is_floating_point(y.dtype()) ? ones_like(y) : Tensor());
        }
        const Tensors saved = sample.saves_results ? op_database::joined(inputs, results) : inputs;
        return op_database::joined(results, sample.backward(grads, saved));
      };
      const Tensors first = run();
      for (int again = 0; again < 2; ++again) {
        ++cases;
        EXPECT_TRUE(all_same(run(), first))
            << op.name << ": " << sample.label << ", " << name(dtype);
      }
    }
  }
  RecordProperty("cases", cases);
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const Op& op : op_database::ops()) names.push_back(op.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaDeterminism, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

class CudaTrainingTwice : public cuda_test::CudaTest {};

// The weights after some steps of a model from the same seed.
template <class Model, class Loss>
Tensors trained(const Loss& loss, const std::function<Model()>& make, int steps) {
  manual_seed(11);
  Model model = make();
  model.to(device);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  for (int k = 0; k < steps; ++k) {
    optimizer.zero_grad();
    {
      const Autocast autocast(bfloat16);
      loss(model).backward();
    }
    optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
  }
  Tensors weights;
  for (const Tensor& each : model.parameters()) {
    weights.push_back(each.detach().to(cpu_device).clone());
  }
  return weights;
}

TEST_F(CudaTrainingTwice, Gpt) {
  const auto run = [] {
    return trained<models::Gpt>(
        [](models::Gpt& model) {
          const Tensor ids = randint(0, 97, {8, 64}, {.dtype = int64, .device = device});
          return cross_entropy(model(ids).reshape({8 * 64, 97}), ids.flatten());
        },
        [] {
          return models::Gpt({.vocabulary = 97,
                              .block = 64,
                              .layers = 2,
                              .heads = 2,
                              .width = 128,
                              .dropout = 0.1});
        },
        50);
  };
  EXPECT_TRUE(all_same(run(), run()));
}

TEST_F(CudaTrainingTwice, Convolutions) {
  const auto run = [] {
    return trained<models::LeNet>(
        [](models::LeNet& model) {
          const Tensor x = randn({32, 1, 28, 28}, device);
          return cross_entropy(model(x), randint(0, 10, {32}, {.dtype = int64, .device = device}));
        },
        [] { return models::LeNet(); }, 50);
  };
  EXPECT_TRUE(all_same(run(), run()));
}

}  // namespace
}  // namespace extensor
