#include "ops/summed_row.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"

namespace extensor::ops {

namespace {

// The elements of a row that are in memory at once: few enough for the cache of a core, or for
// another device enough to occupy it.
std::int64_t part_elements(Device device) {
  return std::int64_t{1} << (device == cpu_device ? 18 : 21);
}
// The largest sum that is made of several parts. Larger results are divided first.
constexpr std::int64_t most_sums = std::int64_t{1} << 14;

// Adds tensors in pairs, in pairs of pairs, and so on, as they arrive. Level k has the sum of 2ᵏ.
class PairwiseSum {
 public:
  void add(Tensor x) {
    for (Tensor& level : levels_) {
      if (!level.defined()) {
        level = std::move(x);
        return;
      }
      x = extensor::add(std::exchange(level, Tensor()), x);
    }
    levels_.push_back(std::move(x));
  }
  Tensor total() const {
    Tensor sum;
    for (const Tensor& level : levels_) {
      if (level.defined()) sum = sum.defined() ? extensor::add(level, sum) : level;
    }
    return sum;
  }

 private:
  std::vector<Tensor> levels_;
};

class SummedRow {
 public:
  SummedRow(ElementwiseOp op, const char* operation, DType compute, std::span<const Source> inputs,
            Parameter first, const Shape& full, Device device)
      : op_(op),
        operation_(operation),
        compute_(compute),
        numbers_(inputs.begin(), inputs.end()),
        first_(first),
        part_(part_elements(device)) {
    for (const Source& input : inputs) {
      // A tensor without dimensions may be on the CPU, beside those of another device.
      const bool varies = input.is_tensor() && input.tensor().ndim() != 0;
      whole_.tensors.push_back(!input.is_tensor() ? Tensor()
                               : varies           ? input.tensor().broadcast_to(full)
                                                  : input.tensor());
    }
    whole_.shape = full;
  }

  // `out` has the axes of the row, with size 1 where it is summed.
  void fill(Tensor& out) const { fill(whole_, out); }

 private:
  // A part of the row: its shape and the inputs of that shape.
  struct Part {
    std::vector<Tensor> tensors;
    Shape shape;

    std::int64_t numel() const {
      std::int64_t count = 1;
      for (const std::int64_t size : shape) count *= size;
      return count;
    }
    Part slice(std::size_t axis, std::int64_t begin, std::int64_t end) const {
      Part part{tensors, shape};
      part.shape[axis] = end - begin;
      for (Tensor& x : part.tensors) {
        if (x.defined() && x.ndim() != 0) x = x.slice(static_cast<std::int64_t>(axis), begin, end);
      }
      return part;
    }
  };

  // Calls the function for slices of `step` indices along an axis.
  template <class Function>
  static void for_slices(const Part& part, std::size_t axis, std::int64_t step,
                         const Function& function) {
    step = std::max<std::int64_t>(1, step);
    for (std::int64_t begin = 0; begin < part.shape[axis]; begin += step) {
      const std::int64_t end = std::min(begin + step, part.shape[axis]);
      function(part.slice(axis, begin, end), begin, end);
    }
  }

  void fill(const Part& part, Tensor& out) const {
    const std::int64_t numel = part.numel();
    if (numel <= part_) {
      out.copy_from(sum_of(part, out.shape()));
      return;
    }
    const auto fill_slices = [&](std::size_t axis, std::int64_t step) {
      for_slices(part, axis, step, [&](const Part& slice, std::int64_t begin, std::int64_t end) {
        Tensor to = out.slice(static_cast<std::int64_t>(axis), begin, end);
        fill(slice, to);
      });
    };
    const std::size_t outer = outermost(part.shape, [](std::size_t) { return true; });
    const auto is_kept = [&](std::size_t axis) { return out.shape()[axis] != 1; };
    if (is_kept(outer)) {
      fill_slices(outer, part_ * part.shape[outer] / numel);
    } else if (out.numel() > most_sums) {
      const std::size_t kept = outermost(part.shape, is_kept);
      fill_slices(kept, most_sums * part.shape[kept] / out.numel());
    } else {
      PairwiseSum sums;
      collect(part, out.shape(), sums);
      out.copy_from(sums.total());
    }
  }

