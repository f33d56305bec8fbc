// Operands that do not fit together, and values that an operation does not allow.
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

CHILD_TEST(BadInputElementwise, Item22ShapesThatDoNotBroadcast) {
  const Tensor a = ones({2, 3}), b = ones({4});
  expect_error<ShapeError>([&] { (void)(a + b); }, {"add", "[2, 3]", "[4]"}, {a, b});
  expect_error<ShapeError>([&] { (void)(a < b); }, {"less", "[2, 3]", "[4]"}, {a, b});
  expect_error<ShapeError>([&] { floor_divide(a.to(int32), b.to(int32)); }, {"floor_divide", "[4]"},
                           {a, b});
  expect_error<ShapeError>([&] { where(a > 0, a, b); }, {"where", "[4]"}, {a, b});
  expect_error<ShapeError>([&] { fma(a, a, b); }, {"fma", "[4]"}, {a, b});
  expect_error<ShapeError>([&] { (void)(a + zeros({2, 0})); }, {"add", "[2, 0]"}, {a});
  expect_error<ShapeError>([&] { broadcast_shapes({2, 3}, {2}); }, {"broadcast_shapes", "[2, 3]"});
  Tensor target = ones({3});
  expect_error<ShapeError>([&] { target += a; }, {"add_", "[2, 3]", "[3]"}, {target, a});
  expect_error<ShapeError>([&] { target.copy_from(b); }, {"copy_from", "[4]", "[3]"}, {target, b});
  expect_error<ShapeError>([&] { multiply_backward(b, a, a); },
                           {"multiply_backward", "grad_output", "[4]", "[2, 3]"}, {a, b});
  expect_error<DTypeError>([&] { (void)(a.to(int64) + a.to(uint64)); }, {"add", "int64", "uint64"},
                           {a});
  expect_error<DTypeError>([&] { where(a, a, a); }, {"where", "condition", "float32"}, {a});
  expect_error<DTypeError>([&] { (void)(a & a); }, {"bitwise_and", "float32"}, {a});
}

CHILD_TEST(BadInputElementwise, Item23IntegerDivisionByZero) {
  const Tensor a = tensor({5, -6, 7}), b = tensor({1, 0, 2}), none = tensor({0, 0, 0});
  for (DType dtype : {int8, int16, int32, int64, uint8, uint16, uint32, uint64}) {
    const Tensor x = a.to(dtype), y = b.to(dtype);
    expect_error<ValueError>([&] { floor_divide(x, y); }, {"floor_divide", "zero", name(dtype)},
                             {x, y});
    expect_error<ValueError>([&] { (void)(x % y); }, {"modulo", "zero"}, {x, y});
    expect_error<ValueError>([&] { floor_divide(x, 0); }, {"floor_divide", "zero"}, {x});
    expect_error<ValueError>([&] { (void)(x % 0); }, {"modulo", "zero"}, {x});
    expect_error<ValueError>([&] { floor_divide(5, y); }, {"floor_divide", "zero"}, {y});
    Tensor target = x.clone();
    expect_error<ValueError>([&] { target %= y; }, {"modulo_", "zero"}, {target, y});
    expect_error<ValueError>([&] { floor_divide_(target, y); }, {"floor_divide_", "zero"},
                             {target, y});
    expect_error<ValueError>([&] { target %= 0; }, {"modulo_", "zero"}, {target});
  }
  expect_error<ValueError>([&] { power(a, tensor({2, -1, 0})); }, {"power", "-1"}, {a});
  expect_error<ValueError>([&] { power(a, -1); }, {"power", "-1"}, {a});
  EXPECT_EQ(floor_divide(a, zeros({0, 3}, int64)).shape(), (Shape{0, 3}));
  // True division of integers produces floats.
  EXPECT_EQ((a / none).to_vector<float>(),
            (std::vector<float>{float(infinity), float(-infinity), float(infinity)}));
  EXPECT_TRUE(std::isnan((tensor({1.0}) % tensor({0.0})).item<float>()));
}

template <class T>
void expect_wraps() {
  SCOPED_TRACE(name(dtype_of<T>));
  constexpr T least = std::numeric_limits<T>::min();
  const Tensor a = from_data(std::vector<T>(100, least));
  const Tensor b = full({100}, -1, dtype_of<T>);
  EXPECT_EQ(floor_divide(a, b).template to_vector<T>(), std::vector<T>(100, least));
  EXPECT_EQ(floor_divide(a, -1).template to_vector<T>(), std::vector<T>(100, least));
  EXPECT_EQ((a % b).template to_vector<T>(), std::vector<T>(100, T{0}));
  EXPECT_EQ((-a).template to_vector<T>(), std::vector<T>(100, least));
  EXPECT_EQ(abs(a).template to_vector<T>(), std::vector<T>(100, least));
  EXPECT_EQ((a * b).template to_vector<T>(), std::vector<T>(100, least));
  EXPECT_EQ((a + b).template to_vector<T>(), std::vector<T>(100, std::numeric_limits<T>::max()));
  EXPECT_EQ((a - 1).template to_vector<T>(), std::vector<T>(100, std::numeric_limits<T>::max()));
}

