// New tensors: filled, counted, drawn, or from your own data.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "extensor/random.h"
#include "extensor/tensor.h"

namespace extensor {

Tensor empty(const Shape& shape, DType dtype = default_float);  // contents undefined
Tensor zeros(const Shape& shape, DType dtype = default_float);
Tensor ones(const Shape& shape, DType dtype = default_float);
// dtype: that of the value (float32, int64, bool) unless given. ValueError when an integer dtype
// cannot hold it.
Tensor full(const Shape& shape, const Scalar& value, std::optional<DType> dtype = {});

Tensor empty_like(const Tensor& x, std::optional<DType> dtype = {});
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = {});
Tensor ones_like(const Tensor& x, std::optional<DType> dtype = {});
Tensor full_like(const Tensor& x, const Scalar& value, std::optional<DType> dtype = {});

// A 0-d tensor.
Tensor scalar(const Scalar& value, std::optional<DType> dtype = {});

// start, start + step, … below stop. int64 when all are integers, float32 otherwise.
Tensor arange(const Scalar& stop, std::optional<DType> dtype = {});
Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step = 1,
              std::optional<DType> dtype = {});
// A bool is neither a bound nor a step.
template <class... T>
requires(std::same_as<T, bool> || ...) Tensor arange(T...)
= delete;
// `count` numbers from start to stop, both ends included unless endpoint is false. ValueError
// unless both are finite and fit the dtype.
Tensor linspace(StrictDouble start, StrictDouble stop, StrictInt count, DType dtype = default_float,
                StrictBool endpoint = true);
Tensor eye(StrictInt rows, std::optional<StrictInt> columns = {}, StrictInt diagonal = 0,
           DType dtype = default_float);

// The lower or upper triangle of the last two axes, the rest 0.
Tensor tril(const Tensor& x, StrictInt diagonal = 0);
Tensor triu(const Tensor& x, StrictInt diagonal = 0);
// One tensor per vector; "xy" indexing swaps the first two axes.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, StrictBool xy_indexing = true);

// Copies `values`, in row-major order. ShapeError when their number does not match, ValueError for
// null. Of bool, any byte but 0 is true.
Tensor from_bytes(const void* values, std::size_t count, DType dtype, const Shape& shape);
template <class T>
Tensor from_data(std::span<const T> values, const Shape& shape) {
  return from_bytes(values.data(), values.size(), dtype_of<T>, shape);
}
template <class T>
Tensor from_data(const std::vector<T>& values, const Shape& shape) {
  return from_data(std::span<const T>(values), shape);
}
template <class T>
Tensor from_data(const std::vector<T>& values) {
  return from_data(values, {static_cast<std::int64_t>(values.size())});
}
Tensor from_data(const std::vector<bool>& values, const Shape& shape);

// tensor({1, 2, 3}) is int64 [3]; tensor({{1., 2.}, {3., 4.}}) is float32 [2, 2]; an explicit dtype
// converts. Rows of unequal length are a ShapeError.
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<T> values,
                                               std::optional<DType> dtype = {});
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
                                               std::optional<DType> dtype = {});

// A tensor on memory of the caller's, not copied; release(context) runs when the last view is gone.
Tensor from_external(void* data, DType dtype, const Shape& shape, void (*release)(void*) = nullptr,
                     void* context = nullptr);

// Random tensors. Element i is a function of the generator's (seed, stream, offset + i).
Tensor rand(const Shape& shape, DType dtype = default_float,
            Generator& generator = default_generator());  // uniform in [0, 1)
Tensor randn(const Shape& shape, DType dtype = default_float,
             Generator& generator = default_generator());
Tensor uniform(const Shape& shape, StrictDouble low, StrictDouble high, DType dtype = default_float,
               Generator& generator = default_generator());
Tensor normal(const Shape& shape, StrictDouble mean, StrictDouble deviation,
              DType dtype = default_float, Generator& generator = default_generator());
Tensor randint(StrictInt low, StrictInt high, const Shape& shape, DType dtype = default_integer,
               Generator& generator = default_generator());
Tensor randperm(StrictInt count, Generator& generator = default_generator());
// 1 with the given probability, else 0.
Tensor bernoulli(StrictDouble probability, const Shape& shape, DType dtype = default_float,
                 Generator& generator = default_generator());

// ---- templates
// ------------------------------------------------------------------------------------

namespace detail {
// float and double literals make a tensor of the default float, integers of the default integer.
template <class T>
constexpr DType literal_dtype() {
  if constexpr (std::is_same_v<T, bool>) return DType::bool_;
  if constexpr (std::is_floating_point_v<T>) return default_float;
  return default_integer;
}
Tensor from_literals(const void* values, std::size_t count, DType stored, const Shape& shape,
                     DType dtype);
[[noreturn]] void throw_ragged_rows(std::size_t row, std::size_t length, std::size_t expected);
}  // namespace detail

template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<T> values,
                                               std::optional<DType> dtype) {
  return detail::from_literals(values.begin(), values.size(), dtype_of<T>,
                               {static_cast<std::int64_t>(values.size())},
                               dtype.value_or(detail::literal_dtype<T>()));
}

template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
                                               std::optional<DType> dtype) {
  const std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  std::vector<T> values;
  values.reserve(rows.size() * columns);
  std::size_t index = 0;
  for (const auto& row : rows) {
    if (row.size() != columns) detail::throw_ragged_rows(index, row.size(), columns);
    values.insert(values.end(), row.begin(), row.end());
    ++index;
  }
  if constexpr (std::is_same_v<T, bool>) {
    const Tensor flat = from_data(values, {static_cast<std::int64_t>(values.size())});
    const Tensor shaped =
        flat.reshape({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)});
    return dtype ? shaped.to(*dtype) : shaped;
  } else {
    return detail::from_literals(
        values.data(), values.size(), dtype_of<T>,
        {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)},
        dtype.value_or(detail::literal_dtype<T>()));
  }
}

}  // namespace extensor
