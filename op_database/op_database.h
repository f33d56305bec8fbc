// The op database. For every op it has calls on sample inputs, the results of an independent
// computation, and the documentation. The tests, the gradient check, the fuzzer, `extensor ops` and
// docs/ops.md use it; each family of ops is one file of this directory.
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
  std::string label;  // distinguishes it from the op's other samples: "[4, 6], axis 1, keepdims"
  // Dense; float64 if the op supports more than one dtype. The checks convert the float64 inputs to
  // every dtype of Op::dtypes and to several layouts, so the functions below must not assume
  // either. Samples with a backward stay away from kinks and ties: the checks move a float by up to
  // 3e-3 · max(1, |x|).
  Tensors inputs;
  std::function<Tensors(const Tensors& inputs)> forward;
  // The same results computed independently of the library, by plain loops over doubles. Required.
  // The inputs are dense and have the dtype of the call. A float64 result stands for the dtype that
  // Op::dtypes specifies; a result of any other dtype must match exactly.
  std::function<Tensors(const Tensors& inputs)> reference;
  // The gradients of the inputs, one each: defined for every floating input that is not listed in
  // `constants`, undefined for all others. Null if the op has no gradient. With `saves_results` the
  // results of the forward follow the inputs.
  std::function<Tensors(const Tensors& grad_outputs, const Tensors& inputs)> backward;
  // The gradients of grad_outputs, then of the inputs, given those of backward's results, if the op
  // has a public double backward; an undefined gradient stands for 0. For all other ops the second
  // gradients are those of the recorded backward.
  std::function<Tensors(const Tensors& grad_gradients, const Tensors& grad_outputs,
                        const Tensors& inputs)>
      double_backward = nullptr;
  bool saves_results = false;
  bool rows_must_differ = false;  // equal rows, as in a broadcast layout, have no gradient
  // Floating inputs that have no gradient: class weights, running statistics.
  std::vector<std::size_t> constants = {};
  // The call has another meaning, or is an error, with integer inputs, although the op supports
  // them.
  bool floats_only = false;
  // The integer that replaces element x of an input in an integer dtype (its magnitude if the
  // dtype is unsigned). Default: 3x, rounded.
  std::function<double(std::size_t input, double x)> integer_of = nullptr;
  // The magnitudes from which the elements of each result are computed; rounding errors are
  // measured relative to them. Only for results that do not depend on the inputs' values; for all
  // others the checks determine the magnitudes by varying the inputs.
  std::function<Tensors(const Tensors& inputs)> magnitudes = nullptr;
  // Intermediate terms of about this magnitude cancel or are rounded, which varying the inputs does
  // not reveal: rounding errors of results and gradients are measured relative to it at least.
  double cancelling_terms = 0;
};

// Whether the backward must return a gradient for this input.
bool is_differentiable(const Sample& sample, std::size_t input);

// The dtypes that an op supports, and the dtype of its results if they follow its inputs.
enum class DTypes : std::uint8_t {
  floats,             // float16, bfloat16, float32, float64
  wide_floats,        // float32, float64
  numbers,            // the floats and the integers
  all,                // and bool
  as_float32,         // every dtype; integers and bool become float32
  as_64_bits,         // every dtype; integers and bool become int64, unsigned integers uint64
  integers,           // the integers
  integers_and_bool,  // and bool
  int64_only,         // the dtype is fixed
};
bool contains(DTypes dtypes, DType dtype);
// The dtype of a result that follows inputs of `dtype`.
DType result_dtype(DTypes dtypes, DType dtype);
// For the reference page: "floats and integers".
const char* description(DTypes dtypes);

struct Op {
  std::string name;                   // of the public function
  std::string family;                 // "reduction": the section of docs/ops.md
  std::string formula;                // the definition, in a line of plain text or Unicode maths
  std::string gradient;               // the gradient rule in a line; empty: none
  std::vector<std::string> backward;  // the public functions that compute it: {"sum_backward"}
  DTypes dtypes = DTypes::floats;     // every other dtype must be a DTypeError
  std::function<std::vector<Sample>()> samples;
  std::vector<std::string> aliases = {};  // other public names of the same function
};

// Every op, family by family. Made once.
const std::vector<Op>& ops();
// Null if no op has that name.
const Op* find_op(const std::string& name);

// ---- deterministic numbers for samples

Tensor sample_uniform(const Shape& shape, double lo, double hi, std::uint64_t seed);
// No two elements closer than 0.02, in random order around 0: for maxima, sorting, medians.
Tensor sample_distinct(const Shape& shape, std::uint64_t seed);
// int64 from lo … hi − 1.
Tensor sample_integers(const Shape& shape, std::int64_t lo, std::int64_t hi, std::uint64_t seed);
// An integer_of for samples whose inputs are whole numbers.
double whole_number(std::size_t input, double x);

// ---- the families, one file each

void add_elementwise(std::vector<Op>& ops);
void add_floating_point(std::vector<Op>& ops);
void add_reductions(std::vector<Op>& ops);
void add_cumulative(std::vector<Op>& ops);
void add_softmax(std::vector<Op>& ops);
void add_matrix(std::vector<Op>& ops);
void add_shape(std::vector<Op>& ops);
void add_index_expressions(std::vector<Op>& ops);
void add_indexing(std::vector<Op>& ops);
void add_sorting(std::vector<Op>& ops);
void add_statistics(std::vector<Op>& ops);
void add_losses(std::vector<Op>& ops);
void add_composed_losses(std::vector<Op>& ops);
void add_linalg(std::vector<Op>& ops);
void add_fft(std::vector<Op>& ops);
void add_linear(std::vector<Op>& ops);
void add_convolution(std::vector<Op>& ops);
void add_volumes(std::vector<Op>& ops);
void add_pooling(std::vector<Op>& ops);
void add_resampling(std::vector<Op>& ops);
void add_normalization(std::vector<Op>& ops);
void add_embedding_and_dropout(std::vector<Op>& ops);
void add_attention(std::vector<Op>& ops);
void add_recurrent(std::vector<Op>& ops);
void add_optimizer_steps(std::vector<Op>& ops);
void add_creation(std::vector<Op>& ops);
void add_random(std::vector<Op>& ops);

}  // namespace extensor::op_database
