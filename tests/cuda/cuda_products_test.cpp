// Products, attention, convolutions and recurrent layers of sizes that reach cuBLASLt and cuDNN,
// which the small samples of the op database do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "cuda/cuda_test.h"

namespace extensor {
namespace {

using cuda_test::CudaTest;
using cuda_test::device;
using cuda_test::same_bits;

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

class CudaProducts : public CudaTest {};

constexpr DType all_floats[] = {float16, bfloat16, float32, float64};

// The error that is allowed, as a fraction of the largest element.
double bound_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 1e-3;
    case DType::bfloat16:
      return 8e-3;
    case DType::float32:
      return 3e-6;
    default:
      return 1e-13;
  }
}

double largest(const Tensor& x) {
  double result = 0;
  for (const double value : x.detach().to(cpu_device, float64).to_vector<double>()) {
    if (!(std::fabs(value) <= result)) result = std::fabs(value);  // keeps NaN
  }
  return result;
}

// Computes f on the device, twice, and compares it with f on the CPU in float64. `slack` multiplies
// the error that is allowed.
void compare(const std::string& what, DType dtype, const std::vector<Shape>& shapes,
             const Function& f, double slack = 1) {
  Generator generator(7);
  Tensors exact_inputs, inputs;
  for (const Shape& shape : shapes) {
    const Tensor drawn = randn(shape, float64, generator).to(dtype);
    exact_inputs.push_back(drawn.to(float64));
    inputs.push_back(drawn.to(device));
  }
  const Tensors exact = f(exact_inputs), got = f(inputs), again = f(inputs);
  ASSERT_EQ(exact.size(), got.size()) << what;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    const std::string name = what + " " + extensor::name(dtype) + ", result " + std::to_string(k);
    ASSERT_TRUE(exact[k].shape() == got[k].shape()) << name;
    EXPECT_EQ(got[k].device(), device) << name;
    EXPECT_TRUE(same_bits(got[k], again[k])) << name << " differs from run to run";
    const Tensor found = got[k].detach().to(cpu_device, float64);
    const double error = largest(found - exact[k].detach()), scale = largest(exact[k]);
    EXPECT_LE(error, bound_of(dtype) * slack * scale) << name << ", largest element " << scale;
  }
}

// ---- matmul and linear

TEST_F(CudaProducts, OfMatrices) {
  struct Sizes {
    std::int64_t m, n, k;
  };
  for (const DType dtype : all_floats) {
    for (const auto [m, n, k] : {Sizes{200, 300, 500}, Sizes{1, 1000, 700}, Sizes{1000, 1, 700},
                                 Sizes{129, 65, 257}, Sizes{7, 9, 5000}, Sizes{512, 512, 512}}) {
      const std::string what =
          "product " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
      compare(what, dtype, {{m, k}, {k, n}},
              [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; });
      compare(what + " transposed", dtype, {{k, m}, {n, k}}, [](const Tensors& in) {
        return Tensors{matmul(in[0].transpose(), in[1].transpose())};
      });
    }
  }
}

TEST_F(CudaProducts, OfStridedMatrices) {
  for (const DType dtype : all_floats) {
    compare("every second column", dtype, {{100, 400}, {200, 90}},
            [](const Tensors& in) { return Tensors{matmul(in[0].slice(1, 0, 400, 2), in[1])}; });
    compare("every second row", dtype, {{200, 300}, {300, 90}},
            [](const Tensors& in) { return Tensors{matmul(in[0].slice(0, 0, 200, 2), in[1])}; });
    compare("one row for all", dtype, {{1, 300}, {300, 90}}, [](const Tensors& in) {
      return Tensors{matmul(in[0].broadcast_to({150, 300}), in[1])};
    });
    compare("a part that is not aligned", dtype, {{120, 301}, {303, 93}}, [](const Tensors& in) {
      return Tensors{matmul(in[0].slice(1, 1), in[1].slice(0, 3).slice(1, 1, 92))};
    });
  }
}

