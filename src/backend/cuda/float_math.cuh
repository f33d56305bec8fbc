// Functions of float for which CUDA's own are less accurate than the rules ask (2 ULP over all
// floats), and those of the vector math longer than a GPU's memory is fast. Rounding to integers is
// done by adding a large number, since the conversions of a GPU are slow; terms that need more than
// 24 bits are double, which has half the speed of float.
#pragma once

namespace extensor::backend::cuda::float_math {

#define EXTENSOR_FUNCTION __device__ __forceinline__

// Formulas that are compiled at run time include this, without the standard library.
constexpr float infinity = __builtin_bit_cast(float, 0x7f800000u);
constexpr float not_a_number = __builtin_bit_cast(float, 0x7fc00000u);

// ---- instructions

EXTENSOR_FUNCTION float rough_reciprocal(float x) {  // 1 ULP; subnormal numbers count as 0
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
EXTENSOR_FUNCTION float rough_inverse_root(float x) {  // 2 ULP; likewise
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// NaN stays NaN.
EXTENSOR_FUNCTION float at_most(float x, float bound) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(bound));
  return y;
}
EXTENSOR_FUNCTION float at_least(float x, float bound) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(bound));
  return y;
}

EXTENSOR_FUNCTION float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
EXTENSOR_FUNCTION double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }

template <class T>
EXTENSOR_FUNCTION T polynomial(T, T constant) {
  return constant;
}
// Coefficients in ascending order.
template <class T, class... Rest>
EXTENSOR_FUNCTION T polynomial(T x, T constant, Rest... rest) {
  return multiply_add(x, polynomial(x, static_cast<T>(rest)...), constant);
}

// ---- powers of two

// Adding this leaves an integer in the low bits.
constexpr float float_shift = 12582912.0f;           // 1.5 · 2²³
constexpr double double_shift = 6755399441055744.0;  // 1.5 · 2⁵²

// 2^(n + more) for the low bits of a shifted number, −126 ≤ n + more ≤ 127.
EXTENSOR_FUNCTION float power_of_two(int n, int more = 0) {
  return __int_as_float(static_cast<int>(static_cast<unsigned>(n) << 23) + ((127 + more) << 23));
}
// The same for double, −1022 ≤ n ≤ 1023.
EXTENSOR_FUNCTION double scale_double(double x, int n) {
  return __hiloint2double(__double2hiint(x) + static_cast<int>(static_cast<unsigned>(n) << 20),
                          __double2loint(x));
}
// value · 2^n with one rounding, for −180 ≤ n ≤ 60: the scale is too large by 2⁶⁰ first.
constexpr int extra_scale = 60;
constexpr float take_back = 0x1p-60f;

// e^x = (1 + minus_one) · 2^n, |x| ≤ 170, to a quarter of an ULP of the sum.
struct ReducedExp {
  float minus_one;
  int n;
};
EXTENSOR_FUNCTION float exp_polynomial(float r) {  // (e^r − 1 − r) / r²
  return polynomial(r, 0.5f, 0.166665763f, 0.0416664667f, 0.00836324878f, 0.00139349676f);
}
EXTENSOR_FUNCTION ReducedExp reduce_exp(float x) {
  const float shifted = fmaf(x, 1.44269502f, float_shift);
  const float n = shifted - float_shift;
  const float high = fmaf(n, -0.693147182f, x);  // exact
  const float r = fmaf(n, 1.90465421e-09f, high);
  return {fmaf(r * r, exp_polynomial(r), r), __float_as_int(shifted)};
}
// The same for x + correction, which is below 2⁻¹⁶.
EXTENSOR_FUNCTION ReducedExp reduce_exp(float x, float correction) {
  const float shifted = fmaf(x, 1.44269502f, float_shift);
  const float n = shifted - float_shift;
  const float r = fmaf(n, -0.693147182f, x);  // exact
  const float lost = fmaf(n, 1.90465421e-09f, correction);
  // e^(r + lost) is e^r + lost (1 + r + r² / 2).
  const float rest = lost * fmaf(r, fmaf(r, 0.5f, 1.0f), 1.0f);
  return {r + fmaf(r * r, exp_polynomial(r), rest), __float_as_int(shifted)};
}

