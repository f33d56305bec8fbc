// Iterates an elementwise call over its layout, and distributes its rows among the threads.
#include <algorithm>
#include <optional>

#include "backend/cpu/convert.h"
#include "backend/cpu/copy_plane.h"
#include "backend/cpu/elementwise/block.h"
#include "backend/cpu/elementwise/elementwise.h"
#include "backend/plan/elementwise_plan.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::ElementwiseCall;
using backend::ElementwiseOp;
using plan::ElementwisePlan;
using plan::Layout;

constexpr std::size_t tile_rows = 16;
constexpr std::size_t tile_columns = 256;

// Results larger than this would evict everything else from the last cache level anyway. The figure
// is fixed: the system may report the sum over caches that this core never uses.
constexpr std::size_t streaming_bytes = std::size_t{32} << 20;

// Iterates over the outer dimensions; `operands` hold the operands' positions, the result's first.
class Odometer {
 public:
  Odometer(const ElementwisePlan& plan, const ElementwiseCall& call, std::size_t outer_dimensions)
      : plan_(plan), operands_(call.input_count + 1), index_(outer_dimensions, 0) {
    position_[0] = call.out.data;
    size_[0] = static_cast<std::int64_t>(itemsize(call.out.dtype));
    for (int k = 0; k < call.input_count; ++k) {
      position_[k + 1] = first_element(call.inputs[k]);
      size_[k + 1] = static_cast<std::int64_t>(itemsize(call.inputs[k].dtype));
    }
    for (int k = 0; k < operands_; ++k) {
      element_step_[k] = plan.strides[k].back() * size_[k];
      if (outer_dimensions != 0) step_[k] = plan.strides[k][outer_dimensions - 1] * size_[k];
    }
  }

  void jump_to(std::int64_t linear) {
    for (std::size_t d = index_.size(); d-- > 0;) {
      const std::int64_t at = linear % plan_.sizes[d];
      linear /= plan_.sizes[d];
      move(d, at - index_[d]);
      index_[d] = at;
    }
  }
  void advance() {
    if (index_.empty()) return;
    // The usual case, which short rows must not wait for.
    if (index_.back() + 1 < plan_.sizes[index_.size() - 1]) {
      ++index_.back();
      for (int k = 0; k < operands_; ++k) position_[k] += step_[k];
      return;
    }
    for (std::size_t d = index_.size(); d-- > 0;) {
      if (++index_[d] < plan_.sizes[d]) return move(d, 1);
      move(d, 1 - plan_.sizes[d]);
      index_[d] = 0;
    }
  }
  std::byte* at(int operand, std::int64_t inner) const {
    return position_[operand] + inner * element_step_[operand];
  }
  std::byte* position(int operand) const { return position_[operand]; }
  std::int64_t item_size(int operand) const { return size_[operand]; }

 private:
  void move(std::size_t dimension, std::int64_t steps) {
    for (int k = 0; k < operands_; ++k) {
      position_[k] += steps * plan_.strides[k][dimension] * size_[k];
    }
  }

  const ElementwisePlan& plan_;
  int operands_;
  Dims index_;
  std::byte* position_[plan::max_operands];
  std::int64_t size_[plan::max_operands];
  std::int64_t element_step_[plan::max_operands];  // bytes to the next element of a row
  std::int64_t step_[plan::max_operands];          // bytes that advance() usually moves by
};

std::int64_t product(const Dims& sizes, std::size_t count) {
  std::int64_t result = 1;
  for (std::size_t d = 0; d < count; ++d) result *= sizes[d];
  return result;
}

// The least number of elements that pays for waking up a thread.
constexpr std::int64_t grain = 8192;

