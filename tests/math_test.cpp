// Vector math: every function, every SIMD target of this machine, against math_reference.h.
// EXTENSOR_EXHAUSTIVE=1 runs the unary float functions on all 2^32 inputs;
// EXTENSOR_MATH_ONLY=Exp,Log restricts the run.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math_test.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "backend/cpu/simd/math-inl.h"
#include "op_database/math_reference.h"

#ifndef EXTENSOR_TESTS_MATH_TABLE_H_
#define EXTENSOR_TESTS_MATH_TABLE_H_
namespace math_test {

template <class T>
struct Kernel {
  const char* name;
  void (*unary)(const T* x, T* result, size_t size);
  void (*binary)(const T* a, const T* b, T* result, size_t size);
};

}  // namespace math_test
#endif  // EXTENSOR_TESTS_MATH_TABLE_H_

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

#define KERNEL(Name, reference)                                \
  template <class T>                                           \
  void Name##Array(const T* x, T* result, size_t size) {       \
    const hn::ScalableTag<T> d;                                \
    for (size_t i = 0; i < size; i += hn::Lanes(d)) {          \
      hn::StoreU(Name(d, hn::LoadU(d, x + i)), d, result + i); \
    }                                                          \
  }
EXTENSOR_MATH_UNARY(KERNEL)
#undef KERNEL
#define KERNEL(Name, reference)                                                     \
  template <class T>                                                                \
  void Name##Array(const T* a, const T* b, T* result, size_t size) {                \
    const hn::ScalableTag<T> d;                                                     \
    for (size_t i = 0; i < size; i += hn::Lanes(d)) {                               \
      hn::StoreU(Name(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, result + i); \
    }                                                                               \
  }
EXTENSOR_MATH_BINARY(KERNEL)
#undef KERNEL

template <class T>
const math_test::Kernel<T>* MathKernels() {
  static const math_test::Kernel<T> kernels[] = {
#define ROW(Name, reference) {#Name, &Name##Array<T>, nullptr},
      EXTENSOR_MATH_UNARY(ROW)
#undef ROW
#define ROW(Name, reference) {#Name, nullptr, &Name##Array<T>},
          EXTENSOR_MATH_BINARY(ROW)
#undef ROW
  };
  return kernels;
}

// The tests select a target's instantiation through plain functions, without Highway's run-time
// library.
const math_test::Kernel<float>* FloatKernels() { return MathKernels<float>(); }
const math_test::Kernel<double>* DoubleKernels() { return MathKernels<double>(); }

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "extensor/threads.h"

