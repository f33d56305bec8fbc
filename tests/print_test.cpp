// Printing, compared with the output of NumPy 2.4 for the same arrays (pasted here).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "core/convert.h"
#include "core/make_tensor.h"
#include "core/visit.h"
#include "extensor/tensor.h"

namespace {

using namespace extensor;

const double nan = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();

Tensor tensor_of(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor = detail::make_empty("test", shape, dtype, cpu_device);
  detail::visit_dtype(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i) {
      tensor.data<T>()[i] = detail::convert<T>(values[i]);
    }
  });
  return tensor;
}

Tensor counting(const Shape& shape) {
  Tensor tensor = detail::make_empty("test", shape, int64, cpu_device);
  std::iota(tensor.data<std::int64_t>(), tensor.data<std::int64_t>() + tensor.numel(), 0);
  return tensor;
}

struct Case {
  const char* name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
  const char* text;
};

class PrintTest : public testing::TestWithParam<Case> {};

TEST_P(PrintTest, LikeNumPy) {
  const Case& c = GetParam();
  EXPECT_EQ(to_string(tensor_of(c.dtype, c.shape, c.values)), c.text);
}

INSTANTIATE_TEST_SUITE_P(
    Arrays, PrintTest,
    testing::Values(
        Case{"Floats", float32, {2, 3}, {1, 2, 3, 4, 5, 6}, "[[1. 2. 3.]\n [4. 5. 6.]]"},
        Case{"Fractions",
             float32,
             {4},
             {0.1, -2.5, 100, 3.14159274},
             "[  0.1        -2.5       100.          3.1415927]"},
        Case{"Scientific", float32, {3}, {1e-5, 1, 2}, "[1.e-05 1.e+00 2.e+00]"},
        Case{"Doubles",
             float64,
             {2, 2},
             {1.0 / 3, 2.0 / 3, -1, 1e7},
             "[[ 3.33333333e-01  6.66666667e-01]\n [-1.00000000e+00  1.00000000e+07]]"},
        Case{"LargeDoubles", float64, {2}, {1e8, 1}, "[1.e+08 1.e+00]"},
        Case{"LargeFloats", float32, {2}, {1e6, 2e6}, "[1.e+06 2.e+06]"},
        Case{"WideRange", float64, {3}, {0.001, 1, 1.5}, "[1.0e-03 1.0e+00 1.5e+00]"},
        Case{"Special", float32, {4}, {nan, infinity, -infinity, 1.5}, "[ nan  inf -inf  1.5]"},
        Case{"OnlySpecial", float32, {2}, {nan, infinity}, "[nan inf]"},
        Case{"NegativeZero", float32, {2}, {0.0, -0.0}, "[ 0. -0.]"},
        Case{"SpecialScientific",
             float64,
             {3},
             {nan, -infinity, 1e-300},
             "[    nan    -inf 1.e-300]"},
        Case{"Half", float16, {3}, {0.1, 65504, 1e-7}, "[1.00e-01 6.55e+04 1.19e-07]"},
        // NumPy has no bfloat16; the fewest digits that distinguish it from its neighbors.
        Case{"BrainHalf", bfloat16, {3}, {0.1, 3.140625, 100}, "[  0.1    3.14 100.  ]"},
        Case{"Integers", int32, {2, 2}, {1, -20, 300, 4}, "[[  1 -20]\n [300   4]]"},
        Case{"Unsigned64", uint64, {2}, {0, 0x1p65}, "[                   0 18446744073709551615]"},
        Case{"Bytes", int8, {2}, {-128, 127}, "[-128  127]"},
        Case{"Booleans", bool_, {2}, {1, 0}, "[ True False]"},
        Case{"Empty", float32, {0}, {}, "[]"}, Case{"EmptyMatrix", float32, {3, 0}, {}, "[]"},
        Case{"OneByOne", float32, {1, 1, 1}, {7}, "[[[7.]]]"},
        Case{"Scalar", float32, {}, {1}, "1.0"}, Case{"ScalarTenth", float32, {}, {0.1}, "0.1"},
        Case{"ScalarLarge", float32, {}, {1e20}, "1e+20"},
        Case{"ScalarLargeDouble", float64, {}, {1e16}, "1e+16"},
        Case{"ScalarDouble", float64, {}, {123456.789}, "123456.789"},
        Case{"ScalarSmall", float32, {}, {1e-4}, "1e-04"},
        Case{"ScalarSmallDouble", float64, {}, {1e-4}, "0.0001"},
        Case{"ScalarHalf", float16, {}, {0.1}, "0.1"}, Case{"ScalarNan", float32, {}, {nan}, "nan"},
        Case{"ScalarInfinity", float32, {}, {-infinity}, "-inf"},
        Case{"ScalarInteger", int64, {}, {-5}, "-5"}, Case{"ScalarBool", bool_, {}, {1}, "True"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(PrintTest, BlankLinesBetweenMatrices) {
  EXPECT_EQ(to_string(counting({2, 2, 2})), "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]");
}

TEST(PrintTest, LinesWrap) {
  EXPECT_EQ(to_string(counting({30})),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
            " 24 25 26 27 28 29]");
  Tensor sevenths = detail::make_empty("test", {30}, float32, cpu_device);
  for (int i = 0; i < 30; ++i) sevenths.data<float>()[i] = static_cast<float>(i) / 7.0f;
  EXPECT_EQ(to_string(sevenths),
            "[0.         0.14285715 0.2857143  0.42857143 0.5714286  0.71428573\n"
            " 0.85714287 1.         1.1428572  1.2857143  1.4285715  1.5714285\n"
            " 1.7142857  1.8571428  2.         2.142857   2.2857144  2.4285715\n"
            " 2.5714285  2.7142856  2.857143   3.         3.142857   3.2857144\n"
            " 3.4285715  3.5714285  3.7142856  3.857143   4.         4.142857  ]");
}

TEST(PrintTest, LargeOnesAreSummarised) {
  EXPECT_EQ(to_string(counting({1001})), "[   0    1    2 ...  998  999 1000]");
  EXPECT_EQ(to_string(counting({40, 50})),
            "[[   0    1    2 ...   47   48   49]\n [  50   51   52 ...   97   98   99]\n"
            " [ 100  101  102 ...  147  148  149]\n ...\n [1850 1851 1852 ... 1897 1898 1899]\n"
            " [1900 1901 1902 ... 1947 1948 1949]\n [1950 1951 1952 ... 1997 1998 1999]]");
  EXPECT_EQ(to_string(counting({2, 2, 300})),
            "[[[   0    1    2 ...  297  298  299]\n  [ 300  301  302 ...  597  598  599]]\n\n"
            " [[ 600  601  602 ...  897  898  899]\n  [ 900  901  902 ... 1197 1198 1199]]]");
  EXPECT_EQ(to_string(counting({1000})).find("..."), std::string::npos);
}

TEST(PrintTest, ViewsReadThroughTheirStrides) {
  EXPECT_EQ(to_string(counting({2, 3}).transpose()), "[[0 3]\n [1 4]\n [2 5]]");
  EXPECT_EQ(to_string(counting({5}).slice(0, {}, {}, -2)), "[4 2 0]");
  // A million times a million elements in one element of memory.
  EXPECT_EQ(to_string(counting({1}).broadcast_to({1000000, 1000000})),
            "[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n ...\n"
            " [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]]");
}

TEST(PrintTest, StreamsAndUndefined) {
  std::ostringstream stream;
  stream << counting({3});
  EXPECT_EQ(stream.str(), "[0 1 2]");
  EXPECT_EQ(to_string(Tensor()), "undefined");
}

}  // namespace
