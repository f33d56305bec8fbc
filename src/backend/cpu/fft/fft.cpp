// Transforms of all lines of a tensor along one axis. Dense rows, and columns that are adjacent,
// are read and written by the passes themselves; other lines are gathered into blocks of columns.
//
// The kernels are the library's own: of the free libraries, FFTW is under the GPL, and pocketfft is
// distributed only as a part of others.
#include "backend/cpu/fft/fft.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "backend/cpu/fft/rows.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::FftCall;
using backend::FftKind;

// Lines of a block: 128 bytes of complex64.
constexpr std::size_t most_lines = 16;

// Shorter rows are transformed several at a time.
constexpr std::size_t least_row = 64;

// A length is split between this many numbers for each thread at least.
constexpr std::size_t least_numbers = std::size_t{1} << 14;

template <class T>
class Transform {
 public:
  explicit Transform(const FftCall& call)
      : in_(reinterpret_cast<const T*>(call.in)),
        out_(reinterpret_cast<T*>(call.out)),
        kind_(call.kind),
        inverse_(call.inverse),
        n_(static_cast<std::size_t>(call.n)),
        outer_(static_cast<std::size_t>(call.outer)),
        inner_(static_cast<std::size_t>(call.inner)),
        in_length_(static_cast<std::size_t>(call.in_length)),
        scale_(static_cast<T>(call.scale)) {
    half_ = kind_ != FftKind::complex_to_complex && n_ % 2 == 0;
    plan_ = fft_plan<T>(half_ ? n_ / 2 : n_);
    if (half_) factors_ = fft_real_factors<T>(n_);
    const std::size_t spectrum = n_ / 2 + 1;
    out_length_ = kind_ == FftKind::real_to_complex ? spectrum : n_;
    needed_ = std::min(in_length_, kind_ == FftKind::complex_to_real ? spectrum : n_);
    // A real transform of half the length is forward from real numbers and inverse to them.
    switch (kind_) {
      case FftKind::complex_to_complex:
        sign_ = inverse_ ? T(1) : T(-1);
        break;
      case FftKind::real_to_complex:
        sign_ = T(-1);
        break;
      case FftKind::complex_to_real:
        sign_ = T(1);
        break;
    }
    core_scale_ = half_ && kind_ == FftKind::real_to_complex ? scale_ / 2 : scale_;
  }

  void run() const {
    const std::size_t lines = outer_ * inner_;
    if (lines == 0) return;
    const bool passes = plan_->method == FftPlan<T>::Method::passes;
    const bool whole = kind_ == FftKind::complex_to_complex && in_length_ >= n_;
    const bool rows = !passes || (n_ >= least_row && !plan_->row_twiddles.empty());
    if (whole && inner_ == 1 && (rows || lines == 1)) {
      return for_blocks(lines, 1, n_, 0, [&](std::size_t line, std::size_t, T*) {
        transform_row(*plan_, in_ + 2 * line * in_length_, out_ + 2 * line * n_, sign_, scale_);
      });
    }
    if (whole && inner_ >= 4 && passes && (in_ != out_ || plan_->steps.size() > 1)) {
      const std::size_t width = std::min(block_lines(), inner_);
      const std::size_t blocks = (inner_ + width - 1) / width;
      const auto columns = [&](std::size_t block, std::size_t, T* work) {
        const std::size_t outer = block / blocks, first = block % blocks * width;
        transform_columns(*plan_, in_ + 2 * (outer * in_length_ * inner_ + first), inner_,
                          out_ + 2 * (outer * n_ * inner_ + first), inner_,
                          std::min(width, inner_ - first), sign_, scale_, work);
      };
      return for_blocks(outer_ * blocks, 1, n_ * width, 2 * n_ * width, columns);
    }
    const bool row = !passes || (inner_ == 1 && half_ && rows);
    const std::size_t block = row ? 1 : std::min(block_lines(), lines);
    for_blocks(
        lines, block, block * plan_->n, 3 * block * plan_->n,
        [&](std::size_t first, std::size_t count, T* work) { gathered(first, count, work); });
  }

 private:
  // As many lines as fill two lines of the cache, fewer of long ones.
  std::size_t block_lines() const {
    constexpr std::size_t size = 2 * sizeof(T);
    std::size_t lines = 128 / size;
    while (lines > 64 / size && 3 * size * lines * plan_->n > (std::size_t{1} << 19)) lines /= 2;
    return lines;
  }