// In every element the error of an exact product is a fraction of the sum of the absolute terms
// that float32 allows, and that of TF32 one that operands of 11 bits allow.
TEST_F(CudaProducts, UseTF32InItsScopeOnly) {
  const Tensor a = randn({300, 512}), b = randn({512, 400}), g = randn({300, 400});
  const Tensor x = a.to(device), y = b.to(device), far_g = g.to(device);
  constexpr double exact = 0x1p-19, rounded = 0x1.04p-10;
  const auto error = [](const Tensor& got, const Tensor& left, const Tensor& right) {
    const Tensor l = left.to(float64), r = right.to(float64);
    const Tensor off = abs(got.detach().to(cpu_device, float64) - matmul(l, r));
    return max(off / matmul(abs(l), abs(r))).item<double>();
  };
  EXPECT_FALSE(is_tf32_allowed());
  const Tensor plain = matmul(x, y);
  EXPECT_LT(error(plain, a, b), exact);
  Tensor leaf = x.detach().requires_grad_(), recorded;
  {
    const AllowTF32 fast;
    EXPECT_TRUE(is_tf32_allowed());
    const double of_fast = error(matmul(x, y), a, b);
    EXPECT_GT(of_fast, exact);
    EXPECT_LT(of_fast, rounded);
    {
      const AllowTF32 off(false);
      EXPECT_TRUE(same_bits(matmul(x, y), plain));
    }
    recorded = matmul(leaf, y);
    // Other dtypes are not affected.
    EXPECT_LT(error(matmul(x.to(float64), y.to(float64)), a, b), 1e-14);
    EXPECT_TRUE(same_bits(matmul(a, b), [&] {
      const AllowTF32 off(false);
      return matmul(a, b);
    }()));
  }
  EXPECT_FALSE(is_tf32_allowed());
  EXPECT_TRUE(same_bits(matmul(x, y), plain));
  // A gradient follows its forward.
  const Tensor of_fast = grad(recorded, {leaf}, {.grad_outputs = {far_g}})[0];
  EXPECT_GT(error(of_fast, g, b.transpose()), exact);
  EXPECT_LT(error(of_fast, g, b.transpose()), rounded);
  recorded = matmul(leaf, y);
  const AllowTF32 fast;
  EXPECT_LT(error(grad(recorded, {leaf}, {.grad_outputs = {far_g}})[0], g, b.transpose()), exact);
}

TEST_F(CudaProducts, OfBatches) {
  for (const DType dtype : all_floats) {
    compare("batch", dtype, {{6, 70, 90}, {6, 90, 80}},
            [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; });
    compare("one b", dtype, {{4, 5, 70, 90}, {90, 80}},
            [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; });
    compare("one a", dtype, {{70, 90}, {6, 90, 80}},
            [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; });
    compare("broadcast both ways", dtype, {{3, 1, 70, 90}, {4, 90, 80}},
            [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; });
    compare("heads", dtype, {{3, 70, 4, 64}, {3, 70, 4, 64}}, [](const Tensors& in) {
      return Tensors{matmul(in[0].transpose({0, 2, 1, 3}), in[1].transpose({0, 2, 3, 1}))};
    });
    compare("levels that do not merge", dtype, {{2, 3, 4, 40, 50}, {4, 3, 2, 50, 40}},
            [](const Tensors& in) {
              return Tensors{matmul(in[0], in[1].transpose({2, 1, 0, 3, 4}))};
            });
  }
}

// The factor, which is exact, keeps the sums near 1: errors are compared with the largest result,
// and that of a sigmoid or tanh is 1 for larger sums, too.
TEST_F(CudaProducts, WithBiasAndActivation) {
  for (const DType dtype : all_floats) {
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::sigmoid, Activation::tanh,
          Activation::gelu, Activation::silu, Activation::gelu_tanh}) {
      for (const std::int64_t out : {300, 301}) {
        compare("linear " + std::to_string(out) + " with activation " +
                    std::to_string(static_cast<int>(activation)),
                dtype, {{210, 120}, {out, 120}, {out}}, [=](const Tensors& in) {
                  return Tensors{linear(in[0] * 0.0625, in[1], in[2], activation)};
                });
      }
    }
  }
}

TEST_F(CudaProducts, KeepNaN) {
  const Tensor x = full({100, 200}, std::nan(""), device), w = ones({300, 200}, device);
  for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
    for (const float value : linear(x, w, ones({300}, device), activation).to_vector<float>()) {
      ASSERT_TRUE(std::isnan(value));
    }
  }
}

