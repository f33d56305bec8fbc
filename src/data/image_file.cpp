#include "data/image_file.h"

#include "data/png.h"
#include "data/whole_file.h"
#include "extensor/data/readers.h"
#include "io/text.h"

namespace extensor {

Tensor io::read_image(const ByteSource& source) {
  const WholeFile file(source);
  if (is_png(file.bytes())) return read_png(source.label(), file.bytes());
  if (is_pnm(file.text())) return read_pnm(source.label(), file.text());
  damaged(source.label(), "begins with ", in_quotes(file.text().substr(0, 8)),
          " (allowed: PNG, and PGM or PPM: P2, P3, P5, P6)");
}

Tensor data::load_image(const std::filesystem::path& path) {
  return io::read_image(io::FileSource("load_image", path));
}

}  // namespace extensor