  // Calls body(first, count, work) on blocks of at most `block` items, which have `numbers`
  // complex numbers, with room for `scratch` of them.
  template <class Body>
  void for_blocks(std::size_t items, std::size_t block, std::size_t numbers, std::size_t scratch,
                  const Body& body) const {
    const std::size_t blocks = (items + block - 1) / block;
    const std::size_t grain = std::max<std::size_t>(1, least_numbers / numbers);
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      const FftWorkspace<T> work(scratch);
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        body(i * block, std::min(block, items - i * block), work.data());
      }
    };
    // A single block may use the threads itself.
    if (blocks == 1) return run(0, 1);
    detail::parallel_for(static_cast<std::int64_t>(blocks), static_cast<std::int64_t>(grain), run);
  }

  struct Lines {
    std::size_t count;
    std::array<std::size_t, most_lines> in, out;  // the first number of each
  };

  Lines lines_at(std::size_t first, std::size_t count) const {
    Lines lines{count, {}, {}};
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t outer = (first + i) / inner_, inner = (first + i) % inner_;
      lines.in[i] = outer * in_length_ * inner_ + inner;
      lines.out[i] = outer * out_length_ * inner_ + inner;
    }
    return lines;
  }

  void gathered(std::size_t first, std::size_t count, T* work) const {
    const Lines lines = lines_at(first, count);
    T* const block = work + 4 * plan_->n * count;
    const bool row = count == 1 && inner_ == 1 && half_;
    const T* from = block;
    T* to = block;
    if (row && kind_ == FftKind::real_to_complex && in_length_ >= n_) {
      from = in_ + lines.in[0];  // pairs of real numbers are the complex numbers of half the length
    } else {
      gather(lines, block);
    }
    if (row && kind_ == FftKind::complex_to_real) to = out_ + lines.out[0];
    if (plan_->method != FftPlan<T>::Method::passes) {
      transform_row(*plan_, from, to, sign_, core_scale_);
    } else if (plan_->steps.size() == 1 && from == to) {
      T* const copy = work + 2 * plan_->n * count;
      std::copy_n(from, 2 * plan_->n * count, copy);
      transform_columns(*plan_, copy, count, to, count, count, sign_, core_scale_, work);
    } else {
      transform_columns(*plan_, from, count, to, count, count, sign_, core_scale_, work);
    }
    if (to == block) scatter(lines, block);
  }

  // ---- gathering

  void gather(const Lines& lines, T* block) const {
    switch (kind_) {
      case FftKind::complex_to_complex:
        return gather_complex(lines, block);
      case FftKind::real_to_complex:
        return half_ ? gather_pairs(lines, block) : gather_real(lines, block);
      case FftKind::complex_to_real:
        return half_ ? fold_spectrum(lines, block) : gather_spectrum(lines, block);
    }
  }

  void gather_complex(const Lines& lines, T* block) const {
    for (std::size_t k = 0; k < needed_; ++k) {
      for (std::size_t i = 0; i < lines.count; ++i) {
        const T* from = in_ + 2 * (lines.in[i] + k * inner_);
        *block++ = from[0];
        *block++ = from[1];
      }
    }
    std::fill_n(block, 2 * (n_ - needed_) * lines.count, T(0));
  }

  void gather_pairs(const Lines& lines, T* block) const {
    for (std::size_t k = 0; k < n_; k += 2) {
      for (std::size_t i = 0; i < lines.count; ++i) {
        const T* from = in_ + lines.in[i] + k * inner_;
        *block++ = k < needed_ ? from[0] : T(0);
        *block++ = k + 1 < needed_ ? from[inner_] : T(0);
      }
    }
  }

  void gather_real(const Lines& lines, T* block) const {
    for (std::size_t k = 0; k < n_; ++k) {
      for (std::size_t i = 0; i < lines.count; ++i) {
        *block++ = k < needed_ ? in_[lines.in[i] + k * inner_] : T(0);
        *block++ = T(0);
      }
    }
  }

  // Number k of a spectrum, whose transform is inverse.
  struct Number {
    T re, im;
  };
  Number spectrum_at(std::size_t line, std::size_t k) const {
    if (k >= needed_) return {T(0), T(0)};
    const T* from = in_ + 2 * (line + k * inner_);
    if (k == 0 || 2 * k == n_) return {from[0], T(0)};
    return {from[0], inverse_ ? from[1] : -from[1]};
  }

  void gather_spectrum(const Lines& lines, T* block) const {
    for (std::size_t i = 0; i < lines.count; ++i) {
      for (std::size_t k = 0; k <= n_ / 2; ++k) {
        const Number x = spectrum_at(lines.in[i], k);
        T* to = block + 2 * (k * lines.count + i);
        to[0] = x.re;
        to[1] = x.im;
        if (k == 0) continue;
        T* mirrored = block + 2 * ((n_ - k) * lines.count + i);
        mirrored[0] = x.re;
        mirrored[1] = -x.im;
      }
    }
  }

  // The transform of half the length whose complex results are pairs of real ones: with h = n / 2,
  // z[k] = (x[k] + conj x[h - k]) + i * root(n)^k * (x[k] - conj x[h - k]).
  void fold_spectrum(const Lines& lines, T* block) const {
    const std::size_t half = n_ / 2;
    for (std::size_t k = 0; 2 * k <= half; ++k) {
      const T cos = (*factors_)[2 * k], sin = (*factors_)[2 * k + 1];
      for (std::size_t i = 0; i < lines.count; ++i) {
        const Number a = spectrum_at(lines.in[i], k), b = spectrum_at(lines.in[i], half - k);
        const Number sum = {a.re + b.re, a.im - b.im}, difference = {a.re - b.re, a.im + b.im};
        const Number odd = {difference.re * cos - difference.im * sin,
                            difference.re * sin + difference.im * cos};
        T* low = block + 2 * (k * lines.count + i);
        low[0] = sum.re - odd.im;
        low[1] = sum.im + odd.re;
        if (k == 0) continue;
        T* high = block + 2 * ((half - k) * lines.count + i);
        high[0] = sum.re + odd.im;
        high[1] = odd.re - sum.im;
      }
    }
  }

  // ---- scattering

  void scatter(const Lines& lines, const T* block) const {
    switch (kind_) {
      case FftKind::complex_to_complex:
        return scatter_complex(lines, block, T(1));
      case FftKind::real_to_complex:
        return half_ ? unfold_spectrum(lines, block)
                     : scatter_complex(lines, block, inverse_ ? T(-1) : T(1));
      case FftKind::complex_to_real:
        return half_ ? scatter_pairs(lines, block) : scatter_real(lines, block);
    }
  }

  void scatter_complex(const Lines& lines, const T* block, T im_sign) const {
    for (std::size_t k = 0; k < out_length_; ++k) {
      for (std::size_t i = 0; i < lines.count; ++i) {
        T* to = out_ + 2 * (lines.out[i] + k * inner_);
        to[0] = *block++;
        to[1] = im_sign * *block++;
      }
    }
  }

  void scatter_pairs(const Lines& lines, const T* block) const {
    for (std::size_t k = 0; k < n_; k += 2) {
      for (std::size_t i = 0; i < lines.count; ++i) {
        T* to = out_ + lines.out[i] + k * inner_;
        to[0] = *block++;
        to[inner_] = *block++;
      }
    }
  }

  void scatter_real(const Lines& lines, const T* block) const {
    for (std::size_t k = 0; k < n_; ++k) {
      for (std::size_t i = 0; i < lines.count; ++i, block += 2) {
        out_[lines.out[i] + k * inner_] = block[0];
      }
    }
  }

  // The opposite of fold_spectrum, with the factor 1/2 in the scale of the transform.
  void unfold_spectrum(const Lines& lines, const T* block) const {
    const std::size_t half = n_ / 2;
    const T im_sign = inverse_ ? T(-1) : T(1);
    for (std::size_t k = 0; 2 * k <= half; ++k) {
      const T cos = (*factors_)[2 * k], sin = (*factors_)[2 * k + 1];
      const std::size_t opposite = k == 0 ? 0 : half - k;
      for (std::size_t i = 0; i < lines.count; ++i) {
        const T* a = block + 2 * (k * lines.count + i);
        const T* b = block + 2 * (opposite * lines.count + i);
        const Number sum = {a[0] + b[0], a[1] - b[1]}, difference = {a[0] - b[0], a[1] + b[1]};
        // -i * root(n)^-k * difference
        const Number odd = {difference.im * cos - difference.re * sin,
                            -(difference.re * cos + difference.im * sin)};
        T* low = out_ + 2 * (lines.out[i] + k * inner_);
        low[0] = sum.re + odd.re;
        low[1] = im_sign * (sum.im + odd.im);
        T* high = out_ + 2 * (lines.out[i] + (half - k) * inner_);
        high[0] = sum.re - odd.re;
        high[1] = im_sign * (odd.im - sum.im);
      }
    }
  }

  const T* in_;
  T* out_;
  FftKind kind_;
  bool inverse_;
  std::size_t n_, outer_, inner_, in_length_;
  T scale_;

  bool half_;  // real numbers of an even length: transformed as half as many complex ones
  std::shared_ptr<const FftPlan<T>> plan_;
  std::shared_ptr<const std::vector<T>> factors_;
  std::size_t out_length_;
  std::size_t needed_;  // numbers of a line of the input that are read
  T sign_ = T(-1);      // of the complex transform
  T core_scale_;
};

}  // namespace

void fft(const FftCall& call) {
  call.is_double ? Transform<double>(call).run() : Transform<float>(call).run();
}

}  // namespace extensor::cpu