// 2^x − 1, |x| ≤ 1/2.
EXTENSOR_FUNCTION float exp2_minus_one(float x) {
  return x * polynomial(x, 0.6931472062f, 0.2402265135f, 0.0555032779f, 0.009618003827f,
                        0.001340027034f, 0.0001547631814f);
}

// ---- functions of e^−|x|

// e^−|x| as (1 + minus_one) · scale · take_back.
struct Logistic {
  float minus_one, scale;
};
EXTENSOR_FUNCTION Logistic reduce_logistic(float x) {
  const ReducedExp e = reduce_exp(-at_most(fabsf(x), 120.0f));
  return {e.minus_one, power_of_two(e.n, extra_scale)};
}
// 1 / (1 + e^−|x|)
EXTENSOR_FUNCTION float over_one_plus(const Logistic& e) {
  const float power = e.scale * take_back;
  const float whole = 1 + power, whole_lost = power - (whole - 1);
  const float bottom = fmaf(power, e.minus_one, whole);
  const float bottom_lost = fmaf(power, e.minus_one, whole - bottom) + whole_lost;
  const float rough = rough_reciprocal(bottom);
  const float defect = fmaf(-bottom_lost, rough, fmaf(-bottom, rough, 1.0f));
  return fmaf(rough, defect, rough);
}

EXTENSOR_FUNCTION float sigmoid(float x) {
  const Logistic e = reduce_logistic(x);
  const float right = over_one_plus(e);
  return x < 0 ? fmaf(right, e.minus_one, right) * e.scale * take_back : right;
}

// x / (1 + e^−x), with the divisor as a sum. It is scaled by 2⁻³², so that it is finite wherever
// the result is not 0. At most 1.6 ULP.
EXTENSOR_FUNCTION float silu(float x) {
  constexpr float one = 0x1p-32f;
  const float bounded = at_least(x, -109.0f);
  const ReducedExp e = reduce_exp(-bounded);
  const float power = power_of_two(e.n, -32), whole = power + one;
  const float bottom = fmaf(power, e.minus_one, whole);
  const float lost = fmaf(power, e.minus_one, whole - bottom);
  const float rough = rough_reciprocal(bottom), first = bounded * rough;
  const float rest = fmaf(-first, lost, fmaf(-first, bottom, bounded));
  return x > 20 || x == 0 ? x : fmaf(rest, rough, first) * one;  // −0 keeps its sign
}

// log(1 + e) − e + more, 0 ≤ e ≤ 1
EXTENSOR_FUNCTION float add_log1p_tail(float e, float more) {
  const float q = polynomial(e - 0.5f, -0.37813955941f, 0.17922488613f, -0.093231856184f,
                             0.051089059807f, -0.028904999224f, 0.016656979703f, -0.010177700016f,
                             0.0069307142465f, -0.0033184991538f);
  return fmaf(e * e, q, more);
}

EXTENSOR_FUNCTION float softplus(float x) {
  const Logistic reduced = reduce_logistic(x);
  const float e = (1 + reduced.minus_one) * reduced.scale * take_back;
  return fmaxf(x, 0.0f) + add_log1p_tail(e, e);  // NaN is in e
}

// x e (e + 2) / (e (e + 2) + 2) for e = e^x, the quotient in double.
EXTENSOR_FUNCTION float mish(float x) {
  const float bounded = at_least(at_most(x, 20.0f), -120.0f);
  const ReducedExp reduced = reduce_exp(bounded);
  const double e = scale_double(1.0 + static_cast<double>(reduced.minus_one), reduced.n);
  const double top = e * (e + 2), bottom = top + 2;
  const double rough = static_cast<double>(rough_reciprocal(static_cast<float>(bottom)));
  const double ratio = top * multiply_add(rough, multiply_add(-bottom, rough, 1.0), rough);
  const float value = static_cast<float>(ratio * 0x1p60) * bounded * take_back;
  return x > 20 ? x : value;
}

