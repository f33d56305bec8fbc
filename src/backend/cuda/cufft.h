// Batches of Fourier transforms by cuFFT.
#pragma once

#include <cstdint>

#include "backend/fft_call.h"

namespace extensor::backend::cuda {

// Transforms of length n: element j of transform b is at j · stride + b · distance, in numbers of
// the operand's kind.
struct FftBatch {
  FftKind kind;
  bool is_double;
  bool inverse;
  std::int64_t n, batch;
  std::int64_t in_stride, in_distance, out_stride, out_distance;
};

// y = the sums without a factor. Addresses are 16-byte aligned. `x` may be `y` for transforms of
// complex numbers in place. May overwrite `x` if the kind is complex_to_real. DeviceError without
// cuFFT.
void run_cufft(const FftBatch& batch, void* x, void* y);

}  // namespace extensor::backend::cuda
