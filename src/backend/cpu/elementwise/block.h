// One block of an elementwise call: makes operands of any dtype and stride along one dimension
// readable for a loop of the tables, and stores its result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/convert.h"
#include "backend/cpu/elementwise/kernels.h"

namespace extensor::cpu {

using backend::max_inputs;

inline constexpr std::size_t block_size = 512;  // elements staged at a time
inline constexpr std::size_t widest_item = 8;   // bytes

// One operand along the innermost dimension.
struct Span {
  std::byte* data;
  std::int64_t stride;
};

// The first element of an input; a number is inside the call itself.
inline std::byte* first_element(const backend::Operand& input) {
  return input.is_number() ? const_cast<std::byte*>(input.number) : input.data;
}

// Everything that stays the same during a call.
struct Job {
  ElementwiseLoop loop;
  std::size_t lanes;
  int inputs;
  const backend::Parameter* parameters;
  DType input_stored[max_inputs] = {}, input_read[max_inputs] = {};
  std::size_t input_stored_size[max_inputs], input_read_size[max_inputs];
  ConvertLoop input_convert[max_inputs];  // null if stored and read types are the same
  DType out_written, out_stored;
  std::size_t out_written_size, out_stored_size;
  ConvertLoop out_convert;
  // For halves computed in float32: recomputes results that may be rounded wrongly in float64.
  ElementwiseLoop exact_loop = nullptr;
  std::size_t exact_lanes = 1;
  DemoteLoop demote = nullptr;
  bool stream = false;

  // Whether the loop can read one vector repeatedly instead of a block of copies.
  bool takes_steps() const { return lanes > 1; }
};

// Blocks in the L1 cache, left uninitialised: clearing them costs more than a small tensor.
struct Scratch {
  Scratch() {}  // NOLINT: a defaulted one would zero the blocks
  alignas(64) std::byte input[max_inputs][block_size * widest_item];
  alignas(64) std::byte gathered[block_size * widest_item];
  alignas(64) std::byte out[block_size * widest_item];
  alignas(64) std::byte narrowed[block_size * widest_item];
  // The scalar that each input block holds copies of, so that a row of the same scalar is not
  // refilled.
  const std::byte* repeated[max_inputs] = {};
  std::size_t repetitions[max_inputs] = {};
};

// Runs a contiguous call whose operands all have the compute type, on this thread: the shortest
// path, for tensors so small that overhead dominates. Returns false, and does nothing, for any
// other call.
bool run_small(const backend::ElementwiseCall& call);

Job make_job(const backend::ElementwiseCall& call);

// Runs a row of any length: at once if nothing is staged, else block by block.
void run_row(const Job& job, const Span* inputs, Span out, std::size_t n, Scratch& scratch);

// Whether a row needs no staging and no scratch, as for small tensors.
bool is_direct(const Job& job, const Span* inputs, Span out);
void run_direct_row(const Job& job, const Span* inputs, Span out, std::size_t n);

}  // namespace extensor::cpu
