// Runs one loop of the tables over operands of any layout and dtype. What a loop cannot read
// directly is staged: converted, gathered or repeated into a block that stays in the L1 cache.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/convert.h"
#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/elementwise/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/plan/elementwise_plan.h"

namespace extensor::cpu {

namespace {

using backend::ElementwiseCall;
using backend::ElementwiseOp;
using backend::max_inputs;
using plan::ElementwisePlan;
using plan::Layout;

constexpr std::size_t block_size = 512;  // elements staged at a time
constexpr std::size_t tile_rows = 16;
constexpr std::size_t tile_columns = 256;
constexpr std::size_t widest_lanes = 16;
constexpr std::size_t widest_item = 8;

// What an input is read as and what the result is written as by the loop of (op, compute).
DType loop_input_dtype(ElementwiseOp op, int input, DType compute) {
  return op == ElementwiseOp::where && input == 0 ? DType::uint8 : compute;
}

bool gives_bool(ElementwiseOp op) {
  switch (op) {
#define COMPARE(name, ...) case ElementwiseOp::name:
#define PREDICATE COMPARE
#include "extensor/tables/logical.def"
    return true;
    default:
      return false;
  }
}

bool is_unary_forward(ElementwiseOp op) {
  switch (op) {
#define UNARY(name, ...) case ElementwiseOp::name:
#include "extensor/tables/unary.def"
    return true;
    default:
      return false;
  }
}

bool same_representation(DType stored, DType read) {
  return stored == read || (stored == DType::bool_ && read == DType::uint8);
}

void copy_loop(const void* const* inputs, void* out, std::size_t n,
               const backend::Parameter* bytes_per_element) {
  std::memcpy(out, inputs[0], n * static_cast<std::size_t>(bytes_per_element->integer));
}

std::size_t last_level_cache_bytes() {
  static const std::size_t bytes = [] {
    long size = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
    size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return size > 0 ? static_cast<std::size_t>(size) : std::size_t{32} << 20;
  }();
  return bytes;
}

// One operand along the innermost dimension.
struct Span {
  std::byte* data;
  std::int64_t stride;
};

// Everything that stays the same over a call.
struct Job {
  ElementwiseLoop loop;
  std::size_t lanes;
  int inputs;
  const backend::Parameter* parameters;
  DType input_stored[max_inputs], input_read[max_inputs];
  std::size_t input_stored_size[max_inputs], input_read_size[max_inputs];
  ConvertLoop input_convert[max_inputs];  // null where stored and read are the same
  DType out_written, out_stored;
  std::size_t out_written_size, out_stored_size;
  ConvertLoop out_convert;
  // Halves computed in float32: results that may be rounded wrongly are computed again in float64.
  ElementwiseLoop exact_loop = nullptr;
  std::size_t exact_lanes = 1;
  DemoteLoop demote = nullptr;
  bool stream = false;
};

// Blocks in the L1 cache, left uninitialised: setting them up costs more than a small tensor.
struct Scratch {
  Scratch() {}  // NOLINT: a defaulted one would zero the blocks
  alignas(64) std::byte input[max_inputs][block_size * widest_item];
  alignas(64) std::byte gathered[block_size * widest_item];
  alignas(64) std::byte out[block_size * widest_item];
  alignas(64) std::byte narrowed[block_size * widest_item];
  // The scalar each input block holds copies of, so that a row of the same scalar is not refilled.
  const std::byte* repeated[max_inputs] = {};
};

Job make_job(const ElementwiseCall& call) {
  Job job;
  job.inputs = call.input_count;
  job.parameters = call.parameters;
  const DType out_dtype = call.out.dtype;
  static constexpr backend::Parameter copy_sizes[] = {{0, 0}, {0, 1}, {0, 2}, {0, 0}, {0, 4},
                                                      {0, 0}, {0, 0}, {0, 0}, {0, 8}};
  if (call.op == ElementwiseOp::copy) {
    job.loop = &copy_loop;
    job.lanes = 1;
    job.parameters = &copy_sizes[itemsize(out_dtype)];
    job.input_read[0] = job.out_written = out_dtype;
  } else {
    const ElementwiseTable& table = elementwise_table(call.compute);
    const DType compute = call.compute == DType::bool_ ? DType::uint8 : call.compute;
    job.loop = table.loops[static_cast<int>(call.op)];
    // Loops over plain elements take any length.
    job.lanes = gives_bool(call.op) || call.op == ElementwiseOp::where ? 1 : table.lanes;
    for (int k = 0; k < job.inputs; ++k) {
      job.input_read[k] = loop_input_dtype(call.op, k, compute);
    }
    job.out_written = gives_bool(call.op) ? DType::bool_ : compute;
    if (is_half(out_dtype) && compute == DType::float32 && is_unary_forward(call.op)) {
      const ElementwiseTable& exact = elementwise_table(DType::float64);
      job.exact_loop = exact.loops[static_cast<int>(call.op)];
      job.exact_lanes = exact.lanes;
      job.demote = demote_and_check_loop(out_dtype);
    }
  }
  for (int k = 0; k < job.inputs; ++k) {
    job.input_stored[k] = call.inputs[k].dtype;
    job.input_stored_size[k] = itemsize(job.input_stored[k]);
    job.input_read_size[k] = itemsize(job.input_read[k]);
    job.input_convert[k] = same_representation(job.input_stored[k], job.input_read[k])
                               ? nullptr
                               : convert_loop(job.input_stored[k], job.input_read[k]);
  }
  job.out_stored = out_dtype;
  job.out_stored_size = itemsize(out_dtype);
  job.out_written_size = itemsize(job.out_written);
  job.out_convert =
      job.out_written == out_dtype ? nullptr : convert_loop(job.out_written, out_dtype);
  return job;
}

// Runs the loop on n dense elements. The last, incomplete vector goes through small buffers: inputs
// in `padded` may be read a vector past n.
void run_loop(const Job& job, const std::byte* const* inputs, unsigned padded, std::byte* out,
              bool out_padded, std::size_t n) {
  const void* pointers[max_inputs] = {inputs[0], inputs[1], inputs[2]};
  const std::size_t tail = job.lanes == 1 ? 0 : n % job.lanes;
  const unsigned every_input = (1u << job.inputs) - 1;
  if (tail == 0 || (out_padded && (padded & every_input) == every_input)) {
    job.loop(pointers, out, tail == 0 ? n : n - tail + job.lanes, job.parameters);
    return;
  }
  const std::size_t whole = n - tail;
  if (whole != 0) job.loop(pointers, out, whole, job.parameters);
  alignas(64) std::byte tails[max_inputs][widest_lanes * widest_item];
  for (int k = 0; k < job.inputs; ++k) {
    const std::size_t size = job.input_read_size[k];
    // Every lane gets a value of the tail itself, so that none is outside the domain.
    const std::byte* last = inputs[k] + whole * size;
    splat(last, tails[k], job.lanes, size);
    std::memcpy(tails[k], last, tail * size);
    pointers[k] = tails[k];
  }
  alignas(64) std::byte result[widest_lanes * widest_item];
  job.loop(pointers, result, job.lanes, job.parameters);
  std::memcpy(out + whole * job.out_written_size, result, tail * job.out_written_size);
}

// Makes n elements of input k readable by the loop; direct memory where that is possible.
const std::byte* stage_input(const Job& job, int k, Span span, std::size_t n, Scratch& scratch) {
  if (span.stride == 1 && job.input_convert[k] == nullptr) return span.data;
  std::byte* block = scratch.input[k];
  if (span.stride == 0) {
    if (scratch.repeated[k] == span.data) return block;
    const std::byte* value = span.data;
    alignas(8) std::byte converted[widest_item];
    if (job.input_convert[k] != nullptr) {
      job.input_convert[k](span.data, converted, 1);
      value = converted;
    }
    splat(value, block, block_size, job.input_read_size[k]);
    scratch.repeated[k] = span.data;
    return block;
  }
  const std::byte* dense = span.data;
  if (span.stride != 1) {
    std::byte* gathered = job.input_convert[k] == nullptr ? block : scratch.gathered;
    gather(span.data, span.stride, gathered, n, job.input_stored_size[k]);
    dense = gathered;
  }
  if (job.input_convert[k] != nullptr) job.input_convert[k](dense, block, n);
  // The last vector is run whole: lanes beyond n hold numbers too.
  const std::size_t pad = (job.lanes - n % job.lanes) % job.lanes;
  std::memset(block + n * job.input_read_size[k], 0, pad * job.input_read_size[k]);
  return block;
}

// Results in float32 that sit on a rounding boundary of the half are computed again in float64.
void narrow_exactly(const Job& job, const std::byte* input, const std::byte* results,
                    std::byte* narrowed, std::size_t n) {
  std::uint16_t doubtful[block_size];
  const std::size_t count =
      job.demote(reinterpret_cast<const float*>(results), narrowed, n, doubtful);
  if (count == 0) return;
  const float* x = reinterpret_cast<const float*>(input);
  alignas(64) double wide[block_size] = {};
  for (std::size_t i = 0; i < count; ++i) wide[i] = static_cast<double>(x[doubtful[i]]);
  const std::size_t rounded = (count + job.exact_lanes - 1) / job.exact_lanes * job.exact_lanes;
  const void* pointers[max_inputs] = {wide, nullptr, nullptr};
  job.exact_loop(pointers, wide, rounded, job.parameters);
  auto* bits = reinterpret_cast<std::uint16_t*>(narrowed);
  for (std::size_t i = 0; i < count; ++i) {
    bits[doubtful[i]] =
        job.out_stored == DType::float16 ? Float16(wide[i]).bits() : BFloat16(wide[i]).bits();
  }
}

// n elements, at most a block, of one row.
void run_block(const Job& job, const Span* inputs, Span out, std::size_t n, Scratch& scratch) {
  const std::byte* pointers[max_inputs] = {};
  unsigned padded = 0;
  for (int k = 0; k < job.inputs; ++k) {
    pointers[k] = stage_input(job, k, inputs[k], n, scratch);
    if (pointers[k] == scratch.input[k]) padded |= 1u << k;
  }
  const bool direct = out.stride == 1 && job.out_convert == nullptr && !job.stream;
  if (direct) return run_loop(job, pointers, padded, out.data, false, n);
  run_loop(job, pointers, padded, scratch.out, true, n);
  const std::byte* result = scratch.out;
  if (job.out_convert != nullptr) {
    std::byte* narrowed = out.stride == 1 && !job.stream ? out.data : scratch.narrowed;
    if (job.demote != nullptr) {
      narrow_exactly(job, pointers[0], scratch.out, narrowed, n);
    } else {
      job.out_convert(scratch.out, narrowed, n);
    }
    if (narrowed == out.data) return;
    result = narrowed;
  }
  if (job.stream) {
    stream_copy(result, out.data, n * job.out_stored_size);
  } else {
    scatter(result, out.data, out.stride, n, job.out_stored_size);
  }
}

bool is_direct(const Job& job, const Span* inputs, Span out) {
  if (job.stream || out.stride != 1 || job.out_convert != nullptr) return false;
  for (int k = 0; k < job.inputs; ++k) {
    if (inputs[k].stride != 1 || job.input_convert[k] != nullptr) return false;
  }
  return true;
}

// A row of any length: in one go where nothing is staged, else block by block.
void run_row(const Job& job, const Span* inputs, Span out, std::size_t n, Scratch& scratch) {
  if (is_direct(job, inputs, out)) {
    const std::byte* pointers[max_inputs] = {};
    for (int k = 0; k < job.inputs; ++k) pointers[k] = inputs[k].data;
    return run_loop(job, pointers, 0, out.data, false, n);
  }
  Span here[max_inputs];
  for (std::size_t begin = 0; begin < n; begin += block_size) {
    const std::int64_t at = static_cast<std::int64_t>(begin);
    for (int k = 0; k < job.inputs; ++k) {
      const std::int64_t bytes = static_cast<std::int64_t>(job.input_stored_size[k]);
      here[k] = {inputs[k].data + at * inputs[k].stride * bytes, inputs[k].stride};
    }
    const std::int64_t bytes = static_cast<std::int64_t>(job.out_stored_size);
    run_block(job, here, {out.data + at * out.stride * bytes, out.stride},
              std::min(block_size, n - begin), scratch);
  }
}

// Walks the outer dimensions; `operands` hold the operands' positions, the result's first.
class Odometer {
 public:
  Odometer(const ElementwisePlan& plan, const ElementwiseCall& call, std::size_t outer_dimensions)
      : plan_(plan), operands_(call.input_count + 1), index_(outer_dimensions, 0) {
    position_[0] = call.out.data;
    size_[0] = static_cast<std::int64_t>(itemsize(call.out.dtype));
    for (int k = 0; k < call.input_count; ++k) {
      position_[k + 1] = call.inputs[k].data;
      size_[k + 1] = static_cast<std::int64_t>(itemsize(call.inputs[k].dtype));
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
    for (std::size_t d = index_.size(); d-- > 0;) {
      if (++index_[d] < plan_.sizes[d]) return move(d, 1);
      move(d, 1 - plan_.sizes[d]);
      index_[d] = 0;
    }
  }
  std::byte* at(int operand, std::int64_t inner) const {
    return position_[operand] + inner * plan_.strides[operand].back() * size_[operand];
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
};

std::int64_t product(const Dims& sizes, std::size_t count) {
  std::int64_t result = 1;
  for (std::size_t d = 0; d < count; ++d) result *= sizes[d];
  return result;
}

// Elements a thread should get at least: enough to be worth waking it up.
constexpr std::int64_t grain = 8192;

void run_rows(const Job& job, const ElementwiseCall& call, const ElementwisePlan& plan) {
  const std::size_t outer = plan.sizes.size() - 1;
  const std::int64_t length = plan.sizes[outer];
  const std::int64_t rows = product(plan.sizes, outer);
  // Long rows are cut, so that one row is work for several threads too.
  const std::int64_t piece = std::min<std::int64_t>(length, 4 * grain);
  const std::int64_t pieces = (length + piece - 1) / piece;
  parallel_for(rows * pieces, std::max<std::int64_t>(1, grain / piece),
               [&](std::int64_t begin, std::int64_t end) {
                 Scratch scratch;
                 Odometer odometer(plan, call, outer);
                 odometer.jump_to(begin / pieces);
                 std::int64_t part = begin % pieces;
                 for (std::int64_t unit = begin; unit < end; ++unit) {
                   const std::int64_t first = part * piece;
                   Span inputs[max_inputs];
                   for (int k = 0; k < job.inputs; ++k) {
                     inputs[k] = {odometer.at(k + 1, first), plan.strides[k + 1][outer]};
                   }
                   run_row(job, inputs, {odometer.at(0, first), plan.strides[0][outer]},
                           static_cast<std::size_t>(std::min(piece, length - first)), scratch);
                   if (++part == pieces) {
                     part = 0;
                     odometer.advance();
                   }
                 }
                 if (job.stream) stream_fence();
               });
}

// Blocks of consecutive elements that span several short rows: inputs are gathered row by row into
// a block, then the loop runs once.
void run_gathered(const Job& job, const ElementwiseCall& call, const ElementwisePlan& plan) {
  const std::size_t outer = plan.sizes.size() - 1;
  const std::int64_t length = plan.sizes[outer];
  const std::int64_t rows = product(plan.sizes, outer);
  const std::int64_t rows_per_block =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(block_size) / length);
  const std::int64_t blocks = (rows + rows_per_block - 1) / rows_per_block;
  parallel_for(
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
          run_block(job, inputs, {results, 1}, static_cast<std::size_t>(count * length), scratch);
          for (std::int64_t row = 0; row < count; ++row) {
            scatter(results + static_cast<std::size_t>(row * length) * job.out_stored_size,
                    out_rows[row], plan.strides[0][outer], static_cast<std::size_t>(length),
                    job.out_stored_size);
          }
        }
      });
}

// Tiles of the two innermost dimensions: transposed inputs are read along their dense direction
// into a tile, whose rows then feed the loop.
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
  parallel_for(
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

// Dense operands, or scalars, over one long dimension.
void run_contiguous(const Job& job, const ElementwiseCall& call, const std::int64_t* strides) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    Span inputs[max_inputs];
    bool direct = job.out_convert == nullptr && !job.stream;
    for (int k = 0; k < job.inputs; ++k) {
      const std::int64_t bytes = static_cast<std::int64_t>(job.input_stored_size[k]);
      inputs[k] = {call.inputs[k].data + begin * strides[k] * bytes, strides[k]};
      direct = direct && strides[k] == 1 && job.input_convert[k] == nullptr;
    }
    const std::int64_t bytes = static_cast<std::int64_t>(job.out_stored_size);
    const Span out = {call.out.data + begin * bytes, 1};
    const auto n = static_cast<std::size_t>(end - begin);
    if (direct) {  // no scratch to set up: this is what small tensors take
      const std::byte* pointers[max_inputs] = {};
      for (int k = 0; k < job.inputs; ++k) pointers[k] = inputs[k].data;
      return run_loop(job, pointers, 0, out.data, false, n);
    }
    Scratch scratch;
    run_row(job, inputs, out, n, scratch);
    if (job.stream) stream_fence();
  };
  parallel_for(call.numel, grain, run);
}

