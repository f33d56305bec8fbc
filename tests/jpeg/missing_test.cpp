// The JPEG reader of a build without libjpeg: this program compiles it without EXTENSOR_JPEG.
#include "data/image_file.h"
#include "support/child_process.h"
#include "support/data_files.h"

namespace {

using namespace extensor;

TEST(JpegWithoutLibrary, SaysWhatToInstall) {
  const std::string file = "\xff\xd8\xff\xe0 the rest does not matter";
  test_support::expect_error<FormatError>(
      [&] { io::read_image(test_support::source_of("load_image: 'file'", file)); },
      {"load_image: 'file'", "reads none", "libjpeg62-turbo-dev", "EXTENSOR_JPEG=ON"});
}

}  // namespace
