#include <algorithm>

#include "core/make_tensor.h"
#include "data/image_file.h"
#include "data/png.h"
#include "io/inflater.h"

namespace extensor::io {

namespace {

using Bytes = std::span<const std::byte>;

// ---- passes -------------------------------------------------------------------------------------

// Pixels x0, x0 + dx, … of lines y0, y0 + dy, …: the whole image, or one pass of an interlaced
// image (Adam7).
struct Pass {
  std::uint32_t x0, y0, dx, dy;

  std::uint32_t width(const Png& png) const { return (png.width + dx - 1 - x0) / dx; }
  std::uint32_t height(const Png& png) const { return (png.height + dy - 1 - y0) / dy; }
  std::size_t row_bytes(const Png& png) const {
    return (std::size_t{width(png)} * png.samples() * png.depth + 7) / 8;
  }
};

constexpr std::array<Pass, 1> at_once = {{{0, 0, 1, 1}}};
constexpr std::array<Pass, 7> adam7 = {{{0, 0, 8, 8},
                                        {4, 0, 8, 8},
                                        {0, 4, 4, 8},
                                        {2, 0, 4, 4},
                                        {0, 2, 2, 4},
                                        {1, 0, 2, 2},
                                        {0, 1, 1, 2}}};

// The passes that contain pixels.
std::vector<Pass> passes_of(const Png& png) {
  std::vector<Pass> list;
  list.reserve(adam7.size());
  const auto every = png.interlaced ? std::span<const Pass>(adam7) : std::span<const Pass>(at_once);
  for (const Pass& pass : every) {
    if (pass.x0 < png.width && pass.y0 < png.height) list.push_back(pass);
  }
  return list;
}

// ---- lines --------------------------------------------------------------------------------------

// The total size of all lines, including filter bytes. Throws FormatError if it exceeds what the
// compressed data can expand to.
std::size_t size_of_lines(const std::string& label, const Png& png) {
  unsigned __int128 size = 0;
  for (const Pass& pass : passes_of(png)) {
    size += static_cast<unsigned __int128>(pass.height(png)) * (pass.row_bytes(png) + 1);
  }
  if (size / most_inflated > png.data_size) {
    damaged(label, "is ", png.width, " wide and ", png.height, " high; its ", png.data_size,
            " compressed bytes cannot hold that");
  }
  return static_cast<std::size_t>(size);
}

// Decompresses all lines. The memory grows with the data decoded, so that a false size claims
// little.
std::vector<std::byte> inflate_lines(const std::string& label, const Png& png, std::size_t size) {
  constexpr std::size_t first_room = 1 << 16;
  std::vector<std::byte> lines;
  std::size_t done = 0;
  Inflater inflater(label, Inflater::Wrapper::zlib);
  bool ended = false;
  Bytes chunks = png.data;
  while (!chunks.empty()) {
    Bytes from = next_png_chunk(label, chunks).data;
    bool more = !from.empty();
    while (more) {
      if (ended) damaged(label, "has ", from.size(), " bytes behind its compressed data");
      if (done == lines.size()) {
        // One extra byte detects surplus data.
        lines.resize(std::min(size + 1, std::max(first_room, 2 * done)));
      }
      std::span<std::byte> into = std::span(lines).subspan(done);
      const std::size_t room = into.size(), given = from.size();
      ended = inflater.inflate(from, into);
      done += room - into.size();
      if (done > size) damaged(label, "has more pixels than its ", png.width, " × ", png.height);
      // If the output is full, the inflater may hold more data: call it again.
      more = !from.empty() || (!ended && into.empty());
      if (room == into.size() && given == from.size()) break;
    }
  }
  if (done != size || !ended) damaged(label, "its compressed data is cut off");
  return lines;
}

unsigned paeth(unsigned left, unsigned up, unsigned corner) {
  const int estimate = static_cast<int>(left) + static_cast<int>(up) - static_cast<int>(corner);
  const auto distance = [&](unsigned value) {
    return std::abs(estimate - static_cast<int>(value));
  };
  const int by_left = distance(left), by_up = distance(up), by_corner = distance(corner);
  if (by_left <= by_up && by_left <= by_corner) return left;
  return by_up <= by_corner ? up : corner;
}

// Adds the filter's prediction from the bytes to the left and above; `above` may be null.
void unfilter(unsigned filter, std::span<std::byte> row, const std::byte* above,
              std::size_t pixel_bytes) {
  const auto at = [&](const std::byte* line, std::size_t i) {
    return line == nullptr ? 0U : std::to_integer<unsigned>(line[i]);
  };
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool first = i < pixel_bytes;
    const unsigned left = first ? 0 : at(row.data(), i - pixel_bytes), up = at(above, i);
    unsigned predicted = 0;
    if (filter == 1) predicted = left;
    if (filter == 2) predicted = up;
    if (filter == 3) predicted = (left + up) / 2;
    if (filter == 4) predicted = paeth(left, up, first ? 0 : at(above, i - pixel_bytes));
    row[i] = static_cast<std::byte>(std::to_integer<unsigned>(row[i]) + predicted);
  }
}

// ---- pixels -------------------------------------------------------------------------------------

class Pixels {
 public:
  Pixels(const std::string& label, const Png& png)
      : label_(label), png_(png), most_((1U << png.depth) - 1) {}

