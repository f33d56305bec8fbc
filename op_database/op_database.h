// The op database: for every op how it is called on sample inputs, what an independent computation
// says, and what its page tells. The tests, the gradient check, the fuzzer, `extensor ops` and
// docs/ops.md walk it; a family of ops is one file of this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "extensor/extensor.h"

namespace extensor::op_database {

using Tensors = std::vector<Tensor>;

// One way of calling an op: inputs, and the call with everything else (axes, strides …) bound.
struct Sample {
  std::string label;  // what sets it apart: "[4, 6], axis 1, keepdims"
  // Dense; float64 where the op reads floats. Checks give the floats other layouts and dtypes, so
  // the functions below take what they are given. Away from kinks and ties where there is a
  // backward: a float may be moved by 3e-3 · max(1, |x|).
  Tensors inputs;
  std::function<Tensors(const Tensors& inputs)> forward;
  // The same results computed independently of the library: plain loops over doubles.
  std::function<Tensors(const Tensors& inputs)> reference;
  // The gradients of the inputs, one each, undefined where there is none (integers, masks); null
  // where the op has no gradient. Where the backward reads results, `saves_results` is set, and
  // they stand behind the inputs.
  std::function<Tensors(const Tensors& grad_outputs, const Tensors& inputs)> backward;
  // The gradients of grad_outputs, then of the inputs, given those of backward's results (undefined
  // where that is); null where the op is not differentiable twice or linear pieces make it 0.
  std::function<Tensors(const Tensors& grad_gradients, const Tensors& grad_outputs,
                        const Tensors& inputs)>
      double_backward;
  bool saves_results = false;
  bool rows_must_differ =
      false;  // no gradient where they are equal, as a broadcast layout has them
};

// Which dtypes the floating inputs of the samples may take.
enum class DTypes : std::uint8_t {
  floats,   // float16, bfloat16, float32, float64
  numbers,  // the floats and the integers
  all,      // and bool
};

struct Op {
  std::string name;                   // of the public function
  std::string family;                 // "reduction": the section of docs/ops.md
  std::string formula;                // what it computes, in a line of plain text or Unicode maths
  std::string gradient;               // its gradient rule in a line; empty: none
  std::vector<std::string> backward;  // the public functions that give it: {"sum_backward"}
  DTypes dtypes = DTypes::floats;
  std::function<std::vector<Sample>()> samples;
  std::vector<std::string> aliases = {};  // other public names of the same function
};

// Every op, family by family. Made once.
const std::vector<Op>& ops();
// Null where there is no op of that name.
const Op* find_op(const std::string& name);

// ---- numbers to sample with, the same in every run
// -----------------------------------------------

Tensor sample_uniform(const Shape& shape, double lo, double hi, std::uint64_t seed);
// No two elements closer than 0.02, in random order around 0: for maxima, sorting, medians.
Tensor sample_distinct(const Shape& shape, std::uint64_t seed);
// int64 from lo … hi − 1.
Tensor sample_integers(const Shape& shape, std::int64_t lo, std::int64_t hi, std::uint64_t seed);

// ---- the families, one file each
// -----------------------------------------------------------------

void add_elementwise(std::vector<Op>& ops);
void add_reductions(std::vector<Op>& ops);
void add_cumulative(std::vector<Op>& ops);
void add_softmax(std::vector<Op>& ops);
void add_matrix(std::vector<Op>& ops);
void add_shape(std::vector<Op>& ops);
void add_index_expressions(std::vector<Op>& ops);
void add_indexing(std::vector<Op>& ops);
void add_sorting(std::vector<Op>& ops);
void add_losses(std::vector<Op>& ops);
void add_linear(std::vector<Op>& ops);
void add_convolution(std::vector<Op>& ops);
void add_pooling(std::vector<Op>& ops);
void add_normalization(std::vector<Op>& ops);
void add_embedding_and_dropout(std::vector<Op>& ops);
void add_attention(std::vector<Op>& ops);
void add_recurrent(std::vector<Op>& ops);
void add_optimizer_steps(std::vector<Op>& ops);
void add_creation(std::vector<Op>& ops);

}  // namespace extensor::op_database
