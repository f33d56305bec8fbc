#include "backend/cpu/reduce/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backend/cpu/convert.h"
#include "backend/cpu/reduce/kernels.h"
#include "backend/cpu/reduce/pairwise.h"
#include "backend/plan/reduce_plan.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::ReduceCall;
using backend::ReduceOp;
using plan::ReducePlan;

constexpr std::int64_t block_size = 1024;             // elements reduced at once
constexpr std::int64_t chunk_size = 64 * block_size;  // elements of one result per unit of work
constexpr std::int64_t group_rows = 16;               // rows accumulated in sequence
constexpr std::int64_t chunk_rows = 512;              // rows of a tile per unit of work
constexpr std::size_t tile_bytes = 16384;             // of a row at a time: long runs prefetch well
constexpr int max_levels = 48;
// Levels for the groups of one unit of rows: a chunk, or the remainder of a tile of narrow rows.
constexpr int row_levels = 12;
static_assert((std::int64_t{1} << (row_levels - 1)) * group_rows >
              std::max<std::int64_t>(chunk_rows, tile_bytes));

bool finds_position(ReduceOp op) { return op == ReduceOp::argmax || op == ReduceOp::argmin; }

std::int64_t product(const Dims& sizes) {
  std::int64_t result = 1;
  for (std::int64_t size : sizes) result *= size;
  return result;
}

// The offset, in elements, of position `linear` of a list of dimensions.
std::int64_t offset_of(const Dims& sizes, const Dims& strides, std::int64_t linear) {
  std::int64_t offset = 0;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    offset += linear % sizes[d] * strides[d];
    linear /= sizes[d];
  }
  return offset;
}

template <class T>
struct Partial {
  T value;
  std::int64_t position;
};

// One reduction, computed entirely in T.
template <class T>
class Reduction {
 public:
  Reduction(const ReduceCall& call, const ReducePlan& plan)
      : call_(call),
        plan_(plan),
        kernels_(reduce_kernels<T>(call.op)),
        stored_size_(static_cast<std::int64_t>(itemsize(call.input.dtype))),
        out_size_(static_cast<std::int64_t>(itemsize(call.out.dtype))),
        length_(product(plan.reduced_sizes)),
        results_(product(plan.kept_sizes)) {
    const bool same = call.input.dtype == dtype_of<T> ||
                      (call.input.dtype == DType::bool_ && std::is_same_v<T, std::uint8_t>);
    const bool truth = call.op == ReduceOp::any || call.op == ReduceOp::all;
    if (!same) {
      convert_ = truth ? convert_loop(call.input.dtype, DType::bool_)
                       : convert_loop(call.input.dtype, dtype_of<T>);
    } else if (truth && call.input.dtype != DType::bool_) {
      convert_ = convert_loop(call.input.dtype, DType::bool_);  // 2 is as true as 1
    }
    if (call.out.dtype != dtype_of<T>) store_ = convert_loop(dtype_of<T>, call.out.dtype);
  }

  void run() {
    if (plan_.columns) {
      run_columns();
    } else {
      run_rows();
    }
  }

 private:
  // ---- each result gathers its own elements

