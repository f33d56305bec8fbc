// Images: PNG files of every kind from an independent encoder, Netpbm files, and written PNG files.
#include <cmath>

#include "data/image_file.h"
#include "data/png.h"
#include "support/child_process.h"
#include "support/data_files.h"
#include "support/files.h"

namespace {

using namespace extensor;
using test_support::big_endian;
using test_support::expect_error;
using test_support::expect_same;
using test_support::png_chunk;
using test_support::PngFile;
using test_support::source_of;
using test_support::TemporaryDirectory;
using test_support::write_file;
using Bytes = std::vector<std::uint8_t>;

Tensor read_image(const std::string& file) {
  return io::read_image(source_of("load_image: 'file'", file));
}

void expect_damaged(const std::string& file, std::vector<std::string> parts) {
  parts.emplace_back("load_image: 'file'");
  expect_error<FormatError>([&] { read_image(file); }, parts);
}

// ---- PNG ----------------------------------------------------------------------------------------

std::uint8_t rounded(double part_of_one) {
  return static_cast<std::uint8_t>(std::floor(255 * part_of_one + .5));
}

constexpr int palette_size = 13;
std::array<int, 3> palette_colour(int i) { return {i * 19, 255 - i * 17, i * i % 256}; }
std::string palette(int count) {
  std::string data;
  for (int i = 0; i < count; ++i) {
    for (const int value : palette_colour(i)) data += static_cast<char>(value);
  }
  return png_chunk("PLTE", data);
}

// Samples in no order, including the highest and lowest; indices stay within the palette.
PngFile picture(int colour, int depth, std::uint32_t width, std::uint32_t height) {
  PngFile png{.width = width, .height = height, .depth = depth, .colour = colour};
  const int count = colour == 3 ? std::min(palette_size, 1 << depth) : 1 << depth;
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < std::size_t{width} * height * png.per_pixel(); ++i) {
    state = state * 1664525 + 1013904223;
    const int sample = static_cast<int>(state >> 8) % count;
    png.samples.push_back(i == 3 ? 0 : i == 4 ? count - 1 : sample);
  }
  if (colour == 3) png.before = palette(count);
  return png;
}

struct Transparency {
  std::vector<int> key;      // for gray and rgb
  std::vector<int> palette;  // for the first colors
};

// The value of a pixel according to the standard, in plain arithmetic.
Tensor expected_of(const PngFile& png, const Transparency& transparency = {}) {
  const int per_pixel = png.per_pixel();
  const bool alpha = png.colour == 4 || png.colour == 6;
  const int channels = png.colour == 0 || png.colour == 4 ? 1 : 3;
  const double most = (1 << png.depth) - 1;
  const std::size_t plane = std::size_t{png.width} * png.height;
  Bytes pixels(plane * channels);
  for (std::size_t i = 0; i < plane; ++i) {
    const int* sample = png.samples.data() + i * per_pixel;
    bool hidden = !transparency.key.empty();
    for (std::size_t c = 0; c < transparency.key.size(); ++c) {
      hidden = hidden && sample[c] == transparency.key[c];
    }
    for (int c = 0; c < channels; ++c) {
      double value = png.colour == 3 ? palette_colour(sample[0])[c] / 255. : sample[c] / most;
      if (alpha) value *= sample[per_pixel - 1] / most;
      if (png.colour == 3 && static_cast<std::size_t>(sample[0]) < transparency.palette.size()) {
        value *= transparency.palette[sample[0]] / 255.;
      }
      pixels[plane * c + i] = hidden ? 0 : rounded(value);
    }
  }
  return from_data(pixels).reshape({channels, png.height, png.width});
}

struct PngKind {
  int colour, depth;
};
const std::vector<PngKind> every_kind = {{0, 1}, {0, 2},  {0, 4},  {0, 8}, {0, 16},
                                         {2, 8}, {2, 16}, {3, 1},  {3, 2}, {3, 4},
                                         {3, 8}, {4, 8},  {4, 16}, {6, 8}, {6, 16}};

