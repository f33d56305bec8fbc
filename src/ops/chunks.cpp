#include "ops/chunks.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>

#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "core/memory_layout.h"
#include "core/parallel.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "ops/expression.h"
#include "ops/gradient_eps.h"
#include "ops/launch.h"
#include "ops/trace.h"

namespace extensor::ops {

namespace {

using expression::Value;

// Size of a chunk. The operands of one op fit into the L1 cache, and a kernel's work outweighs its
// call.
constexpr std::int64_t chunk_bytes = 8192;
// Minimum number of elements per thread that is worth waking it up.
constexpr std::int64_t grain = 8192;

// A view that slides over the chunks of one dense tensor, used by one thread. Each thread has its
// own storage object, so that threads do not contend for a reference count, and the view is moved
// in place while nothing else holds it.
class Window {
 public:
  Window() = default;
  explicit Window(const Tensor& dense) : base_(dense.impl().data), item_(dense.itemsize()) {
    dtype_ = dense.dtype();
    storage_ = wrap_storage(
        base_, dense.nbytes(), dense.device(),
        [](void* held) { delete static_cast<Tensor*>(held); }, new Tensor(dense));
  }

  const Tensor& move_to(std::int64_t first, std::int64_t count) {
    std::byte* data = base_ + static_cast<std::size_t>(first) * item_;
    if (view_.defined() && view_.numel() == count && view_.impl().references == 1) {
      view_.impl().data = data;
    } else {
      view_ = detail::make_on_storage(storage_, data, dtype_, {count}, {1});
    }
    return view_;
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t item_ = 0;
  DType dtype_ = DType::float32;
  StoragePointer storage_;
  Tensor view_;
};

Tensor dense_part(const Tensor& dense, std::int64_t first, std::int64_t count) {
  const auto offset = first * static_cast<std::int64_t>(dense.itemsize());
  return detail::make_view(dense, dense.impl().data + offset, {count}, {1});
}

void copy(const Source& from, Tensor& to, std::int64_t whole_numel = 0) {
  const Source inputs[] = {from};
  launch(ElementwiseOp::copy, to.dtype(), inputs, to, {}, {}, whole_numel);
}

// Copies elements begin … end − 1 of `from`, in row-major order, into the dense `to`.
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
  const std::int64_t last = end / inner;  // end of the whole rows in between, exclusive
  if (last > first) {
    const Tensor rows = from.slice(0, first, last);
    Tensor target = dense_part(to, written, rows.numel()).reshape(rows.shape());
    copy(rows, target);
    written += rows.numel();
    first = last;
  }
  if (end != last * inner) take(0, end - last * inner);
}

// An input in the form that chunks read.
struct Input {
  Tensor view;        // broadcast to the whole shape
  bool dense = true;  // chunks are slices of the view, of any dtype
  Value number;       // used if the view is undefined

  Input(const Tensor& x, const Shape& shape, std::int64_t numel) {
    if (!x.defined()) return;
    // Reading a number from another device would block.
    if (x.numel() == 1 && numel > 1 && x.device() == cpu_device) {
      number = x.item<double>();
      return;
    }
    view = x.shape() == shape ? x : broadcast_to(x, shape);
    dense = view.is_contiguous();
  }

  Window window() const { return view.defined() && dense ? Window(view) : Window(); }

  // `window` is null if there is only one chunk.
  Value chunk(const char* operation, Window* window, std::int64_t first, std::int64_t count,
              DType compute) const {
    if (!view.defined()) return number;
    Tensor part;
    if (dense)
      part = window != nullptr ? window->move_to(first, count) : dense_part(view, first, count);
    if (dense && view.dtype() == compute) return Value(std::move(part));
    Tensor elements = detail::make_empty(operation, {count}, compute, view.device());
    if (dense) {
      copy(part, elements);
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
    chunk_ = chunk_bytes / static_cast<std::int64_t>(itemsize(call.compute));
    inputs_.reserve(call.inputs.size());
    for (const Tensor& input : call.inputs) inputs_.emplace_back(input, call.shape, numel_);
  }

  std::vector<Tensor> whole() {
    Memory memory;
    memory.values.resize(call_.outputs.size());
    std::vector<Value>& values = memory.values;
    const ExpressionScope scope(call_.eps);
    if (numel_ != 0) evaluate(0, numel_, memory);
    std::vector<Tensor> results;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const DType dtype = call_.outputs[k];
      if (is_adoptable(values[k], dtype)) {
        results.push_back(values[k].elements().reshape(call_.shape));
        continue;
      }
      results.push_back(detail::make_empty(call_.operation, call_.shape, dtype, device_));
      if (numel_ != 0) store(values[k], dense_part(results.back(), 0, numel_), 0);
    }
    return results;
  }

