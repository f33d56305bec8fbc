// Convolutions of volumes, and transposed ones of signals and volumes; the others are in
// extensor/nn/layers.h.
#pragma once

#include "extensor/convolution.h"
#include "extensor/export.h"
#include "extensor/nn/module.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

class Conv3d final : public Module<Conv3d> {
 public:
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Size3d& kernel,
         const Conv3dOptions& options = {});
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight;  // [out, in / groups, depth, height, width]
  Parameter bias;

 private:
  Conv3dOptions options_;
};

class ConvTranspose1d final : public Module<ConvTranspose1d> {
 public:
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                  const ConvTranspose1dOptions& options = {});
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight;  // [in, out / groups, kernel]
  Parameter bias;

 private:
  ConvTranspose1dOptions options_;
};

class ConvTranspose3d final : public Module<ConvTranspose3d> {
 public:
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, const Size3d& kernel,
                  const ConvTranspose3dOptions& options = {});
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight;  // [in, out / groups, depth, height, width]
  Parameter bias;

 private:
  ConvTranspose3dOptions options_;
};

}  // namespace extensor::nn

EXTENSOR_END_API