TEST_F(CudaProducts, OfIntegersAreExact) {
  for (int number = 0; number < dtype_count; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (is_floating_point(dtype)) continue;
    Generator generator(3);
    const Tensor a = randint(0, 100, {75, 130}, int64, generator).to(dtype);
    const Tensor b = randint(0, 100, {130, 81}, int64, generator).to(dtype);
    EXPECT_TRUE(same_bits(matmul(a.to(device), b.to(device)), matmul(a, b))) << name(dtype);
  }
}

// ---- attention

Tensors attend(const Tensors& in, const Tensor& mask, bool causal) {
  const AttentionResult result =
      scaled_dot_product_attention_with_logsumexp(in[0], in[1], in[2], mask, causal);
  const AttentionGradients gradients =
      scaled_dot_product_attention_backward(in[3], in[0], in[1], in[2], mask, causal, {}, result);
  return {result.output, result.logsumexp, gradients.q, gradients.k, gradients.v};
}

TEST_F(CudaProducts, OfAttention) {
  for (const DType dtype : all_floats) {
    // Long sequences of halves round the probabilities.
    const double slack = is_half(dtype) ? 3 : 1;
    for (const bool causal : {false, true}) {
      for (const std::int64_t width : {64, 40, 128, 20}) {
        const Shape shape{2, 3, 160, width};
        compare(
            "attention of width " + std::to_string(width), dtype, {shape, shape, shape, shape},
            [&](const Tensors& in) { return attend(in, {}, causal); }, slack);
      }
      compare(
          "more keys than queries", dtype,
          {{2, 3, 96, 64}, {2, 3, 200, 64}, {2, 3, 200, 32}, {2, 3, 96, 32}},
          [&](const Tensors& in) { return attend(in, {}, causal); }, slack);
      compare(
          "more queries than keys", dtype,
          {{2, 3, 200, 64}, {2, 3, 96, 64}, {2, 3, 96, 64}, {2, 3, 200, 64}},
          [&](const Tensors& in) { return attend(in, {}, causal); }, slack);
      compare(
          "bool mask", dtype, {{2, 96, 64}, {2, 96, 64}, {2, 96, 64}, {2, 96, 64}, {96, 96}},
          [&](const Tensors& in) { return attend(in, greater(in[4], -1), causal); }, slack);
      compare(
          "packed attention", dtype, {{2, 160, 3 * 3 * 64}, {2, 160, 3 * 64}},
          [&](const Tensors& in) {
            return Tensors{
                scaled_dot_product_attention_packed(in[0], 3, {}, causal),
                scaled_dot_product_attention_packed_backward(in[1], in[0], 3, {}, causal).qkv};
          },
          slack);
    }
  }
}

// ---- convolution and pooling

TEST_F(CudaProducts, OfConvolutions) {
  struct Case {
    const char* name;
    Shape x, weight;
    Conv2dOptions options;
  };
  const Case cases[] = {
      {"3x3", {4, 32, 28, 28}, {48, 32, 3, 3}, {.padding = 1}},
      {"3x3 at stride 2", {4, 32, 29, 28}, {48, 32, 3, 3}, {.stride = 2, .padding = 1}},
      {"1x1", {4, 64, 14, 14}, {96, 64, 1, 1}, {}},
      {"1x1 at stride 2", {8, 64, 28, 28}, {128, 64, 1, 1}, {.stride = 2}},
      {"7x7 of three channels", {4, 3, 64, 64}, {64, 3, 7, 7}, {.stride = 2, .padding = 3}},
      {"5x3, dilated", {2, 16, 40, 33}, {24, 16, 5, 3}, {.padding = {4, 1}, .dilation = {2, 1}}},
      {"groups", {4, 64, 20, 20}, {96, 16, 3, 3}, {.padding = 1, .groups = 4}},
      {"depthwise", {4, 64, 20, 20}, {64, 1, 3, 3}, {.padding = 1, .groups = 64}},
      {"odd channels", {3, 13, 30, 30}, {37, 13, 3, 3}, {}},
  };
  for (const DType dtype : all_floats) {
    for (const Case& c : cases) {
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        const std::string what =
            std::string(c.name) +
            (format == MemoryFormat::channels_last ? " of channels_last images" : "");
        compare(
            what, dtype, {c.x, c.weight, {c.weight[0]}},
            [&](const Tensors& in) {
              const Tensor x = in[0].to(format);
              const Tensor y = conv2d(x, in[1], in[2], c.options);
              const ConvolutionGradients gradients = conv2d_backward(y, x, in[1], c.options);
              // The gradients are those of Σ y²/2, without the rounding of y.
              return Tensors{y, conv2d(x, in[1], {}, c.options), gradients.x, gradients.weight,
                             gradients.bias};
            },
            is_half(dtype) ? 2 : 1);
      }
    }
    compare("transposed", dtype, {{4, 32, 14, 14}, {32, 24, 3, 3}, {24}}, [](const Tensors& in) {
      return Tensors{conv_transpose2d(in[0], in[1], in[2], {.stride = 2, .padding = 1})};
    });
  }
}

