// Optimizer steps against their references over several steps, for every option, dtype and layout;
// and clipping.
#include "extensor/optimizer_steps.h"

#include <gtest/gtest.h>

#include "op_database/optimizer_reference.h"
#include "support/compare.h"
#include "support/draw.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;
using layouts::Layout;
using Values = std::vector<double>;

constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};
constexpr int steps = 4;

// The relative rounding error of the dtype.
double unit(DType dtype) { return std::ldexp(1.0, -compare::format_of(dtype).digits); }

struct Case {
  std::string label;
  std::size_t state_count;
  std::function<void(Tensor& param, const Tensor& grad, std::vector<Tensor>& states, int step)>
      step;
  // The same on one element.
  std::function<void(double& p, double g, double* state, int step)> formula;
};

// Every optimizer with every set of options of its reference.
const std::vector<Case>& cases() {
  static const std::vector<Case> list = [] {
    std::vector<Case> made;
    op_database::for_each_optimizer([&](const char* name, const auto& defaults, const auto& fresh,
                                        const auto& step_function) {
      auto layout = fresh;
      const auto reference = op_database::reference(defaults);
      for (const auto& o : reference.options) {
        made.push_back({std::string(name) + ", " + op_database::describe(o),
                        op_database::tensors_of(layout).size(),
                        [o, fresh, step_function](Tensor& p, const Tensor& g,
                                                  std::vector<Tensor>& states, int step) {
                          auto state = fresh;
                          for (std::size_t k = 0; Tensor * each : op_database::tensors_of(state)) {
                            *each = states[k++];
                          }
                          step_function(p, g, state, step, o);
                        },
                        [o, reference](double& p, double g, double* states, int step) {
                          p = reference.step(o, p, g, states, step);
                        }});
      }
    });
    return made;
  }();
  return list;
}

Tensor laid_out(const Shape& shape, Layout layout, unsigned seed, DType dtype) {
  return layouts::with_layout(draw::uniform(shape, -2, 2, seed).to(dtype), layout, shape);
}

// Runs a case for some steps. After each, compares parameter and states with the formula applied to
// the previous ones, so that only one step's rounding may differ.
void check(const Case& test, const Shape& shape, Layout layout, DType dtype, DType state_dtype) {
  SCOPED_TRACE(testing::Message() << test.label << " " << layout << shape << " " << name(dtype)
                                  << " " << name(state_dtype));
  Tensor param = laid_out(shape, layout, 1, dtype);
  std::vector<Tensor> states;
  for (std::size_t k = 0; k < test.state_count; ++k) {
    states.push_back(layouts::with_layout(zeros(shape, state_dtype), layout, shape));
  }
  const bool half_states = is_half(state_dtype);
  for (int step = 1; step <= steps; ++step) {
    const Tensor grad = laid_out(shape, layout, static_cast<unsigned>(10 + step), dtype);
    Values p = values_of(param);
    const Values g = values_of(grad), before = p;
    std::vector<Values> s;
    for (const Tensor& state : states) s.push_back(values_of(state));
    test.step(param, grad, states, step);
    const Values got = values_of(param);
    std::vector<Values> got_states;
    for (const Tensor& state : states) got_states.push_back(values_of(state));
    for (std::size_t i = 0; i < p.size(); ++i) {
      double state[op_database::most_states] = {};
      for (std::size_t k = 0; k < s.size(); ++k) state[k] = s[k][i];
      test.formula(p[i], g[i], state, step);
      const double compute = 16 * unit(is_half(dtype) ? DType::float32 : dtype);
      ASSERT_NEAR(got[i], p[i], unit(dtype) * std::fabs(p[i]) + compute * 3) << i << " " << step;
      for (std::size_t k = 0; k < s.size(); ++k) {
        const double rounding = half_states ? unit(state_dtype) * std::fabs(state[k]) + 1e-7 : 0;
        ASSERT_NEAR(got_states[k][i], state[k], rounding + compute * (1 + std::fabs(state[k])))
            << "state " << k << " " << i << " " << step;
      }
    }
  }
}