void run_rows(const Job& job, const ElementwiseCall& call, const ElementwisePlan& plan) {
  const std::size_t outer = plan.sizes.size() - 1;
  const std::int64_t length = plan.sizes[outer];
  const std::int64_t rows = product(plan.sizes, outer);
  // Long rows are split, so that several threads can share one row.
  const std::int64_t piece = std::min<std::int64_t>(length, 4 * grain);
  const std::int64_t pieces = (length + piece - 1) / piece;
  detail::parallel_for(rows * pieces, std::max<std::int64_t>(1, grain / piece),
                       [&](std::int64_t begin, std::int64_t end) {
                         Scratch scratch;
                         Odometer odometer(plan, call, outer);
                         odometer.jump_to(begin / pieces);
                         std::int64_t part = begin % pieces;
                         Span inputs[max_inputs];
                         Span out = {nullptr, plan.strides[0][outer]};
                         for (int k = 0; k < job.inputs; ++k) {
                           inputs[k].stride = plan.strides[k + 1][outer];
                         }
                         const bool direct = is_direct(job, inputs, out);
                         for (std::int64_t unit = begin; unit < end; ++unit) {
                           const std::int64_t first = part * piece;
                           const auto n = static_cast<std::size_t>(std::min(piece, length - first));
                           for (int k = 0; k < job.inputs; ++k) {
                             inputs[k].data = odometer.at(k + 1, first);
                           }
                           out.data = odometer.at(0, first);
                           if (direct) {
                             run_direct_row(job, inputs, out, n);
                           } else {
                             run_row(job, inputs, out, n, scratch);
                           }
                           if (++part == pieces) {
                             part = 0;
                             odometer.advance();
                           }
                         }
                         if (job.stream) stream_fence();
                       });
}

// Processes blocks of consecutive elements that span several short rows: inputs are gathered row by
// row into a block, then the loop runs once.
void run_gathered(const Job& job, const ElementwiseCall& call, const ElementwisePlan& plan) {
  const std::size_t outer = plan.sizes.size() - 1;
  const std::int64_t length = plan.sizes[outer];
  const std::int64_t rows = product(plan.sizes, outer);
  const std::int64_t rows_per_block =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(block_size) / length);
  const std::int64_t blocks = (rows + rows_per_block - 1) / rows_per_block;
  detail::parallel_for(
      blocks, std::max<std::int64_t>(1, grain / 2 / (rows_per_block * length)),
      [&](std::int64_t begin, std::int64_t end) {
        Scratch scratch;
        Odometer odometer(plan, call, outer);
        odometer.jump_to(begin * rows_per_block);
        alignas(64) std::byte collected[max_inputs][block_size * widest_item];
        alignas(64) std::byte results[block_size * widest_item];
        std::byte* out_rows[block_size];
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t count = std::min(rows_per_block, rows - block * rows_per_block);
          for (std::int64_t row = 0; row < count; ++row) {
            for (int k = 0; k < job.inputs; ++k) {
              const std::size_t size = job.input_stored_size[k];
              gather(odometer.position(k + 1), plan.strides[k + 1][outer],
                     collected[k] + static_cast<std::size_t>(row * length) * size,
                     static_cast<std::size_t>(length), size);
            }
            out_rows[row] = odometer.position(0);
            odometer.advance();
          }
          Span inputs[max_inputs];
          for (int k = 0; k < job.inputs; ++k) inputs[k] = {collected[k], 1};
          run_row(job, inputs, {results, 1}, static_cast<std::size_t>(count * length), scratch);
          for (std::int64_t row = 0; row < count; ++row) {
            scatter(results + static_cast<std::size_t>(row * length) * job.out_stored_size,
                    out_rows[row], plan.strides[0][outer], static_cast<std::size_t>(length),
                    job.out_stored_size);
          }
        }
      });
}

