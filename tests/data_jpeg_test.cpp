// JPEG images: the colors of files of every kind, orientation, damage and limits.
#include <cmath>

#include "data/image_file.h"
#include "data/jpeg.h"
#include "support/child_process.h"
#include "support/data_files.h"
#include "support/files.h"
#include "support/jpeg_file.h"

namespace {

using namespace extensor;
using test_support::exif_data;
using test_support::expect_error;
using test_support::jpeg_of;
using test_support::JpegFile;
using test_support::source_of;
using test_support::TemporaryDirectory;
using test_support::write_file;

Tensor read_image(const std::string& file, std::int64_t max_pixels = data::default_max_pixels) {
  return io::read_image(source_of("load_image: 'file'", file), max_pixels);
}

void expect_damaged(const std::string& file, std::vector<std::string> parts) {
  parts.emplace_back("load_image: 'file'");
  expect_error<FormatError>([&] { read_image(file); }, parts);
}

// A smooth image, which JPEG stores nearly exactly at the highest quality.
int smooth(int c, int y, int x) {
  return static_cast<int>(std::lround(128 + 60 * std::sin(0.13 * x + c) + 50 * std::cos(0.11 * y)));
}

// The largest difference between the image and the samples.
int difference(const Tensor& image, const JpegFile& jpeg) {
  const auto channels = static_cast<std::size_t>(jpeg.components());
  EXPECT_EQ(image.shape(), (Shape{jpeg.components(), jpeg.height, jpeg.width}));
  const auto* pixel = image.data<std::uint8_t>();
  const std::size_t plane = std::size_t{jpeg.width} * jpeg.height;
  int most = 0;
  for (std::size_t i = 0; i < plane * channels; ++i) {
    const int found = pixel[i % channels * plane + i / channels];
    most = std::max(most, std::abs(found - int{jpeg.pixels[i]}));
  }
  return most;
}

// At the highest quality, coefficients are rounded to whole numbers, which changes samples by up to
// 2. The largest weight in the conversion to RGB is 1.772: blue = Y + 1.772 Cb.
constexpr int gray_error = 2, color_error = 5;

TEST(Jpeg, HasTheColorsThatWereWritten) {
  for (const J_COLOR_SPACE space : {JCS_GRAYSCALE, JCS_RGB}) {
    // Sizes below, at and above a block of 8 and a SIMD vector.
    for (const auto& [width, height] : std::vector<std::pair<unsigned, unsigned>>{
             {1, 1}, {7, 3}, {8, 8}, {17, 31}, {64, 20}, {131, 67}}) {
      for (const bool progressive : {false, true}) {
        JpegFile jpeg = jpeg_of(width, height, space, smooth);
        jpeg.progressive = progressive;
        EXPECT_LE(difference(read_image(jpeg.file()), jpeg),
                  space == JCS_RGB ? color_error : gray_error)
            << space << ' ' << width << " × " << height << (progressive ? " progressive" : "");
      }
    }
  }
}

TEST(Jpeg, ReadsEveryVariantOfTheFormat) {
  JpegFile restarts = jpeg_of(70, 50, JCS_RGB, smooth);
  restarts.restart_interval = 3;
  EXPECT_NE(restarts.file().find("\xff\xd3"), std::string::npos);  // the fourth restart marker
  EXPECT_LE(difference(read_image(restarts.file()), restarts), color_error);
  JpegFile plain = jpeg_of(33, 21, JCS_RGB, smooth);
  plain.stored = JCS_RGB;  // not YCbCr
  plain.adobe = true;
  EXPECT_LE(difference(read_image(plain.file()), plain), gray_error);
  // Halved colors are interpolated, so that only slow changes survive.
  JpegFile halved =
      jpeg_of(60, 40, JCS_RGB, [](int c, int y, int x) { return 80 + y + x + 10 * c; });
  halved.sampling = 2;
  EXPECT_LE(difference(read_image(halved.file()), halved), color_error);
  JpegFile rough = jpeg_of(40, 40, JCS_RGB, [](int c, int, int) { return 40 + 70 * c; });
  rough.quality = 30;
  EXPECT_LE(difference(read_image(rough.file()), rough), 6);
}

// The color of ink c, m, y, k on white paper, by multiplication.
TEST(Jpeg, ConvertsInksToColors) {
  const auto ink = [](int c, int y, int x) { return (20 * c + 3 * y + 2 * x) % 200; };
  const Tensor expected = empty({3, 16, 24}, uint8);
  auto* to = const_cast<Tensor&>(expected).data<std::uint8_t>();
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 16; ++y) {
      for (int x = 0; x < 24; ++x) {
        *to++ = static_cast<std::uint8_t>(
            std::lround((255.0 - ink(c, y, x)) * (255.0 - ink(3, y, x)) / 255));
      }
    }
  }
  const auto largest = [&](const Tensor& image) {
    return max(abs(image.to(int32) - expected.to(int32))).item<int>();
  };
  JpegFile inks = jpeg_of(24, 16, JCS_CMYK, ink);
  EXPECT_LE(largest(read_image(inks.file())), 3);
  // Adobe's programs write the complements.
  JpegFile adobe =
      jpeg_of(24, 16, JCS_CMYK, [&](int c, int y, int x) { return 255 - ink(c, y, x); });
  adobe.adobe = true;
  EXPECT_LE(largest(read_image(adobe.file())), 3);
  adobe.stored = JCS_YCCK;
  EXPECT_LE(largest(read_image(adobe.file())), 4);
}