  // Pixel x of a line.
  std::array<std::uint8_t, 3> at(Bytes row, std::size_t x) const {
    std::array<unsigned, 4> sample{};
    const unsigned count = png_.samples();
    for (unsigned i = 0; i < count; ++i) sample[i] = sample_at(row, x * count + i);
    if (png_.colour == Png::indexed) return of_palette(sample[0]);
    const bool own_alpha = png_.colour == Png::gray_alpha || png_.colour == Png::rgb_alpha;
    const unsigned colours = own_alpha ? count - 1 : count;
    unsigned alpha = own_alpha ? sample[colours] : most_;
    if (png_.transparent &&
        std::equal(sample.begin(), sample.begin() + colours, png_.transparent->begin())) {
      alpha = 0;
    }
    std::array<std::uint8_t, 3> pixel{};
    for (unsigned i = 0; i < colours; ++i) pixel[i] = on_black(sample[i], alpha, most_);
    return pixel;
  }

 private:
  unsigned sample_at(Bytes row, std::size_t i) const {
    if (png_.depth == 8) return std::to_integer<unsigned>(row[i]);
    if (png_.depth == 16) {
      return std::to_integer<unsigned>(row[2 * i]) << 8 | std::to_integer<unsigned>(row[2 * i + 1]);
    }
    const std::size_t bit = i * png_.depth;  // samples are packed from the highest bit down
    const auto shift = static_cast<unsigned>(8 - png_.depth - bit % 8);
    return std::to_integer<unsigned>(row[bit / 8]) >> shift & most_;
  }

  std::array<std::uint8_t, 3> of_palette(unsigned index) const {
    if (index >= png_.palette.size()) {
      damaged(label_, "has a pixel of colour ", index, ", its palette has ", png_.palette.size());
    }
    std::array<std::uint8_t, 3> pixel = png_.palette[index];
    if (index < png_.palette_alpha.size()) {
      for (std::uint8_t& value : pixel) value = on_black(value, png_.palette_alpha[index], 255);
    }
    return pixel;
  }

  // Blends a sample of 0 … most on black by alpha and scales it to 0 … 255, with one rounding.
  static std::uint8_t on_black(std::uint64_t sample, std::uint64_t alpha, std::uint64_t most) {
    if (most == 255 && alpha == 255) return static_cast<std::uint8_t>(sample);
    return static_cast<std::uint8_t>((2 * 255 * sample * alpha + most * most) / (2 * most * most));
  }

  const std::string& label_;
  const Png& png_;
  unsigned most_;
};

}  // namespace

Tensor read_png(const std::string& label, Bytes file, std::int64_t max_pixels) {
  if (!is_png(file)) damaged(label, "does not begin as PNG does");
  const Png png = parse_png(label, file);
  const std::size_t size = size_of_lines(label, png);
  check_pixels(label, png.width, png.height, max_pixels);
  std::vector<std::byte> lines = inflate_lines(label, png, size);
  const std::int64_t width = png.width, height = png.height;
  Tensor image =
      detail::make_empty(label.c_str(), {png.channels(), height, width}, DType::uint8, cpu_device);
  auto* to = image.data<std::uint8_t>();
  const Pixels pixels(label, png);
  const std::size_t pixel_bytes = std::max(1U, png.samples() * png.depth / 8);
  std::size_t at = 0;
  for (const Pass& pass : passes_of(png)) {
    const std::byte* above = nullptr;
    const std::size_t bytes = pass.row_bytes(png);
    for (std::int64_t y = pass.y0; y < height; y += pass.dy) {
      const auto filter = std::to_integer<unsigned>(lines[at]);
      if (filter > 4) damaged(label, "line ", y, " has filter ", filter, " (allowed: 0 … 4)");
      const std::span<std::byte> row = std::span(lines).subspan(at + 1, bytes);
      if (filter != 0) unfilter(filter, row, above, pixel_bytes);
      std::size_t column = 0;
      for (std::int64_t x = pass.x0; x < width; x += pass.dx) {
        const auto pixel = pixels.at(row, column++);
        for (std::int64_t c = 0; c < png.channels(); ++c) {
          to[(c * height + y) * width + x] = pixel[static_cast<std::size_t>(c)];
        }
      }
      above = row.data();
      at += bytes + 1;
    }
  }
  return image;
}

}  // namespace extensor::io