namespace math_test {
namespace {

template <class T>
struct Target {
  const char* name;
  const Kernel<T>* kernels;
};

#define TARGET(NS)                                                                  \
  if constexpr (std::is_same_v<T, float>) {                                         \
    targets.push_back({#NS, (const Kernel<T>*)extensor::cpu::NS::FloatKernels()});  \
  } else {                                                                          \
    targets.push_back({#NS, (const Kernel<T>*)extensor::cpu::NS::DoubleKernels()}); \
  }

template <class T>
std::vector<Target<T>> available_targets() {
  std::vector<Target<T>> targets;
#if HWY_TARGETS & HWY_SCALAR
  TARGET(N_SCALAR)
#endif
#if HWY_TARGETS & HWY_EMU128
  TARGET(N_EMU128)
#endif
#if HWY_TARGETS & HWY_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    TARGET(N_AVX2)
  }
#endif
#if HWY_TARGETS & HWY_AVX3
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    TARGET(N_AVX3)
  }
#endif
#if HWY_TARGETS & HWY_AVX3_DL
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni")) {
    TARGET(N_AVX3_DL)
  }
#endif
  return targets;
}

template <class T>
using WideOf = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class T>
struct Reference {
  const char* name;
  WideOf<T> (*unary)(T);
  WideOf<T> (*binary)(T, T);
};

template <class T>
std::vector<Reference<T>> references() {
  using W = WideOf<T>;
  return {
#define ROW(Name, reference) \
  {#Name,                    \
   [](T lane) -> W {         \
     const W x = lane;       \
     return reference;       \
   },                        \
   nullptr},
      EXTENSOR_MATH_UNARY(ROW)
#undef ROW
#define ROW(Name, reference)                    \
  {#Name, nullptr, [](T first, T second) -> W { \
     const W a = first, b = second;             \
     return reference;                          \
   }},
          EXTENSOR_MATH_BINARY(ROW)
#undef ROW
  };
}

// The distance from the exact value in units of its last place. NaN and infinities must match; an
// infinity next to the largest finite number counts as the next power of two.
template <class T>
double ulp_error(T got, WideOf<T> exact) {
  using W = WideOf<T>;
  using Limits = std::numeric_limits<T>;
  if (exact != exact || got != got) return (exact != exact) == (got != got) ? 0 : 1e30;
  const T rounded = static_cast<T>(exact);
  if (got == rounded) {
    if (got == 0) return std::signbit(got) == std::signbit(exact) || exact != 0 ? 0 : 1e30;
    if (std::isinf(got)) return 0;
    return W(got) == exact ? 0 : 0.5;  // Correctly rounded: no need for the exact distance.
  }
  const W bound = std::ldexp(W(1), Limits::max_exponent);
  const W value = std::isinf(got) ? std::copysign(bound, W(got)) : W(got);
  const W target = std::abs(exact) > bound ? std::copysign(bound, exact) : exact;
  int exponent = 0;
  std::frexp(target, &exponent);
  exponent = std::max(exponent, Limits::min_exponent) - Limits::digits;
  if (exact == 0) exponent = Limits::min_exponent - Limits::digits;
  return static_cast<double>(std::abs(value - target) / std::ldexp(W(1), exponent));
}

struct Worst {
  double error = -1;
  double a = 0, b = 0, got = 0, exact = 0;
};

bool selected(const char* name) {
  const char* only = std::getenv("EXTENSOR_MATH_ONLY");
  if (only == nullptr) return true;
  std::string list(",");
  list.append(only).append(",");
  std::string item(",");
  item.append(name).append(",");
  return list.find(item) != std::string::npos;
}

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           Limits::denorm_min(),
                           Limits::denorm_min() * 3,
                           Limits::min(),
                           Limits::min() * T(0.99),
                           Limits::max(),
                           Limits::max() / 2,
                           Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::epsilon(),
                           T(0.49999997),
                           T(0.5),
                           T(1),
                           std::nextafter(T(1), T(0)),
                           std::nextafter(T(1), T(2)),
                           T(1.5),
                           T(2),
                           T(2.5),
                           T(3),
                           T(0.1),
                           T(10),
                           T(88),
                           T(88.72284),
                           T(104),
                           T(709.782712893384),
                           T(745.2),
                           T(1e4),
                           T(1e5),
                           T(1e10),
                           T(16777215),
                           T(16777216),
                           T(16777217),
                           T(9007199254740991.0),
                           T(9007199254740993.0),
                           T(1e20),
                           T(1e30)};
  // Their negatives lie beside zeros of lgamma and digamma.
  for (double x : {2.4570247382208006, 2.747682646727413, 3.955294284858598, 0.5040830082644554,
                   5.6671624415568855, 87.80536027839507}) {
    values.push_back(static_cast<T>(x));
  }
  const size_t size = values.size();
  for (size_t i = 0; i < size; ++i) values.push_back(-values[i]);
  return values;
}

// Runs one function on `size` inputs per block on every target and records the worst lane of each.
template <class T>
class Checker {
 public:
  explicit Checker(size_t index) : index_(index), reference_(references<T>()[index]) {
    targets_ = available_targets<T>();
    worst_.resize(targets_.size());
  }

  void check(const std::vector<T>& a, const std::vector<T>& b) {
    using W = WideOf<T>;
    std::vector<W> exact(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      exact[i] = reference_.unary ? reference_.unary(a[i]) : reference_.binary(a[i], b[i]);
    }
    std::vector<T> got(a.size());
    for (size_t t = 0; t < targets_.size(); ++t) {
      const Kernel<T>& kernel = targets_[t].kernels[index_];
      if (kernel.unary) {
        kernel.unary(a.data(), got.data(), a.size());
      } else {
        kernel.binary(a.data(), b.data(), got.data(), a.size());
      }
      Worst worst;
      for (size_t i = 0; i < a.size(); ++i) {
        const double error = ulp_error(got[i], exact[i]);
        if (error > worst.error) {
          worst = {error, double(a[i]), b.empty() ? 0 : double(b[i]), double(got[i]),
                   double(exact[i])};
        }
      }
      const std::lock_guard lock(mutex_);
      if (worst.error > worst_[t].error) worst_[t] = worst;
    }
  }

  void report(double limit) const {
    for (size_t t = 0; t < targets_.size(); ++t) {
      const Worst& w = worst_[t];
      std::printf("%-12s %s %-9s max %.4f ULP at (%.17g, %.17g): %.17g, exact %.17g\n",
                  reference_.name, sizeof(T) == 4 ? "f32" : "f64", targets_[t].name, w.error, w.a,
                  w.b, w.got, w.exact);
      std::fflush(stdout);
      EXPECT_LE(w.error, limit) << reference_.name << " " << targets_[t].name << " at " << w.a
                                << ", " << w.b;
    }
  }

  bool binary() const { return reference_.binary != nullptr; }
  const char* name() const { return reference_.name; }

