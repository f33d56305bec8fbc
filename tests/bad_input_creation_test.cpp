// Tensors that cannot be created.
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/make_tensor.h"
#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

CHILD_TEST(BadInputCreation, Item01NegativeDimension) {
  expect_error<ShapeError>([] { zeros({2, -3}); }, {"zeros", "-3", "[2, -3]"});
  expect_error<ShapeError>([] { ones({-1}); }, {"ones", "-1"});
  expect_error<ShapeError>([] { empty({INT64_MIN}); }, {"empty", "-9223372036854775808"});
  expect_error<ShapeError>([] { full({0, -1}, 2.5); }, {"full", "-1"});  // also next to a 0
  expect_error<ShapeError>([] { rand({-4, 2}); }, {"rand", "-4"});
  expect_error<ShapeError>([] { randint(0, 3, {-4}); }, {"randint", "-4"});
  expect_error<ShapeError>([] { eye(-2); }, {"eye", "-2"});
  expect_error<ShapeError>([] { eye(2, -5); }, {"eye", "-5"});
  expect_error<ValueError>([] { linspace(0, 1, -7); }, {"linspace", "count", "-7"});
  expect_error<ValueError>([] { randperm(-7); }, {"randperm", "count", "-7"});
  expect_error<ShapeError>([] { from_data(std::vector<float>{}, {-2}); }, {"from_data", "-2"});
  float place = 0;
  expect_error<ShapeError>([&] { from_external(&place, float32, {-1}); }, {"from_external", "-1"});
}

CHILD_TEST(BadInputCreation, Item02ElementCountOverflows) {
  const std::int64_t large = std::int64_t{1} << 40;
  expect_error<ShapeError>([=] { zeros({large, large}); }, {"zeros", "1099511627776", "overflow"});
  // A 0 in another dimension must not hide it, nor a product that wraps around to a small number.
  expect_error<ShapeError>([=] { empty({large, 0, large}); }, {"empty", "overflow"});
  expect_error<ShapeError>(
      [] {
        empty({std::int64_t{1} << 32, std::int64_t{1} << 32, 3}, int8);
      },
      {"empty", "overflow"});
  expect_error<ShapeError>(
      [=] {
        from_data(std::vector<float>{1}, {large, large});
      },
      {"from_data", "overflow"});
  const Tensor one = ones({1, 1});
  expect_error<ShapeError>(
      [&] {
        broadcast_to(one, {large, large});
      },
      {"broadcast_to", "1099511627776"}, {one});
  expect_error<ShapeError>(
      [&] {
        (void)(broadcast_to(one, {large, 1}) + broadcast_to(one, {1, large}));
      },
      {"add", "1099511627776"}, {one});
  expect_error<ShapeError>([] { arange(INT64_MIN, INT64_MAX); },
                           {"arange", "-9223372036854775808"});
  expect_error<ShapeError>([] { arange(0.0, 1e300, 1e-300); }, {"arange", "1e+300"});
}

CHILD_TEST(BadInputCreation, Item03ByteCountOverflows) {
  const std::int64_t large = std::int64_t{1} << 61;
  expect_error<ShapeError>([=] { zeros({large}); }, {"zeros", "byte count", "float32"});
  expect_error<ShapeError>([=] { empty({2, large / 2}, float64); }, {"empty", "float64"});
  float place = 0;
  expect_error<ShapeError>([&] { from_external(&place, float32, {large}); },
                           {"from_external", "byte count"});
}

CHILD_TEST(BadInputCreation, Item04OnePetabyte) {
  const std::int64_t petabyte = std::int64_t{1} << 50;
  expect_error<OutOfMemoryError>([=] { empty({petabyte}, uint8); }, {"empty", "1125899906842624"});
  expect_error<OutOfMemoryError>([=] { zeros({petabyte / 4}); }, {"zeros"});
  expect_error<OutOfMemoryError>([=] { arange(petabyte / 8); }, {"arange"});
  expect_error<OutOfMemoryError>([=] { linspace(0, 1, petabyte / 8); }, {"linspace"});
  expect_error<OutOfMemoryError>([=] { randn({petabyte / 4}); }, {"randn"});
  expect_error<OutOfMemoryError>([=] { randperm(petabyte / 8); }, {"randperm"});
  expect_error<OutOfMemoryError>([=] { eye(std::int64_t{1} << 24); }, {"eye"});
  // Views of that size are free; copying them must fail.
  const Tensor one = ones({1});
  const Tensor huge = one.broadcast_to({petabyte});
  expect_error<OutOfMemoryError>([&] { (void)huge.clone(); }, {"clone"}, {one});
  expect_error<OutOfMemoryError>([&] { (void)(huge + 1); }, {"add"}, {one});
  // A failed draw does not advance the generator.
  Generator generator(7);
  expect_error<OutOfMemoryError>([&] { rand({petabyte}, float32, generator); }, {"rand"});
  EXPECT_EQ(generator.offset(), 0U);
}