// The corners of the displayed image, clockwise from the top left, for a file with the corners
// 40, 90, 200, 150.
TEST(Jpeg, AppliesTheOrientation) {
  const auto corners = [](int, int y, int x) {
    return y < 16 ? (x < 24 ? 40 : 90) : (x < 24 ? 150 : 200);
  };
  const std::vector<std::vector<int>> expected = {
      {40, 90, 200, 150}, {90, 40, 150, 200}, {200, 150, 40, 90}, {150, 200, 90, 40},
      {40, 150, 200, 90}, {150, 40, 90, 200}, {200, 90, 40, 150}, {90, 200, 150, 40}};
  for (const J_COLOR_SPACE space : {JCS_GRAYSCALE, JCS_RGB}) {
    for (const char order : {'I', 'M'}) {
      for (int orientation = 1; orientation <= 8; ++orientation) {
        SCOPED_TRACE(orientation);
        JpegFile jpeg = jpeg_of(48, 32, space, corners);
        jpeg.exif = exif_data(orientation, order);
        const Tensor image = read_image(jpeg.file());
        const bool is_turned = orientation >= 5;
        const std::int64_t height = is_turned ? 48 : 32, width = is_turned ? 32 : 48;
        ASSERT_EQ(image.shape(), (Shape{space == JCS_RGB ? 3 : 1, height, width}));
        const std::vector<std::pair<std::int64_t, std::int64_t>> places = {
            {0, 0}, {0, width - 1}, {height - 1, width - 1}, {height - 1, 0}};
        for (std::size_t k = 0; k < 4; ++k) {
          for (std::int64_t c = 0; c < image.size(0); ++c) {
            const int found = image.data<std::uint8_t>()[(c * height + places[k].first) * width +
                                                         places[k].second];
            EXPECT_NEAR(found, expected[static_cast<std::size_t>(orientation) - 1][k], 2);
          }
        }
      }
    }
  }
}

TEST(Jpeg, IgnoresInvalidExif) {
  JpegFile jpeg = jpeg_of(9, 5, JCS_GRAYSCALE, smooth);
  std::string far = exif_data(6), long_list = exif_data(6), other = exif_data(6);
  far[10] = '\x7f';        // the directory lies beyond the end
  long_list[14] = '\xff';  // and claims more tags than there are; the orientation is still there
  other[0] = 'e';
  for (const std::string& exif : {std::string("Exif"), std::string("Exif\0\0II", 8), exif_data(0),
                                  exif_data(9), far, other, exif_data(6).substr(0, 30)}) {
    jpeg.exif = exif;
    EXPECT_EQ(read_image(jpeg.file()).shape(), (Shape{1, 5, 9}));
  }
  jpeg.exif = long_list;
  EXPECT_EQ(read_image(jpeg.file()).shape(), (Shape{1, 9, 5}));
}

// ---- damage -------------------------------------------------------------------------------------

