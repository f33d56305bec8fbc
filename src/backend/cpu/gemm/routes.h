// The algorithms for a product; gemm.cpp chooses among them.
#pragma once

#include <cstdint>

#include "backend/cpu/gemm/kernels.h"

namespace extensor::cpu {

// A GemmCall with its element type known.
template <class Element>
struct Product {
  std::int64_t m, n, k;
  const Element* a;
  std::int64_t a_row_stride, a_k_stride;
  const Element* b;
  std::int64_t b_k_stride, b_column_stride;
  Epilogue<Element> finish;
  bool accumulate = false;
};

// Any shape and strides, k > 0.
template <class Element>
void run_tiled(const Product<Element>& product);

// Operands contiguous along k, one of them small: lanes run along k, without packing.
template <class Element>
void run_dots(const Product<Element>& product);

// m or n is 1. Returns false, and does nothing, if the matrix is contiguous in neither direction.
template <class Element>
bool run_matrix_vector(const Product<Element>& product);

}  // namespace extensor::cpu