  void run_rows() {
    const std::int64_t chunks = (length_ + chunk_size - 1) / chunk_size;
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / length_);
    if (are_single_blocks()) {
      const std::int64_t step = results_ == 1 ? 0 : plan_.kept_strides[0] * stored_size_;
      const std::int64_t out_step = results_ == 1 ? 0 : plan_.kept_out_strides[0];
      detail::parallel_for(results_, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T* values = reinterpret_cast<const T*>(call_.input.data + i * step);
          write(i * out_step, {kernels_.block(values, static_cast<std::size_t>(length_)), 0});
        }
      });
      return;
    }
    if (chunks == 1) {
      detail::parallel_for(results_, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) write(out_offset(i), reduce_chunk(i, 0));
      });
      return;
    }
    detail::Scratch<Partial<T>> partials(static_cast<std::size_t>(results_ * chunks));
    detail::parallel_for(results_ * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        partials[static_cast<std::size_t>(unit)] = reduce_chunk(unit / chunks, unit % chunks);
      }
    });
    for (std::int64_t i = 0; i < results_; ++i) {
      const Partial<T>* first = partials.data() + i * chunks;
      write(out_offset(i), combine_all(first, chunks));
    }
  }

  // Whether each result is one block of dense elements, the blocks at equal distances: short rows,
  // for which finding the elements would take longer than adding them.
  bool are_single_blocks() const {
    return length_ <= block_size && convert_ == nullptr && !finds_position(call_.op) &&
           plan_.reduced_sizes.size() == 1 && plan_.reduced_strides[0] == 1 &&
           plan_.kept_sizes.size() <= 1;
  }

  // Elements [first, first + n) of a result's row, dense and in T.
  const T* fetch(const std::byte* base, std::int64_t first, std::int64_t n, T* converted,
                 std::byte* gathered) const {
    const std::int64_t run = plan_.reduced_sizes.back(), stride = plan_.reduced_strides.back();
    const bool one_run = first / run == (first + n - 1) / run;
    const std::byte* dense;
    if (one_run && stride == 1) {
      dense = base + offset_of(plan_.reduced_sizes, plan_.reduced_strides, first) * stored_size_;
    } else {
      std::int64_t done = 0;
      while (done < n) {
        const std::int64_t at = first + done;
        const std::int64_t count = std::min(n - done, run - at % run);
        gather(base + offset_of(plan_.reduced_sizes, plan_.reduced_strides, at) * stored_size_,
               stride, gathered + done * stored_size_, static_cast<std::size_t>(count),
               static_cast<std::size_t>(stored_size_));
        done += count;
      }
      dense = gathered;
    }
    if (convert_ == nullptr) return reinterpret_cast<const T*>(dense);
    convert_(dense, converted, static_cast<std::size_t>(n));
    return converted;
  }

  Partial<T> reduce_chunk(std::int64_t result, std::int64_t chunk) const {
    const std::byte* base =
        call_.input.data + offset_of(plan_.kept_sizes, plan_.kept_strides, result) * stored_size_;
    const std::int64_t begin = chunk * chunk_size;
    const std::int64_t end = std::min(length_, begin + chunk_size);
    alignas(64) T converted[block_size];
    alignas(64) std::byte gathered[block_size * 8];
    Partial<T> parts[chunk_size / block_size];
    std::int64_t count = 0;
    for (std::int64_t at = begin; at < end; at += block_size) {
      const std::int64_t n = std::min(block_size, end - at);
      const T* values = fetch(base, at, n, converted, gathered);
      const T reduced = kernels_.block(values, static_cast<std::size_t>(n));
      parts[count++] = {reduced, finds_position(call_.op) ? at + find(values, n, reduced) : 0};
    }
    return combine_all(parts, count);
  }

  static std::int64_t find(const T* values, std::int64_t n, T wanted) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (values[i] == wanted || wanted != wanted) {
        if (values[i] == wanted || values[i] != values[i]) return i;
      }
    }
    return 0;
  }

  // Combines in pairs. A position changes only if the later part wins, so the first of equals
  // stays.
  Partial<T> combine(Partial<T> older, Partial<T> newer) const {
    if (finds_position(call_.op)) {
      std::int64_t position = older.position;
      kernels_.accumulate_position(&older.value, &position, &newer.value, newer.position, 1);
      return {older.value, position};
    }
    kernels_.accumulate(&older.value, &newer.value, 1);
    return older;
  }

  Partial<T> combine_all(const Partial<T>* parts, std::int64_t count) const {
    Partial<T> levels[max_levels];
    PairwiseCounter counter;
    for (std::int64_t i = 0; i < count; ++i) {
      Partial<T> part = parts[i];
      const int level = counter.add([&](int full) { part = combine(levels[full], part); });
      levels[level] = part;
    }
    Partial<T> result{kernels_.identity, 0};
    bool first = true;
    counter.finish([&](int level) {
      result = first ? levels[level] : combine(levels[level], result);
      first = false;
    });
    return result;
  }

  // ---- whole rows are accumulated

  static constexpr std::int64_t tile = tile_bytes / sizeof(T);

  void run_columns() {
    const std::int64_t width = plan_.kept_sizes.back();
    const std::int64_t outer = results_ / width;
    if (!finds_position(call_.op) && plan_.reduced_sizes.size() == 1 &&
        plan_.reduced_strides[0] == width && 2 * width <= tile && length_ >= 8) {
      return run_narrow_columns(width, outer);
    }
    const std::int64_t tiles = (width + tile - 1) / tile;
    const std::int64_t chunks = (length_ + chunk_rows - 1) / chunk_rows;
    const std::int64_t row_elements = std::min(width, tile) * std::min(length_, chunk_rows);
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / row_elements);
    if (chunks == 1) {
      detail::parallel_for(outer * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t first = unit % tiles * tile, n = std::min(tile, width - first);
          alignas(64) T values[tile];
          alignas(64) std::int64_t positions[tile];
          accumulate_rows(input_row(unit / tiles, first), n, 0, length_, values, positions);
          write_columns(unit / tiles, first, n, values,
                        finds_position(call_.op) ? positions : nullptr);
        }
      });
      return;
    }
    const auto total = static_cast<std::size_t>(outer * chunks * width);
    detail::Scratch<T> partials(total);
    detail::Scratch<std::int64_t> places(finds_position(call_.op) ? total : 0);
    detail::parallel_for(outer * chunks * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t first = unit % tiles * tile, n = std::min(tile, width - first);
        const std::int64_t chunk = unit / tiles % chunks, at = unit / tiles / chunks;
        const std::int64_t from = chunk * chunk_rows, to = std::min(length_, from + chunk_rows);
        const std::int64_t slot = (at * chunks + chunk) * width + first;
        accumulate_rows(input_row(at, first), n, from, to, partials.data() + slot,
                        places.empty() ? nullptr : places.data() + slot);
      }
    });
    for (std::int64_t at = 0; at < outer; ++at) {
      T* values = partials.data() + at * chunks * width;
      std::int64_t* positions = places.empty() ? nullptr : places.data() + at * chunks * width;
      combine_chunks(values, positions, width, chunks);
      write_columns(at, 0, width, values, positions);
    }
  }

  // Combines rows of partial results in pairs, into the first.
  void combine_chunks(T* values, std::int64_t* positions, std::int64_t width,
                      std::int64_t chunks) const {
    for (std::int64_t step = 1; step < chunks; step *= 2) {
      for (std::int64_t chunk = 0; chunk + step < chunks; chunk += 2 * step) {
        T* older = values + chunk * width;
        const T* newer = values + (chunk + step) * width;
        if (positions == nullptr) {
          kernels_.accumulate(older, newer, static_cast<std::size_t>(width));
          continue;
        }
        for (std::int64_t j = 0; j < width; ++j) {
          kernels_.accumulate_position(older + j, positions + chunk * width + j, newer + j,
                                       positions[(chunk + step) * width + j], 1);
        }
      }
    }
  }

  // For rows much shorter than a tile, stored consecutively: several of them form one wide row,
  // whose parts are combined at the end.
  void run_narrow_columns(std::int64_t width, std::int64_t outer) {
    std::int64_t together = 1;
    while (2 * together * width <= tile && 2 * together <= length_) together *= 2;
    const std::int64_t wide = together * width, wide_rows = length_ / together;
    const std::int64_t chunks = (wide_rows + chunk_rows - 1) / chunk_rows;
    detail::Scratch<T> partials(static_cast<std::size_t>(outer * chunks * wide));
    const std::int64_t grain =
        std::max<std::int64_t>(1, 16384 / (wide * std::min(wide_rows, chunk_rows)));
    detail::parallel_for(outer * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t from = unit % chunks * chunk_rows;
        const std::int64_t to = std::min(wide_rows, from + chunk_rows);
        accumulate_rows(input_row(unit / chunks, 0), wide, from, to, partials.data() + unit * wide,
                        nullptr, wide);
      }
    });
    alignas(64) T row[tile];
    for (std::int64_t at = 0; at < outer; ++at) {
      T* total = partials.data() + at * chunks * wide;
      combine_chunks(total, nullptr, wide, chunks);
      for (std::int64_t half = together / 2; half >= 1; half /= 2) {
        kernels_.accumulate(total, total + half * width, static_cast<std::size_t>(half * width));
      }
      if (wide_rows * together < length_) {  // combined first: the total is already large
        accumulate_rows(input_row(at, 0), width, wide_rows * together, length_, row, nullptr);
        kernels_.accumulate(total, row, static_cast<std::size_t>(width));
      }
      write_columns(at, 0, width, total, nullptr);
    }
  }

  const std::byte* input_row(std::int64_t outer, std::int64_t first_column) const {
    const std::int64_t result = outer * plan_.kept_sizes.back() + first_column;
    return call_.input.data +
           offset_of(plan_.kept_sizes, plan_.kept_strides, result) * stored_size_;
  }

  const T* load(const std::byte* values, std::int64_t n, T* converted) const {
    if (convert_ == nullptr) return reinterpret_cast<const T*>(values);
    convert_(values, converted, static_cast<std::size_t>(n));
    return converted;
  }

  // Accumulates n ≤ tile columns over rows [from, to): the rows of a group in sequence, groups in
  // pairs. `row_stride` replaces the reduced dimension's if several rows are taken as one.
  void accumulate_rows(const std::byte* base, std::int64_t n, std::int64_t from, std::int64_t to,
                       T* values, std::int64_t* positions, std::int64_t row_stride = 0) const {
    alignas(64) T levels[row_levels][tile];
    alignas(64) T converted[tile];
    const auto count = static_cast<std::size_t>(n);
    const auto row_at = [&](std::int64_t row) {
      const std::int64_t offset = row_stride != 0
                                      ? row * row_stride
                                      : offset_of(plan_.reduced_sizes, plan_.reduced_strides, row);
      return load(base + offset * stored_size_, n, converted);
    };
    if (finds_position(call_.op)) {  // exact in any order, so no tree
      std::memcpy(values, row_at(from), count * sizeof(T));
      std::fill(positions, positions + n, from);
      for (std::int64_t row = from + 1; row < to; ++row) {
        kernels_.accumulate_position(values, positions, row_at(row), row, count);
      }
      return;
    }
    PairwiseCounter counter;
    for (std::int64_t group = from; group < to; group += group_rows) {
      const std::int64_t last = std::min(to, group + group_rows);
      std::int64_t row = group;
      if (convert_ == nullptr) {
        for (; row + 4 <= last; row += 4) {
          const T* rows[] = {row_at(row), row_at(row + 1), row_at(row + 2), row_at(row + 3)};
          kernels_.accumulate_four(values, rows, row == group, count);
        }
      }
      if (row == group) std::memcpy(values, row_at(row++), count * sizeof(T));
      for (; row < last; ++row) kernels_.accumulate(values, row_at(row), count);
      const int level =
          counter.add([&](int full) { kernels_.accumulate(values, levels[full], count); });
      std::memcpy(levels[level], values, count * sizeof(T));
    }
    bool first = true;
    counter.finish([&](int level) {
      if (first) {
        std::memcpy(values, levels[level], count * sizeof(T));
        first = false;
      } else {
        kernels_.accumulate(values, levels[level], count);
      }
    });
  }

  // ---- results

  std::int64_t out_offset(std::int64_t result) const {
    return offset_of(plan_.kept_sizes, plan_.kept_out_strides, result);
  }
  std::int64_t column_offset(std::int64_t outer, std::int64_t column) const {
    return out_offset(outer * plan_.kept_sizes.back() + column);
  }
  // `values` may be changed.
  void write_columns(std::int64_t outer, std::int64_t first, std::int64_t n, T* values,
                     const std::int64_t* positions) const {
    if (positions == nullptr && plan_.kept_out_strides.back() == 1) {
      for (std::int64_t j = 0; j < n; ++j) values[j] = divided(values[j]);
      std::byte* to = call_.out.data + column_offset(outer, first) * out_size_;
      if (store_ == nullptr) {
        std::memcpy(to, values, static_cast<std::size_t>(n) * sizeof(T));
      } else {
        store_(values, to, static_cast<std::size_t>(n));
      }
      return;
    }
    for (std::int64_t j = 0; j < n; ++j) {
      write(column_offset(outer, first + j), {values[j], positions != nullptr ? positions[j] : 0});
    }
  }
  T divided(T value) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (call_.divisor != 1) return static_cast<T>(static_cast<double>(value) / call_.divisor);
    }
    return value;
  }
  void write(std::int64_t offset, Partial<T> result) const {
    std::byte* to = call_.out.data + offset * out_size_;
    if (finds_position(call_.op)) {
      std::memcpy(to, &result.position, sizeof(std::int64_t));
      return;
    }
    const T value = divided(result.value);
    if (store_ == nullptr) {
      std::memcpy(to, &value, sizeof(T));
    } else {
      store_(&value, to, 1);
    }
  }

  const ReduceCall& call_;
  const ReducePlan& plan_;
  const ReduceKernels<T>& kernels_;
  const std::int64_t stored_size_, out_size_, length_, results_;
  ConvertLoop convert_ = nullptr;  // null: elements are stored as T
  ConvertLoop store_ = nullptr;
};

