// Layers that change the resolution of images, and rotary position embedding.
#pragma once

#include "extensor/export.h"
#include "extensor/interpolation.h"
#include "extensor/nn/module.h"
#include "extensor/rotary.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

//   nn::Upsample({.scale_factor = 2, .mode = InterpolateMode::bilinear})
class Upsample final : public Module<Upsample> {
 public:
  // ValueError unless exactly one of size and scale_factor is given.
  explicit Upsample(const InterpolateOptions& options);
  Tensor forward(const Tensor& x) const { return interpolate(x, options_); }
  std::string describe() const;
  void visit(Walker&) {}

 private:
  InterpolateOptions options_;
};

class PixelShuffle final : public Module<PixelShuffle> {
 public:
  explicit PixelShuffle(StrictInt factor);
  Tensor forward(const Tensor& x) const { return pixel_shuffle(x, factor_); }
  std::string describe() const;
  void visit(Walker&) {}

 private:
  std::int64_t factor_;
};

class PixelUnshuffle final : public Module<PixelUnshuffle> {
 public:
  explicit PixelUnshuffle(StrictInt factor);
  Tensor forward(const Tensor& x) const { return pixel_unshuffle(x, factor_); }
  std::string describe() const;
  void visit(Walker&) {}

 private:
  std::int64_t factor_;
};

// Rotates queries or keys [..., length, width].
class RotaryEmbedding final : public Module<RotaryEmbedding> {
 public:
  explicit RotaryEmbedding(const RotaryOptions& options = {}) : options_(options) {}
  // `offset` is added to that of the options.
  Tensor forward(const Tensor& x, StrictInt offset = 0) const {
    RotaryOptions options = options_;
    options.offset += offset;
    return rotary_embedding(x, options);
  }
  void visit(Walker&) {}

 private:
  RotaryOptions options_;
};

}  // namespace extensor::nn

EXTENSOR_END_API
