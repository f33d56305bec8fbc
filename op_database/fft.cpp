// Fourier transforms. Samples are real: a complex tensor is given, and returned, as pairs of real
// numbers along a last axis of 2, which is not counted in labels.
#include <cmath>
#include <complex>
#include <numbers>

#include "op_database/loops.h"

namespace extensor::op_database {

namespace {

using fft::FftNorm;
using Complex = std::complex<double>;

std::size_t as_size(std::int64_t x) { return static_cast<std::size_t>(x); }

// Other real dtypes than those of parts are left to the function, which refuses them.
Tensor complex_of(const Tensor& x) {
  const bool parts = x.dtype() == float32 || x.dtype() == float64 || is_complex(x);
  return parts ? view_as_complex(x.contiguous()) : x;
}
Tensor pairs_of(const Tensor& x) { return is_complex(x) ? view_as_real(x.contiguous()) : x; }
Tensor pairs_or_real(const Tensor& x, bool real) { return real ? x : complex_of(x); }

Shape with_pairs(Shape shape) {
  shape.push_back(2);
  return shape;
}

// ---- the reference: the sums, in double

enum class Kind : std::uint8_t { fft, ifft, rfft, irfft, hfft, ihfft };

bool from_real(Kind kind) { return kind == Kind::rfft || kind == Kind::ihfft; }
bool to_real(Kind kind) { return kind == Kind::irfft || kind == Kind::hfft; }

struct Numbers {
  Shape shape;
  std::vector<Complex> values;
};

// exp(2πi k / n), exact at quarter turns, where sums of real numbers have a part of exactly 0.
Complex root(std::size_t k, std::size_t n) {
  constexpr Complex quarters[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  if (4 * k % n == 0) return quarters[4 * k / n];
  return std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
}

std::vector<Complex> sums_of(Kind kind, std::vector<Complex> x, std::int64_t n, FftNorm norm) {
  const bool inverse = kind == Kind::ifft || kind == Kind::irfft || kind == Kind::ihfft;
  const std::size_t count = as_size(n);
  if (to_real(kind)) {
    x.resize(count / 2 + 1);
    x[0].imag(0);
    if (n % 2 == 0) x[count / 2].imag(0);
    x.resize(count);
    for (std::size_t k = count / 2 + 1; k < count; ++k) x[k] = std::conj(x[count - k]);
  }
  x.resize(count);
  const double points = static_cast<double>(n);
  const double scale = norm == FftNorm::ortho                   ? 1 / std::sqrt(points)
                       : (norm == FftNorm::backward) == inverse ? 1 / points
                                                                : 1;
  std::vector<Complex> y(from_real(kind) ? count / 2 + 1 : count);
  for (std::size_t k = 0; k < y.size(); ++k) {
    for (std::size_t j = 0; j < count; ++j) {
      const Complex factor = root(j * k % count, count);
      y[k] += scale * x[j] * (inverse ? factor : std::conj(factor));
    }
  }
  return y;
}

Numbers transform(Kind kind, const Numbers& x, std::int64_t n, std::int64_t axis, FftNorm norm) {
  const std::size_t place =
      as_size(axis < 0 ? axis + static_cast<std::int64_t>(x.shape.size()) : axis);
  std::size_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    if (d < place) outer *= as_size(x.shape[d]);
    if (d > place) inner *= as_size(x.shape[d]);
  }
  const std::size_t length = as_size(x.shape[place]);
  const std::size_t results = as_size(from_real(kind) ? n / 2 + 1 : n);
  Numbers y{x.shape, std::vector<Complex>(outer * results * inner)};
  y.shape[place] = static_cast<std::int64_t>(results);
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      std::vector<Complex> line;
      for (std::size_t j = 0; j < length; ++j) {
        line.push_back(x.values[(o * length + j) * inner + i]);
      }
      const std::vector<Complex> sums = sums_of(kind, line, n, norm);
      for (std::size_t k = 0; k < results; ++k) y.values[(o * results + k) * inner + i] = sums[k];
    }
  }
  return y;
}

