#include <algorithm>
#include <utility>

#include "backend/cpu/pixels.h"
#include "core/make_tensor.h"
#include "data/request.h"
#include "extensor/data/images.h"
#include "io/given.h"

namespace extensor::data {

using detail::message;

namespace {

// The picture will be read soon; shuffled ones are not in a cache.
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

// ShapeError where a transform gave a picture of another size than the first of the batch.
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
  io::check_given("ImageDataset: images", images_.images);
  io::check_given("ImageDataset: labels", images_.labels);
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

Batch ImageDataset::batch(const Request& request) const {
  check_request("ImageDataset", request, size());
  const Tensor& pictures = images_.images;
  const auto count = static_cast<std::int64_t>(request.indices.size());
  const std::int64_t channels = pictures.ndim() == 4 ? pictures.size(1) : 1;
  const std::int64_t height = pictures.size(-2), width = pictures.size(-1);
  const std::int64_t bytes = channels * height * width;
  const auto* source = pictures.data<std::uint8_t>();
  const auto* labels = images_.labels.data<std::int64_t>();
  const cpu::PixelKernels& kernels = cpu::pixel_kernels();
  const auto convert = [&](std::int64_t index, float* to) {
    kernels.parts(source + index * bytes, to, static_cast<std::size_t>(bytes));
  };

  Batch batch{{}, detail::make_empty("ImageDataset", {count}, DType::int64), indices_of(request)};
  const auto make_inputs = [&](std::int64_t c, std::int64_t h, std::int64_t w) {
    return detail::make_empty("ImageDataset", {count, c, h, w}, DType::float32);
  };
  if (transforms_.empty() || count == 0) batch.inputs = make_inputs(channels, height, width);
  auto* target = batch.targets.data<std::int64_t>();
  Image image;
  constexpr std::int64_t ahead = 2;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t index = request.indices[static_cast<std::size_t>(k)];
    target[k] = labels[index];
    if (k + ahead < count) {
      fetch_early(source + request.indices[static_cast<std::size_t>(k + ahead)] * bytes, bytes);
    }
    if (transforms_.empty()) {
      convert(index, batch.inputs.data<float>() + k * bytes);
      continue;
    }
    image.channels = channels;
    image.height = height;
    image.width = width;
    image.pixels.resize(static_cast<std::size_t>(bytes));
    convert(index, image.pixels.data());
    Draws draws(request.seed, request.epoch, index);
    for (const Transform& transform : transforms_) transform(image, draws);
    if (k == 0) batch.inputs = make_inputs(image.channels, image.height, image.width);
    check_size(index, image, batch.inputs.shape());
    std::ranges::copy(image.pixels, batch.inputs.data<float>() +
                                        k * static_cast<std::int64_t>(image.pixels.size()));
  }
  return batch;
}

}  // namespace extensor::data
