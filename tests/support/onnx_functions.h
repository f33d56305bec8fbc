// One function for every op with a form in ONNX, for the tests of export and import.
#pragma once

#include <cmath>
#include <vector>

#include "support/onnx_cases.h"

namespace test_support {

struct OnnxFunctionCase {
  const char* name;
  OneTensor function;
};

using OnnxFunctionCases = std::vector<OnnxFunctionCase>;

// A function of every pair of zeros, ordinary and special values, which count as computed from x.
inline Tensor of_special_pairs(const Tensor& x, Tensor (*function)(const Tensor&, const Tensor&)) {
  const Tensor list = ext::tensor(
      {0.0, -0.0, 1.0, -1.0, 0.1, -0.7, 3.0, double{INFINITY}, -double{INFINITY}, double{NAN}});
  const Tensor values = list + x.slice(0, 0, 1).sum() * 0;
  return function(values.unsqueeze(1), values);
}

// Functions of a tensor [2, 3, 4].
inline const OnnxFunctionCases& onnx_functions() {
  using namespace extensor;
  using T = const Tensor&;
#define SAME(name)                     \
  {                                    \
#name, [](T x) { return name(x); } \
  }
#define PLUS(name, offset)                             \
  {                                                    \
#name, [](T x) { return name(abs(x) + (offset)); } \
  }
  static const OnnxFunctionCases list = {
      SAME(negative),
      SAME(abs),
      SAME(square),
      SAME(sign),
      PLUS(reciprocal, 0.5),
      {"rounded", [](T x) { return ceil(x * 3) + floor(x * 5) + round(x * 7) + trunc(x * 9); }},
      {"clip", [](T x) { return clip(x, -0.25, 0.5); }},
      SAME(exp),
      SAME(exp2),
      SAME(expm1),
      PLUS(log, 0.5),
      PLUS(log2, 0.5),
      PLUS(log10, 0.5),
      SAME(log1p),
      PLUS(sqrt, 0.5),
      PLUS(rsqrt, 0.5),
      SAME(cbrt),
      SAME(sin),
      SAME(cos),
      SAME(tan),
      SAME(asin),
      SAME(acos),
      SAME(atan),
      SAME(sinh),
      SAME(cosh),
      SAME(tanh),
      SAME(asinh),
      PLUS(acosh, 1.5),
      SAME(atanh),
      SAME(erf),
      SAME(normal_cdf),
      SAME(normal_pdf),
      SAME(relu),
      {"leaky_relu", [](T x) { return leaky_relu(x, 0.2); }},
      {"relu6", [](T x) { return relu6(x * 10); }},
      SAME(sigmoid),
      SAME(log_sigmoid),
      SAME(gelu),
      SAME(gelu_tanh),
      {"elu", [](T x) { return elu(x, 0.7); }},
      SAME(selu),
      SAME(silu),
      SAME(mish),
      {"softplus", [](T x) { return softplus(x, 2.0) + softplus(x); }},
      {"hard_sigmoid", [](T x) { return hard_sigmoid(x * 4); }},
      {"hard_swish", [](T x) { return hard_swish(x * 4); }},
      {"hard_tanh", [](T x) { return hard_tanh(x, -0.5, 0.25); }},
      {"numbers", [](T x) { return (2 - x) * 3 / (x * x + 1) + 1; }},
      {"floor_divide", [](T x) { return floor_divide(x * 10, 3); }},
      {"modulo", [](T x) { return modulo(x * 10, 3); }},
      {"floor_divide_fractions", [](T x) { return floor_divide(round(x * 10), 0.1); }},
      {"floor_divide_specials", [](T x) { return of_special_pairs(x, floor_divide); }},
      {"modulo_fractions", [](T x) { return modulo(round(x * 10), 0.1); }},
      {"modulo_specials", [](T x) { return of_special_pairs(x, modulo); }},
      {"modulo_zeros", [](T x) { return 1 / modulo(round(x * 4), 1); }},
      {"integers",
       [](T x) {
         const Tensor k = (x * 20).to(int64);
         return floor_divide(k, 3) * 100 + modulo(k, 4);
       }},
      {"power", [](T x) { return power(abs(x) + 0.5, 1.5); }},
      {"extremes", [](T x) { return maximum(x, 0.1) - minimum(x, x * x); }},
      {"hypot", [](T x) { return hypot(x, x + 1); }},
      {"hypot_large", [](T x) { return hypot(x * 1e30, (x + 1) * 1e30) / 1e30; }},
      {"hypot_small", [](T x) { return hypot(x * 1e-30, (x + 1) * 1e-30) * 1e30; }},
      {"hypot_specials", [](T x) { return of_special_pairs(x, hypot); }},
      {"logaddexp", [](T x) { return logaddexp(x, x * 2); }},
      {"logaddexp_specials", [](T x) { return of_special_pairs(x, logaddexp); }},
      {"prelu",
       [](T x) {
         return prelu(x, tensor({0.1, 0.2, 0.3, 0.4}));
       }},
      {"comparisons",
       [](T x) {
         const Tensor low = logical_or(less(x, -0.5), equal(x, x)), high = greater_equal(x, 0.5);
         return logical_xor(logical_and(low, not_equal(x, 0)), logical_not(high));
       }},
      {"specials", [](T x) { return logical_and(isfinite(x), logical_not(isnan(x / x))); }},
      {"where", [](T x) { return where(less_equal(x, 0), x, 2 * x); }},
      {"masked_fill", [](T x) { return masked_fill(x, greater(x, 0.3), -7); }},
      {"to", [](T x) { return (x * 50).to(int32).to(float32) + x.to(float64).to(float32); }},
      {"in_place",
       [](T x) {
         Tensor y = x * 2;
         y += x;
         y *= 3;
         return y;
       }},
      {"reshape",
       [](T x) {
         return x.reshape({4, -1}).reshape({2, 2, 6});
       }},
      {"transpose",
       [](T x) {
         return x.transpose({2, 0, 1}).transpose();
       }},
      {"axes", [](T x) { return x.unsqueeze(-1).unsqueeze(0).squeeze().unsqueeze(1); }},
      {"broadcast_to",
       [](T x) {
         return x.slice(1, 0, 1).broadcast_to({2, 5, 4});
       }},
      {"slices",
       [](T x) {
         return concatenate({x.slice(2, -3, -1), x.slice(2, 0, {}, 3)}, 2);
       }},
      {"slices_backwards",
       [](T x) {
         return concatenate({x.slice(2, -1, -9, -2), x.slice(2, 9, 0, -1), x.slice(2, -6, -5, -2),
                             x.slice(2, -6, {}, -1)},
                            2);
       }},
      {"index_view",
       [](T x) {
         return Tensor(x[{1, Slice{1, {}}, newaxis, Slice{{}, {}, 2}}]);
       }},
      {"last",
       [](T x) {
         return Tensor(x[{ellipsis, -1}]);
       }},
      {"index",
       [](T x) {
         return Tensor(x[{Slice{}, tensor({2, 0, 0, -1})}]);
       }},
      {"stack",
       [](T x) {
         return stack({x, x * 2}, 1);
       }},
      {"split",
       [](T x) {
         return split(x, 2, 2)[1] - split(x, {1, 3}, 2)[0];
       }},
      {"unstack", [](T x) { return unstack(x, 1)[2]; }},
      {"pad",
       [](T x) {
         return pad(x, {{0, 0}, {1, 2}, {0, 3}}, PadMode::constant, 9);
       }},
      {"reflect",
       [](T x) {
         return pad(x, {{0, 0}, {1, 2}, {0, 3}}, PadMode::reflect);
       }},
      {"edge",
       [](T x) {
         return pad(x, {{0, 0}, {1, 2}, {0, 3}}, PadMode::edge);
       }},
      {"tile",
       [](T x) {
         return tile(x, {2, 1, 1, 3});
       }},
      {"repeat", [](T x) { return repeat(x, 3, 1); }},
      {"roll", [](T x) { return roll(x, {1}, {2}); }},
      {"flip", [](T x) { return flip(x, {1}); }},
      {"take",
       [](T x) {
         return take(x, tensor({{2, 1}, {0, -1}}), 1);
       }},
      {"gather",
       [](T x) {
         return gather(x, 2, tensor({{{3, 0}}, {{1, 1}}}));
       }},
      {"take_along_axis",
       [](T x) {
         return take_along_axis(x, tensor({{{3, 0}}}), 2);
       }},
      {"scatter",
       [](T x) {
         return scatter(x, 2, tensor({{{3}}, {{1}}}), tensor({{{5.0}}, {{6.0}}}));
       }},
      {"scatter_add",
       [](T x) {
         return scatter_add(x, 2, tensor({{{3}}, {{1}}}), tensor({{{5.0}}, {{6.0}}}));
       }},
      {"embedding",
       [](T x) {
         return embedding(x[0], tensor({2, 0, 1}));
       }},
      {"sum",
       [](T x) {
         return sum(x, {0, 2}) + sum(x);
       }},
      {"mean", [](T x) { return mean(x, 1, true); }},
      {"max_reduce", [](T x) { return max_reduce(x, 2) - min_reduce(x, 2); }},
      {"prod",
       [](T x) {
         return prod(x, {1, 2});
       }},
      {"logsumexp", [](T x) { return logsumexp(x, -1); }},
      {"all_any", [](T x) { return logical_or(all(greater(x, 0), 2), any(greater(x, 0.9), 2)); }},
      {"count_nonzero", [](T x) { return count_nonzero(greater(x, 0), 1); }},
      {"argmax", [](T x) { return argmax(x, 1) + argmin(x); }},
      {"var",
       [](T x) {
         return var(x, {1, 2}, 1) + x.std({1}, 0).sum();
       }},
      {"norm", [](T x) { return norm(x, 2, 1) + norm(x, 1, 1) + norm(x, 3, 1); }},
      {"softmax", [](T x) { return softmax(x, 1) + log_softmax(x, -1); }},
      {"cumulative_sum", [](T x) { return cumulative_sum(x, 1); }},
      {"sort", [](T x) { return sort(x, 2, true) + sort(x, 1); }},
      {"argsort", [](T x) { return argsort(x, 2); }},
      {"topk", [](T x) { return topk(x, 2, 1).values; }},
      {"matmul", [](T x) { return matmul(x, matrix_transpose(x)); }},
      {"dot", [](T x) { return dot(x.reshape({24}), x.reshape({24})); }},
      {"linear",
       [](T x) {
         return linear(x, ones({5, 4}) * 0.5, arange(5, float32));
       }},
      {"glu", [](T x) { return glu(x, 2); }},
      {"einsum",
       [](T x) {
         return einsum("bij,bkj->bik", {x, x * 2});
       }},
      {"conv1d",
       [](T x) {
         return conv1d(x, values({4, 3, 2}), tensor({1.0, 2.0, 3.0, 4.0}), {.padding = 1});
       }},
      {"conv2d",
       [](T x) {
         return conv2d(x.reshape({2, 1, 3, 4}), values({2, 1, 2, 2}), {},
                       {.stride = {1, 2}, .padding = {1, 0}, .dilation = {1, 2}});
       }},
      {"conv3d",
       [](T x) {
         return conv3d(x.reshape({1, 1, 2, 3, 4}), values({2, 1, 2, 2, 2}), {});
       }},
      {"conv_transpose1d",
       [](T x) {
         return conv_transpose1d(x, values({3, 2, 3}), {}, {.stride = 2, .padding = 1});
       }},
      {"max_pool2d",
       [](T x) {
         return max_pool2d(x.reshape({1, 2, 3, 4}), 2, {.padding = 1, .ceil_mode = true});
       }},
      {"max_pool2d_gaps",
       [](T x) {
         return max_pool2d(
             x.reshape({1, 2, 3, 4}), 3,
             {.stride = Size2d{1, 4}, .padding = {0, 1}, .dilation = {1, 2}, .ceil_mode = true});
       }},
      {"max_pool1d", [](T x) { return max_pool1d(x, 3, {.stride = 1}); }},
      {"avg_pool2d",
       [](T x) {
         return avg_pool2d(x.reshape({1, 2, 3, 4}), 2, {.stride = 1, .padding = 1});
       }},
      {"avg_pool2d_inside",
       [](T x) {
         return avg_pool2d(x.reshape({1, 2, 3, 4}), 2,
                           {.padding = 1, .ceil_mode = true, .count_include_pad = false});
       }},
      {"adaptive_avg_pool2d",
       [](T x) {
         const Tensor images = x.reshape({1, 2, 3, 4});
         return adaptive_avg_pool2d(images, 1) + adaptive_avg_pool2d(images, {3, 2}).sum() +
                adaptive_avg_pool2d(images, {2, 3}).sum();
       }},
      {"layer_norm",
       [](T x) {
         return layer_norm(x, {3, 4}) + layer_norm(x, {4});
       }},
      {"rms_norm",
       [](T x) {
         return rms_norm(x, {4}, tensor({1.0, 2.0, 3.0, 4.0}));
       }},
      {"add_norms",
       [](T x) {
         const auto a = add_layer_norm(x, x * 2, {4});
         const auto b = add_rms_norm(a.sum, a.output, {4});
         return a.output + b.output * b.sum;
       }},
      {"group_norm",
       [](T x) {
         return group_norm(x.reshape({2, 4, 3}), 2);
       }},
      {"instance_norm", [](T x) { return instance_norm(x); }},
      {"attention", [](T x) { return scaled_dot_product_attention(x, x * 2, x + 1); }},
      {"attention_causal",
       [](T x) { return scaled_dot_product_attention(x, x, x, {}, true, 0.7); }},
      {"attention_mask",
       [](T x) {
         const Tensor mask =
             tensor({{true, false, true}, {false, false, false}, {false, true, false}});
         return scaled_dot_product_attention(x, x, x, mask) +
                scaled_dot_product_attention(x, x, x, values({3, 3}));
       }},
      {"attention_grouped",
       [](T x) {
         const Tensor q = x.reshape({1, 2, 3, 4}), k = q.slice(1, 0, 1);
         return scaled_dot_product_attention(q, k, k, {.enable_gqa = true});
       }},
      {"nearest",
       [](T x) {
         return interpolate(x.unsqueeze(0), {.size = Size2d{5, 7}});
       }},
      {"nearest_exact",
       [](T x) {
         return interpolate(x.unsqueeze(0),
                            {.scale_factor = 2, .mode = InterpolateMode::nearest_exact});
       }},
      {"bilinear",
       [](T x) {
         return interpolate(x.unsqueeze(0),
                            {.size = Size2d{5, 7}, .mode = InterpolateMode::bilinear});
       }},
      {"bilinear_corners",
       [](T x) {
         return interpolate(
             x.unsqueeze(0),
             {.size = Size2d{5, 7}, .mode = InterpolateMode::bilinear, .align_corners = true});
       }},
      {"scales",
       [](T x) {
         const Tensor images = tile(x.unsqueeze(0), {1, 1, 11, 25});  // 33 · 100 pixels
         return interpolate(images, {.scale_factor = Scale2d(1.0 / 33, 2.3),
                                     .mode = InterpolateMode::bilinear}) +
                interpolate(images,
                            {.scale_factor = Scale2d(0.7, 0.9), .mode = InterpolateMode::bicubic})
                    .sum();
       }},
      {"bicubic",
       [](T x) {
         return interpolate(x.unsqueeze(0), {.scale_factor = 2, .mode = InterpolateMode::bicubic});
       }},
      {"constants",
       [](T x) {
         return x + arange(4, float32) * tril(ones({4, 4}))[2];
       }},
      {"detach", [](T x) { return (x * 2).detach() + x; }},
  };
#undef SAME
#undef PLUS
  return list;
}

}  // namespace test_support
