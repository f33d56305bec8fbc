// A CUDA device itself: creation, copies, random bits, memory, errors, and numbers that the op
// database does not reach.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cuda/cuda_test.h"
#include "op_database/compare.h"

namespace extensor {
namespace {

using cuda_test::CudaTest;
using cuda_test::device;
using cuda_test::expect_words;
using cuda_test::message_of;
using cuda_test::same_bits;

class Cuda : public CudaTest {};

TEST_F(Cuda, IsListedAndNamed) {
  EXPECT_EQ(to_string(device), "cuda:0");
  bool listed = false;
  for (const DeviceInfo& info : devices()) {
    if (!(info.device == device)) continue;
    listed = true;
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.memory_bytes, std::size_t{1} << 30);
    EXPECT_GT(info.threads, 0);
  }
  EXPECT_TRUE(listed);
  EXPECT_NE(cuda_stream(), nullptr);
  EXPECT_THROW(cuda_stream(cpu_device), DeviceError);
  EXPECT_THROW(zeros({1}, cuda(1000)), DeviceError);
  EXPECT_THROW(zeros({1}, cuda(-1)), DeviceError);
}

TEST_F(Cuda, CreatesTensors) {
  EXPECT_EQ(zeros({2}, device).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(ones({3}, {.dtype = int32, .device = device}).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{1, 1, 1}));
  EXPECT_EQ(full({5}, 7, device).to_vector<std::int64_t>(), (std::vector<std::int64_t>(5, 7)));
  EXPECT_EQ(scalar(2.5, device).item<double>(), 2.5);
  EXPECT_EQ(arange(3, device).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(linspace(0, 1, 3, device).to_vector<float>(), (std::vector<float>{0, 0.5, 1}));
  EXPECT_EQ(eye(2, {}, 0, device).to_vector<float>(), (std::vector<float>{1, 0, 0, 1}));
  EXPECT_EQ(
      full({1000003}, 3.0, {.dtype = bfloat16, .device = device}).to(float32).to_vector<float>(),
      std::vector<float>(1000003, 3.0f));
  for (int exponent = 0; exponent < 13; ++exponent) {
    const auto dtype = static_cast<DType>(exponent);
    EXPECT_TRUE(same_bits(full({33}, 1, {.dtype = dtype, .device = device}),
                          full({33}, 1, {.dtype = dtype})))
        << name(dtype);
  }
}

TEST_F(Cuda, RandomNumbersAreTheCpus) {
  const auto compare = [](const char* what, const auto& drawn) {
    for (const std::int64_t count : {1, 33, 100003, 3000001}) {
      Generator here(5), there(5);
      // An odd number of draws before, so that blocks are begun in the middle.
      const Tensor odd_here = drawn(Shape{3}, TensorOptions{}, here);
      const Tensor odd_there = drawn(Shape{3}, TensorOptions(device), there);
      const Tensor expected = drawn(Shape{count}, TensorOptions{}, here);
      const Tensor got = drawn(Shape{count}, TensorOptions(device), there);
      EXPECT_EQ(got.device(), device);
      EXPECT_TRUE(same_bits(odd_here, odd_there)) << what;
      EXPECT_TRUE(same_bits(got, expected)) << what << " " << count;
    }
  };
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const auto with = [dtype](TensorOptions o) {
      o.dtype = dtype;
      return o;
    };
    compare("rand", [&](const Shape& s, const TensorOptions& o, Generator& g) {
      return rand(s, with(o), g);
    });
    compare("randn", [&](const Shape& s, const TensorOptions& o, Generator& g) {
      return randn(s, with(o), g);
    });
    compare("uniform", [&](const Shape& s, const TensorOptions& o, Generator& g) {
      return uniform(s, -1, 2, with(o), g);
    });
    compare("normal", [&](const Shape& s, const TensorOptions& o, Generator& g) {
      return normal(s, 1, 2, with(o), g);
    });
    compare("bernoulli", [&](const Shape& s, const TensorOptions& o, Generator& g) {
      return bernoulli(0.3, s, with(o), g);
    });
  }
  compare("randint", [](const Shape& s, const TensorOptions& o, Generator& g) {
    return randint(-5, 5, s, o, g);
  });
}

TEST_F(Cuda, CopiesBetweenDevices) {
  const Tensor x = arange(24, float32).reshape({2, 3, 4});
  const Tensor far = x.to(device);
  EXPECT_EQ(far.device(), device);
  EXPECT_TRUE(same_bits(far, x));
  EXPECT_TRUE(same_bits(x.transpose().to(device), x.transpose()));
  EXPECT_TRUE(
      same_bits(far.transpose().slice(0, 1, 3).to(cpu_device), x.transpose().slice(0, 1, 3)));
  EXPECT_TRUE(same_bits(x.to(device, float64), x.to(float64)));
  EXPECT_EQ(zeros({0, 3}).to(device).shape(), (Shape{0, 3}));
  EXPECT_TRUE(same_bits(far.clone(), x));
  EXPECT_TRUE(same_bits(far.transpose().contiguous(), x.transpose()));
  Tensor target = zeros({2, 3, 4}, device);
  target.copy_from(x);
  EXPECT_TRUE(same_bits(target, x));
  target.slice(2, 1, 3).copy_from(x.slice(2, 0, 1).to(float64));
  Tensor expected = x.clone();
  expected.slice(2, 1, 3).copy_from(x.slice(2, 0, 1));
  EXPECT_TRUE(same_bits(target, expected));
  target.fill(3);
  EXPECT_TRUE(same_bits(target, full_like(x, 3)));
}

// Larger than the pinned buffers, and not a multiple of them.
TEST_F(Cuda, CopiesLargeTensors) {
  const Tensor x = randn({5 * 1024 * 1024 + 17}, {.dtype = float64});
  Tensor far = x.to(device);
  EXPECT_TRUE(same_bits(far, x));
  EXPECT_TRUE(same_bits(far.slice(0, 1, 3000001), x.slice(0, 1, 3000001)));
}

TEST_F(Cuda, TransposesAndPermutes) {
  for (const DType dtype : {uint8, float16, float32, float64}) {
    const Tensor x = (arange(1, 70 * 33 * 129 + 1) % 251).to(dtype).reshape({70, 33, 129});
    const Tensor far = x.to(device);
    EXPECT_TRUE(same_bits(far.transpose({0, 2, 1}).contiguous(), x.transpose({0, 2, 1})));
    EXPECT_TRUE(same_bits(far.transpose({2, 1, 0}).contiguous(), x.transpose({2, 1, 0})));
    EXPECT_TRUE(same_bits(far.transpose({1, 2, 0}).contiguous(), x.transpose({1, 2, 0})));
    EXPECT_TRUE(same_bits(far.transpose({2, 0, 1}).contiguous(), x.transpose({2, 0, 1})));
  }
}

TEST_F(Cuda, ConvertsEveryDtypeToEveryOther) {
  std::vector<double> values = {0,
                                -0.0,
                                1,
                                -1,
                                0.5,
                                1.5,
                                2.5,
                                -2.5,
                                127,
                                128,
                                255,
                                256,
                                -128,
                                -129,
                                32767,
                                32768,
                                65504,
                                65520,
                                1e5,
                                -1e5,
                                2147483647.0,
                                2147483648.0,
                                -2147483649.0,
                                4294967295.0,
                                4294967296.0,
                                9.2e18,
                                -9.3e18,
                                1.9e19,
                                1e-8,
                                6e-8,
                                1e30,
                                -1e30,
                                1e300,
                                INFINITY,
                                -INFINITY,
                                NAN,
                                1.00048828125,
                                1.0009765625,
                                3.0e-5,
                                1.0039062501};
  Tensor source = empty({static_cast<std::int64_t>(values.size())}, float64);
  std::memcpy(source.impl().data, values.data(), source.nbytes());
  for (int from = 0; from < dtype_count; ++from) {
    const Tensor x = source.to(static_cast<DType>(from));
    const Tensor far = x.to(device);
    for (int to = 0; to < dtype_count; ++to) {
      const auto dtype = static_cast<DType>(to);
      const Tensor expected = x.to(dtype), got = far.to(dtype).to(cpu_device);
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const double a = expected[i].item<double>(), b = got[i].item<double>();
        EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
            << name(x.dtype()) << " to " << name(dtype) << ": "
            << values[static_cast<std::size_t>(i)] << " gives " << b << ", expected " << a;
      }
    }
  }
}

