// Every op of the database on a CUDA device: values, gradients and second gradients, in every dtype
// and layout. Results are compared with those of the CPU: they have the same bits, or are as close
// to the CPU's results in float64 as the dtype allows.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "cuda/cuda_test.h"
#include "op_database/check.h"
#include "op_database/op_database.h"
#include "op_database/tolerance.h"
#include "op_database/variants.h"

namespace extensor {
namespace {

using cuda_test::device;
using cuda_test::same_bits;
using layouts::Layout;
using op_database::Allowance;
using op_database::allowance_of;
using op_database::arranged;
using op_database::contains;
using op_database::dense;
using op_database::find_op;
using op_database::has_dtypes;
using op_database::has_layout;
using op_database::in_float64;
using op_database::is_differentiable;
using op_database::joined;
using op_database::largest_of;
using op_database::Op;
using op_database::Sample;
using op_database::Tensors;
using op_database::tolerance_of;

bool is_float(const Tensor& x) { return x.defined() && is_floating_point(x.dtype()); }

Tensors moved(const Tensors& tensors, Device place) {
  Tensors result;
  for (const Tensor& x : tensors) result.push_back(x.defined() ? x.detach().to(place) : x);
  return result;
}

// The inputs of a sample on the device, in the requested memory layout.
Tensors on_device(const Sample& sample, DType dtype, Layout layout) {
  Tensors far;
  for (const Tensor& x : arranged(sample, dtype, layout)) {
    if (!x.defined()) {
      far.push_back(x);
    } else if (layout == Layout::broadcast && x.ndim() > 0 && x.strides()[0] == 0) {
      far.push_back(x.slice(0, 0, 1).contiguous().to(device).broadcast_to(x.shape()));
    } else {
      far.push_back(layouts::with_layout(x.contiguous().to(device), layout, x.shape()));
    }
  }
  return far;
}

// The incoming gradients: fixed numbers between 0.5 and 1.5.
Tensors gradients_for(const Tensors& results, DType dtype) {
  Tensors gradients;
  for (std::size_t k = 0; k < results.size(); ++k) {
    gradients.push_back(
        is_float(results[k])
            ? op_database::sample_uniform(results[k].shape(), 0.5, 1.5, 11 + k).to(dtype)
            : Tensor());
  }
  return gradients;
}

bool all_same_bits(const Tensors& got, const Tensors& expected) {
  if (got.size() != expected.size()) return false;
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (got[k].defined() != expected[k].defined()) return false;
    if (got[k].defined() && !same_bits(got[k], expected[k])) return false;
  }
  return true;
}

// The first difference between results of the device and of the CPU, or nothing. `exact` computes
// the results in float64 from `wide`; null: the CPU's are exact.
std::string difference(const Tensors& got, const Tensors& near,
                       const std::function<Tensors(const Tensors&)>& exact, const Tensors& wide,
                       const Allowance& allowance, double least,
                       const std::function<Tensors(const Tensors&)>& magnitudes = nullptr) {
  if (got.size() != near.size()) return "another number of results";
  for (std::size_t k = 0; k < got.size(); ++k) {
    const std::string which = "result " + std::to_string(k);
    if (got[k].defined() != near[k].defined()) return which + " is undefined on one device";
    if (!got[k].defined()) continue;
    if (got[k].dtype() != near[k].dtype()) return which + " is " + name(got[k].dtype());
    if (!(got[k].shape() == near[k].shape())) return which + " has another shape";
  }
  const Tensors here = moved(got, cpu_device);
  if (all_same_bits(here, near)) return "";
  // Equal up to the signs of zeros and NaNs, whose bits differ between processors. This comes
  // first: results that depend on the dtype, as neighbours do, are others in float64.
  if (op_database::compare(here, near, {}, {}).message.empty()) return "";
  // Or as close as the dtype allows.
  if (!exact) return op_database::compare(here, near, allowance, {}).message;
  const Tensors target = exact(wide);
  if (op_database::compare(here, target, allowance, {}).message.empty()) return "";
  if (magnitudes) {
    op_database::Magnitudes given;
    for (const Tensor& x : magnitudes(wide)) given.push_back(x.to_vector<double>());
    return op_database::compare(here, target, allowance, given).message;
  }
  const double step = std::min(allowance.absolute, 1e-3);
  return op_database::compare(here, target, allowance,
                              op_database::magnitudes_of(exact, wide, step, least))
      .message;
}

double least_magnitude(Layout layout, const Tensors& made_of) {
  return layout == Layout::broadcast ? largest_of(made_of) : 0;
}

struct Case {
  const Sample& sample;
  DType dtype;
  Layout layout;
};

// Runs one sample; the first difference, or nothing.
std::string fault_of(const Case& now, bool second) {
  const Sample& sample = now.sample;
  const bool floats = is_floating_point(now.dtype) && has_dtypes(sample);
  const Tensors near = arranged(sample, now.dtype, now.layout);
  const Tensors far = on_device(sample, now.dtype, now.layout);
  const Tensors expected = sample.forward(near);
  const Tensors got = sample.forward(far);
  for (const Tensor& y : got) {
    if (y.defined() && y.device() != device && y.numel() > 1) {
      return "a result is on " + to_string(y.device());
    }
  }
  const auto first = std::ranges::find_if(expected, is_float);
  const Allowance allowance = first == expected.end() ? Allowance() : allowance_of(first->dtype());
  const Tensors wide = floats ? in_float64(dense(near)) : Tensors();
  const double least =
      std::max(sample.cancelling_terms, floats ? least_magnitude(now.layout, wide) : 0);
  std::string fault = difference(got, expected, floats ? sample.forward : nullptr, wide, allowance,
                                 least, sample.magnitudes);
  if (!fault.empty()) return "value: " + fault;
  if (!sample.backward || !floats) return "";

  // The gradients, from the same incoming ones and, where they are read, the CPU's results.
  const Tensors grads = gradients_for(expected, now.dtype);
  const Tensors known = sample.saves_results ? joined(near, expected) : near;
  const Tensors far_known = sample.saves_results ? joined(far, moved(expected, device)) : far;
  const std::size_t count = grads.size();
  const auto backward = [&sample, count](const Tensors& all) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(count);
    return sample.backward(Tensors(all.begin(), middle), Tensors(middle, all.end()));
  };
  const Tensors all = in_float64(dense(joined(grads, known)));
  fault = difference(sample.backward(moved(grads, device), far_known),
                     sample.backward(grads, known), backward, all, allowance_of(now.dtype),
                     std::max(sample.cancelling_terms, least_magnitude(now.layout, all)));
  if (!fault.empty()) return "gradient: " + fault;
  if (!second) return "";

