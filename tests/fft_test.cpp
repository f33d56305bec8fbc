// Fourier transforms: values against sums of long doubles, for every kind of length, layout and
// dtype; gradients against finite differences, to second order; and errors.
#include "extensor/fft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "extensor/extensor.h"

namespace extensor {
namespace {

using fft::FftNorm;
using Wide = std::complex<long double>;
using Tensors = std::vector<Tensor>;

std::size_t as_size(std::int64_t x) { return static_cast<std::size_t>(x); }

std::size_t count_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= as_size(size);
  return count;
}

Tensor reals(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> draw;
  std::vector<double> values(count_of(shape));
  for (double& value : values) value = draw(engine);
  return from_data(values, shape);
}
Tensor numbers(const Shape& shape, std::uint64_t seed) {
  return complex(reals(shape, seed), reals(shape, seed + 1000));
}

// ---- the reference: sums of long doubles

std::vector<Wide> read(const Tensor& x) {
  std::vector<Wide> values;
  for (const auto& value : x.to(complex128).to_vector<std::complex<double>>()) {
    values.emplace_back(value.real(), value.imag());
  }
  return values;
}

long double scale_of(std::int64_t n, bool inverse, FftNorm norm) {
  const auto count = static_cast<long double>(n);
  if (norm == FftNorm::ortho) return 1 / std::sqrt(count);
  return (norm == FftNorm::backward) == inverse ? 1 / count : 1;
}

// The sum of x[j] * exp(±2πi jk / n) for k < n.
std::vector<Wide> transform_of(const std::vector<Wide>& x, bool inverse, FftNorm norm) {
  const std::size_t n = x.size();
  std::vector<Wide> roots(n), y(n);
  for (std::size_t k = 0; k < n; ++k) {
    const long double angle = 2 * std::numbers::pi_v<long double> * static_cast<long double>(k) /
                              static_cast<long double>(n);
    roots[k] = {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
  }
  const long double scale = scale_of(static_cast<std::int64_t>(n), inverse, norm);
  for (std::size_t k = 0; k < n; ++k) {
    long double re = 0, im = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const Wide root = roots[j * k % n];
      re += x[j].real() * root.real() - x[j].imag() * root.imag();
      im += x[j].real() * root.imag() + x[j].imag() * root.real();
    }
    y[k] = {scale * re, scale * im};
  }
  return y;
}

enum class Kind { fft, ifft, rfft, irfft, hfft, ihfft };
const char* const kind_names[] = {"fft", "ifft", "rfft", "irfft", "hfft", "ihfft"};
constexpr Kind kinds[] = {Kind::fft, Kind::ifft, Kind::rfft, Kind::irfft, Kind::hfft, Kind::ihfft};

bool from_real(Kind kind) { return kind == Kind::rfft || kind == Kind::ihfft; }
bool to_real(Kind kind) { return kind == Kind::irfft || kind == Kind::hfft; }

// One line, by the definition of the function.
std::vector<Wide> line_of(Kind kind, std::vector<Wide> x, std::int64_t n, FftNorm norm) {
  const std::size_t count = as_size(n);
  const bool inverse = kind == Kind::ifft || kind == Kind::irfft || kind == Kind::ihfft;
  if (to_real(kind)) {
    x.resize(count / 2 + 1);
    x[0].imag(0);
    if (n % 2 == 0) x[count / 2].imag(0);
    x.resize(count);
    for (std::size_t k = count / 2 + 1; k < count; ++k) x[k] = std::conj(x[count - k]);
  }
  x.resize(count);
  std::vector<Wide> y = transform_of(x, inverse, norm);
  if (from_real(kind)) y.resize(count / 2 + 1);
  return y;
}

Tensor call(Kind kind, const Tensor& x, std::optional<StrictInt> n, std::int64_t axis,
            FftNorm norm) {
  switch (kind) {
    case Kind::fft:
      return fft::fft(x, n, axis, norm);
    case Kind::ifft:
      return fft::ifft(x, n, axis, norm);
    case Kind::rfft:
      return fft::rfft(x, n, axis, norm);
    case Kind::irfft:
      return fft::irfft(x, n, axis, norm);
    case Kind::hfft:
      return fft::hfft(x, n, axis, norm);
    default:
      return fft::ihfft(x, n, axis, norm);
  }
}
Tensor call_backward(Kind kind, const Tensor& grad, const Shape& shape, std::optional<StrictInt> n,
                     std::int64_t axis, FftNorm norm) {
  switch (kind) {
    case Kind::fft:
      return fft::fft_backward(grad, shape, n, axis, norm);
    case Kind::ifft:
      return fft::ifft_backward(grad, shape, n, axis, norm);
    case Kind::rfft:
      return fft::rfft_backward(grad, shape, n, axis, norm);
    case Kind::irfft:
      return fft::irfft_backward(grad, shape, n, axis, norm);
    case Kind::hfft:
      return fft::hfft_backward(grad, shape, n, axis, norm);
    default:
      return fft::ihfft_backward(grad, shape, n, axis, norm);
  }
}

// The largest error of y, in the epsilon of its dtype and the root mean square of its line.
double error_of(Kind kind, const Tensor& x, const Tensor& y, std::int64_t n, std::int64_t axis,
                FftNorm norm) {
  const std::vector<Wide> in = read(x.moveaxis(axis, -1)), out = read(y.moveaxis(axis, -1));
  const std::size_t length = as_size(x.size(axis)), results = as_size(y.size(axis));
  const double epsilon = real_dtype(y.dtype()) == float64 ? 0x1p-52 : 0x1p-23;
  double worst = 0;
  for (std::size_t line = 0; line * results < out.size(); ++line) {
    const auto first = in.begin() + static_cast<std::ptrdiff_t>(line * length);
    const std::vector<Wide> expected =
        line_of(kind, {first, first + static_cast<std::ptrdiff_t>(length)}, n, norm);
    long double square = 0, largest = 0;
    for (std::size_t k = 0; k < results; ++k) {
      square += std::norm(expected[k]);
      const long double error = std::abs(out[line * results + k] - expected[k]);
      if (!(error <= largest)) largest = error;
    }
    const long double size = std::sqrt(square / static_cast<long double>(results));
    const auto relative =
        static_cast<double>(largest / (size + std::numeric_limits<long double>::min())) / epsilon;
    if (!(relative <= worst)) worst = relative;
  }
  return worst;
}

// ---- values

// Lengths of every radix and their products, prime lengths, and those of a convolution.
const std::int64_t lengths[] = {
    1,  2,  3,  4,  5,  6,   7,   8,   9,   10,  11,  12,  13,  14,  15,  16,  17,  18,  19,  20,
    21, 22, 23, 24, 25, 27,  29,  30,  31,  32,  33,  35,  36,  37,  40,  41,  48,  49,  53,  60,
    64, 74, 77, 96, 97, 100, 101, 121, 125, 128, 169, 206, 210, 243, 256, 289, 343, 360, 512, 625};

void expect_values(DType dtype) {
  for (const std::int64_t n : lengths) {
    for (const Kind kind : kinds) {
      const std::int64_t size = to_real(kind) ? n / 2 + 1 : n;
      // One row, rows, columns and both.
      for (const auto& [shape, axis] : std::vector<std::pair<Shape, std::int64_t>>{
               {{size}, 0}, {{3, size}, 1}, {{size, 2}, 0}, {{2, size, 19}, 1}, {{18, size}, 1}}) {
        if (n > 200 && count_of(shape) > 8 * as_size(n)) continue;
        Tensor x = from_real(kind) ? reals(shape, 1) : numbers(shape, 1);
        x = x.to(from_real(kind) ? dtype : complex_dtype(dtype));
        const Tensor y = call(kind, x, n, axis, FftNorm::backward);
        EXPECT_EQ(y.dtype(), to_real(kind) ? dtype : complex_dtype(dtype));
        const double error = error_of(kind, x, y, n, axis, FftNorm::backward);
        EXPECT_LE(error, 2 + 2 * std::log2(static_cast<double>(n)))
            << kind_names[static_cast<int>(kind)] << " of " << n << " in " << to_string(shape);
      }
    }
  }
}
TEST(Fft, IsTheSumInDouble) { expect_values(float64); }
TEST(Fft, IsTheSumInFloat) { expect_values(float32); }

TEST(Fft, CropsPadsAndScales) {
  for (const Kind kind : kinds) {
    for (const std::int64_t n : {1, 5, 8, 12, 37}) {
      for (const std::int64_t size : {1, 3, 4, 7, 8, 19, 40}) {
        for (const FftNorm norm : {FftNorm::backward, FftNorm::ortho, FftNorm::forward}) {
          for (const std::int64_t axis : {0, 1}) {
            const Shape shape = axis == 0 ? Shape{size, 5} : Shape{5, size};
            const Tensor x = from_real(kind) ? reals(shape, 2) : numbers(shape, 2);
            const Tensor y = call(kind, x, n, axis, norm);
            EXPECT_LE(error_of(kind, x, y, n, axis, norm), 16)
                << kind_names[static_cast<int>(kind)] << " of " << size << " as " << n;
          }
        }
      }
    }
  }
  // The length is that of the axis, or the even one of half a spectrum.
  EXPECT_EQ(fft::fft(numbers({2, 6}, 3)).shape(), Shape({2, 6}));
  EXPECT_EQ(fft::rfft(reals({2, 6}, 3)).shape(), Shape({2, 4}));
  EXPECT_EQ(fft::ihfft(reals({2, 7}, 3)).shape(), Shape({2, 4}));
  EXPECT_EQ(fft::irfft(numbers({2, 4}, 3)).shape(), Shape({2, 6}));
  EXPECT_EQ(fft::hfft(numbers({2, 4}, 3)).shape(), Shape({2, 6}));
}

// Lengths that are split into rows and columns, and long convolutions: by their inverse, and by
// the numbers at single frequencies.
TEST(Fft, TransformsLongLines) {
  for (const std::int64_t n :
       {16384, 32768, 65536, 98304, 50000, 59049, 131072, 100003, 2 * 50021}) {
    const Tensor x = numbers({n}, 4);
    const Tensor y = fft::fft(x);
    const std::vector<Wide> in = read(x), out = read(y);
    const long double size = std::sqrt(2 * static_cast<long double>(n));
    for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, n / 3, n / 2, n - 1}) {
      Wide expected = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const long double angle = -2 * std::numbers::pi_v<long double> *
                                  static_cast<long double>(j * k % n) / static_cast<long double>(n);
        expected += in[as_size(j)] * Wide(std::cos(angle), std::sin(angle));
      }
      EXPECT_LE(std::abs(out[as_size(k)] - expected) / size, 40 * 0x1p-52L) << n << " at " << k;
    }
    EXPECT_TRUE(allclose(fft::ifft(y), x, 1e-12, 1e-12)) << n;
    const Tensor real_x = real(x).contiguous();
    EXPECT_TRUE(allclose(fft::irfft(fft::rfft(real_x), n), real_x, 1e-12, 1e-12)) << n;
    EXPECT_TRUE(allclose(fft::rfft(real_x), fft::fft(real_x.to(complex128)).slice(0, 0, n / 2 + 1),
                         1e-10, 1e-10))
        << n;
    const Tensor narrow = fft::fft(x.to(complex64));
    EXPECT_TRUE(allclose(narrow.to(complex128), y, 1e-4, 1e-3)) << n;
  }
}