CHILD_TEST(BadInputCreation, Item04LimitOfOneMebibyte) {
  set_memory_limit(memory_stats().allocated_bytes + (std::size_t{1} << 20));
  Tensor x = ones({64});
  expect_error<OutOfMemoryError>([] { zeros({std::int64_t{1} << 20}); }, {"zeros", "limit"}, {x});
  EXPECT_EQ(sum(zeros({1000})).item<float>(), 0.0F);
  set_memory_limit(0);
  EXPECT_EQ(zeros({std::int64_t{1} << 20}).numel(), std::int64_t{1} << 20);
}

CHILD_TEST(BadInputCreation, Item05Rank65) {
  const Shape deep(65, 1);
  expect_error<ShapeError>([&] { zeros(deep); }, {"zeros", "65", "64"});
  const Tensor x = ones(Shape(64, 1));
  expect_error<ShapeError>([&] { (void)x.unsqueeze(0); }, {"unsqueeze", "65"}, {x});
  expect_error<ShapeError>([&] { (void)x.reshape(deep); }, {"reshape", "65"}, {x});
  expect_error<ShapeError>([&] { (void)x.broadcast_to(deep); }, {"broadcast_to", "65"}, {x});
  expect_error<ShapeError>([&] { (void)x[{newaxis}]; }, {"index", "65"}, {x});
  const std::vector<Tensor> vectors(65, ones({1}));
  expect_error<ShapeError>([&] { meshgrid(vectors); }, {"meshgrid", "65"});
  // The maximum depth works.
  EXPECT_EQ((x + x).shape(), Shape(64, 1));
  EXPECT_EQ(sum(x).item<float>(), 1.0F);
}

CHILD_TEST(BadInputCreation, Item06DataLengthDiffersFromShape) {
  const std::vector<float> values = {1, 2, 3, 4, 5};
  expect_error<ShapeError>([&] { from_data(values, {2, 3}); }, {"from_data", "5", "[2, 3]", "6"});
  expect_error<ShapeError>([&] { from_data(values, {0}); }, {"from_data", "5", "[0]"});
  expect_error<ShapeError>([&] { from_data(std::vector<bool>{true}, {2}); }, {"from_data", "[2]"});
  expect_error<ShapeError>([] { (void)tensor({{1, 2}, {3}}); }, {"tensor", "row 1"});
  expect_error<ValueError>([] { from_external(nullptr, float32, {2}); }, {"from_external", "null"});
  alignas(8) char places[16] = {};
  expect_error<ValueError>([&] { from_external(places + 1, float32, {2}); },
                           {"from_external", "aligned", "float32"});
}

CHILD_TEST(BadInputCreation, NullForData) {
  expect_error<ValueError>([] { from_bytes(nullptr, 4, float32, {4}); },
                           {"from_data", "values is null", "4", "[4]"});
  expect_error<ValueError>(
      [] { from_data(std::span<const double>(static_cast<const double*>(nullptr), 2), {2}); },
      {"from_data", "values is null"});
  EXPECT_EQ(from_bytes(nullptr, 0, float32, {0, 3}).shape(), Shape({0, 3}));
  const unsigned char bytes[] = {0, 1, 2, 255};  // every value but 0 is true
  const Tensor truth = from_bytes(bytes, 4, bool_, {4});
  EXPECT_EQ(truth.to(uint8).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 1, 1, 1}));
}

