// The CPU matrix product compared with a naive one in long double: every float dtype, layout,
// algorithm, activation, SIMD target and thread count, with and without the processor's bfloat16
// products. Operands end at an unreadable page.
#include "backend/cpu/gemm/gemm.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cpu/gemm/kernels.h"
#include "core/simd/bfloat16.h"
#include "extensor/threads.h"

namespace {

using extensor::BFloat16;
using extensor::DType;
using extensor::Float16;
using extensor::cpu::Activation;
using extensor::cpu::gemm;
using extensor::cpu::gemm_batched;
using extensor::cpu::GemmCall;

template <class T>
long double wide(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value;
  else
    return static_cast<float>(value);
}

// Elements whose last byte is the last one before a page that faults; the 64 bytes before them are
// checked for writes.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count) : count_(count) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t needed = static_cast<std::size_t>(count) * sizeof(T) + kMargin;
    bytes_ = (needed + page - 1) / page * page + page;
    base_ = static_cast<unsigned char*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) std::abort();
    mprotect(base_ + bytes_ - page, page, PROT_NONE);
    data_ = reinterpret_cast<T*>(base_ + bytes_ - page) - count;
    std::memset(reinterpret_cast<unsigned char*>(data_) - kMargin, kMark, kMargin);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, bytes_); }

  T* data() { return data_; }
  T& operator[](std::int64_t i) { return data_[i]; }
  std::int64_t size() const { return count_; }
  void mark() { std::memset(static_cast<void*>(data_), kMark, count_ * sizeof(T)); }
  bool margin_intact() const {
    const auto* margin = reinterpret_cast<const unsigned char*>(data_) - kMargin;
    for (int i = 0; i < kMargin; ++i) {
      if (margin[i] != kMark) return false;
    }
    return true;
  }
  static bool is_marked(const T& value) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    for (unsigned char byte : bytes) {
      if (byte != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr int kMargin = 64;
  static constexpr unsigned char kMark = 0xab;
  std::int64_t count_;
  std::size_t bytes_;
  unsigned char* base_;
  T* data_;
};

enum class Layout { rows, columns, padded_rows, general };

struct Case {
  std::int64_t m, n, k;
  Layout a = Layout::rows;
  Layout b = Layout::rows;
  bool bias = false;
  Activation activation = Activation::none;
  std::int64_t c_padding = 0;
};

std::string describe(const Case& c) {
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) + " layouts " +
         std::to_string(static_cast<int>(c.a)) + "," + std::to_string(static_cast<int>(c.b)) +
         " bias " + std::to_string(c.bias) + " activation " +
         std::to_string(static_cast<int>(c.activation)) + " padding " + std::to_string(c.c_padding);
}

struct Strides {
  std::int64_t row, column, size;
};

Strides strides_of(Layout layout, std::int64_t rows, std::int64_t columns) {
  std::int64_t row = 0, column = 0;
  switch (layout) {
    case Layout::rows:
      row = columns, column = 1;
      break;
    case Layout::columns:
      row = 1, column = rows;
      break;
    case Layout::padded_rows:
      row = columns + 5, column = 1;
      break;
    case Layout::general:
      row = 2 * columns + 3, column = 2;
      break;
  }
  const std::int64_t size =
      rows == 0 || columns == 0 ? 0 : (rows - 1) * row + (columns - 1) * column + 1;
  return {row, column, size};
}

long double activate(Activation activation, long double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::gelu:
      return x * 0.5L * std::erfc(-x / std::sqrt(2.0L));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_tanh:
      return x * 0.5L *
             (1 + std::tanh(std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x)));
  }
  return 0;
}

template <class T>
class Trial {
 public:
  Trial(const Case& c, std::uint64_t seed)
      : case_(c),
        a_strides_(strides_of(c.a, c.m, c.k)),
        b_strides_(strides_of(c.b, c.k, c.n)),
        a_(a_strides_.size),
        b_(b_strides_.size),
        bias_(c.n),
        c_(c.m == 0 || c.n == 0 ? 0 : (c.m - 1) * (c.n + c.c_padding) + c.n),
        random_(seed) {
    fill(a_);
    fill(b_);
    fill(bias_);
  }

