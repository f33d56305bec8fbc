// Creation of tensors: filled, counted, random, or from existing data.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "extensor/export.h"
#include "extensor/random.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The dtype, device and memory format of a new tensor. Also converts from a DType or a Device
// alone:
//   zeros({2, 3}, float64)
//   zeros({2, 3}, {.dtype = float64, .device = device})
//   empty({8, 3, 32, 32}, {.memory_format = MemoryFormat::channels_last})
struct TensorOptions {
  std::optional<DType> dtype = {};    // default: depends on the function, mostly float32
  std::optional<Device> device = {};  // default: default_device(), or that of a tensor argument
  // Default: contiguous, or preserve if the function takes a tensor. ShapeError for channels_last
  // unless there are 4 axes.
  std::optional<MemoryFormat> memory_format = {};
};
inline Device::operator TensorOptions() const { return {.device = *this}; }

Tensor empty(const Shape& shape, const TensorOptions& options = {});  // contents undefined
Tensor zeros(const Shape& shape, const TensorOptions& options = {});
Tensor ones(const Shape& shape, const TensorOptions& options = {});
// The dtype defaults to that of the value (float32, int64, bool). ValueError if an integer dtype or
// bool cannot hold the value: 300 or 1.5 in int8, 2 in bool.
Tensor full(const Shape& shape, const Scalar& value, const TensorOptions& options = {});

// The dtype, device and memory format default to those of x.
Tensor empty_like(const Tensor& x, const TensorOptions& options = {});
Tensor zeros_like(const Tensor& x, const TensorOptions& options = {});
Tensor ones_like(const Tensor& x, const TensorOptions& options = {});
Tensor full_like(const Tensor& x, const Scalar& value, const TensorOptions& options = {});

// A 0-d tensor.
Tensor scalar(const Scalar& value, const TensorOptions& options = {});

// start, start + step, … below stop. int64 when all are integers, float32 otherwise.
Tensor arange(const Scalar& stop, const TensorOptions& options = {});
Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step = 1,
              const TensorOptions& options = {});
// A bool is neither a bound nor a step.
template <class... T>
requires(std::same_as<T, bool> || ...) Tensor arange(T...)
= delete;
// `count` numbers from start to stop, both ends included unless endpoint is false. ValueError
// unless both are finite and fit the dtype.
Tensor linspace(StrictDouble start, StrictDouble stop, StrictInt count,
                const TensorOptions& options = {}, StrictBool endpoint = true);
Tensor eye(StrictInt rows, std::optional<StrictInt> columns = {}, StrictInt diagonal = 0,
           const TensorOptions& options = {});

// The lower or upper triangle of the last two axes; the other elements are 0.
Tensor tril(const Tensor& x, StrictInt diagonal = 0);
Tensor triu(const Tensor& x, StrictInt diagonal = 0);
// Returns one tensor per vector; "xy" indexing swaps the first two axes.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, StrictBool xy_indexing = true);

// Copies `values`, in row-major order. ShapeError if their number does not match, ValueError for
// null. For bool, any byte other than 0 is true.
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

namespace detail {
template <class T>
inline constexpr bool is_number_list = false;
template <class T>
inline constexpr bool is_number_list<std::initializer_list<T>> = std::is_arithmetic_v<T>;

// The dtype of a literal: float and double make the default float dtype, integers the default
// integer dtype.
template <class T>
constexpr DType literal_dtype() {
  if constexpr (std::is_same_v<T, bool>) return DType::bool_;
  if constexpr (std::is_floating_point_v<T>) return default_float;
  return default_integer;
}
// A tensor with values that are stored as `stored`; the options choose the dtype and the device.
Tensor from_literals(const void* values, std::size_t count, DType stored, const Shape& shape,
                     DType default_dtype, const TensorOptions& options);
}  // namespace detail

