// Elementwise kernels for operands of any dtype and layout, one per row and compute type.
#pragma once

#include <array>
#include <utility>

#include "backend/cuda/elementwise_rows.cuh"

namespace extensor::backend::cuda {

template <template <class> class Row, class C, int inputs>
__global__ void __launch_bounds__(elementwise_threads)
    strided_row(const __grid_constant__ StridedCall call) {
  for (std::int64_t i = first_index(); i < call.over.count; i += index_step()) {
    std::int64_t at[inputs + 1];
    find_offsets(call.over, i, at);
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      if constexpr (std::is_floating_point_v<C>) {
        using V = rows_of::Lanes<C>;
        const V y = Row<V>::apply(call.parameters,
                                  V(hwy::N_CUDA::Vec1<C>{load<C>(call, k + 1, at[k + 1])})...);
        store<C>(call, at[0], y.v.raw);
      } else {
        using V = rows_of::integers::Integer<C>;
        const V y = Row<V>::apply(call.parameters, call.integer_shift,
                                  V(load<C>(call, k + 1, at[k + 1]))...);
        store<C>(call, at[0], y.v);
      }
    }
    (std::make_index_sequence<inputs>());
  }
}

template <class Test, class C, int inputs>
__global__ void __launch_bounds__(elementwise_threads)
    strided_test(const __grid_constant__ StridedCall call) {
  for (std::int64_t i = first_index(); i < call.over.count; i += index_step()) {
    std::int64_t at[inputs + 1];
    find_offsets(call.over, i, at);
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      const bool y = Test::apply(load<C>(call, k + 1, at[k + 1])...);
      if (call.dtype[0] == DType::bool_) {
        reinterpret_cast<bool*>(call.data[0])[at[0]] = y;
      } else {
        store_element<std::uint64_t>(call.data[0], call.dtype[0], at[0], y ? 1 : 0);
      }
    }
    (std::make_index_sequence<inputs>());
  }
}

template <class C>
__global__ void __launch_bounds__(elementwise_threads)
    strided_where(const __grid_constant__ StridedCall call) {
  for (std::int64_t i = first_index(); i < call.over.count; i += index_step()) {
    std::int64_t at[4];
    find_offsets(call.over, i, at);
    const bool condition = call.data[1] == nullptr
                               ? call.number[1].natural != 0
                               : reinterpret_cast<const std::uint8_t*>(call.data[1])[at[1]] != 0;
    store<C>(call, at[0], load<C>(call, condition ? 2 : 3, at[condition ? 2 : 3]));
  }
}

using StridedTable = std::array<StridedKernel, elementwise_op_count>;

template <class C>
void set_tests(StridedTable& table) {
#define COMPARE(name, ...) \
  table[static_cast<int>(ElementwiseOp::name)] = &strided_test<rows_of::name##_test, C, 2>;
#define PREDICATE(name, ...) \
  table[static_cast<int>(ElementwiseOp::name)] = &strided_test<rows_of::name##_test, C, 1>;
#include "extensor/tables/logical.def"
  table[static_cast<int>(ElementwiseOp::where)] = &strided_where<C>;
}

#define EXTENSOR_SET(op, row, inputs) \
  table[static_cast<int>(ElementwiseOp::op)] = &strided_row<row, C, inputs>;

template <class C>
StridedTable make_strided_floats() {
  StridedTable table = {};
#define UNARY(name, ...)                     \
  EXTENSOR_SET(name, rows_of::name##_row, 1) \
  EXTENSOR_SET(name##_backward, rows_of::name##_backward_row, 2)
#include "extensor/tables/unary.def"
#define BINARY(name, ...)                                            \
  EXTENSOR_SET(name, rows_of::name##_row, 2)                         \
  EXTENSOR_SET(name##_gradient_a, rows_of::name##_gradient_a_row, 3) \
  EXTENSOR_SET(name##_gradient_b, rows_of::name##_gradient_b_row, 3)
#include "extensor/tables/binary.def"
  EXTENSOR_SET(fma, rows_of::fma_row, 3)
  set_tests<C>(table);
  return table;
}

template <class C>
StridedTable make_strided_integers() {
  StridedTable table = {};
#define UNARY(...)
#define UNARY_NUMERIC(name, ...) EXTENSOR_SET(name, rows_of::integers::name##_row, 1)
#define UNARY_2_NUMERIC UNARY_NUMERIC
#include "extensor/tables/unary.def"
#define BINARY(...)
#define BINARY_NUMERIC(name, ...) EXTENSOR_SET(name, rows_of::integers::name##_row, 2)
#define BINARY_NUMERIC_EPS BINARY_NUMERIC
#include "extensor/tables/binary.def"
#define BITWISE(name, ...) EXTENSOR_SET(name, rows_of::integers::name##_row, 2)
#define BITWISE_UNARY(name, ...) EXTENSOR_SET(name, rows_of::integers::name##_row, 1)
#include "extensor/tables/logical.def"
  EXTENSOR_SET(fma, rows_of::integers::fma_row, 3)
  set_tests<C>(table);
  return table;
}

#undef EXTENSOR_SET

}  // namespace extensor::backend::cuda
