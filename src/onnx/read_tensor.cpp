// Reads tensors of ONNX files: from the file itself, or from other files in its folder.
#include "onnx/read_tensor.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "core/make_tensor.h"
#include "io/byte_source.h"
#include "io/text.h"
#include "onnx/model.h"

namespace extensor::onnx {

using detail::message;
using io::in_quotes;

namespace {

struct Element {
  DType dtype;
  std::int64_t number;
};
constexpr Element elements[] = {{DType::float32, 1},  {DType::uint8, 2},   {DType::int8, 3},
                                {DType::uint16, 4},   {DType::int16, 5},   {DType::int32, 6},
                                {DType::int64, 7},    {DType::bool_, 9},   {DType::float16, 10},
                                {DType::float64, 11}, {DType::uint32, 12}, {DType::uint64, 13},
                                {DType::bfloat16, 16}};

}  // namespace

std::int64_t type_number(DType dtype) {
  const auto* found = std::ranges::find(elements, dtype, &Element::dtype);
  if (found == std::end(elements)) {
    throw DTypeError(message("export_onnx: a tensor is ", dtype, " (allowed: real dtypes)"));
  }
  return found->number;
}
std::optional<DType> dtype_of_number(std::int64_t number) {
  const auto* found = std::ranges::find(elements, number, &Element::number);
  if (found == std::end(elements)) return std::nullopt;
  return found->dtype;
}
std::string type_text(std::int64_t number) {
  const std::optional<DType> dtype = dtype_of_number(number);
  return dtype ? std::string(extensor::name(*dtype)) : message("type ", number);
}
double decimal_value(float stored) {
  const std::string text = message(stored);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

namespace {

// The values of a tensor in one of the fields that onnx.proto has for them.
struct Values {
  std::vector<std::int64_t> integers, naturals;
  std::vector<std::int64_t> wide;
  std::vector<float> reals;
  std::vector<double> doubles;
  std::optional<std::span<const std::byte>> raw;
};

struct External {
  bool used = false;
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};

template <class T>
std::uint64_t number_of(const WireReader& reader, const char* what, const T& text) {
  const std::string_view digits = text;
  std::uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9' || value > std::numeric_limits<std::int64_t>::max() / 10 - 1) {
      reader.fail("the ", what, " of external data is ", in_quotes(text), ", must be a number");
    }
    value = 10 * value + static_cast<std::uint64_t>(c - '0');
  }
  if (digits.empty()) reader.fail("the ", what, " of external data is empty");
  return value;
}

void read_external_entry(WireReader entry, External& external) {
  std::string key, value;
  while (entry.next()) {
    if (entry.field() == 1) {
      key = entry.text("key");
    } else if (entry.field() == 2) {
      value = entry.text("value");
    } else {
      entry.skip();
    }
  }
  if (key == "location") external.location = value;
  if (key == "offset") external.offset = number_of(entry, "offset", value);
  if (key == "length") external.length = number_of(entry, "length", value);
}

Tensor read_external(const Origin& origin, const WireReader& reader, const std::string& name,
                     const External& external, const Shape& shape, DType dtype,
                     std::uint64_t bytes) {
  const std::string place =
      message("tensor ", in_quotes(name), " is in the file ", in_quotes(external.location));
  if (origin.folder == nullptr) reader.fail(place, ", which was not asked for");
  const std::filesystem::path location = external.location;
  const bool climbs = std::ranges::any_of(location, [](const auto& part) { return part == ".."; });
  if (location.empty() || location.is_absolute() || climbs ||
      external.location.find('\0') != std::string::npos) {
    reader.fail(place, " (allowed: a path inside the folder of the model)");
  }
  const std::filesystem::path path = *origin.folder / location;
  std::error_code failed;
  const std::filesystem::path inside = std::filesystem::canonical(*origin.folder, failed),
                              real = std::filesystem::weakly_canonical(path, failed);
  if (failed ||
      std::mismatch(inside.begin(), inside.end(), real.begin(), real.end()).first != inside.end()) {
    reader.fail(place, ", which leads out of the folder of the model");
  }
  const io::FileSource source("load_onnx", path);
  if (external.length && *external.length != bytes) {
    reader.fail(place, " with ", *external.length, " bytes, but its shape needs ", bytes);
  }
  if (external.offset > source.size() || bytes > source.size() - external.offset) {
    reader.fail(place, " at byte ", external.offset, ", which has ", source.size(),
                " bytes, but its shape needs ", bytes);
  }
  Tensor tensor = detail::make_empty(place.c_str(), shape, dtype, cpu_device);
  source.read(external.offset, io::bytes_of(tensor));
  return tensor;
}

// Stores integers in narrower elements. The bits of a half are an integer.
template <class T>
bool store(const std::vector<std::int64_t>& values, std::byte* into) {
  for (const std::int64_t value : values) {
    const T element = static_cast<T>(value);
    if (static_cast<std::int64_t>(element) != value) return false;
    std::memcpy(into, &element, sizeof element);
    into += sizeof element;
  }
  return true;
}

bool store_integers(DType dtype, const std::vector<std::int64_t>& values, std::byte* into) {
  switch (dtype) {
    case DType::int8:
      return store<std::int8_t>(values, into);
    case DType::int16:
      return store<std::int16_t>(values, into);
    case DType::int32:
      return store<std::int32_t>(values, into);
    case DType::uint8:
    case DType::bool_:
      return store<std::uint8_t>(values, into);
    case DType::uint16:
    case DType::float16:
    case DType::bfloat16:
      return store<std::uint16_t>(values, into);
    case DType::uint32:
      return store<std::uint32_t>(values, into);
    default:  // int64, uint64
      return store<std::int64_t>(values, into);
  }
}

// The field that holds values of the dtype, besides the raw bytes.
const std::vector<std::int64_t>& integers_for(DType dtype, const Values& values) {
  if (dtype == DType::int64) return values.wide;
  if (dtype == DType::uint64 || dtype == DType::uint32) return values.naturals;
  return values.integers;
}

void fill(const WireReader& reader, const std::string& name, const Values& values, Tensor& tensor) {
  const DType dtype = tensor.dtype();
  const std::span<std::byte> into = io::bytes_of(tensor);
  const auto check_count = [&](std::size_t count) {
    if (count == static_cast<std::size_t>(tensor.numel())) return;
    reader.fail("tensor ", in_quotes(name), " has ", count, " values, but shape ", tensor.shape());
  };
  if (into.empty()) return;  // has_bytes() has compared the counts
  if (dtype == DType::float32) {
    check_count(values.reals.size());
    std::memcpy(into.data(), values.reals.data(), into.size());
  } else if (dtype == DType::float64) {
    check_count(values.doubles.size());
    std::memcpy(into.data(), values.doubles.data(), into.size());
  } else {
    const auto& integers = integers_for(dtype, values);
    check_count(integers.size());
    if (!store_integers(dtype, integers, into.data())) {
      reader.fail("tensor ", in_quotes(name), " has a value that ", dtype, " cannot hold");
    }
  }
}

// Whether the message has as many bytes of values as the tensor: no shape makes it allocate more.
bool has_bytes(DType dtype, const Values& values, std::size_t bytes) {
  if (values.raw) return values.raw->size() == bytes;
  const std::size_t count = dtype == DType::float32   ? values.reals.size()
                            : dtype == DType::float64 ? values.doubles.size()
                                                      : integers_for(dtype, values).size();
  return count == bytes / itemsize(dtype);
}

}  // namespace

