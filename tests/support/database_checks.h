// Ops of the database, run on their samples: values against the references in every float dtype and
// layout, first and second gradients against finite differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "op_database/op_database.h"
#include "support/compare.h"
#include "support/gradients.h"
#include "support/layouts.h"

namespace database_checks {

using extensor::DType;
using extensor::Tensor;
using extensor::op_database::Op;
using extensor::op_database::Sample;
using layouts::Layout;
using Tensors = std::vector<Tensor>;

struct Precision {
  DType dtype;
  double tolerance;  // relative to the largest element
};
inline constexpr Precision precisions[] = {{DType::float64, 1e-13},
                                           {DType::float32, 1.3e-6},
                                           {DType::float16, 1e-3},
                                           {DType::bfloat16, 1.6e-2}};

inline Tensor laid_out(const Tensor& x, Layout layout) {
  if (!is_floating_point(x.dtype()) || !layouts::is_distinct(layout, x.shape())) return x;
  const Tensor drawn = layout == Layout::broadcast ? x.slice(0, 0, 1) : x;
  return layouts::with_layout(drawn, layout, x.shape());
}

inline Tensors prepared(const Sample& sample, DType dtype, Layout layout) {
  Tensors inputs;
  for (const Tensor& x : sample.inputs) {
    inputs.push_back(laid_out(is_floating_point(x.dtype()) ? x.to(dtype) : x, layout));
  }
  return inputs;
}

inline double largest(const std::vector<double>& values) {
  double result = 0;
  for (double value : values) result = std::max(result, std::fabs(value));
  return result;
}

inline void expect_close(const Tensor& got, const Tensor& expected, double tolerance) {
  ASSERT_EQ(got.shape(), expected.shape());
  const auto values = compare::values_of(got), exact = compare::values_of(expected);
  const double allowed = tolerance * largest(exact);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    ASSERT_LE(std::fabs(values[i] - exact[i]), allowed)
        << "element " << i << ": " << values[i] << " instead of " << exact[i];
  }
}

inline const Op& op_named(const std::string& name) {
  const Op* op = extensor::op_database::find_op(name);
  if (op == nullptr) throw extensor::ValueError("no op " + name + " in the database");
  return *op;
}

inline void expect_values(const Op& op) {
  for (const Sample& sample : op.samples()) {
    for (const Precision& precision : precisions) {
      for (Layout layout : layouts::every_layout) {
        SCOPED_TRACE(testing::Message() << op.name << " " << sample.label << " "
                                        << name(precision.dtype) << " " << layout);
        const Tensors inputs = prepared(sample, precision.dtype, layout);
        const Tensors got = sample.forward(inputs), expected = sample.reference(inputs);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (is_floating_point(expected[i].dtype())) {
            EXPECT_EQ(got[i].dtype(), precision.dtype);
          } else {
            EXPECT_EQ(got[i].dtype(), expected[i].dtype());
          }
          expect_close(got[i], expected[i], precision.tolerance);
        }
      }
    }
  }
}

// All results as one vector, so that one gradient check serves ops of several.
inline Tensor joined(const Tensors& tensors) {
  Tensors flat;
  for (const Tensor& x : tensors) {
    if (x.defined()) flat.push_back(x.flatten());
  }
  return extensor::concatenate(flat);
}
inline Tensors parted(const Tensor& flat, const Tensors& like) {
  Tensors parts;
  std::int64_t begin = 0;
  for (const Tensor& x : like) {
    if (!x.defined()) {
      parts.emplace_back();
      continue;
    }
    parts.push_back(flat.slice(0, begin, begin + x.numel()).reshape(x.shape()));
    begin += x.numel();
  }
  return parts;
}

// The floats among a sample's inputs, and all of them again with other floats.
struct Floats {
  const Tensors& all;
  Tensors chosen() const {
    Tensors result;
    for (const Tensor& x : all) {
      if (is_floating_point(x.dtype())) result.push_back(x);
    }
    return result;
  }
  Tensors with(const Tensors& floats, std::size_t first = 0) const {
    Tensors result = all;
    for (Tensor& x : result) {
      if (is_floating_point(x.dtype())) x = floats[first++];
    }
    return result;
  }
};

