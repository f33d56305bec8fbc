#include "extensor/embedding.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "ops/checked_indices.h"
#include "ops/launch.h"

namespace extensor {

using backend::EmbeddingCall;
using detail::message;

namespace {

EmbeddingCall embedding_call(bool backward, DType dtype, std::int64_t rows, std::int64_t width,
                             const Tensor& ids) {
  EmbeddingCall call{};
  call.backward = backward;
  call.dtype = dtype;
  call.rows = rows;
  call.width = width;
  call.count = ids.numel();
  call.ids = ids.data<std::int64_t>();
  call.skipped = -1;
  return call;
}

void check_padding(const char* operation, std::int64_t padding_idx, std::int64_t rows) {
  if (padding_idx >= -rows && padding_idx < rows) return;
  throw IndexError(
      message(operation, ": padding_idx is ", padding_idx, ", must be one of the ", rows, " rows"));
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& ids, std::optional<StrictInt> padding_idx) {
  if (detail::records(weight)) {
    Tensor result = detail::unrecorded([&] { return embedding(weight, ids, padding_idx); });
    return detail::record("embedding", {weight}, std::move(result),
                          [ids = detail::Saved(ids), rows = weight.size(0), padding_idx](
                              const Tensor& g, detail::Node& node) {
                            return embedding_backward(g, ids.get(node), rows, padding_idx);
                          });
  }
  const ops::Source both[] = {weight, ids};
  ops::common_device("embedding", both);
  if (weight.ndim() != 2) {
    throw ShapeError(message("embedding: weight is ", weight.shape(), ", must be [rows, width]"));
  }
  const std::int64_t rows = weight.size(0), width = weight.size(1);
  if (padding_idx) check_padding("embedding", *padding_idx, rows);
  const Tensor positions =
      ops::checked_indices("embedding", ids, {.size = rows, .counted = "rows", .argument = "ids"});
  Shape shape = ids.shape();
  shape.push_back(width);
  Tensor result = detail::make_empty("embedding", shape, weight.dtype(), weight.device());
  const Tensor table = weight.contiguous();
  EmbeddingCall call = embedding_call(false, weight.dtype(), rows, width, positions);
  call.values = table.impl().data;
  call.out = result.impl().data;
  backend::backend_for(weight.device()).embedding(call);
  return result;
}

Tensor embedding_backward(const Tensor& grad_output, const Tensor& ids, StrictInt rows,
                          std::optional<StrictInt> padding_idx) {
  if (detail::records(grad_output)) {
    Tensor result =
        detail::unrecorded([&] { return embedding_backward(grad_output, ids, rows, padding_idx); });
    return detail::record(
        "embedding_backward", {grad_output}, std::move(result),
        [ids = detail::Saved(ids), rows, padding_idx](const Tensor& v, detail::Node& node) {
          Tensor gathered = embedding(v, ids.get(node));
          if (!padding_idx) return gathered;
          const std::int64_t skipped = *padding_idx + (*padding_idx < 0 ? rows : StrictInt(0));
          return where(equal(ids.get(node), skipped).unsqueeze(-1), zeros({}, v.dtype()), gathered);
        });
  }
  const char* operation = "embedding_backward";
  const ops::Source both[] = {grad_output, ids};
  ops::common_device(operation, both);
  if (rows < 0) throw ValueError(message(operation, ": rows is ", rows, ", must be 0 or more"));
  const Tensor positions =
      ops::checked_indices(operation, ids, {.size = rows, .counted = "rows", .argument = "ids"});
  // The forward's width is what grad_output says; all other axes are known.
  Shape expected = ids.shape();
  expected.push_back(grad_output.ndim() == 0 ? 0 : grad_output.size(-1));
  ops::check_grad_output(operation, grad_output, expected);
  std::int64_t skipped = -1;
  if (padding_idx) {
    check_padding(operation, *padding_idx, rows);
    skipped = *padding_idx + (*padding_idx < 0 ? rows : StrictInt(0));
  }
  const std::int64_t width = expected[expected.size() - 1];
  Tensor result =
      detail::make_empty(operation, {rows, width}, grad_output.dtype(), grad_output.device());
  const Tensor values = grad_output.contiguous();
  EmbeddingCall call = embedding_call(true, grad_output.dtype(), rows, width, positions);
  call.values = values.impl().data;
  call.out = result.impl().data;
  call.skipped = skipped;
  backend::backend_for(grad_output.device()).embedding(call);
  return result;
}

}  // namespace extensor