CHILD_TEST(BadInputElementwise, Item24LeastIntegerByMinusOneWraps) {
  expect_wraps<std::int8_t>();
  expect_wraps<std::int16_t>();
  expect_wraps<std::int32_t>();
  expect_wraps<std::int64_t>();
}

CHILD_TEST(BadInputElementwise, Item25ShiftBeyondTheWidth) {
  for (DType dtype : {int8, int16, int32, int64, uint8, uint16, uint32, uint64}) {
    SCOPED_TRACE(name(dtype));
    const int width = static_cast<int>(8 * itemsize(dtype));
    const Tensor x = tensor({1, 2, 3}, dtype);
    const Tensor wide = tensor({0, 1, width}, dtype);
    const std::string most = std::to_string(width - 1);
    expect_error<ValueError>([&] { (void)(x << wide); },
                             {"bitwise_left_shift", most, std::to_string(width)}, {x, wide});
    expect_error<ValueError>([&] { (void)(x >> wide); }, {"bitwise_right_shift", most}, {x, wide});
    expect_error<ValueError>([&] { (void)(x << width); }, {"bitwise_left_shift", most}, {x});
    expect_error<ValueError>([&] { (void)(1 << wide); }, {"bitwise_left_shift", most}, {wide});
    expect_error<ValueError>([&] { (void)(x << -1); }, {"bitwise_left_shift", "-1"}, {x});
    Tensor target = x.clone();
    expect_error<ValueError>([&] { bitwise_right_shift_(target, wide); },
                             {"bitwise_right_shift_", most}, {target, wide});
    EXPECT_EQ((x << 1).to(int64).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 4, 6}));
    EXPECT_EQ((x << (width - 1) >> (width - 1) != 0).to_vector<bool>(),
              (std::vector<bool>{true, false, true}));
  }
  const Tensor x = tensor({1, 2, 3}), negative_shift = tensor({0, -1, 0});
  expect_error<ValueError>([&] { (void)(x >> negative_shift); }, {"bitwise_right_shift", "-1"},
                           {x, negative_shift});
  expect_error<DTypeError>([&] { (void)(x.to(float32) << x); }, {"bitwise_left_shift", "float32"});
  expect_error<DTypeError>([&] { (void)(x.to(bool_) << x.to(bool_)); }, {"bitwise_left_shift"});
}

CHILD_TEST(BadInputElementwise, Item26LogarithmOfANegativeIsNan) {
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    SCOPED_TRACE(name(dtype));
    const Tensor x = full({67}, -1.0, dtype);
    for (const Tensor& y : {log(x), log2(x), log10(x), log1p(x * 2), sqrt(x), rsqrt(x), acosh(x),
                            asin(x * 2), atanh(x * 2)}) {
      EXPECT_TRUE(all(isnan(y)).item<bool>()) << y;
    }
    EXPECT_TRUE(all(log(x * 0) == -infinity).item<bool>());
    EXPECT_TRUE(all(x / 0.0 == -infinity).item<bool>());
  }
  EXPECT_TRUE(std::isnan(log(tensor({-1})).item<float>()));
}

template <class T>
void expect_saturates() {
  using Limits = std::numeric_limits<T>;
  SCOPED_TRACE(name(dtype_of<T>));
  const std::vector<T> expected = {0, Limits::max(), Limits::min(), Limits::max(), Limits::min()};
  for (DType dtype : {bfloat16, float32, float64}) {
    const Tensor x = tensor({nan_value, 1e30, -1e30, infinity, -infinity}, dtype);
    EXPECT_EQ(x.to(dtype_of<T>).template to_vector<T>(), expected);
    // The same in the blocks and tails of the converting loops.
    const Tensor many = x.broadcast_to({41, 5}).clone().to(dtype_of<T>);
    for (std::int64_t i = 0; i < 41; ++i) {
      EXPECT_EQ(many[i].template to_vector<T>(), expected);
    }
    EXPECT_EQ(x[1].item<T>(), Limits::max());
  }
}

CHILD_TEST(BadInputElementwise, Item27NanAndHugeToIntegers) {
  expect_saturates<std::int8_t>();
  expect_saturates<std::int16_t>();
  expect_saturates<std::int32_t>();
  expect_saturates<std::int64_t>();
  expect_saturates<std::uint8_t>();
  expect_saturates<std::uint16_t>();
  expect_saturates<std::uint32_t>();
  expect_saturates<std::uint64_t>();
}

CHILD_TEST(BadInputElementwise, Item28InPlaceOnOverlappingMemory) {
  Tensor base = arange(10);
  Tensor head = base.slice(0, 0, 9);
  const Tensor tail = base.slice(0, 1, 10);
  expect_error<ValueError>([&] { head += tail; }, {"add_", "overlap", "[9]"}, {base});
  expect_error<ValueError>([&] { maximum_(head, tail); }, {"maximum_", "overlap"}, {base});
  Tensor square = arange(16).reshape({4, 4});
  expect_error<ValueError>([&] { square -= square.transpose(); }, {"subtract_", "overlap"},
                           {square});
  expect_error<ValueError>([&] { square *= square[0]; }, {"multiply_", "overlap"}, {square});
  base += base;
  EXPECT_EQ(sum(base).item<int>(), 90);
}

