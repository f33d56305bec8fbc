#include "ops/contract.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/complex.h"
#include "extensor/elementwise.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "ops/registry.h"
#include "ops/view_op.h"

namespace extensor::ops {

namespace {

bool contains(const Labels& labels, Label label) {
  return std::ranges::find(labels, label) != labels.end();
}

std::int64_t position_of(const Labels& labels, Label label) {
  return std::ranges::find(labels, label) - labels.begin();
}

// The length of every label: its longest dimension, but 0 if both 1 and 0 occur.
std::vector<std::int64_t> label_sizes(const std::vector<Term>& terms) {
  Label largest = -1;
  for (const Term& term : terms) {
    for (Label label : term.labels) largest = std::max(largest, label);
  }
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(largest + 1), 1);
  for (const Term& term : terms) {
    for (std::size_t d = 0; d < term.labels.size(); ++d) {
      std::int64_t& size = sizes[static_cast<std::size_t>(term.labels[d])];
      if (size == 1) size = term.tensor.shape()[d];
    }
  }
  return sizes;
}

// The labels without repetitions, in order of first occurrence.
Labels distinct_labels(const Labels& labels) {
  Labels result;
  for (Label label : labels) {
    if (!contains(result, label)) result.push_back(label);
  }
  return result;
}

// A view of the diagonal of dimensions that share a label; the labels of the result are distinct.
Tensor make_diagonal(const Tensor& x, const Labels& labels) {
  const Labels kept = distinct_labels(labels);
  Shape shape(kept.size(), 0);
  Strides strides(kept.size(), 0);
  for (std::size_t d = 0; d < labels.size(); ++d) {
    const auto at = static_cast<std::size_t>(position_of(kept, labels[d]));
    shape[at] = x.shape()[d];
    strides[at] += x.strides()[d];
  }
  return detail::make_view(x, x.impl().data, shape, strides);
}

Tensor diagonal(const Tensor& x, const Labels& labels);

Gradients diagonal_backward_gradient(const GradientCall& call, const PartOf<Labels>& of) {
  return diagonal(call.grad(), of.part);
}

constexpr auto diagonal_backward_op =
    define<part_backward<make_diagonal, Labels>, diagonal_backward_gradient>(
        {.name = "diagonal_backward", .inputs = {"grad_output"}, .complex = true});

Gradients diagonal_gradient(const GradientCall& call, const Labels& labels) {
  return dispatch(diagonal_backward_op, {call.shape(), labels}, call.grad());
}

constexpr auto diagonal_op = define_view<make_diagonal, diagonal_gradient>("diagonal", shape());

Tensor diagonal(const Tensor& x, const Labels& labels) {
  return view<make_diagonal>(diagonal_op, x, labels);
}

Term with_distinct_labels(const Term& term) {
  const Labels kept = distinct_labels(term.labels);
  if (kept.size() == term.labels.size()) return term;
  return {diagonal(term.tensor, term.labels), kept};
}

// Removes dimensions of length 1 that broadcast against a longer dimension with the same label.
Term without_repeated(const Term& term, const std::vector<std::int64_t>& sizes) {
  Term result;
  Dims dropped;
  for (std::size_t d = 0; d < term.labels.size(); ++d) {
    if (term.tensor.shape()[d] == sizes[static_cast<std::size_t>(term.labels[d])]) {
      result.labels.push_back(term.labels[d]);
    } else {
      dropped.push_back(static_cast<std::int64_t>(d));
    }
  }
  result.tensor = dropped.empty() ? term.tensor : term.tensor.squeeze(dropped);
  return result;
}

// Counts the terms that have each label, plus one if the output has it. Labels of a term are
// distinct.
std::vector<int> label_uses(const std::vector<Term>& terms, const Labels& output,
                            std::size_t label_count) {
  std::vector<int> uses(label_count, 0);
  for (const Term& term : terms) {
    for (Label label : term.labels) ++uses[static_cast<std::size_t>(label)];
  }
  for (Label label : output) ++uses[static_cast<std::size_t>(label)];
  return uses;
}

// The axes whose label occurs nowhere else; they are summed before any multiplication.
Dims private_axes(const Labels& labels, const std::vector<int>& uses) {
  Dims axes;
  for (std::size_t d = 0; d < labels.size(); ++d) {
    if (uses[static_cast<std::size_t>(labels[d])] == 1) {
      axes.push_back(static_cast<std::int64_t>(d));
    }
  }
  return axes;
}

// A view with its dimensions in the given order; missing labels become dimensions of length 1.
Tensor ordered(const Term& term, const Labels& order) {
  Dims axes;
  Shape shape;
  for (Label label : order) {
    const std::int64_t at = position_of(term.labels, label);
    const bool has = at < static_cast<std::int64_t>(term.labels.size());
    if (has) axes.push_back(at);
    shape.push_back(has ? term.tensor.size(at) : 1);
  }
  return term.tensor.transpose(axes).reshape(shape);
}

// The term as [batch …, rows, columns], with the row labels and the column labels merged.
Tensor as_matrices(const Term& term, const Labels& batch, const Labels& rows,
                   const Labels& columns) {
  Labels order = batch;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), columns.begin(), columns.end());
  const Tensor sorted = ordered(term, order);
  Shape shape = sorted.shape();
  std::int64_t row_count = 1, column_count = 1;
  for (std::size_t d = 0; d < rows.size(); ++d) row_count *= shape[batch.size() + d];
  for (std::size_t d = batch.size() + rows.size(); d < shape.size(); ++d) column_count *= shape[d];
  shape.resize(batch.size());
  shape.push_back(row_count);
  shape.push_back(column_count);
  return sorted.reshape(shape);
}