void fill_with_identity(const ReduceCall& call, std::int64_t results) {
  double identity = 0;
  if (call.op == ReduceOp::prod || call.op == ReduceOp::all) identity = 1;
  if (call.op == ReduceOp::sum && call.divisor == 0) identity = 0.0 / 0.0;  // mean of no elements
  std::byte value[8];
  convert_loop(DType::float64, call.out.dtype)(&identity, value, 1);
  splat(value, call.out.data, static_cast<std::size_t>(results), itemsize(call.out.dtype));
}

// Whether short dense runs are reduced along with axes further out, as in the sum of [n, c, l] over
// n and l: the number of axes that form the runs, else 0. Reducing the runs first reads the memory
// in order.
std::size_t axes_of_runs(const ReduceCall& call) {
  constexpr std::int64_t longest_run = 1024, shortest_run = 8;
  const Shape& shape = *call.shape;
  std::int64_t dense = 1;
  std::int64_t run = 1;
  std::size_t axes = 0;
  bool kept = false, again = false;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (call.input.strides[d] != dense) return 0;
    dense *= shape[d];
    if (!kept && call.reduced[d]) {
      run *= shape[d];
      ++axes;
    }
    kept = kept || (!call.reduced[d] && shape[d] != 1);
    again = again || (kept && call.reduced[d] && shape[d] != 1);
  }
  return again && run >= shortest_run && run <= longest_run ? axes : 0;
}