 private:
  size_t index_;
  Reference<T> reference_;
  std::vector<Target<T>> targets_;
  std::vector<Worst> worst_;
  std::mutex mutex_;  // protects worst_
};

constexpr size_t kBlock = 1 << 14;
constexpr double kLimit = 2.0;

// Correctly rounded or exact: no error is allowed.
double limit_of(const std::string& name) {
  for (const char* exact :
       {"Round", "Floor", "Ceil", "Trunc", "CopySign", "FloorMod", "FloorDivide"}) {
    if (name == exact) return 0.501;
  }
  return kLimit;
}

template <class T>
std::vector<T> padded(std::vector<T> values) {
  while (values.size() % 64 != 0) values.push_back(values.back());
  return values;
}

void check_all_floats(Checker<float>& checker, uint64_t stride) {
  const uint64_t count = ((uint64_t{1} << 32) + stride - 1) / stride;
  const auto blocks = static_cast<int64_t>((count + kBlock - 1) / kBlock);
  extensor::detail::parallel_tasks(extensor::get_num_threads(), blocks, [&](int64_t block) {
    const uint64_t start = static_cast<uint64_t>(block) * kBlock;
    std::vector<float> x(kBlock);
    for (size_t i = 0; i < kBlock; ++i) {
      const auto bits = static_cast<uint32_t>((start + i) * stride);
      std::memcpy(&x[i], &bits, 4);
    }
    checker.check(x, {});
  });
}

template <class T>
T random_bits(std::mt19937_64& engine) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const Bits bits = static_cast<Bits>(engine());
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// A mix: any bit pattern, common magnitudes, near one, near the limits of the exponential.
template <class T>
T random_input(std::mt19937_64& engine, size_t kind) {
  std::uniform_real_distribution<double> unit(-1, 1);
  switch (kind % 8) {
    case 0:
      return random_bits<T>(engine);
    case 1:
      return static_cast<T>(unit(engine) * 10);
    case 2:
      return static_cast<T>(unit(engine));
    case 3:
      return static_cast<T>(1 + unit(engine) * 0.1);
    case 4:
      return static_cast<T>(unit(engine) * 1100);
    case 5:
      return static_cast<T>(unit(engine) * 50);
    case 6:
      return static_cast<T>(std::ldexp(unit(engine), static_cast<int>(unit(engine) * 40)));
    default:
      return static_cast<T>(std::nearbyint(unit(engine) * 40));
  }
}

template <class T>
void check_random(Checker<T>& checker, size_t blocks) {
  const int threads = extensor::get_num_threads();
  extensor::detail::parallel_tasks(threads, static_cast<int64_t>(blocks), [&](int64_t index) {
    const auto block = static_cast<size_t>(index);
    std::mt19937_64 engine(block + 1);
    std::vector<T> a(1024), b(checker.binary() ? 1024 : 0);
    for (size_t i = 0; i < a.size(); ++i) a[i] = random_input<T>(engine, block + (i & 1) * (i / 2));
    for (size_t i = 0; i < b.size(); ++i) b[i] = random_input<T>(engine, block + (i & 1) * (i / 2));
    for (size_t i = 0; i < b.size(); ++i) b[i] = (engine() & 3) ? b[i] : random_input<T>(engine, i);
    checker.check(a, b);
  });
}

template <class T>
void check_specials(Checker<T>& checker) {
  const std::vector<T> values = special_values<T>();
  if (!checker.binary()) return checker.check(padded(values), {});
  std::vector<T> a, b;
  for (T first : values) {
    for (T second : values) a.push_back(first), b.push_back(second);
  }
  checker.check(padded(a), padded(b));
}

template <class T>
void check_function(size_t index) {
  Checker<T> checker(index);
  if (!selected(checker.name())) return;
  const bool exhaustive = std::getenv("EXTENSOR_EXHAUSTIVE") != nullptr;
  const char* scale = std::getenv("EXTENSOR_MATH_SCALE");
  const size_t factor = scale ? std::strtoul(scale, nullptr, 10) : 1;
  check_specials(checker);
  if constexpr (std::is_same_v<T, float>) {
    if (!checker.binary()) {
      check_all_floats(checker, exhaustive ? 1 : 3989 / factor);
    }
  }
  check_random(checker, (checker.binary() ? 128 : 64) * factor);
  checker.report(limit_of(checker.name()));
}

TEST(Math, Float) {
  for (size_t i = 0; i < references<float>().size(); ++i) check_function<float>(i);
}

TEST(Math, Double) {
  if (std::getenv("EXTENSOR_EXHAUSTIVE")) return;
  for (size_t i = 0; i < references<double>().size(); ++i) check_function<double>(i);
}

}  // namespace
}  // namespace math_test
#endif  // HWY_ONCE
