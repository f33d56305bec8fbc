#include "extensor/data/dataset.h"

#include <utility>
#include <vector>

#include "core/make_tensor.h"
#include "data/collate.h"
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

// Every tensor has a first dimension, of the size that the first inputs have.
void check_rows(const char* what, const std::vector<Tensor>& list, const Tensor& first) {
  for (const Tensor& x : list) {
    io::check_tensors(message("TensorDataset: ", what), x);
    if (x.ndim() == 0 || first.ndim() == 0 || x.size(0) != first.size(0)) {
      throw ShapeError(message("TensorDataset: ", what, " have shape ", x.shape(),
                               ", the first inputs ", first.shape(),
                               " (allowed: the same first dimension)"));
    }
  }
}

}  // namespace

std::vector<Tensor> Batch::all_inputs() const {
  std::vector<Tensor> list = {inputs};
  list.insert(list.end(), more_inputs.begin(), more_inputs.end());
  return list;
}

std::vector<Tensor> Batch::all_targets() const {
  std::vector<Tensor> list = {targets};
  list.insert(list.end(), more_targets.begin(), more_targets.end());
  return list;
}

TensorDataset::TensorDataset(Tensor inputs, Tensor targets)
    : TensorDataset(std::vector<Tensor>{std::move(inputs)},
                    std::vector<Tensor>{std::move(targets)}) {}

TensorDataset::TensorDataset(std::vector<Tensor> inputs, std::vector<Tensor> targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  if (inputs_.empty() || targets_.empty()) {
    throw ValueError(message("TensorDataset: there are ", inputs_.size(), " inputs and ",
                             targets_.size(), " targets (allowed: 1 or more of each)"));
  }
  io::check_tensors("TensorDataset: inputs", inputs_[0]);
  check_rows("inputs", inputs_, inputs_[0]);
  check_rows("targets", targets_, inputs_[0]);
  for (Tensor& x : inputs_) x = io::dense(x);
  for (Tensor& x : targets_) x = io::dense(x);
}

std::int64_t TensorDataset::size() const { return inputs_[0].size(0); }

Batch TensorDataset::batch(const Request& request) const {
  check_request("TensorDataset", request, size());
  const auto rows = [&](const Tensor& x) { return gathered("TensorDataset", x, request.indices); };
  Batch batch{rows(inputs_[0]), rows(targets_[0]), indices_of(request)};
  for (std::size_t k = 1; k < inputs_.size(); ++k) batch.more_inputs.push_back(rows(inputs_[k]));
  for (std::size_t k = 1; k < targets_.size(); ++k) batch.more_targets.push_back(rows(targets_[k]));
  return batch;
}

FunctionDataset::FunctionDataset(std::int64_t size, Function function, Collate collate)
    : size_(size), function_(std::move(function)), collate_(std::move(collate)) {
  if (size < 0) {
    throw ValueError(message("FunctionDataset: size is ", size, " (allowed: 0 or more)"));
  }
  if (!function_) throw ValueError("FunctionDataset: there is no function");
  if (!collate_) throw ValueError("FunctionDataset: there is no collate function");
}

Batch FunctionDataset::batch(const Request& request) const {
  check_request("FunctionDataset", request, size_);
  if (request.indices.empty()) {
    throw ValueError("FunctionDataset: no example is asked for (allowed: 1 or more)");
  }
  std::vector<Example> examples;
  examples.reserve(request.indices.size());
  for (const std::int64_t index : request.indices) {
    Draws draws(request.seed, request.epoch, index);
    examples.push_back(function_(index, draws));
  }
  return collated("FunctionDataset", collate_, examples, indices_of(request));
}

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::int64_t first, std::int64_t last)
    : dataset_(std::move(dataset)), first_(first), last_(last) {
  if (dataset_ == nullptr) throw ValueError("Subset: there is no dataset");
  if (first < 0 || last < first || last > dataset_->size()) {
    throw IndexError(message("Subset: examples ", first, " … ", last, " of ", dataset_->size(),
                             " (allowed: 0 ≤ first ≤ last ≤ ", dataset_->size(), ")"));
  }
}

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)),
      indices_(std::move(indices)),
      first_(0),
      last_(std::ssize(indices_)) {
  if (dataset_ == nullptr) throw ValueError("Subset: there is no dataset");
  check_request("Subset", {.indices = indices_}, dataset_->size());
}

Batch Subset::batch(const Request& request) const {
  check_request("Subset", request, size());
  std::vector<std::int64_t> indices = indices_of(request);
  for (std::int64_t& index : indices) {
    index = indices_.empty() ? index + first_ : indices_[static_cast<std::size_t>(index)];
  }
  return dataset_->batch({indices, request.seed, request.epoch});
}

}  // namespace extensor::data