// No prefix is an image, not even one that lacks only the last marker; nothing is printed.
CHILD_TEST(Jpeg, RefusesTruncatedFiles) {
  for (const bool progressive : {false, true}) {
    JpegFile jpeg =
        jpeg_of(40, 24, JCS_RGB, [](int c, int y, int x) { return (c + 7 * y * x) % 256; });
    jpeg.progressive = progressive;
    jpeg.restart_interval = progressive ? 0 : 2;
    const std::string file = jpeg.file();
    testing::internal::CaptureStderr();
    for (std::size_t size = 3; size < file.size(); ++size) {
      expect_error<FormatError>([&] { read_image(file.substr(0, size)); },
                                {"load_image: 'file'", "is no complete JPEG image"});
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

CHILD_TEST(Jpeg, RefusesDamageThatTheDecoderNotices) {
  JpegFile jpeg =
      jpeg_of(64, 64, JCS_RGB, [](int c, int y, int x) { return (c + 7 * y * x) % 256; });
  jpeg.restart_interval = 4;
  const std::string file = jpeg.file();
  // A restart marker with the wrong number, and one that is not there.
  const std::size_t restart = file.find("\xff\xd1");
  ASSERT_NE(restart, std::string::npos);
  expect_damaged(std::string(file).replace(restart, 2, "\xff\xd5"),
                 {"marker 0xd5 instead of RST1"});
  expect_damaged(std::string(file).erase(restart, 2), {});
  // Part of the data is missing.
  expect_damaged(std::string(file).erase(restart - 40, 40), {});
  // Every byte changed: an image of the same size, or an error.
  int refused = 0;
  for (std::size_t at = 0; at < file.size(); at += 3) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    try {
      read_image(changed);
    } catch (const FormatError&) {
      ++refused;
    }
  }
  EXPECT_GE(refused, 50);
  // Surplus bytes before the last marker lose nothing.
  EXPECT_NO_THROW(read_image(std::string(file).insert(file.size() - 2, "\1\2\3")));
  EXPECT_NO_THROW(read_image(file + "behind the image"));
}

TEST(Jpeg, RefusesWhatItDoesNotSupport) {
  JpegFile jpeg = jpeg_of(16, 16, JCS_RGB, smooth);
  jpeg.arithmetic = true;
  expect_damaged(jpeg.file(), {"arithmetic coding", "allowed: Huffman"});
  expect_damaged("\xff\xd8\xff\xd9", {"JPEG"});
  expect_damaged("\xff\xd8\xff", {"JPEG"});
  // Two components instead of three.
  jpeg.arithmetic = false;
  std::string file = jpeg.file();
  const std::size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  file.replace(frame + 2, 2, std::string("\0\x0e", 2)).replace(frame + 9, 1, "\2");
  expect_damaged(file.erase(frame + 16, 3), {});
}

// The height and width are bytes 5 … 8 of the frame.
CHILD_TEST(Jpeg, ChecksTheSizeBeforeItAllocates) {
  for (const bool progressive : {false, true}) {
    JpegFile jpeg = jpeg_of(16, 16, JCS_RGB, smooth);
    jpeg.progressive = progressive;
    std::string file = jpeg.file();
    expect_error<FormatError>([&] { read_image(file, 255); },
                              {"16 × 16 pixels", "at most 255", "max_pixels"});
    EXPECT_NO_THROW(read_image(file, 256));
    const std::size_t frame = file.find(progressive ? "\xff\xc2" : "\xff\xc0");
    ASSERT_NE(frame, std::string::npos);
    file.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
    expect_damaged(file, {"65500 × 65500 pixels"});
    reset_peak_memory_stats();
    const std::size_t before = memory_stats().allocated_bytes;
    expect_error<FormatError>([&] { read_image(file, std::int64_t{1} << 40); },
                              {"65500 wide", "cannot hold that"});
    EXPECT_LT(memory_stats().peak_allocated_bytes, before + (1 << 16));
    file.replace(frame + 5, 4, std::string("\0\0\0\20", 4));
    expect_damaged(file, {});
  }
}

// Scans that repeat take long to decode and are short in the file.
TEST(Jpeg, LimitsTheNumberOfScans) {
  JpegFile jpeg = jpeg_of(16, 16, JCS_GRAYSCALE, smooth);
  // The means of the blocks and the other coefficients, both with all their bits: each scan may be
  // repeated.
  jpeg.scans = {{.comps_in_scan = 1, .component_index = {0}, .Ss = 0, .Se = 0, .Ah = 0, .Al = 0},
                {.comps_in_scan = 1, .component_index = {0}, .Ss = 1, .Se = 63, .Ah = 0, .Al = 0}};
  const std::string file = jpeg.file();
  const std::string end = "\xff\xd9";
  const std::string before_end = file.substr(0, file.size() - end.size());
  const std::string last_scan = before_end.substr(before_end.rfind("\xff\xda"));
  std::string many = before_end;
  for (int scans = 2; scans < 500; ++scans) many += last_scan;
  EXPECT_EQ(read_image(many + end).to_vector<std::uint8_t>(),
            read_image(file).to_vector<std::uint8_t>());
  expect_damaged(many + last_scan + end, {"it has more than 500 scans"});
}

TEST(Jpeg, IsFoundInDirectoriesAndByItsContents) {
  const TemporaryDirectory directory;
  for (int k = 0; k < 10; ++k) {
    const auto gray = [&](int c) {
      return jpeg_of(12, 10, JCS_RGB, [=](int, int, int) { return c; }).file();
    };
    const std::string number = std::to_string(k);
    std::filesystem::create_directories(directory / "dark");
    std::filesystem::create_directories(directory / "light");
    write_file(directory / ("dark/" + number + ".jpg"), gray(10 + k));
    write_file(directory / ("light/" + number + ".JPEG"), gray(200 + k));
  }
  // A JPEG by another name.
  std::filesystem::rename(directory / "dark/3.jpg", directory / "dark/3.png");
  const data::ImageSplits splits = data::load_image_folder(directory.path());
  EXPECT_EQ(splits.train.images.shape(), (Shape{18, 3, 10, 12}));
  EXPECT_EQ(splits.test.labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));
  const auto test = splits.test.images.to_vector<std::uint8_t>();
  EXPECT_NEAR(test.front(), 19, 1);
  EXPECT_NEAR(test.back(), 209, 1);
}

}  // namespace
