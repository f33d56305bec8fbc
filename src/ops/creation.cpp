#include "extensor/creation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "backend/backend.h"
#include "core/check.h"
#include "core/context.h"
#include "core/make_tensor.h"
#include "core/memory_layout.h"
#include "extensor/elementwise.h"
#include "ops/random_tensor.h"
#include "ops/scalar_range.h"

namespace extensor {

using detail::make_empty;
using detail::message;

// ---- filled

namespace {

DType chosen_dtype(const TensorOptions& options, DType otherwise = default_float) {
  return options.dtype.value_or(otherwise);
}
Device chosen_device(const TensorOptions& options) {
  return options.device.value_or(detail::context.default_device);
}

Tensor made(const char* operation, const Shape& shape, DType dtype, const TensorOptions& options) {
  return make_empty(operation, shape, options.memory_format.value_or(MemoryFormat::contiguous),
                    dtype, chosen_device(options));
}
Tensor made_like(const char* operation, const Tensor& x, const TensorOptions& options) {
  const DType dtype = chosen_dtype(options, x.dtype());
  const Device device = options.device.value_or(x.device());
  const MemoryFormat format = options.memory_format.value_or(MemoryFormat::preserve);
  if (format != MemoryFormat::preserve) {
    return make_empty(operation, x.shape(), format, dtype, device);
  }
  return make_empty(operation, x.shape(), detail::dense_strides(x), dtype, device);
}

Tensor filled(const char* operation, const Shape& shape, const Scalar& value, DType dtype,
              const TensorOptions& options) {
  ops::check_scalar_stored(operation, "value", value, dtype);
  return made(operation, shape, dtype, options).fill(value);
}
Tensor filled_like(const char* operation, const Tensor& x, const Scalar& value,
                   const TensorOptions& options) {
  ops::check_scalar_stored(operation, "value", value, chosen_dtype(options, x.dtype()));
  return made_like(operation, x, options).fill(value);
}

// Checks the options of a function whose results never have 4 dimensions.
void check_option_format(const char* operation, const Shape& shape, const TensorOptions& options) {
  if (options.memory_format) detail::check_format(operation, shape, *options.memory_format);
}

}  // namespace

Tensor empty(const Shape& shape, const TensorOptions& options) {
  return made("empty", shape, chosen_dtype(options), options);
}
Tensor zeros(const Shape& shape, const TensorOptions& options) {
  return filled("zeros", shape, 0, chosen_dtype(options), options);
}
Tensor ones(const Shape& shape, const TensorOptions& options) {
  return filled("ones", shape, 1, chosen_dtype(options), options);
}
Tensor full(const Shape& shape, const Scalar& value, const TensorOptions& options) {
  return filled("full", shape, value, chosen_dtype(options, value.default_dtype()), options);
}

Tensor empty_like(const Tensor& x, const TensorOptions& options) {
  return made_like("empty_like", x, options);
}
Tensor zeros_like(const Tensor& x, const TensorOptions& options) {
  return filled_like("zeros_like", x, 0, options);
}
Tensor ones_like(const Tensor& x, const TensorOptions& options) {
  return filled_like("ones_like", x, 1, options);
}
Tensor full_like(const Tensor& x, const Scalar& value, const TensorOptions& options) {
  return filled_like("full_like", x, value, options);
}

Tensor scalar(const Scalar& value, const TensorOptions& options) {
  return filled("scalar", {}, value, chosen_dtype(options, value.default_dtype()), options);
}

// ---- sequences

namespace {

Tensor arange_integers(std::int64_t start, std::int64_t stop, std::int64_t step,
                       const TensorOptions& options) {
  const DType dtype = chosen_dtype(options, default_integer);
  if (step == 0) throw ValueError("arange: step is 0, must not be");
  // Use 128 bits: stop − start can overflow int64.
  const __int128 distance = static_cast<__int128>(stop) - start;
  __int128 count = step > 0 ? (distance + step - 1) / step : (distance + step + 1) / step;
  if ((distance > 0) != (step > 0)) count = 0;
  if (count > std::numeric_limits<std::int64_t>::max() / 8) {
    throw ShapeError(message("arange: too many elements from ", start, " to ", stop, " by ", step));
  }
  const auto n = static_cast<std::int64_t>(count);
  if (n > 0) {
    ops::check_scalar_fits("arange", start, dtype);
    // Use unsigned arithmetic: the product may wrap even if the sum does not.
    const std::uint64_t distance_to_last =
        static_cast<std::uint64_t>(n - 1) * static_cast<std::uint64_t>(step);
    const auto last =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + distance_to_last);
    ops::check_scalar_fits("arange", last, dtype);
  }
  Tensor result = make_empty("arange", {n}, DType::int64, cpu_device);
  std::int64_t* values = result.data<std::int64_t>();
  auto next = static_cast<std::uint64_t>(start);  // unsigned: one step past the last may wrap
  for (std::int64_t i = 0; i < n; ++i, next += static_cast<std::uint64_t>(step)) {
    values[i] = static_cast<std::int64_t>(next);
  }
  return result.to(dtype).to(chosen_device(options));
}

Tensor arange_reals(double start, double stop, double step, const TensorOptions& options) {
  const DType dtype = chosen_dtype(options);
  if (!(step < 0 || step > 0) || !std::isfinite(step)) {
    throw ValueError(message("arange: step is ", step, ", must be finite and not 0"));
  }
  if (!std::isfinite(start) || !std::isfinite(stop)) {
    throw ValueError(
        message("arange: start is ", start, " and stop is ", stop, ", both must be finite"));
  }
  // Divide first if the distance exceeds the largest double.
  const double distance = stop - start;
  const double steps = std::isfinite(distance) ? distance / step : stop / step - start / step;
  const double count = std::max(0.0, std::ceil(steps));
  if (!(count < 0x1p60)) {
    throw ShapeError(message("arange: too many elements from ", start, " to ", stop, " by ", step));
  }
  const auto n = static_cast<std::int64_t>(count);
  if (n > 0) {
    ops::check_scalar_fits("arange", start, dtype);
    ops::check_scalar_fits("arange", start + static_cast<double>(n - 1) * step, dtype);
  }
  Tensor result = make_empty("arange", {n}, DType::float64, cpu_device);
  double* values = result.data<double>();
  for (std::int64_t i = 0; i < n; ++i) values[i] = start + static_cast<double>(i) * step;
  return result.to(dtype).to(chosen_device(options));
}

}  // namespace

