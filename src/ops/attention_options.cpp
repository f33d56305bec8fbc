// Attention by options: dropout on the weights, and queries that share heads of keys and values.
#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/attention.h"
#include "extensor/creation.h"
#include "extensor/dropout.h"
#include "extensor/elementwise.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using detail::message;

std::optional<StrictDouble> strict(const std::optional<double>& scale) {
  return scale ? std::optional<StrictDouble>(*scale) : std::nullopt;
}

// Attention that stores all scores. A query that sees no key yields 0, as without dropout.
Tensor thinned_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionOptions& options, Generator& generator) {
  constexpr double hidden = -std::numeric_limits<double>::infinity();
  const double width = static_cast<double>(std::max<std::int64_t>(1, q.size(-1)));
  Tensor scores = matmul(q, matrix_transpose(k)) * options.scale.value_or(1 / std::sqrt(width));
  const Tensor& mask = options.mask;
  if (mask.defined()) {
    // A float mask does not widen the result, as in the kernel.
    scores = mask.dtype() == DType::bool_ ? where(mask, scores, hidden)
                                          : scores + mask.to(scores.dtype());
  }
  if (options.causal) {
    const Tensor query = arange(q.size(-2), q.device()).unsqueeze(1),
                 key = arange(k.size(-2), q.device());
    scores = where(less_equal(key, query), scores, hidden);
  }
  const Tensor total = logsumexp(scores, -1, true);
  const Tensor weights = exp(scores - where(isinf(total), 0, total));
  return matmul(dropout(weights, options.dropout, true, generator).output, v);
}

// Views with one more axis, [..., heads of k, queries per head, length, width].
struct Groups {
  Tensor q, k, v, mask;
};

Groups grouped(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& mask) {
  const bool has_heads = q.ndim() >= 3 && k.ndim() >= 3 && v.ndim() >= 3;
  if (!has_heads || k.size(-3) != v.size(-3) || k.size(-3) == 0 || q.size(-3) % k.size(-3) != 0) {
    throw ShapeError(message(operation, ": with grouped queries, q is ", q.shape(), ", k is ",
                             k.shape(), " and v is ", v.shape(),
                             " (allowed: [..., heads, length, width], where the heads of k and v "
                             "agree and divide those of q)"));
  }
  const std::int64_t heads = q.size(-3), shared = k.size(-3), each = heads / shared;
  const auto split_heads = [&](const Tensor& x) {
    Shape shape = x.shape();
    const std::size_t at = shape.size() - 3;
    shape[at] = shared;
    shape.insert(at + 1, each);
    return x.reshape(shape);
  };
  Groups groups{split_heads(q), k.unsqueeze(-3), v.unsqueeze(-3), mask};
  if (mask.defined() && mask.ndim() >= 3) {
    if (mask.size(-3) != 1 && mask.size(-3) != heads) {
      throw ShapeError(message(operation, ": mask is ", mask.shape(), " and q has ", heads,
                               " heads (allowed: 1 or as many heads in axis -3)"));
    }
    groups.mask = mask.size(-3) == 1 ? mask.unsqueeze(-3) : split_heads(mask);
  }
  return groups;
}

// Merges the two axes of heads.
Tensor merged(const Tensor& x) { return x.flatten(-4, -3); }

void check_dropout(const char* operation, double dropout) {
  if (dropout >= 0 && dropout <= 1) return;
  throw ValueError(message(operation, ": dropout is ", dropout, ", must be between 0 and 1"));
}

// Throws unless the options that describe a layer agree with the tensors of the call.
void check_layer_options(const char* operation, const AttentionOptions& options, const Tensor& q,
                         const Tensor& k) {
  if (options.key_width != 0 || options.value_width != 0) {
    const bool keys = options.key_width != 0;
    throw ValueError(message(operation, ": options.", keys ? "key_width" : "value_width", " is ",
                             keys ? options.key_width : options.value_width,
                             " (allowed: 0; only a layer projects keys and values)"));
  }
  if (options.dtype && q.defined() && q.dtype() != *options.dtype) {
    throw DTypeError(message(operation, ": options.dtype is ", *options.dtype, " and q is ",
                             q.dtype(), " (allowed: the dtype of q, or none)"));
  }
  if (options.key_value_heads != 0 && k.defined() &&
      (k.ndim() < 3 || k.size(-3) != options.key_value_heads)) {
    throw ValueError(message(operation, ": options.key_value_heads is ", options.key_value_heads,
                             " and k is ", k.shape(),
                             " (allowed: the size of axis -3 of k, or 0)"));
  }
}

bool is_grouped(const AttentionOptions& options) {
  return options.enable_gqa || options.key_value_heads != 0;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options, Generator& generator) {
  constexpr const char* operation = "scaled_dot_product_attention";
  check_dropout(operation, options.dropout);
  check_layer_options(operation, options, q, k);
  if (is_grouped(options)) {
    const Groups groups = grouped(operation, q, k, v, options.mask);
    AttentionOptions rest = options;
    rest.enable_gqa = false;
    rest.key_value_heads = 0;
    rest.mask = groups.mask;
    return merged(scaled_dot_product_attention(groups.q, groups.k, groups.v, rest, generator));
  }
  ops::check_float(operation, "q", q);
  ops::check_float(operation, "k", k);
  ops::check_float(operation, "v", v);
  if (options.dropout == 0) {
    return scaled_dot_product_attention(q, k, v, options.mask, options.causal,
                                        strict(options.scale));
  }
  return thinned_attention(q, k, v, options, generator);
}

AttentionGradients scaled_dot_product_attention_backward(const Tensor& grad_output, const Tensor& q,
                                                         const Tensor& k, const Tensor& v,
                                                         const AttentionOptions& options,
                                                         StrictBool mask_gradient) {
  constexpr const char* operation = "scaled_dot_product_attention_backward";
  if (options.dropout != 0) {
    throw ValueError(message(operation, ": dropout is ", options.dropout,
                             " (allowed: 0; autograd differentiates a call with dropout)"));
  }
  check_layer_options(operation, options, q, k);
  const auto scale = strict(options.scale);
  if (!is_grouped(options)) {
    return scaled_dot_product_attention_backward(grad_output, q, k, v, options.mask, options.causal,
                                                 scale, {}, mask_gradient);
  }
  const Groups groups = grouped(operation, q, k, v, options.mask);
  Shape shape = groups.q.shape();
  shape.back() = v.size(-1);
  if (grad_output.numel() !=
      groups.q.numel() / std::max<std::int64_t>(1, q.size(-1)) * v.size(-1)) {
    throw ShapeError(message(operation, ": grad_output is ", grad_output.shape(), ", q is ",
                             q.shape(), " and v is ", v.shape()));
  }
  const AttentionGradients found = scaled_dot_product_attention_backward(
      grad_output.reshape(shape), groups.q, groups.k, groups.v, groups.mask, options.causal, scale,
      {}, mask_gradient);
  return {found.q.reshape(q.shape()), found.k.reshape(k.shape()), found.v.reshape(v.shape()),
          found.mask.defined() ? found.mask.reshape(options.mask.shape()) : Tensor()};
}

}  // namespace extensor
