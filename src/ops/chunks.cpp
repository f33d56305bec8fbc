#include "ops/chunks.h"

#include <exception>
#include <limits>
#include <mutex>

#include "backend/cpu/parallel.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "ops/expression.h"
#include "ops/launch.h"

namespace extensor::ops {

namespace {

using expression::Value;

// Elements of a chunk: a handful of temporaries fit the second cache level, and a kernel's work
// outweighs its call.
constexpr std::int64_t chunk_elements = 4096;
// Elements a thread should get at least: enough to be worth waking it up.
constexpr std::int64_t grain = 8192;

Tensor dense_part(const Tensor& dense, std::int64_t first, std::int64_t count) {
  const auto offset = first * static_cast<std::int64_t>(dense.itemsize());
  return detail::make_view(dense, dense.impl().data + offset, {count}, {1});
}

void copy(const Source& from, Tensor& to) {
  const Source inputs[] = {from};
  launch(ElementwiseOp::copy, to.dtype(), inputs, to);
}

// Elements begin … end − 1 of `from` in row-major order into the dense `to`.
void gather(const Tensor& from, std::int64_t begin, std::int64_t end, Tensor to) {
  if (begin == end) return;
  if (from.ndim() <= 1) {
    const Tensor part = from.ndim() == 0 ? from : from.slice(0, begin, end);
    return copy(part, to);
  }
  const std::int64_t inner = from.numel() / from.shape()[0];
  std::int64_t first = begin / inner, written = 0;
  const auto take = [&](std::int64_t from_element, std::int64_t to_element) {
    const std::int64_t count = to_element - from_element;
    gather(from[first], from_element, to_element, dense_part(to, written, count));
    written += count;
    ++first;
  };
  if (end <= (first + 1) * inner) return take(begin - first * inner, end - first * inner);
  if (begin != first * inner) take(begin - first * inner, inner);
  const std::int64_t last = end / inner;  // of the whole rows in between, excluded
  if (last > first) {
    const Tensor rows = from.slice(0, first, last);
    Tensor target = dense_part(to, written, rows.numel()).reshape(rows.shape());
    copy(rows, target);
    written += rows.numel();
    first = last;
  }
  if (end != last * inner) take(0, end - last * inner);
}

// An input as the chunks read it.
struct Input {
  Tensor view;        // broadcast to the whole shape
  bool dense = true;  // its chunks are parts of it, of any dtype
  Value number;       // instead, where the view is undefined

  Input(const Tensor& x, const Shape& shape, std::int64_t numel) {
    if (!x.defined()) return;
    if (x.numel() == 1 && numel > 1) {
      number = x.item<double>();
      return;
    }
    view = x.shape() == shape ? x : broadcast_to(x, shape);
    dense = view.is_contiguous();
  }

  Value chunk(const char* operation, std::int64_t first, std::int64_t count, DType compute) const {
    if (!view.defined()) return number;
    if (dense && view.dtype() == compute) return Value(dense_part(view, first, count));
    Tensor elements = detail::make_empty(operation, {count}, compute, view.device());
    if (dense) {
      copy(dense_part(view, first, count), elements);
    } else {
      gather(view, first, first + count, elements);
    }
    return Value(elements);
  }
};

class Run {
 public:
  Run(const ChunkedCall& call, const ChunkFunction& function, Device device)
      : call_(call), function_(function), device_(device) {
    numel_ = detail::checked_numel(call.operation, call.shape);
    for (const Tensor& input : call.inputs) inputs_.emplace_back(input, call.shape, numel_);
  }

  std::vector<Tensor> whole() {
    std::vector<Value> values(call_.outputs.size());
    if (numel_ != 0) evaluate(0, numel_, values);
    std::vector<Tensor> results;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const DType dtype = call_.outputs[k];
      if (is_adoptable(values[k], dtype)) {
        results.push_back(values[k].elements().reshape(call_.shape));
        continue;
      }
      results.push_back(detail::make_empty(call_.operation, call_.shape, dtype, device_));
      if (numel_ != 0) store(values[k], dense_part(results.back(), 0, numel_));
    }
    return results;
  }

