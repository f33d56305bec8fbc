// The kernel families of a device. Ops check their arguments and shapes, then call these; nothing
// above this interface reads the elements of a tensor.
//
// Pointers to elements refer to device memory. Shapes, strides and lists of items are host memory
// that may be gone after the call: a device passes them to its kernels by value. There are no other
// pointers: kernels neither read host memory nor return results to the host.
#pragma once

#include <cstdint>

#include "backend/attention_call.h"
#include "backend/batch_offsets.h"
#include "backend/complex_call.h"
#include "backend/convolution_call.h"
#include "backend/dropout_call.h"
#include "backend/elementwise_op.h"
#include "backend/embedding_call.h"
#include "backend/fft_call.h"
#include "backend/formula_call.h"
#include "backend/indexing_call.h"
#include "backend/interpolation_call.h"
#include "backend/loss_call.h"
#include "backend/matrix_call.h"
#include "backend/normalization_call.h"
#include "backend/optimizer_call.h"
#include "backend/pooling_call.h"
#include "backend/recurrent_call.h"
#include "extensor/activation.h"
#include "extensor/device.h"
#include "extensor/dtype.h"
#include "extensor/shape.h"

namespace extensor::backend {

inline constexpr int max_inputs = 3;

// Memory seen through an iteration shape: strides in elements, one per dimension of that shape. An
// input of an elementwise call without data is a number, passed by value: the bytes of one element
// of `dtype`.
struct Operand {
  std::byte* data = nullptr;
  DType dtype = DType::float32;
  const std::int64_t* strides = nullptr;
  alignas(8) std::byte number[16];

  Operand() {}  // NOLINT: clearing `number` would cost every small op 10 ns
  Operand(std::byte* first, DType type, const std::int64_t* steps)  // NOLINT: likewise
      : data(first), dtype(type), strides(steps) {}
  bool is_number() const { return data == nullptr; }
};

// out[i] = op(inputs[0][i], …) for every i of `shape`, computed in `compute`: operands of another
// dtype are converted when read, and the result when written.
struct ElementwiseCall {
  ElementwiseOp op;
  DType compute;
  int input_count;
  const Shape* shape;
  std::int64_t numel;
  // The size of the whole result if this call computes a part of it; decides whether it fits a
  // cache.
  std::int64_t whole_numel = 0;
  // Every operand is dense in row-major order over `shape`, or a single element (`repeats`), as all
  // numbers are; strides are not read then.
  bool contiguous;
  bool repeats[max_inputs];
  Operand inputs[max_inputs];
  Operand out;
  Parameter parameters[2];
};

enum class ReduceOp : std::uint8_t { sum, prod, max, min, any, all, argmax, argmin };

// Reduces the axes where reduced[axis] is true; `out` is dense over the axes that are kept.
struct ReduceCall {
  ReduceOp op;
  const Shape* shape;
  const bool* reduced;
  Operand input;
  Operand out;  // argmax and argmin: int64, the position in row-major order of the reduced axes
  double divisor = 1;  // float sums are divided by it before they are rounded (mean)
};

// A row operation works on `rows` rows of `length` elements, `stride` elements apart within a row.
enum class RowOp : std::uint8_t {
  softmax,
  log_softmax,
  logsumexp,
  softmax_backward,
  log_softmax_backward,
};

struct RowCall {
  RowOp op;
  DType dtype;
  std::int64_t outer, length, inner;  // dense operands seen as [outer, length, inner]
  const std::byte* x;                 // the input, or grad_output
  const std::byte* y;                 // the forward's result, for a backward
  std::byte* out;                     // like x; logsumexp: [outer, inner]
};

// c = activation(a · b + bias) for every product of the batch, or c += a · b.
struct MatmulCall {
  DType dtype;
  std::int64_t m, n, k;
  Operand a, b, c;  // strides: {row, column}; c dense
  std::int64_t batch;
  BatchOffsets a_offsets, b_offsets, c_offsets;  // of the products
  const std::byte* bias = nullptr;  // n elements, or null; floats only, like the activation
  Activation activation = Activation::none;
  bool accumulate = false;  // only float32 and float64, without bias and activation
};

enum class RandomOp : std::uint8_t { uniform, normal, truncated_normal, integers, bernoulli };

// Element i of a dense `out` is draw `offset + i` of (seed, stream).
struct RandomCall {
  RandomOp op;
  DType dtype;
  std::int64_t numel;
  std::byte* out;
  std::uint64_t seed, stream, offset;
  double first = 0, second = 1;                        // low, high; mean, deviation; probability
  double lower = 0, upper = 0;                         // the bounds of a truncated normal
  std::int64_t integer_first = 0, integer_second = 0;  // low, high
};

struct Backend {
  void (*elementwise)(const ElementwiseCall&);
  void (*reduce)(const ReduceCall&);
  void (*rows)(const RowCall&);
  void (*matmul)(const MatmulCall&);
  void (*random)(const RandomCall&);
  void (*loss)(const LossCall&);
  void (*class_loss)(const ClassLossCall&);
  void (*class_block)(const ClassBlockCall&);
  void (*embedding)(const EmbeddingCall&);
  void (*dropout)(const DropoutCall&);
  void (*check_integers)(const CheckIntegersCall&);
  void (*index)(const IndexCall&);
  void (*select)(const SelectCall&);
  void (*nonzero)(const NonzeroCall&);
  void (*sort)(const SortCall&);
  void (*search)(const SearchCall&);
  void (*scan)(const ScanCall&);
  void (*attention)(const AttentionCall&);
  void (*attention_backward)(const AttentionBackwardCall&);
  void (*normalize_rows)(const RowNormalizationCall&);
  void (*normalize_batch)(const BatchNormalizationCall&);
  void (*optimizer_step)(const OptimizerCall&);
  void (*power_sum)(const PowerSumCall&);
  void (*convolution)(const ConvolutionCall&);
  void (*pooling)(const PoolingCall&);
  void (*recurrent)(const RecurrentCall&);
  void (*recurrent_backward)(const RecurrentBackwardCall&);
  void (*interpolate)(const InterpolationCall&);
  void (*matrices)(const MatrixCall&);
  // Computes a formula in one kernel. Null if the device has no such kernels, and false, with
  // nothing written, if it cannot compile this one: the steps then run one by one.
  bool (*formula)(const FormulaCall&) = nullptr;

  // Whether convolution, pooling and attention_backward take float16 and bfloat16 and accumulate
  // them in float32; if not, ops convert them.
  bool takes_halves = false;

  // Whether sums in float64 of float32 take no longer than sums in float32: ops then compute sums
  // that may leave the range of float32 in float64, instead of scaling them.
  bool sums_wide = false;

  // Null if the device has no such kernels: ops then sort the rows, or add ones at the elements.
  void (*rank)(const RankCall&) = nullptr;
  void (*count)(const CountCall&) = nullptr;

  // Null if the device computes no complex numbers. `compute` is complex64 or complex128, and
  // operands of a real dtype are converted to it; `call.op` is not read.
  void (*complex_elementwise)(ComplexOp op, const ElementwiseCall&) = nullptr;

  // Null if the device has no Fourier transforms.
  void (*fft)(const FftCall&) = nullptr;

  DType product_dtype(DType dtype) const {
    return is_half(dtype) && !takes_halves ? DType::float32 : dtype;
  }
};

// The kernels of interface_of(device); DeviceError if it is not available.
const Backend& backend_for(Device device);

}  // namespace extensor::backend
