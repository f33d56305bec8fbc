// Elementwise functions of complex numbers: a loop over std::complex for each, run over any layout
// in blocks. The functions of the C library have the special cases of C99, Annex G, which the Array
// API standard asks for.
#include "backend/cpu/complex/complex.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include "backend/plan/elementwise_plan.h"
#include "core/convert.h"
#include "core/parallel.h"
#include "core/visit.h"

namespace extensor::cpu {

namespace {

using backend::ComplexOp;
using backend::ElementwiseCall;
using backend::max_inputs;
using backend::Operand;

// ---- functions of one number

template <class T>
using Z = std::complex<T>;

template <class T>
bool is_finite(Z<T> z) {
  return std::isfinite(z.real()) && std::isfinite(z.imag());
}
template <class T>
bool is_nan(Z<T> z) {
  return std::isnan(z.real()) || std::isnan(z.imag());
}
template <class T>
bool is_zero(Z<T> z) {
  return z.real() == 0 && z.imag() == 0;
}

// z · factor, part by part, so that an infinite part does not make the other one NaN.
template <class T>
Z<T> scaled(Z<T> z, T factor) {
  return {z.real() * factor, z.imag() * factor};
}

template <class T>
Z<T> expm1(Z<T> z) {
  const T x = z.real(), y = z.imag();
  if (!is_finite(z)) {
    const Z<T> e = std::exp(z);
    return {e.real() - 1, e.imag()};
  }
  // eˣ cos y − 1 = (eˣ − 1) cos y − 2 sin²(y/2), which does not cancel near 0. The standard asks
  // for a real part of +0 at −0, which the sum with 0 gives.
  const T half = std::sin(y / 2);
  return {std::expm1(x) * std::cos(y) - 2 * half * half + T(0),
          y == 0 ? y : std::exp(x) * std::sin(y)};
}

template <class T>
Z<T> log1p(Z<T> z) {
  const T x = z.real(), y = z.imag();
  const Z<T> shifted(x + 1, y);
  if (!is_finite(z) || is_zero(shifted)) return std::log(shifted);
  // |1 + z|² − 1 = x (2 + x) + y². In double for float; long double where |1 + z| is near 1.
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  const Wide a = x, b = y;
  const Wide excess = a * (2 + a) + b * b;
  const T angle = std::atan2(y, shifted.real());
  if (excess > -0.5L && excess < 3) return {static_cast<T>(std::log1p(excess) / 2), angle};
  return {static_cast<T>(std::log(std::hypot(a + 1, b))), angle};
}

template <class T>
Z<T> sign(Z<T> z) {
  if (is_zero(z)) return {0, 0};
  // Scaled by a power of two first, so that |z| neither overflows nor loses digits.
  const T largest = std::max(std::fabs(z.real()), std::fabs(z.imag()));
  if (!is_finite(z)) return scaled(z, 1 / std::abs(z));
  const int exponent = std::ilogb(largest);
  const Z<T> near_one(std::scalbn(z.real(), -exponent), std::scalbn(z.imag(), -exponent));
  const T length = std::abs(near_one);
  return {near_one.real() / length, near_one.imag() / length};
}

template <class T>
Z<T> reciprocal(Z<T> z) {
  return Z<T>(1) / z;
}

// Powers of float parts are computed in double, whose exponents hold every intermediate product.
Z<double> power_of(Z<double> a, Z<double> b) {
  if (is_zero(b)) return 1;
  if (is_zero(a)) {
    if (b.imag() == 0 && b.real() > 0) return 0;
    if (b.real() > 0) return 0;
    const double nan = std::nan("");
    return {nan, nan};
  }
  if (b.imag() == 0) {
    const double exponent = b.real();
    if (exponent == 1) return a;
    if (exponent == 0.5) return std::sqrt(a);
    if (exponent == std::trunc(exponent) && std::fabs(exponent) <= 64) {
      // Exact products for small integers.
      auto n = static_cast<unsigned>(std::fabs(exponent));
      Z<double> result = 1, square = a;
      bool first = true;
      for (; n != 0; n >>= 1) {
        if ((n & 1) != 0) {
          result = first ? square : result * square;
          first = false;
        }
        if (n > 1) square *= square;
      }
      return exponent < 0 ? 1.0 / result : result;
    }
  }
  return std::pow(a, b);
}
template <class T>
Z<T> power(Z<T> a, Z<T> b) {
  return Z<T>(power_of(Z<double>(a), Z<double>(b)));
}

// ---- loops

using Loop = void (*)(const std::byte* const* in, std::byte* out, std::size_t n);

template <class T, auto function>
void map_one(const std::byte* const* in, std::byte* out, std::size_t n) {
  using Result = decltype(function(Z<T>()));
  const auto* x = reinterpret_cast<const Z<T>*>(in[0]);
  auto* y = reinterpret_cast<Result*>(out);
  for (std::size_t i = 0; i < n; ++i) y[i] = function(x[i]);
}

template <class T, auto function>
void map_two(const std::byte* const* in, std::byte* out, std::size_t n) {
  using Result = decltype(function(Z<T>(), Z<T>()));
  const auto* a = reinterpret_cast<const Z<T>*>(in[0]);
  const auto* b = reinterpret_cast<const Z<T>*>(in[1]);
  auto* y = reinterpret_cast<Result*>(out);
  for (std::size_t i = 0; i < n; ++i) y[i] = function(a[i], b[i]);
}

template <class T>
void choose(const std::byte* const* in, std::byte* out, std::size_t n) {
  const auto* condition = reinterpret_cast<const bool*>(in[0]);
  const auto* a = reinterpret_cast<const Z<T>*>(in[1]);
  const auto* b = reinterpret_cast<const Z<T>*>(in[2]);
  auto* y = reinterpret_cast<Z<T>*>(out);
  for (std::size_t i = 0; i < n; ++i) y[i] = condition[i] ? a[i] : b[i];
}

template <class T>
Loop loop_of(ComplexOp op) {
  constexpr T ln2 = T(0.693147180559945309417232121458176568L);
  constexpr T ln10 = T(2.302585092994045684017991454684364208L);
  switch (op) {
#define EXTENSOR_ONE(name, expression) \
  case ComplexOp::name:                \
    return &map_one<T, [](Z<T> z) { return expression; }>;
#define EXTENSOR_TWO(name, expression) \
  case ComplexOp::name:                \
    return &map_two<T, [](Z<T> a, Z<T> b) { return expression; }>;
    case ComplexOp::where:
      return &choose<T>;
      EXTENSOR_TWO(add, a + b)
      EXTENSOR_TWO(subtract, a - b)
      EXTENSOR_TWO(multiply, a * b)
      EXTENSOR_TWO(divide, a / b)
      EXTENSOR_TWO(power, power(a, b))
      EXTENSOR_TWO(equal, a == b)
      EXTENSOR_TWO(not_equal, a != b)
      EXTENSOR_TWO(logical_and, !is_zero(a) && !is_zero(b))
      EXTENSOR_TWO(logical_or, !is_zero(a) || !is_zero(b))
      EXTENSOR_TWO(logical_xor, is_zero(a) != is_zero(b))
      // The operands are real, and were read as complex numbers.
      EXTENSOR_TWO(complex, (Z<T>(a.real(), b.real())))
    case ComplexOp::copy:
      EXTENSOR_ONE(positive, z)
      EXTENSOR_ONE(negative, -z)
      EXTENSOR_ONE(abs, std::abs(z))
      EXTENSOR_ONE(square, z * z)
      EXTENSOR_ONE(sign, sign(z))
      EXTENSOR_ONE(reciprocal, reciprocal(z))
      EXTENSOR_ONE(exp, std::exp(z))
      EXTENSOR_ONE(exp2, std::exp(scaled(z, ln2)))
      EXTENSOR_ONE(expm1, expm1(z))
      EXTENSOR_ONE(log, std::log(z))
      EXTENSOR_ONE(log2, scaled(std::log(z), 1 / ln2))
      EXTENSOR_ONE(log10, scaled(std::log(z), 1 / ln10))
      EXTENSOR_ONE(log1p, log1p(z))
      EXTENSOR_ONE(sqrt, std::sqrt(z))
      EXTENSOR_ONE(rsqrt, reciprocal(std::sqrt(z)))
      EXTENSOR_ONE(sin, std::sin(z))
      EXTENSOR_ONE(cos, std::cos(z))
      EXTENSOR_ONE(tan, std::tan(z))
      EXTENSOR_ONE(asin, std::asin(z))
      EXTENSOR_ONE(acos, std::acos(z))
      EXTENSOR_ONE(atan, std::atan(z))
      EXTENSOR_ONE(sinh, std::sinh(z))
      EXTENSOR_ONE(cosh, std::cosh(z))
      EXTENSOR_ONE(tanh, std::tanh(z))
      EXTENSOR_ONE(asinh, std::asinh(z))
      EXTENSOR_ONE(acosh, std::acosh(z))
      EXTENSOR_ONE(atanh, std::atanh(z))
      EXTENSOR_ONE(logical_not, is_zero(z))
      EXTENSOR_ONE(isnan, is_nan(z))
      EXTENSOR_ONE(isinf, std::isinf(z.real()) || std::isinf(z.imag()))
      EXTENSOR_ONE(isfinite, is_finite(z))
      EXTENSOR_ONE(conj, std::conj(z))
      EXTENSOR_ONE(angle, std::atan2(z.imag(), z.real()))
#undef EXTENSOR_ONE
#undef EXTENSOR_TWO
  }
  __builtin_unreachable();
}

// ---- reading and writing blocks

constexpr std::int64_t block = 256;
constexpr std::int64_t widest = 16;

// Reads n elements of any dtype as Z<T>.
template <class T>
void read(DType dtype, const std::byte* from, std::int64_t stride, std::byte* to, std::int64_t n) {
  auto* target = reinterpret_cast<Z<T>*>(to);
  detail::visit_any_dtype(dtype, [&]<class From>() {
    const auto* source = reinterpret_cast<const From*>(from);
    for (std::int64_t i = 0; i < n; ++i) {
      const From value = source[i * stride];
      if constexpr (std::is_same_v<From, Z<float>> || std::is_same_v<From, Z<double>>) {
        target[i] = Z<T>(static_cast<T>(value.real()), static_cast<T>(value.imag()));
      } else {
        target[i] = Z<T>(detail::convert<T>(value), 0);
      }
    }
  });
}

// Writes n results: complex, real or bool, of the computed precision, into a dtype of that kind.
template <class T>
void write(DType dtype, const std::byte* from, std::byte* to, std::int64_t stride, std::int64_t n) {
  const auto store = [&]<class From, class To>(const From*, To*) {
    const auto* source = reinterpret_cast<const From*>(from);
    auto* target = reinterpret_cast<To*>(to);
    for (std::int64_t i = 0; i < n; ++i) target[i * stride] = static_cast<To>(source[i]);
  };
  const Z<T>* numbers = nullptr;
  const T* parts = nullptr;
  switch (dtype) {
    case DType::complex64:
      return store(numbers, static_cast<Z<float>*>(nullptr));
    case DType::complex128:
      return store(numbers, static_cast<Z<double>*>(nullptr));
    case DType::float32:
      return store(parts, static_cast<float*>(nullptr));
    case DType::float64:
      return store(parts, static_cast<double*>(nullptr));
    default:
      return store(static_cast<const bool*>(nullptr), static_cast<bool*>(nullptr));
  }
}

template <class T>
void run(ComplexOp op, const ElementwiseCall& call) {
  const Loop loop = loop_of<T>(op);
  const int inputs = call.input_count;
  const DType compute = dtype_of<Z<T>>;
  // Strides of operands that are dense or single elements are not given.
  Strides dense(call.shape->size(), 1), single(call.shape->size(), 0);
  for (std::size_t d = dense.size(), step = 1; d-- > 0;) {
    dense[d] = static_cast<std::int64_t>(step);
    step *= static_cast<std::size_t>((*call.shape)[d]);
  }
  const std::int64_t* strides[plan::max_operands] = {call.contiguous ? dense.data()
                                                                     : call.out.strides};
  for (int k = 0; k < inputs; ++k) {
    const bool repeats = call.repeats[k] || call.inputs[k].is_number();
    strides[k + 1] = repeats           ? single.data()
                     : call.contiguous ? dense.data()
                                       : call.inputs[k].strides;
  }
  const plan::ElementwisePlan plan = plan::plan_elementwise(*call.shape, inputs + 1, strides);
  const std::size_t inner = plan.sizes.size() - 1;
  const std::int64_t length = plan.sizes[inner];
  const std::int64_t blocks = (length + block - 1) / block;
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < inner; ++d) rows *= plan.sizes[d];
  const bool writes_directly =
      plan.strides[0][inner] == 1 && (call.out.dtype == compute || !is_complex(call.out.dtype));
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / std::min(length, block));
  detail::parallel_for(rows * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::byte staged[max_inputs][block * widest];
    alignas(64) std::byte results[block * widest];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % blocks * block;
      const std::int64_t n = std::min(block, length - first);
      std::int64_t row = unit / blocks, offsets[plan::max_operands];
      for (int k = 0; k <= inputs; ++k) offsets[k] = first * plan.strides[k][inner];
      for (std::size_t d = inner; d-- > 0;) {
        const std::int64_t at = row % plan.sizes[d];
        row /= plan.sizes[d];
        for (int k = 0; k <= inputs; ++k) offsets[k] += at * plan.strides[k][d];
      }
      const std::byte* in[max_inputs];
      for (int k = 0; k < inputs; ++k) {
        const Operand& x = call.inputs[k];
        const auto size = static_cast<std::int64_t>(itemsize(x.dtype));
        const std::int64_t stride = plan.strides[k + 1][inner];
        const std::byte* from = x.is_number() ? x.number : x.data + offsets[k + 1] * size;
        const bool is_condition = op == ComplexOp::where && k == 0;
        if (stride == 1 && (is_condition || x.dtype == compute)) {
          in[k] = from;
          continue;
        }
        in[k] = staged[k];
        if (is_condition) {
          for (std::int64_t i = 0; i < n; ++i) staged[k][i] = from[i * stride];
        } else {
          read<T>(x.dtype, from, stride, staged[k], n);
        }
      }
      std::byte* to =
          call.out.data + offsets[0] * static_cast<std::int64_t>(itemsize(call.out.dtype));
      if (writes_directly) {
        loop(in, to, static_cast<std::size_t>(n));
      } else {
        loop(in, results, static_cast<std::size_t>(n));
        write<T>(call.out.dtype, results, to, plan.strides[0][inner], n);
      }
    }
  });
}

}  // namespace

void complex_elementwise(ComplexOp op, const ElementwiseCall& call) {
  if (call.numel == 0) return;
  call.compute == DType::complex64 ? run<float>(op, call) : run<double>(op, call);
}

}  // namespace extensor::cpu
