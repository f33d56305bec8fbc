// Image datasets from directories of classes, of train and test parts, or of IDX files.
#include <gtest/gtest.h>

#include "support/child_process.h"
#include "support/data_files.h"
#include "support/files.h"

namespace {

using namespace extensor;
using test_support::expect_error;
using test_support::idx_file;
using test_support::TemporaryDirectory;
using test_support::write_file;
using Labels = std::vector<std::int64_t>;
using Names = std::vector<std::string>;
using Bytes = std::vector<std::uint8_t>;

// A gray image of uniform brightness.
std::string gray(int height, int width, int brightness) {
  return "P5 " + std::to_string(width) + " " + std::to_string(height) + " 255\n" +
         std::string(static_cast<std::size_t>(height * width), static_cast<char>(brightness));
}
std::string coloured(int height, int width, int red, int green, int blue) {
  std::string file = "P6 " + std::to_string(width) + " " + std::to_string(height) + " 255\n";
  for (int i = 0; i < height * width; ++i) {
    for (const int value : {red, green, blue}) file += static_cast<char>(value);
  }
  return file;
}

void write(const std::filesystem::path& path, const std::string& file) {
  std::filesystem::create_directories(path.parent_path());
  write_file(path, file);
}

// The first pixel of every image.
Bytes firsts(const Tensor& images) {
  Bytes list;
  for (std::int64_t k = 0; k < images.size(0); ++k) {
    list.push_back(images[k].contiguous().data<std::uint8_t>()[0]);
  }
  return list;
}

TEST(Pictures, OfClassesHoldOutEveryTenth) {
  const TemporaryDirectory directory;
  for (int k = 0; k < 21; ++k) {
    const std::string name = (k < 10 ? "0" : "") + std::to_string(k) + ".PGM";
    write(directory / ("b/" + name), gray(3, 4, 100 + k));
    if (k < 3) write(directory / ("a/" + name), gray(3, 4, k));
  }
  write(directory / "b/notes.txt", "no picture");
  write(directory / "empty/notes.txt", "no class");
  write(directory / ".hidden/x.pgm", gray(3, 4, 255));
  const data::ImageSplits splits = data::load_image_folder(directory.path());
  EXPECT_EQ(splits.train.classes, (Names{"a", "b"}));
  EXPECT_EQ(splits.test.classes, (Names{"a", "b"}));
  // Holds out the last of three images, and the tenth and twentieth of 21; the classes alternate.
  EXPECT_EQ(firsts(splits.test.images), (Bytes{2, 109, 119}));
  EXPECT_EQ(splits.test.labels.to_vector<std::int64_t>(), (Labels{0, 1, 1}));
  const Bytes training = firsts(splits.train.images);
  EXPECT_EQ((Bytes{training.begin(), training.begin() + 6}), (Bytes{0, 100, 1, 101, 102, 103}));
  EXPECT_EQ(training.size(), 21U);
  EXPECT_EQ(splits.train.images.shape(), (Shape{21, 1, 3, 4}));

  const data::ImageSplits undivided =
      data::load_image_folder(directory.path(), {.hold_out = false});
  EXPECT_EQ(undivided.test.labels.numel(), 24);
  EXPECT_EQ(firsts(undivided.train.images), firsts(undivided.test.images));
}

TEST(Pictures, OfTwoPartsHaveTheClassesOfTheFirst) {
  const TemporaryDirectory directory;
  write(directory / "train/cat/1.pgm", gray(2, 2, 1));
  write(directory / "train/dog/1.pgm", gray(2, 2, 2));
  write(directory / "test/dog/1.pgm", gray(2, 2, 3));
  const data::ImageSplits splits = data::load_image_folder(directory.path());
  EXPECT_EQ(splits.train.labels.to_vector<std::int64_t>(), (Labels{0, 1}));
  EXPECT_EQ(splits.test.labels.to_vector<std::int64_t>(), (Labels{1}));
  EXPECT_EQ(splits.test.classes, (Names{"cat", "dog"}));
  // In the requested order.
  const data::ImageSplits other =
      data::load_image_folder(directory.path(), {.classes = {"emu", "dog", "cat"}});
  EXPECT_EQ(other.train.labels.to_vector<std::int64_t>(), (Labels{1, 2}) /* dog, cat */);
  EXPECT_EQ(firsts(other.train.images), (Bytes{2, 1}));

  write(directory / "test/emu/1.pgm", gray(2, 2, 4));
  expect_error<ValueError>([&] { data::load_image_folder(directory.path()); },
                           {"load_image_folder", "emu", "cat, dog"});
}

TEST(Pictures, BecomeOfOneSizeAndColour) {
  const TemporaryDirectory directory;
  write(directory / "a/1.ppm", coloured(8, 6, 10, 20, 30));
  write(directory / "a/2.pgm", gray(80, 60, 77));
  write(directory / "a/3.ppm", coloured(8, 6, 100, 0, 0));
  data::ImageSplits splits = data::load_image_folder(directory.path());
  EXPECT_EQ(splits.train.images.shape(), (Shape{2, 3, 8, 6}));
  Bytes expected;
  for (const int value : {10, 20, 30, 77, 77, 77}) {
    expected.insert(expected.end(), 48, static_cast<std::uint8_t>(value));
  }
  EXPECT_EQ(splits.train.images.to_vector<std::uint8_t>(), expected);

  splits = data::load_image_folder(directory.path(), {.height = 2, .width = 5, .channels = 1});
  EXPECT_EQ(splits.train.images.shape(), (Shape{2, 1, 2, 5}));
  // 0.299 · 10 + 0.587 · 20 + 0.114 · 30 = 18.15
  expected.assign(20, 18);
  std::fill(expected.begin() + 10, expected.end(), std::uint8_t{77});
  EXPECT_EQ(splits.train.images.to_vector<std::uint8_t>(), expected);
  EXPECT_EQ(splits.test.images.to_vector<std::uint8_t>(), Bytes(10, 30));  // 29.9

  // The size of the first image, but no side longer than 4.
  EXPECT_EQ(data::load_image_folder(directory.path(), {.most = 4}).train.images.shape(),
            (Shape{2, 3, 4, 3}));
  EXPECT_EQ(data::load_image_folder(directory.path(), {.most = 8}).train.images.shape(),
            (Shape{2, 3, 8, 6}));
}

TEST(Pictures, MayBeIdxFilesOfAnySizeAndLabels) {
  const TemporaryDirectory directory;
  const auto files = [&](const std::string& labels) {
    const auto count = static_cast<std::uint32_t>(labels.size());
    for (const std::string part : {"train", "t10k"}) {
      write(directory / (part + "-images-idx3-ubyte"),
            idx_file(8, {count, 4, 6}, std::string(24 * count, '\5')));
      write(directory / (part + "-labels-idx1-ubyte"), idx_file(8, {count}, labels));
    }
  };
  files("\1\14\3");
  const data::ImageSplits splits = data::load_image_folder(directory.path());
  EXPECT_EQ(splits.train.images.shape(), (Shape{3, 4, 6}));
  EXPECT_EQ(splits.train.labels.to_vector<std::int64_t>(), (Labels{1, 12, 3}));
  ASSERT_EQ(splits.test.classes.size(), 13U);
  EXPECT_EQ(splits.test.classes[12], "12");
  EXPECT_EQ(
      data::load_image_folder(directory.path(), {.height = 2, .width = 2}).test.images.shape(),
      (Shape{3, 1, 2, 2}));
  expect_error<FormatError>(
      [&] {
        data::load_image_folder(directory.path(), {.classes = {"zero", "one"}});
      },
      {"load_image_folder", "label 1 is 12", "0 … 1"});
  files("");
  expect_error<IoError>([&] { data::load_image_folder(directory.path()); },
                        {"load_image_folder", "IDX files without images"});
}

TEST(Pictures, RefuseWhatIsNone) {
  const TemporaryDirectory directory;
  const auto refused = [&](const Names& parts) {
    expect_error<IoError>([&] { data::load_image_folder(directory.path()); }, parts);
  };
  refused({"load_image_folder", "no images", "a directory for each class"});
  write(directory / "1.pgm", gray(2, 2, 1));
  refused({"load_image_folder", "images of no class", "a directory for each class"});
  write(directory / "a/1.pgm", gray(2, 2, 1));
  refused({"load_image_folder", "no images left for validation"});
  expect_error<IoError>([&] { data::load_image_folder(directory / "nowhere"); },
                        {"load_image_folder", "nowhere", "cannot be read"});
  write(directory / "a/2.pgm", "P5 2 2 255\nab");
  expect_error<FormatError>([&] { data::load_image_folder(directory.path()); }, {"2.pgm"});
  expect_error<ValueError>([&] { data::load_image_folder(directory.path(), {.height = -1}); },
                           {"load_image_folder", "-1"});
  expect_error<ValueError>([&] { data::load_image_folder(directory.path(), {.channels = 2}); },
                           {"load_image_folder", "channels is 2"});
}

}  // namespace
