#include "backend/cpu/elementwise/block.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/elementwise/half_table.h"

namespace extensor::cpu {

namespace {

using backend::ElementwiseCall;
using backend::ElementwiseOp;

constexpr std::size_t widest_lanes = 16;

// The dtypes that the loop of (op, compute) reads an input as and writes the result as.
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

// Whether the op is a function of one tensor without parameters.
bool has_no_parameters(ElementwiseOp op) {
  switch (op) {
#define UNARY(name, ...) case ElementwiseOp::name:
#define UNARY_1(...)
#define UNARY_2(...)
#define UNARY_2_NUMERIC(...)
#include "extensor/tables/unary.def"
    return true;
    default:
      return false;
  }
}

// Whether results for halves are halves: nothing is rounded, and computing beats a table.
bool is_exact_on_halves(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::negative:
    case ElementwiseOp::positive:
    case ElementwiseOp::abs:
    case ElementwiseOp::sign:
    case ElementwiseOp::ceil:
    case ElementwiseOp::floor:
    case ElementwiseOp::round:
    case ElementwiseOp::trunc:
    case ElementwiseOp::relu:
    case ElementwiseOp::relu6:
      return true;
    default:
      return false;
  }
}

// Whether the loop works on plain elements: it takes any length and no steps.
bool is_plain(ElementwiseOp op) { return gives_bool(op) || op == ElementwiseOp::where; }

bool same_representation(DType stored, DType read) {
  return stored == read || (stored == DType::bool_ && read == DType::uint8);
}

void copy_loop(const void* const* inputs, const std::size_t*, void* out, std::size_t n,
               const backend::Parameter* bytes_per_element) {
  std::memcpy(out, inputs[0], n * static_cast<std::size_t>(bytes_per_element->integer));
}

// The job of a call that computes every element.
Job make_computing_job(const ElementwiseCall& call) {
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
    job.lanes = is_plain(call.op) ? 1 : table.lanes;
    for (int k = 0; k < job.inputs; ++k) {
      job.input_read[k] = loop_input_dtype(call.op, k, compute);
    }
    job.out_written = gives_bool(call.op) ? DType::bool_ : compute;
    const bool exact = call.inputs[0].dtype == out_dtype && is_exact_on_halves(call.op);
    if (is_half(out_dtype) && compute == DType::float32 && is_unary_forward(call.op) && !exact) {
      const ElementwiseTable& doubles = elementwise_table(DType::float64);
      job.exact_loop = doubles.loops[static_cast<int>(call.op)];
      job.exact_lanes = doubles.lanes;
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

// The job of a call that looks up its results.
Job make_looking_up_job(const HalfTable& table, DType half) {
  Job job;
  job.loop = &look_up_loop;
  job.lanes = 1;
  job.inputs = 1;
  job.parameters = &table.parameter;
  job.input_stored[0] = job.input_read[0] = job.out_written = job.out_stored = half;
  job.input_stored_size[0] = job.input_read_size[0] = itemsize(half);
  job.out_written_size = job.out_stored_size = itemsize(half);
  job.input_convert[0] = job.out_convert = nullptr;
  return job;
}

// Dense inputs, or single vectors (step 0), and how far each may be read.
struct Staged {
  const std::byte* data[max_inputs] = {};
  std::size_t steps[max_inputs] = {1, 1, 1};
  unsigned padded = 0;  // a bit per input that may be read a vector past its end
};

// Fills a vector with the element at `from`, converted if the loop reads another type.
void repeat(const std::byte* from, ConvertLoop convert, std::size_t read_size, std::byte* to,
            std::size_t n) {
  alignas(8) std::byte converted[widest_item];
  if (convert != nullptr) {
    convert(from, converted, 1);
    from = converted;
  }
  splat(from, to, n, read_size);
}

// Copies less than a vector of elements. A call of memcpy would take longer.
inline void copy_few(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8) std::memcpy(to, from, 8);
  if ((bytes & 4) != 0) {
    std::memcpy(to, from, 4);
    to += 4;
    from += 4;
  }
  for (bytes &= 3; bytes != 0; --bytes) *to++ = *from++;
}

// Runs a loop on n elements. The last, incomplete vector uses small buffers, whose other lanes are
// 0.
void run_loop(ElementwiseLoop loop, const backend::Parameter* parameters, int input_count,
              std::size_t lanes, const std::size_t* input_sizes, const Staged& staged,
              std::byte* out, std::size_t out_size, bool out_padded, std::size_t n) {
  const void* pointers[max_inputs] = {staged.data[0], staged.data[1], staged.data[2]};
  const std::size_t tail = n & (lanes - 1);
  const unsigned every_input = (1u << input_count) - 1;
  if (tail == 0 || (out_padded && (staged.padded & every_input) == every_input)) {
    loop(pointers, staged.steps, out, tail == 0 ? n : n - tail + lanes, parameters);
    return;
  }
  const std::size_t done = n - tail;
  if (done != 0) loop(pointers, staged.steps, out, done, parameters);
  alignas(64) std::byte tails[max_inputs][widest_lanes * widest_item];
  for (int k = 0; k < input_count; ++k) {
    if (staged.steps[k] == 0) continue;
    const std::size_t size = input_sizes[k];
    for (std::size_t i = 0; i < lanes * size; i += 64) std::memset(tails[k] + i, 0, 64);
    copy_few(tails[k], staged.data[k] + done * size, tail * size);
    pointers[k] = tails[k];
  }
  alignas(64) std::byte result[widest_lanes * widest_item];
  loop(pointers, staged.steps, result, lanes, parameters);
  copy_few(out + done * out_size, result, tail * out_size);
}

void run_loop(const Job& job, const Staged& staged, std::byte* out, bool out_padded,
              std::size_t n) {
  run_loop(job.loop, job.parameters, job.inputs, job.lanes, job.input_read_size, staged, out,
           job.out_written_size, out_padded, n);
}

// Makes n elements of input k readable by the loop, in place if possible.
void stage_input(const Job& job, int k, Span span, std::size_t n, Scratch& scratch,
                 Staged& staged) {
  staged.data[k] = span.data;
  if (span.stride == 1 && job.input_convert[k] == nullptr) return;
  std::byte* block = scratch.input[k];
  staged.data[k] = block;
  staged.padded |= 1u << k;
  if (span.stride == 0) {
    const std::size_t copies = job.takes_steps() ? job.lanes : n;
    if (job.takes_steps()) staged.steps[k] = 0;
    if (scratch.repeated[k] == span.data && scratch.repetitions[k] >= copies) return;
    repeat(span.data, job.input_convert[k], job.input_read_size[k], block, copies);
    scratch.repeated[k] = span.data;
    scratch.repetitions[k] = copies;
    return;
  }
  const std::byte* dense = span.data;
  if (span.stride != 1) {
    std::byte* gathered = job.input_convert[k] == nullptr ? block : scratch.gathered;
    gather(span.data, span.stride, gathered, n, job.input_stored_size[k]);
    dense = gathered;
  }
  if (job.input_convert[k] != nullptr) job.input_convert[k](dense, block, n);
  // The last vector is processed whole: lanes past n hold numbers too.
  const std::size_t pad = (job.lanes - n % job.lanes) % job.lanes;
  std::memset(block + n * job.input_read_size[k], 0, pad * job.input_read_size[k]);
}

// Recomputes float32 results near a rounding boundary of the half in float64.
void narrow_exactly(const Job& job, const Staged& staged, const std::byte* results,
                    std::byte* narrowed, std::size_t n) {
  std::uint16_t doubtful[block_size];
  const std::size_t count =
      job.demote(reinterpret_cast<const float*>(results), narrowed, n, doubtful);
  if (count == 0) return;
  const float* x = reinterpret_cast<const float*>(staged.data[0]);
  alignas(64) double wide[block_size];
  const std::size_t rounded = (count + job.exact_lanes - 1) / job.exact_lanes * job.exact_lanes;
  for (std::size_t i = 0; i < rounded; ++i) {
    wide[i] = static_cast<double>(x[doubtful[i < count ? i : 0] * staged.steps[0]]);
  }
  const void* pointers[max_inputs] = {wide, nullptr, nullptr};
  // Uses the parameters as rounded to float32: one function for all elements, and products exact in
  // double.
  backend::Parameter parameters[] = {job.parameters[0], job.parameters[1]};
  for (auto& parameter : parameters) parameter.real = static_cast<float>(parameter.real);
  constexpr std::size_t step = 1;
  job.exact_loop(pointers, &step, wide, rounded, parameters);
  auto* bits = reinterpret_cast<std::uint16_t*>(narrowed);
  for (std::size_t i = 0; i < count; ++i) {
    bits[doubtful[i]] =
        job.out_stored == DType::float16 ? Float16(wide[i]).bits() : BFloat16(wide[i]).bits();
  }
}

// Processes n elements, at most a block, of one row.
void run_block(const Job& job, const Span* inputs, Span out, std::size_t n, Scratch& scratch) {
  Staged staged;
  for (int k = 0; k < job.inputs; ++k) stage_input(job, k, inputs[k], n, scratch, staged);
  const bool direct = out.stride == 1 && job.out_convert == nullptr && !job.stream;
  if (direct) return run_loop(job, staged, out.data, false, n);
  const std::byte* result = scratch.out;
  if (job.loop == &copy_loop && job.out_convert == nullptr) {
    result = staged.data[0];
  } else {
    run_loop(job, staged, scratch.out, true, n);
  }
  if (job.out_convert != nullptr) {
    std::byte* narrowed = out.stride == 1 && !job.stream ? out.data : scratch.narrowed;
    if (job.demote != nullptr) {
      narrow_exactly(job, staged, scratch.out, narrowed, n);
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

// Prefetches the inputs most of a block ahead, so that reads do not wait while a block is
// processed; whole pages ahead, the lines of two inputs would evict each other from the L1 cache.
// An address past the row belongs to the next one, or is harmless to prefetch.
void prefetch_block(const Job& job, const Span* inputs) {
  constexpr std::size_t ahead = 1536;
  for (int k = 0; k < job.inputs; ++k) {
    const std::int64_t stride = inputs[k].stride;
    if (stride < 1 || stride > 2) continue;
    const std::size_t bytes =
        block_size * job.input_stored_size[k] * static_cast<std::size_t>(stride);
    for (std::size_t at = 0; at < bytes; at += 64) {
      __builtin_prefetch(inputs[k].data + ahead + at);
    }
  }
}

// Whether the row is converted from dense to dense elements, without a block between.
bool converts_directly(const Job& job, const Span* inputs, Span out) {
  return job.loop == &copy_loop && job.input_convert[0] != nullptr && !job.stream &&
         inputs[0].stride == 1 && out.stride == 1;
}

void fill_half_table(ElementwiseOp op, DType half, std::uint16_t* results) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    results[bits] = static_cast<std::uint16_t>(bits);
  }
  ElementwiseCall call{};
  call.op = op;
  call.compute = DType::float32;
  call.input_count = 1;
  call.inputs[0].dtype = call.out.dtype = half;
  const Span arguments = {reinterpret_cast<std::byte*>(results), 1};
  Scratch scratch;
  run_row(make_computing_job(call), &arguments, arguments, 65536, scratch);
}

}  // namespace

Job make_job(const ElementwiseCall& call) {
  const DType half = call.out.dtype;
  if (is_half(half) && call.inputs[0].dtype == half && has_no_parameters(call.op) &&
      !is_exact_on_halves(call.op)) {
    const HalfTable* table = half_table(call.op, half, call.numel, &fill_half_table);
    if (table != nullptr) return make_looking_up_job(*table, half);
  }
  return make_computing_job(call);
}

bool run_small(const ElementwiseCall& call) {
  const DType dtype = call.compute;
  if ((dtype != DType::float32 && dtype != DType::float64) || call.out.dtype != dtype ||
      is_plain(call.op)) {
    return false;
  }
  const ElementwiseTable& table = elementwise_table(dtype);
  const ElementwiseLoop loop = table.loops[static_cast<int>(call.op)];
  if (loop == nullptr) return false;  // a copy, which is not a row of the tables
  const std::size_t size = itemsize(dtype);
  const std::size_t sizes[max_inputs] = {size, size, size};
  alignas(64) std::byte vectors[max_inputs][widest_lanes * widest_item];
  Staged staged;
  for (int k = 0; k < call.input_count; ++k) {
    const backend::Operand& input = call.inputs[k];
    staged.data[k] = input.data;
    if (call.repeats[k] && table.lanes > 1) {
      repeat(first_element(input),
             input.dtype == dtype ? nullptr : convert_loop(input.dtype, dtype), size, vectors[k],
             table.lanes);
      staged.data[k] = vectors[k];
      staged.steps[k] = 0;
    } else if (input.dtype != dtype || call.repeats[k]) {
      return false;
    }
  }
  run_loop(loop, call.parameters, call.input_count, table.lanes, sizes, staged, call.out.data, size,
           false, static_cast<std::size_t>(call.numel));
  return true;
}

bool is_direct(const Job& job, const Span* inputs, Span out) {
  if (job.stream || out.stride != 1 || job.out_convert != nullptr) return false;
  for (int k = 0; k < job.inputs; ++k) {
    const bool dense = inputs[k].stride == 1 && job.input_convert[k] == nullptr;
    if (!dense && !(inputs[k].stride == 0 && job.takes_steps())) return false;
  }
  return true;
}

void run_direct_row(const Job& job, const Span* inputs, Span out, std::size_t n) {
  alignas(64) std::byte vectors[max_inputs][widest_lanes * widest_item];
  Staged staged;
  for (int k = 0; k < job.inputs; ++k) {
    staged.data[k] = inputs[k].data;
    if (inputs[k].stride == 1) continue;
    repeat(inputs[k].data, job.input_convert[k], job.input_read_size[k], vectors[k], job.lanes);
    staged.data[k] = vectors[k];
    staged.steps[k] = 0;
  }
  run_loop(job, staged, out.data, false, n);
}

void run_row(const Job& job, const Span* inputs, Span out, std::size_t n, Scratch& scratch) {
  if (is_direct(job, inputs, out)) return run_direct_row(job, inputs, out, n);
  if (converts_directly(job, inputs, out)) return job.input_convert[0](inputs[0].data, out.data, n);
  Span here[max_inputs];
  for (std::size_t begin = 0; begin < n; begin += block_size) {
    const std::int64_t at = static_cast<std::int64_t>(begin);
    for (int k = 0; k < job.inputs; ++k) {
      const std::int64_t bytes = static_cast<std::int64_t>(job.input_stored_size[k]);
      here[k] = {inputs[k].data + at * inputs[k].stride * bytes, inputs[k].stride};
    }
    prefetch_block(job, here);
    const std::int64_t bytes = static_cast<std::int64_t>(job.out_stored_size);
    run_block(job, here, {out.data + at * out.stride * bytes, out.stride},
              std::min(block_size, n - begin), scratch);
  }
}

}  // namespace extensor::cpu
