#include <algorithm>
#include <utility>

#include "core/make_tensor.h"
#include "core/parallel.h"
#include "data/pixels.h"
#include "data/request.h"
#include "extensor/data/images.h"
#include "io/check_tensors.h"

namespace extensor::data {

using detail::message;

namespace {

// Prefetches an image that will be read soon: in shuffled order it is not in a cache.
void fetch_early(const std::uint8_t* picture, std::int64_t bytes) {
  constexpr std::int64_t line = 64, most = 4096;
  const std::int64_t end = std::min(bytes, most);
  for (std::int64_t at = 0; at < end; at += line) __builtin_prefetch(picture + at);
}

void check_labels(const Tensor& labels, std::size_t classes) {
  const auto* label = labels.data<std::int64_t>();
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    if (label[i] < 0 || (classes != 0 && label[i] >= static_cast<std::int64_t>(classes))) {
      throw ValueError(message("ImageDataset: label ", i, " is ", label[i], " (allowed: 0 ",
                               classes == 0 ? "or more)" : message("… ", classes - 1, ")")));
    }
  }
}

// Throws ShapeError if a transform returned an image of another size than the first of the batch.
void check_size(std::int64_t index, const Image& image, const Shape& batch) {
  const Shape size{image.channels, image.height, image.width};
  const Shape first{batch[1], batch[2], batch[3]};
  if (size != first ||
      image.pixels.size() != static_cast<std::size_t>(first[0] * first[1] * first[2])) {
    throw ShapeError(message("ImageDataset: image ", index, " is ", size, " with ",
                             image.pixels.size(),
                             " pixels behind the transforms, the first of its batch is ", first));
  }
}

}  // namespace

ImageDataset::ImageDataset(LabelledImages images, std::vector<Transform> transforms)
    : images_(std::move(images)), transforms_(std::move(transforms)) {
  io::check_tensors("ImageDataset: images", images_.images);
  io::check_tensors("ImageDataset: labels", images_.labels);
  const Tensor &pictures = images_.images, &labels = images_.labels;
  if (pictures.dtype() != DType::uint8 || labels.dtype() != DType::int64) {
    throw DTypeError(message("ImageDataset: images are ", pictures.dtype(), " and labels ",
                             labels.dtype(), " (allowed: uint8 and int64)"));
  }
  const std::int64_t rank = pictures.ndim();
  bool right = (rank == 3 || rank == 4) && labels.ndim() == 1 && pictures.size(0) == labels.size(0);
  for (std::int64_t axis = 1; right && axis < rank; ++axis) right = pictures.size(axis) > 0;
  if (!right) {
    throw ShapeError(message("ImageDataset: images have shape ", pictures.shape(), " and labels ",
                             labels.shape(), " (allowed: [n, h, w] or [n, c, h, w], and [n])"));
  }
  if (std::ranges::any_of(transforms_, [](const Transform& step) { return !step; })) {
    throw ValueError("ImageDataset: a transform is empty");
  }
  images_.images = io::dense(pictures);
  images_.labels = io::dense(labels);
  check_labels(images_.labels, images_.classes.size());
}

std::int64_t ImageDataset::size() const { return images_.labels.size(0); }

namespace {

// Builds one batch.
class BatchOfImages {
 public:
  BatchOfImages(const LabelledImages& images, const std::vector<Transform>& transforms,
                const Request& request)
      : request_(request),
        transforms_(transforms),
        source_(images.images.data<std::uint8_t>()),
        channels_(images.images.ndim() == 4 ? images.images.size(1) : 1),
        height_(images.images.size(-2)),
        width_(images.images.size(-1)),
        bytes_(channels_ * height_ * width_) {}

  std::int64_t bytes() const { return bytes_; }  // bytes per image

  // The transforms determine the size, so the first image is transformed and stored here.
  Tensor begin() {
    const auto count = static_cast<std::int64_t>(request_.indices.size());
    Image first{channels_, height_, width_, {}};
    const bool transforms = !transforms_.empty() && count != 0;
    if (transforms) transform(0, first);
    Tensor inputs =
        detail::make_empty("ImageDataset", {count, first.channels, first.height, first.width},
                           DType::float32, cpu_device);
    if (transforms) place(0, first, inputs);
    made_ = transforms ? 1 : 0;
    return inputs;
  }

  // Fills images first … end − 1 of the batch, except the one that begin() stored.
  void fill(std::int64_t first, std::int64_t end, Tensor& inputs) const {
    Image image;
    for (std::int64_t k = std::max(first, made_); k < end; ++k) {
      constexpr std::int64_t ahead = 2;
      if (k + ahead < end) fetch_early(source_ + index(k + ahead) * bytes_, bytes_);
      if (transforms_.empty()) {
        convert(index(k), inputs.data<float>() + k * bytes_);
      } else {
        transform(k, image);
        place(k, image, inputs);
      }
    }
  }

 private:
  std::int64_t index(std::int64_t k) const { return request_.indices[static_cast<std::size_t>(k)]; }
  void convert(std::int64_t index, float* to) const {
    pixel_kernels().parts(source_ + index * bytes_, to, static_cast<std::size_t>(bytes_));
  }
  void transform(std::int64_t k, Image& image) const {
    image.channels = channels_;
    image.height = height_;
    image.width = width_;
    image.pixels.resize(static_cast<std::size_t>(bytes_));
    convert(index(k), image.pixels.data());
    Draws draws(request_.seed, request_.epoch, index(k));
    for (const Transform& transform : transforms_) transform(image, draws);
  }
  void place(std::int64_t k, const Image& image, Tensor& inputs) const {
    check_size(index(k), image, inputs.shape());
    std::ranges::copy(image.pixels,
                      inputs.data<float>() + k * static_cast<std::int64_t>(image.pixels.size()));
  }

  const Request& request_;
  const std::vector<Transform>& transforms_;
  const std::uint8_t* source_;
  std::int64_t channels_, height_, width_, bytes_;
  std::int64_t made_ = 0;
};

}  // namespace

Batch ImageDataset::batch(const Request& request) const {
  check_request("ImageDataset", request, size());
  const auto count = static_cast<std::int64_t>(request.indices.size());
  BatchOfImages pictures(images_, transforms_, request);
  Batch batch{pictures.begin(),
              detail::make_empty("ImageDataset", {count}, DType::int64, cpu_device),
              indices_of(request)};
  const auto* labels = images_.labels.data<std::int64_t>();
  auto* target = batch.targets.data<std::int64_t>();
  for (const std::int64_t index : request.indices) *target++ = labels[index];

  constexpr std::int64_t enough_bytes = 1 << 13;  // minimum work per thread
  const std::int64_t grain = (enough_bytes + pictures.bytes() - 1) / pictures.bytes();
  detail::parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    pictures.fill(begin, end, batch.inputs);
  });
  return batch;
}

}  // namespace extensor::data
