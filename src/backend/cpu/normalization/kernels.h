// Kernels of normalization on dense float or double: moments, and the passes that apply them.
//
// A mean is kept as a centre, which is a nearby number of the element type, and a small remainder.
// x − centre is exact for the elements near it, so a large offset common to all elements costs no
// accuracy.
#pragma once

#include <cstddef>

namespace extensor::cpu {

// Σ (x − centre) and Σ (x − centre)².
template <class T>
struct Moments {
  T centre = 0;
  double sum = 0, squares = 0;
};

// Σ g and Σ g · (x − centre).
struct GradientSums {
  double gradient = 0, product = 0;
};

// x̂ = (x − centre) · scale + shift.
template <class T>
struct Standardizer {
  T centre = 0, scale = 1, shift = 0;
};

inline constexpr std::size_t rows_together = 4;  // rows that share a pass

template <class T>
struct NormalizationKernels {
  // Of `rows` rows of n elements, `stride` elements apart. `centred` false: the centre is 0.
  Moments<T> (*moments)(const T* x, std::size_t rows, std::size_t stride, std::size_t n,
                        bool centred);
  // Of each of `rows` ≤ rows_together rows, `stride` elements apart, as moments() of one row.
  void (*row_moments)(const T* x, std::size_t stride, std::size_t rows, std::size_t n, bool centred,
                      Moments<T>* moments);

  // out = a + b; out may be a.
  void (*add)(const T* a, const T* b, T* out, std::size_t n);

  // One row with one parameter per element. out = x̂ · weight + bias. Prefetches the elements
  // `ahead` of x.
  void (*row_forward)(const T* x, std::size_t ahead, const T* weight, const T* bias,
                      const Standardizer<T>& s, T* out, std::size_t n);
  // For `rows` ≤ rows_together rows, `stride` elements apart: Σ g · weight and Σ g · weight · x̂ of
  // each; grad_weight += Σ g · x̂ and grad_bias += Σ g over the rows, unless null.
  void (*row_gradient_sums)(const T* g, const T* x, std::size_t stride, const T* weight,
                            std::size_t rows, const Standardizer<T>* s, T* grad_weight,
                            T* grad_bias, GradientSums* sums, std::size_t n);
  // out = g · weight · p + (x − centre) · q + r + added, which may be null. Prefetches the elements
  // `ahead` of g and x.
  void (*row_backward)(const T* g, const T* x, std::size_t ahead, const T* weight, T centre, T p,
                       T q, T r, const T* added, T* out, std::size_t n);

  // The elements of one channel. out = (x − centre) · scale + shift
  void (*standardize)(const T* x, const Standardizer<T>& s, T* out, std::size_t n);
  // out = max((x − centre) · scale + shift + residual, 0); the residual may be null.
  void (*standardize_relu)(const T* x, const Standardizer<T>& s, const T* residual, T* out,
                           std::size_t n);
  // out = g where y > 0, else 0; out may be g.
  void (*relu_gradient)(const T* g, const T* y, T* out, std::size_t n);
  // Of `rows` rows of n elements, `stride` elements apart.
  GradientSums (*gradient_sums)(const T* g, const T* x, T centre, std::size_t rows,
                                std::size_t stride, std::size_t n);
  // out = g · p + (x − centre) · q + r
  void (*backward)(const T* g, const T* x, T centre, T p, T q, T r, T* out, std::size_t n);

  // Columns: every element of a row belongs to a different channel. The rows are `stride` apart.
  void (*column_moments)(const T* x, std::size_t rows, std::size_t columns, std::size_t stride,
                         T* centre, T* sum, T* squares);
  void (*column_gradient_sums)(const T* g, std::size_t g_stride, const T* x, std::size_t stride,
                               std::size_t rows, std::size_t columns, const T* centre, T* gradient,
                               T* product);
  // The two passes over one row.
  void (*column_standardize)(const T* x, const T* centre, const T* scale, const T* shift, T* out,
                             std::size_t n);
  void (*column_standardize_relu)(const T* x, const T* centre, const T* scale, const T* shift,
                                  const T* residual, T* out, std::size_t n);
  void (*column_backward)(const T* g, const T* x, const T* centre, const T* p, const T* q,
                          const T* r, T* out, std::size_t n);
};

template <class T>
const NormalizationKernels<T>& normalization_kernels();

}  // namespace extensor::cpu
