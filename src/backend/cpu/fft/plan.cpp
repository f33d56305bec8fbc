#include "backend/cpu/fft/plan.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <utility>

#include "backend/cpu/fft/rows.h"

namespace extensor::cpu {

// cos and sin of an angle of at most π/4: other angles are reflected into the first octant, where
// both functions lose nothing. The angle is a double and what its rounding cut off.
FftRoot fft_root(std::uint64_t k, std::uint64_t n) {
  const std::uint64_t quadrant = 4 * k / n;
  std::uint64_t part = 4 * k - quadrant * n;
  const bool reflected = 2 * part > n;
  if (reflected) part = n - part;

  constexpr double quarter = 1.57079632679489661923, quarter_rest = 6.123233995736766e-17;
  const auto above = static_cast<double>(part), below = static_cast<double>(n);
  const double ratio = above / below;
  const double ratio_rest = std::fma(-ratio, below, above) / below;
  const double angle = ratio * quarter;
  const double rest =
      std::fma(ratio, quarter, -angle) + ratio * quarter_rest + ratio_rest * quarter;
  const double cos = std::cos(angle), sin = std::sin(angle);
  FftRoot root = {cos - rest * sin, sin + rest * cos};

  if (reflected) std::swap(root.re, root.im);
  switch (quadrant) {
    case 0:
      return root;
    case 1:
      return {-root.im, root.re};
    case 2:
      return {-root.re, -root.im};
    default:
      return {root.im, -root.re};
  }
}

namespace {

template <class T>
void append(std::vector<T>& to, FftRoot root) {
  to.push_back(static_cast<T>(root.re));
  to.push_back(static_cast<T>(root.im));
}

// Transforms with more numbers than this leave the second-level cache in every pass: two of them,
// the source and the target of a pass, are half a megabyte.
template <class T>
constexpr std::size_t most_in_passes = (std::size_t{1} << 18) / (2 * sizeof(T));

std::size_t largest_prime(std::size_t n) {
  std::size_t largest = 1;
  for (std::size_t prime = 2; prime * prime <= n; ++prime) {
    for (; n % prime == 0; n /= prime) largest = prime;
  }
  return std::max(largest, n);
}

// The radices of the passes in their order. The columns of a pass are the product of the radices
// before it: 4 goes first, since a row of one column has a pass for it, and large odd radices go
// before small ones.
std::vector<std::size_t> radices(std::size_t n) {
  std::vector<std::size_t> found;
  std::size_t twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  if (twos >= 2) {
    found.push_back(4);
    twos -= 2;
    for (; twos == 2 || twos == 4 || (twos > 3 && twos % 3 != 0); twos -= 2) found.push_back(4);
    for (; twos >= 3; twos -= 3) found.push_back(8);
  }
  if (twos == 1) found.push_back(2);
  const auto odd = static_cast<std::ptrdiff_t>(found.size());
  for (std::size_t prime = 3; n > 1; prime += 2) {
    for (; n % prime == 0; n /= prime) found.insert(found.begin() + odd, prime);
  }
  return found;
}

template <class T>
void plan_passes(FftPlan<T>& plan) {
  plan.method = FftPlan<T>::Method::passes;
  std::size_t length = plan.n;
  for (const std::size_t radix : radices(plan.n)) {
    const std::size_t groups = length / radix;
    plan.steps.push_back({radix, plan.twiddles.size() / 2, 0});
    if (groups > 1) {
      for (std::size_t group = 0; group < groups; ++group) {
        for (std::size_t k = 1; k < radix; ++k) {
          append(plan.twiddles, fft_root(group * k % length, length));
        }
      }
    }
    length = groups;
  }
  for (auto& step : plan.steps) {
    step.roots = plan.twiddles.size() / 2;
    if (step.radix % 2 == 0 || step.radix <= 5) continue;
    for (std::size_t k = 0; k < step.radix; ++k) append(plan.twiddles, fft_root(k, step.radix));
  }
  if (plan.steps.size() > 1 && plan.steps[0].radix == 4) {
    for (std::size_t k = 1; k < 4; ++k) {
      for (std::size_t group = 0; group < plan.n / 4; ++group) {
        append(plan.row_twiddles, fft_root(group * k, plan.n));
      }
    }
  }
}

// The plan of a factor of a longer length: passes, however many numbers it has.
template <class T>
std::shared_ptr<const FftPlan<T>> factor_plan(std::size_t n) {
  if (n <= most_in_passes<T>) return fft_plan<T>(n);
  auto plan = std::make_shared<FftPlan<T>>();
  plan->n = n;
  plan_passes(*plan);
  return plan;
}

template <class T>
void plan_split(FftPlan<T>& plan) {
  plan.method = FftPlan<T>::Method::split;
  auto rows = static_cast<std::size_t>(std::sqrt(static_cast<double>(plan.n)));
  while (plan.n % rows != 0) --rows;
  const std::size_t columns = plan.n / rows;
  plan.column_plan = factor_plan<T>(rows);
  plan.row_plan = factor_plan<T>(columns);
  plan.block = 128 / (2 * sizeof(T));  // two lines of the cache
  plan.block_factors.reserve(2 * rows * plan.block);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < plan.block; ++column) {
      append(plan.block_factors, fft_root(row * column % plan.n, plan.n));
    }
  }
  plan.fine_count = std::size_t{1} << 10;
  while (plan.fine_count * plan.fine_count < plan.n) plan.fine_count *= 2;
  for (std::size_t i = 0; i < std::min(plan.fine_count, plan.n); ++i) {
    append(plan.fine, fft_root(i, plan.n));
  }
  for (std::size_t i = 0; i < plan.n; i += plan.fine_count) {
    append(plan.coarse, fft_root(i, plan.n));
  }
}

