// Fourier transforms on a CUDA device by cuFFT, compared with those of the CPU in float64: lengths,
// layouts, cropped and padded axes, norms, gradients, streams, and what cuFFT would overwrite.
#include "extensor/fft.h"

#include <gtest/gtest.h>

#include <complex>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/cuda_test.h"
#include "support/complex_samples.h"

namespace extensor {
namespace {

using cuda_test::CudaTest;
using cuda_test::device;
using cuda_test::message_of;
using cuda_test::same_bits;
using fft::FftNorm;
using C128 = std::complex<double>;
using Function = std::function<Tensor(const Tensor&)>;

class CudaFft : public CudaTest {};

// The largest error as a fraction of the largest magnitude.
double error_of(const Tensor& got, const Tensor& exact) {
  EXPECT_EQ(got.shape(), exact.shape());
  if (!(got.shape() == exact.shape()) || exact.numel() == 0) return 0;
  const Tensor here = got.detach().to(cpu_device).to(complex128);
  const Tensor there = exact.detach().to(complex128);
  const double largest = max(abs(there)).item<double>();
  return max(abs(here - there)).item<double>() / (largest == 0 ? 1 : largest);
}

// Runs f on the device in both precisions, twice, and on the CPU in float64.
void check(const std::string& what, const Tensor& x, const Function& f) {
  for (const bool is_double : {false, true}) {
    const DType dtype = is_complex(x.dtype()) ? (is_double ? complex128 : complex64)
                                              : (is_double ? float64 : float32);
    const Tensor given = x.to(dtype), far = given.to(device), before = far.clone();
    const Tensor y = f(far);
    EXPECT_EQ(y.device(), device) << what;
    EXPECT_EQ(y.dtype(), f(given).dtype()) << what;
    EXPECT_LE(error_of(y, f(given.to(x.dtype()))), is_double ? 1e-13 : 2e-6)
        << what << " " << name(dtype);
    EXPECT_TRUE(same_bits(f(far), y)) << what << ": another result";
    EXPECT_TRUE(same_bits(far, before)) << what << ": x has changed";
  }
}

constexpr std::int64_t lengths[] = {1,    2,    3,    4,    5,    6,     7,     8,     12,
                                    15,   17,   31,   64,   100,  127,   131,   257,   509,
                                    1000, 1024, 1331, 4096, 4099, 10007, 65536, 100003};

TEST_F(CudaFft, EveryLength) {
  for (const std::int64_t n : lengths) {
    const std::string what = "length " + std::to_string(n);
    const Tensor z = drawn({3, n}, -1, 1, 1), x = drawn_reals({3, n}, -1, 1, 2);
    const Tensor half = drawn({3, n / 2 + 1}, -1, 1, 3);
    check("fft, " + what, z, [](const Tensor& t) { return fft::fft(t); });
    check("ifft, " + what, z, [](const Tensor& t) { return fft::ifft(t); });
    check("rfft, " + what, x, [](const Tensor& t) { return fft::rfft(t); });
    check("irfft, " + what, half, [n](const Tensor& t) { return fft::irfft(t, n); });
  }
}

TEST_F(CudaFft, EveryLayout) {
  constexpr FftNorm norms[] = {FftNorm::backward, FftNorm::ortho, FftNorm::forward};
  int cases = 0;
  for (const std::int64_t n : {1, 9, 16, 131}) {
    for (const std::int64_t outer : {1, 3, 7}) {
      for (const std::int64_t inner : {1, 3, 40}) {
        for (const std::int64_t length : {n, n + 3, (n + 1) / 2}) {
          const std::string what = "[" + std::to_string(outer) + ", " + std::to_string(length) +
                                   ", " + std::to_string(inner) + "], n " + std::to_string(n);
          const Tensor z = drawn({outer, length, inner}, -1, 1, 1);
          const Tensor x = drawn_reals({outer, length, inner}, -1, 1, 2);
          const FftNorm norm = norms[++cases % 3];
          check("fft " + what, z, [&](const Tensor& t) { return fft::fft(t, n, 1, norm); });
          check("ifft " + what, z, [&](const Tensor& t) { return fft::ifft(t, n, 1, norm); });
          check("rfft " + what, x, [&](const Tensor& t) { return fft::rfft(t, n, 1, norm); });
          check("irfft " + what, z, [&](const Tensor& t) { return fft::irfft(t, n, 1, norm); });
        }
      }
    }
  }
}

TEST_F(CudaFft, ViewsAndOffsets) {
  const Tensor z = drawn({9, 21}, -1, 1, 1), x = drawn_reals({9, 21}, -1, 1, 2);
  const auto rows = [](const Tensor& t) { return t.slice(0, 1, 4); };
  check("rows of odd length", x, [&](const Tensor& t) { return fft::rfft(rows(t)); });
  check("rows of odd length", z, [&](const Tensor& t) { return fft::fft(rows(t)); });
  check("rows of odd length", z, [&](const Tensor& t) { return fft::irfft(rows(t)); });
  check("one row", x, [](const Tensor& t) { return fft::rfft(t[1]); });
  check("transposed", z, [](const Tensor& t) { return fft::fft(t.transpose()); });
  check("flipped", x, [](const Tensor& t) { return fft::rfft(flip(t, 1)); });
  check("stepped", z, [](const Tensor& t) { return fft::ifft(t.slice(1, {}, {}, 2)); });
  check("broadcast", x, [](const Tensor& t) { return fft::rfft(t[0].broadcast_to({4, 21})); });
  check("of real numbers", x, [](const Tensor& t) { return fft::fft(t); });
  check("fftn", z, [](const Tensor& t) { return fft::fftn(t); });
  check("ifftn", z, [](const Tensor& t) { return fft::ifftn(t, Shape{8, 30}); });
  check("rfftn", x, [](const Tensor& t) { return fft::rfftn(t); });
  check("irfftn", z, [](const Tensor& t) { return fft::irfftn(t); });
  check("hfft", z, [](const Tensor& t) { return fft::hfft(t); });
  check("ihfft", x, [](const Tensor& t) { return fft::ihfft(t); });
  check("fftshift", z, [](const Tensor& t) { return fft::fftshift(fft::fft(t)); });
  const Tensor volume = drawn({6, 10, 12, 14}, -1, 1, 5);
  check("three axes", volume, [](const Tensor& t) { return fft::fftn(t, {}, {1, 2, 3}); });
}

// The imaginary parts of numbers that are their own conjugates are not read, whatever they are.
TEST_F(CudaFft, IgnoresImaginaryPartsWithoutMeaning) {
  for (const std::int64_t n : {2, 7, 8, 131, 1000}) {
    for (const std::int64_t inner : {1, 3}) {
      const std::int64_t half = n / 2 + 1;
      const Tensor z = drawn({6, half, inner}, -1, 1, 1).to(device);
      const Tensor changed = z.clone();
      view_as_real(changed).slice(1, 0, 1).slice(3, 1, 2).fill(1e30);
      if (n % 2 == 0) view_as_real(changed).slice(1, half - 1).slice(3, 1, 2).fill(-1e30);
      EXPECT_TRUE(same_bits(fft::irfft(changed, n, 1), fft::irfft(z, n, 1))) << n;
      // Those of the spectrum of real numbers are 0.
      const Tensor spectrum = fft::rfft(drawn_reals({6, n, inner}, -1, 1, 2).to(device), {}, 1);
      EXPECT_FALSE(any(not_equal(imag(spectrum).slice(1, 0, 1), 0)).item<bool>()) << n;
      if (n % 2 != 0) continue;
      EXPECT_FALSE(any(not_equal(imag(spectrum).slice(1, half - 1), 0)).item<bool>()) << n;
    }
  }
}

TEST_F(CudaFft, EmptyBatchesAndErrors) {
  const Tensor none = zeros({0, 8}, {complex64, device});
  EXPECT_EQ(fft::fft(none).shape(), Shape({0, 8}));
  EXPECT_EQ(fft::rfft(zeros({8, 0}, {float32, device}), {}, 0).shape(), Shape({5, 0}));
  const Tensor padded = fft::fft(zeros({3, 0}, {complex64, device}), 4);
  EXPECT_FALSE(any(not_equal(padded, 0)).item<bool>());
  EXPECT_FALSE(any(not_equal(fft::rfft(zeros({0}, {float64, device}), 5), 0)).item<bool>());
  EXPECT_FALSE(message_of<DTypeError>([] {
                 (void)fft::fft(zeros({8}, {float16, device}));
               }).empty());
}

TEST_F(CudaFft, Gradients) {
  const Tensor x = drawn_reals({3, 12}, -1, 1, 1), z = drawn({3, 12}, -1, 1, 2);
  const auto gradient = [](const Tensor& input, Device place, const Function& f) {
    const Tensor leaf = input.to(place).detach().requires_grad_();
    return grad({sum(abs(f(leaf)))}, {leaf})[0];
  };
  const auto compare = [&](const Tensor& input, const Function& f) {
    EXPECT_LE(error_of(gradient(input, device, f), gradient(input, cpu_device, f)), 1e-12);
  };
  compare(z, [](const Tensor& t) { return fft::fft(t, 10); });
  compare(z, [](const Tensor& t) { return fft::ifft(t, 15, 0, FftNorm::ortho); });
  compare(x, [](const Tensor& t) { return fft::rfft(t); });
  compare(z, [](const Tensor& t) { return fft::irfft(t); });
  compare(z, [](const Tensor& t) { return fft::irfft(t, 21); });
  compare(x, [](const Tensor& t) { return fft::rfftn(t); });
}

// More lengths than plans are kept, from threads with streams of their own.
TEST_F(CudaFft, ManyPlansInManyStreams) {
  const auto work = [](std::uint64_t seed) {
    const CudaStream own(device);
    const CudaStreamScope scope(own);
    for (int round = 0; round < 2; ++round) {
      for (std::int64_t n = 2; n < 50; ++n) {
        const Tensor z = drawn({4, n}, -1, 1, seed);
        EXPECT_LE(error_of(fft::fft(z.to(device)), fft::fft(z)), 1e-13) << n;
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t k = 0; k < 3; ++k) threads.emplace_back(work, k + 1);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CudaFft, LargeTransforms) {
  // An impulse has a spectrum of ones; the work is done in parts.
  const std::int64_t n = std::int64_t{1} << 20, rows = 300;
  Tensor x = zeros({rows, n}, {float32, device});
  x.slice(1, 0, 1).fill(1);
  const Tensor spectrum = fft::rfft(x);
  EXPECT_LE(max(abs(spectrum - 1)).item<float>(), 1e-6);
  EXPECT_LE(max(abs(fft::irfft(spectrum) - x)).item<float>(), 1e-6);
}

}  // namespace
}  // namespace extensor