// Used if both terms have the same labels: there is no matrix product, only sums of products of
// rows in memory order. Half dtypes are widened until the sum is rounded.
Tensor sum_of_rows(const Term& a, const Term& b, const Labels& summed) {
  const DType dtype = a.tensor.dtype();
  const Tensor wide = a.tensor.to(compute_dtype(dtype));
  Dims axes;
  for (Label label : summed) axes.push_back(position_of(a.labels, label));
  return sum(multiply(wide, ordered(b, a.labels)), axes).to(dtype);
}

// The product of two terms, summed over the labels not in `needed`. A label of only one term must
// be in `needed`.
Term multiply_pair(const Term& a, const Term& b, const Labels& needed) {
  Labels batch, summed, a_only, b_only;
  for (Label label : a.labels) {
    Labels& group = !contains(b.labels, label) ? a_only : contains(needed, label) ? batch : summed;
    group.push_back(label);
  }
  for (Label label : b.labels) {
    if (!contains(a.labels, label)) b_only.push_back(label);
  }
  Term result;
  result.labels = batch;
  result.labels.insert(result.labels.end(), a_only.begin(), a_only.end());
  result.labels.insert(result.labels.end(), b_only.begin(), b_only.end());
  if (summed.empty()) {
    result.tensor = multiply(ordered(a, result.labels), ordered(b, result.labels));
    return result;
  }
  if (a_only.empty() && b_only.empty() && !batch.empty()) {
    result.tensor = sum_of_rows(a, b, summed);
    return result;
  }
  Shape shape;
  for (Label label : result.labels) {
    const bool in_a = contains(a.labels, label);
    shape.push_back(in_a ? a.tensor.size(position_of(a.labels, label))
                         : b.tensor.size(position_of(b.labels, label)));
  }
  result.tensor =
      matmul(as_matrices(a, batch, a_only, summed), as_matrices(b, batch, summed, b_only))
          .reshape(shape);
  return result;
}

struct Pair {
  std::size_t first, second;
};

// Multiplies terms in pairs. Each step picks the pair whose product shrinks the total size most (or
// grows it least); the first such pair wins a tie. The growth of a pair depends only on its labels
// and on whether another term needs them, which multiplying two other terms does not change. So
// each term remembers its best partner, and a product is compared with the others once: n terms
// take O(n²) comparisons instead of the O(n³) of a full search at every step. Beyond `window`
// terms, the search considers that many at a time and adds one after each product.
class Multiplication {
 public:
  Multiplication(std::vector<Term> terms, const std::vector<std::int64_t>& sizes,
                 std::vector<int> uses)
      : terms_(std::move(terms)), sizes_(sizes), uses_(std::move(uses)), best_(terms_.size()) {
    for (; next_ < std::min(window, terms_.size()); ++next_) alive_.push_back(next_);
    if (terms_.size() > 2) {
      for (std::size_t i : alive_) find_partner(i);
    }
  }

