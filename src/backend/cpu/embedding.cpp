// Gathers rows from a table, and sums gradients into one. The latter sorts the ids by counting, so
// that each row of the table is written once, by one thread, and summed in a fixed order.
#include "backend/cpu/embedding.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cpu/convert.h"
#include "backend/cpu/reduce/kernels.h"
#include "backend/cpu/reduce/pairwise.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::EmbeddingCall;

// Beyond the last-level cache, non-temporal stores avoid reading the lines they overwrite.
constexpr std::int64_t streaming_bytes = std::int64_t{32} << 20;
constexpr std::int64_t thread_bytes = std::int64_t{64} << 10;  // minimum work for another thread
constexpr std::int64_t rows_in_part = 16;  // added sequentially before sums are added in pairs

void gather_rows(const EmbeddingCall& call) {
  const auto bytes = static_cast<std::size_t>(call.width) * itemsize(call.dtype);
  if (bytes == 0) return;
  const auto stride = static_cast<std::int64_t>(bytes);
  const bool stream = call.count * stride >= streaming_bytes && bytes >= 256;
  const std::int64_t grain = std::max<std::int64_t>(1, thread_bytes / stride);
  detail::parallel_for(call.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::byte* from = call.values + call.ids[i] * stride;
      if (stream) {
        stream_copy(from, call.out + i * stride, bytes);
      } else {
        std::memcpy(call.out + i * stride, from, bytes);
      }
    }
    if (stream) stream_fence();
  });
}

// The positions of each id: those of id r are order[first[r]] … order[first[r + 1] − 1], ascending.
struct SortedIds {
  detail::Scratch<std::int64_t> first, order;
  std::int64_t most = 0;  // positions of one id

  explicit SortedIds(const EmbeddingCall& call)
      : first(static_cast<std::size_t>(call.rows) + 1),
        order(static_cast<std::size_t>(call.count)) {
    for (std::int64_t i = 0; i < call.count; ++i) ++first[static_cast<std::size_t>(call.ids[i])];
    std::int64_t before = 0;
    for (std::size_t row = 0; row < first.size(); ++row) {
      const std::int64_t count = first[row];
      most = std::max(most, count);
      first[row] = before;
      before += count;
    }
    detail::Scratch<std::int64_t> next(first.begin(), first.end() - 1);
    for (std::int64_t i = 0; i < call.count; ++i) {
      const auto id = static_cast<std::size_t>(call.ids[i]);
      order[static_cast<std::size_t>(next[id]++)] = i;
    }
  }
};

template <class T>
class RowAdder {
 public:
  explicit RowAdder(const EmbeddingCall& call)
      : call_(call),
        ids_(call),
        width_(static_cast<std::size_t>(call.width)),
        row_bytes_(call.width * static_cast<std::int64_t>(itemsize(call.dtype))),
        stream_(call.rows * row_bytes_ >= streaming_bytes),
        accumulate_(reduce_kernels<T>(backend::ReduceOp::sum).accumulate) {
    if (call.dtype != dtype_of<T>) {
      widen_ = convert_loop(call.dtype, dtype_of<T>);
      narrow_ = convert_loop(dtype_of<T>, call.dtype);
    }
    const auto parts = static_cast<std::uint64_t>((ids_.most + rows_in_part - 1) / rows_in_part);
    levels_ = static_cast<std::size_t>(std::bit_width(parts));
  }

