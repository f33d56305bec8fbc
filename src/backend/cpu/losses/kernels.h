// The inner loops of losses on dense floats or doubles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/loss_call.h"

namespace extensor::cpu {

// An elementwise loss.
template <class T>
struct LossKernels {
  void (*values)(const T* x, const T* y, T* out, std::size_t n, const double* parameters);
  double (*sum)(const T* x, const T* y, std::size_t n, const double* parameters);
  // out = g · derivative; g is a single element if g_step is 0. out may be x, y or g.
  void (*gradient_x)(const T* x, const T* y, const T* g, std::size_t g_step, T* out, std::size_t n,
                     const double* parameters);
  void (*gradient_y)(const T* x, const T* y, const T* g, std::size_t g_step, T* out, std::size_t n,
                     const double* parameters);
  // Whether an element of x or y is below 0 or above 1; NaN is neither.
  bool (*is_outside_unit_interval)(const T* x, const T* y, std::size_t n);
};

template <class T>
const LossKernels<T>& loss_kernels(backend::LossOp op);
// One per type, each in a separate translation unit.
const LossKernels<float>* loss_kernels_float32();
const LossKernels<double>* loss_kernels_float64();

// The part of a row's target that is spread over its classes, in addition to the one that an index
// names: class c gets weight[c] · (probabilities[c] · kept + share). A null weight counts as 1,
// null probabilities as 0.
template <class T>
struct ClassSpread {
  const T* probabilities;
  const T* weight;
  T kept, share;
};

struct SpreadSums {
  double gap;    // Σ spread · (m − x)
  double total;  // Σ spread
};

// Σ exp(x − m) of the elements so far, where m is the largest of them; initially −∞ and 0.
template <class T>
struct SumOfExp {
  T m;
  double sum;
};

// Rows side by side: the logit of class c and row i is x[c · stride + i]. named[i] is the class
// that the row's index names, or −1.
template <class T>
struct ClassColumns {
  const T* x;
  std::size_t stride, classes, n;
  const T* named;
};

// Parts of the cross-entropy of one row of n logits, where m is at least the largest of them.
template <class T>
struct ClassKernels {
  void (*add_exponentials)(const T* x, std::size_t n, SumOfExp<T>& sum);
  SpreadSums (*spread_sums)(const T* x, T m, const ClassSpread<T>& spread, std::size_t n);
  // exp(x − m) · scale
  void (*scaled_exp)(const T* x, T m, T scale, T* out, std::size_t n);
  // exp(x − m) · scale − spread · factor
  void (*scaled_exp_minus_spread)(const T* x, T m, T scale, const ClassSpread<T>& spread, T factor,
                                  T* out, std::size_t n);
  // weight · ((m − x) + log_sum) · factor
  void (*gradient_of_target)(const T* x, T m, T log_sum, const T* weight, T factor, T* out,
                             std::size_t n);
  // m, Σ exp(x − m) of the classes that are not named, and the loss of every column.
  void (*column_losses)(const ClassColumns<T>& columns, T* m, T* others, T* loss);
  // The gradients of the columns, each times its factor; 0 where no class is named. out is like x.
  void (*column_gradients)(const ClassColumns<T>& columns, const T* m, const T* others,
                           const T* factor, T* out);
};

template <class T>
const ClassKernels<T>& class_kernels();

}  // namespace extensor::cpu