Tensor arange(const Scalar& stop, const TensorOptions& options) {
  return arange(0, stop, 1, options);
}

Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step,
              const TensorOptions& options) {
  if (options.dtype == DType::bool_) throw DTypeError("arange: dtype is bool, must be a number's");
  check_option_format("arange", {0}, options);
  const bool real = start.is_floating() || stop.is_floating() || step.is_floating();
  if (real) {
    return arange_reals(start.as_double(), stop.as_double(), step.as_double(), options);
  }
  for (const Scalar* bound : {&start, &stop, &step}) {
    ops::check_scalar_fits("arange", *bound, DType::int64);
  }
  return arange_integers(start.as_integer(), stop.as_integer(), step.as_integer(), options);
}

Tensor linspace(StrictDouble start, StrictDouble stop, StrictInt count,
                const TensorOptions& options, StrictBool endpoint) {
  const DType dtype = chosen_dtype(options);
  check_option_format("linspace", {count}, options);
  if (count < 0) throw ValueError(message("linspace: count is ", count, ", must be 0 or more"));
  if (!std::isfinite(start) || !std::isfinite(stop)) {
    throw ValueError(
        message("linspace: start is ", start, " and stop is ", stop, ", both must be finite"));
  }
  ops::check_scalar_fits("linspace", start, dtype);
  ops::check_scalar_fits("linspace", stop, dtype);
  Tensor result = make_empty("linspace", {count}, DType::float64, cpu_device);
  double* values = result.data<double>();
  const double intervals = static_cast<double>(count) - (endpoint ? 1 : 0);
  const double step = intervals > 0 ? (stop - start) / intervals : 0;
  for (std::int64_t i = 0; i < count; ++i) values[i] = start + static_cast<double>(i) * step;
  if (!std::isfinite(step)) {
    // The distance exceeds the largest double, although the values in between do not.
    for (std::int64_t i = 0; i < count; ++i) {
      const double part = static_cast<double>(i) / intervals;
      values[i] = start * (1 - part) + stop * part;
    }
  }
  if (endpoint && count > 1) values[count - 1] = stop;
  return result.to(dtype).to(chosen_device(options));
}