TEST_F(CudaProducts, OfPooling) {
  for (const DType dtype : all_floats) {
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      compare("pooling", dtype, {{4, 24, 45, 40}}, [&](const Tensors& in) {
        const Tensor x = in[0].to(format);
        const MaxPool2dOptions most{.stride = 2, .padding = 1};
        const AvgPool2dOptions mean{.stride = 2, .padding = 1, .count_include_pad = false};
        const Tensor largest = max_pool2d(x, 3, most), average = avg_pool2d(x, 3, mean);
        const Tensor adaptive = adaptive_avg_pool2d(x, {7, 9});
        return Tensors{
            largest,
            average,
            adaptive,
            max_pool2d_backward(largest, x, 3, most),
            avg_pool2d_backward(in[0].slice(2, 0, average.size(2)).slice(3, 0, average.size(3)),
                                x.shape(), 3, mean),
            adaptive_avg_pool2d_backward(in[0].slice(2, 0, 7).slice(3, 0, 9), x.shape())};
      });
    }
  }
}

// ---- recurrent layers

TEST_F(CudaProducts, OfRecurrentLayers) {
  const std::int64_t steps = 9, batch = 33, in_width = 70, hidden = 129;
  for (const DType dtype : all_floats) {
    for (const bool reverse : {false, true}) {
      const auto shapes = [&](std::int64_t gates) {
        return std::vector<Shape>{{steps, batch, in_width}, {gates * hidden, in_width},
                                  {gates * hidden, hidden}, {gates * hidden},
                                  {gates * hidden},         {batch, hidden},
                                  {batch, hidden},          {steps, batch, hidden}};
      };
      const auto weights = [](const Tensors& in) {
        return RecurrentWeights{in[1] * 0.1, in[2] * 0.1, in[3], in[4]};
      };
      const auto results = [](const RecurrentResult& r, const RecurrentGradients& g) {
        Tensors all{
            r.output,          r.hidden,          g.x,     g.weights.weight_ih, g.weights.weight_hh,
            g.weights.bias_ih, g.weights.bias_hh, g.hidden};
        if (r.cell.defined()) all.insert(all.end(), {r.cell, g.cell});
        return all;
      };
      // Weights are rounded after they are scaled, and errors grow from step to step.
      const double slack = is_half(dtype) ? 8 : 4;
      compare(
          "lstm", dtype, shapes(4),
          [&](const Tensors& in) {
            const RecurrentWeights w = weights(in);
            return results(lstm_layer(in[0], w, in[5], in[6], reverse),
                           lstm_layer_backward({in[7]}, in[0], w, in[5], in[6], reverse));
          },
          slack);
      compare(
          "gru", dtype, shapes(3),
          [&](const Tensors& in) {
            const RecurrentWeights w = weights(in);
            return results(gru_layer(in[0], w, in[5], reverse),
                           gru_layer_backward({in[7]}, in[0], w, in[5], reverse));
          },
          slack);
      compare(
          "rnn", dtype, shapes(1),
          [&](const Tensors& in) {
            const RecurrentWeights w = weights(in);
            const auto tanh = RecurrentActivation::tanh;
            return results(rnn_layer(in[0], w, in[5], tanh, reverse),
                           rnn_layer_backward({in[7]}, in[0], w, in[5], tanh, reverse));
          },
          slack);
    }
  }
}

}  // namespace
}  // namespace extensor