  GemmCall call() {
    GemmCall call;
    call.dtype = extensor::dtype_of<T>;
    call.m = case_.m;
    call.n = case_.n;
    call.k = case_.k;
    call.a = {a_.data(), a_strides_.row, a_strides_.column};
    call.b = {b_.data(), b_strides_.row, b_strides_.column};
    call.c = c_.data();
    call.c_row_stride = case_.n + case_.c_padding;
    call.bias = case_.bias ? bias_.data() : nullptr;
    call.activation = case_.activation;
    return call;
  }

  void run() {
    c_.mark();
    gemm(call());
  }

  // Compares every element of a small product, a sample of a large one.
  void check() {
    ASSERT_TRUE(c_.margin_intact()) << describe(case_);
    const std::int64_t row_stride = case_.n + case_.c_padding;
    for (std::int64_t i = 0; i + 1 < case_.m; ++i) {
      for (std::int64_t j = case_.n; j < row_stride; ++j) {
        ASSERT_TRUE(Guarded<T>::is_marked(c_[i * row_stride + j])) << describe(case_);
      }
    }
    const std::int64_t total = case_.m * case_.n;
    const bool sampled = total * case_.k > 50000;
    const std::int64_t checks = sampled ? 100 : total;
    for (std::int64_t q = 0; q < checks; ++q) {
      const std::int64_t at = sampled ? static_cast<std::int64_t>(random_() % total) : q;
      check_element(at / case_.n, at % case_.n);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  std::vector<unsigned char> result_bytes() {
    const auto* bytes = reinterpret_cast<const unsigned char*>(c_.data());
    return {bytes, bytes + c_.size() * sizeof(T)};
  }

  T& a(std::int64_t i, std::int64_t p) { return a_[i * a_strides_.row + p * a_strides_.column]; }
  T& b(std::int64_t p, std::int64_t j) { return b_[p * b_strides_.row + j * b_strides_.column]; }
  T& bias(std::int64_t j) { return bias_[j]; }
  T& c(std::int64_t i, std::int64_t j) { return c_[i * (case_.n + case_.c_padding) + j]; }

 private:
  void fill(Guarded<T>& values) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (std::int64_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(uniform(random_));
  }

  void check_element(std::int64_t i, std::int64_t j) {
    long double sum = 0, magnitude = 0;
    for (std::int64_t p = 0; p < case_.k; ++p) {
      const long double term = wide(a(i, p)) * wide(b(p, j));
      sum += term;
      magnitude += std::abs(term);
    }
    if (case_.bias) {
      sum += wide(bias_[j]);
      magnitude += std::abs(wide(bias_[j]));
    }
    const long double expected = activate(case_.activation, sum);
    const long double compute_epsilon = std::is_same_v<T, double>
                                            ? std::numeric_limits<double>::epsilon()
                                            : std::numeric_limits<float>::epsilon();
    const long double store_epsilon = std::is_same_v<T, Float16>    ? 0x1p-11L
                                      : std::is_same_v<T, BFloat16> ? 0x1p-8L
                                                                    : 4 * compute_epsilon;
    const long double tolerance =
        (4 + 2 * std::sqrt(static_cast<long double>(case_.k))) * compute_epsilon * magnitude +
        store_epsilon * std::abs(expected) + 1e-7L * (sizeof(T) == 2);
    ASSERT_LE(std::abs(wide(c(i, j)) - expected), tolerance)
        << describe(case_) << " at " << i << "," << j << ": " << static_cast<double>(wide(c(i, j)))
        << " for " << static_cast<double>(expected);
  }

  Case case_;
  Strides a_strides_, b_strides_;
  Guarded<T> a_, b_, bias_, c_;
  std::mt19937_64 random_;
};

class Threads {
 public:
  explicit Threads(int count) : before_(extensor::get_num_threads()) {
    extensor::set_num_threads(count);
  }
  ~Threads() { extensor::set_num_threads(before_); }

 private:
  int before_;
};

// The result is right with one thread and has the same bits with two and four.
template <class T>
void verify(const Case& c, std::uint64_t seed) {
  Trial<T> trial(c, seed);
  std::vector<unsigned char> expected;
  for (int count : {1, 2, 4}) {
    const Threads threads(count);
    trial.run();
    if (count == 1) {
      trial.check();
      if (testing::Test::HasFatalFailure()) return;
      expected = trial.result_bytes();
    } else {
      ASSERT_TRUE(trial.result_bytes() == expected) << describe(c) << " threads " << count;
    }
  }
}

template <class T>
class Gemm : public testing::Test {};
using Elements = testing::Types<float, double, Float16, BFloat16>;
TYPED_TEST_SUITE(Gemm, Elements);

constexpr Layout kLayouts[] = {Layout::rows, Layout::columns, Layout::padded_rows, Layout::general};

TYPED_TEST(Gemm, EveryTailSize) {
  std::uint64_t seed = 1;
  for (std::int64_t m : {1, 2, 3, 5, 6, 7, 13, 14, 15, 16, 29}) {
    for (std::int64_t n : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 65}) {
      for (std::int64_t k : {1, 3, 4, 17, 40}) {
        const Case c{m,
                     n,
                     k,
                     kLayouts[seed % 4],
                     kLayouts[seed / 4 % 4],
                     seed % 3 == 0,
                     seed % 5 == 0 ? Activation::relu : Activation::none,
                     static_cast<std::int64_t>(seed % 2 * 3)};
        verify<TypeParam>(c, seed++);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(Gemm, RandomShapesAndLayouts) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 80; ++trial) {
    const auto size = [&] {
      return 1 + static_cast<std::int64_t>(random() % (random() % 4 == 0 ? 300 : 60));
    };
    const Case c{size(),
                 size(),
                 size(),
                 kLayouts[random() % 4],
                 kLayouts[random() % 4],
                 random() % 2 == 0,
                 random() % 3 == 0 ? Activation::relu : Activation::none,
                 static_cast<std::int64_t>(random() % 4)};
    verify<TypeParam>(c, random());
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(Gemm, LargeEnoughForEveryBlockingLoop) {
  const Layout rows = Layout::rows, columns = Layout::columns, general = Layout::general;
  for (const Case& c :
       {Case{130, 1100, 500, rows, rows, true, Activation::relu, 3},
        Case{800, 70, 800, rows, columns, true}, Case{500, 400, 70, columns, rows},
        Case{64, 512, 784, rows, columns, true, Activation::relu},
        Case{512, 784, 64, columns, rows},
        Case{390, 1030, 390, general, columns, true, Activation::gelu},
        Case{33, 1500, 900, columns, general}, Case{160, 165, 5001, rows, columns, true},
        Case{5, 3000, 200, rows, rows, true, Activation::relu}, Case{11, 3000, 200, rows, rows}}) {
    verify<TypeParam>(c, 11);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(Gemm, OneRowOrColumn) {
  std::uint64_t seed = 1;
  for (std::int64_t length : {1, 2, 7, 8, 16, 100, 1100}) {
    for (std::int64_t k : {1, 5, 16, 100, 300}) {
      for (Layout layout : kLayouts) {
        const Activation activation = seed % 3 == 0 ? Activation::relu : Activation::none;
        verify<TypeParam>({1, length, k, kLayouts[seed % 4], layout, seed % 2 == 0, activation},
                          seed);
        verify<TypeParam>({length, 1, k, layout, kLayouts[seed % 4], seed % 2 == 0, activation,
                           static_cast<std::int64_t>(seed % 2)},
                          seed);
        ++seed;
        if (this->HasFatalFailure()) return;
      }
    }
  }
  for (Layout layout : {Layout::rows, Layout::columns}) {
    verify<TypeParam>({3, 1, 50000, layout, Layout::rows, true}, seed);
    verify<TypeParam>({1, 3, 50000, Layout::rows, layout, true}, seed);
    verify<TypeParam>({1, 1, 70001, Layout::rows, layout}, seed);
  }
}

TYPED_TEST(Gemm, EveryActivationOnEveryRoute) {
  for (Activation activation :
       {Activation::none, Activation::relu, Activation::sigmoid, Activation::tanh, Activation::gelu,
        Activation::silu, Activation::gelu_tanh}) {
    for (bool bias : {false, true}) {
      verify<TypeParam>({20, 37, 19, Layout::rows, Layout::rows, bias, activation, 1}, 3);
      verify<TypeParam>({70, 150, 400, Layout::rows, Layout::columns, bias, activation, 1}, 4);
      verify<TypeParam>({64, 10, 256, Layout::rows, Layout::columns, bias, activation, 1}, 5);
      verify<TypeParam>({1, 100, 30, Layout::rows, Layout::rows, bias, activation}, 6);
      verify<TypeParam>({100, 1, 30, Layout::rows, Layout::rows, bias, activation, 2}, 7);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(Gemm, EmptyDimensions) {
  for (Activation activation : {Activation::none, Activation::relu, Activation::sigmoid}) {
    for (bool bias : {false, true}) {
      verify<TypeParam>({0, 5, 3, Layout::rows, Layout::rows, bias, activation}, 1);
      verify<TypeParam>({5, 0, 3, Layout::rows, Layout::rows, bias, activation}, 2);
      verify<TypeParam>({5, 150, 0, Layout::rows, Layout::rows, bias, activation, 2}, 3);
      verify<TypeParam>({0, 0, 0, Layout::rows, Layout::rows, bias, activation}, 4);
    }
  }
}

TYPED_TEST(Gemm, NanAndInfinityReachExactlyTheirRowAndColumn) {
  using T = TypeParam;
  const T nan(std::numeric_limits<float>::quiet_NaN());
  const T infinity(std::numeric_limits<float>::infinity());
  for (const Case& c :
       {Case{17, 35, 20, Layout::rows, Layout::rows, true, Activation::relu},
        Case{17, 35, 20, Layout::columns, Layout::columns},
        Case{40, 7, 100, Layout::rows, Layout::columns, true},
        Case{70, 150, 400, Layout::rows, Layout::columns, false, Activation::relu},
        Case{1, 70, 33, Layout::rows, Layout::rows}, Case{70, 1, 33, Layout::rows, Layout::rows}}) {
    Trial<T> trial(c, 5);
    const std::int64_t row = c.m / 2, column = c.n / 2, nan_step = c.k - 1, zero_step = 0;
    trial.a(row, nan_step) = nan;
    for (std::int64_t i = 0; i < c.m; ++i) trial.a(i, zero_step) = T(0.0f);
    trial.b(zero_step, column) = infinity;
    trial.run();
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        ASSERT_EQ(std::isnan(wide(trial.c(i, j))), i == row || j == column)
            << describe(c) << " at " << i << "," << j;
      }
    }
  }
}

TYPED_TEST(Gemm, HalvesRoundToNearestEvenOnce) {
  using T = TypeParam;
  // 1 + half an ulp ties to even, 1 + 1.5 ulp up, and 1 + just above half up.
  const double ulp = std::is_same_v<T, Float16>    ? 0x1p-10
                     : std::is_same_v<T, BFloat16> ? 0x1p-7
                                                   : 0;
  for (const auto& [extra, expected] :
       {std::pair{0.5 * ulp, 1.0}, {1.5 * ulp, 1 + 2 * ulp}, {0.625 * ulp, 1 + ulp}}) {
    Trial<T> trial({3, 40, 2}, 1);
    for (std::int64_t i = 0; i < 3; ++i) {
      trial.a(i, 0) = T(1.0f);
      trial.a(i, 1) = static_cast<T>(extra);
    }
    for (std::int64_t j = 0; j < 40; ++j) trial.b(0, j) = trial.b(1, j) = T(1.0f);
    trial.run();
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 40; ++j) ASSERT_EQ(wide(trial.c(i, j)), expected);
    }
  }
}

TYPED_TEST(Gemm, BatchesMatchSingleProducts) {
  using T = TypeParam;
  for (const auto& [m, n, k, batch] : {std::array<std::int64_t, 4>{5, 9, 7, 40},
                                       {64, 64, 64, 6},
                                       {100, 130, 150, 3},
                                       {4, 4, 4, 0}}) {
    Trial<T> trial({m * std::max<std::int64_t>(batch, 1), n, k}, 9);
    const extensor::backend::BatchOffsets a(m * k), b(0), c(m * n);
    trial.run();
    GemmCall call = trial.call();
    call.m = m;
    for (int count : {1, 2, 4}) {
      const Threads threads(count);
      if (batch > 0) std::memset(call.c, 0, static_cast<std::size_t>(batch * m * n) * sizeof(T));
      gemm_batched(call, batch, a, b, c);
      if (batch > 0) trial.check();
    }
  }
}

// Zeros fill up pairs of steps: they must meet zeros, not the infinity of the last step.
TYPED_TEST(Gemm, InfinityInTheLastOfAnOddNumberOfSteps) {
  using T = TypeParam;
  const T infinity(std::numeric_limits<float>::infinity());
  for (const Layout layout : kLayouts) {
    for (const std::int64_t k : {1, 3, 33, 129}) {
      for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{29, 70}, {5, 40}, {1, 40}}) {
        const Case c{m, n, k, layout, layout};
        Trial<T> trial(c, 21);
        for (std::int64_t i = 0; i < m; ++i) trial.a(i, k - 1) = T(0.5F);
        trial.b(k - 1, n - 1) = infinity;
        trial.run();
        for (std::int64_t i = 0; i < m; ++i) {
          ASSERT_EQ(wide(trial.c(i, n - 1)), wide(infinity)) << describe(c);
          for (std::int64_t j = 0; j + 1 < n; ++j) {
            ASSERT_TRUE(std::isfinite(wide(trial.c(i, j))))
                << describe(c) << " at " << i << "," << j;
          }
        }
      }
    }
  }
}

// All terms but the last cancel, so the rounding of the result cannot hide that of the sums. With
// unit roundoff u of the sums, |error| ≤ γ_k · Σ|a·b| for any order of k additions,
// γ_k = k·u / (1 − k·u), and the store adds half a unit of the result.
TYPED_TEST(Gemm, SumsOfHalvesAreFloat32) {
  using T = TypeParam;
  const double u = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
  const double stored = std::is_same_v<T, Float16>    ? 0x1p-11
                        : std::is_same_v<T, BFloat16> ? 0x1p-8
                                                      : u;
  for (const Layout layout : kLayouts) {
    for (const std::int64_t half : {16, 150, 1400}) {
      for (const auto& [m, n] :
           {std::pair<std::int64_t, std::int64_t>{40, 70}, {40, 5}, {1, 70}, {40, 1}}) {
        const std::int64_t k = 2 * half + 1;
        const Case c{m, n, k, layout, layout};
        Trial<T> trial(c, 22);
        for (std::int64_t p = 0; p < half; ++p) {
          for (std::int64_t i = 0; i < m; ++i) trial.a(i, half + p) = trial.a(i, p);
          for (std::int64_t j = 0; j < n; ++j) {
            trial.b(half + p, j) = static_cast<T>(-static_cast<double>(wide(trial.b(p, j))));
          }
        }
        for (std::int64_t i = 0; i < m; ++i) trial.a(i, k - 1) = T(0x1p-6F);
        trial.run();
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            double magnitude = 0;
            for (std::int64_t p = 0; p < k; ++p) {
              magnitude += static_cast<double>(std::abs(wide(trial.a(i, p)) * wide(trial.b(p, j))));
            }
            const double expected = 0x1p-6 * static_cast<double>(wide(trial.b(k - 1, j)));
            const double ku = static_cast<double>(k) * u;
            const double sums = ku / (1 - ku) * magnitude;
            ASSERT_LE(std::abs(static_cast<double>(wide(trial.c(i, j))) - expected),
                      sums + stored * (std::abs(expected) + sums))
                << describe(c) << " at " << i << "," << j;
          }
        }
      }
    }
  }
}

// The same operands in every layout, and with any number of threads, give the same bits wherever
// the tiles fall.
TEST(GemmBFloat16, BitsDependOnNeitherLayoutNorThreads) {
  const std::int64_t m = 150, n = 190, k = 2501;
  std::vector<unsigned char> expected;
  for (const Layout a : kLayouts) {
    for (const Layout b : kLayouts) {
      Trial<BFloat16> trial({m, n, k, a, b, true}, 23);
      std::mt19937 random(24);
      const auto draw = [&] {
        return BFloat16(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000);
      };
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t p = 0; p < k; ++p) trial.a(i, p) = draw();
      }
      for (std::int64_t p = 0; p < k; ++p) {
        for (std::int64_t j = 0; j < n; ++j) trial.b(p, j) = draw();
      }
      for (std::int64_t j = 0; j < n; ++j) trial.bias(j) = draw();
      for (const int count : {1, 3}) {
        const Threads threads(count);
        trial.run();
        if (expected.empty()) expected = trial.result_bytes();
        ASSERT_TRUE(trial.result_bytes() == expected)
            << static_cast<int>(a) << "," << static_cast<int>(b) << " threads " << count;
      }
    }
  }
}

