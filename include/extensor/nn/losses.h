// Losses as modules.
#pragma once

#include "extensor/export.h"
#include "extensor/losses.h"
#include "extensor/nn/module.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

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
EXTENSOR_LOSS(BCELoss, binary_cross_entropy)
EXTENSOR_LOSS(BCEWithLogitsLoss, binary_cross_entropy_with_logits)
EXTENSOR_LOSS(MSELoss, mean_squared_error)
EXTENSOR_LOSS(L1Loss, l1_loss)
#undef EXTENSOR_LOSS

// Losses with a numeric parameter or a flag.
#define EXTENSOR_LOSS(Type, function, Option, option, standard)                    \
  class Type final : public Module<Type> {                                         \
   public:                                                                         \
    explicit Type(Reduction reduction = Reduction::mean, Option option = standard) \
        : reduction_(reduction), option##_(option) {}                              \
    Tensor forward(const Tensor& x, const Tensor& y) const {                       \
      return function(x, y, reduction_, option##_);                                \
    }                                                                              \
    void visit(Walker&) {}                                                         \
                                                                                   \
   private:                                                                        \
    Reduction reduction_;                                                          \
    Option option##_;                                                              \
  };
EXTENSOR_LOSS(SmoothL1Loss, smooth_l1_loss, StrictDouble, beta, 1)
EXTENSOR_LOSS(HuberLoss, huber_loss, StrictDouble, delta, 1)
EXTENSOR_LOSS(HingeLoss, hinge_loss, StrictDouble, margin, 1)
EXTENSOR_LOSS(KLDivLoss, kl_divergence, StrictBool, log_target, false)
#undef EXTENSOR_LOSS

struct CrossEntropyOptions {
  Tensor weight = {};  // one weight per class
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = default_ignore_index;
  double label_smoothing = 0;
};
class CrossEntropyLoss final : public Module<CrossEntropyLoss> {
 public:
  explicit CrossEntropyLoss(CrossEntropyOptions options = {}) : options_(std::move(options)) {}
  Tensor forward(const Tensor& logits, const Tensor& target) const {
    return cross_entropy(logits, target, options_.weight, options_.reduction, options_.ignore_index,
                         options_.label_smoothing);
  }
  void visit(Walker&) {}

 private:
  CrossEntropyOptions options_;
};

struct NLLOptions {
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = default_ignore_index;
};
class NLLLoss final : public Module<NLLLoss> {
 public:
  explicit NLLLoss(NLLOptions options = {}) : options_(std::move(options)) {}
  Tensor forward(const Tensor& x, const Tensor& target) const {
    return nll_loss(x, target, options_.weight, options_.reduction, options_.ignore_index);
  }
  void visit(Walker&) {}

 private:
  NLLOptions options_;
};

class FocalLoss final : public Module<FocalLoss> {
 public:
  explicit FocalLoss(Reduction reduction = Reduction::mean, StrictDouble alpha = 0.25,
                     StrictDouble gamma = 2)
      : reduction_(reduction), alpha_(alpha), gamma_(gamma) {}
  Tensor forward(const Tensor& x, const Tensor& y) const {
    return focal_loss(x, y, reduction_, alpha_, gamma_);
  }
  void visit(Walker&) {}

 private:
  Reduction reduction_;
  double alpha_, gamma_;
};

class TripletMarginLoss final : public Module<TripletMarginLoss> {
 public:
  explicit TripletMarginLoss(StrictDouble margin = 1, StrictDouble p = 2, StrictDouble eps = 1e-6,
                             StrictBool swap = false, Reduction reduction = Reduction::mean)
      : margin_(margin), p_(p), eps_(eps), swap_(swap), reduction_(reduction) {}
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return triplet_margin_loss(anchor, positive, negative, margin_, p_, eps_, swap_, reduction_);
  }
  void visit(Walker&) {}

 private:
  double margin_, p_, eps_;
  bool swap_;
  Reduction reduction_;
};

}  // namespace extensor::nn

EXTENSOR_END_API
