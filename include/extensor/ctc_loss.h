// Connectionist temporal classification: the loss of a sequence of labels that is shorter than the
// sequence of predictions, summed over all alignments of the two.
//
//   Tensor loss = ctc_loss(log_softmax(y, -1), labels, {50, 43}, {12, 9});
#pragma once

#include "extensor/export.h"
#include "extensor/losses.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct CtcOptions {
  std::int64_t blank = 0;  // the class that stands for no label
  // mean divides each loss by the length of its target, at least 1, then averages over the batch.
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  // 0 instead of infinity if the target does not fit the input
};

// log_probs [T, N, classes] are log-probabilities, as log_softmax returns; targets [N, S] are class
// indices, of which the first target_lengths[n] ≤ S count and may be anything but blank;
// input_lengths[n] ≤ T predictions count. The result is [N] or, reduced, one number. Halves are
// computed in float32.
//
// The gradient is the derivative with respect to log_probs: minus the probability that an alignment
// passes through the class. (PyTorch returns one that assumes a log_softmax before it; behind
// log_softmax, both are the same.) IndexError for a class out of range, ValueError for a length out
// of range.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Dims& input_lengths,
                const Dims& target_lengths, const CtcOptions& options = {});
Tensor ctc_loss_backward(const Tensor& grad_output, const Tensor& log_probs, const Tensor& targets,
                         const Dims& input_lengths, const Dims& target_lengths,
                         const CtcOptions& options = {});

}  // namespace extensor

EXTENSOR_END_API