TEST(Png, IsReadInEveryKindSizeAndFilter) {
  for (const auto& [colour, depth] : every_kind) {
    for (const bool interlaced : {false, true}) {
      for (const auto& [width, height] : {std::pair<std::uint32_t, std::uint32_t>{1, 1},
                                          {2, 3},
                                          {3, 1},
                                          {5, 5},
                                          {8, 8},
                                          {9, 17},
                                          {33, 10},
                                          {1, 9},
                                          {100, 60}}) {
        PngFile png = picture(colour, depth, width, height);
        png.interlaced = interlaced;
        SCOPED_TRACE(testing::Message() << "colour " << colour << ", " << depth << " bits, "
                                        << width << " × " << height << ", " << interlaced);
        expect_same(read_image(png.file()), expected_of(png));
      }
    }
  }
}

TEST(Png, IsReadFromChunksOfAnySize) {
  PngFile png = picture(2, 8, 40, 30);
  const Tensor expected = expected_of(png);
  for (const std::size_t chunk : {1, 2, 7, 1000, 100'000}) {
    png.chunk = chunk;
    expect_same(read_image(png.file()), expected);
  }
  // An empty chunk in between, and chunks that do not affect the pixels.
  const std::string data = PngFile::zlib_of(png.all_lines());
  expect_same(read_image(test_support::png_start + png.header() + png_chunk("gAMA", "1234") +
                         png_chunk("IDAT", data.substr(0, 10)) + png_chunk("IDAT", "") +
                         png_chunk("IDAT", data.substr(10)) + png_chunk("tEXt", "Author") +
                         png_chunk("IEND", "")),
              expected);
}

TEST(Png, LaysWhatIsTransparentOnBlack) {
  for (const int depth : {1, 2, 4, 8, 16}) {
    PngFile gray = picture(0, depth, 9, 7);
    const int key = gray.samples[20];
    gray.before = png_chunk("tRNS", big_endian(static_cast<std::uint64_t>(key), 2));
    expect_same(read_image(gray.file()), expected_of(gray, {.key = {key}, .palette = {}}));
  }
  for (const int depth : {8, 16}) {
    PngFile rgb = picture(2, depth, 9, 7);
    const std::vector<int> key = {rgb.samples[60], rgb.samples[61], rgb.samples[62]};
    std::string data;
    for (const int sample : key) data += big_endian(static_cast<std::uint64_t>(sample), 2);
    rgb.before = png_chunk("tRNS", data);
    expect_same(read_image(rgb.file()), expected_of(rgb, {.key = key, .palette = {}}));
  }
  PngFile indexed = picture(3, 4, 9, 7);
  indexed.before += png_chunk("tRNS", std::string("\0\x80\xff\x01", 4));
  expect_same(read_image(indexed.file()),
              expected_of(indexed, {.key = {}, .palette = {0, 128, 255, 1}}));
}

TEST(Png, IsReadWhenItIsLargeAndPlain) {
  PngFile png{.width = 2000, .height = 1500, .depth = 1, .colour = 0};
  png.chunk = 100;
  png.samples.assign(2000 * 1500, 1);
  png.filters = 3;
  const Tensor image = read_image(png.file());
  EXPECT_EQ(image.shape(), (Shape{1, 1500, 2000}));
  EXPECT_EQ(test_support::bytes_of(image), std::string(2000 * 1500, '\xff'));
}

TEST(Png, NamesWhatIsWrong) {
  const PngFile good = picture(2, 8, 4, 3);
  const std::string start = test_support::png_start, end = png_chunk("IEND", "");
  const std::string data = png_chunk("IDAT", PngFile::zlib_of(good.all_lines()));
  EXPECT_NO_THROW(read_image(start + good.header() + data + end));
  expect_damaged(start + data + end, {"IDAT", "IHDR is first"});
  expect_damaged(start + good.header() + good.header() + data + end, {"IHDR was already"});
  expect_damaged(start + good.header() + end, {"no IDAT"});
  expect_damaged(start + good.header() + data, {"no IEND"});
  expect_damaged(start + good.header() + data + end + "x", {"1 bytes behind"});
  expect_damaged(start + good.header() + data + png_chunk("IEND", "x"), {"IEND", "1 bytes"});
  expect_damaged(start + good.header() + data + png_chunk("tEXt", "") + data + end,
                 {"IDAT", "behind its pixels"});
  expect_damaged(start + good.header() + data + palette(4) + end, {"PLTE", "behind its pixels"});
  expect_damaged(start + good.header() + palette(4) + palette(4) + data + end, {"two PLTE"});
  expect_damaged(start + good.header() + png_chunk("ABCD", "") + data + end, {"ABCD", "IHDR"});
  expect_damaged(start + good.header() + png_chunk("a\nCD", "") + data + end,
                 {"a\\x0aCD", "letters"});
  expect_damaged(start + good.header() + png_chunk("PLTE", "1234") + data + end,
                 {"PLTE", "4 bytes"});
  expect_damaged(start + good.header() + png_chunk("tRNS", "12") + data + end, {"tRNS", "2 bytes"});
  std::string crc = start + good.header() + data + end;
  crc[crc.size() - 20] ^= 1;
  expect_damaged(crc, {"IDAT", "CRC"});
  // Malformed headers.
  const auto header = [&](const PngFile& png) { return start + png.header() + data + end; };
  expect_damaged(header({.width = 0, .height = 3}), {"0 wide"});
  expect_damaged(header({.width = 4, .height = 0x80000000}), {"2147483648 high"});
  expect_damaged(header({.width = 0x7fffffff, .height = 0x7fffffff, .depth = 16, .colour = 6}),
                 {"2147483647 wide", "cannot hold"});
  expect_damaged(header({.width = 4, .height = 3, .depth = 3}), {"3 bits"});
  expect_damaged(header({.width = 4, .height = 3, .depth = 4, .colour = 2}), {"type 2 with 4"});
  expect_damaged(header({.width = 4, .height = 3, .depth = 16, .colour = 3}), {"type 3 with 16"});
  expect_damaged(header({.width = 4, .height = 3, .depth = 8, .colour = 5}), {"type 5"});
  expect_damaged(header({.width = 4, .height = 3, .depth = 8, .colour = 3}), {"no PLTE"});
  expect_damaged(start + png_chunk("IHDR", "123") + data + end, {"IHDR", "3 bytes", "13"});
  expect_damaged(
      start + png_chunk("IHDR", std::string("\0\0\0\1\0\0\0\1\10\0\0\0\2", 13)) + data + end,
      {"interlace 2"});
  // Malformed pixels.
  const std::string lines = good.all_lines();
  expect_damaged(good.with_data(PngFile::zlib_of(lines + "x")), {"more pixels"});
  expect_damaged(good.with_data(PngFile::zlib_of(lines.substr(1))), {"cut off"});
  expect_damaged(good.with_data(PngFile::zlib_of(lines) + "x"), {"1 bytes behind"});
  expect_damaged(good.with_data("not zlib"), {"compressed data is wrong"});
  std::string filter = lines;
  filter[13] = 5;
  expect_damaged(good.with_data(PngFile::zlib_of(filter)), {"line 1 has filter 5", "0 … 4"});
  PngFile indexed = picture(3, 4, 9, 7);
  indexed.before = palette(3);
  expect_damaged(indexed.file(), {"pixel of colour", "palette has 3"});
  indexed.before = palette(3) + png_chunk("tRNS", "1234");
  expect_damaged(indexed.file(), {"tRNS", "4 bytes"});
  indexed.before = palette(17);
  expect_damaged(indexed.file(), {"PLTE", "1 … 16"});
  PngFile gray = picture(0, 8, 4, 3);
  gray.before = palette(3);
  expect_damaged(gray.file(), {"gray", "PLTE"});
  gray = picture(4, 8, 4, 3);
  gray.before = png_chunk("tRNS", "12");
  expect_damaged(gray.file(), {"tRNS", "transparency of its own"});
}

// Width × height is checked before any allocation, in every format.
TEST(Image, HasALimitOnPixels) {
  const TemporaryDirectory directory;
  data::save_png(directory / "a.png", zeros({3, 20, 30}, uint8));
  write_file(directory / "b.pgm", "P5\n30 20\n255\n" + std::string(600, '\0'));
  write_file(directory / "c.pgm", "P2\n30 20\n255\n" + std::string(1200, '0'));
  for (const char* name : {"a.png", "b.pgm", "c.pgm"}) {
    const auto load = [&](std::int64_t most) {
      data::load_image(directory / name, {.max_pixels = most});
    };
    try {
      load(599);
      FAIL() << name;
    } catch (const FormatError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("has 30 × 20 pixels (allowed: at most 599"), std::string::npos) << text;
    }
    EXPECT_THROW(load(0), ValueError);
  }
  EXPECT_EQ(data::load_image(directory / "a.png", {.max_pixels = 600}).shape(), (Shape{3, 20, 30}));
  EXPECT_EQ(data::load_image(directory / "b.pgm", {.max_pixels = 600}).shape(), (Shape{1, 20, 30}));
  // 400 million pixels in a small file.
  const PngFile large{.width = 20000, .height = 20000, .depth = 1, .colour = 0};
  expect_damaged(test_support::png_start + large.header() +
                     png_chunk("IDAT", std::string(100'000, 'x')) + png_chunk("IEND", ""),
                 {"20000 × 20000", "67108864"});
}

// ---- writing ------------------------------------------------------------------------------------

TEST(SavePng, WritesWhatOthersRead) {
  const TemporaryDirectory directory;
  const Tensor image = ((arange(3 * 4 * 5) * 11) % 256).to(uint8).reshape({3, 4, 5});
  data::save_png(directory / "x.png", image);
  const std::string file = test_support::read_file(directory / "x.png");
  // Signature and header as required, followed by the lines, pixel by pixel.
  const PngFile shape{.width = 5, .height = 4, .depth = 8, .colour = 2};
  const std::string start = test_support::png_start + shape.header();
  ASSERT_EQ(file.substr(0, start.size()), start);
  ASSERT_TRUE(file.ends_with(png_chunk("IEND", "")));
  const std::string data = file.substr(start.size() + 8, file.size() - start.size() - 24);
  EXPECT_EQ(file.substr(start.size()), png_chunk("IDAT", data) + png_chunk("IEND", ""));
  std::string lines(4 * 16, '?');
  uLongf size = lines.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(lines.data()), &size,
                       reinterpret_cast<const Bytef*>(data.data()), data.size()),
            Z_OK);
  std::string expected;
  for (int y = 0; y < 4; ++y) {
    expected += '\0';
    for (int x = 0; x < 5; ++x) {
      for (int c = 0; c < 3; ++c) expected += static_cast<char>((c * 20 + y * 5 + x) * 11 % 256);
    }
  }
  EXPECT_EQ(lines, expected);
}