  void run() {
    const std::int64_t grain = std::max<std::int64_t>(1, thread_bytes / row_bytes_);
    const int threads = detail::threads_for(call_.rows + call_.count, grain);
    // Each thread gets the same work: rows to write plus rows to read.
    const std::int64_t work = call_.rows + call_.count;
    detail::Scratch<std::int64_t> bounds(static_cast<std::size_t>(threads) + 1, call_.rows);
    for (std::int64_t t = 0, row = 0; t < threads; ++t) {
      while (row < call_.rows &&
             row + ids_.first[static_cast<std::size_t>(row)] < work * t / threads) {
        ++row;
      }
      bounds[static_cast<std::size_t>(t)] = row;
    }
    // Allocated here, so that running out of memory leaves the result unwritten.
    const std::size_t room = (2 + levels_) * width_;
    detail::Scratch<T> buffers(static_cast<std::size_t>(threads) * room);
    detail::parallel_for(threads, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      add_rows(bounds[static_cast<std::size_t>(begin)], bounds[static_cast<std::size_t>(end)],
               buffers.data() + static_cast<std::size_t>(begin) * room);
      if (stream_) stream_fence();
    });
  }

 private:
  std::int64_t first_of(std::int64_t row) const {
    return ids_.first[static_cast<std::size_t>(row)];
  }
  bool is_empty(std::int64_t row) const {
    return first_of(row) == first_of(row + 1) || row == call_.skipped;
  }

  void add_rows(std::int64_t begin, std::int64_t end, T* buffer) const {
    for (std::int64_t row = begin; row < end;) {
      std::int64_t next = row;
      while (next < end && is_empty(next)) ++next;
      if (next != row) {
        const auto bytes = static_cast<std::size_t>((next - row) * row_bytes_);
        std::byte* target = call_.out + row * row_bytes_;
        stream_ ? stream_zero(target, bytes) : void(std::memset(target, 0, bytes));
      }
      if (next < end) add_row(next, buffer);
      row = next + 1;
    }
  }

  void add_row(std::int64_t row, T* buffer) const {
    std::byte* target = call_.out + row * row_bytes_;
    const std::int64_t begin = first_of(row), end = first_of(row + 1);
    if (end - begin == 1) {
      const std::byte* source = source_of(begin);
      const auto bytes = static_cast<std::size_t>(row_bytes_);
      stream_ ? stream_copy(source, target, bytes) : void(std::memcpy(target, source, bytes));
      return;
    }
    T* total = narrow_ != nullptr ? buffer : reinterpret_cast<T*>(target);
    T* scratch = buffer + width_;
    T* levels = buffer + 2 * width_;
    const std::size_t size = width_ * sizeof(T);
    if (end - begin <= rows_in_part) {
      add_part(begin, end, total, scratch);
    } else {
      PairwiseCounter counter;
      for (std::int64_t part = begin; part < end; part += rows_in_part) {
        add_part(part, std::min(end, part + rows_in_part), total, scratch);
        const int level = counter.add([&](int full) {
          accumulate_(total, levels + static_cast<std::size_t>(full) * width_, width_);
        });
        std::memcpy(levels + static_cast<std::size_t>(level) * width_, total, size);
      }
      bool fresh = true;
      counter.finish([&](int level) {
        const T* sum = levels + static_cast<std::size_t>(level) * width_;
        fresh ? void(std::memcpy(total, sum, size)) : accumulate_(total, sum, width_);
        fresh = false;
      });
    }
    if (narrow_ != nullptr) narrow_(total, target, width_);
  }

  void add_part(std::int64_t begin, std::int64_t end, T* total, T* scratch) const {
    if (widen_ == nullptr) {
      std::memcpy(total, source_of(begin), width_ * sizeof(T));
    } else {
      widen_(source_of(begin), total, width_);
    }
    for (std::int64_t at = begin + 1; at < end; ++at) {
      const T* values = reinterpret_cast<const T*>(source_of(at));
      if (widen_ != nullptr) {
        widen_(source_of(at), scratch, width_);
        values = scratch;
      }
      accumulate_(total, values, width_);
    }
  }

  const std::byte* source_of(std::int64_t at) const {
    return call_.values + ids_.order[static_cast<std::size_t>(at)] * row_bytes_;
  }

  const EmbeddingCall& call_;
  const SortedIds ids_;
  const std::size_t width_;
  const std::int64_t row_bytes_;
  const bool stream_;
  void (*accumulate_)(T*, const T*, std::size_t);
  ConvertLoop widen_ = nullptr;
  ConvertLoop narrow_ = nullptr;
  std::size_t levels_;
};

}  // namespace

void embedding(const EmbeddingCall& call) {
  if (!call.backward) return gather_rows(call);
  if (call.rows == 0 || call.width == 0) return;
  if (call.dtype == DType::float64) return RowAdder<double>(call).run();
  RowAdder<float>(call).run();
}

}  // namespace extensor::cpu
