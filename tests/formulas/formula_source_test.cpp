// The source of the kernels of formulas, compiled by NVRTC, which needs no GPU: every row in both
// types of computation, and every layout. Finds headers that are not embedded, and functions that
// NVRTC does not know.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "backend/cuda/formula_source.h"
#include "backend/cuda/nvrtc.h"

namespace extensor::backend::cuda {
namespace {

using Kind = FormulaValue::Kind;

constexpr FormulaValue input(int index) { return {Kind::input, index, 0}; }
constexpr FormulaValue step(int index) { return {Kind::step, index, 0}; }
constexpr FormulaValue number(double value) { return {Kind::number, 0, value}; }

class FormulaSource : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc_state().available) GTEST_SKIP() << nvrtc_state().text;
  }
};

alignas(16) std::array<std::byte, 64> memory;

// A call whose operands are never accessed.
FormulaCall call_of(DType compute, const Shape& shape, const std::vector<FormulaStep>& steps) {
  FormulaCall call{};
  call.operation = "formula";
  call.compute = compute;
  call.shape = &shape;
  call.numel = 1;
  for (const std::int64_t size : shape) call.numel *= size;
  call.steps = steps.data();
  call.step_count = static_cast<int>(steps.size());
  call.output_count = 1;
  call.outputs[0] = {memory.data(), compute, step(call.step_count - 1)};
  return call;
}

void expect_compiles(const std::string& what, const FormulaCall& call, int width, bool flat) {
  FormulaLayout layout;
  ASSERT_TRUE(lay_out(call, layout)) << what;
  EXPECT_EQ(layout.width, width) << what;
  EXPECT_EQ(layout.flat, flat) << what;
  std::string result;
  const std::string source = formula_source(call, layout);
  EXPECT_TRUE(compile(source, "sm_90", result)) << what << "\n" << result << "\n" << source;
}

