// The kernel families on CUDA, one file src/backend/cuda/<family>.cu each or for a few of them.
// Each function puts work into the stream of the current device and returns.
#pragma once

#include "backend/backend.h"

namespace extensor::backend::cuda {

void elementwise(const ElementwiseCall& call);
bool formula(const FormulaCall& call);  // false, with nothing written, if it cannot be compiled
void reduce(const ReduceCall& call);
void rows(const RowCall& call);
void matmul(const MatmulCall& call);
void random(const RandomCall& call);
void loss(const LossCall& call);
void class_loss(const ClassLossCall& call);
void class_block(const ClassBlockCall& call);
void embedding(const EmbeddingCall& call);
void dropout(const DropoutCall& call);
void check_integers(const CheckIntegersCall& call);
void index(const IndexCall& call);
void select(const SelectCall& call);
void nonzero(const NonzeroCall& call);
void sort(const SortCall& call);
void search(const SearchCall& call);
void scan(const ScanCall& call);
void attention(const AttentionCall& call);
void attention_backward(const AttentionBackwardCall& call);
void normalize_rows(const RowNormalizationCall& call);
void normalize_batch(const BatchNormalizationCall& call);
void optimizer_step(const OptimizerCall& call);
void power_sum(const PowerSumCall& call);
void convolution(const ConvolutionCall& call);
void pooling(const PoolingCall& call);
void interpolate(const InterpolationCall& call);
void matrices(const MatrixCall& call);  // on the host, for which it waits
void recurrent(const RecurrentCall& call);
void recurrent_backward(const RecurrentBackwardCall& call);
void complex_elementwise(ComplexOp op, const ElementwiseCall& call);
void fft(const FftCall& call);

}  // namespace extensor::backend::cuda