CHILD_TEST(BadInputElementwise, Item29InPlaceOnABroadcastView) {
  Tensor base = ones({3, 1});
  Tensor wide = base.broadcast_to({3, 4});
  expect_error<ValueError>([&] { wide += 1; }, {"add_", "[3, 4]", "broadcast"}, {base});
  expect_error<ValueError>([&] { wide *= ones({3, 4}); }, {"multiply_", "[3, 4]"}, {base});
  expect_error<ValueError>([&] { wide.fill(2); }, {"fill", "[3, 4]"}, {base});
  expect_error<ValueError>([&] { wide.copy_from(zeros({3, 4})); }, {"copy_from", "[3, 4]"}, {base});
  expect_error<ValueError>([&] { exp_(wide); }, {"exp_", "[3, 4]"}, {base});
  expect_error<ValueError>([&] { clip_(wide, 0, 1); }, {"clip_", "[3, 4]"}, {base});
  Tensor windows = detail::strided_view("test", arange(6), {3, 3}, {1, 1}, 0);
  expect_error<ValueError>([&] { windows += 1; }, {"add_", "[3, 3]"}, {windows});
}

CHILD_TEST(BadInputElementwise, Item30OperandsOnTwoDevices) {
  // This build has no second device: its memory is faked.
  float place[4] = {1, 2, 3, 4};
  const Device cuda{Device::Type::cuda, 0};
  Tensor far =
      detail::make_on_storage(wrap_storage(place, sizeof(place), cuda, nullptr, nullptr),
                              reinterpret_cast<std::byte*>(place), float32, {2, 2}, {2, 1});
  Tensor near = ones({2, 2});
  const std::vector<Tensor> both = {near, far};
  expect_error<DeviceError>([&] { (void)(near + far); }, {"add", "cpu", "cuda:0"}, both);
  expect_error<DeviceError>([&] { (void)(far < near); }, {"less", "cuda:0"}, both);
  expect_error<DeviceError>([&] { where(near > 0, near, far); }, {"where", "cuda:0"}, both);
  expect_error<DeviceError>([&] { fma(near, far, near); }, {"fma", "cuda:0"}, both);
  expect_error<DeviceError>([&] { near += far; }, {"add_", "cuda:0"}, both);
  expect_error<DeviceError>([&] { far *= near; }, {"multiply_", "cuda:0"}, both);
  expect_error<DeviceError>([&] { near.copy_from(far); }, {"copy_from", "cuda:0"}, both);
  expect_error<DeviceError>([&] { matmul(near, far); }, {"matmul", "cuda:0"}, both);
  expect_error<DeviceError>([&] { concatenate({near, far}); }, {"cuda:0"}, both);
  expect_error<DeviceError>([&] { exp_backward(near, far); }, {"exp_backward", "cuda:0"}, both);
  expect_error<DeviceError>([&] { softmax_backward(near, far); }, {"softmax_backward", "cuda:0"},
                            both);
  // On its own it has no backend either.
  expect_error<DeviceError>([&] { (void)(far + far); }, {"cuda:0"}, both);
  expect_error<DeviceError>([&] { sum(far); }, {"cuda:0"}, both);
  expect_error<DeviceError>([&] { exp_(far); }, {"cuda:0"}, both);
  expect_error<DeviceError>([&] { (void)far[0][0].item<float>(); }, {"item", "cuda:0"}, both);
  expect_error<DeviceError>([&] { (void)far.to(float64); }, {"to", "cuda:0"}, both);
}

CHILD_TEST(BadInputElementwise, Item31ClipWithLowAboveHigh) {
  Tensor x = tensor({-2.0, 0.5, 3.0}), n = tensor({-2, 0, 3});
  expect_error<ValueError>([&] { clip(x, 1, -1); }, {"clip", "lo", "1", "-1"}, {x});
  expect_error<ValueError>([&] { clip(n, 5, 2); }, {"clip", "5", "2"}, {n});
  expect_error<ValueError>([&] { clip_(x, 1, -1); }, {"clip_", "1", "-1"}, {x});
  expect_error<ValueError>([&] { clip(x, nan_value, 1); }, {"clip", "nan"}, {x});
  expect_error<ValueError>([&] { hard_tanh(x, 2, 1); }, {"hard_tanh", "2", "1"}, {x});
  expect_error<ValueError>([&] { clip_backward(x, x, 1, -1); }, {"clip_backward", "1", "-1"}, {x});
  expect_error<ValueError>([&] { clip(n.to(int8), -300, 3); }, {"clip", "-300", "int8"}, {n});
  // Bounds that differ by less than a double can represent.
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  expect_error<ValueError>([&] { clip(n, large, large - 1); },
                           {"clip", "9007199254740993", "9007199254740992"}, {n});
  EXPECT_EQ(clip(n, 0, 2).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 2}));
  EXPECT_EQ(clip(x, 1, 1).to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

}  // namespace
