// Complex numbers on a CUDA device, compared with the CPU: functions in every layout and dtype,
// special values, movement, linear algebra, gradients, and every op of the database that takes
// complex numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cuda/cuda_test.h"
#include "op_database/op_database.h"
#include "op_database/variants.h"
#include "support/complex_ops.h"
#include "support/complex_samples.h"

namespace extensor {
namespace {

using cuda_test::CudaTest;
using cuda_test::device;
using cuda_test::same_bits;
using C64 = std::complex<float>;
using C128 = std::complex<double>;
using Tensors = std::vector<Tensor>;
using namespace std::complex_literals;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class CudaComplex : public CudaTest {};

std::string text(C128 z) {
  return "(" + std::to_string(z.real()) + ", " + std::to_string(z.imag()) + ")";
}

// The elements on the CPU, real ones as complex numbers.
std::vector<C128> values(const Tensor& x) {
  return x.detach().to(cpu_device).to(complex128).to_vector<C128>();
}

// Each element is within a fraction of its own magnitude.
void expect_near(const Tensor& got, const Tensor& exact, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.shape(), exact.shape()) << what;
  EXPECT_EQ(got.device(), device) << what;
  const std::vector<C128> found = values(got), expected = values(exact);
  int failures = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::abs(found[i] - expected[i]) <= tolerance * std::abs(expected[i])) continue;
    if (++failures > 3) return;
    ADD_FAILURE() << what << ", element " << i << ": " << text(found[i]) << ", expected "
                  << text(expected[i]);
  }
}

// Every element is within a fraction of the largest one; NaN is equal to NaN.
std::string difference(const Tensor& got, const Tensor& exact, double tolerance) {
  if (got.dtype() != exact.dtype()) return std::string("the dtype is ") + name(got.dtype());
  if (!(got.shape() == exact.shape())) return "the shape is " + to_string(got.shape());
  const std::vector<C128> found = values(got), expected = values(exact);
  double largest = 0;
  for (const C128& z : expected) {
    if (std::isfinite(std::abs(z))) largest = std::max(largest, std::abs(z));
  }
  const auto is_near = [&](double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * largest;
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (is_near(found[i].real(), expected[i].real()) &&
        is_near(found[i].imag(), expected[i].imag())) {
      continue;
    }
    return "element " + std::to_string(i) + " is " + text(found[i]) + ", expected " +
           text(expected[i]);
  }
  return "";
}

struct Function {
  const char* name;
  Tensor (*call)(const Tensor&);
};
const Function functions[] = {
    {"negative", negative},
    {"positive", positive},
    {"square", square},
    {"reciprocal", reciprocal},
    {"sign", sign},
    {"sqrt", sqrt},
    {"rsqrt", rsqrt},
    {"exp", exp},
    {"exp2", exp2},
    {"expm1", expm1},
    {"log", log},
    {"log2", log2},
    {"log10", log10},
    {"log1p", log1p},
    {"sin", sin},
    {"cos", cos},
    {"tan", tan},
    {"asin", asin},
    {"acos", acos},
    {"atan", atan},
    {"sinh", sinh},
    {"cosh", cosh},
    {"tanh", tanh},
    {"asinh", asinh},
    {"acosh", acosh},
    {"atanh", atanh},
    {"conj", conj},
    {"abs", abs},
    {"angle", angle},
    {"isnan", isnan},
    {"isinf", isinf},
    {"isfinite", isfinite},
    {"logical_not", logical_not},
};

