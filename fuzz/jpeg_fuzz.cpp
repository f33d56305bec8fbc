// JPEG files. Images that are read have the declared size, 1 or 3 channels and at most the allowed
// pixels.
#include "data/image_file.h"
#include "data/jpeg.h"

#include "fuzz/data_reader.h"
#include "tests/support/jpeg_file.h"

namespace {

using namespace extensor;

constexpr std::int64_t most_pixels = 1 << 14;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (!io::is_jpeg(bytes)) return 0;
  try {
    const fuzz::AllocationLimit limit(size);
    const Tensor image = io::read_jpeg("fuzz", bytes, most_pixels);
    const bool is_image = image.ndim() == 3 && (image.size(0) == 1 || image.size(0) == 3);
    if (!is_image || image.size(1) * image.size(2) > most_pixels) std::abort();
  } catch (const Error&) {
    return 0;
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = [] {
    std::vector<fuzz::File> list;
    for (const J_COLOR_SPACE space : {JCS_GRAYSCALE, JCS_RGB, JCS_CMYK}) {
      for (const bool progressive : {false, true}) {
        auto jpeg = test_support::jpeg_of(20, 12, space,
                                          [](int c, int y, int x) { return (c + y * x) % 256; });
        jpeg.progressive = progressive;
        jpeg.restart_interval = progressive ? 0 : 2;
        jpeg.sampling = space == JCS_RGB ? 2 : 1;
        jpeg.exif = test_support::exif_data(6);
        jpeg.quality = 50;
        list.push_back(fuzz::file_of(jpeg.file()));
      }
    }
    return list;
  }();
  return fuzz::mutate(data, size, most, seed, files);
}
