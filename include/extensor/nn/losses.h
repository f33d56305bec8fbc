// Losses as modules.
#pragma once

#include "extensor/ctc_loss.h"
#include "extensor/export.h"
#include "extensor/losses.h"
#include "extensor/nn/module.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

using extensor::CrossEntropyOptions;
using NLLOptions = extensor::NllOptions;

// Losses of a prediction and a target, without other parameters.
#define EXTENSOR_LOSS(Type, function)                                                             \
  class Type final : public Module<Type> {                                                        \
   public:                                                                                        \
    explicit Type(Reduction reduction = Reduction::mean) : reduction_(reduction) {}               \
    Tensor forward(const Tensor& x, const Tensor& y) const { return function(x, y, reduction_); } \
    void visit(Walker&) {}                                                                        \
                                                                                                  \
   private:                                                                                       \
    Reduction reduction_;                                                                         \
  };
EXTENSOR_LOSS(MSELoss, mean_squared_error)
EXTENSOR_LOSS(L1Loss, l1_loss)
#undef EXTENSOR_LOSS

// Losses with the options of their function.
#define EXTENSOR_LOSS(Type, function, Options)                                                  \
  class Type final : public Module<Type> {                                                      \
   public:                                                                                      \
    explicit Type(Reduction reduction = Reduction::mean) { options_.reduction = reduction; }    \
    explicit Type(Options options) : options_(std::move(options)) {}                            \
    Tensor forward(const Tensor& x, const Tensor& y) const { return function(x, y, options_); } \
    void visit(Walker&) {}                                                                      \
                                                                                                \
   private:                                                                                     \
    Options options_;                                                                           \
  };
EXTENSOR_LOSS(BCELoss, binary_cross_entropy, BinaryCrossEntropyOptions)
EXTENSOR_LOSS(BCEWithLogitsLoss, binary_cross_entropy_with_logits,
              BinaryCrossEntropyWithLogitsOptions)
#undef EXTENSOR_LOSS

// Losses with a numeric parameter or a flag, alone or in the options of their function.
#define EXTENSOR_LOSS(Type, function, Options, Option, option)                                  \
  class Type final : public Module<Type> {                                                      \
   public:                                                                                      \
    explicit Type(Reduction reduction = Reduction::mean) { options_.reduction = reduction; }    \
    Type(Reduction reduction, Option option) : options_{reduction, option} {}                   \
    explicit Type(const Options& options) : options_(options) {}                                \
    Tensor forward(const Tensor& x, const Tensor& y) const { return function(x, y, options_); } \
    void visit(Walker&) {}                                                                      \
                                                                                                \
   private:                                                                                     \
    Options options_;                                                                           \
  };
EXTENSOR_LOSS(SmoothL1Loss, smooth_l1_loss, SmoothL1Options, StrictDouble, beta)
EXTENSOR_LOSS(HuberLoss, huber_loss, HuberOptions, StrictDouble, delta)
EXTENSOR_LOSS(HingeLoss, hinge_loss, HingeOptions, StrictDouble, margin)
EXTENSOR_LOSS(KLDivLoss, kl_divergence, KlDivergenceOptions, StrictBool, log_target)
#undef EXTENSOR_LOSS

class CrossEntropyLoss final : public Module<CrossEntropyLoss> {
 public:
  explicit CrossEntropyLoss(CrossEntropyOptions options = {}) : options_(std::move(options)) {}
  Tensor forward(const Tensor& logits, const Tensor& target) const {
    return cross_entropy(logits, target, options_);
  }
  void visit(Walker&) {}

 private:
  CrossEntropyOptions options_;
};

class NLLLoss final : public Module<NLLLoss> {
 public:
  explicit NLLLoss(NLLOptions options = {}) : options_(std::move(options)) {}
  Tensor forward(const Tensor& x, const Tensor& target) const {
    return nll_loss(x, target, options_);
  }
  void visit(Walker&) {}

 private:
  NLLOptions options_;
};

class FocalLoss final : public Module<FocalLoss> {
 public:
  explicit FocalLoss(Reduction reduction = Reduction::mean, StrictDouble alpha = 0.25,
                     StrictDouble gamma = 2)
      : options_{reduction, alpha, gamma} {}
  explicit FocalLoss(const FocalOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x, const Tensor& y) const { return focal_loss(x, y, options_); }
  void visit(Walker&) {}

 private:
  FocalOptions options_;
};

class TripletMarginLoss final : public Module<TripletMarginLoss> {
 public:
  explicit TripletMarginLoss(StrictDouble margin = 1, StrictDouble p = 2, StrictDouble eps = 1e-6,
                             StrictBool swap = false, Reduction reduction = Reduction::mean)
      : options_{margin, p, eps, swap, reduction} {}
  explicit TripletMarginLoss(const TripletMarginOptions& options) : options_(options) {}
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return triplet_margin_loss(anchor, positive, negative, options_);
  }
  void visit(Walker&) {}

 private:
  TripletMarginOptions options_;
};

class CosineEmbeddingLoss final : public Module<CosineEmbeddingLoss> {
 public:
  explicit CosineEmbeddingLoss(const CosineEmbeddingOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& y) const {
    return cosine_embedding_loss(a, b, y, options_);
  }
  void visit(Walker&) {}

 private:
  CosineEmbeddingOptions options_;
};

class GaussianNLLLoss final : public Module<GaussianNLLLoss> {
 public:
  explicit GaussianNLLLoss(const GaussianNllOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& x, const Tensor& y, const Tensor& variance) const {
    return gaussian_nll_loss(x, y, variance, options_);
  }
  void visit(Walker&) {}

 private:
  GaussianNllOptions options_;
};

class CTCLoss final : public Module<CTCLoss> {
 public:
  explicit CTCLoss(const CtcOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Dims& input_lengths,
                 const Dims& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_);
  }
  void visit(Walker&) {}

 private:
  CtcOptions options_;
};

}  // namespace extensor::nn

EXTENSOR_END_API