TEST_F(Cuda, ElementwiseOpsWithViewsBroadcastingAndNumbers) {
  const Tensor a = randn({5, 7}), b = randn({7}), c = randn({7, 5});
  const Tensor x = a.to(device), y = b.to(device), z = c.to(device);
  EXPECT_TRUE(same_bits(x + y, a + b));
  EXPECT_TRUE(same_bits(x * z.transpose(), a * c.transpose()));
  EXPECT_TRUE(same_bits(x.slice(1, {}, {}, -2) - 1.5, a.slice(1, {}, {}, -2) - 1.5));
  EXPECT_TRUE(same_bits(2 / x, 2 / a));
  EXPECT_TRUE(same_bits(x > 0.25, a > 0.25));
  EXPECT_TRUE(same_bits(x.to(float16) + 0.1, a.to(float16) + 0.1));
  EXPECT_TRUE(same_bits(where(x > 0, x, y), where(a > 0, a, b)));
  EXPECT_TRUE(same_bits(fma(x, x, y), fma(a, a, b)));
  EXPECT_TRUE(same_bits(arange(9, device) % 4, arange(9) % 4));
  Tensor u = a.to(device), v = a.clone();
  u *= 3;
  v *= 3;
  u += y;
  v += b;
  u.transpose() -= z;
  v.transpose() -= c;
  EXPECT_TRUE(same_bits(u, v));
  // Dense, but not aligned to 16 bytes.
  const Tensor long_near = randn({4099}), long_far = long_near.to(device);
  EXPECT_TRUE(same_bits(long_far.slice(0, 1) * long_far.slice(0, 0, 4098),
                        long_near.slice(0, 1) * long_near.slice(0, 0, 4098)));
}