TEST_F(CudaComplex, FunctionsInEveryLayout) {
  for (const Function& function : functions) {
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{1}, Shape{5}, Shape{300}, Shape{3, 70}, Shape{40, 41}}) {
      const std::string what = std::string(function.name) + " " + to_string(shape);
      const Tensor z = drawn(shape, -2, 2, 3), far = z.to(device);
      const Tensor y = function.call(far);
      EXPECT_EQ(y.dtype(), function.call(z).dtype()) << what;
      expect_near(y, function.call(z), 1e-14, what);
      // Other layouts have the same bits.
      Dims order;
      for (std::int64_t d = z.ndim(); d-- > 0;) order.push_back(d);
      EXPECT_TRUE(same_bits(function.call(far.transpose(order).contiguous().transpose(order)), y))
          << what << ", transposed";
      if (z.ndim() != 0) {
        EXPECT_TRUE(same_bits(function.call(repeat(far, 2, 0).slice(0, {}, {}, 2)), y))
            << what << ", stepped";
        EXPECT_TRUE(same_bits(flip(function.call(flip(far, 0)), 0), y)) << what << ", flipped";
        EXPECT_TRUE(same_bits(function.call(concatenate({far, far}, 0).slice(0, shape[0])), y))
            << what << ", at an offset";
      }
      const Tensor narrow = z.to(complex64);
      const Tensor y64 = function.call(narrow.to(device));
      EXPECT_EQ(y64.dtype(), function.call(narrow).dtype()) << what;
      expect_near(y64, function.call(narrow.to(complex128)), 2e-7, what + " complex64");
    }
  }
}

// Signs of zeros, and of an infinity beside a NaN, are not compared: most are not specified.
bool same_special(C128 a, C128 b) {
  const double size = std::abs(b);
  const auto same = [&](double x, double y, double other) {
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
    if (std::isinf(x) && std::isinf(y) && std::isnan(other)) return true;
    return x == y || (std::isfinite(size) && std::abs(x - y) <= 1e-13 * size);
  };
  return same(a.real(), b.real(), b.imag()) && same(a.imag(), b.imag(), b.real());
}

TEST_F(CudaComplex, SpecialValues) {
  const double parts[] = {0.0, -0.0, 1, -1, 0.5, -2, 30, 1e-300, -1e-300, inf, -inf, nan};
  std::vector<C128> list;
  for (const double x : parts) {
    for (const double y : parts) list.emplace_back(x, y);
  }
  const Tensor z = from_data(list, {static_cast<std::int64_t>(list.size())});
  const auto check = [&](const std::string& what, const Tensor& got, const Tensor& expected,
                         const std::function<std::string(std::size_t)>& inputs) {
    const std::vector<C128> found = values(got), wanted = values(expected);
    int failures = 0;
    for (std::size_t i = 0; i < wanted.size() && failures < 5; ++i) {
      if (same_special(found[i], wanted[i])) continue;
      ++failures;
      ADD_FAILURE() << what << inputs(i) << " is " << text(found[i]) << ", expected "
                    << text(wanted[i]);
    }
  };
  for (const Function& function : functions) {
    check(function.name, function.call(z.to(device)), function.call(z),
          [&](std::size_t i) { return text(list[i]); });
  }
  const auto count = static_cast<std::int64_t>(list.size());
  const Tensor a = z.reshape({count, 1}), b = z.reshape({1, count});
  const auto pair = [&](std::size_t i) {
    return text(list[i / list.size()]) + text(list[i % list.size()]);
  };
  check("multiply", a.to(device) * b.to(device), a * b, pair);
  check("divide", a.to(device) / b.to(device), a / b, pair);
  check("add", a.to(device) + b.to(device), a + b, pair);
  check("equal", equal(a.to(device), b.to(device)), equal(a, b), pair);
  check("logical_xor", logical_xor(a.to(device), b.to(device)), logical_xor(a, b), pair);
}

