// Elementwise operations over random layouts and dtypes, sizes around every boundary of the engine,
// and results that bypass the caches.
#include <gtest/gtest.h>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/layout_reference.h"

namespace {

using namespace test_support;

constexpr std::int64_t sizes[] = {1, 40, 520, 4200, 17000, 70000};

using Reference = std::function<Value(const Value* inputs)>;

// Checks that the result has this shape and dtype, and that every element equals the reference.
void expect_elements(const Tensor& result, const Shape& shape, DType dtype,
                     const std::vector<Tensor>& inputs, const Reference& reference,
                     Value tolerance = 0) {
  ASSERT_EQ(result.shape(), shape);
  ASSERT_EQ(result.dtype(), dtype);
  std::vector<Tensor> operands = inputs;
  operands.push_back(result);
  std::int64_t wrong = 0, place = 0;
  walk(shape, operands, [&](const std::byte* const* at) {
    Value values[3] = {};
    for (std::size_t k = 0; k < inputs.size(); ++k) values[k] = load(at[k], inputs[k].dtype());
    const Value expected = reference(values), actual = load(at[inputs.size()], dtype);
    const bool good =
        same(expected, actual) || std::fabs(actual - expected) <= tolerance * std::fabs(expected);
    if (!good && wrong++ == 0) {
      ADD_FAILURE() << "element " << place << " of " << shape << " is " << actual << ", not "
                    << expected << "; inputs " << values[0] << ", " << values[1] << ", "
                    << values[2];
    }
    ++place;
  });
  EXPECT_EQ(wrong, 0);
}

// a ∘ b as the dtype computes it: halves in float32, integers modulo their width.
Value arithmetic(char operation, Value a, Value b, DType dtype) {
  if (dtype == bool_) return operation == '+' ? a + b != 0 : a * b != 0;
  if (dtype == float64) {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return operation == '+' ? x + y : x * y;
  }
  if (is_floating_point(dtype)) {
    const auto x = static_cast<float>(a), y = static_cast<float>(b);
    return round_to_float(operation == '+' ? x + y : x * y, dtype);
  }
  // Modulo 2⁶⁴ first, where no product overflows.
  const auto x = static_cast<std::uint64_t>(static_cast<__int128>(a));
  const auto y = static_cast<std::uint64_t>(static_cast<__int128>(b));
  return wrap_to_integer(static_cast<__int128>(operation == '+' ? x + y : x * y), dtype);
}

// ---- elementwise --------------------------------------------------------------------------------

TEST(LayoutEngineTest, ConvertsEveryDtypeToEveryOther) {
  Random random(1);
  for (DType from : every_dtype) {
    for (DType to : every_dtype) {
      SCOPED_TRACE(std::string(name(from)) + " to " + name(to));
      for (std::int64_t count : {1, 40, 520, 9000}) {
        const Shape shape = random_shape(random, count);
        const Tensor x = random_operand(random, shape, from, Style::any).broadcast_to(shape);
        const auto reference = [=](const Value* in) { return cast(in[0], from, to); };
        expect_elements(x.to(to), shape, to, {x}, reference);
        expect_elements(x.clone(), shape, from, {x}, [](const Value* in) { return in[0]; });
      }
    }
  }
}

// Two dtypes that have a common one.
std::pair<DType, DType> random_dtypes(Random& random) {
  for (;;) {
    const DType a = every_dtype[random() % 13], b = every_dtype[random() % 13];
    const bool never =
        (a == uint64 && is_signed_integer(b)) || (b == uint64 && is_signed_integer(a));
    if (!never) return {a, random() % 2 == 0 ? a : b};
  }
}

TEST(LayoutEngineTest, AddsMultipliesComparesAndSelects) {
  Random random(2);
  for (int round = 0; round < 120; ++round) {
    const Shape shape = random_shape(random, sizes[random() % 6]);
    const auto [dtype_a, dtype_b] = random_dtypes(random);
    const DType common = promote_types(dtype_a, dtype_b);
    SCOPED_TRACE(std::to_string(round) + ": " + name(dtype_a) + ", " + name(dtype_b));
    Tensor a = random_view(random, shape, dtype_a, Style::any).view;
    Tensor b = random_operand(random, shape, dtype_b, Style::any);
    if (random() % 2 == 0) std::swap(a, b);
    const DType from_a = a.dtype(), from_b = b.dtype();
    const DType compute = is_half(common) ? float32 : common;
    const auto operation = [=](char symbol) {
      return [=](const Value* in) {
        return arithmetic(symbol, cast(in[0], from_a, compute), cast(in[1], from_b, compute),
                          common);
      };
    };
    expect_elements(a + b, shape, common, {a, b}, operation('+'));
    expect_elements(a * b, shape, common, {a, b}, operation('*'));
    expect_elements(a < b, shape, bool_, {a, b}, [=](const Value* in) {
      return cast(in[0], from_a, compute) < cast(in[1], from_b, compute);
    });
    const Tensor condition = random_operand(random, shape, bool_, Style::any);
    expect_elements(where(condition, a, b), shape, common, {condition, a, b}, [=](const Value* in) {
      const Value chosen = in[0] != 0 ? cast(in[1], from_a, compute) : cast(in[2], from_b, compute);
      return cast(chosen, compute, common);
    });
  }
}

TEST(LayoutEngineTest, ExponentialOfEveryFloat) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const DType dtype = float_dtypes[round % 4];
    SCOPED_TRACE(std::to_string(round) + ": " + name(dtype));
    const Shape shape = random_shape(random, sizes[random() % 5]);
    const Tensor x = random_view(random, shape, dtype, Style::small).view;
    const Value tolerance = is_half(dtype) ? 0 : dtype == float32 ? 2 * 0x1p-23L : 2 * 0x1p-52L;
    expect_elements(
        exp(x), shape, dtype, {x},
        [=](const Value* in) { return round_to_float(std::exp(in[0]), dtype); }, tolerance);
  }
}