// Rows whose lengths are multiples of the packs that kernels load, of every mix of float dtypes,
// broadcast along either dimension.
TEST_F(Cuda, MixedDtypesAndBroadcasting) {
  const Tensor a = randn({24, 64}), row = randn({64}), column = randn({24, 1}), one = randn({1});
  for (const DType first : {float16, bfloat16, float32, float64}) {
    for (const DType second : {float16, bfloat16, float32, float64}) {
      const Tensor near = a.to(first), far = near.to(device);
      for (const Tensor& other : {a, row, column, one, a.transpose().contiguous().transpose()}) {
        const Tensor b = other.to(second), y = b.to(device);
        EXPECT_TRUE(same_bits(far + y, near + b)) << name(first) << " " << name(second);
        EXPECT_TRUE(same_bits(y * far, b * near)) << name(first) << " " << name(second);
        EXPECT_TRUE(same_bits(far > y, near > b)) << name(first) << " " << name(second);
        EXPECT_TRUE(same_bits(where(far > 0, far, y), where(near > 0, near, b)))
            << name(first) << " " << name(second);
      }
      Tensor u = far.clone(), v = near.clone();
      u += row.to(device, second);
      v += row.to(second);
      EXPECT_TRUE(same_bits(u, v)) << name(first) << " " << name(second);
    }
    // Conditions that are broadcast along either dimension, and numbers.
    const Tensor batch = randn({3, 24, 64}).to(first), far_batch = batch.to(device);
    for (const Tensor& mask : {Tensor(a > 0), Tensor(row > 0), Tensor(column > 0)}) {
      const Tensor far_mask = mask.to(device);
      EXPECT_TRUE(same_bits(where(far_mask, far_batch, scalar(-1.5, first)),
                            where(mask, batch, scalar(-1.5, first))));
      EXPECT_TRUE(same_bits(where(far_mask, far_batch, row.to(device, first)),
                            where(mask, batch, row.to(first))));
    }
    EXPECT_TRUE(same_bits(relu(a.to(device, first)), relu(a.to(first))));
    EXPECT_TRUE(same_bits(square(a.to(device, first)), square(a.to(first))));
    EXPECT_TRUE(same_bits(sqrt(abs(a.to(device, first))), sqrt(abs(a.to(first)))));
    EXPECT_TRUE(same_bits(leaky_relu(a.to(device, first)), leaky_relu(a.to(first))));
  }
}