// Processes tiles of the two innermost dimensions: transposed inputs are read along their dense
// direction into a tile, whose rows are then passed to the loop.
void run_tiled(const Job& job, const ElementwiseCall& call, const ElementwisePlan& plan) {
  const std::size_t inner = plan.sizes.size() - 1;
  const std::size_t dense = inner - 1;
  const std::int64_t columns = plan.sizes[inner], rows = plan.sizes[dense];
  const std::int64_t column_tiles = (columns + tile_columns - 1) / tile_columns;
  const std::int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
  const std::int64_t tiles = product(plan.sizes, dense) * row_tiles * column_tiles;
  bool transposed[max_inputs] = {};
  for (int k = 0; k < job.inputs; ++k) {
    transposed[k] =
        std::llabs(plan.strides[k + 1][dense]) == 1 && std::llabs(plan.strides[k + 1][inner]) > 1;
  }
  constexpr std::int64_t tile_elements = tile_rows * tile_columns;
  detail::parallel_for(
      tiles, std::max<std::int64_t>(1, grain / tile_elements),
      [&](std::int64_t begin, std::int64_t end) {
        Scratch scratch;
        alignas(64) std::byte tile[max_inputs][tile_elements * widest_item];
        Odometer odometer(plan, call, dense);
        for (std::int64_t unit = begin; unit < end; ++unit) {
          odometer.jump_to(unit / (row_tiles * column_tiles));
          const std::int64_t first_row = unit / column_tiles % row_tiles * tile_rows;
          const std::int64_t first_column = unit % column_tiles * tile_columns;
          const auto row_count = std::min<std::int64_t>(tile_rows, rows - first_row);
          const auto column_count = std::min<std::int64_t>(tile_columns, columns - first_column);
          const auto corner = [&](int operand) {
            return odometer.position(operand) + (first_row * plan.strides[operand][dense] +
                                                 first_column * plan.strides[operand][inner]) *
                                                    odometer.item_size(operand);
          };
          for (int k = 0; k < job.inputs; ++k) {
            if (!transposed[k]) continue;
            gather_transposed(corner(k + 1), plan.strides[k + 1][dense], plan.strides[k + 1][inner],
                              tile[k], tile_columns, static_cast<std::size_t>(row_count),
                              static_cast<std::size_t>(column_count), job.input_stored_size[k]);
          }
          for (std::int64_t row = 0; row < row_count; ++row) {
            Span inputs[max_inputs];
            for (int k = 0; k < job.inputs; ++k) {
              if (transposed[k]) {
                inputs[k] = {tile[k] + static_cast<std::size_t>(row) * tile_columns *
                                           job.input_stored_size[k],
                             1};
              } else {
                inputs[k] = {
                    corner(k + 1) + row * plan.strides[k + 1][dense] * odometer.item_size(k + 1),
                    plan.strides[k + 1][inner]};
              }
            }
            const Span out = {corner(0) + row * plan.strides[0][dense] * odometer.item_size(0), 1};
            run_row(job, inputs, out, static_cast<std::size_t>(column_count), scratch);
          }
        }
        if (job.stream) stream_fence();
      });
}

// Moves the dimension along which the source is dense next to the innermost one, if the innermost
// one is not. Dimensions further out keep their order.
void bring_dense_dimension_inside(ElementwisePlan& plan) {
  const std::size_t inner = plan.sizes.size() - 1;
  if (inner < 2 || plan.strides[1][inner] == 1) return;
  for (std::size_t d = 0; d < inner; ++d) {
    if (plan.strides[1][d] != 1) continue;
    for (Dims* list : {&plan.sizes, &plan.strides[0], &plan.strides[1]}) {
      std::rotate(list->begin() + d, list->begin() + d + 1, list->begin() + inner);
    }
    return;
  }
}