  const auto gradients_of = [&](const Tensors& g, const Tensors& x) {
    return sample.saves_results ? sample.backward(g, joined(x, sample.forward(x)))
                                : sample.backward(g, x);
  };
  const Tensors given = gradients_for(gradients_of(grads, near), now.dtype);
  const std::size_t a = given.size(), b = given.size() + grads.size();
  const auto double_backward = [&sample, a, b](const Tensors& every) {
    const auto at = [&](std::size_t i) { return every.begin() + static_cast<std::ptrdiff_t>(i); };
    return op_database::second_gradients(sample, Tensors(every.begin(), at(a)),
                                         Tensors(at(a), at(b)), Tensors(at(b), every.end()));
  };
  const Tensors everything = in_float64(dense(joined(joined(given, grads), near)));
  fault = difference(
      op_database::second_gradients(sample, moved(given, device), moved(grads, device), far),
      op_database::second_gradients(sample, given, grads, near), double_backward, everything,
      {tolerance_of(now.dtype), tolerance_of(now.dtype)},
      std::max(2 * largest_of(given) * largest_of(grads), least_magnitude(now.layout, everything)));
  return fault.empty() ? "" : "second gradient: " + fault;
}

class CudaDatabase : public cuda_test::CudaTest,
                     public ::testing::WithParamInterface<std::string> {};

TEST_P(CudaDatabase, AgreesWithTheCpu) {
  const Op& op = *find_op(GetParam());
  int failures = 0, cases = 0;
  for (const Sample& sample : op.samples()) {
    if (sample.inputs.empty()) continue;  // it has no device
    for (const DType dtype : op_database::every_dtype) {
      if (!has_dtypes(sample) && dtype != float64) continue;
      if (has_dtypes(sample) && !contains(op.dtypes, dtype)) continue;
      const bool floats = is_floating_point(dtype);
      if (!floats && sample.floats_only) continue;
      for (const Layout layout : layouts::every_layout) {
        if (!has_layout(sample, layout)) continue;
        if (!floats && layout != Layout::contiguous && layout != Layout::stepped) continue;
        ++cases;
        std::string fault;
        try {
          const bool second = layout == Layout::contiguous || dtype == float64;
          fault = fault_of({sample, dtype, layout}, second);
        } catch (const std::exception& error) {
          fault = std::string("threw: ") + error.what();
        }
        if (fault.empty() || ++failures > 3) continue;
        ADD_FAILURE() << op.name << ": " << sample.label << ", " << name(dtype) << ", "
                      << layouts::name(layout) << ": " << fault;
      }
    }
  }
  EXPECT_EQ(failures, 0) << "of " << cases << " cases";
  RecordProperty("cases", cases);
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const Op& op : op_database::ops()) names.push_back(op.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaDatabase, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace extensor