// Twenty dimensions that do not merge.
TEST_F(Cuda, ManyDimensions) {
  Shape shape(20, 2);
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < 20; d += 2) {
    order.push_back(d + 1);
    order.push_back(d);
  }
  const Tensor x = arange(1 << 20, float32).reshape(shape);
  const Tensor far = x.to(device);
  EXPECT_TRUE(same_bits(far.transpose(order).contiguous(), x.transpose(order)));
  EXPECT_TRUE(same_bits(far + far.transpose(order), x + x.transpose(order)));
}

// Every half through functions of one half: the results are correctly rounded, as on the CPU.
TEST_F(Cuda, FunctionsOfEveryHalf) {
  for (const DType dtype : {float16, bfloat16}) {
    const Tensor every = arange(65536, int32).to(uint16);
    Tensor near = empty({65536}, dtype);
    std::memcpy(near.impl().data, every.impl().data, 2 * 65536);
    const Tensor far = near.to(device);
    const auto compare = [&](const char* what, const Tensor& got, const Tensor& expected) {
      const auto a = expected.to(float32).to_vector<float>();
      const auto b = got.to(float32).to_vector<float>();
      int wrong = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const bool same = a[i] == b[i] ? std::signbit(a[i]) == std::signbit(b[i])
                                       : std::isnan(a[i]) && std::isnan(b[i]);
        if (same || ++wrong > 3) continue;
        ADD_FAILURE() << what << " of " << name(dtype) << " " << i << ": " << b[i] << ", expected "
                      << a[i];
      }
      EXPECT_EQ(wrong, 0) << what << " of " << name(dtype);
    };
    compare("square", square(far), square(near));
    compare("leaky_relu", leaky_relu(far), leaky_relu(near));
    compare("round", round(far), round(near));
    compare("sign", sign(far), sign(near));
    compare("clip", clip(far, -1.5, 2.5), clip(near, -1.5, 2.5));
    compare("hard_tanh", hard_tanh(far), hard_tanh(near));
    compare("exp", exp(far), exp(near));
    compare("log", log(far), log(near));
    compare("sin", sin(far), sin(near));
    compare("tanh", tanh(far), tanh(near));
    compare("gelu", gelu(far), gelu(near));
    compare("sqrt", sqrt(far), sqrt(near));
    compare("elu", elu(far), elu(near));
    compare("softplus", softplus(far), softplus(near));
    compare("silu", silu(far), silu(near));
    compare("sigmoid", sigmoid(far), sigmoid(near));
    compare("reciprocal", reciprocal(far), reciprocal(near));
    compare("rsqrt", rsqrt(far), rsqrt(near));
    compare("exp2", exp2(far), exp2(near));
    compare("sinh", sinh(far), sinh(near));
    compare("cosh", cosh(far), cosh(near));
    compare("selu", selu(far), selu(near));
    compare("elu with alpha", elu(far, 0.3), elu(near, 0.3));
    compare("leaky_relu with alpha", leaky_relu(far, 0.3), leaky_relu(near, 0.3));
    compare("hard_sigmoid", hard_sigmoid(far), hard_sigmoid(near));
    compare("hard_swish", hard_swish(far), hard_swish(near));
  }
}

