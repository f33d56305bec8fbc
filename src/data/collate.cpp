#include "data/collate.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/make_tensor.h"
#include "data/request.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "io/byte_source.h"
#include "io/check_tensors.h"

namespace extensor::data {

using detail::message;

namespace {

// One of the tensors of an example: its input or target, or entry `number` − 1 of the lists.
struct Field {
  bool is_input;
  std::size_t number;

  const Tensor& of(const Example& example) const {
    if (number == 0) return is_input ? example.input : example.target;
    return (is_input ? example.more_inputs : example.more_targets)[number - 1];
  }
  std::string name() const {
    const char* kind = is_input ? "input" : "target";
    return number == 0 ? message("the ", kind) : message(kind, " ", number + 1);
  }
};

// Describes an example in messages, by its index in the dataset.
class Place {
 public:
  Place(const char* operation, std::span<const std::int64_t> indices)
      : operation_(operation), indices_(indices) {}
  std::string operator()(std::size_t k) const {
    return message("example ", k < indices_.size() ? indices_[k] : static_cast<std::int64_t>(k));
  }
  std::string operator()(const Field& field, std::size_t k) const {
    return message(operation_, ": ", field.name(), " of ", (*this)(k));
  }
  const char* operation() const { return operation_; }

 private:
  const char* operation_;
  std::span<const std::int64_t> indices_;
};

void check_dtype(const Place& place, const Field& field, std::size_t k, const Tensor& example,
                 DType dtype) {
  io::check_tensors(place(field, k), example);
  if (example.dtype() != dtype) {
    throw DTypeError(
        message(place(field, k), " is ", example.dtype(), ", others of its batch are ", dtype));
  }
}

// Stacks one field. The first example determines the shape and the dtype.
Tensor stacked(const Place& place, const Field& field, std::span<const Example> examples) {
  io::check_tensors(place(field, 0), field.of(examples[0]));
  const Shape shape = field.of(examples[0]).shape();
  const DType dtype = field.of(examples[0]).dtype();
  Tensor result =
      detail::make_empty(place.operation(), batch_shape(examples.size(), shape), dtype, cpu_device);
  std::byte* to = io::bytes_of(result).data();
  for (std::size_t k = 0; k < examples.size(); ++k) {
    const Tensor& example = field.of(examples[k]);
    check_dtype(place, field, k, example, dtype);
    if (example.shape() != shape) {
      throw ShapeError(message(place(field, k), " has shape ", example.shape(),
                               ", others of its batch have ", shape));
    }
    const Tensor dense = io::dense(example);
    copy_row(to, io::bytes_of(dense).data(), dense.nbytes());
    to += dense.nbytes();
  }
  return result;
}

// Stacks one field, with every example extended to the largest sizes.
Tensor padded(const Place& place, const Field& field, std::span<const Example> examples,
              double padding) {
  io::check_tensors(place(field, 0), field.of(examples[0]));
  Shape largest = field.of(examples[0]).shape();
  const DType dtype = field.of(examples[0]).dtype();
  for (std::size_t k = 0; k < examples.size(); ++k) {
    const Tensor& example = field.of(examples[k]);
    check_dtype(place, field, k, example, dtype);
    if (example.ndim() != static_cast<std::int64_t>(largest.size())) {
      throw ShapeError(message(place(field, k), " has shape ", example.shape(),
                               ", others of its batch have ", largest.size(), " dimensions"));
    }
    for (std::size_t axis = 0; axis < largest.size(); ++axis) {
      largest[axis] = std::max(largest[axis], example.shape()[axis]);
    }
  }
  Tensor result =
      full(batch_shape(examples.size(), largest), padding, {.dtype = dtype, .device = cpu_device});
  for (std::size_t k = 0; k < examples.size(); ++k) {
    const Tensor& example = field.of(examples[k]);
    const auto row = static_cast<std::int64_t>(k);
    Tensor part = result.slice(0, row, row + 1);
    for (std::int64_t axis = 0; axis < example.ndim(); ++axis) {
      part = part.slice(axis + 1, 0, example.size(axis));
    }
    part.copy_from(example.to(cpu_device));
  }
  return result;
}

// Makes a batch by stacking each field with `stack`.
template <class Stack>
Batch combined(const Place& place, std::span<const Example> examples, const Stack& stack) {
  if (examples.empty()) {
    throw ValueError(message(place.operation(), ": there are no examples (allowed: 1 or more)"));
  }
  const NoGrad off;
  const std::size_t inputs = examples[0].more_inputs.size();
  const std::size_t targets = examples[0].more_targets.size();
  for (std::size_t k = 1; k < examples.size(); ++k) {
    const Example& example = examples[k];
    if (example.more_inputs.size() != inputs || example.more_targets.size() != targets) {
      throw ValueError(message(place.operation(), ": ", place(k), " has ",
                               example.more_inputs.size() + 1, " inputs and ",
                               example.more_targets.size() + 1, " targets, the first of its batch ",
                               inputs + 1, " and ", targets + 1));
    }
  }
  Batch batch;
  batch.inputs = stack(Field{true, 0});
  batch.targets = stack(Field{false, 0});
  for (std::size_t j = 1; j <= inputs; ++j) batch.more_inputs.push_back(stack(Field{true, j}));
  for (std::size_t j = 1; j <= targets; ++j) batch.more_targets.push_back(stack(Field{false, j}));
  for (std::size_t k = 0; k < examples.size(); ++k) {
    batch.indices.push_back(static_cast<std::int64_t>(k));
  }
  return batch;
}

Batch stack_named(const Place& place, std::span<const Example> examples) {
  return combined(place, examples,
                  [&](const Field& field) { return stacked(place, field, examples); });
}

}  // namespace

Batch stack_examples(std::span<const Example> examples) {
  return stack_named(Place("stack_examples", {}), examples);
}

Collate pad_examples(double input_padding, double target_padding) {
  return [=](std::span<const Example> examples) {
    const Place place("pad_examples", {});
    return combined(place, examples, [&](const Field& field) {
      return padded(place, field, examples, field.is_input ? input_padding : target_padding);
    });
  };
}

Batch collated(const char* operation, const Collate& collate, std::span<const Example> examples,
               std::vector<std::int64_t> indices) {
  // The default names examples by their indices in messages.
  const auto* function = collate.target<Batch (*)(std::span<const Example>)>();
  Batch batch = function != nullptr && *function == &stack_examples
                    ? stack_named(Place(operation, indices), examples)
                    : collate(examples);
  if (!batch.inputs.defined() || !batch.targets.defined()) {
    throw ValueError(message(operation, ": the collate function returned a batch whose ",
                             batch.inputs.defined() ? "targets" : "inputs", " are undefined"));
  }
  batch.indices = std::move(indices);
  return batch;
}

}  // namespace extensor::data