// The shortest length of at least `n` that passes transform well.
std::size_t convolution_length(std::size_t n) {
  std::size_t best = 4;
  while (best < n) best *= 2;
  for (std::size_t fives = 1; fives < best; fives *= 5) {
    for (std::size_t threes = fives; threes < best; threes *= 3) {
      std::size_t length = 4 * threes;
      while (length < n) length *= 2;
      best = std::min(best, length);
    }
  }
  return best;
}

template <class T>
void plan_bluestein(FftPlan<T>& plan) {
  plan.method = FftPlan<T>::Method::bluestein;
  const std::size_t n = plan.n;
  plan.long_plan = fft_plan<T>(convolution_length(2 * n - 1));
  const std::size_t length = plan.long_plan->n;
  plan.chirp.reserve(2 * n);
  std::vector<double> spectrum(2 * length);
  for (std::size_t k = 0, power = 0; k < n; ++k) {
    const FftRoot root = fft_root(power, 2 * n);
    append(plan.chirp, root);
    for (const std::size_t at : {k, (length - k) % length}) {
      spectrum[2 * at] = root.re;
      spectrum[2 * at + 1] = root.im;
    }
    power = (power + 2 * k + 1) % (2 * n);  // (k + 1)²
  }
  transform_row(*fft_plan<double>(length), spectrum.data(), spectrum.data(), -1.0,
                1.0 / static_cast<double>(length));
  plan.spectrum.assign(spectrum.begin(), spectrum.end());
}

// Values of the lengths used last.
template <class Value>
class Cache {
 public:
  template <class Make>
  std::shared_ptr<const Value> get(std::size_t n, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (entry->n != n) continue;
        entries_.splice(entries_.begin(), entries_, entry);
        return entry->value;
      }
    }
    std::shared_ptr<const Value> value = make();  // without the lock: it may need other plans
    const std::lock_guard lock(mutex_);
    entries_.push_front({n, value});
    numbers_ += n;
    while (entries_.size() > 1 && (entries_.size() > most_entries || numbers_ > most_numbers)) {
      numbers_ -= entries_.back().n;
      entries_.pop_back();
    }
    return value;
  }

 private:
  static constexpr std::size_t most_entries = 64;
  static constexpr std::size_t most_numbers = std::size_t{1} << 21;  // the sum of the lengths

  struct Entry {
    std::size_t n;
    std::shared_ptr<const Value> value;
  };
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last is the first
  std::size_t numbers_ = 0;
};

// Never destroyed: threads may transform until the process ends.
template <class Value>
Cache<Value>& cache() {
  static auto* made = new Cache<Value>;
  return *made;
}

template <class T>
struct RealFactors {
  std::vector<T> values;
};

}  // namespace

template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(std::size_t n) {
  return cache<FftPlan<T>>().get(n, [n] {
    auto plan = std::make_shared<FftPlan<T>>();
    plan->n = n;
    if (largest_prime(n) > largest_fft_radix) {
      plan_bluestein(*plan);
    } else if (n > most_in_passes<T>) {
      plan_split(*plan);
    } else {
      plan_passes(*plan);
    }
    return plan;
  });
}
template std::shared_ptr<const FftPlan<float>> fft_plan(std::size_t);
template std::shared_ptr<const FftPlan<double>> fft_plan(std::size_t);

template <class T>
std::shared_ptr<const std::vector<T>> fft_real_factors(std::size_t n) {
  const auto factors = cache<RealFactors<T>>().get(n, [n] {
    auto made = std::make_shared<RealFactors<T>>();
    for (std::size_t k = 0; k <= n / 4; ++k) append(made->values, fft_root(k, n));
    return made;
  });
  return {factors, &factors->values};
}
template std::shared_ptr<const std::vector<float>> fft_real_factors(std::size_t);
template std::shared_ptr<const std::vector<double>> fft_real_factors(std::size_t);

}  // namespace extensor::cpu
