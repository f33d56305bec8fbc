// Passes dense operands to the elementwise losses, piece by piece; halves are widened when read and
// rounded once when written.
#include "backend/cpu/losses/losses.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "backend/checks.h"
#include "backend/cpu/convert.h"
#include "backend/cpu/losses/kernels.h"
#include "backend/cpu/losses/partial_sums.h"
#include "core/parallel.h"

namespace extensor::cpu {

template <>
const LossKernels<float>& loss_kernels(backend::LossOp op) {
  return loss_kernels_float32()[static_cast<int>(op)];
}
template <>
const LossKernels<double>& loss_kernels(backend::LossOp op) {
  return loss_kernels_float64()[static_cast<int>(op)];
}

namespace {

using backend::LossCall;
using backend::LossReduction;

constexpr std::int64_t piece_length = 2048;

template <class T>
class LossRunner {
 public:
  explicit LossRunner(const LossCall& call)
      : call_(call),
        kernels_(loss_kernels<T>(call.op)),
        size_(static_cast<std::int64_t>(itemsize(call.dtype))) {
    if (call.dtype != dtype_of<T>) {
      widen_ = convert_loop(call.dtype, dtype_of<T>);
      narrow_ = convert_loop(dtype_of<T>, call.dtype);
    }
  }

  void forward() const {
    if (call_.reduction == LossReduction::none) {
      return for_each_piece([this](const Piece& piece) {
        T* out = piece.result(call_.out);
        kernels_.values(piece.x, piece.y, out, piece.count, call_.parameters);
        piece.finish(call_.out);
        piece.look_at_range();
      });
    }
    const double total =
        sum_of_pieces(call_.numel, piece_length, [this](std::int64_t begin, std::int64_t end) {
          const Piece piece(*this, begin, end);
          const double sum = kernels_.sum(piece.x, piece.y, piece.count, call_.parameters);
          piece.look_at_range();
          return sum;
        });
    const bool mean = call_.reduction == LossReduction::mean;
    write_number(mean ? total / static_cast<double>(call_.numel) : total, call_.dtype, call_.out);
  }

  void backward() const {
    const T* g = reinterpret_cast<const T*>(call_.g);
    const bool each = call_.reduction == LossReduction::none;
    const double divisor =
        call_.reduction == LossReduction::mean ? static_cast<double>(call_.numel) : 1;
    const T one_g = each || call_.numel == 0 ? T(0) : static_cast<T>(*g / divisor);
    for_each_piece([&](const Piece& piece) {
      const T* factor = each ? g + piece.begin : &one_g;
      if (call_.gradient_x != nullptr) {
        kernels_.gradient_x(piece.x, piece.y, factor, each, piece.result(call_.gradient_x),
                            piece.count, call_.parameters);
        piece.finish(call_.gradient_x);
      }
      if (call_.gradient_y != nullptr) {
        kernels_.gradient_y(piece.x, piece.y, factor, each, piece.result(call_.gradient_y),
                            piece.count, call_.parameters);
        piece.finish(call_.gradient_y);
      }
      piece.look_at_range();
    });
  }

  // Searches for the element that a piece has found outside 0 … 1.
  void note_outside() const {
    if (!outside_.load(std::memory_order_relaxed)) return;
    if (!note_first(call_.x, call_.check_x)) note_first(call_.y, call_.check_y);
  }

 private:
  bool note_first(const std::byte* values, std::uint32_t check) const {
    for (std::int64_t i = 0; i < call_.numel; ++i) {
      T value;
      if (widen_ != nullptr) {
        widen_(values + i * size_, &value, 1);
      } else {
        value = reinterpret_cast<const T*>(values)[i];
      }
      if (!(value < 0 || value > 1)) continue;
      backend::note({check, i, std::bit_cast<std::uint64_t>(static_cast<double>(value))});
      return true;
    }
    return false;
  }

  // x and y of one piece as T, and the destination of its results.
  struct Piece {
    Piece(const LossRunner& runner_, std::int64_t first, std::int64_t end)
        : runner(runner_), begin(first), count(static_cast<std::size_t>(end - first)) {
      x = read(runner.call_.x, wide_x);
      y = read(runner.call_.y, wide_y);
    }
    T* result(std::byte* out) const {
      return runner.narrow_ != nullptr ? wide_out
                                       : reinterpret_cast<T*>(out + begin * runner.size_);
    }
    void finish(std::byte* out) const {
      if (runner.narrow_ != nullptr) {
        runner.narrow_(wide_out, out + begin * runner.size_, count);
      }
    }

    // Runs after the kernel, when the piece is in the cache: the kernel's work hides the latency of
    // memory.
    void look_at_range() const {
      if (runner.call_.check_x == 0) return;
      if (runner.kernels_.is_outside_unit_interval(x, y, count)) {
        runner.outside_.store(true, std::memory_order_relaxed);
      }
    }

    const LossRunner& runner;
    const std::int64_t begin;
    const std::size_t count;
    const T* x;
    const T* y;

   private:
    const T* read(const std::byte* from, T* wide) const {
      const std::byte* source = from + begin * runner.size_;
      if (runner.widen_ == nullptr) return reinterpret_cast<const T*>(source);
      runner.widen_(source, wide, count);
      return wide;
    }

    // Doubles are never widened.
    static constexpr std::size_t room = sizeof(T) == sizeof(float) ? piece_length : 1;
    alignas(64) T wide_x[room];
    alignas(64) T wide_y[room];
    alignas(64) mutable T wide_out[room];
  };

  template <class Body>
  void for_each_piece(Body&& body) const {
    detail::parallel_for(call_.numel, piece_length, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; at += piece_length) {
        body(Piece(*this, at, std::min(end, at + piece_length)));
      }
    });
  }

  const LossCall& call_;
  const LossKernels<T>& kernels_;
  const std::int64_t size_;
  ConvertLoop widen_ = nullptr;
  ConvertLoop narrow_ = nullptr;
  mutable std::atomic<bool> outside_{false};
};

template <class T>
void run(const LossCall& call) {
  const LossRunner<T> runner(call);
  if (call.g == nullptr) {
    runner.forward();
  } else {
    runner.backward();
  }
  runner.note_outside();
}

}  // namespace

void loss(const LossCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
