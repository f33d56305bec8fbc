// The reductions: chooses the kernel of a call, and the parts that a long one is split into.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "backend/cuda/context.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/reduce_kernels.cuh"
#include "backend/plan/reduce_plan.h"
#include "extensor/error.h"

namespace extensor::backend::cuda {

namespace {

using namespace reductions;

// More dimensions than a kernel takes are refused before anything is launched.
Axes axes_of(const Dims& sizes, const Dims& strides, const Dims* out_strides) {
  if (sizes.size() > max_kernel_dims) {
    throw DeviceError("reduce: a layout with more than 12 separate dimensions on cuda");
  }
  Axes axes{};
  axes.count = static_cast<int>(sizes.size());
  std::int64_t product = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    product *= sizes[d];
    axes.sizes[d] = sizes[d];
    axes.strides[d] = strides[d];
    if (out_strides != nullptr) axes.out_strides[d] = (*out_strides)[d];
    if (sizes[d] < (std::int64_t{1} << 31)) {
      axes.dividers[d] = Divider(static_cast<std::uint32_t>(sizes[d]));
    }
  }
  axes.short_count = product < (std::int64_t{1} << 31);
  return axes;
}

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// The packs of columns of a block of sum_column_tiles.
constexpr int tile_lanes = 8;

template <class In, class A>
void run(Reduction call, bool columns) {
  const bool is_sum = call.op == ReduceOp::sum;
  const bool is_position = call.op == ReduceOp::argmax || call.op == ReduceOp::argmin;
  // As many parts as fill the device, but none shorter than pays. The length of a part is a
  // function of the shape and of the device, not of its load.
  const std::int64_t slots = std::int64_t{multiprocessors()} * 2048;
  if constexpr (!std::is_void_v<In>) {
    constexpr std::int64_t tile = tile_lanes * 16 / sizeof(In);
    const std::int64_t tiles = (call.results + tile - 1) / tile;
    if (columns && is_sum && call.reduced.count == 1 && call.length >= tile_threads &&
        tiles * 10 >= std::int64_t{multiprocessors()} * 9 && tiles < (std::int64_t{1} << 31) &&
        has_column_packs<In>(call)) {
      return launch_overlapped("reduce", &sum_column_tiles<In, A, tile_lanes>,
                               static_cast<unsigned>(tiles), tile_threads, 0, call);
    }
  }
  int width = 32;
  std::int64_t parts = 1;
  bool packs = false, row_packs = false;
  std::int64_t columns_per_thread = 1, row_elements = is_position ? 1 : 8;  // of a thread
  if constexpr (!std::is_void_v<In>) {
    const bool dense_rows = !columns && has_row_packs<In>(call);
    if (dense_rows && !is_position) row_elements = 4 * 16 / sizeof(In);
    row_packs = dense_rows && is_sum;
    packs = columns && !is_position && has_column_packs<In>(call);
    if (packs) columns_per_thread = 16 / sizeof(In);
  }
  if (columns) {
    // A thread with packs keeps more memory under way, so fewer fill the device.
    const std::int64_t wanted = packs ? slots / 4 * columns_per_thread : slots;
    parts = std::clamp<std::int64_t>(wanted / call.results, 1,
                                     std::max<std::int64_t>(1, call.length / 32));
  } else {
    while (width > 1 && width / 2 * row_elements >= call.length) width /= 2;
    if (call.length > 1024) width = threads;
    if (width == threads) {
      const int blocks = row_packs ? row_part_blocks : 8;  // per multiprocessor
      parts = std::clamp<std::int64_t>(blocks * std::int64_t{multiprocessors()} / call.results, 1,
                                       std::max<std::int64_t>(1, call.length / 8192));
    }
  }
  call.part_length = (call.length + parts - 1) / parts;
  // Dense rows begin at addresses that are aligned alike.
  if (parts > 1) call.part_length = round_up(call.part_length, columns ? 4 : 64);
  call.parts = (call.length + call.part_length - 1) / call.part_length;
  const auto slots_needed = static_cast<std::size_t>(call.results * call.parts);
  const bool split = call.parts > 1;
  const std::size_t value_bytes = (slots_needed * sizeof(A) + 255) / 256 * 256;
  const Scratch memory(split ? value_bytes + (is_position ? slots_needed * 8 : 0) : 1, "reduce");
  if (split) {
    call.values = memory.as<std::byte>();
    if (is_position) {
      call.positions = reinterpret_cast<std::int64_t*>(memory.as<std::byte>() + value_bytes);
    }
  }
  const std::int64_t units = call.results * call.parts;
  if (row_packs && split) {
    if constexpr (!std::is_void_v<In>) {
      launch_overlapped("reduce", &sum_row_parts<In, A>, static_cast<unsigned>(units), threads, 0,
                        call);
    }
  } else if (packs) {
    if constexpr (!std::is_void_v<In>) {
      const int blocks = blocks_for(units / columns_per_thread, threads, 32);
      launch_overlapped("reduce",
                        is_sum ? &reduce_column_packs<In, A, true>
                               : &reduce_column_packs<In, A, false>,
                        blocks, threads, 0, call);
    }
  } else if (columns) {
    const int blocks = blocks_for(units, threads, 32);
    launch_overlapped("reduce",
                      is_sum ? &reduce_columns<In, A, true> : &reduce_columns<In, A, false>,
                      blocks, threads, 0, call);
  } else {
    const int blocks = blocks_for(units, width > 32 ? 1 : threads / width, 32);
    launch_overlapped("reduce", is_sum ? &reduce_rows<In, A, true> : &reduce_rows<In, A, false>,
                      blocks, threads, 0, call, width);
  }
  if (!split) return;
  if (call.results >= 512) {
    launch_overlapped("reduce", &combine_columns<A>, blocks_for(call.results, 32, 32),
                      dim3(32, combined_rows), 0, call);
  } else {
    launch_overlapped("reduce", &combine_parts<A>, blocks_for(call.results, 1, 8), threads, 0,
                      call);
  }
}

}  // namespace