TEST(SavePng, IsReadBackTheSame) {
  const TemporaryDirectory directory;
  const Tensor pixels = ((arange(3 * 50 * 70) * 7919) % 256).to(uint8).reshape({3, 50, 70});
  data::save_png(directory / "x.png", pixels);
  expect_same(data::load_image(directory / "x.png"), pixels);
  data::save_png(directory / "x.png", pixels[1]);
  expect_same(data::load_image(directory / "x.png"), pixels.slice(0, 1, 2).contiguous());
  data::save_png(directory / "x.png", pixels.slice(0, 2, 3).transpose({0, 2, 1}));
  expect_same(data::load_image(directory / "x.png"),
              pixels.slice(0, 2, 3).transpose({0, 2, 1}).contiguous());
  EXPECT_EQ(directory.names(), std::vector<std::string>{"x.png"});
}

TEST(SavePng, RefusesWhatIsNoPicture) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "x.png";
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 4, 4}, Shape{0, 4, 4}, Shape{4, 4, 4},
                             Shape{3, 0, 4}, Shape{4, 0}, Shape{1, 3, 4, 4}}) {
    expect_error<ShapeError>([&] { data::save_png(path, zeros(shape, uint8)); },
                             {"save_png", to_string(shape)});
  }
  expect_error<DTypeError>(
      [&] {
        data::save_png(path, zeros({4, 4}));
      },
      {"save_png", "float32", "uint8"});
  expect_error<ValueError>([&] { data::save_png(path, Tensor()); }, {"save_png", "undefined"});
  EXPECT_TRUE(directory.names().empty());
  expect_error<IoError>(
      [&] {
        data::save_png(directory / "none/x.png", zeros({4, 4}, uint8));
      },
      {"save_png", "none/x.png"});
}