// A number cast to DType that is not one of its values.
CHILD_TEST(BadInputCreation, InvalidDType) {
  for (int number : {15, 100, 255}) {
    const auto invalid = static_cast<DType>(number);
    const std::string text = "invalid (" + std::to_string(number) + ")";
    EXPECT_STREQ(name(invalid), "invalid");
    EXPECT_EQ(detail::message(invalid), text);
    EXPECT_EQ(itemsize(invalid), 1U);
    const Tensor x = ones({2});
    std::int64_t place = 0;
    expect_error<DTypeError>([&] { empty({2}, invalid); }, {"empty", text});
    expect_error<DTypeError>([&] { zeros({0}, invalid); }, {"zeros", text});
    expect_error<DTypeError>([&] { full({}, true, invalid); }, {"full", text});
    expect_error<DTypeError>([&] { zeros_like(x, invalid); }, {"zeros_like", text}, {x});
    expect_error<DTypeError>([&] { x.to(invalid); }, {"to", text}, {x});
    expect_error<DTypeError>([&] { arange(3, invalid); }, {text});
    expect_error<DTypeError>([&] { arange(0.0, 3.0, 1.0, invalid); }, {text});
    expect_error<DTypeError>([&] { linspace(0, 1, 3, invalid); }, {text});
    expect_error<DTypeError>([&] { (void)tensor({1, 2}, invalid); }, {text});
    expect_error<DTypeError>([&] { rand({2}, invalid); }, {"rand", text});
    expect_error<DTypeError>([&] { randint(0, 3, {2}, invalid); }, {"randint", text});
    expect_error<DTypeError>([&] { bernoulli(0.5, {2}, invalid); }, {"bernoulli", text});
    expect_error<DTypeError>([&] { one_hot(tensor({1}), 2, invalid); }, {text});
    expect_error<DTypeError>([&] { eye(2, 2, 0, invalid); }, {"eye", text});
    expect_error<DTypeError>([&] { from_bytes(&place, 1, invalid, {1}); }, {"from_data", text});
    expect_error<DTypeError>([&] { from_external(&place, invalid, {1}); }, {"from_external", text});
    expect_error<DTypeError>([&] { promote_types(invalid, float32); }, {"promote_types", text});
    expect_error<DTypeError>([&] { promote_types(bool_, invalid); }, {"promote_types", text});
  }
}

// A number cast to an options enumeration that is not one of its values.
CHILD_TEST(BadInputCreation, InvalidOptions) {
  const Tensor x = ones({2, 3});
  const auto mode = static_cast<FanMode>(2);
  const auto nonlinearity = static_cast<Nonlinearity>(99);
  expect_error<ValueError>([&] { calculate_gain(nonlinearity); },
                           {"calculate_gain", "nonlinearity", "99", "0 to 5"});
  expect_error<ValueError>(
      [&] {
        kaiming_uniform({2, 2}, 0, FanMode::fan_in, nonlinearity);
      },
      {"kaiming_uniform", "nonlinearity", "99"});
  expect_error<ValueError>(
      [&] {
        kaiming_normal({2, 2}, 0, mode);
      },
      {"kaiming_normal", "mode", "2", "0 to 1"});
  expect_error<ValueError>(
      [&] {
        pad(x, {{1, 1}}, static_cast<PadMode>(4));
      },
      {"pad", "mode", "4", "0 to 3"}, {x});
  expect_error<ValueError>([&] { linear(x, x, {}, static_cast<Activation>(7)); },
                           {"linear", "activation", "7", "0 to 6"}, {x});
  expect_error<ValueError>(
      [&] {
        linear_backward(ones({2, 2}), x, x, {}, static_cast<Activation>(7));
      },
      {"linear_backward", "activation", "7"}, {x});
  expect_error<ValueError>(
      [&] {
        rnn_layer(ones({2, 1, 3}), {ones({4, 3}), ones({4, 4})}, {},
                  static_cast<RecurrentActivation>(2));
      },
      {"rnn_layer", "activation", "2"});
  const auto reduction = static_cast<Reduction>(3);
  expect_error<ValueError>([&] { mean_squared_error(x, x, reduction); }, {"reduction", "3"}, {x});
  expect_error<ValueError>(
      [&] {
        cross_entropy(x, tensor({0, 1}), {}, reduction);
      },
      {"reduction", "3"}, {x});
  expect_error<ValueError>([&] { triplet_margin_loss(x, x, x, 1, 2, 1e-6, false, reduction); },
                           {"reduction", "3"}, {x});
}

// A backward has a shape parameter, which may be invalid for any tensor.
CHILD_TEST(BadInputCreation, ShapesOfBackwardsThatNoTensorHas) {
  const Tensor one = ones({});
  expect_error<ShapeError>([&] { sum_backward(one, Shape(65, 1)); }, {"sum_backward", "65", "64"});
  expect_error<ShapeError>([&] { mean_backward(one, Shape(1000, 1)); }, {"mean_backward", "1000"});
  expect_error<ShapeError>(
      [&] {
        sum_backward(one, {INT64_MAX, INT64_MAX});
      },
      {"sum_backward", "overflows"});
  expect_error<ShapeError>([&] { sum_backward(one, {-1}); }, {"sum_backward", "-1"});
}