TEST(OptimizerSteps, FollowTheFormulas) {
  for (const Case& test : cases()) {
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{0, 3}, Shape{17}, Shape{5, 7}, Shape{700}}) {
      for (DType dtype : float_dtypes) {
        check(test, shape, Layout::contiguous, dtype, dtype);
        if (is_half(dtype)) check(test, shape, Layout::contiguous, dtype, DType::float32);
      }
    }
  }
}

TEST(OptimizerSteps, AnyLayout) {
  for (const Case& test : cases()) {
    for (Layout layout : {Layout::transposed, Layout::stepped, Layout::reversed}) {
      check(test, {5, 7}, layout, DType::float32, DType::float32);
      check(test, {5, 7}, layout, DType::bfloat16, DType::float32);
    }
  }
}

TEST(OptimizerSteps, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (const Case& test : cases()) {
    for (DType dtype : {DType::float16, DType::float32, DType::float64}) {
      const Shape shape{100001};
      const auto run = [&] {
        Tensor param = laid_out(shape, Layout::contiguous, 1, dtype);
        std::vector<Tensor> states(test.state_count);
        for (Tensor& state : states) state = zeros(shape, dtype);
        const Tensor grad = laid_out(shape, Layout::contiguous, 2, dtype);
        test.step(param, grad, states, 1);
        test.step(param, grad, states, 2);
        states.push_back(param);
        return states;
      };
      set_num_threads(1);
      const auto expected = run();
      set_num_threads(3);
      const auto got = run();
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(identical(got[i], expected[i]));
    }
  }
  set_num_threads(before);
}

TEST(OptimizerSteps, CountTheVersion) {
  for (Layout layout : {Layout::contiguous, Layout::stepped}) {
    Tensor param = laid_out({4, 4}, layout, 1, DType::float32);
    const Tensor grad = ones({4, 4});
    AdamState state{zeros({4, 4}), zeros({4, 4})};
    const std::uint64_t version = param.impl().storage->version;
    adamw_step(param, grad, state, 1);
    EXPECT_GT(param.impl().storage->version, version);
    EXPECT_GT(state.exp_avg.impl().storage->version, 0u);
  }
}

// A weight decay of 0 does not change an infinite parameter; NaN propagates through amsgrad.
TEST(OptimizerSteps, SpecialValues) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  Tensor param = from_data(Values{infinity, 1, 1});
  SgdState none;
  sgd_step(param, from_data(Values{1, nan, 1}), none, 1, {.lr = 0.5});
  EXPECT_EQ(values_of(param)[0], infinity);
  EXPECT_TRUE(std::isnan(values_of(param)[1]));
  EXPECT_EQ(values_of(param)[2], 0.5);
  Tensor weights = ones({3}, DType::float64);
  AdamState state{zeros({3}, DType::float64), zeros({3}, DType::float64),
                  from_data(Values{nan, 0, 4})};
  adam_step(weights, from_data(Values{1, nan, 1}), state, 1, {.amsgrad = true});
  EXPECT_TRUE(std::isnan(values_of(state.max_exp_avg_sq)[0]));
  EXPECT_TRUE(std::isnan(values_of(state.max_exp_avg_sq)[1]));
  EXPECT_EQ(values_of(state.max_exp_avg_sq)[2], 4);
  // Lion: 0 has no sign, an infinity has one, and NaN propagates.
  Tensor signs = ones({4}, DType::float64);
  LionState lion{zeros({4}, DType::float64)};
  lion_step(signs, from_data(Values{0, infinity, -infinity, nan}), lion, 1, {.lr = 0.5});
  EXPECT_EQ(values_of(signs)[0], 1);
  EXPECT_EQ(values_of(signs)[1], 0.5);
  EXPECT_EQ(values_of(signs)[2], 1.5);
  EXPECT_TRUE(std::isnan(values_of(signs)[3]));
}

// ---- clipping