TEST_F(CudaComplex, ArithmeticOfDtypesAndNumbers) {
  const Tensor reals[] = {drawn_reals({30, 1}, -2, 2, 1),
                          drawn_reals({30, 1}, -2, 2, 1).to(float32),
                          drawn_reals({30, 1}, -2, 2, 1).to(bfloat16),
                          arange(30).reshape({30, 1}),
                          (arange(30) + (std::int64_t{1} << 60)).reshape({30, 1}),
                          greater(drawn_reals({30, 1}, -2, 2, 1), 0)};
  for (const DType dtype : {complex64, complex128}) {
    const Tensor z = drawn({30, 7}, 0.5, 2, 5).to(dtype);
    const double tolerance = dtype == complex64 ? 5e-7 : 1e-14;
    for (const Tensor& x : reals) {
      const std::string what = std::string(name(x.dtype())) + " " + name(dtype);
      const Tensor far = x.to(device), there = z.to(device);
      EXPECT_EQ(difference(far + there, x + z, tolerance), "") << what;
      EXPECT_EQ(difference(there - far, z - x, tolerance), "") << what;
      EXPECT_EQ(difference(far * there, x * z, tolerance), "") << what;
      EXPECT_EQ(difference(far / there, x / z, tolerance), "") << what;
      EXPECT_TRUE(same_bits(far.to(dtype), x.to(dtype))) << what;
      EXPECT_EQ(difference(not_equal(far, there), not_equal(x, z), 0), "") << what;
    }
    const Tensor far = z.to(device);
    EXPECT_EQ(difference((2.0 - 3i) * far, (2.0 - 3i) * z, tolerance), "");
    EXPECT_EQ(difference(far / 3, z / 3, tolerance), "");
    EXPECT_EQ(difference(1 / far, 1 / z, tolerance), "");
    EXPECT_EQ(difference(far - z[0][1], z - z[0][1], tolerance), "");
    EXPECT_EQ(difference(power(far, far), power(z, z), 10 * tolerance), "");
    for (const double exponent : {-3.0, 0.0, 0.5, 1.0, 2.0, 5.0, 2.5}) {
      EXPECT_EQ(difference(power(far, exponent), power(z, exponent), 10 * tolerance), "")
          << exponent;
    }
    EXPECT_EQ(difference(power(far, 1.0 + 2i), power(z, 1.0 + 2i), 10 * tolerance), "");
    EXPECT_TRUE(same_bits(zeros_like(far).fill(1.0 + 2i), zeros_like(z).fill(1.0 + 2i)));
    EXPECT_TRUE(same_bits(full({5}, 1.0 - 2i, {dtype, device}), full({5}, 1.0 - 2i, dtype)));
    const Tensor mask = greater(abs(z), 1.8);
    EXPECT_TRUE(same_bits(where(mask.to(device), far, 2i), where(mask, z, 2i)));
    EXPECT_TRUE(same_bits(where(mask.to(device), far, conj(far)), where(mask, z, conj(z))));
    EXPECT_TRUE(
        same_bits(where(mask[0].to(device), flip(far, 1), far), where(mask[0], flip(z, 1), z)));
    const DType other = dtype == complex64 ? complex128 : complex64;
    EXPECT_TRUE(same_bits(far.to(other), z.to(other)));
    EXPECT_EQ(difference(far + far.to(other), z + z.to(other), 5e-7), "");
    EXPECT_EQ(difference(complex(real(far), imag(far)), z, 0), "");
  }
}

