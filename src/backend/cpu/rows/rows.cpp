// Passes dense rows to the row kernels: directly if the axis is the last one, otherwise through a
// transposed group of rows; halves are widened when read and rounded once when written.
#include "backend/cpu/rows/rows.h"

#include <algorithm>

#include "backend/cpu/convert.h"
#include "backend/cpu/rows/kernels.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::RowCall;
using backend::RowOp;

constexpr std::int64_t rows_together = 16;  // a cache line of float32 columns

template <class T>
void run_kernel(RowOp op, const T* x, const T* y, T* out, std::size_t n) {
  const RowKernels<T>& kernels = row_kernels<T>();
  switch (op) {
    case RowOp::softmax:
      return kernels.softmax(x, out, n);
    case RowOp::log_softmax:
      return kernels.log_softmax(x, out, n);
    case RowOp::logsumexp:
      *out = kernels.logsumexp(x, n);
      return;
    case RowOp::softmax_backward:
      return kernels.softmax_backward(x, y, out, n);
    case RowOp::log_softmax_backward:
      return kernels.log_softmax_backward(x, y, out, n);
  }
}

template <class T>
class RowRunner {
 public:
  explicit RowRunner(const RowCall& call)
      : call_(call),
        size_(static_cast<std::int64_t>(itemsize(call.dtype))),
        out_length_(call.op == RowOp::logsumexp ? 1 : call.length) {
    if (call.dtype != dtype_of<T>) {
      widen_ = convert_loop(call.dtype, dtype_of<T>);
      narrow_ = convert_loop(dtype_of<T>, call.dtype);
    }
  }

  void run() {
    const std::int64_t groups = (call_.inner + rows_together - 1) / rows_together;
    const bool direct = call_.inner == 1 && widen_ == nullptr;
    const std::int64_t units = call_.outer * groups;
    const std::int64_t unit_elements = group_elements();
    const std::int64_t grain = std::max<std::int64_t>(1, 4096 / unit_elements);
    const int threads = detail::threads_for(units, grain);
    // Allocated here, so that the result stays unwritten if memory runs out.
    const std::size_t buffer_elements = direct ? 0 : static_cast<std::size_t>(unit_elements);
    detail::Scratch<T> buffers(static_cast<std::size_t>(threads) * 3 * buffer_elements);
    detail::Scratch<std::byte> raw(
        call_.inner > 1 ? static_cast<std::size_t>(threads) * buffer_elements * sizeof(T) : 0);
    detail::parallel_for(
        threads, units, grain, [&](std::int64_t begin, std::int64_t end, int slot) {
          const auto thread = static_cast<std::size_t>(slot);
          T* buffer = buffers.data() + thread * 3 * buffer_elements;
          std::byte* raw_buffer = raw.data() + thread * buffer_elements * sizeof(T);
          for (std::int64_t unit = begin; unit < end; ++unit) {
            if (direct) {
              run_direct(unit);
            } else {
              run_group(unit / groups, unit % groups * rows_together, buffer, raw_buffer);
            }
          }
        });
  }

 private:
  const std::byte* row_of(const std::byte* base, std::int64_t row) const {
    return base == nullptr ? nullptr : base + row * call_.length * size_;
  }

  void run_direct(std::int64_t row) const {
    run_kernel(call_.op, reinterpret_cast<const T*>(row_of(call_.x, row)),
               reinterpret_cast<const T*>(row_of(call_.y, row)),
               reinterpret_cast<T*>(call_.out + row * out_length_ * size_),
               static_cast<std::size_t>(call_.length));
  }

  // The elements of the largest group: long rows form small groups if they have few neighbours.
  std::int64_t group_elements() const {
    return std::min(rows_together, call_.inner) * call_.length;
  }

  // Up to rows_together neighbouring rows of one outer index.
  void run_group(std::int64_t outer, std::int64_t first, T* buffer, std::byte* raw) const {
    const std::int64_t count = std::min(rows_together, call_.inner - first);
    const std::int64_t group = group_elements();
    T* x = buffer;
    T* y = buffer + group;
    T* out = buffer + 2 * group;
    read(call_.x, outer, first, count, x, raw);
    if (call_.y != nullptr) read(call_.y, outer, first, count, y, raw);
    for (std::int64_t row = 0; row < count; ++row) {
      run_kernel(call_.op, x + row * call_.length, y + row * call_.length, out + row * out_length_,
                 static_cast<std::size_t>(call_.length));
    }
    write(out, outer, first, count, raw);
  }

  void read(const std::byte* from, std::int64_t outer, std::int64_t first, std::int64_t count,
            T* to, std::byte* raw) const {
    const std::byte* source = from + (outer * call_.length * call_.inner + first) * size_;
    const auto elements = static_cast<std::size_t>(count * call_.length);
    if (call_.inner == 1) return widen_(source, to, elements);
    std::byte* dense = widen_ == nullptr ? reinterpret_cast<std::byte*>(to) : raw;
    gather_transposed(source, 1, call_.inner, dense, static_cast<std::size_t>(call_.length),
                      static_cast<std::size_t>(count), static_cast<std::size_t>(call_.length),
                      static_cast<std::size_t>(size_));
    if (widen_ != nullptr) widen_(dense, to, elements);
  }

  void write(const T* from, std::int64_t outer, std::int64_t first, std::int64_t count,
             std::byte* raw) const {
    std::byte* target = call_.out + (outer * out_length_ * call_.inner + first) * size_;
    const auto elements = static_cast<std::size_t>(count * out_length_);
    const auto* dense = reinterpret_cast<const std::byte*>(from);
    if (narrow_ != nullptr) {
      std::byte* narrowed = call_.inner == 1 ? target : raw;
      narrow_(from, narrowed, elements);
      dense = narrowed;
    }
    if (call_.inner == 1) return;
    gather_transposed(dense, 1, out_length_, target, static_cast<std::size_t>(call_.inner),
                      static_cast<std::size_t>(out_length_), static_cast<std::size_t>(count),
                      static_cast<std::size_t>(size_));
  }

  const RowCall& call_;
  const std::int64_t size_, out_length_;
  ConvertLoop widen_ = nullptr;
  ConvertLoop narrow_ = nullptr;
};

}  // namespace

void rows(const RowCall& call) {
  if (call.outer == 0 || call.length == 0 || call.inner == 0) return;
  if (call.dtype == DType::float64) return RowRunner<double>(call).run();
  RowRunner<float>(call).run();
}

}  // namespace extensor::cpu
