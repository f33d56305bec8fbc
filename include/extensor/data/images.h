// Pictures with classes, and what is done with them before a network sees them.
//
//   data::ImageDataset training(data::load_mnist(directory).train,
//                               {data::random_crop(2), data::normalize({0.1307}, {0.3081})});
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "extensor/data/dataset.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

struct LabelledImages {
  Tensor images;  // uint8, [count, height, width] or [count, channels, height, width]
  Tensor labels;  // int64, [count], 0 … classes − 1
  std::vector<std::string> classes = {};  // what they are called; may be empty
};

struct ImageSplits {
  LabelledImages train, test;
};

// A picture on its way into a batch: planes of floats, 0 … 1 at first.
struct Image {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<float> pixels;  // channels · height · width
};

// One step of the way. Called by several threads at once.
using Transform = std::function<void(Image& image, Draws& draws)>;

// (x − mean) / deviation, one number for all channels or one for each. ValueError unless all are
// finite and the deviations more than 0.
Transform normalize(std::vector<double> mean, std::vector<double> deviation);
// Moved by up to `padding` pixels either way; what comes in from outside is 0. As PyTorch's
// RandomCrop(size, padding) with the picture's own size.
Transform random_crop(std::int64_t padding);
// Mirrored left to right with this probability.
Transform random_horizontal_flip(double probability = 0.5);

struct AffineOptions {
  double degrees = 0;    // turned by up to this either way
  double translate = 0;  // moved by up to this part of its size
  double scale = 0;      // 0.1: made 0.9 … 1.1 times as large
  double shear = 0;      // degrees, up to this either way
};
// Turned, moved, scaled and sheared about its middle, read between pixels (bilinear); outside is 0.
Transform random_affine(const AffineOptions& options);
// Another size, bilinear between the middles of pixels, as PyTorch's interpolate.
Transform resize(std::int64_t height, std::int64_t width);
// One channel of three: 0.299 R + 0.587 G + 0.114 B; one channel stays as it is.
Transform grayscale();

// Inputs float32 [n, channels, height, width], targets int64 [n]. ShapeError, DTypeError unless the
// images are as above, ValueError for a label that is no class.
class ImageDataset final : public Dataset {
 public:
  explicit ImageDataset(LabelledImages images, std::vector<Transform> transforms = {});
  std::int64_t size() const override;
  Batch batch(const Request& request) const override;
  const LabelledImages& images() const { return images_; }

 private:
  LabelledImages images_;
  std::vector<Transform> transforms_;
};

}  // namespace extensor::data

EXTENSOR_END_API