std::pair<std::string, Tensor> read_tensor(const Origin& origin, WireReader reader) {
  std::string name;
  Shape shape;
  std::vector<std::int64_t> dims;
  std::int64_t type = 0;
  Values values;
  External external;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        reader.integers("dims", dims);
        break;
      case 2:
        type = reader.integer("data_type");
        break;
      case 4:
        reader.reals("float_data", values.reals);
        break;
      case 5:
        reader.integers("int32_data", values.integers);
        break;
      case 7:
        reader.integers("int64_data", values.wide);
        break;
      case 8:
        name = reader.text("name");
        break;
      case 9:
        values.raw = reader.bytes("raw_data");
        break;
      case 10:
        reader.doubles("double_data", values.doubles);
        break;
      case 11:
        reader.integers("uint64_data", values.naturals);
        break;
      case 13:
        read_external_entry(reader.message("external_data"), external);
        break;
      case 14:
        external.used = reader.integer("data_location") == 1;
        break;
      default:  // segment, string_data, doc_string, metadata_props
        if (reader.field() == 3) reader.fail("tensor ", in_quotes(name), " is in segments");
        reader.skip();
    }
  }
  const std::optional<DType> dtype = dtype_of_number(type);
  if (!dtype) {
    reader.fail("tensor ", in_quotes(name), " has data type ", type,
                ", which ExTensor does not have");
  }
  if (dims.size() > 64) reader.fail("tensor ", in_quotes(name), " has ", dims.size(), " axes");
  for (const std::int64_t size : dims) shape.push_back(size);
  const std::string place = message(origin.label, ": tensor ", in_quotes(name));
  const std::size_t bytes = io::byte_count(place, shape, *dtype);
  if (!external.used && !has_bytes(*dtype, values, bytes)) {
    reader.fail("tensor ", in_quotes(name), " of ", *dtype, " has shape ", shape, ", which needs ",
                bytes, " bytes, but its data has another size",
                values.raw ? message(" (", values.raw->size(), ")") : std::string());
  }
  if (external.used) {
    Tensor tensor = read_external(origin, reader, name, external, shape, *dtype, bytes);
    if (*dtype == DType::bool_) io::check_bools(place, io::bytes_of(tensor));
    return {std::move(name), std::move(tensor)};
  }
  Tensor tensor = detail::make_empty(place.c_str(), shape, *dtype, cpu_device);
  if (values.raw) {
    if (bytes != 0) std::memcpy(io::bytes_of(tensor).data(), values.raw->data(), bytes);
  } else {
    fill(reader, name, values, tensor);
  }
  if (*dtype == DType::bool_) io::check_bools(place, io::bytes_of(tensor));
  return {std::move(name), std::move(tensor)};
}

}  // namespace extensor::onnx