TEST(Fft, TakesEveryLayout) {
  const Tensor x = numbers({6, 5, 8}, 5);
  const Tensor base = numbers({12, 5, 16}, 6);
  const Tensors layouts = {x.transpose({2, 0, 1}), base.slice(0, 0, 12, 2).slice(2, 1, 16, 2),
                           flip(x, 1), x.slice(1, 4, {}, -1),
                           x.slice(1, 0, 1).broadcast_to({6, 5, 8})};
  for (const Tensor& view : layouts) {
    for (const std::int64_t axis : {0, 1, 2}) {
      const Tensor dense = view.clone();
      EXPECT_TRUE(all(equal(fft::fft(view, {}, axis), fft::fft(dense, {}, axis))).item<bool>());
      EXPECT_TRUE(all(equal(fft::irfft(view, {}, axis), fft::irfft(dense, {}, axis))).item<bool>());
      EXPECT_TRUE(
          all(equal(fft::rfft(real(view), {}, axis), fft::rfft(real(dense).clone(), {}, axis)))
              .item<bool>());
    }
  }
}

TEST(Fft, TransformsSeveralAxes) {
  const Tensor x = numbers({4, 3, 6}, 7);
  const Tensor along_two = fft::fft(fft::fft(x, {}, 2), {}, 0);
  EXPECT_TRUE(allclose(fft::fftn(x, {}, {0, 2}), along_two, 1e-13, 1e-13));
  EXPECT_TRUE(allclose(fft::fftn(x, {}, {0, -1, 1}), fft::fft(along_two, {}, 1), 1e-13, 1e-13));
  EXPECT_TRUE(allclose(fft::ifftn(fft::fftn(x)), x, 1e-13, 1e-13));
  EXPECT_TRUE(allclose(fft::fftn(x, Shape{5, 4}), fft::fft(fft::fft(x, 4, 2), 5, 1), 1e-13, 1e-13));
  // Twice along one axis.
  EXPECT_TRUE(
      allclose(fft::fftn(x, {}, {1, 1}), fft::fft(fft::fft(x, {}, 1), {}, 1), 1e-13, 1e-13));
  const Tensor r = reals({4, 3, 6}, 8);
  EXPECT_TRUE(allclose(fft::rfftn(r), fft::fftn(r).slice(2, 0, 4), 1e-13, 1e-13));
  EXPECT_TRUE(allclose(fft::irfftn(fft::rfftn(r)), r, 1e-13, 1e-13));
  EXPECT_TRUE(allclose(fft::irfftn(fft::rfftn(r, Shape{3, 5}, {0, 1}), Shape{3, 5}, {0, 1}),
                       concatenate({r.slice(0, 0, 3), zeros({3, 2, 6}, float64)}, 1), 1e-13,
                       1e-13));
  EXPECT_EQ(fft::fftn(reals({2, 3}, 1).to(float32)).dtype(), complex64);
  EXPECT_TRUE(all(equal(fft::fftn(x, {}, Axes(Dims{})), x)).item<bool>());
}