// One entry of a literal: a number or a list of entries, nested as deeply as a tensor has axes.
class Literal {
 public:
  template <class T>
  requires(std::is_arithmetic_v<T> || std::same_as<T, Float16> || std::same_as<T, BFloat16>)
      Literal(T number)  // NOLINT: implicit, a list of numbers
      : number_(number), is_number_(true) {}
  template <class T>
  Literal(std::complex<T> number) : number_(number), is_number_(true) {}  // NOLINT: implicit
  Literal(std::initializer_list<Literal> list) : list_(list) {}           // NOLINT: implicit

  bool is_number() const { return is_number_; }
  const Scalar& number() const { return number_; }
  const std::initializer_list<Literal>& list() const { return list_; }

 private:
  Scalar number_ = 0;
  bool is_number_ = false;
  std::initializer_list<Literal> list_ = {};
};

// tensor({1, 2, 3}) is int64 [3]; tensor({{1, 2.5}, {3, 4}}) is float32 [2, 2]; tensor(3.0) is 0-d.
// Lists nest to any depth. One float makes all numbers floats; a dtype converts. Lists of unequal
// length at one depth are a ShapeError.
Tensor tensor(std::initializer_list<Literal> values, const TensorOptions& options = {});
// A list of numbers of one type that a variable holds.
template <class List>
requires detail::is_number_list<List> Tensor tensor(const List& values,
                                                    const TensorOptions& options = {}) {
  using T = typename List::value_type;
  return detail::from_literals(values.begin(), values.size(), dtype_of<T>,
                               {static_cast<std::int64_t>(values.size())},
                               detail::literal_dtype<T>(), options);
}
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value, const TensorOptions& options = {}) {
  return scalar(value, options);
}

// A tensor on memory that the caller owns, without a copy; release(context) runs when the last view
// is gone.
Tensor from_external(void* data, DType dtype, const Shape& shape, void (*release)(void*) = nullptr,
                     void* context = nullptr);
// The same with strides, in elements: 0 repeats an element, and a negative stride goes back from
// `data`, which is the element at index 0 and not the lowest address. ShapeError unless there is
// one stride for each dimension.
Tensor from_external(void* data, DType dtype, const Shape& shape, const Strides& strides,
                     void (*release)(void*) = nullptr, void* context = nullptr);
// Memory that must not be written: writing into the tensor or a view of it throws ValueError.
// data<T>() of a tensor that is not const returns a mutable pointer even so.
Tensor from_external(const void* data, DType dtype, const Shape& shape, const Strides& strides,
                     void (*release)(void*) = nullptr, void* context = nullptr);

// Random tensors. Element i is a function of the generator's (seed, stream, offset + i), the same
// on every device.
Tensor rand(const Shape& shape, const TensorOptions& options = {},
            Generator& generator = default_generator());  // uniform in [0, 1)
Tensor randn(const Shape& shape, const TensorOptions& options = {},
             Generator& generator = default_generator());
Tensor uniform(const Shape& shape, StrictDouble low, StrictDouble high,
               const TensorOptions& options = {}, Generator& generator = default_generator());
Tensor normal(const Shape& shape, StrictDouble mean, StrictDouble deviation,
              const TensorOptions& options = {}, Generator& generator = default_generator());
// The dtype defaults to int64.
Tensor randint(StrictInt low, StrictInt high, const Shape& shape, const TensorOptions& options = {},
               Generator& generator = default_generator());
Tensor randperm(StrictInt count, const TensorOptions& options = {},
                Generator& generator = default_generator());
// 1 with the given probability, else 0.
Tensor bernoulli(StrictDouble probability, const Shape& shape, const TensorOptions& options = {},
                 Generator& generator = default_generator());

// Row numbers drawn with probabilities proportional to `weights` [n] or [rows, n]: int64 [count] or
// [rows, count]. Without replacement a number occurs once at most in each row. ValueError for a
// weight that is negative or not finite, weights that are all 0, or more draws without replacement
// than weights above 0.
Tensor multinomial(const Tensor& weights, StrictInt count, StrictBool replacement = false,
                   Generator& generator = default_generator());

