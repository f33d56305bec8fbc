// Discrete Fourier transforms, with their explicit gradients. The functions are those of the Python
// Array API.
//
//   Tensor spectrum = extensor::fft::rfft(signal);           // complex, the frequencies up to n /
//   2 Tensor image = extensor::fft::ifftn(extensor::fft::fftn(x));
//
// A transform has any length n of at least 1 along its axis: a longer axis is cropped to n, and a
// shorter one is followed by zeros. A length below 1, as that of an empty axis without n, is a
// ValueError; an axis out of range is an IndexError. Batches, all other axes, may be empty.
//
// The dtype is float32, float64, complex64 or complex128; all others, also float16 and bfloat16,
// are a DTypeError. Results have the precision of x. Real x of a transform between complex numbers
// count as complex numbers.
//
// Gradients follow the convention of extensor/complex.h. Every `*_backward` takes the arguments of
// its forward, with the shape of x in place of x, and returns the gradient of a complex x; that of
// a real x is its real part.
#pragma once

#include <cstdint>
#include <optional>

#include "extensor/creation.h"
#include "extensor/export.h"
#include "extensor/shape.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::fft {

// Which of the two directions is divided by the number n of points.
enum class FftNorm : std::uint8_t {
  backward,  // the inverse, by n
  ortho,     // both, by √n
  forward,   // the forward one, by n
};

// ---- complex numbers

// y[k] = Σ x[j] exp(−2πi jk / n) along an axis. n is by default the size of the axis.
Tensor fft(const Tensor& x, std::optional<StrictInt> n = {}, StrictInt axis = -1,
           FftNorm norm = FftNorm::backward);
Tensor fft_backward(const Tensor& grad_output, const Shape& input_shape,
                    std::optional<StrictInt> n = {}, StrictInt axis = -1,
                    FftNorm norm = FftNorm::backward);

// The inverse of fft.
Tensor ifft(const Tensor& x, std::optional<StrictInt> n = {}, StrictInt axis = -1,
            FftNorm norm = FftNorm::backward);
Tensor ifft_backward(const Tensor& grad_output, const Shape& input_shape,
                     std::optional<StrictInt> n = {}, StrictInt axis = -1,
                     FftNorm norm = FftNorm::backward);

// fft along several axes, the last one first: by default all, or with `s` the last ones. `s` is the
// length n for each of them. An axis that is named twice is transformed twice.
Tensor fftn(const Tensor& x, const std::optional<Shape>& s = {}, const Axes& axes = {},
            FftNorm norm = FftNorm::backward);
Tensor fftn_backward(const Tensor& grad_output, const Shape& input_shape,
                     const std::optional<Shape>& s = {}, const Axes& axes = {},
                     FftNorm norm = FftNorm::backward);

// The inverse of fftn.
Tensor ifftn(const Tensor& x, const std::optional<Shape>& s = {}, const Axes& axes = {},
             FftNorm norm = FftNorm::backward);
Tensor ifftn_backward(const Tensor& grad_output, const Shape& input_shape,
                      const std::optional<Shape>& s = {}, const Axes& axes = {},
                      FftNorm norm = FftNorm::backward);

// ---- real numbers

// The first n / 2 + 1 numbers of fft of a real x: the others are their conjugates.
Tensor rfft(const Tensor& x, std::optional<StrictInt> n = {}, StrictInt axis = -1,
            FftNorm norm = FftNorm::backward);
Tensor rfft_backward(const Tensor& grad_output, const Shape& input_shape,
                     std::optional<StrictInt> n = {}, StrictInt axis = -1,
                     FftNorm norm = FftNorm::backward);

// The inverse of rfft: n real numbers from the first n / 2 + 1 of their spectrum. n is by default
// even, 2 (m − 1) for an axis of size m. Imaginary parts at 0 and at n / 2 of an even n count as 0.
Tensor irfft(const Tensor& x, std::optional<StrictInt> n = {}, StrictInt axis = -1,
             FftNorm norm = FftNorm::backward);
Tensor irfft_backward(const Tensor& grad_output, const Shape& input_shape,
                      std::optional<StrictInt> n = {}, StrictInt axis = -1,
                      FftNorm norm = FftNorm::backward);

// rfft along the last of the axes, then fft along the others. ValueError without axes.
Tensor rfftn(const Tensor& x, const std::optional<Shape>& s = {}, const Axes& axes = {},
             FftNorm norm = FftNorm::backward);
Tensor rfftn_backward(const Tensor& grad_output, const Shape& input_shape,
                      const std::optional<Shape>& s = {}, const Axes& axes = {},
                      FftNorm norm = FftNorm::backward);

// The inverse of rfftn: ifft along all but the last of the axes, then irfft along that.
Tensor irfftn(const Tensor& x, const std::optional<Shape>& s = {}, const Axes& axes = {},
              FftNorm norm = FftNorm::backward);
Tensor irfftn_backward(const Tensor& grad_output, const Shape& input_shape,
                       const std::optional<Shape>& s = {}, const Axes& axes = {},
                       FftNorm norm = FftNorm::backward);

// The real spectrum of a signal that is its own mirrored conjugate, of which x has the first
// n / 2 + 1 numbers. n is by default 2 (m − 1) for an axis of size m.
Tensor hfft(const Tensor& x, std::optional<StrictInt> n = {}, StrictInt axis = -1,
            FftNorm norm = FftNorm::backward);
Tensor hfft_backward(const Tensor& grad_output, const Shape& input_shape,
                     std::optional<StrictInt> n = {}, StrictInt axis = -1,
                     FftNorm norm = FftNorm::backward);

// The inverse of hfft, of a real x.
Tensor ihfft(const Tensor& x, std::optional<StrictInt> n = {}, StrictInt axis = -1,
             FftNorm norm = FftNorm::backward);
Tensor ihfft_backward(const Tensor& grad_output, const Shape& input_shape,
                      std::optional<StrictInt> n = {}, StrictInt axis = -1,
                      FftNorm norm = FftNorm::backward);

// ---- frequencies

// The frequencies of the results of fft for n samples at a distance of d: 0, 1 … −1, divided by
// n · d. The dtype is float32 unless options say otherwise.
Tensor fftfreq(StrictInt n, StrictDouble d = 1.0, const TensorOptions& options = {});
// Those of the results of rfft: 0, 1 … n / 2, divided by n · d.
Tensor rfftfreq(StrictInt n, StrictDouble d = 1.0, const TensorOptions& options = {});

// Moves the frequency 0 to the middle of the axes, by default of all: rolls by half their size.
// Takes every dtype.
Tensor fftshift(const Tensor& x, const Axes& axes = {});
Tensor fftshift_backward(const Tensor& grad_output, const Axes& axes = {});
// The inverse of fftshift.
Tensor ifftshift(const Tensor& x, const Axes& axes = {});
Tensor ifftshift_backward(const Tensor& grad_output, const Axes& axes = {});

}  // namespace extensor::fft

EXTENSOR_END_API