Numbers numbers_of(const Tensor& x, bool real) {
  const std::vector<double> parts = x.to(float64).to_vector<double>();
  Numbers numbers{x.shape(), {}};
  if (real) {
    numbers.values.assign(parts.begin(), parts.end());
    return numbers;
  }
  numbers.shape.resize(numbers.shape.size() - 1);
  for (std::size_t i = 0; i < parts.size(); i += 2) {
    numbers.values.emplace_back(parts[i], parts[i + 1]);
  }
  return numbers;
}
Tensor tensor_of(const Numbers& numbers, bool real) {
  std::vector<double> parts;
  for (const Complex& value : numbers.values) {
    parts.push_back(value.real());
    if (!real) parts.push_back(value.imag());
  }
  return from_data(parts, real ? numbers.shape : with_pairs(numbers.shape));
}

// ---- samples

using Line = Tensor (*)(const Tensor&, std::optional<StrictInt>, StrictInt, FftNorm);
using LineBackward = Tensor (*)(const Tensor&, const Shape&, std::optional<StrictInt>, StrictInt,
                                FftNorm);
using Axis = std::int64_t;

std::vector<Sample> line_samples(Kind kind, Line forward, LineBackward backward) {
  struct Case {
    Shape shape;
    std::optional<std::int64_t> n;
    std::int64_t axis;
    FftNorm norm;
  };
  const bool in_real = from_real(kind), out_real = to_real(kind);
  std::vector<Sample> samples;
  for (const Case& c : std::vector<Case>{{{4}, {}, -1, FftNorm::backward},
                                         {{5}, {}, 0, FftNorm::ortho},
                                         {{2, 3}, {}, 0, FftNorm::forward},
                                         {{3, 4, 2}, {}, 1, FftNorm::backward},
                                         {{2, 6}, 4, 1, FftNorm::backward},
                                         {{2, 3}, 7, -1, FftNorm::forward},
                                         {{3}, 1, 0, FftNorm::backward},
                                         {{0, 3}, 4, 1, FftNorm::backward}}) {
    const std::int64_t rank = static_cast<std::int64_t>(c.shape.size());
    const std::int64_t size = c.shape[as_size(c.axis < 0 ? c.axis + rank : c.axis)];
    const std::int64_t n = c.n ? *c.n : out_real ? 2 * (size - 1) : size;
    std::optional<StrictInt> given;
    if (c.n) given = *c.n;
    const Shape shape = in_real ? c.shape : with_pairs(c.shape);
    samples.push_back(
        {to_string(c.shape) + ", n " + std::to_string(n) + ", axis " + std::to_string(c.axis),
         {sample_uniform(shape, -2, 2, 1)},
         [=](const Tensors& in) {
           return Tensors{pairs_of(forward(pairs_or_real(in[0], in_real), given, c.axis, c.norm))};
         },
         [=](const Tensors& in) {
           const Numbers x = numbers_of(in[0], in_real);
           return Tensors{tensor_of(transform(kind, x, n, c.axis, c.norm), out_real)};
         },
         [=](const Tensors& g, const Tensors&) {
           return Tensors{
               pairs_of(backward(pairs_or_real(g[0], out_real), c.shape, given, c.axis, c.norm))};
         }});
  }
  return samples;
}

using Block = Tensor (*)(const Tensor&, const std::optional<Shape>&, const Axes&, FftNorm);
using BlockBackward = Tensor (*)(const Tensor&, const Shape&, const std::optional<Shape>&,
                                 const Axes&, FftNorm);