bool pays_to_stream(const Job& job, const ElementwiseCall& call, bool dense_result) {
  const std::size_t bytes = static_cast<std::size_t>(call.numel) * job.out_stored_size;
  if (!dense_result || bytes < last_level_cache_bytes()) return false;
  if (reinterpret_cast<std::uintptr_t>(call.out.data) % 64 != 0) return false;
  for (int k = 0; k < job.inputs; ++k) {
    if (call.inputs[k].data == call.out.data)
      return false;  // in place: the lines are cached anyway
  }
  return true;
}

}  // namespace

const ElementwiseTable& elementwise_table(DType compute) {
  if (compute == DType::float32) return elementwise_table_float32();
  if (compute == DType::float64) return elementwise_table_float64();
  return elementwise_table_integer(compute == DType::bool_ ? DType::uint8 : compute);
}

bool has_elementwise(ElementwiseOp op, DType compute) {
  if (is_half(compute)) compute = DType::float32;
  return elementwise_table(compute).loops[static_cast<int>(op)] != nullptr;
}

void elementwise(const ElementwiseCall& call) {
  if (call.numel == 0) return;
  Job job = make_job(call);
  if (call.contiguous) {
    constexpr std::int64_t ones[max_inputs] = {1, 1, 1};
    job.stream = pays_to_stream(job, call, true);
    return run_contiguous(job, call, ones);
  }
  const std::int64_t* strides[plan::max_operands] = {call.out.strides};
  for (int k = 0; k < job.inputs; ++k) strides[k + 1] = call.inputs[k].strides;
  const ElementwisePlan plan = plan::plan_elementwise(*call.shape, job.inputs + 1, strides);
  switch (plan.layout) {
    case Layout::contiguous: {
      std::int64_t inner[max_inputs] = {};
      for (int k = 0; k < job.inputs; ++k) inner[k] = plan.strides[k + 1][0];
      job.stream = pays_to_stream(job, call, true);
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