double exact_norm(const std::vector<Tensor>& grads, double p) {
  long double total = 0;
  for (const Tensor& grad : grads) {
    for (double value : values_of(grad)) {
      if (std::isinf(p)) {
        total = std::max<long double>(total, std::fabs(value));
      } else {
        total += std::pow(std::fabs(static_cast<long double>(value)), p);
      }
    }
  }
  return static_cast<double>(std::isinf(p) ? total : std::pow(total, 1 / p));
}

TEST(ClipGradNorm, ScalesWhatIsLarger) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (DType dtype : float_dtypes) {
    for (double p : {1.0, 2.0, 3.0, 0.5, infinity}) {
      for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::stepped}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << p << " " << layout);
        std::vector<Tensor> grads = {laid_out({5, 7}, layout, 1, dtype),
                                     laid_out({100, 97}, layout, 2, dtype), zeros({0}, dtype),
                                     laid_out({}, layout, 3, dtype)};
        const double norm = exact_norm(grads, p);
        std::vector<Values> before;
        for (const Tensor& grad : grads) before.push_back(values_of(grad));
        EXPECT_NEAR(clip_grad_norm(grads, 2 * norm, p), norm, 1e-12 * norm);
        for (std::size_t i = 0; i < grads.size(); ++i) EXPECT_EQ(values_of(grads[i]), before[i]);
        EXPECT_NEAR(clip_grad_norm(grads, norm / 4, p), norm, 1e-12 * norm);
        for (std::size_t i = 0; i < grads.size(); ++i) {
          const Values after = values_of(grads[i]);
          for (std::size_t j = 0; j < after.size(); ++j) {
            ASSERT_NEAR(after[j], before[i][j] * (norm / 4 / (norm + 1e-6)), 2.1 * unit(dtype));
          }
        }
      }
    }
  }
}

TEST(ClipGradNorm, NoOverflowNoThreads) {
  std::vector<Tensor> large = {full({1000}, 1e30, DType::float32)};
  EXPECT_NEAR(clip_grad_norm(large, 1) / (1e30 * std::sqrt(1000.0)), 1, 1e-6);
  EXPECT_NEAR(values_of(large[0])[3], 1 / std::sqrt(1000.0), 1e-7);
  const int before = get_num_threads();
  std::vector<Tensor> grads = {laid_out({1000003}, Layout::contiguous, 1, DType::float32)};
  set_num_threads(1);
  const double norm = clip_grad_norm(grads, 1e9);
  set_num_threads(3);
  EXPECT_EQ(clip_grad_norm(grads, 1e9), norm);
  set_num_threads(before);
  EXPECT_EQ(clip_grad_norm({}, 1), 0);
}

TEST(ClipGradNorm, NormsThatAreNotFinite) {
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (double p : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      std::vector<Tensor> grads = {ones({20}), full({3}, 2.0)};
      grads[0][11].fill(bad);
      const Values before = values_of(grads[1]);
      EXPECT_THROW(clip_grad_norm(grads, 1, p, true), ValueError);
      EXPECT_EQ(values_of(grads[1]), before);
      const double norm = clip_grad_norm(grads, 1, p);
      EXPECT_EQ(std::isnan(norm), std::isnan(bad));
      EXPECT_FALSE(std::isfinite(norm));
      for (double value : values_of(grads[1])) {
        EXPECT_TRUE(std::isnan(bad) ? std::isnan(value) : value == 0);
      }
    }
  }
}

TEST(ClipGradValue, ClipsEveryElement) {
  for (DType dtype : float_dtypes) {
    std::vector<Tensor> grads = {laid_out({5, 7}, Layout::transposed, 1, dtype),
                                 from_data(Values{-3, 0.25, std::nan(""), 9}).to(dtype)};
    const Values before = values_of(grads[0]);
    clip_grad_value(grads, 0.5);
    const Values after = values_of(grads[0]), second = values_of(grads[1]);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(after[i], std::clamp(before[i], -0.5, 0.5));
    }
    EXPECT_EQ(second[0], -0.5);
    EXPECT_EQ(second[1], 0.25);
    EXPECT_TRUE(std::isnan(second[2]));
    EXPECT_EQ(second[3], 0.5);
  }
}

}  // namespace
}  // namespace extensor
