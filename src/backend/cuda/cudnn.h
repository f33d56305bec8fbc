// Convolution and attention of halves by cuDNN, where it is installed and has a fast, reproducible
// engine. Every function returns false, with nothing written, if cuDNN does not take the call.
#pragma once

#include <cstddef>

#include "backend/attention_call.h"
#include "backend/convolution_call.h"

namespace extensor::backend::cuda {

// Operands in the layouts that cuDNN prefers: images as [batch, height, width, channels], filters
// as [groups · out_channels, kernel_height, kernel_width, in_channels].
struct CudnnConvolution {
  ConvolutionOp op;
  DType dtype;  // a half
  ConvolutionShape shape;
  std::byte* x;
  std::byte* weight;
  std::byte* y;
  const std::byte* bias;  // of the forward: one element per channel of y, or null
};
bool convolve_with_cudnn(const CudnnConvolution& call);

// Rounds the probabilities to the dtype of the operands, as flash attention does; so small
// sequences, for which it gains nothing, are not taken.
bool attend_with_cudnn(const AttentionCall& call);
bool attend_backward_with_cudnn(const AttentionBackwardCall& call);

}  // namespace extensor::backend::cuda