// Large gradients of bfloat16 look up the derivative: every argument is among these.
TEST_F(Cuda, GradientsOfBfloat16) {
  Tensor near = empty({1 << 22}, bfloat16);
  auto* bits = reinterpret_cast<std::uint16_t*>(near.impl().data);
  for (int i = 0; i < 1 << 22; ++i) bits[i] = static_cast<std::uint16_t>(i);
  const Tensor g = (rand({1 << 22}) + 0.5).to(bfloat16);
  const Tensor far = near.to(device), far_g = g.to(device);
  const auto compare = [&](const char* what, const Tensor& got, const Tensor& exact) {
    const auto a = exact.to_vector<double>();
    const auto b = got.to(float64).to_vector<double>();
    int wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const bool close = std::abs(a[i] - b[i]) <= std::abs(a[i]) * 0.00395 + 1e-38;
      if (a[i] == b[i] || close || (std::isnan(a[i]) && std::isnan(b[i])) || ++wrong > 3) continue;
      ADD_FAILURE() << what << " of " << (i & 0xffff) << ": " << b[i] << ", expected " << a[i];
    }
    EXPECT_EQ(wrong, 0) << what;
  };
  const Tensor wide = near.to(float64), wide_g = g.to(float64);
  compare("gelu_backward", gelu_backward(far_g, far), gelu_backward(wide_g, wide));
  compare("gelu_tanh_backward", gelu_tanh_backward(far_g, far), gelu_tanh_backward(wide_g, wide));
  compare("silu_backward", silu_backward(far_g, far), silu_backward(wide_g, wide));
  compare("mish_backward", mish_backward(far_g, far), mish_backward(wide_g, wide));
}

void expect_two_ulps(const char* what, const Tensor& got, const Tensor& exact) {
  const compare::Format format = compare::format_of(float32);
  const auto a = exact.to_vector<double>();
  const auto b = got.to_vector<float>();
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = compare::ulp_error(format, b[i], a[i]);
    if (error > worst) {
      worst = error;
      at = i;
    }
  }
  EXPECT_LE(worst, 2) << what << ": " << b[at] << ", exactly " << a[at];
}

