// Rows, lists and tables of the sizes at which the kernels change their method: rows in a warp, in
// a block, longer than its registers, shared by several blocks; aligned or not. The samples of the
// op database are smaller. Results are compared with those of the CPU in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "cuda/cuda_test.h"

namespace extensor {
namespace {

using cuda_test::CudaTest;
using cuda_test::device;
using cuda_test::same_bits;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

class CudaSizes : public CudaTest {};

constexpr DType floats[] = {float32, float64, bfloat16, float16};

double tolerance(DType dtype) {
  return dtype == float64 ? 1e-12 : dtype == float32 ? 2e-6 : dtype == float16 ? 2e-3 : 1.6e-2;
}

// Fixed numbers from −2 to 2, already rounded to the dtype.
Tensor numbers(const Shape& shape, DType dtype, std::uint64_t seed = 1) {
  Generator generator(seed);
  return multiply(subtract(rand(shape, {.dtype = float64}, generator), 0.5), 4.0).to(dtype);
}

Tensors each(const Tensors& tensors, const std::function<Tensor(const Tensor&)>& change) {
  Tensors result;
  for (const Tensor& x : tensors) {
    result.push_back(x.defined() && is_floating_point(x.dtype()) ? change(x) : x);
  }
  return result;
}

// Calls the function on the device, and on the CPU in float64.
void expect_close(const char* what, const Tensors& inputs, const Function& function, DType dtype) {
  Tensors far;
  for (const Tensor& x : inputs) far.push_back(x.defined() ? x.to(device) : x);
  const Tensors wide = each(inputs, [](const Tensor& x) { return x.to(float64); });
  const Tensors got = function(far), exact = function(wide);
  ASSERT_EQ(got.size(), exact.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    const Tensor here = got[k].to(cpu_device).to(float64), there = exact[k].to(float64);
    ASSERT_EQ(here.shape(), there.shape()) << what << ": result " << k;
    if (here.numel() == 0) continue;
    const double largest = max(abs(there)).item<double>();
    const double error = max(abs(subtract(here, there))).item<double>();
    EXPECT_LE(error, tolerance(dtype) * (largest + (dtype == float64 ? 1 : 1e-3)))
        << what << ": result " << k << " of " << there.shape() << " " << name(dtype);
  }
}

TEST_F(CudaSizes, SoftmaxOfEveryLength) {
  for (const DType dtype : floats) {
    for (const std::int64_t length :
         {1, 7, 32, 100, 500, 513, 1000, 4096, 5000, 16384, 20000, 40001, 300000}) {
      const Shape shape{length > 30000 ? 2 : 5, length};
      const Function function = [](const Tensors& x) -> Tensors {
        const Tensor y = softmax(x[0]), z = log_softmax(x[0]);
        return {y, z, logsumexp(x[0], {1}), softmax_backward(x[1], y),
                log_softmax_backward(x[1], z)};
      };
      expect_close("last axis", {numbers(shape, dtype), numbers(shape, dtype, 2)}, function, dtype);
    }
    for (const Shape& shape : {Shape{3, 5, 2}, Shape{2, 700, 37}, Shape{1, 3000, 3}}) {
      const Function function = [](const Tensors& x) -> Tensors {
        const Tensor y = softmax(x[0], 1);
        return {y, softmax_backward(x[1], y, 1)};
      };
      expect_close("middle axis", {numbers(shape, dtype), numbers(shape, dtype, 2)}, function,
                   dtype);
    }
  }
}

TEST_F(CudaSizes, NormsOfEveryLength) {
  for (const DType dtype : floats) {
    const DType wide = dtype == float64 ? float64 : float32;
    for (const std::int64_t length : {3, 64, 257, 768, 1024, 4096, 5001, 9000, 40000}) {
      const Shape shape{length > 8000 ? 3 : 300, length};
      const Tensors inputs{numbers(shape, dtype), numbers(shape, dtype, 2),
                           numbers({length}, wide, 3), numbers({length}, wide, 4)};
      const Function function = [length](const Tensors& x) -> Tensors {
        const NormGradients g = layer_norm_backward(x[1], x[0], {length}, x[2], x[3]);
        return {layer_norm(x[0], {length}, x[2], x[3]), g.x, g.weight, g.bias};
      };
      expect_close("layer norm", inputs, function, dtype);
      const Function rms = [length](const Tensors& x) -> Tensors {
        const auto [of_x, of_weight] = rms_norm_backward(x[1], x[0], {length}, x[2], 1e-5);
        return {rms_norm(x[0], {length}, x[2], 1e-5), of_x, of_weight};
      };
      expect_close("rms norm", inputs, rms, dtype);
    }
    for (const Shape& shape : {Shape{4, 6, 8, 8}, Shape{2, 64, 33, 31}, Shape{300, 8}}) {
      const std::int64_t channels = shape[1];
      const Tensors inputs{numbers(shape, dtype), numbers(shape, dtype, 2),
                           numbers({channels}, wide, 3), numbers({channels}, wide, 4)};
      const Function groups = [](const Tensors& x) -> Tensors {
        const NormGradients g = group_norm_backward(x[1], x[0], 2, x[2], x[3]);
        return {group_norm(x[0], 2, x[2], x[3]), g.x, g.weight, g.bias};
      };
      expect_close("group norm", inputs, groups, dtype);
    }
  }
}

TEST_F(CudaSizes, BatchNormOfBothLayouts) {
  for (const DType dtype : floats) {
    const DType wide = dtype == float64 ? float64 : float32;
    for (const Shape& shape : {Shape{2, 3, 5, 5}, Shape{16, 64, 28, 28}, Shape{8, 24, 33, 31},
                               Shape{5000, 40}, Shape{3, 1000}}) {
      const std::int64_t channels = shape[1];
      const Tensors inputs{add(numbers(shape, dtype), 3.0).to(dtype), numbers(shape, dtype, 2),
                           numbers({channels}, wide, 3), numbers({channels}, wide, 4)};
      for (const bool last : {false, true}) {
        if (last && shape.size() != 4) continue;
        const Function function = [last](const Tensors& x) -> Tensors {
          const Tensor a = last ? x[0].to(MemoryFormat::channels_last) : x[0];
          const Tensor g = last ? x[1].to(MemoryFormat::channels_last) : x[1];
          const NormGradients n = batch_norm_backward(g, a, {}, {}, x[2], x[3], true);
          return {batch_norm(a, {}, {}, x[2], x[3], true), n.x, n.weight, n.bias};
        };
        expect_close(last ? "channels last" : "channels first", inputs, function, dtype);
      }
    }
  }
}

TEST_F(CudaSizes, CrossEntropyOfManyClasses) {
  for (const DType dtype : floats) {
    for (const std::int64_t classes : {10, 1000, 1001, 5000, 50304, 50257}) {
      Generator generator(5);
      const std::int64_t rows = 70;
      const Tensor target = randint(0, classes, {rows}, {.dtype = int64}, generator);
      for (const double smoothing : {0.0, 0.1}) {
        const Function function = [smoothing](const Tensors& x) -> Tensors {
          const auto reduction = Reduction::mean;
          const Tensor loss = cross_entropy(x[0], x[1], {}, reduction, -100, smoothing);
          const Tensor g = ones({}, {.dtype = loss.dtype(), .device = loss.device()});
          return {loss,
                  cross_entropy_backward(g, x[0], x[1], {}, reduction, -100, smoothing).first};
        };
        expect_close("cross-entropy", {numbers({rows, classes}, dtype), target}, function, dtype);
      }
    }
  }
}

TEST_F(CudaSizes, SortsLikeTheCpu) {
  for (const DType dtype : {float32, float64, bfloat16, int64, int32, uint8}) {
    for (const Shape& shape :
         {Shape{1}, Shape{33, 7}, Shape{5, 2048}, Shape{3, 2049}, Shape{100003}, Shape{7, 30000}}) {
      // Many equal elements.
      const Tensor x = multiply(numbers(shape, float64), 50.0).to(dtype), far = x.to(device);
      for (const bool descending : {false, true}) {
        const SortedTensor near = sort_with_indices(x, -1, descending);
        const SortedTensor got = sort_with_indices(far, -1, descending);
        EXPECT_TRUE(same_bits(got.values, near.values)) << shape << name(dtype);
        EXPECT_TRUE(same_bits(got.indices, near.indices)) << shape << name(dtype);
        for (const std::int64_t k : {1, 5, 100, 2000}) {
          if (k > shape.back()) continue;
          const SortedTensor few = topk(x, k, -1, descending), found = topk(far, k, -1, descending);
          EXPECT_TRUE(same_bits(found.values, few.values)) << shape << name(dtype) << " k " << k;
          EXPECT_TRUE(same_bits(found.indices, few.indices)) << shape << name(dtype) << " k " << k;
        }
      }
      const Tensor ordered = sort(x), values = multiply(numbers(shape, float64, 9), 50.0).to(dtype);
      for (const bool right : {false, true}) {
        EXPECT_TRUE(same_bits(searchsorted(ordered.to(device), values.to(device), right),
                              searchsorted(ordered, values, right)));
      }
    }
  }
  // Zeros of both signs, infinities and NaN.
  Tensor special = zeros({5000});
  special = where(equal(remainder(arange(5000), 3), 0), full({}, -0.0f), special);
  special = where(equal(remainder(arange(5000), 7), 0),
                  full({}, std::numeric_limits<float>::quiet_NaN()), special);
  special = where(equal(remainder(arange(5000), 11), 0),
                  full({}, std::numeric_limits<float>::infinity()), special);
  for (const bool descending : {false, true}) {
    EXPECT_TRUE(
        same_bits(argsort(special.to(device), -1, descending), argsort(special, -1, descending)));
    EXPECT_TRUE(same_bits(sort(special.to(device), -1, descending), sort(special, -1, descending)));
    EXPECT_TRUE(same_bits(topk(special.to(device), 600, -1, descending).indices,
                          topk(special, 600, -1, descending).indices));
  }
}

TEST_F(CudaSizes, ScansOfEveryLength) {
  for (const DType dtype : floats) {
    for (const Shape& shape : {Shape{5, 7}, Shape{3, 1025}, Shape{1, 100001}, Shape{3, 5000},
                               Shape{1, 300000}, Shape{2, 5000, 3}, Shape{3, 100, 70}}) {
      const Function function = [](const Tensors& x) -> Tensors {
        return {cumulative_sum(x[0], 1), cumulative_sum_backward(x[0], 1)};
      };
      expect_close("sum", {numbers(shape, dtype)}, function, dtype);
    }
    const Function products = [](const Tensors& x) -> Tensors {
      return {cumulative_prod(x[0], 1), cumulative_prod_backward(x[1], x[0], 1)};
    };
    expect_close("product", {numbers({3, 40, 5}, dtype), numbers({3, 40, 5}, dtype, 2)}, products,
                 dtype);
  }
  const Tensor counts = multiply(numbers({2, 100000}, float64), 1000.0).to(int64);
  EXPECT_TRUE(same_bits(cumulative_sum(counts.to(device), 1), cumulative_sum(counts, 1)));
}

TEST_F(CudaSizes, SumsOfRowsAndColumns) {
  const Shape shapes[] = {{511, 5000},    {512, 4096}, {1100, 4104}, {700, 8200}, {520, 16400},
                          {3, 600, 4608}, {4608, 530}, {40, 9000},   {2, 300000}, {300000, 3}};
  for (const DType dtype : floats) {
    for (const Shape& shape : shapes) {
      const Tensor x = numbers(shape, dtype);
      for (const std::int64_t axis : {-2, -1}) {
        expect_close(
            "sum", {x},
            [axis](const Tensors& given) {
              return Tensors{sum(given[0], axis), mean(given[0], axis)};
            },
            dtype);
        const Tensor far = x.to(device), first = sum(far, axis);
        EXPECT_TRUE(same_bits(sum(far, axis), first)) << shape << " " << name(dtype);
      }
    }
    // Of any alignment, and of every number of packs for a thread.
    const Tensor x = numbers({3000000}, dtype);
    for (const std::int64_t length : {2999999, 2400001, 1200001, 300001, 9001, 8192}) {
      for (const std::int64_t begin : {0, 1}) {
        expect_close(
            "sum of all", {x},
            [=](const Tensors& given) {
              return Tensors{sum(given[0].slice(0, begin, begin + length)),
                             max(given[0].slice(0, begin, begin + length))};
            },
            dtype);
      }
    }
  }
}

// Rows that are shorter than a block, of any alignment.
TEST_F(CudaSizes, ReductionsOfShortRows) {
  const Function reductions = [](const Tensors& given) {
    const Tensor& x = given[0];
    return Tensors{sum(x, -1), min(x, -1), max(x, -1), argmin(x, -1)};
  };
  for (const DType dtype : floats) {
    for (const std::int64_t length :
         {1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 65, 128, 200, 513, 1000, 1024}) {
      const Tensor x = numbers({700, length}, dtype);
      expect_close("short rows", {x}, reductions, dtype);
      expect_close(
          "parts of short rows", {x},
          [&](const Tensors& given) { return reductions({given[0].slice(1, length / 3)}); }, dtype);
      expect_close(
          "every second row", {x},
          [&](const Tensors& given) { return reductions({given[0].slice(0, 1, {}, 2)}); }, dtype);
    }
  }
}

// The error of a sum does not grow with its length: the same number many times, by every kernel of
// sums. The sign of a zero, infinities and NaN stay.
TEST_F(CudaSizes, ErrorsOfLongSumsDoNotAdd) {
  const double number = 0.1F;
  const std::int64_t length = std::int64_t{1} << 20;
  for (const DType dtype : {float32, float64}) {
    const double allowed = dtype == float32 ? 5e-7 : 1e-15;
    const auto expect_sum = [&](const char* what, const Tensor& sums, std::int64_t count) {
      const double exact = number * static_cast<double>(count);
      const Tensor ratio = divide(sums.to(cpu_device).to(float64), exact);
      EXPECT_LE(max(abs(subtract(ratio, 1))).item<double>(), allowed) << what << " " << name(dtype);
    };
    const Tensor columns = full({length, 64}, number, {dtype, device});
    const Tensor rows = columns.view({64, length});
    expect_sum("narrow columns", sum(columns, 0), length);
    expect_sum("odd columns", sum(columns.slice(1, 0, 63), 0), length);
    expect_sum("all", sum(columns), 64 * length);
    expect_sum("rows", sum(rows, 1), length);
    expect_sum("rows of any alignment", sum(rows.slice(1, 1), 1), length - 1);
    expect_sum("strided rows", sum(rows.slice(1, 0, {}, 2), 1), length / 2);
    expect_sum("many rows", sum(full({1100, length / 4}, number, {dtype, device}), 1), length / 4);
    expect_sum("wide columns", sum(full({length / 8, 4096}, number, {dtype, device}), 0),
               length / 8);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (const double value : {-0.0, infinity, -infinity}) {
      Tensor row = full({length}, -0.0, {dtype, device});
      row.slice(0, 7, 8).fill(value);
      const double total = sum(row).item<double>();
      EXPECT_EQ(total, value);
      EXPECT_EQ(std::signbit(total), std::signbit(value));
      row.slice(0, length - 1, length).fill(-value);
      if (value != 0) {
        EXPECT_TRUE(std::isnan(sum(row).item<double>()));
      }
    }
  }
}

// Every kernel reads what the one before it wrote, and writes over what the one before that read:
// kernels that start early wait for those before them.
TEST_F(CudaSizes, KernelsInOrder) {
  for (const DType dtype : {float32, bfloat16}) {
    for (const std::int64_t count : {70000, 1 << 20, 9000000}) {
      Tensor x = ones({count}, {.dtype = dtype, .device = device});
      for (int round = 0; round < 40; ++round) {
        x += 1;                        // a row with a number
        const Tensor doubled = x + x;  // a dense row
        const Tensor same = where(equal(doubled, x), x, doubled) * 0.5;
        x = same.to(float64).to(dtype);
        // Parts and their sum, which is exact.
        const Tensor rest = sum(x.to(float64)) - static_cast<double>(count) * (round + 2);
        x = x + rest.to(dtype);
      }
      EXPECT_EQ(min(x).item<float>(), 41) << count << " " << name(dtype);
      EXPECT_EQ(max(x).item<float>(), 41) << count << " " << name(dtype);
    }
  }
}

TEST_F(CudaSizes, IndicesThatRepeat) {
  Generator generator(3);
  const Tensor ids = randint(0, 300, {5000}, {.dtype = int64}, generator);
  for (const DType dtype : floats) {
    for (const std::int64_t width : {1, 3, 64, 768}) {
      const Function function = [width](const Tensors& x) -> Tensors {
        return {embedding(x[0], x[2]), embedding_backward(x[1], x[2], 1000, 7),
                index_add(x[0], 0, x[2], x[1], 0.5), take(x[0], x[2].slice(0, 0, 1000), 0)};
      };
      expect_close("rows", {numbers({1000, width}, dtype), numbers({5000, width}, dtype, 2), ids},
                   function, dtype);
    }
    // A column holds up to 5,000 terms.
    const Function elements = [](const Tensors& x) -> Tensors {
      return {scatter_add(x[0], 0, x[2], x[1])};
    };
    expect_close("elements",
                 {numbers({300, 2}, dtype), numbers({5000, 2}, dtype, 2),
                  ids.reshape({5000, 1}).broadcast_to({5000, 2}).contiguous()},
                 elements, dtype);
  }
  // The last one wins.
  const Tensor base = zeros({300}), source = arange(5000).to(float32);
  EXPECT_TRUE(same_bits(scatter(base.to(device), 0, ids.to(device), source.to(device)),
                        scatter(base, 0, ids, source)));
  EXPECT_TRUE(same_bits(index_put(base.to(device), {ids.to(device)}, source.to(device)),
                        index_put(base, {ids}, source)));
  const Tensor mask = equal(remainder(ids, 3), 0);
  EXPECT_TRUE(
      same_bits(masked_select(source.to(device), mask.to(device)), masked_select(source, mask)));
}

TEST_F(CudaSizes, StepsOfManyTensors) {
  for (const DType dtype : floats) {
    for (const std::int64_t count : {1, 5, 4097, 100003}) {
      const Function function = [](const Tensors& x) -> Tensors {
        Tensor param = x[0].clone();
        // States of halves may be float32, which the comparison needs.
        const DType dtype = itemsize(param.dtype()) == 2 ? float32 : param.dtype();
        const TensorOptions options{.dtype = dtype, .device = param.device()};
        AdamState state{zeros(param.shape(), options), zeros(param.shape(), options), {}};
        for (int step = 1; step <= 3; ++step) adamw_step(param, x[1], state, step);
        return {param, state.exp_avg, state.exp_avg_sq};
      };
      expect_close("adamw", {numbers({count}, dtype), numbers({count}, dtype, 2)}, function, dtype);
    }
  }
}

}  // namespace
}  // namespace extensor