void reduce(const ReduceCall& call) {
  std::int64_t results = 1, length = 1;
  for (std::size_t d = 0; d < call.shape->size(); ++d) {
    (call.reduced[d] ? length : results) *= (*call.shape)[d];
  }
  if (results == 0) return;
  Reduction passed{};
  passed.op = call.op;
  passed.input = call.input.data;
  passed.input_dtype = call.input.dtype;
  passed.truth = call.op == ReduceOp::any || call.op == ReduceOp::all;
  passed.out = call.out.data;
  passed.out_dtype = call.out.dtype;
  passed.divisor = call.divisor;
  passed.results = results;
  passed.length = length;
  if (length == 0) {
    double identity = call.op == ReduceOp::prod || call.op == ReduceOp::all ? 1 : 0;
    if (call.op == ReduceOp::sum && call.divisor == 0) {
      identity = std::numeric_limits<double>::quiet_NaN();  // the mean of no elements
    }
    fill_identity<<<blocks_for(results, threads), threads, 0, stream()>>>(passed, identity);
    launched("reduce");
    return;
  }
  const bool is_position = call.op == ReduceOp::argmax || call.op == ReduceOp::argmin;
  const plan::ReducePlan plan =
      plan::plan_reduce(*call.shape, call.input.strides, call.reduced, is_position);
  passed.kept = axes_of(plan.kept_sizes, plan.kept_strides, &plan.kept_out_strides);
  passed.reduced = axes_of(plan.reduced_sizes, plan.reduced_strides, nullptr);
  // Narrow columns leave most threads of a warp without a neighbour: rows are as good then.
  const bool columns = plan.columns && plan.kept_sizes.back() >= 8;
  const DType dtype = call.input.dtype;
  if (!is_floating_point(dtype) && is_floating_point(call.out.dtype)) {
    return run<void, double>(passed, columns);  // the mean of integers
  }
  if (passed.truth || dtype == DType::bool_) {
    if (call.op == ReduceOp::sum || call.op == ReduceOp::prod) {
      return run<void, std::int64_t>(passed, columns);
    }
    return run<void, std::uint64_t>(passed, columns);
  }
  if (is_floating_point(dtype)) {
    return with_float_type(dtype, [&]<class T>() { run<T, Compute<T>>(passed, columns); });
  }
  if (is_unsigned_integer(dtype)) return run<void, std::uint64_t>(passed, columns);
  run<void, std::int64_t>(passed, columns);
}

}  // namespace extensor::backend::cuda
