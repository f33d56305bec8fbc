#include "io/npy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/make_tensor.h"
#include "extensor/io.h"
#include "io/atomic_file.h"
#include "io/byte_order.h"
#include "io/check_tensors.h"
#include "io/text.h"

namespace extensor {

namespace io {

using detail::message;

namespace {

constexpr std::string_view magic("\x93NUMPY", 6);
// The maximum of version 1.0, far more than a shape needs.
constexpr std::uint32_t longest_header = 65535;

NpyHeader read_header(ByteStream& stream) {
  std::array<char, 8> start{};
  stream.read(std::as_writable_bytes(std::span(start)), "the magic string and version");
  const std::string_view found(start.data(), magic.size());
  if (found != magic) {
    damaged(stream.label(), "begins with ", in_quotes(found), " (allowed: ", in_quotes(magic), ")");
  }
  const auto major = static_cast<unsigned char>(start[6]);
  const auto minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    damaged(stream.label(), "is version ", major, ".", minor, " (allowed: 1.0, 2.0, 3.0)");
  }
  std::uint32_t length = 0;
  stream.read(std::as_writable_bytes(std::span(&length, 1)).first(major == 1 ? 2 : 4),
              "the header's length");
  if (length > longest_header || length > stream.left()) {
    damaged(stream.label(), "the header's length is ", length, " (allowed: at most ",
            longest_header, " and the ", stream.left(), " bytes that follow)");
  }
  std::string text(length, '\0');
  stream.read(std::as_writable_bytes(std::span(text)), "the header");
  return parse_npy_header(stream.label(), text);
}

}  // namespace

Tensor read_npy(ByteStream& stream) {
  const std::string& label = stream.label();
  NpyHeader header = read_header(stream);
  const std::size_t bytes = byte_count(label, header.shape, header.dtype);
  if (bytes != stream.left()) {
    damaged(label, "has ", stream.left(), " bytes of elements, shape ", header.shape, " of ",
            header.dtype, " needs ", bytes);
  }
  if (header.fortran_order) std::reverse(header.shape.begin(), header.shape.end());
  Tensor tensor = detail::make_empty(label.c_str(), header.shape, header.dtype, cpu_device);
  stream.read(bytes_of(tensor), "the elements");
  if (header.dtype == DType::bool_) check_bools(label, bytes_of(tensor));
  if (header.big_endian) {
    reverse_bytes(bytes_of(tensor), itemsize(real_dtype(header.dtype)));
  }
  return header.fortran_order ? tensor.transpose().contiguous() : tensor;
}

std::string npy_preamble(const std::string& label, const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::bfloat16) {
    throw FormatError(message(label,
                              ": NumPy's format has no bfloat16 (save_safetensors has, or "
                              "convert it by to(float32))"));
  }
  const char kind = dtype == DType::bool_        ? 'b'
                    : is_signed_integer(dtype)   ? 'i'
                    : is_unsigned_integer(dtype) ? 'u'
                    : is_complex(dtype)          ? 'c'
                                                 : 'f';
  const std::size_t item = itemsize(dtype);
  std::string sizes;
  for (const std::int64_t size : tensor.shape()) {
    sizes += message(size, tensor.ndim() == 1 ? "," : ", ");
  }
  if (tensor.ndim() > 1) sizes.resize(sizes.size() - 2);
  std::string text = message("{'descr': '", item == 1 ? '|' : '<', kind, item,
                             "', 'fortran_order': False, 'shape': (", sizes, "), }");
  // The header ends with a newline, and the elements begin at a multiple of 64.
  constexpr std::size_t before = 10;
  text.append(63 - (before + text.size()) % 64, ' ');
  text += '\n';
  const auto length = static_cast<std::uint16_t>(text.size());
  std::string preamble(magic);
  preamble += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return preamble + text;
}

void write_npy(ByteSink& sink, const std::string& label, const Tensor& tensor) {
  sink.write(npy_preamble(label, tensor));
  const Tensor elements = dense(tensor);
  sink.write(bytes_of(elements));
}

}  // namespace io

void save_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const std::string label = detail::message("save_npy: ", io::in_quotes(path.native()));
  io::check_tensors(label + ": the tensor", tensor);
  io::npy_preamble(label, tensor);
  io::AtomicFile file("save_npy", path);
  io::write_npy(file, label, tensor);
  file.commit();
}

Tensor load_npy(const std::filesystem::path& path) {
  const io::FileSource file("load_npy", path);
  io::SourceStream stream(file);
  return io::read_npy(stream);
}

}  // namespace extensor