  void collect(const Part& part, const Shape& out, PairwiseSum& sums) const {
    const std::int64_t numel = part.numel();
    const auto is_summed = [&](std::size_t axis) { return out[axis] == 1; };
    const std::size_t axis = outermost(part.shape, is_summed);
    if (numel <= part_ || axis == part.shape.size()) {
      sums.add(sum_of(part, out));
      return;
    }
    for_slices(part, axis, part_ * part.shape[axis] / numel,
               [&](const Part& slice, std::int64_t, std::int64_t) { collect(slice, out, sums); });
  }

  // The first axis with more than one element for which the predicate holds.
  template <class Predicate>
  static std::size_t outermost(const Shape& shape, const Predicate& predicate) {
    std::size_t axis = 0;
    while (axis < shape.size() && !(shape[axis] > 1 && predicate(axis))) ++axis;
    return axis;
  }

  Tensor sum_of(const Part& part, const Shape& out) const {
    std::vector<Source> inputs;
    for (std::size_t k = 0; k < numbers_.size(); ++k) {
      inputs.push_back(part.tensors[k].defined() ? Source(part.tensors[k]) : numbers_[k]);
    }
    return reduce_broadcast_dims(evaluate(op_, operation_, compute_, compute_, inputs, first_),
                                 out);
  }

  ElementwiseOp op_;
  const char* operation_;
  DType compute_;
  std::vector<Source> numbers_;  // the inputs that are not tensors, at their places
  Parameter first_;
  std::int64_t part_;
  Part whole_;
};

bool is_recorded(std::span<const Source> inputs) {
  return detail::recording_enabled() && std::ranges::any_of(inputs, [](const Source& input) {
           return input.is_tensor() && detail::tracked(input.tensor());
         });
}

// Axes that are summed and along which no input changes.
struct Repeats {
  std::vector<Tensor> narrowed;  // the inputs with one element along these axes
  std::int64_t count = 1;        // the product of their sizes

  Repeats(std::span<const Source> inputs, const Shape& full, const Shape& shape) {
    for (const Source& input : inputs) {
      narrowed.push_back(input.is_tensor() ? input.tensor() : Tensor());
    }
    for (std::size_t from_end = 1; from_end <= full.size(); ++from_end) {
      const std::int64_t size = full[full.size() - from_end];
      const bool is_summed = from_end > shape.size() || shape[shape.size() - from_end] == 1;
      if (!is_summed || size <= 1) continue;
      const auto axis = -static_cast<std::int64_t>(from_end);
      const auto changes = [&](const Tensor& x) {
        return x.defined() && x.ndim() >= -axis && x.size(axis) > 1 &&
               x.strides()[x.shape().size() - from_end] != 0;
      };
      if (std::ranges::any_of(narrowed, changes)) continue;
      for (Tensor& x : narrowed) {
        if (x.defined() && x.ndim() >= -axis) x = x.slice(axis, 0, 1);
      }
      count *= size;
    }
  }
};

}  // namespace

Tensor evaluate_summed(ElementwiseOp op, const char* operation, DType compute, DType dtype,
                       std::span<const Source> inputs, const Shape& shape, Parameter first) {
  const Shape full = broadcast_inputs(operation, inputs);
  const Device device = common_device(operation, inputs);
  std::int64_t numel = 1;
  for (const std::int64_t size : full) numel *= size;
  if (full == shape || numel <= part_elements(device) || is_recorded(inputs)) {
    return reduce_broadcast_dims(evaluate(op, operation, compute, compute, inputs, first), shape)
        .to(dtype);
  }
  return detail::unrecorded([&] {
    const Repeats repeats(inputs, full, shape);
    if (repeats.count > 1 && is_floating_point(compute)) {
      std::vector<Source> narrowed;
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        const Tensor& x = repeats.narrowed[k];
        narrowed.push_back(x.defined() ? Source(x) : inputs[k]);
      }
      const Tensor once = evaluate_summed(op, operation, compute, compute, narrowed, shape, first);
      return multiply(once, repeats.count).to(dtype);
    }
    Shape padded(full.size(), 1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      padded[full.size() - shape.size() + d] = shape[d];
    }
    Tensor result = detail::make_empty(operation, padded, dtype, device);
    SummedRow(op, operation, compute, inputs, first, full, device).fill(result);
    return result.reshape(shape);
  });
}

}  // namespace extensor::ops