  std::vector<Tensor> chunked() {
    std::vector<Tensor> results;
    for (DType dtype : call_.outputs) {
      results.push_back(detail::make_empty(call_.operation, call_.shape, dtype, device_));
    }
    const std::int64_t chunks = (numel_ + chunk_ - 1) / chunk_;
    std::mutex mutex;
    std::exception_ptr error;
    std::int64_t failed = std::numeric_limits<std::int64_t>::max();
    detail::parallel_for(detail::threads_for(numel_, grain), chunks, 1,
                         [&](std::int64_t begin, std::int64_t end) {
                           std::int64_t chunk = begin;
                           try {
                             ExpressionScope scope(call_.eps);
                             Memory memory(inputs_, results);
                             for (; chunk < end; ++chunk) run_chunk(chunk, scope, memory);
                           } catch (...) {
                             // Report the error of the first element in order, whichever thread was
                             // faster.
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

  bool fits_one_chunk() const { return numel_ <= chunk_; }

 private:
  // Memory of one thread, reused from chunk to chunk.
  struct Memory {
    std::vector<Window> input_windows, result_windows;
    std::vector<Value> inputs, values;
    std::vector<Tensor> targets;

    Memory() = default;
    Memory(const std::vector<Input>& from, const std::vector<Tensor>& results)
        : values(results.size()), targets(results.size()) {
      for (const Input& input : from) input_windows.push_back(input.window());
      for (const Tensor& result : results) result_windows.emplace_back(result);
    }
  };

  void run_chunk(std::int64_t chunk, ExpressionScope& scope, Memory& memory) const {
    const std::int64_t first = chunk * chunk_;
    const std::int64_t count = std::min(chunk_, numel_ - first);
    for (std::size_t k = 0; k < memory.targets.size(); ++k) {
      memory.targets[k] = memory.result_windows[k].move_to(first, count);
    }
    scope.begin_chunk(memory.targets, numel_);
    evaluate(first, count, memory);
    scope.end_chunk(memory.values);
    free_targets(memory);
    for (std::size_t k = 0; k < memory.targets.size(); ++k) {
      Value& value = memory.values[k];
      Tensor& target = memory.targets[k];
      const bool stored = !value.is_number() && value.elements().impl().data == target.impl().data;
      if (!stored) store(value, target, numel_);
      value = 0;
      target = Tensor();
    }
  }

  // A function that behaves differently from chunk to chunk may have left one result in the memory
  // of another, which is about to be overwritten.
  static void free_targets(Memory& memory) {
    for (std::size_t k = 0; k < memory.targets.size(); ++k) {
      if (memory.values[k].is_number()) continue;
      const Tensor& elements = memory.values[k].elements();
      for (std::size_t other = 0; other < memory.targets.size(); ++other) {
        if (other == k || elements.impl().data != memory.targets[other].impl().data) continue;
        memory.values[k] = Value(elements.clone());
        break;
      }
    }
  }

  void evaluate(std::int64_t first, std::int64_t count, Memory& memory) const {
    memory.inputs.clear();
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      Window* window = memory.input_windows.empty() ? nullptr : &memory.input_windows[k];
      memory.inputs.push_back(
          inputs_[k].chunk(call_.operation, window, first, count, call_.compute));
    }
    function_(memory.inputs, memory.values);
    for (const Value& value : memory.values) check(value, count);
    memory.inputs.clear();
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

  static void store(const Value& value, Tensor to, std::int64_t whole_numel) {
    copy(value.is_number() ? Source(value.number(), to.dtype()) : Source(value.elements()), to,
         whole_numel);
  }

  // A result in fresh, unshared memory can be returned without a copy.
  static bool is_adoptable(const Value& value, DType dtype) {
    return !value.is_number() && value.elements().dtype() == dtype &&
           detail::is_unshared(value.elements());
  }

  const ChunkedCall& call_;
  const ChunkFunction& function_;
  Device device_;
  std::int64_t numel_, chunk_;
  std::vector<Input> inputs_;
};

// Evaluates all elements at once and without a scope, so that every operation is recorded.
std::vector<Tensor> evaluate_recorded(const ChunkedCall& call, const ChunkFunction& function) {
  const EpsScope eps(call.eps);
  std::vector<expression::Value> in, out(call.outputs.size());
  for (const Tensor& input : call.inputs) {
    // All inputs have one shape, as in a chunk.
    in.push_back(input.defined()
                     ? expression::Value(input.to(call.compute).broadcast_to(call.shape))
                     : expression::Value());
  }
  function(in, out);
  Device device;
  for (const Tensor& input : call.inputs) {
    if (input.defined()) device = input.device();
  }
  std::vector<Tensor> results;
  for (std::size_t k = 0; k < out.size(); ++k) {
    results.push_back(out[k].is_number()
                          ? full(call.shape, out[k].number(), {call.outputs[k], device})
                          : out[k].elements().broadcast_to(call.shape).to(call.outputs[k]));
  }
  return results;
}

// The axes from outermost to innermost in memory, for results that follow the layout of the inputs.
Dims memory_order(const ChunkedCall& call) {
  std::vector<Strides> broadcast;
  for (const Tensor& x : call.inputs) {
    if (x.defined()) {
      broadcast.push_back(compute_broadcast_strides(x.shape(), x.strides(), call.shape));
    }
  }
  std::vector<const std::int64_t*> strides;
  strides.reserve(broadcast.size());
  for (const Strides& each : broadcast) strides.push_back(each.data());
  const Strides layout = detail::result_strides(call.shape, strides.size(), strides.data());
  Dims order;
  for (std::size_t d = 0; d < call.shape.size(); ++d) order.push_back(static_cast<std::int64_t>(d));
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return layout[static_cast<std::size_t>(a)] > layout[static_cast<std::size_t>(b)];
  });
  return order;
}

// Returns row-major results.
std::vector<Tensor> evaluate_row_major(const ChunkedCall& call, const ChunkFunction& function) {
  std::vector<Source> tensors;
  for (const Tensor& input : call.inputs) {
    if (input.defined()) tensors.emplace_back(input);
  }
  const Device device = common_device(call.operation, tensors);
  if (call.compiled && !(device == cpu_device)) {
    if (auto results = evaluate_compiled(call, function, device)) return std::move(*results);
  }
  Run run(call, function, device);
  // Chunks only help the CPU cache; kernels of other devices work best on all elements at once.
  return run.fits_one_chunk() || !(device == cpu_device) ? run.whole() : run.chunked();
}

// Permutes the axes into an order in which the inputs are dense, and moves the results back.
std::vector<Tensor> evaluate_in_order(const ChunkedCall& call, const ChunkFunction& function,
                                      const Dims& order) {
  ChunkedCall moved = call;
  Dims back(order.size(), 0);
  for (std::size_t d = 0; d < order.size(); ++d) {
    const auto from = static_cast<std::size_t>(order[d]);
    moved.shape[d] = call.shape[from];
    back[from] = static_cast<std::int64_t>(d);
  }
  std::vector<Tensor> inputs;
  for (const Tensor& x : call.inputs) {
    if (!x.defined()) {
      inputs.push_back(x);
    } else {
      inputs.push_back(x.numel() == 1 ? x.reshape({})
                                      : broadcast_to(x, call.shape).transpose(order));
    }
  }
  moved.inputs = inputs;
  std::vector<Tensor> results = evaluate_row_major(moved, function);
  for (Tensor& result : results) {
    Strides strides(back.size(), 0);
    for (std::size_t d = 0; d < back.size(); ++d) {
      strides[d] = result.strides()[static_cast<std::size_t>(back[d])];
    }
    result = detail::make_view(result, result.impl().data, call.shape, strides);
  }
  return results;
}

}  // namespace

std::vector<Tensor> evaluate_in_chunks(const ChunkedCall& call, const ChunkFunction& function) {
  if (detail::records(call.inputs)) return evaluate_recorded(call, function);
  const bool row_major = std::ranges::all_of(
      call.inputs, [](const Tensor& x) { return !x.defined() || x.is_contiguous(); });
  if (!row_major) {
    const Dims order = memory_order(call);
    if (!std::is_sorted(order.begin(), order.end())) {
      return detail::unrecorded([&] { return evaluate_in_order(call, function, order); });
    }
  }
  return evaluate_row_major(call, function);
}

}  // namespace extensor::ops