CHILD_TEST(BadInputCreation, LinspaceBetweenNumbersThatAreNone) {
  expect_error<ValueError>([] { linspace(-infinity, infinity, 3); }, {"linspace", "-inf", "inf"});
  expect_error<ValueError>([] { linspace(nan_value, 1, 3); }, {"linspace", "start", "nan"});
  expect_error<ValueError>([] { linspace(0, infinity, 1); }, {"linspace", "stop", "inf"});
  expect_error<ValueError>([] { linspace(0, 300, 3, int8); }, {"linspace", "300", "int8"});
  expect_error<ValueError>([] { linspace(-1, 3, 3, uint8); }, {"linspace", "-1", "uint8"});
  constexpr double most = std::numeric_limits<double>::max();
  EXPECT_EQ(linspace(-most, most, 3, float64).to_vector<double>(),
            (std::vector<double>{-most, 0, most}));
  EXPECT_EQ(linspace(0, 1, 3, int64).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 0, 1}));
}

CHILD_TEST(BadInputCreation, Item07StridedViewBeyondItsStorage) {
  const Tensor x = arange(10);
  const auto view = [&](const Shape& shape, const Strides& strides, std::int64_t offset) {
    return detail::strided_view("strided_view", x, shape, strides, offset);
  };
  expect_error<ValueError>([&] { view({11}, {1}, 0); }, {"strided_view", "[11]", "10"}, {x});
  expect_error<ValueError>([&] { view({5}, {-1}, 3); }, {"strided_view", "-1"}, {x});
  expect_error<ValueError>([&] { view({2, 2}, {INT64_MAX, INT64_MAX}, 0); }, {"strided_view"}, {x});
  expect_error<ValueError>([&] { view({2}, {INT64_MIN}, 0); }, {"strided_view"}, {x});
  expect_error<ValueError>([&] { view({1}, {1}, INT64_MAX); }, {"strided_view"}, {x});
  expect_error<ShapeError>([&] { view({2}, {1, 1}, 0); }, {"strided_view", "[1, 1]"}, {x});
  EXPECT_EQ(sum(view({5}, {2}, 0)).item<std::int64_t>(), 20);
}

CHILD_TEST(BadInputCreation, Item08ArangeWithStepZeroOrNan) {
  expect_error<ValueError>([] { arange(0, 5, 0); }, {"arange", "step", "0"});
  expect_error<ValueError>([] { arange(0.0, 5.0, 0.0); }, {"arange", "step", "0"});
  expect_error<ValueError>([] { arange(0.0, 5.0, nan_value); }, {"arange", "step", "nan"});
  expect_error<ValueError>([] { arange(0.0, 5.0, infinity); }, {"arange", "step", "inf"});
  expect_error<ValueError>([] { arange(nan_value, 5.0, 1.0); }, {"arange", "start", "nan"});
  expect_error<ValueError>([] { arange(0.0, infinity, 1.0); }, {"arange", "stop", "inf"});
  expect_error<ValueError>([] { arange(std::uint64_t{1} << 63); },
                           {"arange", "9223372036854775808"});
  expect_error<ValueError>([] { arange(0, 300, 100, int8); }, {"arange", "200", "int8"});
  expect_error<ValueError>([] { arange(2, -4, -2, uint8); }, {"arange", "-2", "uint8"});
  expect_error<ValueError>([] { arange(0.0, 1e30, 5e29, int64); }, {"arange", "5e+29", "int64"});
  EXPECT_EQ(arange(5, 0, 1).numel(), 0);
  EXPECT_EQ(arange(-1e308, 1e308, 1e308, float64).to_vector<double>(),
            (std::vector<double>{-1e308, 0}));
  EXPECT_EQ(arange(300, 0, 1, int8).numel(), 0);
}