// ---- Netpbm -------------------------------------------------------------------------------------

Bytes bytes_of(const Tensor& image) { return image.to_vector<std::uint8_t>(); }

TEST(Netpbm, IsReadAsTextAndBytes) {
  const Bytes pixels = {0, 100, 200, 255, 1, 2};
  const Tensor expected = from_data(pixels).reshape({1, 2, 3});
  for (const std::string& file :
       {std::string("P2\n3 2\n255\n0 100 200\n255 1 2\n"),
        std::string("P2 3 2 255 0 100 200 255 1 2"),
        std::string("P2# a comment\n#another\n3 #width\n2\t255\r\n0\n100 200\n255 1 #2\n2 # end"),
        std::string("P5\n3 2\n255\n\0\x64\xc8\xff\1\2", 17),
        std::string("P5 3 2 255 \0\x64\xc8\xff\1\2", 17),
        std::string("P5#\n3 2 255\n\0\x64\xc8\xff\1\2", 18)}) {
    expect_same(read_image(file), expected);
  }
  const Tensor colour = read_image("P3 2 1 255 1 2 3 4 5 6");
  EXPECT_EQ(colour.shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(bytes_of(colour), (Bytes{1, 4, 2, 5, 3, 6}));
  expect_same(read_image("P6 2 1 255 \1\2\3\4\5\6"), colour);
  // A newline may be a pixel.
  EXPECT_EQ(bytes_of(read_image("P5 2 1 255\n\n\n")), (Bytes{10, 10}));
}

TEST(Netpbm, IsRoundedToBytes) {
  EXPECT_EQ(bytes_of(read_image("P2 4 1 3 0 1 2 3")), (Bytes{0, 85, 170, 255}));
  EXPECT_EQ(bytes_of(read_image("P2 3 1 1000 1 2 500")), (Bytes{0, 1, 128}));
  EXPECT_EQ(bytes_of(read_image(std::string("P5 3 1 65535 \0\0\x80\x80\xff\xff", 19))),
            (Bytes{0, 128, 255}));
  EXPECT_EQ(bytes_of(read_image("P5 2 1 1 \1\1")), (Bytes{255, 255}));
}

TEST(Netpbm, NamesWhatIsWrong) {
  expect_damaged("P2 3 2 255 0 1 2 3 4", {"bytes of pixels"});
  expect_damaged("P2 3 1 255 0 1    ", {"a pixel is missing"});
  expect_damaged("P2 3 1 255 0 1 2 3", {"bytes behind its pixels"});
  expect_damaged("P2 3 1 100 0 1 101", {"a pixel is 101", "0 … 100"});
  expect_damaged("P5 2 1 100 \1\x65", {"pixel 1 is 101", "0 … 100"});
  expect_damaged("P5 2 1 255 abc", {"3 bytes", "need 2"});
  expect_damaged("P5 2 1 255 a", {"1 bytes", "need 2"});
  expect_damaged("P5 2 1 256 ab", {"2 bytes", "need 4"});
  expect_damaged("P5 0 1 255 ", {"width is 0", "1 …"});
  expect_damaged("P5 1 2 0 ab", {"highest value is 0"});
  expect_damaged("P5 1 2 65536 ab", {"highest value is 65536"});
  expect_damaged("P5 99999999999999999999999 2 255 ab", {"the width is 99999999999999999999"});
  expect_damaged("P5 2147483647 2147483647 255 ab", {"bytes of pixels"});
  expect_damaged("P3 2147483647 2147483647 255 ab", {"overflows"});
  expect_damaged("P5 1", {"height is missing"});
  expect_damaged("P5 -1 1 255 a", {"width is missing"});
  expect_damaged("P5 1 1 255", {"no space"});
  expect_damaged("P2 1 1 255 1-", {"1 bytes behind"});
  for (const std::string file : {"", "P", "P5", "P4 1 1 \1", "P1 1 1 1", "P7\n", "GIF89a", "BM",
                                 "\x89PNG", "p5 1 1 255 a"}) {
    expect_damaged(file, {"begins with", "PNG", "P5"});
  }
}

}  // namespace
