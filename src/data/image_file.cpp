#include "data/image_file.h"

#include "data/jpeg.h"
#include "data/png.h"
#include "data/whole_file.h"
#include "extensor/data/readers.h"
#include "io/text.h"

namespace extensor {

using detail::message;

void io::check_pixels(const std::string& label, std::int64_t width, std::int64_t height,
                      std::int64_t most) {
  if (height <= most / width) return;
  damaged(label, "has ", width, " × ", height, " pixels (allowed: at most ", most,
          " pixels; max_pixels sets the limit)");
}

Tensor io::read_image(const ByteSource& source, std::int64_t max_pixels) {
  const WholeFile file(source);
  if (is_png(file.bytes())) return read_png(source.label(), file.bytes(), max_pixels);
  if (is_jpeg(file.bytes())) return read_jpeg(source.label(), file.bytes(), max_pixels);
  if (is_pnm(file.text())) return read_pnm(source.label(), file.text(), max_pixels);
  damaged(source.label(), "begins with ", in_quotes(file.text().substr(0, 8)),
          " (allowed: PNG, JPEG, and PGM or PPM: P2, P3, P5, P6)");
}

Tensor data::load_image(const std::filesystem::path& path, const ImageOptions& options) {
  if (options.max_pixels < 1) {
    throw ValueError(
        message("load_image: max_pixels is ", options.max_pixels, " (allowed: 1 or more)"));
  }
  return io::read_image(io::FileSource("load_image", path), options.max_pixels);
}

}  // namespace extensor