// x sigmoid(z), z = √(8/π) (x + 0.044715 x³): z in double, since the tail magnifies its error.
EXTENSOR_FUNCTION float gelu_tanh(float x) {
  const float bounded = at_least(at_most(x, 7.0f), -11.0f);
  const auto wide = static_cast<double>(bounded);
  constexpr double slope = 2.3022081981443249, cubic = 0.10294323958002349;  // times log2(e)
  const double z = wide * multiply_add(wide * wide, cubic, slope);
  const double shifted = z + double_shift;
  const int n = __double2loint(shifted);
  const auto r = static_cast<float>(z - (shifted - double_shift));
  // sigmoid = 2^n / (2^n + 2^−r)
  const float minus_one = exp2_minus_one(-r);
  const float scale = power_of_two(n, extra_scale);
  const float whole = fmaf(scale, take_back, 1.0f);
  const float whole_lost = fmaf(scale, take_back, 1.0f - whole);
  const float sum = whole + minus_one, lost = minus_one - (sum - whole) + whole_lost;
  const float rough = rough_reciprocal(sum);
  const float inverse = fmaf(rough, fmaf(-lost, rough, fmaf(-sum, rough, 1.0f)), rough);
  return x >= 7 ? x : bounded * inverse * scale * take_back;
}

// ---- the normal distribution

// Φ(x) for |x| ≤ 1.
EXTENSOR_FUNCTION float normal_center(float x) {
  return fmaf(x,
              polynomial(x * x, 0.3989422777f, -0.06649031436f, 0.009973078365f, -0.001185784966f,
                         0.0001129521616f, -7.462892292e-6f),
              0.5f);
}
// t Φ(−t) e^(t²/2), 1 ≤ t ≤ 14.5: a polynomial in 1 / (t + 2).
EXTENSOR_FUNCTION float normal_tail_ratio(float t) {
  const float bottom = t + 2, rough = rough_reciprocal(bottom);
  const float w = fmaf(rough, fmaf(-bottom, rough, 1.0f), rough);
  return polynomial(w - 0.1875f, 0.36995102137f, -0.4081148425f, -1.9321564737f, -3.0240954385f,
                    2.4364354761f, 10.130933853f, -13.204177404f, -31.942163642f, 81.476394079f);
}
// e^(−t²/2), the rounding error of the square included.
EXTENSOR_FUNCTION ReducedExp reduce_half_square(float t) {
  const float square = t * t, lost = fmaf(t, t, -square);
  return reduce_exp(-0.5f * square, -0.5f * lost);
}

// Φ(x) + x φ(x)
EXTENSOR_FUNCTION float gelu_derivative(float x) {
  constexpr float density = 0.398942292f;
  const float t = at_most(fabsf(x), 14.5f);
  const ReducedExp e = reduce_half_square(t);
  const float exponential = (1 + e.minus_one) * power_of_two(e.n, extra_scale) * take_back;
  if (t <= 1) return fmaf(x * density, exponential, normal_center(x));
  const float ratio = normal_tail_ratio(t) * rough_reciprocal(t);  // Φ(−t) e^(t²/2)
  const float tail = exponential * fmaf(-density, t, ratio);       // at −t
  return x < 0 ? tail : 1 - tail;
}

// ---- hyperbolic functions

// 2^n (1 + y) − 1 for e^x = 2^n (1 + y), half of it at first, since 2^n may be too large. Nearly
// exact, since rows multiply it.
EXTENSOR_FUNCTION float expm1(float x) {
  const float bounded = at_most(at_least(x, -30.0f), 89.0f);
  const float shifted = fmaf(bounded, 1.44269502f, float_shift);
  const float n = shifted - float_shift;
  const float r = fmaf(n, -0.693147182f, bounded);  // exact
  const float lost = n * 1.90465421e-09f;
  const float q = polynomial(r, 0.5f, 0.166666672f, 0.0416665114f, 0.00833317731f, 0.00139305019f,
                             0.00019972329f);
  const float rest = fmaf(r * r, q, fmaf(lost, r, lost));
  const float half = power_of_two(__float_as_int(shifted), -1);
  const float whole = half - 0.5f;
  const float inner = fmaf(half, r, whole), inner_lost = fmaf(half, r, whole - inner);
  const float sum = fmaf(half, rest, inner), sum_lost = fmaf(half, rest, inner - sum);
  return fabsf(x) < 0x1p-24f ? x : 2 * (sum + (sum_lost + inner_lost));
}

