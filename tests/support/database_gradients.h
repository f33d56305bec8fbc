// Gradient checks of an op's samples in the op database.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "op_database/op_database.h"
#include "support/gradients.h"
#include "support/layouts.h"

namespace gradients {

enum class Order { first, second };

// The second derivative: finite differences of the sample's backward, its results side by side,
// as a function of grad_output and the inputs.
inline void expect_second_gradient(const std::string& name,
                                   const extensor::op_database::Sample& sample,
                                   const Tensors& inputs) {
  const auto inputs_of = [](const Tensors& all) { return Tensors(all.begin() + 1, all.end()); };
  Tensors all = inputs;
  all.insert(all.begin(), draw::uniform(sample.forward(inputs)[0].shape(), -1, 1, 9));
  expect_gradient(
      name,
      [&](const Tensors& in) {
        Tensors parts = sample.backward({in[0]}, inputs_of(in));
        for (Tensor& part : parts) part = part.flatten();
        return extensor::concatenate(parts);
      },
      [&](const Tensor& joined, const Tensors& in) {
        Tensors parts;
        std::int64_t begin = 0;
        for (const Tensor& input : inputs_of(in)) {
          parts.push_back(joined.slice(0, begin, begin + input.numel()).reshape(input.shape()));
          begin += input.numel();
        }
        return sample.double_backward(parts, {in[0]}, inputs_of(in));
      },
      all);
}

// Every sample of the op that has such a derivative, in every layout that keeps its numbers.
inline void expect_gradient(const std::string& name, const std::string& op_name,
                            Order order = Order::first) {
  const auto* op = extensor::op_database::find_op(op_name);
  ASSERT_NE(op, nullptr) << op_name;
  int checked = 0;
  for (const auto& sample : op->samples()) {
    const bool has =
        order == Order::first ? sample.backward != nullptr : sample.double_backward != nullptr;
    if (!has) continue;
    for (layouts::Layout layout : {layouts::Layout::contiguous, layouts::Layout::transposed,
                                   layouts::Layout::stepped, layouts::Layout::reversed}) {
      SCOPED_TRACE(testing::Message() << op_name << " " << sample.label << " " << layout);
      Tensors inputs;
      for (const Tensor& input : sample.inputs) {
        inputs.push_back(layouts::with_layout(input, layout, input.shape()));
      }
      ++checked;
      if (order == Order::second) {
        expect_second_gradient(name, sample, inputs);
        continue;
      }
      expect_gradient(
          name, [&](const Tensors& in) { return sample.forward(in)[0]; },
          [&](const Tensor& g, const Tensors& in) { return sample.backward({g}, in); }, inputs);
    }
  }
  EXPECT_GT(checked, 0) << op_name;
}

}  // namespace gradients