TEST_F(FormulaSource, OfEveryRow) {
  const Shape shape{1000};
  const std::int64_t strides[] = {1};
  for (const DType compute : {DType::float32, DType::float64}) {
    std::vector<FormulaStep> rows;
    const auto add = [&](ElementwiseOp op, int inputs) {
      rows.push_back({op, inputs, {input(0), number(0.5), input(1)}, {0.25, 0.75}});
    };
#define UNARY(name, ...)       \
  add(ElementwiseOp::name, 1); \
  add(ElementwiseOp::name##_backward, 2);
#include "extensor/tables/unary.def"
#define BINARY(name, ...)                   \
  add(ElementwiseOp::name, 2);              \
  add(ElementwiseOp::name##_gradient_a, 3); \
  add(ElementwiseOp::name##_gradient_b, 3);
#include "extensor/tables/binary.def"
#define COMPARE(name, ...) add(ElementwiseOp::name, 2);
#define PREDICATE(name, ...) add(ElementwiseOp::name, 1);
#include "extensor/tables/logical.def"
    add(ElementwiseOp::fma, 3);
    add(ElementwiseOp::where, 3);
    // The sum of the rows, as many as a formula may have.
    constexpr std::size_t most = max_formula_steps / 2;
    for (std::size_t first = 0; first < rows.size(); first += most) {
      std::vector<FormulaStep> steps(
          rows.begin() + static_cast<std::ptrdiff_t>(first),
          rows.begin() + static_cast<std::ptrdiff_t>(std::min(first + most, rows.size())));
      const auto count = static_cast<int>(steps.size());
      for (int k = 0; k < count; ++k) {
        const FormulaValue sum = k == 0 ? number(0) : step(count + k - 1);
        steps.push_back({ElementwiseOp::add, 2, {sum, step(k), {}}, {}});
      }
      FormulaCall call = call_of(compute, shape, steps);
      call.input_count = 2;
      // Not aligned: one element at a time is compiled fastest.
      call.inputs[0] = {memory.data() + itemsize(compute), compute, strides};
      call.inputs[1] = {memory.data() + itemsize(compute), compute, strides};
      expect_compiles(std::string("rows from ") + std::to_string(first), call, 1, true);
    }
  }
}

TEST_F(FormulaSource, OfEveryLayoutAndDtype) {
  const std::vector<FormulaStep> steps = {
      {ElementwiseOp::greater, 2, {input(0), input(1), {}}, {}},
      {ElementwiseOp::logical_not, 1, {step(0), {}, {}}, {}},
      {ElementwiseOp::where, 3, {step(1), number(2), input(1)}, {}},
      {ElementwiseOp::multiply, 2, {step(2), step(0), {}}, {}},
  };
  const Shape shape{64, 128};
  const std::int64_t dense[] = {128, 1}, transposed[] = {1, 64}, row[] = {0, 1}, column[] = {1, 0},
                     one[] = {0, 0};
  struct Case {
    const char* what;
    const std::int64_t* strides;
    bool is_flat, is_packed;
  };
  for (const auto& [what, strides, is_flat, is_packed] :
       {Case{"dense", dense, true, true}, Case{"transposed", transposed, false, false},
        Case{"row", row, false, true}, Case{"column", column, false, true},
        Case{"one", one, true, true}}) {
    for (const DType dtype : {DType::float16, DType::float64}) {
      const DType compute = dtype == DType::float64 ? dtype : DType::float32;
      FormulaCall call = call_of(compute, shape, steps);
      call.outputs[0].dtype = dtype;
      call.input_count = 2;
      call.inputs[0] = {memory.data(), dtype, dense};
      call.inputs[1] = {memory.data(), dtype, strides};
      const int width = dtype == DType::float16 ? 8 : 2;
      expect_compiles(what, call, is_packed ? width : 1, is_flat);
    }
  }
  for (int dtype = 0; dtype < dtype_count; ++dtype) {
    FormulaCall call = call_of(DType::float32, shape, steps);
    call.outputs[0].dtype = DType::bfloat16;
    call.input_count = 2;
    call.inputs[0] = {memory.data(), static_cast<DType>(dtype), dense};
    call.inputs[1] = {memory.data(), DType::float32, row};
    expect_compiles(name(static_cast<DType>(dtype)), call, 8, false);
  }
}

// Numbers are arguments: they are not part of the source.
TEST_F(FormulaSource, DoesNotDependOnNumbers) {
  const Shape shape{8};
  const std::int64_t strides[] = {1};
  const auto make = [&](double factor, double alpha, const auto& use) {
    const std::vector<FormulaStep> steps = {
        {ElementwiseOp::multiply, 2, {input(0), number(factor), {}}, {}},
        {ElementwiseOp::elu, 1, {step(0), {}, {}}, {alpha, 0}},
    };
    FormulaCall call = call_of(DType::float32, shape, steps);
    call.input_count = 1;
    call.inputs[0] = {memory.data(), DType::float32, strides};
    FormulaLayout layout;
    EXPECT_TRUE(lay_out(call, layout));
    use(call, layout);
  };
  std::string source, key;
  make(2, 0.5, [&](const FormulaCall& call, const FormulaLayout& layout) {
    source = formula_source(call, layout);
    key = formula_key(call, layout);
    EXPECT_EQ(formula_numbers(call), (std::vector<double>{2, 0.5}));
  });
  make(3, 0, [&](const FormulaCall& call, const FormulaLayout& layout) {
    EXPECT_EQ(formula_source(call, layout), source);
    EXPECT_EQ(formula_key(call, layout), key);
    EXPECT_EQ(formula_numbers(call), (std::vector<double>{3, 0}));
  });
}

TEST_F(FormulaSource, OfManyDimensionsIsRefused) {
  Shape shape;
  std::vector<std::int64_t> strides;
  for (int d = 0; d < 13; ++d) {
    shape.push_back(2);
    strides.push_back(std::int64_t{1} << d);  // transposed: no two dimensions merge
  }
  const std::vector<FormulaStep> steps = {{ElementwiseOp::exp, 1, {input(0), {}, {}}, {}}};
  FormulaCall call = call_of(DType::float32, shape, steps);
  call.input_count = 1;
  call.inputs[0] = {memory.data(), DType::float32, strides.data()};
  FormulaLayout layout;
  EXPECT_FALSE(lay_out(call, layout));
}

}  // namespace
}  // namespace extensor::backend::cuda