  Term run() {
    while (alive_.size() > 1) {
      const auto [i, j] = alive_.size() == 2 ? Pair{alive_[0], alive_[1]} : cheapest_pair();
      multiply_terms(i, j);
      for (std::size_t k : alive_) {
        if (k == i || best_[k].second == i || best_[k].second == j) {
          find_partner(k);
        } else if (k < i) {
          offer_partner(k, i);
        }
      }
      if (next_ < terms_.size()) {
        for (std::size_t k : alive_) offer_partner(k, next_);
        alive_.push_back(next_++);
      }
    }
    return std::move(terms_[alive_.front()]);
  }

 private:
  static constexpr std::size_t window = 512;

  struct Partner {
    double growth = std::numeric_limits<double>::infinity();
    std::size_t second = 0;  // 0: none
  };

  double size_of(Label label) const {
    return static_cast<double>(sizes_[static_cast<std::size_t>(label)]);
  }
  int& uses_of(Label label) { return uses_[static_cast<std::size_t>(label)]; }
  // Whether the label is in the output or in a third term.
  bool is_needed_beside_two(Label label) const {
    return uses_[static_cast<std::size_t>(label)] > 2;
  }

  double growth(const Term& a, const Term& b) const {
    double product = 1;
    for (Label label : a.labels) {
      if (!contains(b.labels, label) || is_needed_beside_two(label)) product *= size_of(label);
    }
    for (Label label : b.labels) {
      if (!contains(a.labels, label)) product *= size_of(label);
    }
    return product - static_cast<double>(a.tensor.numel()) - static_cast<double>(b.tensor.numel());
  }

  void offer_partner(std::size_t i, std::size_t j) {
    const double offered = growth(terms_[i], terms_[j]);
    Partner& best = best_[i];
    if (offered < best.growth || (offered == best.growth && j < best.second)) best = {offered, j};
  }
  // Searches the terms after i.
  void find_partner(std::size_t i) {
    best_[i] = {};
    for (std::size_t j : alive_) {
      if (j > i) offer_partner(i, j);
    }
  }

  Pair cheapest_pair() const {
    // If the growth of every pair is infinite, any pair will do.
    Pair cheapest{alive_[0], alive_[1]};
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i : alive_) {
      if (best_[i].growth < least) {
        least = best_[i].growth;
        cheapest = {i, best_[i].second};
      }
    }
    return cheapest;
  }

  // Replaces term i by its product with term j.
  void multiply_terms(std::size_t i, std::size_t j) {
    Labels needed;
    for (Label label : terms_[i].labels) {
      if (is_needed_beside_two(label)) needed.push_back(label);
      --uses_of(label);
    }
    for (Label label : terms_[j].labels) --uses_of(label);
    terms_[i] = multiply_pair(terms_[i], terms_[j], needed);
    terms_[j] = {};
    for (Label label : terms_[i].labels) ++uses_of(label);
    std::erase(alive_, j);
  }

  std::vector<Term> terms_;
  const std::vector<std::int64_t>& sizes_;
  std::vector<int> uses_;
  std::vector<Partner> best_;
  std::vector<std::size_t> alive_;  // terms in the search, ascending
  std::size_t next_ = 0;            // first term not yet in the search
};

DType common_dtype(const char* operation, const std::vector<Term>& terms) {
  DType dtype = terms.front().tensor.dtype();
  for (const Term& term : terms) dtype = promote_types(dtype, term.tensor.dtype(), operation);
  return dtype;
}

void check_devices(const char* operation, const std::vector<Term>& terms) {
  std::vector<Source> sources;
  sources.reserve(terms.size());
  for (const Term& term : terms) sources.emplace_back(term.tensor);
  common_device(operation, sources);
}

}  // namespace

