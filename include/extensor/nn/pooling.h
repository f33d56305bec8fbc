// Pooling of signals and volumes; that of images is in extensor/nn/layers.h.
#pragma once

#include "extensor/export.h"
#include "extensor/nn/module.h"
#include "extensor/pooling.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

// Type(kernel, options) computes function(x, kernel, options). ValueError for a kernel below 1.
#define EXTENSOR_POOLING(Type, function, Kernel, Options)                            \
  class Type final : public Module<Type> {                                           \
   public:                                                                           \
    explicit Type(const Kernel& kernel, const Options& options = {});                \
    Tensor forward(const Tensor& x) const { return function(x, kernel_, options_); } \
    std::string describe() const;                                                    \
    void visit(Walker&) {}                                                           \
                                                                                     \
   private:                                                                          \
    Kernel kernel_;                                                                  \
    Options options_;                                                                \
  };
EXTENSOR_POOLING(MaxPool1d, max_pool1d, StrictInt, MaxPool1dOptions)
EXTENSOR_POOLING(AvgPool1d, avg_pool1d, StrictInt, AvgPool1dOptions)
EXTENSOR_POOLING(MaxPool3d, max_pool3d, Size3d, MaxPool3dOptions)
EXTENSOR_POOLING(AvgPool3d, avg_pool3d, Size3d, AvgPool3dOptions)
#undef EXTENSOR_POOLING

}  // namespace extensor::nn

EXTENSOR_END_API