// (e^|x| ± e^−|x|) / 2
template <bool minus>
EXTENSOR_FUNCTION float half_sum_of_exponentials(float magnitude) {
  const ReducedExp e = reduce_exp(at_most(magnitude, 89.6f));
  const float p = 1 + e.minus_one, lost = e.minus_one - (p - 1);
  const float rough = rough_reciprocal(p);
  const float inverse = fmaf(rough, fmaf(-p, rough, 1.0f), rough);
  const int n = e.n - __float_as_int(float_shift);
  const float high = power_of_two(n, -2), low = power_of_two(n < 120 ? -n : -120, -2);
  const float other = minus ? -inverse * low : inverse * low;
  return 2 * fmaf(lost, high, fmaf(p, high, other));
}
EXTENSOR_FUNCTION float cosh(float x) { return half_sum_of_exponentials<false>(fabsf(x)); }
EXTENSOR_FUNCTION float sinh(float x) {
  const float magnitude = fabsf(x), square = x * x;
  const float small =
      fmaf(magnitude * square, polynomial(square, 0.166666672f, 0.00833312143f, 0.0001999284f),
           magnitude);
  return copysignf(magnitude < 0.6f ? small : half_sum_of_exponentials<true>(magnitude), x);
}

// The logarithm of a double in [2⁻²⁸, 2¹³⁰], to 2⁻³⁰ of it where it is above 2⁻⁴⁰.
EXTENSOR_FUNCTION double log_of_double(double y) {
  const int high = __double2hiint(y);
  const int n = (high - 0x3fe6a09e) >> 20;  // 1/√2 ≤ mantissa < √2
  const double m = __hiloint2double(high - (n << 20), __double2loint(y));
  // n as the low word of a double.
  const double wide_n =
      __hiloint2double(0x43300000, static_cast<int>(0x80000000u ^ static_cast<unsigned>(n))) -
      4503601774854144.0;
  const double f = m - 1;
  const double q = polynomial(f, -0.49999999751723797, 0.33333310795291324, -0.25000026010427325,
                              0.20002221454638287, -0.16667676693304588, 0.14217638928534128,
                              -0.12407512539519905, 0.11901454569023665, -0.1167524232934267,
                              0.067229291744308999);
  return multiply_add(wide_n, 0.69314718055994529, multiply_add(f * f, q, f));
}
// √x to 2⁻⁴⁰ for 2⁻¹⁰⁰ ≤ x < 2¹²⁸, and 0 for 0.
EXTENSOR_FUNCTION double near_root(double x) {
  const float narrow = fmaxf(static_cast<float>(x), 0x1p-100f);
  const double rough = static_cast<double>(rough_inverse_root(narrow));
  const double root = x * rough;
  return multiply_add(multiply_add(-root, root, x), 0.5 * rough, root);
}

// CUDA's has more than 2 ULP only close to 1.
EXTENSOR_FUNCTION float acosh(float x) {
  if (!(x >= 1)) return not_a_number;
  if (x >= 1.03125f) return ::acoshf(x);
  const auto wide = static_cast<double>(x);
  return static_cast<float>(log_of_double(wide + near_root(multiply_add(wide, wide, -1.0))));
}
// With 2^n about (1 + |x|) / (1 − |x|): n ln(2) / 2 + atanh(s) for
// s = (1 + |x| − 2^n (1 − |x|)) / (1 + |x| + 2^n (1 − |x|)), which is |x| if n = 0.
EXTENSOR_FUNCTION float atanh(float x) {
  const float magnitude = fabsf(x);
  if (!(magnitude < 0.9999995f)) return ::atanhf(x);  // 2^n ± 1 would be rounded
  const float rough = (1 + magnitude) * rough_reciprocal(1 - magnitude);
  const int n = (__float_as_int(rough) - 0x3f63d70a) >> 23;  // 0.89 ≤ rough / 2^n < 1.78
  const float power = __int_as_float((n + 127) << 23);
  const float wide_n = __int_as_float(__float_as_int(float_shift) + n) - float_shift;
  const float top = fmaf(magnitude, 1 + power, 1 - power);
  const float bottom = fmaf(magnitude, 1 - power, 1 + power);
  const float inverse = rough_reciprocal(bottom), first = top * inverse;
  const float s = fmaf(fmaf(-first, bottom, top), inverse, first);
  const float z = s * s;
  const float tail =
      s * z *
      polynomial(z, 0.33333334268f, 0.19999841887f, 0.14294374142f, 0.10905836397f, 0.11251332378f);
  return copysignf(fmaf(wide_n, 0.346573591f, s + fmaf(wide_n, -9.52327106e-10f, tail)), x);
}

// ---- angles

