#include "extensor/embedding.h"

#include "backend/backend.h"
#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "ops/checked_indices.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::EmbeddingCall;
using detail::message;
using namespace ops;

EmbeddingCall embedding_call(bool backward, DType dtype, std::int64_t rows, std::int64_t width,
                             const Tensor& ids) {
  EmbeddingCall call{};
  call.backward = backward;
  call.dtype = dtype;
  call.rows = rows;
  call.width = width;
  call.count = ids.numel();
  call.ids = detail::kernel_pointer<std::int64_t>(ids);
  call.skipped = -1;
  return call;
}

void check_padding(const char* operation, std::int64_t padding_idx, std::int64_t rows) {
  if (padding_idx >= -rows && padding_idx < rows) return;
  throw IndexError(
      message(operation, ": padding_idx is ", padding_idx, ", must be one of the ", rows, " rows"));
}

struct EmbeddingAttributes {
  std::optional<std::int64_t> padding_idx;
};

Tensor embedding_forward(const Run& run, const EmbeddingAttributes& attributes,
                         const Tensor& weight, const Tensor& ids) {
  if (weight.ndim() != 2) {
    throw ShapeError(
        message(run.name(), ": weight is ", weight.shape(), ", must be [rows, width]"));
  }
  const std::int64_t rows = weight.size(0), width = weight.size(1);
  if (attributes.padding_idx) check_padding(run.name(), *attributes.padding_idx, rows);
  const Tensor positions =
      checked_indices(run.name(), ids, {.size = rows, .counted = "rows", .argument = "ids"});
  Shape shape = ids.shape();
  shape.push_back(width);
  Tensor result = run.empty(shape, weight.dtype());
  const Tensor table = weight.contiguous();
  EmbeddingCall call = embedding_call(false, weight.dtype(), rows, width, positions);
  call.values = detail::dense_data(table);
  call.out = result.impl().data;
  run.kernels().embedding(call);
  return result;
}

Gradients embedding_gradient(const GradientCall& call, const EmbeddingAttributes& attributes) {
  return embedding_backward(call.grad(), call.input(1), call.shape(0)[0], attributes.padding_idx);
}

constexpr auto embedding_op =
    define<embedding_forward, embedding_gradient>({.name = "embedding",
                                                   .inputs = {"weight", "ids"},
                                                   .reads = {shape(0) | input(1), no_gradient}});

struct EmbeddingBackwardAttributes {
  std::int64_t rows;
  std::optional<std::int64_t> padding_idx;

  // The row without a gradient, or −1 if there is none.
  std::int64_t skipped() const {
    if (!padding_idx) return -1;
    return *padding_idx + (*padding_idx < 0 ? rows : 0);
  }
};

Tensor embedding_backward_forward(const Run& run, const EmbeddingBackwardAttributes& attributes,
                                  const Tensor& grad_output, const Tensor& ids) {
  const std::int64_t rows = attributes.rows;
  if (rows < 0) throw ValueError(message(run.name(), ": rows is ", rows, ", must be 0 or more"));
  const Tensor positions =
      checked_indices(run.name(), ids, {.size = rows, .counted = "rows", .argument = "ids"});
  // The width comes from grad_output; all other axes are known.
  Shape expected = ids.shape();
  expected.push_back(grad_output.ndim() == 0 ? 0 : grad_output.size(-1));
  check_grad_output(run.name(), grad_output, expected);
  if (attributes.padding_idx) check_padding(run.name(), *attributes.padding_idx, rows);
  const std::int64_t width = expected[expected.size() - 1];
  Tensor result = run.empty({rows, width}, grad_output.dtype());
  const Tensor values = grad_output.contiguous();
  EmbeddingCall call = embedding_call(true, grad_output.dtype(), rows, width, positions);
  call.values = detail::dense_data(values);
  call.out = result.impl().data;
  call.skipped = attributes.skipped();
  run.kernels().embedding(call);
  return result;
}

Gradients embedding_backward_gradient(const GradientCall& call,
                                      const EmbeddingBackwardAttributes& attributes) {
  const Tensor& ids = call.input(1);
  Tensor gathered = embedding(call.grad(), ids);
  if (!attributes.padding_idx) return gathered;
  return where(equal(ids, attributes.skipped()).unsqueeze(-1),
               zeros({}, {gathered.dtype(), cpu_device}), gathered);
}

constexpr auto embedding_backward_op =
    define<embedding_backward_forward, embedding_backward_gradient>(
        {.name = "embedding_backward",
         .inputs = {"grad_output", "ids"},
         .reads = {input(1), no_gradient}});

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& ids, std::optional<StrictInt> padding_idx) {
  return dispatch(embedding_op, {padding_idx}, weight, ids);
}
Tensor embedding_backward(const Tensor& grad_output, const Tensor& ids, StrictInt rows,
                          std::optional<StrictInt> padding_idx) {
  return dispatch(embedding_backward_op, {rows, padding_idx}, grad_output, ids);
}

constinit const OpList ops::embedding_ops = listed<embedding_op, embedding_backward_op>;

}  // namespace extensor