TEST(Fft, TakesEmptyBatches) {
  EXPECT_EQ(fft::fft(zeros({0, 4}, complex64)).shape(), Shape({0, 4}));
  EXPECT_EQ(fft::rfft(zeros({4, 0}), {}, 0).shape(), Shape({3, 0}));
  EXPECT_EQ(fft::irfftn(zeros({0, 4, 3}, complex128), {}, {1, 2}).shape(), Shape({0, 4, 4}));
  // An empty axis with a length is zeros.
  EXPECT_TRUE(all(equal(fft::fft(zeros({0}, complex64), 4), zeros({4}, complex64))).item<bool>());
  EXPECT_TRUE(all(equal(fft::rfft(zeros({2, 0}), 5), zeros({2, 3}, complex64))).item<bool>());
  EXPECT_TRUE(all(equal(fft::irfft(zeros({0}, complex64), 5), zeros({5}))).item<bool>());
}

TEST(Fft, DoesNotDependOnTheNumberOfThreads) {
  const int before = get_num_threads();
  for (const Shape& shape : {Shape{1 << 17}, Shape{300, 1000}, Shape{300, 243}, Shape{50021}}) {
    const Tensor x = numbers(shape, 9), r = real(x).contiguous();
    set_num_threads(1);
    const Tensor y = fft::fft(x), columns = fft::fft(x, {}, 0), half = fft::rfft(r);
    set_num_threads(4);
    EXPECT_TRUE(all(equal(fft::fft(x), y)).item<bool>());
    EXPECT_TRUE(all(equal(fft::fft(x, {}, 0), columns)).item<bool>());
    EXPECT_TRUE(all(equal(fft::rfft(r), half)).item<bool>());
  }
  set_num_threads(before);
}