Shape contracted_shape(const std::vector<Term>& terms, const Labels& output) {
  const auto sizes = label_sizes(terms);
  Shape shape;
  for (Label label : output) shape.push_back(sizes[static_cast<std::size_t>(label)]);
  return shape;
}

Tensor contract(const char* operation, const std::vector<Term>& terms, const Labels& output) {
  check_devices(operation, terms);
  const DType dtype = common_dtype(operation, terms);
  const auto sizes = label_sizes(terms);
  std::vector<Term> rest;
  rest.reserve(terms.size());
  for (const Term& term : terms) {
    rest.push_back(without_repeated(with_distinct_labels(term), sizes));
  }
  // Each further step would round half dtypes again.
  std::size_t steps = rest.size() - 1;
  std::vector<int> uses = label_uses(rest, output, sizes.size());
  std::vector<Dims> sums;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    sums.push_back(private_axes(rest[i].labels, uses));
    steps += sums.back().empty() ? 0 : 1;
  }
  const DType compute = steps > 1 ? compute_dtype(dtype) : dtype;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    Term& term = rest[i];
    term.tensor = term.tensor.to(compute);
    if (sums[i].empty()) continue;
    term.tensor = sum(term.tensor, sums[i]).to(compute);
    for (std::size_t d = sums[i].size(); d-- > 0;)
      term.labels.erase(term.labels.begin() + sums[i][d]);
  }
  return ordered(Multiplication(std::move(rest), sizes, std::move(uses)).run(), output).to(dtype);
}

namespace {

// The gradient of terms[i]: the contraction of grad_output with the conjugates of the other terms
// to its labels.
Tensor term_gradient(const char* operation, const Tensor& grad_output,
                     const std::vector<Term>& terms, std::size_t i, const Labels& output,
                     const std::vector<std::int64_t>& sizes) {
  const Term& term = terms[i];
  const Term distinct = with_distinct_labels(term);
  std::vector<Term> others{{grad_output, output}};
  for (std::size_t j = 0; j < terms.size(); ++j) {
    if (j != i) others.push_back({conj(terms[j].tensor), terms[j].labels});
  }
  // Two kinds of labels are contracted away and restored as dimensions of length 1: labels that
  // this term broadcasts (their gradient is summed), and labels that only this term has (their
  // gradient is constant along the dimension).
  Labels kept;
  Shape shape;
  for (std::size_t d = 0; d < distinct.labels.size(); ++d) {
    const Label label = distinct.labels[d];
    const bool repeats = distinct.tensor.shape()[d] != sizes[static_cast<std::size_t>(label)];
    const bool elsewhere = std::ranges::any_of(
        others, [&](const Term& other) { return contains(other.labels, label); });
    if (elsewhere && !repeats) kept.push_back(label);
  }
  const Tensor gradient = contract(operation, others, kept);
  const Tensor full =
      gradient_as(ordered({gradient, kept}, distinct.labels).broadcast_to(distinct.tensor.shape()),
                  term.tensor.dtype());
  if (distinct.labels.size() == term.labels.size()) return full.contiguous();
  return dispatch(diagonal_backward_op, {term.tensor.shape(), term.labels}, full);
}

}  // namespace

std::vector<Tensor> contract_backward(const char* operation, const Tensor& grad_output,
                                      const std::vector<Term>& terms, const Labels& output) {
  bool complex = false;
  for (const Term& term : terms) {
    check_has_gradient(operation, "an operand", term.tensor);
    complex = complex || is_complex(term.tensor);
  }
  if (!complex) check_real(operation, "grad_output", grad_output);
  check_devices(operation, terms);
  check_grad_output(operation, grad_output, contracted_shape(terms, output));
  const auto sizes = label_sizes(terms);
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    gradients.push_back(term_gradient(operation, grad_output, terms, i, output, sizes));
  }
  return gradients;
}

constinit const OpList contract_ops = listed<diagonal_op, diagonal_backward_op>;

}  // namespace extensor::ops