TEST_F(CudaComplex, MovesElements) {
  for (const DType dtype : {complex64, complex128}) {
    const Tensor z = drawn({6, 5}, -2, 2, 7).to(dtype), source = drawn({6, 5}, -2, 2, 8).to(dtype);
    const Tensor far = z.to(device), far_source = source.to(device);
    const Tensor rows = tensor({3, 0, 3, 5, 1, 2});
    const Tensor places = (arange(30) * 7 % 6).reshape({6, 5});
    const Tensor far_rows = rows.to(device), far_places = places.to(device);
    const Tensor mask = greater(real(z), 0);
    EXPECT_TRUE(same_bits(take(far, far_rows, 0), take(z, rows, 0)));
    EXPECT_TRUE(same_bits(gather(far, 0, far_places), gather(z, 0, places)));
    EXPECT_TRUE(same_bits(scatter(far, 0, far_places, far_source), scatter(z, 0, places, source)));
    EXPECT_EQ(difference(scatter_add(far, 0, far_places, far_source),
                         scatter_add(z, 0, places, source), 1e-6),
              "");
    EXPECT_EQ(
        difference(index_add(far, 0, far_rows, far_source), index_add(z, 0, rows, source), 1e-6),
        "");
    EXPECT_TRUE(same_bits(index_put(far, {far_rows}, far_source), index_put(z, {rows}, source)));
    EXPECT_TRUE(same_bits(index_put(far.transpose(), {Slice(), far_rows}, full({}, 3i)),
                          index_put(z.transpose(), {Slice(), rows}, full({}, 3i))));
    EXPECT_TRUE(same_bits(far[far_rows], z[rows]));
    EXPECT_TRUE(same_bits(masked_select(far, mask.to(device)), masked_select(z, mask)));
    EXPECT_TRUE(same_bits(roll(far, {2}, {1}), roll(z, {2}, {1})));
    EXPECT_TRUE(same_bits(unique(concatenate({far, far}, 0)), unique(concatenate({z, z}, 0))));
    EXPECT_EQ(to_string(far), to_string(z));
  }
}

TEST_F(CudaComplex, SumsProductsAndMatrices) {
  for (const DType dtype : {complex64, complex128}) {
    const double tolerance = dtype == complex64 ? 1e-5 : 1e-12;
    const Tensor a = drawn({4, 33, 20}, -1, 1, 1).to(dtype);
    const Tensor b = drawn({4, 20, 17}, -1, 1, 2).to(dtype);
    const Tensor square = drawn({3, 6, 6}, -1, 1, 3).to(dtype);
    const Tensor far_a = a.to(device), far_b = b.to(device), far = square.to(device);
    EXPECT_EQ(difference(sum(far_a, {0, 2}), sum(a, {0, 2}), tolerance), "");
    EXPECT_EQ(difference(mean(far_a, {1}), mean(a, {1}), tolerance), "");
    EXPECT_EQ(difference(prod(far, {2}), prod(square, {2}), tolerance), "");
    EXPECT_EQ(difference(cumulative_sum(far_a, 1), cumulative_sum(a, 1), tolerance), "");
    EXPECT_EQ(difference(matmul(far_a, far_b), matmul(a, b), tolerance), "");
    EXPECT_EQ(
        difference(matmul(conj(far_b).transpose({0, 2, 1}), conj(far_a).transpose({0, 2, 1})),
                   matmul(conj(b).transpose({0, 2, 1}), conj(a).transpose({0, 2, 1})), tolerance),
        "");
    EXPECT_EQ(difference(linalg::solve(far, far), linalg::solve(square, square), tolerance), "");
    EXPECT_EQ(difference(linalg::inv(far), linalg::inv(square), 100 * tolerance), "");
    EXPECT_EQ(difference(linalg::det(far), linalg::det(square), tolerance), "");
    const Tensor hermitian = matmul(square, conj(square).transpose({0, 2, 1}));
    EXPECT_EQ(
        difference(linalg::eigvalsh(hermitian.to(device)), linalg::eigvalsh(hermitian), tolerance),
        "");
  }
}

TEST_F(CudaComplex, Gradients) {
  const Tensor z = drawn({3, 5}, 0.3, 1.5, 1), w = drawn({5, 4}, 0.3, 1.5, 2);
  const std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> losses = {
      [](const Tensor& x, const Tensor& y) { return sum(abs(matmul(x, y))); },
      [](const Tensor& x, const Tensor& y) { return sum(real(exp(x))) + sum(abs(log(y))); },
      [](const Tensor& x, const Tensor& y) { return sum(angle(x / (1.0 + 2i))) + sum(abs(y)); },
      [](const Tensor& x, const Tensor& y) { return sum(imag(sqrt(x) * tanh(x))) + sum(real(y)); },
      [](const Tensor& x, const Tensor& y) { return sum(abs(power(x, 2.5))) + sum(imag(y * y)); },
      [](const Tensor& x, const Tensor& y) {
        return sum(abs(take(x, tensor({2, 0, 2}).to(x.device()), 0))) + sum(abs(sign(y) + 1));
      },
  };
  for (std::size_t k = 0; k < losses.size(); ++k) {
    const auto gradients = [&](Device place) {
      const Tensor x = z.to(place).detach().requires_grad_();
      const Tensor y = w.to(place).detach().requires_grad_();
      return grad({losses[k](x, y)}, {x, y});
    };
    const Tensors near = gradients(cpu_device), far = gradients(device);
    for (std::size_t i = 0; i < near.size(); ++i) {
      EXPECT_EQ(far[i].device(), device);
      EXPECT_EQ(difference(far[i], near[i], 1e-12), "") << "loss " << k << ", input " << i;
    }
  }
}