template <class T>
void run_reduction(const ReduceCall& call) {
  const std::size_t runs = axes_of_runs(call);
  if (runs == 0 || call.input.dtype != dtype_of<T> || finds_position(call.op)) {
    const ReducePlan plan =
        plan::plan_reduce(*call.shape, call.input.strides, call.reduced, finds_position(call.op));
    return Reduction<T>(call, plan).run();
  }
  const std::size_t left = call.shape->size() - runs;
  Shape shape;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < left; ++d) {
    shape.push_back((*call.shape)[d]);
    count *= shape[d];
  }
  Strides strides(left, 1);
  for (std::size_t d = left; d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  detail::Scratch<T> totals(static_cast<std::size_t>(count));
  ReduceCall inner = call, outer = call;
  inner.divisor = 1;
  bool in_run[max_rank] = {};
  std::fill(in_run + left, in_run + call.shape->size(), true);
  inner.reduced = in_run;
  outer.shape = &shape;
  inner.out.data = outer.input.data = reinterpret_cast<std::byte*>(totals.data());
  inner.out.dtype = outer.input.dtype = dtype_of<T>;
  outer.input.strides = strides.data();
  run_reduction<T>(inner);
  run_reduction<T>(outer);
}

}  // namespace

void reduce(const ReduceCall& call) {
  std::int64_t results = 1, length = 1;
  for (std::size_t d = 0; d < call.shape->size(); ++d) {
    (call.reduced[d] ? length : results) *= (*call.shape)[d];
  }
  if (results == 0) return;
  if (length == 0) return fill_with_identity(call, results);
  const DType dtype = call.input.dtype;
  if (!is_floating_point(dtype) && is_floating_point(call.out.dtype)) {  // the mean of integers
    return run_reduction<double>(call);
  }
  if (call.op == ReduceOp::any || call.op == ReduceOp::all || dtype == DType::bool_) {
    if (call.op == ReduceOp::sum || call.op == ReduceOp::prod) {
      return run_reduction<std::int64_t>(call);
    }
    return run_reduction<std::uint8_t>(call);
  }
  if (dtype == DType::float64) return run_reduction<double>(call);
  if (is_floating_point(dtype)) return run_reduction<float>(call);
  if (is_unsigned_integer(dtype)) return run_reduction<std::uint64_t>(call);
  run_reduction<std::int64_t>(call);
}

}  // namespace extensor::cpu