// Up to |x| = 10⁵, beyond which the multiple of π/2 would need more bits.
EXTENSOR_FUNCTION float small_tan(float x) {
  const float shifted = fmaf(x, 0.636619772f, float_shift);
  const float n = shifted - float_shift;
  // The reduced angle as a sum.
  const float high = fmaf(n, -1.57079637f, x);  // exact
  const float low = __fmul_rn(n, 4.37113883e-08f), low_lost = fmaf(n, 4.37113883e-08f, -low);
  const float r = __fadd_rn(high, low);
  const float lost = ((high - r) + low) + fmaf(n, 1.71512451e-15f, low_lost);
  const float z = r * r;
  const float p = polynomial(z, 0.33333351451f, 0.13332609596f, 0.054065582701f, 0.021254739973f,
                             0.010902995322f, 8.6806729143e-6f, 0.0044143108208f);
  const float tail = fmaf(r * z, p, lost * fmaf(1.4f, z, 1.0f));
  const float tan = r + tail, tan_lost = tail - (tan - r);
  // An odd quarter turn: −1 / tan.
  const float rough = -rough_reciprocal(tan);
  const float inverse = fmaf(rough, fmaf(tan_lost, rough, fmaf(tan, rough, 1.0f)), rough);
  const float value = (__float_as_int(shifted) & 1) != 0 ? inverse : tan;
  return fabsf(x) < 0x1p-12f ? x : value;  // keeps −0
}
__device__ __noinline__ inline float large_tan(float x) {
  return static_cast<float>(::tan(static_cast<double>(x)));
}
EXTENSOR_FUNCTION float tan(float x) { return fabsf(x) <= 1e5f ? small_tan(x) : large_tan(x); }

// ---- functions of two numbers

// (a 2^shift)^b for a normal a > 0 and finite b: log2(a) to 2⁻³⁸ of it.
EXTENSOR_FUNCTION float power_of_positive(float a, float b, int shift = 0) {
  const int bits = __float_as_int(a);
  int n = (bits - 0x3f3504f3) >> 23;  // 1/√2 ≤ mantissa < √2
  const float f = __int_as_float(bits - (n << 23)) - 1;
  n += shift;
  // s = f / (f + 2) as a sum
  const float bottom = f + 2, lost = f - (bottom - 2);
  const float rough = rough_reciprocal(bottom);
  const float s_high = f * rough;
  const float s_low = rough * fmaf(-s_high, lost, fmaf(-s_high, bottom, f));
  const double s = static_cast<double>(s_high) + static_cast<double>(s_low);
  const float tail =
      polynomial(s_high * s_high, 0.5770779899f, 0.4122050260f, 0.3200610116f, 0.2808807291f);
  const double z = s * s;
  const double slope = multiply_add(
      z, multiply_add(z, static_cast<double>(tail), 0.96179669392597560), 2.8853900817779268);
  const double wide_n =
      __hiloint2double(0x43300000, static_cast<int>(0x80000000u ^ static_cast<unsigned>(n))) -
      4503601774854144.0;
  double product = static_cast<double>(b) * multiply_add(s, slope, wide_n);
  // Beyond 2^±200 the result is 0 or infinity. NaN cannot occur.
  if ((__double2hiint(product) & 0x7fffffff) >= 0x40690000) product = product < 0 ? -200 : 200;
  const double shifted = product + double_shift;
  const auto fraction = static_cast<float>(product - (shifted - double_shift));
  const int k = __double2loint(shifted), half = k >> 1;
  return (1 + exp2_minus_one(fraction)) * power_of_two(half) * power_of_two(k - half);
}

// The other cases of C99's pow.
__device__ __noinline__ inline float special_power(float a, float b) {
  const float magnitude = fabsf(a);
  if (magnitude == 0 || !(magnitude < infinity) || !(fabsf(b) < infinity)) return ::powf(a, b);
  if (a < 0 && truncf(b) != b) return not_a_number;
  const float value = magnitude < 0x1p-126f ? power_of_positive(magnitude * 0x1p24f, b, -24)
                                            : power_of_positive(magnitude, b);
  const float half = 0.5f * b;
  return a < 0 && truncf(half) != half ? -value : value;
}
EXTENSOR_FUNCTION float power(float a, float b) {
  const bool ordinary = a >= 0x1p-126f && a < infinity && fabsf(b) < infinity;
  return ordinary ? power_of_positive(a, b) : special_power(a, b);
}