// `last` is the transform of the last axis, `other` that of the others.
std::vector<Sample> block_samples(Kind last, Kind other, Block forward, BlockBackward backward) {
  struct Case {
    Shape shape;
    std::optional<Shape> s;
    std::vector<std::int64_t> axes;
    FftNorm norm;
  };
  const bool in_real = from_real(last), out_real = to_real(last);
  std::vector<Sample> samples;
  for (const Case& c : std::vector<Case>{{{2, 3}, {}, {0, 1}, FftNorm::backward},
                                         {{2, 3, 4}, {}, {1, 2}, FftNorm::ortho},
                                         {{2, 3, 4}, {}, {2, 0}, FftNorm::forward},
                                         {{3, 2, 2}, Shape{2, 5}, {0, 2}, FftNorm::backward},
                                         {{0, 2, 3}, Shape{3, 2}, {1, 2}, FftNorm::backward}}) {
    const Shape shape = in_real ? c.shape : with_pairs(c.shape);
    samples.push_back(
        {to_string(c.shape) + ", axes " + to_string(Dims(c.axes)) +
             (c.s ? ", s " + to_string(*c.s) : ""),
         {sample_uniform(shape, -2, 2, 1)},
         [=](const Tensors& in) {
           return Tensors{pairs_of(forward(pairs_or_real(in[0], in_real), c.s, c.axes, c.norm))};
         },
         [=](const Tensors& in) {
           Numbers x = numbers_of(in[0], in_real);
           const auto along = [&](std::size_t i) {
             const Kind kind = i + 1 == c.axes.size() ? last : other;
             const std::int64_t size = x.shape[as_size(c.axes[i])];
             const std::int64_t n = c.s ? (*c.s)[i] : to_real(kind) ? 2 * (size - 1) : size;
             x = transform(kind, x, n, c.axes[i], c.norm);
           };
           // Half a spectrum is made first, and read last.
           if (!out_real) along(c.axes.size() - 1);
           for (std::size_t i = 0; i + 1 < c.axes.size(); ++i) along(i);
           if (out_real) along(c.axes.size() - 1);
           return Tensors{tensor_of(x, out_real)};
         },
         [=](const Tensors& g, const Tensors&) {
           return Tensors{
               pairs_of(backward(pairs_or_real(g[0], out_real), c.shape, c.s, c.axes, c.norm))};
         }});
  }
  return samples;
}

std::vector<Sample> shift_samples(bool inverse) {
  std::vector<Sample> samples;
  for (const auto& [shape, axes] : std::vector<std::pair<Shape, std::vector<std::int64_t>>>{
           {{5}, {0}}, {{4}, {0}}, {{3, 4}, {0, 1}}, {{2, 3, 5}, {-1, 0}}, {{0, 3}, {0, 1}}}) {
    samples.push_back({to_string(shape) + ", axes " + to_string(Dims(axes)),
                       {sample_uniform(shape, -2, 2, 1)},
                       [=](const Tensors& in) {
                         return Tensors{inverse ? fft::ifftshift(in[0], axes)
                                                : fft::fftshift(in[0], axes)};
                       },
                       [=](const Tensors& in) {
                         const std::vector<double> x = in[0].to(float64).to_vector<double>();
                         std::vector<double> y(x.size());
                         for (std::size_t e = 0; e < x.size(); ++e) {
                           std::size_t rest = e, stride = 1, to = 0;
                           for (std::size_t d = shape.size(); d-- > 0;) {
                             const std::size_t size = as_size(shape[d]);
                             const std::size_t at = rest % size;
                             rest /= size;
                             bool moved = false;
                             for (const std::int64_t axis : axes) {
                               const auto rank = static_cast<std::int64_t>(shape.size());
                               moved = moved || as_size(axis < 0 ? axis + rank : axis) == d;
                             }
                             const std::size_t shift = inverse ? size - size / 2 : size / 2;
                             to += (moved ? (at + shift) % size : at) * stride;
                             stride *= size;
                           }
                           y[to] = x[e];
                         }
                         return Tensors{from_data(y, shape)};
                       },
                       [=](const Tensors& g, const Tensors&) {
                         return Tensors{inverse ? fft::ifftshift_backward(g[0], axes)
                                                : fft::fftshift_backward(g[0], axes)};
                       }});
  }
  return samples;
}

std::vector<Sample> frequency_samples(bool half) {
  std::vector<Sample> samples;
  for (const auto& [n, d] :
       std::vector<std::pair<std::int64_t, double>>{{1, 1.0}, {2, 0.5}, {5, 0.1}, {8, 2.0}}) {
    samples.push_back(
        {"n " + std::to_string(n),
         {sample_uniform({}, 1, 2, 1)},  // carries the dtype and the device
         [=](const Tensors& in) {
           const TensorOptions options{.dtype = in[0].dtype(), .device = in[0].device()};
           return Tensors{half ? fft::rfftfreq(n, d, options) : fft::fftfreq(n, d, options)};
         },
         [=](const Tensors&) {
           std::vector<double> values;
           for (std::int64_t k = 0; k < (half ? n / 2 + 1 : n); ++k) {
             const bool negative = !half && 2 * k >= n + n % 2;
             values.push_back(static_cast<double>(negative ? k - n : k) /
                              (static_cast<double>(n) * d));
           }
           return Tensors{from_data(values)};
         },
         nullptr});
  }
  return samples;
}

}  // namespace

