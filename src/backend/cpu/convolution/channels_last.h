// Convolutions of images stored as [batch, height, width, channels]; the layout of filters does not
// change. All functions write their whole result, and its bits do not depend on the number of
// threads.
#pragma once

#include "backend/cpu/convolution/routes.h"

namespace extensor::cpu::conv::channels_last {

// Any shape: copies patches block by block as the first operand of the matrix product.
template <class T>
void gemm_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void gemm_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight);
// Any stride: adds the contribution of each pixel of y to its patch in place.
template <class T>
void scatter_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x);

// One tap, stride 1, no padding: the images already are the matrices.
bool pointwise_suits(const Shape& shape);
template <class T>
void pointwise_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void pointwise_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x);
template <class T>
void pointwise_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight);

// One filter of one channel for each channel: vectorized along the channels.
bool depthwise_suits(const Shape& shape);
template <class T>
void depthwise_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void depthwise_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x);
template <class T>
void depthwise_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight);

}  // namespace extensor::cpu::conv::channels_last