// Writing through any layout changes the view's elements and nothing between them.
TEST(LayoutEngineTest, WritesIntoAnyLayout) {
  Random random(4);
  for (int round = 0; round < 160; ++round) {
    const Shape shape = random_shape(random, sizes[random() % 6]);
    const DType dtype = every_dtype[random() % 13];
    const DType from = random() % 2 == 0 || is_integer(dtype) || dtype == bool_ ? dtype : float32;
    SCOPED_TRACE(std::to_string(round) + ": " + name(from) + " into " + name(dtype));
    View target = random_view(random, shape, dtype, Style::any);
    const Tensor source = random_operand(random, shape, from, Style::any);
    const bool adds = round % 2 == 0;
    const DType common = promote_types(dtype, from);
    // The expected contents of the whole base: the reference is stored into a copy of it, element
    // by element.
    std::vector<std::byte> expected(target.base.impl().data,
                                    target.base.impl().data + target.base.nbytes());
    std::vector<Value> values;
    walk(shape, {target.view, source}, [&](const std::byte* const* at) {
      const Value old = load(at[0], dtype), other = load(at[1], from);
      const Value sum =
          adds ? arithmetic('+', cast(old, dtype, common), cast(other, from, common), common)
               : other;
      values.push_back(cast(sum, adds ? common : from, dtype));
    });
    if (adds) {
      target.view += source;
    } else {
      target.view.copy_from(source);
    }
    std::size_t next = 0;
    std::int64_t wrong = 0;
    walk(shape, {target.view}, [&](const std::byte* const* at) {
      wrong += !same(load(at[0], dtype), values[next++]);
      std::memcpy(expected.data() + (at[0] - target.base.impl().data), at[0], itemsize(dtype));
    });
    EXPECT_EQ(wrong, 0) << shape << target.view.strides();
    EXPECT_EQ(std::memcmp(expected.data(), target.base.impl().data, expected.size()), 0)
        << "elements outside the view were changed";
  }
}