// Every sample of the op that has a backward.
inline void expect_gradient(const std::string& backward, const std::string& op_name) {
  const Op& op = op_named(op_name);
  EXPECT_EQ(std::ranges::count(op.backward, backward), 1) << backward << " of " << op_name;
  int checked = 0;
  for (const Sample& sample : op.samples()) {
    if (sample.backward == nullptr) continue;
    ++checked;
    for (Layout layout : layouts::every_layout) {
      SCOPED_TRACE(testing::Message() << op_name << " " << sample.label << " " << layout);
      const Tensors inputs = prepared(sample, DType::float64, layout);
      const Floats floats{inputs};
      gradients::expect_gradient(
          backward, [&](const Tensors& in) { return joined(sample.forward(floats.with(in))); },
          [&](const Tensor& g, const Tensors& in) {
            const Tensors arguments = floats.with(in);
            const Tensors outputs = sample.forward(arguments);
            const Tensors all = sample.backward(parted(g, outputs), arguments);
            Tensors chosen;
            for (const Tensor& x : all) {
              if (x.defined()) chosen.push_back(x);
            }
            return chosen;
          },
          floats.chosen());
    }
    if (sample.double_backward == nullptr) continue;
    // backward as a function of the gradients it is given and of the inputs.
    const Tensors& inputs = sample.inputs;
    const Floats floats{inputs};
    const Tensors outputs = sample.forward(inputs);
    Tensors variables;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      variables.push_back(draw::uniform(outputs[i].shape(), -1, 1, static_cast<unsigned>(i) + 1));
    }
    const std::size_t given = variables.size();
    for (const Tensor& x : floats.chosen()) variables.push_back(x);
    const auto gradients_of = [&](const Tensors& in) {
      return sample.backward(Tensors(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(given)),
                             floats.with(in, given));
    };
    SCOPED_TRACE(testing::Message() << "double backward of " << op_name << " " << sample.label);
    gradients::expect_gradient(
        backward, [&](const Tensors& in) { return joined(gradients_of(in)); },
        [&](const Tensor& gg, const Tensors& in) {
          const Tensors arguments = floats.with(in, given);
          const Tensors all = sample.double_backward(
              parted(gg, gradients_of(in)),
              Tensors(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(given)), arguments);
          Tensors chosen(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(given));
          for (std::size_t i = 0; i < arguments.size(); ++i) {
            if (!is_floating_point(arguments[i].dtype())) continue;
            const Tensor& gradient = all[given + i];
            chosen.push_back(gradient.defined() ? gradient : zeros_like(arguments[i]));
          }
          return chosen;
        },
        variables);
  }
  EXPECT_GT(checked, 0) << op_name << " has no sample with a backward";
  // The narrow dtypes against float64 on the same numbers.
  for (const Sample& sample : op.samples()) {
    if (sample.backward == nullptr) continue;
    for (const Precision& precision : precisions) {
      SCOPED_TRACE(testing::Message()
                   << op_name << " " << sample.label << " " << name(precision.dtype));
      const Tensors narrow = prepared(sample, precision.dtype, Layout::transposed);
      Tensors wide;
      for (const Tensor& x : narrow) {
        wide.push_back(is_floating_point(x.dtype()) ? x.to(DType::float64) : x);
      }
      Tensors narrow_g, wide_g;
      for (const Tensor& y : sample.forward(narrow)) {
        narrow_g.push_back(draw::uniform(y.shape(), -2, 2, 9).to(precision.dtype));
        wide_g.push_back(narrow_g.back().to(DType::float64));
      }
      const Tensors got = sample.backward(narrow_g, narrow);
      const Tensors expected = sample.backward(wide_g, wide);
      ASSERT_EQ(got.size(), narrow.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].defined(), is_floating_point(narrow[i].dtype()));
        if (!got[i].defined()) continue;
        EXPECT_EQ(got[i].dtype(), precision.dtype);
        expect_close(got[i], expected[i], precision.tolerance);
      }
    }
  }
}

}  // namespace database_checks