CHILD_TEST(BadInputCreation, Item09RandintWithHighNotAboveLow) {
  Generator generator(1);
  expect_error<ValueError>([&] { randint(3, 3, {2}, int64, generator); }, {"randint", "high", "3"});
  expect_error<ValueError>([&] { randint(5, -5, {2}, int64, generator); }, {"randint", "-5", "5"});
  expect_error<ValueError>([&] { randint(INT64_MAX, INT64_MIN, {2}, int64, generator); },
                           {"randint", "-9223372036854775808"});
  expect_error<ValueError>([&] { randint(0, 300, {2}, int8, generator); },
                           {"randint", "299", "int8"});
  expect_error<ValueError>([&] { randint(-1, 3, {2}, uint8, generator); },
                           {"randint", "-1", "uint8"});
  expect_error<DTypeError>([&] { randint(0, 3, {2}, float32, generator); }, {"randint", "float32"});
  expect_error<ValueError>([&] { bernoulli(1.5, {2}, float32, generator); },
                           {"bernoulli", "probability", "1.5"});
  expect_error<ValueError>([&] { bernoulli(nan_value, {2}, float32, generator); },
                           {"bernoulli", "nan"});
  expect_error<ValueError>([&] { uniform({2}, 1, 0, float32, generator); }, {"uniform", "low"});
  expect_error<ValueError>([&] { normal({2}, 0, -1, float32, generator); },
                           {"normal", "deviation", "-1"});
  expect_error<DTypeError>([&] { rand({2}, int32, generator); }, {"rand", "int32"});
  EXPECT_EQ(generator.offset(), 0U);  // nothing was drawn
}

CHILD_TEST(BadInputCreation, Item10FullOf300InInt8) {
  expect_error<ValueError>([] { full({2}, 300, int8); }, {"full", "300", "int8", "-128", "127"});
  expect_error<ValueError>([] { full({2}, -129, int8); }, {"full", "-129", "int8"});
  expect_error<ValueError>([] { full({2}, -1, uint64); }, {"full", "-1", "uint64"});
  expect_error<ValueError>([] { full({2}, 1e30, int64); }, {"full", "1e+30", "int64"});
  expect_error<ValueError>([] { full({2}, nan_value, int32); }, {"full", "nan", "int32"});
  expect_error<ValueError>([] { scalar(256, uint8); }, {"scalar", "256", "uint8"});
  Tensor x = zeros({3}, int8);
  expect_error<ValueError>([&] { x.fill(300); }, {"fill", "300", "int8"}, {x});
  expect_error<ValueError>([&] { full_like(x, 300); }, {"full_like", "300", "int8"}, {x});
  expect_error<ValueError>([&] { (void)(x + 300); }, {"add", "300", "int8"}, {x});
  expect_error<ValueError>([&] { x += 300; }, {"add_", "300", "int8"}, {x});
  // Fractions in integers, and numbers that are no truth values.
  const auto refused = [&](double value, DType dtype) {
    const std::string number = to_string(scalar(value, float64)), type = name(dtype);
    Tensor old = ones({3}, dtype);
    const Tensor mask = tensor({true, false, true});
    expect_error<ValueError>([&] { full({2}, value, dtype); }, {"full: value", type, "allowed"});
    expect_error<ValueError>([&] { scalar(value, dtype); }, {"scalar: value", type}, {old});
    expect_error<ValueError>([&] { full_like(old, value); }, {"full_like: value", type}, {old});
    expect_error<ValueError>([&] { constant({2}, value, dtype); }, {"value", type});
    expect_error<ValueError>([&] { old.fill(value); }, {"fill: value", type, "allowed"}, {old});
    expect_error<ValueError>([&] { masked_fill(old, mask, value); }, {"masked_fill: value", type});
    expect_error<ValueError>(
        [&] {
          pad(old, {{1, 1}}, PadMode::constant, value);
        },
        {"pad: value", type});
    expect_error<DTypeError>([&] { old[0] = value; }, {"index_put", type}, {old});
    expect_error<DTypeError>([&] { old += value; }, {"add_", type, "in place"}, {old});
  };
  refused(1.5, int32);
  refused(-0.5, uint8);
  refused(1e-9, int64);
  refused(0.5, bool_);
  expect_error<ValueError>([] { full({2}, 2, bool_); }, {"full", "2", "bool", "0 and 1"});
  Tensor truth = zeros({2}, bool_);
  expect_error<ValueError>([&] { truth.fill(-1); }, {"fill", "-1", "bool"}, {truth});
  expect_error<ValueError>([&] { truth[0] = 2; }, {"2", "bool"}, {truth});
  EXPECT_EQ(truth.fill(1.0).to_vector<bool>(), std::vector<bool>(2, true));
  EXPECT_EQ(full({2}, -3.0, int8).to_vector<std::int8_t>(), std::vector<std::int8_t>(2, -3));
  EXPECT_EQ(full({1}, -128, int8).item<int>(), -128);
  EXPECT_EQ(full({1}, UINT64_MAX, uint64).item<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(full({1}, 1e30, float16).item<float>(), infinity);
}

}  // namespace