// More lengths than the cache of plans holds, from several threads.
TEST(Fft, SharesPlansBetweenThreads) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&wrong, t] {
      for (std::int64_t n = 1; n <= 150; ++n) {
        const Tensor x = numbers({n}, static_cast<std::uint64_t>(n));
        if (!allclose(fft::ifft(fft::fft(x)), x, 1e-12, 1e-12)) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

// ---- gradients

using Function = std::function<Tensor(const Tensor&)>;
using Backward = std::function<Tensor(const Tensor& grad_output)>;

// The explicit gradient against finite differences in both directions of the plane, that of
// autograd against it, and the gradient of the explicit gradient, which is the second order.
void expect_gradients(const std::string& what, const Function& function, const Backward& backward,
                      const Tensor& x) {
  const auto first =
      gradcheck([&](const Tensors& in) { return function(in[0]); },
                [&](const Tensor& g, const Tensors&) { return Tensors{backward(g)}; }, {x});
  EXPECT_TRUE(first.passed) << what << ": " << first.message;

  const auto recorded = [](const Function& f) {
    return [&f](const Tensor& g, const Tensors& in) {
      const Tensor leaf = in[0].detach().requires_grad_();
      return grad({f(leaf)}, {leaf}, {.grad_outputs = {g}});
    };
  };
  const auto by_autograd =
      gradcheck([&](const Tensors& in) { return function(in[0]); }, recorded(function), {x});
  EXPECT_TRUE(by_autograd.passed) << what << " by autograd: " << by_autograd.message;

  const Tensor y = function(x);
  const Tensor g = is_complex(y) ? numbers(y.shape(), 31) : reals(y.shape(), 31);
  const auto second =
      gradcheck([&](const Tensors& in) { return backward(in[0]); }, recorded(backward), {g});
  EXPECT_TRUE(second.passed) << what << ", second order: " << second.message;
}

TEST(FftGradient, AlongAnAxis) {
  for (const Kind kind : kinds) {
    for (const FftNorm norm : {FftNorm::backward, FftNorm::ortho, FftNorm::forward}) {
      for (const std::int64_t n : {1, 2, 5, 6, 8}) {
        for (const std::int64_t size : {1, 4, 5, 9}) {
          const Shape shape = {2, size, 2};
          const Tensor x = from_real(kind) ? reals(shape, 11) : numbers(shape, 11);
          expect_gradients(
              std::string(kind_names[static_cast<int>(kind)]) + " of " + std::to_string(size) +
                  " as " + std::to_string(n),
              [&](const Tensor& in) { return call(kind, in, n, 1, norm); },
              [&](const Tensor& g) { return call_backward(kind, g, shape, n, -2, norm); }, x);
        }
      }
    }
  }
}

TEST(FftGradient, AlongSeveralAxes) {
  const std::optional<Shape> none, lengths = Shape{3, 4};
  const Shape shape = {3, 2, 5};
  for (const auto& s : {none, lengths}) {
    for (const Axes& axes : {Axes{0, 2}, Axes{2, 1}, Axes{1, 1}}) {
      const auto norm = FftNorm::ortho;
      expect_gradients(
          "fftn", [&](const Tensor& x) { return fft::fftn(x, s, axes, norm); },
          [&](const Tensor& g) { return fft::fftn_backward(g, shape, s, axes, norm); },
          numbers(shape, 12));
      expect_gradients(
          "ifftn", [&](const Tensor& x) { return fft::ifftn(x, s, axes); },
          [&](const Tensor& g) { return fft::ifftn_backward(g, shape, s, axes); },
          numbers(shape, 13));
      expect_gradients(
          "rfftn", [&](const Tensor& x) { return fft::rfftn(x, s, axes); },
          [&](const Tensor& g) { return fft::rfftn_backward(g, shape, s, axes); },
          reals(shape, 14));
      expect_gradients(
          "irfftn", [&](const Tensor& x) { return fft::irfftn(x, s, axes); },
          [&](const Tensor& g) { return fft::irfftn_backward(g, shape, s, axes); },
          numbers(shape, 15));
    }
  }
  expect_gradients(
      "fftshift",
      [](const Tensor& x) {
        return fft::fftshift(x, {0, 2});
      },
      [](const Tensor& g) {
        return fft::fftshift_backward(g, {0, 2});
      },
      numbers(shape, 16));
  expect_gradients(
      "ifftshift", [](const Tensor& x) { return fft::ifftshift(x); },
      [](const Tensor& g) { return fft::ifftshift_backward(g); }, numbers(shape, 17));
}

// The gradient of a real x of fft is real; a function that is not linear has second derivatives.
TEST(FftGradient, OfRealNumbersAndPowers) {
  const Function power = [](const Tensor& x) {
    const Tensor y = fft::fft(x);
    return sum(square(square(abs(y))));
  };
  const Tensor x = reals({5}, 18);
  const auto result = gradcheck([&](const Tensors& in) { return power(in[0]); },
                                [&](const Tensor& g, const Tensors& in) {
                                  const Tensor leaf = in[0].detach().requires_grad_();
                                  return grad({power(leaf)}, {leaf}, {.grad_outputs = {g}});
                                },
                                {x});
  EXPECT_TRUE(result.passed) << result.message;
}

// ---- frequencies

TEST(Fft, HasFrequencies) {
  const auto values = [](const Tensor& x) { return x.to(float64).to_vector<double>(); };
  EXPECT_EQ(values(fft::fftfreq(4, 0.5)), (std::vector<double>{0, 0.5, -1, -0.5}));
  EXPECT_EQ(values(fft::fftfreq(5, 0.2, {.dtype = float64})),
            (std::vector<double>{0, 1, 2, -2, -1}));
  EXPECT_EQ(values(fft::fftfreq(1)), (std::vector<double>{0}));
  EXPECT_EQ(values(fft::fftfreq(2)), (std::vector<double>{0, -0.5}));
  EXPECT_EQ(values(fft::rfftfreq(2)), (std::vector<double>{0, 0.5}));
  EXPECT_EQ(values(fft::rfftfreq(5, 0.2)), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(fft::fftfreq(4).dtype(), float32);
  EXPECT_EQ(fft::rfftfreq(4, 1, {.dtype = float64}).dtype(), float64);
}

TEST(Fft, ShiftsFrequencies) {
  const Tensor x = arange(5);
  EXPECT_EQ(fft::fftshift(x).to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 4, 0, 1, 2}));
  EXPECT_EQ(fft::ifftshift(x).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 3, 4, 0, 1}));
  const Tensor m = arange(6).reshape({2, 3});
  EXPECT_EQ(fft::fftshift(m).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{5, 3, 4, 2, 0, 1}));
  EXPECT_EQ(fft::fftshift(m, 1).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 0, 1, 5, 3, 4}));
  EXPECT_TRUE(all(equal(fft::ifftshift(fft::fftshift(m)), m)).item<bool>());
}