// Every function of one or two floats, on its domain, against the CPU in float64.
TEST_F(Cuda, FunctionsOfFloatsAreWithinTwoUlps) {
  const auto draw = [](double lo, double hi) { return uniform({1 << 18}, lo, hi, float32); };
#define UNARY(op, lo, hi, ...)                                 \
  {                                                            \
    const Tensor x = draw(lo, hi);                             \
    expect_two_ulps(#op, op(x.to(device)), op(x.to(float64))); \
  }
#define UNARY_2_NUMERIC(...)
#include "extensor/tables/unary.def"
#define BINARY(op, lo, hi, ...)                                                             \
  {                                                                                         \
    const Tensor a = draw(lo, hi), b = draw(lo, hi);                                        \
    expect_two_ulps(#op, op(a.to(device), b.to(device)), op(a.to(float64), b.to(float64))); \
  }
#include "extensor/tables/binary.def"
}

// Floats of any exponent and sign, infinities, NaN and subnormal numbers among them.
TEST_F(Cuda, FunctionsOfAnyFloatAreWithinTwoUlps) {
  std::mt19937 bits(7);
  const auto draw = [&] {
    Tensor x = empty({1 << 20}, float32);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const auto drawn = static_cast<std::uint32_t>(bits());
      std::memcpy(x.impl().data + 4 * i, &drawn, sizeof drawn);
    }
    return x;
  };
  const Tensor x = draw(), y = draw();
  const Tensor far = x.to(device), wide = x.to(float64);
#define UNARY(op, ...) expect_two_ulps(#op, op(far), op(wide));
#define UNARY_2_NUMERIC(...)
#include "extensor/tables/unary.def"
  const Tensor far_y = y.to(device), wide_y = y.to(float64);
  expect_two_ulps("power", power(far, far_y), power(wide, wide_y));
  expect_two_ulps("hypot", hypot(far, far_y), hypot(wide, wide_y));
  expect_two_ulps("modulo", modulo(far, far_y), modulo(wide, wide_y));
  expect_two_ulps("logaddexp", logaddexp(far, far_y), logaddexp(wide, wide_y));
  expect_two_ulps("atan2", atan2(far, far_y), atan2(wide, wide_y));
}

TEST_F(Cuda, Reductions) {
  const Tensor a = randn({37, 65, 130}, {.dtype = float64});
  const Tensor x = a.to(device);
  const auto close = [](const Tensor& got, const Tensor& expected) {
    return allclose(got.to(cpu_device), expected, 1e-12, 1e-10);
  };
  for (const Axes& axes : {Axes(), Axes(0), Axes(1), Axes(2), Axes{0, 1}, Axes{0, 2}, Axes{1, 2}}) {
    EXPECT_TRUE(close(sum(x, axes), sum(a, axes)));
    EXPECT_TRUE(close(mean(x, axes), mean(a, axes)));
    EXPECT_TRUE(same_bits(max_reduce(x, axes), max_reduce(a, axes)));
    EXPECT_TRUE(same_bits(min_reduce(x, axes), min_reduce(a, axes)));
  }
  for (const std::int64_t axis : {0, 1, 2}) {
    EXPECT_TRUE(same_bits(argmax(x, axis), argmax(a, axis)));
    EXPECT_TRUE(same_bits(argmin(x.transpose(), axis), argmin(a.transpose(), axis)));
  }
  EXPECT_TRUE(same_bits(argmax(x), argmax(a)));
  // The first of equal elements, and of NaN, in rows of any alignment.
  for (const DType dtype : {float32, bfloat16, float16, float64}) {
    for (const std::int64_t length : {7, 1000, 4099, 20480}) {
      const Tensor at = arange(13 * length, int64).reshape({13, length});
      const Tensor some = logical_and(at >= 3 * length + length / 2, at < 4 * length);
      const Tensor row = logical_and(at >= 4 * length, at < 5 * length);
      const Tensor integers = randint(0, 9, {13, length}).to(dtype);
      const double infinity = std::numeric_limits<double>::infinity();
      const Tensor equal =
          masked_fill(masked_fill(integers, some, infinity - infinity), row, -infinity);
      const Tensor far = equal.to(device);
      EXPECT_TRUE(same_bits(argmax(far, 1), argmax(equal, 1))) << name(dtype) << " " << length;
      EXPECT_TRUE(same_bits(argmin(far, 1), argmin(equal, 1))) << name(dtype) << " " << length;
      EXPECT_TRUE(same_bits(argmax(far), argmax(equal))) << name(dtype) << " " << length;
    }
  }
  const Tensor n = randint(-9, 9, {1000, 333});
  EXPECT_TRUE(same_bits(sum(n.to(device)), sum(n)));
  EXPECT_TRUE(same_bits(sum(n.to(device), 0), sum(n, 0)));
  EXPECT_TRUE(same_bits(any(n.to(device) > 8, 1), any(n > 8, 1)));
  EXPECT_TRUE(same_bits(all(n.to(device) > -9, 0), all(n > -9, 0)));
}

// Long sums, whose parts are combined in a second launch, in float32: as exact as on the CPU.
TEST_F(Cuda, LongSums) {
  const Tensor a = rand({3000017});
  const double exact = sum(a.to(float64)).item<double>();
  const double got = sum(a.to(device)).item<double>();
  EXPECT_NEAR(got / exact, 1, 4e-7);
  const Tensor wide = a.slice(0, 0, 3000000).reshape({3000, 1000});
  for (const std::int64_t axis : {0, 1}) {
    const Tensor expected = sum(wide.to(float64), axis);
    const Tensor found = sum(wide.to(device), axis).to(cpu_device, float64);
    EXPECT_TRUE(allclose(found, expected, 4e-7, 0));
  }
}

TEST_F(Cuda, RunsGiveTheSameBits) {
  const Tensor x = randn({1 << 20}, TensorOptions(device));
  const Tensor first = sum(exp(x)), again = sum(exp(x));
  EXPECT_TRUE(same_bits(first, again));
}

TEST_F(Cuda, PowerSums) {
  std::vector<Tensor> near, far;
  for (int k = 0; k < 200; ++k) {
    near.push_back(randn({k * k * 7 + 1}).requires_grad_());
    near.back().set_grad(randn({k * k * 7 + 1}));
    far.push_back(near.back().detach().to(device).requires_grad_());
    far.back().set_grad(near.back().grad().to(device));
  }
  const double expected = optim::clip_grad_norm(near, 1.0);
  const double got = optim::clip_grad_norm(far, 1.0);
  EXPECT_NEAR(got / expected, 1, 1e-6);
  EXPECT_TRUE(allclose(far[7].grad().to(cpu_device), near[7].grad(), 1e-6, 0));
}

// ---- memory

TEST_F(Cuda, MemoryIsCountedAndLimited) {
  const std::size_t before = memory_stats(device).allocated_bytes;
  {
    const Tensor x = zeros({1024}, device);
    EXPECT_EQ(memory_stats(device).allocated_bytes, before + 4096);
    reset_peak_memory_stats(device);
    set_memory_limit(before + 8192, device);
    EXPECT_EQ(memory_limit(device), before + 8192);
    EXPECT_NO_THROW(zeros({1024}, device));
    expect_words(message_of<OutOfMemoryError>([&] { zeros({2048}, device); }), {"zeros", "cuda:0"});
    set_memory_limit(0, device);
    EXPECT_EQ(memory_stats(device).peak_allocated_bytes, before + 8192);
  }
  empty_cache(device);
}

TEST_F(Cuda, OutOfMemoryIsAnErrorAndTheNextCallWorks) {
  const auto total = static_cast<std::int64_t>(devices().back().memory_bytes);
  expect_words(message_of<OutOfMemoryError>([&] { empty({total}, device); }),
               {"empty", "cuda:0", "bytes"});
  expect_words(message_of<OutOfMemoryError>(
                   [&] { empty({std::numeric_limits<std::int64_t>::max() / 8}, device); }),
               {"empty", "cuda:0"});
  EXPECT_EQ(sum(ones({100}, device)).item<float>(), 100);
}

TEST_F(Cuda, FreedMemoryIsUsedAgain) {
  for (const std::int64_t size : {1, 1000, 1000000, 100000000}) {
    zeros({size}, device);
    const MemoryStats before = memory_stats(device);
    for (int k = 0; k < 10; ++k) zeros({size}, device);
    const MemoryStats behind = memory_stats(device);
    EXPECT_EQ(behind.cache_hits - before.cache_hits, behind.allocations - before.allocations);
  }
  empty_cache(device);
}

// ---- events

TEST_F(Cuda, EventsTimeAndOrderWork) {
  CudaEvent start, end;
  EXPECT_EQ(start.device(), device);
  expect_words(message_of<ValueError>([&] { (void)end.milliseconds_since(start); }),
               {"CudaEvent", "milliseconds_since", "not recorded"});
  EXPECT_THROW((void)start.is_done(), ValueError);
  EXPECT_THROW(start.wait(), ValueError);
  EXPECT_THROW(CudaEvent{cpu_device}, DeviceError);
  EXPECT_THROW(CudaEvent{cuda(1000)}, DeviceError);
  const Tensor a = randn({4096, 4096}, {.dtype = float64, .device = device});
  (void)matmul(a, a);
  synchronize(device);
  start.record();
  const auto before = std::chrono::steady_clock::now();
  const Tensor b = matmul(a, a);
  end.record();
  EXPECT_FALSE(end.is_done());  // a millisecond of work has just begun
  end.synchronize();
  EXPECT_TRUE(end.is_done());
  const std::chrono::duration<double, std::milli> passed =
      std::chrono::steady_clock::now() - before;
  EXPECT_GT(end.milliseconds_since(start), 0.5);
  EXPECT_LE(end.milliseconds_since(start), passed.count() + 0.5);
  // The default stream waits for the library's, and the library's for the default stream.
  end.record();
  end.wait(nullptr);
  start.record(nullptr);
  start.wait();
  EXPECT_EQ(sum(ones({10}, device)).item<float>(), 10);
  EXPECT_TRUE(start.is_done());
  CudaEvent moved = std::move(start);
  EXPECT_TRUE(moved.is_done());
  EXPECT_THROW(start.record(), ValueError);  // NOLINT: moved away
}

TEST_F(Cuda, WaitingForAnEventReportsInvalidValues) {
  const Tensor table = randn({10, 4}, device);
  CudaEvent event;
  const Tensor result = take(table, tensor({1, 12}).to(device), 0);
  event.record();
  EXPECT_THROW(event.synchronize(), IndexError);
  EXPECT_NO_THROW(event.synchronize());
}

// ---- errors

TEST_F(Cuda, MixedDevicesThrowAndNameBoth) {
  const Tensor near = zeros({2, 2});
  Tensor far = zeros({2, 2}, device);
  expect_words(message_of<DeviceError>([&] { (void)(near + far); }), {"add", "cpu", "cuda:0"});
  expect_words(message_of<DeviceError>([&] { far += near; }), {"add_", "cpu", "cuda:0"});
  expect_words(message_of<DeviceError>([&] { (void)far.data<float>(); }),
               {"data", "cuda:0", "to(cpu_device)"});
}

// Reported at the next wait, with the CPU's message; the device then works on.
TEST_F(Cuda, InvalidIndicesAreReported) {
  const Tensor table = randn({10, 4}), far = table.to(device);
  const Tensor indices = tensor({1, 12, 3, 99});
  const std::string expected = message_of<IndexError>([&] { (void)take(table, indices, 0); });
  const std::string got = message_of<IndexError>([&] {
    const Tensor result = take(far, indices.to(device), 0);
    synchronize(device);
  });
  EXPECT_EQ(got, expected);
  EXPECT_NO_THROW(synchronize(device));
  EXPECT_EQ(sum(ones({3}, device)).item<float>(), 3);
}

TEST_F(Cuda, ReadsOneValueLater) {
  const Tensor x = full({1}, 2.5, device);
  PendingItem pending(x * 2);
  EXPECT_EQ(pending.item<double>(), 5.0);
}

TEST_F(Cuda, AChildOfForkCannotUseIt) {
  const Tensor x = ones({3}, device);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int code = 1;
    try {
      (void)ones({3}, device);
    } catch (const DeviceError& error) {
      code = std::string(error.what()).find("fork") == std::string::npos ? 2 : 0;
    } catch (...) {
      code = 3;
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(sum(x).item<float>(), 3);
}

// ---- sizes

TEST_F(Cuda, MoreThanTwoToThe31Elements) {
  const std::int64_t count = (std::int64_t{1} << 31) + 5;
  const Tensor x = ones({count}, {.dtype = uint8, .device = device});
  EXPECT_EQ(sum(x).item<std::int64_t>(), count);
  EXPECT_EQ((x + x)[count - 1].item<std::int64_t>(), 2);
  EXPECT_EQ(x.slice(0, 1).contiguous().numel(), count - 1);
  const Tensor wide = x.reshape({1, count}).broadcast_to({2, count});
  EXPECT_EQ(sum(wide.transpose().contiguous(), 0).to_vector<std::uint64_t>(),
            std::vector<std::uint64_t>(2, static_cast<std::uint64_t>(count)));
  empty_cache(device);
}

TEST_F(Cuda, EmptyAndZeroDimensional) {
  EXPECT_EQ(sum(zeros({0, 3}, device), 0).to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_TRUE(std::isnan(mean(zeros({0}, device)).item<double>()));
  EXPECT_EQ(exp(zeros({0}, device)).numel(), 0);
  EXPECT_EQ(exp(scalar(0.0, device)).item<double>(), 1);
  EXPECT_EQ(rand({0}, device).numel(), 0);
}

}  // namespace
}  // namespace extensor