// Copies elements as they are, in tiles of the two innermost dimensions that need no staging.
// Small planes are taken together, along a third dimension.
void run_copy(const Job& job, const ElementwiseCall& call, ElementwisePlan& plan) {
  bring_dense_dimension_inside(plan);
  const std::size_t inner = plan.sizes.size() - 1;
  CopiedPlane whole{};
  whole.rows = inner == 0 ? 1 : plan.sizes[inner - 1];
  whole.columns = plan.sizes[inner];
  if (inner != 0) {
    whole.to_row = plan.strides[0][inner - 1];
    whole.from_row = plan.strides[1][inner - 1];
  }
  whole.to_column = plan.strides[0][inner];
  whole.from_column = plan.strides[1][inner];
  if (inner > 1) {
    whole.count = plan.sizes[inner - 2];
    whole.to_plane = plan.strides[0][inner - 2];
    whole.from_plane = plan.strides[1][inner - 2];
  }
  const std::size_t outer = inner < 2 ? 0 : inner - 2;
  // A tile of a transpose reads a few cache lines of each column and writes long runs of each row.
  const bool transposed = whole.is_transposed() && whole.columns > 4 && whole.rows > 4;
  const bool few_rows = whole.from_row == 1 && whole.rows <= 4;  // kept together
  const std::int64_t column_step = std::min<std::int64_t>(whole.columns, transposed ? tile_columns
                                                                         : few_rows ? grain
                                                                                    : 4 * grain);
  const std::int64_t row_step =
      transposed ? std::min<std::int64_t>(whole.rows, 4 * tile_rows)
      : few_rows ? whole.rows
                 : std::clamp<std::int64_t>(2 * grain / column_step, 1, whole.rows);
  const std::int64_t row_tiles = (whole.rows + row_step - 1) / row_step;
  const std::int64_t column_tiles = (whole.columns + column_step - 1) / column_step;
  const std::int64_t plane_step =
      std::clamp<std::int64_t>(2 * grain / (row_step * column_step), 1, whole.count);
  const std::int64_t plane_tiles = (whole.count + plane_step - 1) / plane_step;
  const std::int64_t tiles = plane_tiles * row_tiles * column_tiles;
  const std::size_t size = job.out_stored_size;
  const auto bytes = static_cast<std::int64_t>(size);
  detail::parallel_for(
      product(plan.sizes, outer) * tiles,
      std::max<std::int64_t>(1, grain / (plane_step * row_step * column_step)),
      [&](std::int64_t begin, std::int64_t end) {
        Odometer odometer(plan, call, outer);
        odometer.jump_to(begin / tiles);
        std::int64_t tile = begin % tiles;
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t k = tile / (row_tiles * column_tiles) * plane_step;
          const std::int64_t i = tile / column_tiles % row_tiles * row_step;
          const std::int64_t j = tile % column_tiles * column_step;
          CopiedPlane part = whole;
          part.count = std::min(plane_step, whole.count - k);
          part.rows = std::min(row_step, whole.rows - i);
          part.columns = std::min(column_step, whole.columns - j);
          part.to = odometer.position(0) +
                    (k * whole.to_plane + i * whole.to_row + j * whole.to_column) * bytes;
          part.from = odometer.position(1) +
                      (k * whole.from_plane + i * whole.from_row + j * whole.from_column) * bytes;
          copy_plane(part, size);
          if (++tile == tiles) {
            tile = 0;
            odometer.advance();
          }
        }
      });
}

// Processes dense operands, or scalars, over one long dimension.
void run_contiguous(const Job& job, const ElementwiseCall& call, const std::int64_t* strides) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    Span inputs[max_inputs];
    for (int k = 0; k < job.inputs; ++k) {
      const std::int64_t bytes = static_cast<std::int64_t>(job.input_stored_size[k]);
      inputs[k] = {first_element(call.inputs[k]) + begin * strides[k] * bytes, strides[k]};
    }
    const std::int64_t bytes = static_cast<std::int64_t>(job.out_stored_size);
    const Span out = {call.out.data + begin * bytes, 1};
    const auto n = static_cast<std::size_t>(end - begin);
    if (is_direct(job, inputs, out)) return run_direct_row(job, inputs, out, n);
    Scratch scratch;
    run_row(job, inputs, out, n, scratch);
    if (job.stream) stream_fence();
  };
  detail::parallel_for(call.numel, grain, run);
}

