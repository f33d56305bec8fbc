// Readers of data files: IDX (the MNIST family), CIFAR, CSV and images.
//
// Every reader throws FormatError for a damaged file, with its name, what was found and what is
// allowed, and IoError if the system refuses access. No input causes any other failure. Sizes are
// compared with the file before memory is allocated.
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

// Reads an IDX file, plain or gzip-compressed (detected from its contents): uint8, int8, int16,
// int32, float32 or float64 of any rank.
Tensor load_idx(const std::filesystem::path& path);

// Reads a directory with the four files of MNIST or Fashion-MNIST under their original names, with
// or without .gz: {train,t10k}-{images-idx3,labels-idx1}-ubyte. Throws IoError that names a missing
// file.
ImageSplits load_mnist(const std::filesystem::path& directory);
ImageSplits load_fashion_mnist(const std::filesystem::path& directory);

// The default limit on the pixels of an image, width × height: 8192 × 8192. A file of a few
// megabytes can expand to more than fits into memory.
inline constexpr std::int64_t default_max_pixels = std::int64_t{1} << 26;

struct ImageFolderOptions {
  std::int64_t height = 0, width = 0;     // common size; 0: that of the first image
  std::int64_t most = 0;                  // with size 0: shrink to this longest side; 0: never
  std::int64_t channels = 0;              // 1 or 3; 0: as the first image
  std::vector<std::string> classes = {};  // empty: all classes found
  bool hold_out = true;                   // false: without test/, use all images in both parts
  std::int64_t max_pixels = default_max_pixels;  // per file; FormatError above
};
// Loads images of any size from a directory with one of three layouts:
//   CLASS/*.png …                        every tenth image of a class becomes .test
//   train/CLASS/*.png …, test/CLASS/…    the same classes in both
//   the four files of MNIST, of any size and with any labels
// Throws IoError for a directory with another layout and ValueError for a class that is not in
// options.classes.
ImageSplits load_image_folder(const std::filesystem::path& directory,
                              const ImageFolderOptions& options = {});
// The image files in a directory, sorted by name: .png, .jpg, .jpeg, .pgm, .ppm,
// .pnm.
std::vector<std::filesystem::path> image_files(const std::filesystem::path& directory);

// Reads the binary version from `directory`, or from cifar-10-batches-bin or cifar-100-binary in
// it: data_batch_1.bin … data_batch_5.bin and test_batch.bin, or train.bin and test.bin. The labels
// of CIFAR-100 are the fine ones.
ImageSplits load_cifar10(const std::filesystem::path& directory);
ImageSplits load_cifar100(const std::filesystem::path& directory);

struct CsvOptions {
  char separator = ',';
  // Whether the first line names the columns; nullopt: if it contains a cell that is not a number.
  std::optional<bool> header = std::nullopt;
};
struct NumericTable {
  Tensor values;                     // float64 [rows, columns]; an empty cell is NaN
  std::vector<std::string> columns;  // their names; empty without a header
};
// Reads a table of numbers (load_table: any table). Throws FormatError with the line and column of
// a cell that is not a number, or of a line that is empty, shorter or longer than the first. Throws
// ValueError for a separator that may be part of a number. Cells may be quoted.
NumericTable load_csv(const std::filesystem::path& path, const CsvOptions& options = {});

// Reads a PNG, JPEG, PGM or PPM file (detected from its contents): uint8 [channels, height, width],
// with 1 channel for gray and 3 for colour. Transparent pixels are blended on black, 16 bits are
// rounded to 8. JPEG images are turned as their EXIF orientation asks, and CMYK becomes RGB without
// a colour profile; a build without libjpeg refuses them. Throws FormatError for an image of more
// than `max_pixels` pixels, before memory is allocated, and ValueError for a limit below 1.
struct ImageOptions {
  std::int64_t max_pixels = default_max_pixels;
};
Tensor load_image(const std::filesystem::path& path, const ImageOptions& options = {});
// Writes a PNG file from uint8 [height, width] or [channels, height, width] with 1 or 3 channels.
void save_png(const std::filesystem::path& path, const Tensor& image);

}  // namespace extensor::data

EXTENSOR_END_API