void add_fft(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* formula, const char* gradient,
                       std::vector<std::string> backward,
                       std::function<std::vector<Sample>()> samples,
                       DTypes dtypes = DTypes::wide_floats) {
    ops.push_back({name, "fourier transforms", formula, gradient, std::move(backward), dtypes,
                   std::move(samples)});
  };
  add("fft", "y[k] = Σⱼ x[j] exp(−2πi jk / n)", "Σₖ g[k] exp(2πi jk / n), cropped or padded",
      {"fft_backward"}, [] { return line_samples(Kind::fft, fft::fft, fft::fft_backward); });
  add("ifft", "y[k] = 1/n Σⱼ x[j] exp(2πi jk / n)",
      "1/n Σₖ g[k] exp(−2πi jk / n), cropped or padded", {"ifft_backward"},
      [] { return line_samples(Kind::ifft, fft::ifft, fft::ifft_backward); });
  add("fftn", "fft along every axis", "ifft along every axis, without the factor 1/n",
      {"fftn_backward"},
      [] { return block_samples(Kind::fft, Kind::fft, fft::fftn, fft::fftn_backward); });
  add("ifftn", "ifft along every axis", "fft along every axis, times 1/n", {"ifftn_backward"},
      [] { return block_samples(Kind::ifft, Kind::ifft, fft::ifftn, fft::ifftn_backward); });
  add("rfft", "y[k] = Σⱼ x[j] exp(−2πi jk / n), k ≤ n / 2",
      "Re Σₖ g[k] exp(2πi jk / n), cropped or padded", {"rfft_backward"},
      [] { return line_samples(Kind::rfft, fft::rfft, fft::rfft_backward); });
  add("irfft", "y[k] = 1/n Σⱼ x[j] exp(2πi jk / n), with x[n − j] = conj(x[j])",
      "wⱼ/n Σₖ g[k] exp(−2πi jk / n), w = 1 for j = 0 and j = n / 2, otherwise 2",
      {"irfft_backward"},
      [] { return line_samples(Kind::irfft, fft::irfft, fft::irfft_backward); });
  add("rfftn", "rfft along the last axis, fft along the others",
      "the gradients along each axis in reverse order", {"rfftn_backward"},
      [] { return block_samples(Kind::rfft, Kind::fft, fft::rfftn, fft::rfftn_backward); });
  add("irfftn", "ifft along all axes but the last, irfft along that",
      "the gradients along each axis in reverse order", {"irfftn_backward"},
      [] { return block_samples(Kind::irfft, Kind::ifft, fft::irfftn, fft::irfftn_backward); });
  add("hfft", "y[k] = Σⱼ x[j] exp(−2πi jk / n), with x[n − j] = conj(x[j])",
      "wⱼ Σₖ g[k] exp(2πi jk / n), w as for irfft", {"hfft_backward"},
      [] { return line_samples(Kind::hfft, fft::hfft, fft::hfft_backward); });
  add("ihfft", "y[k] = 1/n Σⱼ x[j] exp(2πi jk / n), k ≤ n / 2", "1/n Re Σₖ g[k] exp(−2πi jk / n)",
      {"ihfft_backward"},
      [] { return line_samples(Kind::ihfft, fft::ihfft, fft::ihfft_backward); });
  add("fftfreq", "0, 1 … −2, −1, divided by n · d", "", {},
      [] { return frequency_samples(false); });
  add("rfftfreq", "0, 1 … n / 2, divided by n · d", "", {}, [] { return frequency_samples(true); });
  add(
      "fftshift", "y[(i + n / 2) mod n] = x[i] along every axis, n / 2 rounded down",
      "ifftshift(g)", {"fftshift_backward"}, [] { return shift_samples(false); }, DTypes::all);
  add(
      "ifftshift", "y[i] = x[(i + n / 2) mod n] along every axis, n / 2 rounded down",
      "fftshift(g)", {"ifftshift_backward"}, [] { return shift_samples(true); }, DTypes::all);
}

}  // namespace extensor::op_database