// Whether to write past the caches: pays for a result larger than the last one, in whole cache
// lines, that is not also an input.
bool pays_to_stream(const Job& job, const ElementwiseCall& call, const ElementwisePlan* plan) {
  const auto numel = static_cast<std::size_t>(std::max(call.numel, call.whole_numel));
  if (numel * job.out_stored_size < streaming_bytes) return false;
  if (reinterpret_cast<std::uintptr_t>(call.out.data) % 64 != 0) return false;
  for (int k = 0; k < job.inputs; ++k) {
    if (call.inputs[k].data == call.out.data) return false;
  }
  if (plan == nullptr) return true;
  if (plan->layout == Layout::gathered || plan->strides[0].back() != 1) return false;
  for (std::size_t d = 0; d + 1 < plan->sizes.size(); ++d) {
    if (plan->strides[0][d] * static_cast<std::int64_t>(job.out_stored_size) % 64 != 0)
      return false;
  }
  return true;
}

}  // namespace

const ElementwiseTable& elementwise_table(DType compute) {
  if (compute == DType::float32) return elementwise_table_float32();
  if (compute == DType::float64) return elementwise_table_float64();
  return elementwise_table_integer(compute == DType::bool_ ? DType::uint8 : compute);
}

namespace {

// The op that computes a power of floats whose exponent is one number, without rounding more than
// once: a square or a reciprocal.
std::optional<ElementwiseOp> simple_power(const ElementwiseCall& call) {
  if (call.op != ElementwiseOp::power || !call.repeats[1] || !is_floating_point(call.compute)) {
    return std::nullopt;
  }
  const backend::Operand& operand = call.inputs[1];
  double exponent = 0;
  convert_loop(operand.dtype, DType::float64)(first_element(operand), &exponent, 1);
  if (exponent == 2) return ElementwiseOp::square;
  if (exponent == -1) return ElementwiseOp::reciprocal;
  return std::nullopt;
}

}  // namespace

void elementwise(const ElementwiseCall& call) {
  if (call.numel == 0) return;
  if (const auto simple = simple_power(call)) {
    ElementwiseCall unary = call;
    unary.op = *simple;
    unary.input_count = 1;
    return elementwise(unary);
  }
  const bool small = call.numel < grain && call.whole_numel * widest_item < streaming_bytes;
  if (call.contiguous && small && run_small(call)) return;
  Job job = make_job(call);
  if (call.contiguous) {
    std::int64_t strides[max_inputs] = {};
    for (int k = 0; k < job.inputs; ++k) strides[k] = call.repeats[k] ? 0 : 1;
    job.stream = pays_to_stream(job, call, nullptr);
    return run_contiguous(job, call, strides);
  }
  const std::int64_t* strides[plan::max_operands] = {call.out.strides};
  for (int k = 0; k < job.inputs; ++k) strides[k + 1] = call.inputs[k].strides;
  ElementwisePlan plan = plan::plan_elementwise(*call.shape, job.inputs + 1, strides);
  job.stream = pays_to_stream(job, call, &plan);
  const bool copies = call.op == ElementwiseOp::copy && job.input_convert[0] == nullptr;
  if (copies && !job.stream && plan.layout != Layout::contiguous) return run_copy(job, call, plan);
  switch (plan.layout) {
    case Layout::contiguous: {
      std::int64_t inner[max_inputs] = {};
      for (int k = 0; k < job.inputs; ++k) inner[k] = plan.strides[k + 1][0];
      return run_contiguous(job, call, inner);
    }
    case Layout::rows:
      return run_rows(job, call, plan);
    case Layout::tiled:
      return run_tiled(job, call, plan);
    case Layout::gathered:
      return run_gathered(job, call, plan);
  }
}

}  // namespace extensor::cpu