TEST(LayoutEngineTest, SizesAroundEveryBoundary) {
  Random random(5);
  for (DType dtype : {bool_, int8, float16, float32, float64}) {
    SCOPED_TRACE(name(dtype));
    const auto check = [&](const Tensor& a, const Tensor& b) {
      const Shape shape = broadcast_shapes(a.shape(), b.shape());
      expect_elements(a + b, shape, dtype, {a, b},
                      [=](const Value* in) { return arithmetic('+', in[0], in[1], dtype); });
    };
    const auto fresh = [&](const Shape& shape) {
      Tensor x = empty(shape, dtype);
      randomize(random, x, Style::small);
      return x;
    };
    // Around the sizes of vectors, blocks, pieces of rows and shares of threads.
    for (std::int64_t n : {7, 8, 9, 15, 16, 17, 31, 33, 511, 512, 513, 1025, 8191, 8192, 8193,
                           16385, 32767, 32769, 65537}) {
      const Tensor x = fresh({2 * n}), dense = x.slice(0, 0, n);
      check(dense, x.slice(0, n, 2 * n));
      check(dense, x.slice(0, 0, 2 * n, 2));
      check(dense, x.slice(0, n - 1, {}, -1));
      check(dense, x.slice(0, 1, 2));
    }
    // Tiles.
    for (std::int64_t rows : {7, 8, 15, 16, 17, 33}) {
      for (std::int64_t columns : {7, 8, 255, 256, 257, 513}) {
        check(fresh({rows, columns}), fresh({columns, rows}).transpose());
        check(fresh({2, columns, rows}).transpose({0, 2, 1}), fresh({rows, 1}));
      }
    }
    // Short rows, which are gathered in blocks, and the shortest that is not.
    for (std::int64_t length : {2, 3, 5, 31, 32, 63, 64, 65}) {
      for (std::int64_t rows : {2, 8, 9, 17, 300}) {
        check(fresh({rows, length}), fresh({length}));
        check(fresh({rows, length}), fresh({rows, 1}));
        check(fresh({rows, 2 * length}).slice(1, 0, length), fresh({rows, length}));
      }
    }
  }
}

// Copies between layouts take planes of two dimensions: of every proportion, and of every width.
TEST(LayoutEngineTest, CopiesPlanesOfAnyProportions) {
  Random random(6);
  constexpr std::int64_t lengths[] = {1, 2, 3, 4, 5, 8, 15, 17, 33, 70};
  for (DType dtype : {uint8, int16, float32, float64}) {
    SCOPED_TRACE(name(dtype));
    const auto fresh = [&](const Shape& shape) {
      Tensor x = empty(shape, dtype);
      randomize(random, x, Style::small);
      return x;
    };
    const auto check = [&](const Tensor& from, Tensor to) {
      to.copy_from(from);
      expect_elements(to, from.shape(), dtype, {from}, [](const Value* in) { return in[0]; });
    };
    for (std::int64_t rows : lengths) {
      for (std::int64_t columns : lengths) {
        const Shape shape{2, rows, columns};
        const Tensor whole = fresh({2, columns + 2, rows + 1});
        const Tensor turned = whole.slice(1, 1, columns + 1).slice(2, 1).transpose({0, 2, 1});
        const Tensor spread = fresh({2, 2 * rows, 3 * columns}).slice(1, {}, {}, 2);
        check(turned, empty(shape, dtype));
        check(turned.slice(1, {}, {}, -1), empty(shape, dtype));
        check(spread.slice(2, {}, {}, 3), empty(shape, dtype));
        check(spread.slice(2, 0, columns), empty({2, columns, rows}, dtype).transpose({0, 2, 1}));
        check(fresh({2, rows, 1}).broadcast_to(shape), empty(shape, dtype));
        // The middle axis is dense in the source, the last one in the result.
        check(fresh({rows, 2, columns}).transpose({1, 2, 0}), empty({2, columns, rows}, dtype));
        // The same memory as alternating and as separate elements.
        check(fresh({2, columns, rows}).transpose({0, 2, 1}), empty(shape, dtype));
        check(fresh(shape), empty({2, rows, columns, 2}, dtype).slice(3, 1).squeeze(3));
      }
    }
  }
}

// Results of 32 MiB and more bypass the caches.
TEST(LayoutEngineTest, ResultsLargerThanTheCache) {
  const std::int64_t n = (32 << 20) / 8 + 8192 + 77;
  Tensor x = empty({n}, uint8);
  for (std::int64_t i = 0; i < n; ++i) {
    x.data<std::uint8_t>()[i] =
        static_cast<std::uint8_t>(static_cast<std::uint64_t>(i) * 2654435761U >> 13);
  }
  const Tensor y = x + scalar(0.5, float64);  // converted in a staging buffer
  ASSERT_EQ(y.dtype(), float64);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < n; ++i)
    wrong += y.data<double>()[i] != x.data<std::uint8_t>()[i] + 0.5;
  EXPECT_EQ(wrong, 0);
  const Tensor z = -y;
  for (std::int64_t i = 0; i < n; ++i) wrong += z.data<double>()[i] != -y.data<double>()[i];
  EXPECT_EQ(wrong, 0);
}

}  // namespace