Tensor eye(StrictInt rows, std::optional<StrictInt> columns, StrictInt diagonal,
           const TensorOptions& options) {
  const std::int64_t width = columns.value_or(rows);
  Tensor result = filled("eye", {rows, width}, 0, chosen_dtype(options), options);
  const std::int64_t first_row =
      std::max<std::int64_t>(0, -std::max<std::int64_t>(diagonal, -rows));
  const std::int64_t first_column =
      std::max<std::int64_t>(0, std::min<std::int64_t>(diagonal, width));
  const std::int64_t length = std::min(rows - first_row, width - first_column);
  if (length <= 0) return result;
  detail::strided_view("eye", result, {length}, {width + 1}, first_row * width + first_column)
      .fill(1);
  return result;
}

// ---- triangles and grids

namespace {

Tensor triangle(const char* operation, const Tensor& x, std::int64_t diagonal, bool lower) {
  if (x.ndim() < 2) {
    throw ShapeError(message(operation, ": x is ", x.shape(), ", needs two dimensions at least"));
  }
  const Device device = x.device();
  const Tensor row = arange(x.size(-2), device).unsqueeze(1), column = arange(x.size(-1), device);
  // column − row, so that neither side overflows for any diagonal.
  const Tensor distance = column - row;
  const Tensor kept = lower ? less_equal(distance, diagonal) : greater_equal(distance, diagonal);
  return where(kept, x, zeros({}, {x.dtype(), cpu_device}));
}

}  // namespace

Tensor tril(const Tensor& x, StrictInt diagonal) { return triangle("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, StrictInt diagonal) { return triangle("triu", x, diagonal, false); }

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, StrictBool xy_indexing) {
  const std::size_t count = vectors.size();
  if (count > static_cast<std::size_t>(max_rank)) {
    throw ShapeError(message("meshgrid: ", count, " vectors, at most ", max_rank, " are allowed"));
  }
  const auto axis_of = [&](std::size_t i) {
    return xy_indexing && count >= 2 && i < 2 ? 1 - i : i;
  };
  Shape shape(count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    if (vectors[i].ndim() != 1) {
      throw ShapeError(message("meshgrid: argument ", i, " is ", vectors[i].shape(),
                               ", must have one dimension"));
    }
    shape[axis_of(i)] = vectors[i].size(0);
  }
  detail::checked_numel("meshgrid", shape);
  std::vector<Tensor> grids;
  for (std::size_t i = 0; i < count; ++i) {
    Shape column(count, 1);
    column[axis_of(i)] = vectors[i].size(0);
    grids.push_back(vectors[i].reshape(column).broadcast_to(shape).clone());
  }
  return grids;
}

// ---- from data

namespace {

Tensor host_copy(const void* values, std::size_t count, DType dtype, const Shape& shape) {
  const std::int64_t numel = detail::checked_numel("from_data", shape);
  if (static_cast<std::size_t>(numel) != count) {
    throw ShapeError(message("from_data: ", count, " values do not fill ", shape, ", which has ",
                             numel, " elements"));
  }
  if (values == nullptr && count != 0) {
    throw ValueError(
        message("from_data: values is null for ", count, " elements of shape ", shape));
  }
  Tensor result = make_empty("from_data", shape, dtype, cpu_device);
  if (count == 0) return result;
  if (dtype == DType::bool_) {
    // Reading a byte other than 0 or 1 as a bool is undefined behaviour.
    const auto* bytes = static_cast<const unsigned char*>(values);
    std::transform(bytes, bytes + count, result.data<bool>(),
                   [](unsigned char byte) { return byte != 0; });
  } else {
    std::memcpy(result.impl().data, values, result.nbytes());
  }
  return result;
}

}  // namespace

Tensor from_bytes(const void* values, std::size_t count, DType dtype, const Shape& shape) {
  return host_copy(values, count, dtype, shape).to(default_device());
}

Tensor from_data(const std::vector<bool>& values, const Shape& shape) {
  std::vector<unsigned char> bytes(values.begin(), values.end());
  return from_bytes(bytes.data(), bytes.size(), DType::bool_, shape);
}

namespace detail {

Tensor from_literals(const void* values, std::size_t count, DType stored, const Shape& shape,
                     DType default_dtype, const TensorOptions& options) {
  check_option_format("tensor", shape, options);
  if (stored == DType::uint64) {
    // Numbers above the largest int64 keep their dtype instead of wrapping.
    const auto* numbers = static_cast<const std::uint64_t*>(values);
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (std::any_of(numbers, numbers + count, [](std::uint64_t x) { return x > most; })) {
      default_dtype = DType::uint64;
    }
  }
  return host_copy(values, count, stored, shape)
      .to(chosen_dtype(options, default_dtype))
      .to(chosen_device(options));
}

}  // namespace detail

namespace {

// The lowest and the highest offset from the first element, in elements. ShapeError if the bytes
// between them cannot be counted.
std::pair<std::int64_t, std::int64_t> extent(DType dtype, const Shape& shape,
                                             const Strides& strides) {
  __int128 lowest = 0, highest = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return {0, -1};
    const __int128 reach = static_cast<__int128>(shape[d] - 1) * strides[d];
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto most = static_cast<__int128>(std::numeric_limits<std::int64_t>::max());
  if ((highest - lowest + 1) * static_cast<__int128>(itemsize(dtype)) > most) {
    throw ShapeError(message("from_external: the byte count of shape ", shape, " with strides ",
                             strides, " exceeds the largest int64"));
  }
  return {static_cast<std::int64_t>(lowest), static_cast<std::int64_t>(highest)};
}

Tensor wrap_external(void* data, DType dtype, const Shape& shape, const Strides& strides,
                     bool read_only, void (*release)(void*), void* context) {
  const std::int64_t numel = detail::checked_numel("from_external", shape);
  detail::checked_bytes("from_external", numel, dtype);
  if (strides.size() != shape.size()) {
    throw ShapeError(message("from_external: there are ", strides.size(), " strides, ", strides,
                             ", for the ", shape.size(), " dimensions of shape ", shape));
  }
  if (data == nullptr && numel != 0) {
    throw ValueError(message("from_external: data is null for a tensor of shape ", shape));
  }
  const std::size_t alignment = std::min<std::size_t>(itemsize(dtype), 8);
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
    throw ValueError(message("from_external: data is not aligned to ", alignment, " bytes, as ",
                             dtype, " needs"));
  }
  const auto [lowest, highest] = extent(dtype, shape, strides);
  const auto size = static_cast<std::int64_t>(itemsize(dtype));
  auto* first = static_cast<std::byte*>(data);
  std::byte* start = numel == 0 ? first : first + lowest * size;
  StoragePointer storage = wrap_storage(
      start, static_cast<std::size_t>((highest - lowest + 1) * size), cpu_device, release, context);
  storage->read_only = read_only;
  return detail::make_on_storage(std::move(storage), first, dtype, shape, strides);
}

}  // namespace