// The results or the error of a call on a device.
struct Outcome {
  Tensors results;
  std::string error;  // its kind; empty: none
  std::string message;
};
Outcome outcome_of(const std::function<Tensors()>& call) {
  Outcome outcome;
  const auto note = [&](const char* kind, const std::exception& error) {
    outcome.error = kind;
    outcome.message = error.what();
  };
  try {
    outcome.results = call();
    synchronize(device);
  } catch (const DTypeError& error) {
    note("DTypeError", error);
  } catch (const Error& error) {
    note("an error", error);
  } catch (const std::exception& error) {
    note("no error of the library", error);
  }
  return outcome;
}

// Each op that takes complex numbers on the CPU does so on the device, and the same calls are
// refused.
TEST_F(CudaComplex, OpsOfTheDatabase) {
  int calls = 0;
  for (const op_database::Op& op : op_database::ops()) {
    if (op.name == "arange" || op.name == "empty" || op.name == "empty_like") continue;
    int samples = 0;
    for (const op_database::Sample& sample : op.samples()) {
      if (!op_database::has_dtypes(sample)) continue;
      ++samples;
      for (const DType dtype : {complex64, complex128}) {
        if (dtype == complex64 && samples > 2) continue;
        Tensors inputs = sample.inputs, far;
        if (!make_complex(inputs, dtype)) continue;
        for (const Tensor& x : inputs) far.push_back(x.defined() ? x.to(device) : x);
        SCOPED_TRACE(op.name + " " + sample.label + " " + name(dtype));
        const Outcome near = outcome_of([&] { return sample.forward(inputs); });
        const Outcome got = outcome_of([&] { return sample.forward(far); });
        ++calls;
        EXPECT_EQ(got.error, near.error) << got.message << "; on the CPU: " << near.message;
        if (!got.error.empty() || !near.error.empty()) continue;
        ASSERT_EQ(got.results.size(), near.results.size());
        for (std::size_t k = 0; k < near.results.size(); ++k) {
          ASSERT_EQ(got.results[k].defined(), near.results[k].defined());
          if (!near.results[k].defined()) continue;
          EXPECT_EQ(difference(got.results[k], near.results[k], dtype == complex64 ? 1e-3 : 1e-9),
                    "")
              << "result " << k;
        }
      }
    }
  }
  EXPECT_GT(calls, 200);
}

TEST_F(CudaComplex, MoreThanTwoToThe31Elements) {
  const std::int64_t count = (std::int64_t{1} << 31) + 5;
  if (devices().back().memory_bytes < std::size_t{100} << 30) GTEST_SKIP() << "needs 100 GB";
  const Tensor x = full({count}, 1.0 + 2i, {complex64, device});
  const Tensor y = x * x;  // by 16 bytes
  EXPECT_EQ(y[count - 1].item<C64>(), C64(-3, 4));
  EXPECT_EQ(y[0].item<C64>(), C64(-3, 4));
  const Tensor magnitudes = abs(y);  // by strides
  EXPECT_EQ(magnitudes[count - 1].item<float>(), 5.0F);
  EXPECT_EQ(magnitudes[count / 2].item<float>(), 5.0F);
}

}  // namespace
}  // namespace extensor