// ---- errors

template <class Error, class F>
void expect_error(const F& f, const std::string& text) {
  try {
    f();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(FftErrors, NameTheArgument) {
  const Tensor x = zeros({2, 3}, complex64), r = zeros({2, 3});
  expect_error<ValueError>([&] { fft::fft(x, 0); }, "fft: n is 0 for axis -1 of [2, 3]");
  expect_error<ValueError>([&] { fft::ifft(x, -4, 0); }, "ifft: n is -4 for axis 0");
  expect_error<ValueError>([&] { fft::rfft(zeros({3, 0})); }, "rfft: n is 0 for axis -1 of [3, 0]");
  expect_error<ValueError>([&] { fft::irfft(zeros({1}, complex64)); }, "irfft: n is 0");
  expect_error<ValueError>([&] { fft::hfft(x, 0); }, "hfft: n is 0");
  expect_error<ValueError>([&] { fft::ihfft(r, 0); }, "ihfft: n is 0");
  expect_error<ValueError>([&] { fft::fftn(x, Shape{2, 0}); }, "fftn: s is 0 for axis 1");
  expect_error<ValueError>(
      [&] {
        fft::fftn(x, Shape{2, 2, 2});
      },
      "fftn: s is [2, 2, 2] for 2 axes");
  expect_error<ValueError>([&] { fft::ifftn(x, Shape{2}, {0, 1}); }, "ifftn: s is [2] for 2 axes");
  expect_error<ValueError>([&] { fft::rfftn(r, {}, Axes(Dims{})); }, "rfftn: axes is []");
  expect_error<ValueError>([&] { fft::irfftn(x, {}, Axes(Dims{})); }, "irfftn: axes is []");
  expect_error<IndexError>([&] { fft::fft(x, {}, 2); }, "fft: axis 2");
  expect_error<IndexError>([&] { fft::rfftn(r, {}, {0, -3}); }, "rfftn: axis -3");
  expect_error<IndexError>([&] { fft::fftshift(x, 2); }, "fftshift: axis 2");
  expect_error<ShapeError>([&] { fft::fft(zeros({}, complex64)); }, "fft: x is []");
  expect_error<ShapeError>([&] { fft::irfftn(zeros({}, complex64)); }, "irfftn: x is []");
  for (const DType dtype : {float16, bfloat16, int32, bool_, uint8}) {
    const Tensor wrong = zeros({4}, dtype);
    const std::string said = std::string("x has dtype ") + name(dtype);
    expect_error<DTypeError>([&] { fft::fft(wrong); }, "fft: " + said);
    expect_error<DTypeError>([&] { fft::irfft(wrong); }, "irfft: " + said);
    expect_error<DTypeError>([&] { fft::rfft(wrong); }, "rfft: " + said);
    expect_error<DTypeError>([&] { fft::fftn(wrong); }, "fftn: " + said);
    expect_error<DTypeError>([&] { fft::hfft(wrong); }, "hfft: " + said);
  }
  expect_error<DTypeError>([&] { fft::rfft(x); },
                           "rfft: x has dtype complex64 (allowed: float32, float64)");
  expect_error<DTypeError>([&] { fft::ihfft(x); }, "ihfft: x has dtype complex64");
  expect_error<ValueError>([&] { fft::fft(x, {}, -1, static_cast<FftNorm>(3)); }, "norm");
  expect_error<ValueError>([&] { fft::hfft(x, {}, -1, static_cast<FftNorm>(7)); }, "norm");
  expect_error<ValueError>([&] { fft::fftfreq(0); }, "fftfreq: n is 0");
  expect_error<ValueError>([&] { fft::rfftfreq(-1); }, "rfftfreq: n is -1");
  expect_error<ValueError>([&] { fft::fftfreq(4, 0.0); }, "fftfreq: d is 0");
  expect_error<DTypeError>([&] { fft::fftfreq(4, 1.0, {.dtype = int32}); },
                           "fftfreq: dtype is int32");
  expect_error<ShapeError>(
      [&] {
        fft::fft_backward(x, {2, 4});
      },
      "fft_backward: grad_output is [2, 3], must be [2, 4]");
  expect_error<ShapeError>(
      [&] {
        fft::rfft_backward(x, {2, 6});
      },
      "rfft_backward: grad_output is [2, 3], must be [2, 4]");
  expect_error<DTypeError>(
      [&] {
        fft::irfft_backward(x, {2, 2});
      },
      "irfft_backward: grad_output has dtype complex64");
  expect_error<DTypeError>(
      [&] {
        fft::fft_backward(zeros({2, 3}, int32), {2, 3});
      },
      "fft_backward: grad_output has dtype int32");
}

}  // namespace
}  // namespace extensor
