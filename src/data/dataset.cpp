#include "extensor/data/dataset.h"

#include <utility>

#include "core/make_tensor.h"
#include "data/request.h"
#include "io/byte_source.h"
#include "io/check_tensors.h"

namespace extensor::data {

using detail::message;

namespace {

// Gathers rows of a contiguous tensor of any dtype.
Tensor gathered(const char* operation, const Tensor& rows, std::span<const std::int64_t> indices) {
  Shape shape = rows.shape();
  const std::size_t row =
      rows.size(0) == 0 ? 0 : rows.nbytes() / static_cast<std::size_t>(rows.size(0));
  shape[0] = static_cast<std::int64_t>(indices.size());
  Tensor result = detail::make_empty(operation, shape, rows.dtype(), cpu_device);
  const std::byte* from = io::bytes_of(rows).data();
  std::byte* to = io::bytes_of(result).data();
  for (const std::int64_t index : indices) {
    copy_row(to, from + static_cast<std::size_t>(index) * row, row);
    to += row;
  }
  return result;
}

// Collects examples into one tensor. The first example determines the shape and the dtype.
class Stack {
 public:
  Stack(const char* what, std::size_t count) : what_(what), count_(count) {}

  void add(std::int64_t index, const Tensor& example) {
    io::check_tensors(message("FunctionDataset: ", what_, " of example ", index), example);
    if (!stacked_.defined()) {
      shape_ = example.shape();
      stacked_ = detail::make_empty("FunctionDataset", batch_shape(count_, shape_), example.dtype(),
                                    cpu_device);
    }
    if (example.dtype() != stacked_.dtype()) {
      throw DTypeError(message("FunctionDataset: ", what_, " of example ", index, " is ",
                               example.dtype(), ", others of its batch are ", stacked_.dtype()));
    }
    if (example.shape() != shape_) {
      throw ShapeError(message("FunctionDataset: ", what_, " of example ", index, " has shape ",
                               example.shape(), ", others of its batch have ", shape_));
    }
    const Tensor dense = io::dense(example);
    copy_row(io::bytes_of(stacked_).data() + added_, io::bytes_of(dense).data(), dense.nbytes());
    added_ += dense.nbytes();
  }
  Tensor take() { return std::move(stacked_); }

 private:
  const char* what_;
  std::size_t count_, added_ = 0;
  Shape shape_;
  Tensor stacked_;
};

}  // namespace

TensorDataset::TensorDataset(Tensor inputs, Tensor targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  io::check_tensors("TensorDataset: inputs", inputs_);
  io::check_tensors("TensorDataset: targets", targets_);
  if (inputs_.ndim() == 0 || targets_.ndim() == 0 || inputs_.size(0) != targets_.size(0)) {
    throw ShapeError(message("TensorDataset: inputs have shape ", inputs_.shape(), ", targets ",
                             targets_.shape(), " (allowed: the same first dimension)"));
  }
  inputs_ = io::dense(inputs_);
  targets_ = io::dense(targets_);
}

std::int64_t TensorDataset::size() const { return inputs_.size(0); }

Batch TensorDataset::batch(const Request& request) const {
  check_request("TensorDataset", request, size());
  return {gathered("TensorDataset", inputs_, request.indices),
          gathered("TensorDataset", targets_, request.indices), indices_of(request)};
}

FunctionDataset::FunctionDataset(std::int64_t size, Function function)
    : size_(size), function_(std::move(function)) {
  if (size < 0) {
    throw ValueError(message("FunctionDataset: size is ", size, " (allowed: 0 or more)"));
  }
  if (!function_) throw ValueError("FunctionDataset: there is no function");
}

Batch FunctionDataset::batch(const Request& request) const {
  check_request("FunctionDataset", request, size_);
  if (request.indices.empty()) {
    throw ValueError("FunctionDataset: no example is asked for (allowed: 1 or more)");
  }
  Stack inputs("the input", request.indices.size()), targets("the target", request.indices.size());
  for (const std::int64_t index : request.indices) {
    Draws draws(request.seed, request.epoch, index);
    const Example example = function_(index, draws);
    inputs.add(index, example.input);
    targets.add(index, example.target);
  }
  return {inputs.take(), targets.take(), indices_of(request)};
}

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::int64_t first, std::int64_t last)
    : dataset_(std::move(dataset)), first_(first), last_(last) {
  if (dataset_ == nullptr) throw ValueError("Subset: there is no dataset");
  if (first < 0 || last < first || last > dataset_->size()) {
    throw IndexError(message("Subset: examples ", first, " … ", last, " of ", dataset_->size(),
                             " (allowed: 0 ≤ first ≤ last ≤ ", dataset_->size(), ")"));
  }
}

Batch Subset::batch(const Request& request) const {
  check_request("Subset", request, size());
  std::vector<std::int64_t> indices = indices_of(request);
  for (std::int64_t& index : indices) index += first_;
  return dataset_->batch({indices, request.seed, request.epoch});
}

}  // namespace extensor::data
