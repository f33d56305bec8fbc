// Files of data: IDX (the MNIST family), CIFAR, CSV, pictures.
//
// Every reader throws FormatError for a file that is damaged, naming it, what was found and what is
// allowed, and IoError where the system refuses; whatever the bytes, nothing else happens. Sizes
// are compared with the file before memory is taken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "extensor/data/images.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

// One IDX file, plain or compressed by gzip, whichever its bytes are: uint8, int8, int16, int32,
// float32 or float64 of any rank.
Tensor load_idx(const std::filesystem::path& path);

// A directory with the four files of MNIST or Fashion-MNIST, as they are distributed, with or
// without .gz: {train,t10k}-{images-idx3,labels-idx1}-ubyte. IoError naming what was looked for.
ImageSplits load_mnist(const std::filesystem::path& directory);
ImageSplits load_fashion_mnist(const std::filesystem::path& directory);

// The default limit on the pixels of an image, width × height: 8192 × 8192. A file of a few
// megabytes can hold more than fits into memory.
inline constexpr std::int64_t default_max_pixels = std::int64_t{1} << 26;

struct PictureOptions {
  std::int64_t height = 0, width = 0;     // that all become; 0: as the first picture is,
  std::int64_t most = 0;                  // and made smaller where a side is longer (0: never)
  std::int64_t channels = 0;              // 1 or 3; 0: as the first picture has
  std::vector<std::string> classes = {};  // empty: all that are found
  bool hold_out = true;                   // false: all of undivided classes are in both parts
  std::int64_t max_pixels = default_max_pixels;  // of a file; FormatError for one with more
};
// Pictures of one's own, of any sizes, in a directory of one of three kinds:
//   CLASS/*.png …                        every tenth picture of a class is held out as .test
//   train/CLASS/*.png …, test/CLASS/…    the same classes in both
//   the four files of MNIST, of any size and with any labels
// IoError for a directory that has none of these, ValueError for a class that is not among those
// asked for.
ImageSplits load_pictures(const std::filesystem::path& directory,
                          const PictureOptions& options = {});
// The pictures in a directory by their names: .png, .pgm, .ppm, .pnm.
std::vector<std::filesystem::path> picture_files(const std::filesystem::path& directory);

// A directory with the binary version: data_batch_1.bin … data_batch_5.bin and test_batch.bin, or
// train.bin and test.bin, there or in cifar-10-batches-bin, cifar-100-binary inside it. The classes
// of CIFAR-100 are its fine ones.
ImageSplits load_cifar10(const std::filesystem::path& directory);
ImageSplits load_cifar100(const std::filesystem::path& directory);

struct CsvOptions {
  char separator = ',';
  // Whether the first line names the columns; nothing: it does where it has what is no number.
  std::optional<bool> header = std::nullopt;
};
struct Table {
  Tensor values;                     // float64 [rows, columns]; an empty cell is NaN
  std::vector<std::string> columns;  // their names; empty without a header
};
// Numbers in lines; cells may be in quotes. FormatError naming the line and column of what is no
// number, or of a line that is empty, shorter or longer than the first. ValueError for a separator
// that may be part of a number.
Table load_csv(const std::filesystem::path& path, const CsvOptions& options = {});

// A PNG, PGM or PPM, whichever its bytes are: uint8 [channels, height, width], 1 channel for gray
// and 3 for colour. Transparency is laid on black, 16 bits are rounded to 8.
// FormatError for an image of more than `max_pixels` pixels, before memory is taken for them;
// ValueError for a limit below 1.
struct ImageOptions {
  std::int64_t max_pixels = default_max_pixels;
};
Tensor load_image(const std::filesystem::path& path, const ImageOptions& options = {});
// As PNG: uint8 [height, width] or [channels, height, width] with 1 or 3 channels.
void save_png(const std::filesystem::path& path, const Tensor& image);

}  // namespace extensor::data

EXTENSOR_END_API