Tensor from_external(void* data, DType dtype, const Shape& shape, void (*release)(void*),
                     void* context) {
  detail::checked_numel("from_external", shape);  // before strides are computed from it
  return wrap_external(data, dtype, shape, detail::contiguous_strides(shape), false, release,
                       context);
}

Tensor from_external(void* data, DType dtype, const Shape& shape, const Strides& strides,
                     void (*release)(void*), void* context) {
  return wrap_external(data, dtype, shape, strides, false, release, context);
}

Tensor from_external(const void* data, DType dtype, const Shape& shape, const Strides& strides,
                     void (*release)(void*), void* context) {
  return wrap_external(const_cast<void*>(data), dtype, shape, strides, true, release, context);
}

// ---- random

namespace ops {

Tensor random_tensor(const char* operation, backend::RandomCall call, const Shape& shape,
                     const TensorOptions& options, Generator& generator) {
  const DType dtype = chosen_dtype(options);
  if (is_complex(dtype)) {
    throw DTypeError(message(operation, ": dtype is ", dtype, " (allowed: a real dtype)"));
  }
  const MemoryFormat format = options.memory_format.value_or(MemoryFormat::contiguous);
  detail::check_format(operation, shape, format);
  Tensor result = make_empty(operation, shape, dtype, chosen_device(options));
  const RandomState state = generator.reserve(static_cast<std::uint64_t>(result.numel()));
  call.dtype = dtype;
  call.numel = result.numel();
  call.out = result.impl().data;
  call.seed = state.seed;
  call.stream = state.stream;
  call.offset = state.offset;
  backend::backend_for(result.device()).random(call);
  // Draw in row-major order, so that the values do not depend on the format.
  return format == MemoryFormat::contiguous ? result : result.to(format);
}

void check_random_float(const char* operation, const TensorOptions& options) {
  const DType dtype = chosen_dtype(options);
  if (is_floating_point(dtype)) return;
  throw DTypeError(message(operation, ": dtype is ", dtype, ", must be a float dtype"));
}

backend::RandomCall random_call(backend::RandomOp op, double first, double second) {
  backend::RandomCall call{};
  call.op = op;
  call.first = first;
  call.second = second;
  return call;
}

}  // namespace ops

