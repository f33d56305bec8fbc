// Labelled images, and transforms that prepare them for a network.
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
  std::vector<std::string> classes = {};  // their names; may be empty
};

struct ImageSplits {
  LabelledImages train, test;
};

// An image during preprocessing: planes of floats, initially 0 … 1.
struct Image {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<float> pixels;  // channels · height · width
};

// One preprocessing step. Must be safe to call from several threads.
using Transform = std::function<void(Image& image, Draws& draws)>;

// (x − mean) / deviation, with one number for all channels or one for each. Throws ValueError
// unless all numbers are finite and the deviations are positive.
Transform normalize(std::vector<double> mean, std::vector<double> deviation);
// Shifts the image by up to `padding` pixels in each direction and fills with 0, like PyTorch's
// RandomCrop(size, padding) with the size of the image.
Transform random_crop(std::int64_t padding);
// Flips the image horizontally with this probability.
Transform random_horizontal_flip(double probability = 0.5);

struct AffineOptions {
  double degrees = 0;    // rotation of up to ± this
  double translate = 0;  // shift of up to ± this fraction of the size
  double scale = 0;      // 0.1: a factor of 0.9 … 1.1
  double shear = 0;      // degrees, up to ± this
};
// Rotates, shifts, scales and shears about the centre, with bilinear interpolation; outside is 0.
Transform random_affine(const AffineOptions& options);
// Resizes bilinearly with pixel centres aligned as in PyTorch's interpolate.
Transform resize(std::int64_t height, std::int64_t width);
// Converts three channels to one: 0.299 R + 0.587 G + 0.114 B. One channel is unchanged.
Transform grayscale();

// Inputs are float32 [n, channels, height, width], targets int64 [n]. Throws ShapeError or
// DTypeError for tensors that do not match LabelledImages, and ValueError for a label outside the
// classes.
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