  std::vector<Tensor> chunked() {
    std::vector<Tensor> results;
    for (DType dtype : call_.outputs) {
      results.push_back(detail::make_empty(call_.operation, call_.shape, dtype, device_));
    }
    const std::int64_t chunks = (numel_ + chunk_elements - 1) / chunk_elements;
    std::mutex mutex;
    std::exception_ptr error;
    std::int64_t failed = std::numeric_limits<std::int64_t>::max();
    cpu::parallel_for(cpu::threads_for(numel_, grain), chunks, 1,
                      [&](std::int64_t begin, std::int64_t end) {
                        std::int64_t chunk = begin;
                        try {
                          std::vector<Value> values(results.size());
                          for (; chunk < end; ++chunk) run_chunk(chunk, values, results);
                        } catch (...) {
                          // The first in order of the elements, whichever thread was faster.
                          const std::lock_guard lock(mutex);
                          if (chunk < failed) {
                            failed = chunk;
                            error = std::current_exception();
                          }
                        }
                      });
    if (error) std::rethrow_exception(error);
    return results;
  }

  bool fits_one_chunk() const { return numel_ <= chunk_elements; }

 private:
  void run_chunk(std::int64_t chunk, std::vector<Value>& values,
                 const std::vector<Tensor>& results) {
    const std::int64_t first = chunk * chunk_elements;
    const std::int64_t count = std::min(chunk_elements, numel_ - first);
    evaluate(first, count, values);
    for (std::size_t k = 0; k < values.size(); ++k) {
      store(values[k], dense_part(results[k], first, count));
      values[k] = 0;
    }
  }

  void evaluate(std::int64_t first, std::int64_t count, std::vector<Value>& values) const {
    const GradientEps eps(call_.eps);
    std::vector<Value> inputs;
    inputs.reserve(inputs_.size());
    for (const Input& input : inputs_) {
      inputs.push_back(input.chunk(call_.operation, first, count, call_.compute));
    }
    function_(inputs, values);
    for (const Value& value : values) check(value, count);
  }

  void check(const Value& value, std::int64_t count) const {
    if (value.is_number()) return;
    const Tensor& elements = value.elements();
    if (!(elements.shape() == Shape{count})) {
      throw ShapeError(detail::message(call_.operation, ": the function gave ", elements.shape(),
                                       " for ", count, " elements"));
    }
    if (elements.dtype() != call_.compute || !elements.is_contiguous()) {
      throw DTypeError(detail::message(call_.operation, ": the function gave ", elements.dtype(),
                                       ", dense ", call_.compute, " was expected"));
    }
  }

  static void store(const Value& value, Tensor to) {
    copy(value.is_number() ? Source(value.number(), to.dtype()) : Source(value.elements()), to);
  }

  // Fresh memory that nobody else holds is the result itself.
  static bool is_adoptable(const Value& value, DType dtype) {
    return !value.is_number() && value.elements().dtype() == dtype &&
           value.elements().impl().references == 1 &&
           value.elements().impl().storage->references == 1;
  }

  const ChunkedCall& call_;
  const ChunkFunction& function_;
  Device device_;
  std::int64_t numel_;
  std::vector<Input> inputs_;
};

}  // namespace

std::vector<Tensor> evaluate_in_chunks(const ChunkedCall& call, const ChunkFunction& function) {
  std::vector<Source> tensors;
  for (const Tensor& input : call.inputs) {
    if (input.defined()) tensors.emplace_back(input);
  }
  const Device device = common_device(call.operation, tensors);
  Run run(call, function, device);
  // Another device has no caches to respect, and kernels of its own that want all elements at once.
  return run.fits_one_chunk() || !(device == cpu_device) ? run.whole() : run.chunked();
}

}  // namespace extensor::ops