using backend::RandomCall;
using backend::RandomOp;
using ops::check_random_float;
using ops::random_call;
using ops::random_tensor;

Tensor rand(const Shape& shape, const TensorOptions& options, Generator& generator) {
  check_random_float("rand", options);
  return random_tensor("rand", random_call(RandomOp::uniform), shape, options, generator);
}

Tensor randn(const Shape& shape, const TensorOptions& options, Generator& generator) {
  check_random_float("randn", options);
  return random_tensor("randn", random_call(RandomOp::normal), shape, options, generator);
}

Tensor uniform(const Shape& shape, StrictDouble low, StrictDouble high,
               const TensorOptions& options, Generator& generator) {
  check_random_float("uniform", options);
  if (!(low <= high) || !std::isfinite(high - low)) {
    throw ValueError(message("uniform: low is ", low, " and high is ", high,
                             ", both must be finite, their distance too, and low ≤ high"));
  }
  return random_tensor("uniform", random_call(RandomOp::uniform, low, high), shape, options,
                       generator);
}

Tensor normal(const Shape& shape, StrictDouble mean, StrictDouble deviation,
              const TensorOptions& options, Generator& generator) {
  check_random_float("normal", options);
  if (!(deviation >= 0) || !std::isfinite(mean) || !std::isfinite(deviation)) {
    throw ValueError(message("normal: mean is ", mean, " and deviation is ", deviation,
                             ", both must be finite and the deviation 0 or more"));
  }
  return random_tensor("normal", random_call(RandomOp::normal, mean, deviation), shape, options,
                       generator);
}

Tensor randint(StrictInt low, StrictInt high, const Shape& shape, const TensorOptions& options,
               Generator& generator) {
  const DType dtype = chosen_dtype(options, default_integer);
  if (!is_integer(dtype)) {
    throw DTypeError(message("randint: dtype is ", dtype, ", must be an integer dtype"));
  }
  if (high <= low) {
    throw ValueError(message("randint: high is ", high, ", must be greater than low, ", low));
  }
  ops::check_scalar_fits("randint", low, dtype);
  ops::check_scalar_fits("randint", high - 1, dtype);
  RandomCall call = random_call(RandomOp::integers);
  call.integer_first = low;
  call.integer_second = high;
  return random_tensor("randint", call, shape, {dtype, options.device, options.memory_format},
                       generator);
}

Tensor randperm(StrictInt count, const TensorOptions& options, Generator& generator) {
  if (count < 0) throw ValueError(message("randperm: count is ", count, ", must be 0 or more"));
  check_option_format("randperm", {count}, options);
  // Give each position a random 64-bit key. Equal keys are so rare that breaking ties by position
  // adds no measurable bias.
  RandomCall call = random_call(RandomOp::integers);
  call.integer_first = std::numeric_limits<std::int64_t>::min();
  call.integer_second = std::numeric_limits<std::int64_t>::max();
  const Tensor keys =
      random_tensor("randperm", call, {count}, {DType::int64, cpu_device}, generator);
  const Tensor result = detail::make_empty("randperm", {count}, DType::int64, cpu_device);
  backend::SortCall sorting{};
  sorting.dtype = DType::int64;
  sorting.rows = 1;
  sorting.length = sorting.count = count;
  sorting.x = keys.impl().data;
  sorting.indices = reinterpret_cast<std::int64_t*>(result.impl().data);
  backend::backend_for(cpu_device).sort(sorting);
  return result.to(chosen_dtype(options, default_integer)).to(chosen_device(options));
}

Tensor bernoulli(StrictDouble probability, const Shape& shape, const TensorOptions& options,
                 Generator& generator) {
  if (!(probability >= 0 && probability <= 1)) {
    throw ValueError(message("bernoulli: probability is ", probability, ", must be in [0, 1]"));
  }
  return random_tensor("bernoulli", random_call(RandomOp::bernoulli, probability), shape, options,
                       generator);
}

}  // namespace extensor
