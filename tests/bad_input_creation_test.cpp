// Bad inputs 1 to 10: tensors that cannot be made.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

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
  expect_error<ShapeError>([] { full({0, -1}, 2.5); }, {"full", "-1"});  // 0 is no excuse
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
  // A 0 elsewhere must not hide it, nor a product that wraps round to something small.
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
  // Views of that size cost nothing; making them real must fail.
  const Tensor one = ones({1});
  const Tensor huge = one.broadcast_to({petabyte});
  expect_error<OutOfMemoryError>([&] { (void)huge.clone(); }, {"clone"}, {one});
  expect_error<OutOfMemoryError>([&] { (void)(huge + 1); }, {"add"}, {one});
  // A failed draw takes nothing from the generator.
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
  // The deepest that is allowed works.
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
  EXPECT_EQ(full({1}, -128, int8).item<int>(), -128);
  EXPECT_EQ(full({1}, UINT64_MAX, uint64).item<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(full({1}, 1e30, float16).item<float>(), infinity);
}

}  // namespace