// More sums than are kept apart from c at a time, over several blocks of k.
TEST(GemmBFloat16, SeveralBlocksOfEveryDimension) {
  verify<BFloat16>({2100, 1030, 2061, Layout::rows, Layout::columns, true, Activation::relu}, 27);
}

// docs/mixed-precision.md describes this difference.
TEST(GemmBFloat16, SubnormalNumbersAreZeroToTheInstructionAlone) {
  const bool instruction = extensor::detail::has_bfloat16_products();
  EXPECT_EQ(extensor::cpu::kernels<BFloat16>().elements_per_term, instruction ? 2 : 1);
  const auto product = [](float left, float right) {
    Trial<BFloat16> trial({20, 40, 2}, 25);
    for (std::int64_t p = 0; p < 2; ++p) {
      for (std::int64_t i = 0; i < 20; ++i) trial.a(i, p) = BFloat16(p == 0 ? left : 0.0F);
      for (std::int64_t j = 0; j < 40; ++j) trial.b(p, j) = BFloat16(p == 0 ? right : 0.0F);
    }
    trial.run();
    return static_cast<float>(trial.c(19, 39));
  };
  EXPECT_EQ(product(1, 0x1p-126F), 0x1p-126F);
  EXPECT_EQ(product(1, 0x1p-130F), instruction ? 0 : 0x1p-130F);
  EXPECT_EQ(product(0.5F, 0x1p-126F), instruction ? 0 : 0x1p-127F);
  if (!instruction) {
    GTEST_SKIP() << "tested without the instruction only: the processor has no AVX-512 BF16, or "
                    "EXTENSOR_SIMD excludes it";
  }
}

// The target is chosen once per process, so the others run in separate processes.
TEST(GemmTargets, EveryOtherSimdTarget) {
  if (std::getenv("EXTENSOR_SIMD") != nullptr) GTEST_SKIP() << "runs under a chosen target already";
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  ASSERT_GT(length, 0);
  self[length] = 0;
  std::vector<std::string> targets{"scalar", "avx2"};
  if (extensor::detail::has_bfloat16_products()) targets.push_back("avx512");
  for (const std::string& target : targets) {
    const std::string command = "EXTENSOR_SIMD=" + target + " '" + self +
                                "' --gtest_brief=1 --gtest_filter='Gemm/*:GemmBFloat16.*'";
    EXPECT_EQ(std::system(command.c_str()), 0) << target;
  }
}

}  // namespace