// √(a² + b²), scaled by the power of two of the larger one.
EXTENSOR_FUNCTION float hypot(float a, float b) {
  const float larger = fmaxf(fabsf(a), fabsf(b));
  const unsigned field = __float_as_uint(larger) & 0x7f800000u;
  const unsigned exponent = field < 0x01000000u ? 0x01000000u : field;
  const float scale = __uint_as_float(0x7f800000u - exponent);
  const float x = larger * scale;
  const float y = at_most(fabsf(a), fabsf(b)) * scale;  // NaN if one is
  const float square = x * x, sum = fmaf(y, y, square);
  const float lost = fmaf(x, x, -square) + fmaf(y, y, square - sum);
  const float rough = rough_inverse_root(fmaxf(sum, 0x1p-100f));
  const float root = sum * rough;
  const float value = fmaf(fmaf(-root, root, sum) + lost, 0.5f * rough, root);
  return larger == infinity ? larger : value * __uint_as_float(exponent - 0x00800000u);
}

// log(e^a + e^b) = max + log(1 + e^(min − max)) for finite a and b; the sum is double, since the
// terms may cancel. The absolute error is about 2⁻²⁶.
EXTENSOR_FUNCTION double log_add_exp(float a, float b) {
  const float larger = fmaxf(a, b), smaller = fminf(a, b);
  const float difference = smaller - larger, part = difference - smaller;
  const float lost = (smaller - (difference - part)) - (larger + part);
  const bool vanishes = difference < -110.0f;
  const ReducedExp power = reduce_exp(fmaxf(difference, -110.0f), vanishes ? 0.0f : lost);
  const float minus_one = vanishes ? -1.0f : power.minus_one;
  const double e = vanishes ? 0.0 : scale_double(1 + static_cast<double>(minus_one), power.n);
  const float narrow = (1 + minus_one) * power_of_two(power.n, extra_scale) * take_back;
  // The terms of a higher order are small enough for float.
  const float tail = polynomial(narrow, 0.19990303854f, -0.16594268094f, 0.13934139681f,
                                -0.11324915498f, 0.082960566147f, -0.049943245397f, 0.022164158306f,
                                -0.0062554321022f, 0.00082778396141f);
  const double q = polynomial(e, -0.49999999556869349, 0.33333302133393359, -0.24999227554342292,
                              static_cast<double>(tail));
  return static_cast<double>(larger) + multiply_add(e * e, q, e);
}

// The same in float, at most 1.9 ULP where the terms do not cancel: where max ≥ 0 or |sum| ≥ 1/2.
EXTENSOR_FUNCTION float quick_log_add_exp(float a, float b) {
  const float larger = fmaxf(a, b), smaller = fminf(a, b);
  const float difference = smaller - larger, part = difference - smaller;
  const float lost = (smaller - (difference - part)) - (larger + part);
  const ReducedExp power = reduce_exp(fmaxf(difference, -110.0f));
  const float factor = 1 + fmaf(1 + power.minus_one, lost, power.minus_one);
  const float bounded = difference < -110.0f ? 0.0f : factor;  // `lost` may be NaN
  const float e = bounded * power_of_two(power.n, extra_scale) * take_back;
  const float sum = larger + e, from_e = sum - larger;
  const float sum_lost = (larger - (sum - from_e)) + (e - from_e);
  return sum + add_log1p_tail(e, sum_lost);
}

// The remainder of floor division where the quotient is below 2²⁰; false if it is not.
EXTENSOR_FUNCTION bool small_floor_modulo(float a, float b, float& remainder) {
  float quotient = floorf(a * rough_reciprocal(b));
  if (!(fabsf(quotient) < 0x1p20f && fabsf(b) < 0x1p126f)) return false;
  // The quotient may be off by one in either direction; the remainder is exact where it is not.
  float rest = fmaf(-quotient, b, a);
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest = fmaf(-(quotient - 1), b, a);
  } else if (fabsf(rest) >= fabsf(b)) {
    const float next = fmaf(-(quotient + 1), b, a);
    if (next == 0 || (next < 0) == (b < 0)) rest = next;  // otherwise the sum a + b was rounded
  }
  remainder = rest == 0 ? copysignf(0.0f, b) : rest;
  return true;
}

#undef EXTENSOR_FUNCTION

}  // namespace extensor::backend::cuda::float_math
