#include "io/safetensors.h"

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/make_tensor.h"
#include "io/atomic_file.h"
#include "io/check_tensors.h"
#include "io/checksums.h"
#include "io/text.h"

namespace extensor {

namespace io {

using detail::message;

namespace {

std::string place_of(const ByteSource& source, const SafetensorsEntry& entry) {
  return message(source.label(), ": tensor ", in_quotes(entry.name));
}

// A tensor in the mapping's memory. The mapping lives until the last such tensor is destroyed.
Tensor on_mapping(const std::shared_ptr<Mapping>& mapping, std::byte* data,
                  const SafetensorsEntry& entry) {
  auto owner = std::make_unique<std::shared_ptr<Mapping>>(mapping);
  StoragePointer storage = wrap_storage(
      data, static_cast<std::size_t>(entry.end - entry.begin), cpu_device,
      [](void* context) { delete static_cast<std::shared_ptr<Mapping>*>(context); }, owner.get());
  static_cast<void>(owner.release());
  return detail::make_on_storage(std::move(storage), data, entry.dtype, entry.shape,
                                 detail::contiguous_strides(entry.shape));
}

std::string as_json(const std::string& text) { return nlohmann::json(text).dump(); }

void append_header(std::string& header, std::string_view& comma, std::string_view part) {
  header += message(comma, part);
  comma = ",";
}

// The header is padded with spaces so that the data begins at a multiple of 8.
std::string header_of(const NamedTensors& tensors, const Metadata& metadata) {
  std::string header = "{";
  std::string_view comma;
  if (!metadata.empty()) {
    std::string pairs;
    std::string_view between;
    for (const auto& [key, value] : metadata) {
      append_header(pairs, between, message(as_json(key), ":", as_json(value)));
    }
    append_header(header, comma, message("\"__metadata__\":{", pairs, "}"));
  }
  std::uint64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    std::string sizes;
    std::string_view between;
    for (const std::int64_t size : tensor.shape()) append_header(sizes, between, message(size));
    const std::uint64_t end = begin + tensor.nbytes();
    append_header(header, comma,
                  message(as_json(name), ":{\"dtype\":\"", safetensors_name(tensor.dtype()),
                          "\",\"shape\":[", sizes, "],\"data_offsets\":[", begin, ",", end, "]}"));
    begin = end;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

}  // namespace

Safetensors read_safetensors(const ByteSource& source) {
  SafetensorsHeader header = read_safetensors_header(source);
  Safetensors result{{}, std::move(header.metadata)};
  for (SafetensorsEntry& entry : header.entries) {
    const std::string place = place_of(source, entry);
    Tensor tensor = detail::make_empty(place.c_str(), entry.shape, entry.dtype, cpu_device);
    source.read(header.data_begin + entry.begin, bytes_of(tensor));
    if (entry.dtype == DType::bool_) check_bools(place, bytes_of(tensor));
    result.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return result;
}

Safetensors map_safetensors(const FileSource& file) {
  SafetensorsHeader header = read_safetensors_header(file);
  const auto mapping = std::make_shared<Mapping>(file);
  Safetensors result{{}, std::move(header.metadata)};
  for (SafetensorsEntry& entry : header.entries) {
    std::byte* data = mapping->data() + header.data_begin + entry.begin;
    const auto bytes = static_cast<std::size_t>(entry.end - entry.begin);
    if (entry.dtype == DType::bool_) check_bools(place_of(file, entry), {data, bytes});
    Tensor tensor;
    if (bytes == 0 || reinterpret_cast<std::uintptr_t>(data) % itemsize(entry.dtype) != 0) {
      tensor =
          detail::make_empty(place_of(file, entry).c_str(), entry.shape, entry.dtype, cpu_device);
      if (bytes != 0) std::memcpy(tensor.impl().data, data, bytes);
    } else {
      tensor = on_mapping(mapping, data, entry);
    }
    result.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return result;
}

void check_safetensors(const std::string& label, const NamedTensors& tensors,
                       const Metadata& metadata) {
  check_tensors(label, tensors);
  for (const auto& [name, tensor] : tensors) {
    safetensors_name(tensor.dtype());  // refuses a dtype that the format lacks
    if (name == "__metadata__") {
      throw ValueError(message(label,
                               ": a tensor is named '__metadata__', which the format keeps "
                               "for itself"));
    }
  }
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value)) {
      throw ValueError(message(label, ": metadata ", in_quotes(key), " is ", in_quotes(value),
                               " (allowed: UTF-8)"));
    }
  }
}

void write_safetensors(ByteSink& sink, const NamedTensors& tensors, const Metadata& metadata) {
  const std::string header = header_of(tensors, metadata);
  const std::uint64_t length = header.size();
  sink.write(std::as_bytes(std::span(&length, 1)));
  sink.write(header);
  for (const auto& [name, tensor] : tensors) {
    const Tensor elements = dense(tensor);
    sink.write(bytes_of(elements));
  }
}

}  // namespace io

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const Metadata& metadata, const SafetensorsSaveOptions& options) {
  io::check_safetensors("save_safetensors", tensors, metadata);
  Metadata written = metadata;
  // Stale checksums of other tensors would make the file unreadable.
  io::remove_checksums(io::weights_checksum, written);
  if (options.checksums) io::add_checksums(io::weights_checksum, tensors, written);
  io::AtomicFile file("save_safetensors", path);
  io::write_safetensors(file, tensors, written);
  file.commit();
}

Safetensors load_safetensors(const std::filesystem::path& path, const SafetensorsOptions& options) {
  const io::FileSource source("load_safetensors", path);
  Safetensors file = options.mmap ? io::map_safetensors(source) : io::read_safetensors(source);
  if (options.verify && io::has_checksums(io::weights_checksum, file.metadata)) {
    io::check_checksums(io::weights_checksum, source.label(), file);
  }
  io::remove_checksums(io::weights_checksum, file.metadata);
  return file;
}

}  // namespace extensor
