#include "op_database/explanations.h"

#include <cctype>
#include <map>

namespace extensor::op_database {

namespace {

// ---- texts that several ops share

// Rows of the op tables.
const std::string exact = "Exact: nothing is rounded.";
const std::string rounded_once = "Rounded once, to nearest even; halves are computed in float32.";
const std::string two_ulp =
    "Within 2 ULP in float32 and float64; halves are computed in float32 and correctly rounded.";
const std::string per_element = "O(n) for the n elements of the result, in one pass.";
const std::string unary_shape = "None: the result has the shape of x.";
const std::string binary_shapes =
    "a and b broadcast; the gradient of each is summed over the dimensions along which it was "
    "repeated, before it is rounded.";
const std::string none_bool = "None: the result is true or false.";
const std::string bit_results = "None: the operands are integers or bool.";
const std::string without_gradient_shapes = "a and b broadcast.";

// Creation.
const std::string no_input = "None: no tensor goes in.";
const std::string no_gradient_of_shape = "None: only the shape and dtype of x are read.";
const std::string given_shape = "None: the shape is given.";
const std::string exact_values = "Exact.";
const std::string filling = "O(n) for n elements.";
const std::string draws =
    "Element i is a function of (seed, stream, offset + i) alone: the same on every device and for "
    "any number of threads.";

// Elements that are moved or selected.
const std::string moved = "Exact: elements are copied, not computed.";
const std::string same_elements = "The same elements in the same order; g takes the old shape.";
const std::string copying = "O(n) for the n elements of the result.";
const std::string view = "O(1): the result is a view.";
const std::string none_position = "None: the result is a position or a count.";
const std::string adding =
    "Exact forward. What is added at one place is added in the order of the indices, in float64 "
    "for "
    "floats, and rounded once, whatever the number of threads.";

// Reductions.
const std::string reduces =
    "None: the result has the shape of x without the reduced axes, or with 1 in their place "
    "(keepdims).";
const std::string pairwise =
    "Floats are summed pairwise in float32 or wider, with an error of O(log n) roundings that does "
    "not depend on the number of threads; sums of integers are 64 bits wide and wrap.";
const std::string per_input = "O(n) for the n elements of x.";

// Linear algebra.
const std::string line_alone =
    "None: [..., m, ...] gives [..., n, ...]; a spectrum of real numbers has n / 2 + 1. Each line "
    "along the axis is computed on its own.";
const std::string line_edges =
    "A longer axis is cropped to n, a shorter one followed by zeros. n below 1, as of an empty "
    "axis "
    "without n, is a ValueError. NaN and infinity give NaN in all numbers of their line.";
const std::string block_alone =
    "None: the axes become as long as s says; all others are a batch. An axis that is named twice "
    "is "
    "transformed twice.";
const std::string block_edges =
    "As fft along each axis. No axes give x; s of another length than axes is a ValueError.";
const std::string transform_error =
    "Computed in the precision of x, with roots of one computed in double: errors are a few ULP of "
    "the root mean square of a line, and grow with the logarithm of n.";
const std::string transform_time =
    "O(n log n) for each line, also of a prime n, and scratch memory for a few lines.";

const std::string matrices_alone =
    "None: each matrix of a batch is computed on its own, and the result has the shape of x.";
const std::string system_shapes =
    "b is a vector [n] or matrices [..., n, k]; the batches of a and b broadcast, and gradients "
    "are "
    "summed over the repeated dimensions.";
const std::string small_in_double =
    "Up to a few dozen rows in float64, with float32 results rounded once; larger matrices by "
    "LAPACK, if there is one, in the dtype of x.";

// Losses.
const std::string loss_shapes = "None: x and y have one shape; [n] and [n, 1] are a ShapeError.";
const std::string loss_sums =
    "Computed in float32 or wider; sums and means do not depend on the number of threads.";
const std::string loss_cost = "O(n) for n elements, in one pass.";

// Normalization.
const std::string norm_derivation =
    "With s = 1 / √(variance + eps), x̂ = s (x − mean) and the row's mean: x moves the mean by 1 / "
    "n "
    "and s by −s² x̂ / n, which subtracts the two means from g w.";
const std::string norm_numerics =
    "The mean is subtracted before squaring, so a common offset costs no digits. Halves are "
    "computed in float32 and rounded once.";
const std::string norm_cost =
    "O(n) for the n elements of x; the backward computes the statistics again.";

// Optimizer steps.
const std::string step_shapes = "None: the parameter, its gradient and its states have one shape.";
const std::string step_numerics =
    "Coefficients are computed in double; halves step in float32 with float32 states and are "
    "rounded once.";
const std::string step_cost = "O(n) for n elements, in one pass and in place.";

std::map<std::string, Explanation> make_explanations() {
  std::map<std::string, Explanation> all;
  const auto is_unary = [](const std::string& name) {
    static const std::map<std::string, bool> names = {
#define UNARY(name, ...) {#name, true},
#include "extensor/tables/unary.def"
#define PREDICATE(name, ...) {#name, true},
#define BITWISE_UNARY(name, ...) {#name, true},
#include "extensor/tables/logical.def"
    };
    return names.contains(name);
  };
#define ROW(name, derivation, edges, numerics)                                              \
  all[#name] = {derivation, is_unary(#name) ? unary_shape : binary_shapes, edges, numerics, \
                per_element};
#define LOGICAL(name, edges)                                                                  \
  all[#name] = {std::string(#name).starts_with("bitwise") ? bit_results : none_bool,          \
                is_unary(#name) ? unary_shape : without_gradient_shapes, edges, exact_values, \
                per_element};
#define OP(name, derivation, broadcasting, edges, numerics, complexity) \
  all[#name] = {derivation, broadcasting, edges, numerics, complexity};
#include "op_database/explanations/creation.inc"
#include "op_database/explanations/elementwise.inc"
#include "op_database/explanations/fft.inc"
#include "op_database/explanations/indexing.inc"
#include "op_database/explanations/kernels.inc"
#include "op_database/explanations/linalg.inc"
#include "op_database/explanations/logical.inc"
#include "op_database/explanations/losses.inc"
#include "op_database/explanations/matrix.inc"
#include "op_database/explanations/reduction.inc"
#include "op_database/explanations/rows.inc"
#include "op_database/explanations/shape.inc"
#include "op_database/explanations/sorting.inc"
#include "op_database/explanations/steps.inc"
#undef OP
#undef LOGICAL
#undef ROW
  return all;
}

const std::map<std::string, Explanation>& explanations() {
  static const std::map<std::string, Explanation> all = make_explanations();
  return all;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

const Explanation* find_explanation(const std::string& op) {
  const auto found = explanations().find(op);
  return found == explanations().end() ? nullptr : &found->second;
}

std::vector<std::string> explained_ops() {
  std::vector<std::string> names;
  for (const auto& [name, text] : explanations()) names.push_back(name);
  return names;
}

const std::vector<Definition>& definitions() {
  static const std::vector<Definition> list = {
#define DEFINE(words, meaning) {words, meaning},
#include "op_database/explanations/definitions.inc"
#undef DEFINE
  };
  return list;
}

// A name is a word that is called, f(…), or that has an underscore: no English word is either.
std::vector<std::string> words_of(const std::string& formula) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < formula.size();) {
    if (!is_letter(formula[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    while (at < formula.size() && is_in_word(formula[at])) ++at;
    std::string word = formula.substr(begin, at - begin);
    const bool is_called = at < formula.size() && formula[at] == '(';
    if (is_called || word.find('_') != std::string::npos) words.push_back(std::move(word));
  }
  return words;
}

}  // namespace extensor::op_database
