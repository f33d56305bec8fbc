// Transforms against plain code, and images in batches.
#include <cmath>
#include <numbers>
#include <set>

#include "support/child_process.h"
#include "support/files.h"

namespace {

using namespace extensor;
using data::Batch;
using data::Draws;
using data::Image;
using data::LabelledImages;
using data::Transform;
using test_support::expect_error;
using Numbers = std::vector<std::int64_t>;
using Pixels = std::vector<float>;

// Every pixel has a different value.
Image image_of(std::int64_t channels, std::int64_t height, std::int64_t width) {
  Image image{channels, height, width, {}};
  for (std::int64_t i = 0; i < channels * height * width; ++i) {
    image.pixels.push_back(static_cast<float>((i * 37 + 11) % 101) / 100);
  }
  return image;
}

float pixel(const Image& image, std::int64_t c, std::int64_t y, std::int64_t x) {
  if (y < 0 || x < 0 || y >= image.height || x >= image.width) return 0;
  return image.pixels[static_cast<std::size_t>((c * image.height + y) * image.width + x)];
}

Image transformed(const Transform& transform, Image image, std::int64_t index = 0) {
  Draws draws(1, 2, index);
  transform(image, draws);
  return image;
}

TEST(Transforms, ReadEveryByteAsItsPartOf255) {
  constexpr std::int64_t count = 259;
  const Tensor bytes = arange(count).to(uint8).reshape({1, 1, count});
  const data::ImageDataset dataset({bytes, zeros({1}, int64), {}});
  const std::int64_t first[] = {0};
  const auto pixels = dataset.batch({first}).inputs.to_vector<float>();
  for (std::size_t k = 0; k < pixels.size(); ++k) {
    EXPECT_EQ(pixels[k], static_cast<float>(k % 256) / 255.F) << k;
  }
}

// Bit-identical to a division, also if it is computed in another way.
TEST(Transforms, NormalizeDividesExactly) {
  Image image{1, 1, 4096, std::vector<float>(4096)};
  for (std::size_t k = 0; k < image.pixels.size(); ++k) {
    image.pixels[k] = static_cast<float>(k) * 1.37e-3F - 2;
  }
  image.pixels[5] = std::numeric_limits<float>::infinity();
  image.pixels[6] = -std::numeric_limits<float>::infinity();
  image.pixels[7] = std::nanf("");
  for (const auto& [mean, deviation] :
       {std::pair(.1307F, .3081F), std::pair(.4914F, .2470F), std::pair(0.F, 3e-5F)}) {
    const Image after = transformed(data::normalize({mean}, {deviation}), image);
    for (std::size_t k = 0; k < image.pixels.size(); ++k) {
      const float expected = (image.pixels[k] - mean) / deviation;
      EXPECT_TRUE(after.pixels[k] == expected ||
                  (std::isnan(after.pixels[k]) && std::isnan(expected)))
          << image.pixels[k] << ": " << after.pixels[k] << " and " << expected;
    }
  }
}

TEST(Transforms, NormalizeTakesOneNumberOrOneForEachChannel) {
  const Image image = image_of(2, 3, 4);
  const Image one = transformed(data::normalize({.25}, {.5}), image);
  const Image each = transformed(data::normalize({.25, .125}, {.5, .3}), image);
  for (std::int64_t c = 0; c < 2; ++c) {
    for (std::int64_t y = 0; y < 3; ++y) {
      for (std::int64_t x = 0; x < 4; ++x) {
        const float before = pixel(image, c, y, x);
        EXPECT_EQ(pixel(one, c, y, x), (before - .25F) / .5F);
        EXPECT_EQ(pixel(each, c, y, x), (before - (c == 0 ? .25F : .125F)) / (c == 0 ? .5F : .3F));
      }
    }
  }
  const double nan = std::nan("");
  expect_error<ValueError>([] { data::normalize({}, {1}); }, {"normalize", "0 numbers"});
  expect_error<ValueError>([] { data::normalize({0}, {0}); }, {"normalize", "deviation is 0"});
  expect_error<ValueError>([] { data::normalize({0}, {1, -1}); }, {"normalize", "deviation is -1"});
  expect_error<ValueError>([] { data::normalize({0}, {1e-50}); }, {"normalize", "1e-50"});
  expect_error<ValueError>([] { data::normalize({1e300}, {1}); }, {"normalize", "mean", "1e+300"});
  expect_error<ValueError>([=] { data::normalize({nan}, {1}); }, {"normalize", "mean", "nan"});
  expect_error<ValueError>([=] { data::normalize({0}, {nan}); }, {"normalize", "nan"});
  expect_error<ShapeError>(
      [&] {
        transformed(data::normalize({0, 0, 0}, {1}), image);
      },
      {"normalize", "3 numbers", "2 channels"});
}

TEST(Transforms, RandomCropMovesThePictureBehindItsFrame) {
  const Image image = image_of(2, 5, 4);
  for (const std::int64_t padding : {0, 1, 3, 7}) {
    std::set<std::pair<std::int64_t, std::int64_t>> seen;
    for (std::int64_t index = 0; index < 400; ++index) {
      Draws draws(1, 2, index);
      const std::int64_t top = draws.below(2 * padding + 1), left = draws.below(2 * padding + 1);
      seen.emplace(top, left);
      const Image result = transformed(data::random_crop(padding), image, index);
      for (std::int64_t c = 0; c < 2; ++c) {
        for (std::int64_t y = 0; y < 5; ++y) {
          for (std::int64_t x = 0; x < 4; ++x) {
            ASSERT_EQ(pixel(result, c, y, x),
                      pixel(image, c, y + top - padding, x + left - padding))
                << top << " " << left;
          }
        }
      }
    }
    const auto ways = static_cast<std::size_t>((2 * padding + 1) * (2 * padding + 1));
    EXPECT_GE(seen.size(), padding < 7 ? ways : ways / 2);
  }
  expect_error<ValueError>([] { data::random_crop(-1); }, {"random_crop", "-1"});
  expect_error<ValueError>([] { data::random_crop(INT64_MAX); }, {"random_crop", "padding"});
}

TEST(Transforms, RandomHorizontalFlipMirrorsSome) {
  const Image image = image_of(2, 3, 5);
  int mirrored = 0;
  for (std::int64_t index = 0; index < 400; ++index) {
    const Image result = transformed(data::random_horizontal_flip(.25), image, index);
    if (result.pixels == image.pixels) continue;
    ++mirrored;
    for (std::int64_t c = 0; c < 2; ++c) {
      for (std::int64_t y = 0; y < 3; ++y) {
        for (std::int64_t x = 0; x < 5; ++x) {
          ASSERT_EQ(pixel(result, c, y, x), pixel(image, c, y, 4 - x));
        }
      }
    }
  }
  EXPECT_NEAR(mirrored, 100, 35);  // four deviations of √(400 · ¼ · ¾)
  EXPECT_EQ(transformed(data::random_horizontal_flip(0), image).pixels, image.pixels);
  expect_error<ValueError>([] { data::random_horizontal_flip(-.5); },
                           {"random_horizontal_flip", "-0.5"});
}

// Forward: a point of the source, relative to the center, is sheared, rotated, scaled and moved.
// The source of the pixel at (x, y) is found by solving for it.
double reference(const Image& image, std::int64_t c, double x, double y) {
  const auto left = static_cast<std::int64_t>(std::floor(x));
  const auto top = static_cast<std::int64_t>(std::floor(y));
  double sum = 0;
  for (std::int64_t dy = 0; dy < 2; ++dy) {
    for (std::int64_t dx = 0; dx < 2; ++dx) {
      const double u = 1 - std::abs(x - static_cast<double>(left + dx));
      const double v = 1 - std::abs(y - static_cast<double>(top + dy));
      sum += u * v * static_cast<double>(pixel(image, c, top + dy, left + dx));
    }
  }
  return sum;
}

TEST(Transforms, RandomAffineReadsBetweenPixels) {
  const Image image = image_of(2, 9, 7);
  const data::AffineOptions options{.degrees = 40, .translate = .3, .scale = .4, .shear = 20};
  for (std::int64_t index = 0; index < 50; ++index) {
    Draws draws(1, 2, index);
    const double degree = std::numbers::pi / 180;
    const double angle = draws.uniform(-40, 40) * degree;
    const double dx = 7 * draws.uniform(-.3, .3), dy = 9 * draws.uniform(-.3, .3);
    const double scale = draws.uniform(1 - .4, 1 + .4);
    const double shear = std::tan(draws.uniform(-20, 20) * degree);
    // scale · turn · shear
    const double a = scale * std::cos(angle),
                 b = scale * (std::cos(angle) * shear - std::sin(angle));
    const double d = scale * std::sin(angle),
                 e = scale * (std::sin(angle) * shear + std::cos(angle));
    const Image result = transformed(data::random_affine(options), image, index);
    for (std::int64_t c = 0; c < 2; ++c) {
      for (std::int64_t y = 0; y < 9; ++y) {
        for (std::int64_t x = 0; x < 7; ++x) {
          const double p = static_cast<double>(x) - 3 - dx, q = static_cast<double>(y) - 4 - dy;
          const double determinant = a * e - b * d;
          const double expected = reference(image, c, 3 + (e * p - b * q) / determinant,
                                            4 + (a * q - d * p) / determinant);
          ASSERT_NEAR(pixel(result, c, y, x), expected, 1e-5) << index << ": " << x << ", " << y;
        }
      }
    }
  }
}

TEST(Transforms, RandomAffineOfNothingChangesNothing) {
  for (const auto& [height, width] : {std::pair{1, 1}, {4, 6}, {5, 3}}) {
    const Image image = image_of(3, height, width);
    EXPECT_EQ(transformed(data::random_affine({}), image).pixels, image.pixels);
  }
  expect_error<ValueError>([] { data::random_affine({.degrees = -1}); },
                           {"random_affine", "degrees"});
  expect_error<ValueError>([] { data::random_affine({.translate = 2}); }, {"translate is 2"});
  expect_error<ValueError>([] { data::random_affine({.scale = 1}); }, {"scale is 1"});
  expect_error<ValueError>([] { data::random_affine({.shear = 90}); }, {"shear is 90"});
  expect_error<ValueError>([] { data::random_affine({.shear = std::nan("")}); }, {"shear", "nan"});
}

TEST(Transforms, ResizeIsBilinear) {
  // As torch.nn.functional.interpolate(mode="bilinear") computes it.
  const Image small{1, 2, 2, {1, 2, 3, 4}};
  const Image large = transformed(data::resize(4, 4), small);
  EXPECT_EQ(large.pixels, (Pixels{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5,  //
                                  2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}));
  EXPECT_EQ(std::tuple(large.channels, large.height, large.width), std::tuple(1, 4, 4));
  const Image wide{2, 1, 4, {0, 1, 2, 3, 8, 6, 4, 2}};
  const Image narrow = transformed(data::resize(1, 2), wide);
  EXPECT_EQ(narrow.pixels, (Pixels{.5, 2.5, 7, 3}));
  EXPECT_EQ(transformed(data::resize(3, 1), wide).pixels, (Pixels{1.5, 1.5, 1.5, 5, 5, 5}));
  EXPECT_EQ(transformed(data::resize(2, 2), small).pixels, small.pixels);
  expect_error<ValueError>([] { data::resize(0, 4); }, {"resize", "height is 0"});
  expect_error<ValueError>([] { data::resize(4, 1 << 20); }, {"resize", "width is"});
}

TEST(Transforms, GrayscaleWeighsColours) {
  const Image colours{3, 1, 2, {1, 0, 0, 1, 0, .5}};
  const Image gray = transformed(data::grayscale(), colours);
  EXPECT_EQ(gray.channels, 1);
  ASSERT_EQ(gray.pixels.size(), 2U);
  EXPECT_FLOAT_EQ(gray.pixels[0], .299F);
  EXPECT_FLOAT_EQ(gray.pixels[1], .587F + .057F);
  EXPECT_EQ(transformed(data::grayscale(), gray).pixels, gray.pixels);
  expect_error<ShapeError>([] { transformed(data::grayscale(), image_of(2, 1, 1)); },
                           {"grayscale", "2 channels", "1, 3"});
}

TEST(Transforms, RefuseAnImageThatIsNotOne) {
  for (const Transform& transform :
       {data::normalize({0}, {1}), data::random_crop(1), data::random_horizontal_flip(),
        data::random_affine({}), data::resize(2, 2), data::grayscale()}) {
    for (const Image& image : {Image{}, Image{1, 2, 2, {1, 2, 3}}, Image{1, -2, -2, {1, 2, 3, 4}},
                               Image{1, INT64_MAX, INT64_MAX, {1}}}) {
      expect_error<ShapeError>([&] { transformed(transform, image); }, {"pixels"});
    }
  }
}

// ---- images in batches

LabelledImages pictures(const Shape& shape) {
  LabelledImages set;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  set.images = ((arange(count) * 7 + 3) % 256).to(uint8).reshape(shape);
  set.labels = arange(shape[0]) % 3;
  set.classes = {"a", "b", "c"};
  return set;
}

TEST(ImageDataset, GivesPartsOfOne) {
  const Numbers indices = {3, 0, 3};
  for (const Shape& shape : {Shape{4, 5, 2}, Shape{4, 3, 5, 2}}) {
    const data::ImageDataset set(pictures(shape));
    EXPECT_EQ(set.size(), 4);
    const Batch batch = set.batch({indices});
    EXPECT_EQ(batch.inputs.shape(), (Shape{3, shape.size() == 4 ? 3 : 1, 5, 2}));
    EXPECT_EQ(batch.targets.to_vector<std::int64_t>(), (Numbers{0, 0, 0}));
    EXPECT_EQ(batch.indices, indices);
    const std::vector<std::uint8_t> bytes = set.images().images[3].to_vector<std::uint8_t>();
    const Pixels found = batch.inputs[0].to_vector<float>();
    ASSERT_EQ(found.size(), bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_EQ(found[i], static_cast<float>(bytes[i]) / 255.F);
    }
    EXPECT_EQ(batch.inputs[2].to_vector<float>(), found);
  }
  EXPECT_EQ(data::ImageDataset(pictures({4, 5, 2})).batch({}).inputs.shape(), (Shape{0, 1, 5, 2}));
}

TEST(ImageDataset, AppliesTransformsInTheirOrder) {
  const LabelledImages set = pictures({6, 4, 5});
  const std::vector<Transform> steps = {data::random_crop(1), data::resize(6, 3),
                                        data::normalize({.5}, {.25})};
  const Numbers indices = {5, 1};
  const Batch batch = data::ImageDataset(set, steps).batch({indices, 7, 3});
  EXPECT_EQ(batch.inputs.shape(), (Shape{2, 1, 6, 3}));
  for (std::int64_t k = 0; k < 2; ++k) {
    const std::int64_t index = indices[static_cast<std::size_t>(k)];
    Image image{1, 4, 5, {}};
    for (const std::uint8_t byte : set.images[index].to_vector<std::uint8_t>()) {
      image.pixels.push_back(static_cast<float>(byte) / 255.F);
    }
    Draws draws(7, 3, index);
    for (const Transform& step : steps) step(image, draws);
    EXPECT_EQ(batch.inputs[k].to_vector<float>(), image.pixels);
  }
}

TEST(ImageDataset, RefusesWhatIsNoSetOfPictures) {
  using data::ImageDataset;
  const LabelledImages good = pictures({4, 5, 2});
  const auto with = [&](const Tensor& images, const Tensor& labels) {
    ImageDataset(LabelledImages{images, labels, good.classes});
  };
  for (const Shape& shape : {Shape{4}, Shape{4, 5}, Shape{4, 0, 2}, Shape{4, 1, 1, 1, 1},
                             Shape{3, 5, 2}, Shape{4, 0, 5, 2}}) {
    expect_error<ShapeError>([&] { with(zeros(shape, uint8), good.labels); }, {"ImageDataset"});
  }
  expect_error<ShapeError>([&] { with(good.images, zeros({4, 1}, int64)); }, {"[4, 1]"});
  expect_error<DTypeError>([&] { with(zeros({4, 5, 2}), good.labels); }, {"float32", "uint8"});
  expect_error<DTypeError>([&] { with(good.images, zeros({4}, int32)); }, {"int32", "int64"});
  expect_error<ValueError>(
      [&] {
        with(good.images, tensor({0, 1, 3, 2}));
      },
      {"label 2 is 3", "0 … 2"});
  expect_error<ValueError>([&] { with(good.images, tensor({0, 1, -1, 2})); }, {"label 2 is -1"});
  EXPECT_NO_THROW(ImageDataset(LabelledImages{good.images, tensor({0, 1, 300, 2}), {}}));
  expect_error<ValueError>([&] { with(Tensor(), good.labels); }, {"images", "undefined"});
  expect_error<ValueError>([&] { ImageDataset(good, {Transform()}); }, {"transform is empty"});
  const Numbers beyond = {4}, all = {0, 1, 2, 3};
  expect_error<IndexError>([&] { ImageDataset(good).batch({beyond}); }, {"ImageDataset", "4"});
  // Images that differ in size after the transforms.
  const Transform cuts = [](Image& image, Draws& draws) {
    image.height = draws.below(1000) + 1;
    image.width = 1;
    image.pixels.resize(static_cast<std::size_t>(image.height));
  };
  expect_error<ShapeError>([&] { ImageDataset(good, {cuts}).batch({all}); },
                           {"ImageDataset", "first of its batch"});
  const Transform lies = [](Image& image, Draws&) { image.pixels.pop_back(); };
  expect_error<ShapeError>([&] { ImageDataset(good, {lies}).batch({all}); }, {"9 pixels"});
}

// Enough images for several threads.
TEST(ImageDataset, IsTheSameForAnyNumberOfThreads) {
  const int threads = get_num_threads();
  const LabelledImages set = data::digits(100, 3);
  const data::ImageDataset pictures(set, {data::random_affine({.degrees = 20}),
                                          data::random_crop(2), data::normalize({.1}, {.3})});
  Numbers indices;
  for (std::int64_t k = 0; k < 100; ++k) indices.push_back(k * 37 % 100);
  set_num_threads(1);
  const Batch expected = pictures.batch({indices, 7, 3});
  for (const int count : {2, 3, 16}) {
    set_num_threads(count);
    const Batch batch = pictures.batch({indices, 7, 3});
    EXPECT_EQ(batch.inputs.to_vector<float>(), expected.inputs.to_vector<float>()) << count;
    EXPECT_EQ(batch.targets.to_vector<std::int64_t>(), expected.targets.to_vector<std::int64_t>());
  }
  set_num_threads(threads);
}

TEST(ImageDataset, ThrowsWhatTheFirstPictureDid) {
  const int threads = get_num_threads();
  // The first pixel is the index of the image.
  LabelledImages set{zeros({100, 28, 28}, uint8), zeros({100}, int64), {}};
  for (std::int64_t k = 0; k < 100; ++k) {
    set.images.data<std::uint8_t>()[k * 28 * 28] = static_cast<std::uint8_t>(k);
  }
  const auto refuse = [](Image& image, Draws&) {
    const auto number = static_cast<int>(std::lround(image.pixels[0] * 255));
    if (number % 10 == 9) throw std::out_of_range(std::to_string(number));
  };
  const auto shrink = [](Image& image, Draws&) {
    if (std::lround(image.pixels[0] * 255) % 10 == 8) image = {1, 1, 1, {0}};
  };
  Numbers indices;
  for (std::int64_t k = 0; k < 100; ++k) indices.push_back(99 - k);
  for (const int count : {1, 2, 5}) {
    set_num_threads(count);
    try {
      data::ImageDataset(set, {refuse}).batch({std::span(indices).subspan(1)});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::out_of_range& error) {
      EXPECT_STREQ(error.what(), "89");
    }
    expect_error<ShapeError>([&] { data::ImageDataset(set, {shrink}).batch({indices}); },
                             {"ImageDataset", "image 98", "[1, 1, 1]", "[1, 28, 28]"});
  }
  set_num_threads(threads);
}

TEST(ImageDataset, TakesTheDigits) {
  const LabelledImages set = data::digits(20);
  EXPECT_EQ(set.classes,
            (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
  EXPECT_EQ(data::ImageDataset(set).size(), 20);
}

}  // namespace
