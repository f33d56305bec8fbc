#include "data/idx.h"

#include <algorithm>
#include <array>
#include <memory>

#include "core/make_tensor.h"
#include "data/gzip.h"
#include "extensor/data/readers.h"
#include "io/byte_order.h"

namespace extensor {

namespace io {

namespace {

struct Header {
  DType dtype = DType::uint8;
  Shape shape;
  std::size_t bytes = 0;  // size of the elements
};

DType dtype_of_code(const std::string& label, unsigned code) {
  switch (code) {
    case 0x08:
      return DType::uint8;
    case 0x09:
      return DType::int8;
    case 0x0b:
      return DType::int16;
    case 0x0c:
      return DType::int32;
    case 0x0d:
      return DType::float32;
    case 0x0e:
      return DType::float64;
    default:
      damaged(label, "its elements are of kind ", code,
              " (allowed: 8 uint8, 9 int8, 11 int16, 12 int32, 13 float32, 14 float64)");
  }
}

// `read` fills a span with the next bytes, or throws FormatError that names them.
template <class Read>
Header read_header(const std::string& label, Read&& read) {
  std::array<std::byte, 4> word{};
  read(std::span(word), "the magic number");
  if (big_endian<std::uint16_t>(word) != 0) {
    damaged(label, "begins with ", std::to_integer<unsigned>(word[0]), ", ",
            std::to_integer<unsigned>(word[1]), " (allowed: 0, 0 as IDX or 31, 139 as gzip)");
  }
  Header header;
  header.dtype = dtype_of_code(label, std::to_integer<unsigned>(word[2]));
  const auto rank = std::to_integer<unsigned>(word[3]);
  for (unsigned axis = 0; axis < rank; ++axis) {
    read(std::span(word), "the dimensions");
    header.shape.push_back(big_endian<std::uint32_t>(word));
  }
  header.bytes = byte_count(label, header.shape, header.dtype);
  return header;
}

Tensor read_plain(const ByteSource& source) {
  SourceStream stream(source);
  const Header header =
      read_header(source.label(),
                  [&](std::span<std::byte> into, const char* what) { stream.read(into, what); });
  if (header.bytes != stream.left()) {
    damaged(source.label(), "has ", stream.left(), " bytes of elements, shape ", header.shape,
            " of ", header.dtype, " needs ", header.bytes);
  }
  Tensor tensor =
      detail::make_empty(source.label().c_str(), header.shape, header.dtype, cpu_device);
  stream.read(bytes_of(tensor), "the elements");
  return tensor;
}

// The memory grows with the data decoded, so that a false header claims little: the tensor is
// allocated after half of its elements were decoded.
Tensor read_elements(const std::string& label, const Header& header, GzipStream& stream) {
  const auto read = [&](std::span<std::byte> into, std::size_t from) {
    const std::size_t count = stream.read(into.subspan(from));
    if (from + count != into.size()) {
      damaged(label, "has ", from + count, " bytes of elements, shape ", header.shape, " of ",
              header.dtype, " needs ", header.bytes);
    }
  };
  constexpr std::size_t first_room = 1 << 18;
  std::unique_ptr<std::byte[]> decoded;
  std::size_t size = 0;
  for (std::size_t room = first_room; 2 * size < header.bytes && room < header.bytes; room *= 2) {
    auto more = std::make_unique_for_overwrite<std::byte[]>(room);
    std::copy_n(decoded.get(), size, more.get());
    decoded = std::move(more);
    read({decoded.get(), room}, size);
    size = room;
  }
  Tensor tensor = detail::make_empty(label.c_str(), header.shape, header.dtype, cpu_device);
  std::copy_n(decoded.get(), size, bytes_of(tensor).data());
  read(bytes_of(tensor), size);
  return tensor;
}

Tensor read_compressed(const ByteSource& source) {
  const std::string& label = source.label();
  GzipStream stream(source);
  const Header header = read_header(label, [&](std::span<std::byte> into, const char* what) {
    if (stream.read(into) != into.size()) damaged(label, "ends within ", what);
  });
  if (header.bytes / most_inflated > source.size()) {
    damaged(label, "shape ", header.shape, " of ", header.dtype, " needs ", header.bytes,
            " bytes, its ", source.size(), " compressed ones hold at most ",
            source.size() * most_inflated);
  }
  Tensor tensor = read_elements(label, header, stream);
  std::byte more{};
  if (stream.read({&more, 1}) != 0) {
    damaged(label, "has more than the ", header.bytes, " bytes that shape ", header.shape, " of ",
            header.dtype, " needs");
  }
  return tensor;
}

}  // namespace

Tensor read_idx(const ByteSource& source) {
  Tensor tensor = is_gzip(source) ? read_compressed(source) : read_plain(source);
  reverse_bytes(bytes_of(tensor), tensor.itemsize());
  return tensor;
}

}  // namespace io

namespace data {

Tensor load_idx(const std::filesystem::path& path) {
  return io::read_idx(io::FileSource("load_idx", path));
}

}  // namespace data

}  // namespace extensor