// ---- a dtype alone

// The overloads for a dtype are templates, so that {} stands for TensorOptions and not for the
// first dtype: randn(shape, {}, generator).
template <class T>
concept IsDType = std::same_as<T, DType>;

using OptionalDType = std::optional<DType>;

inline Tensor tensor(std::initializer_list<Literal> values, OptionalDType dtype) {
  return tensor(values, TensorOptions{.dtype = dtype});
}
template <class List>
requires detail::is_number_list<List> Tensor tensor(const List& values, OptionalDType dtype) {
  return tensor(values, TensorOptions{.dtype = dtype});
}
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value, OptionalDType dtype) {
  return scalar(value, TensorOptions{.dtype = dtype});
}

template <IsDType T>
Tensor empty(const Shape& shape, T dtype) {
  return empty(shape, {.dtype = dtype});
}
template <IsDType T>
Tensor zeros(const Shape& shape, T dtype) {
  return zeros(shape, {.dtype = dtype});
}
template <IsDType T>
Tensor ones(const Shape& shape, T dtype) {
  return ones(shape, {.dtype = dtype});
}
inline Tensor full(const Shape& shape, const Scalar& value, OptionalDType dtype) {
  return full(shape, value, {.dtype = dtype});
}
inline Tensor empty_like(const Tensor& x, OptionalDType dtype) {
  return empty_like(x, {.dtype = dtype});
}
inline Tensor zeros_like(const Tensor& x, OptionalDType dtype) {
  return zeros_like(x, {.dtype = dtype});
}
inline Tensor ones_like(const Tensor& x, OptionalDType dtype) {
  return ones_like(x, {.dtype = dtype});
}
inline Tensor full_like(const Tensor& x, const Scalar& value, OptionalDType dtype) {
  return full_like(x, value, {.dtype = dtype});
}
inline Tensor scalar(const Scalar& value, OptionalDType dtype) {
  return scalar(value, {.dtype = dtype});
}
inline Tensor arange(const Scalar& stop, OptionalDType dtype) {
  return arange(stop, {.dtype = dtype});
}
inline Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step,
                     OptionalDType dtype) {
  return arange(start, stop, step, {.dtype = dtype});
}
template <IsDType T>
Tensor linspace(StrictDouble start, StrictDouble stop, StrictInt count, T dtype,
                StrictBool endpoint = true) {
  return linspace(start, stop, count, {.dtype = dtype}, endpoint);
}
template <IsDType T>
Tensor eye(StrictInt rows, std::optional<StrictInt> columns, StrictInt diagonal, T dtype) {
  return eye(rows, columns, diagonal, {.dtype = dtype});
}
template <IsDType T>
Tensor rand(const Shape& shape, T dtype, Generator& generator = default_generator()) {
  return rand(shape, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor randn(const Shape& shape, T dtype, Generator& generator = default_generator()) {
  return randn(shape, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor uniform(const Shape& shape, StrictDouble low, StrictDouble high, T dtype,
               Generator& generator = default_generator()) {
  return uniform(shape, low, high, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor normal(const Shape& shape, StrictDouble mean, StrictDouble deviation, T dtype,
              Generator& generator = default_generator()) {
  return normal(shape, mean, deviation, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor randint(StrictInt low, StrictInt high, const Shape& shape, T dtype,
               Generator& generator = default_generator()) {
  return randint(low, high, shape, {.dtype = dtype}, generator);
}
inline Tensor randperm(StrictInt count, Generator& generator) {
  return randperm(count, {}, generator);
}
template <IsDType T>
Tensor bernoulli(StrictDouble probability, const Shape& shape, T dtype,
                 Generator& generator = default_generator()) {
  return bernoulli(probability, shape, {.dtype = dtype}, generator);
}

}  // namespace extensor

EXTENSOR_END_API
