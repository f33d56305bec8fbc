// Rows of the op tables for bfloat16, whose 8 bits need less than the functions of float: the
// results of functions of one number are correctly rounded for all 65,536 (a test compares them).
#pragma once

#include "backend/cuda/elementwise_rows.cuh"
#include "backend/cuda/float_math.cuh"

namespace extensor::backend::cuda::bfloat16_math {

#define EXTENSOR_FUNCTION __device__ __forceinline__

// With subnormal numbers.
EXTENSOR_FUNCTION float reciprocal(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
EXTENSOR_FUNCTION float rsqrt(float x) {
  float y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
EXTENSOR_FUNCTION float sqrt(float x) {
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
EXTENSOR_FUNCTION float divide(float a, float b) {
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
EXTENSOR_FUNCTION float rough_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

EXTENSOR_FUNCTION float exp(float x) { return ::expf(x); }
EXTENSOR_FUNCTION float exp2(float x) { return ::exp2f(x); }
EXTENSOR_FUNCTION float erfinv(float x) { return ::erfinvf(x); }
EXTENSOR_FUNCTION float expm1_of_negative(float x) {
  const float small =
      fmaf(x * x,
           float_math::polynomial(x, 0.50000009714f, 0.16666722565f, 0.041657231094f,
                                  0.0082512593369f, 0.0011721795588f),
           x);
  return x > -0.5f ? small : ::expf(x) - 1;
}
EXTENSOR_FUNCTION float cosh(float x) {  // e^(|x| − 2) does not overflow where the result is finite
  const float half = ::expf(fabsf(x) - 2) * 3.69452804946532511f;
  return fmaf(0.25f, float_math::rough_reciprocal(half), half);
}
EXTENSOR_FUNCTION float sinh(float x) {
  const float magnitude = fabsf(x), z = x * x;
  const float small =
      fmaf(magnitude * z, float_math::polynomial(z, 0.166666672f, 0.00833312143f, 0.0001999284f),
           magnitude);
  const float half = ::expf(magnitude - 2) * 3.69452804946532511f;
  const float large = fmaf(-0.25f, float_math::rough_reciprocal(half), half);
  return copysignf(magnitude < 0.6f ? small : large, x);
}
EXTENSOR_FUNCTION float tanh(float x) {
  const float magnitude = float_math::at_most(fabsf(x), 10.0f), z = x * x;
  const float small = fmaf(magnitude * z,
                           float_math::polynomial(z, -0.333332993f, 0.133319583f, -0.0537866862f,
                                                  0.0208053936f, -0.00590587763f),
                           magnitude);
  const float e = rough_exp2(magnitude * 2.88539008f);
  const float large = fmaf(-2.0f, float_math::rough_reciprocal(e + 1), 1.0f);
  return copysignf(magnitude < 0.6f ? small : large, x);
}
EXTENSOR_FUNCTION float sigmoid(float x) {
  const float e = ::expf(-fabsf(x)), right = float_math::rough_reciprocal(1 + e);
  return x < 0 ? e * right : right;
}
EXTENSOR_FUNCTION float silu(float x) { return float_math::at_least(x, -120.0f) * sigmoid(x); }
// Rounded to odd, so that the rounding to bfloat16 is that of the exact product.
EXTENSOR_FUNCTION float product_to_odd(float a, float b) {
  float product = __fmul_rz(a, b);
  bool inexact = fabsf(fmaf(a, b, -product)) > 0;
  if (fabsf(product) < 0x1p-100f && a != 0) {  // the difference may be too small for float
    const double exact = static_cast<double>(a) * static_cast<double>(b);
    product = __double2float_rz(exact);
    inexact = static_cast<double>(product) != exact;
  }
  return inexact ? __int_as_float(__float_as_int(product) | 1) : product;
}
EXTENSOR_FUNCTION float leaky_relu(float x, float alpha) {
  return x > 0 ? x : product_to_odd(x, alpha);
}
EXTENSOR_FUNCTION float elu(float x) { return x < 0 ? expm1_of_negative(x) : x; }  // keeps −0
EXTENSOR_FUNCTION float selu(float x) {
  return x < 0 ? expm1_of_negative(x) * 1.75809934084738f : x * 1.05070098735548f;
}
// x / 6, exact if it is a float.
EXTENSOR_FUNCTION float sixth(float x) {
  const float rough = x * 0.166666672f;
  return fmaf(fmaf(-6.0f, rough, x), 0.166666672f, rough);
}
EXTENSOR_FUNCTION float hard_sigmoid(float x) {
  return sixth(float_math::at_most(float_math::at_least(x, -3.0f), 3.0f) + 3);
}
EXTENSOR_FUNCTION float hard_swish(float x) {
  const float inside = x == 0 ? x : sixth(x * (x + 3));  // keeps −0
  return x <= -3 ? 0.0f : x >= 3 ? x : inside;
}

EXTENSOR_FUNCTION float hypot(float a, float b) {
  const float larger = fmaxf(fabsf(a), fabsf(b)), smaller = float_math::at_most(fabsf(a), fabsf(b));
  const unsigned exponent = max(__float_as_uint(larger) & 0x7f800000u, 0x01000000u);
  const float scale = __uint_as_float(0x7f800000u - exponent);
  const float x = larger * scale, y = smaller * scale;
  const float root = sqrt(fmaf(x, x, y * y));
  return larger == float_math::infinity ? larger : root * __uint_as_float(exponent - 0x00800000u);
}
EXTENSOR_FUNCTION float atan2(float y, float x) {
  const float height = fabsf(y), width = fabsf(x);
  const float larger = float_math::at_least(height, width), smaller = fminf(height, width);
  const float ratio = smaller == larger ? (larger == 0 ? 0.0f : 1.0f) : divide(smaller, larger);
  const float z = ratio * ratio;
  float angle = fmaf(ratio * z,
                     float_math::polynomial(z, -0.333288428f, 0.199028553f, -0.135675454f,
                                            0.0853030436f, -0.0382184420f, 0.00824954446f),
                     ratio);
  if (height > width) angle = 1.57079637f - angle;
  if (__float_as_int(x) < 0) angle = 3.14159274f - angle;
  return copysignf(angle, y);
}
// Zeros, which are common among rounded numbers, do not take the slow path.
EXTENSOR_FUNCTION float power(float a, float b) {
  const bool zero = __float_as_int(a) == 0 && b > 0;
  const float value = float_math::power(zero ? 1.0f : a, b);
  return zero ? 0.0f : value;
}
EXTENSOR_FUNCTION float logaddexp(float a, float b) {
  const float larger = float_math::at_least(a, b);
  float e, log;  // e may be subnormal
  asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"((fminf(a, b) - larger) * 1.44269502f));
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log) : "f"(1 + e));
  const float series = e * float_math::polynomial(e, 1.0f, -0.5f, 0.333333343f, -0.25f, 0.2f);
  const float value = larger + (e < 0.0625f ? series : log * 0.693147182f);
  if (larger < 0 && fabsf(value) < 0.03125f) {  // the terms cancel
    return static_cast<float>(float_math::log_add_exp(a, b));
  }
  return a == b ? a + 0.693147182f : value;
}

#undef EXTENSOR_FUNCTION

}  // namespace extensor::backend::cuda::bfloat16_math

// The same as rows.
namespace extensor::backend::cuda::bfloat16_rows {

#define EXTENSOR_BFLOAT16_FUNCTIONS(ROW) \
  ROW(reciprocal)                        \
  ROW(rsqrt)                             \
  ROW(sqrt)                              \
  ROW(exp)                               \
  ROW(exp2)                              \
  ROW(erfinv)                            \
  ROW(sinh)                              \
  ROW(cosh)                              \
  ROW(tanh)                              \
  ROW(sigmoid)                           \
  ROW(silu)                              \
  ROW(leaky_relu)                        \
  ROW(elu)                               \
  ROW(selu)                              \
  ROW(hard_sigmoid)                      \
  ROW(hard_swish)

#define EXTENSOR_ROW(name, ARGUMENTS, ...)                                                  \
  template <class V>                                                                        \
  struct name##_row {                                                                       \
    static __device__ __forceinline__ V apply([[maybe_unused]] const Parameter* parameters, \
                                              ARGUMENTS) {                                  \
      return typename V::Vector{bfloat16_math::name(__VA_ARGS__)};                          \
    }                                                                                       \
  };
#define EXTENSOR_FUNCTION_ROW(name) EXTENSOR_ROW(name, V x, x.v.raw)
#define EXTENSOR_BINARY_ROW(name) EXTENSOR_ROW(name, V a EXTENSOR_COMMA V b, a.v.raw, b.v.raw)
EXTENSOR_FUNCTION_ROW(reciprocal)
EXTENSOR_FUNCTION_ROW(rsqrt)
EXTENSOR_FUNCTION_ROW(sqrt)
EXTENSOR_FUNCTION_ROW(exp)
EXTENSOR_FUNCTION_ROW(exp2)
EXTENSOR_FUNCTION_ROW(erfinv)
EXTENSOR_FUNCTION_ROW(sinh)
EXTENSOR_FUNCTION_ROW(cosh)
EXTENSOR_FUNCTION_ROW(tanh)
EXTENSOR_FUNCTION_ROW(sigmoid)
EXTENSOR_FUNCTION_ROW(silu)
EXTENSOR_ROW(leaky_relu, V x, x.v.raw, static_cast<float>(parameters[0].real))
EXTENSOR_FUNCTION_ROW(elu)
EXTENSOR_FUNCTION_ROW(selu)
EXTENSOR_FUNCTION_ROW(hard_sigmoid)
EXTENSOR_FUNCTION_ROW(hard_swish)
EXTENSOR_BINARY_ROW(divide)
EXTENSOR_BINARY_ROW(atan2)
EXTENSOR_BINARY_ROW(hypot)
EXTENSOR_BINARY_ROW(power)
EXTENSOR_BINARY_ROW(logaddexp)
#undef EXTENSOR_FUNCTION_ROW
#undef EXTENSOR_BINARY_ROW
#undef EXTENSOR_ROW

}  // namespace extensor::backend::cuda::bfloat16_rows
