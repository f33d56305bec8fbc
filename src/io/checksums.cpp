#include "io/checksums.h"

#include <zlib.h>

#include <algorithm>
#include <span>

#include "core/check.h"
#include "io/byte_source.h"
#include "io/check_tensors.h"
#include "io/text.h"

namespace extensor::io {

using detail::message;

namespace {

class Crc {
 public:
  void add(std::span<const std::byte> bytes) {
    crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  std::string text() const {
    std::string digits(8, '0');
    for (std::size_t k = 0; k < 8; ++k) {
      digits[k] = "0123456789abcdef"[crc_ >> (28 - 4 * k) & 15];
    }
    return digits;
  }

 private:
  uLong crc_ = ::crc32(0, nullptr, 0);
};

std::string checksum_of(const std::string& name, const Tensor& tensor) {
  Crc crc;
  crc.add(message(name, '\0', tensor.dtype(), tensor.shape()));
  const Tensor elements = dense(tensor);
  // crc32_z returns the initial value for a null address, which an empty tensor may have.
  if (elements.nbytes() != 0) crc.add(bytes_of(elements));
  return crc.text();
}

std::string tensor_key(std::string_view key, std::string_view name) {
  return message(key, '.', name);
}

// Covers all metadata except this checksum.
std::string checksum_of(std::string_view key, const Metadata& metadata) {
  Crc crc;
  for (const auto& [name, value] : metadata) {
    if (name != key) crc.add(message(name, '\0', value, '\0'));
  }
  return crc.text();
}

const std::string* find(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

}  // namespace

void add_checksums(std::string_view key, const NamedTensors& tensors, Metadata& metadata) {
  for (const auto& [name, tensor] : tensors) {
    metadata[tensor_key(key, name)] = checksum_of(name, tensor);
  }
  metadata[std::string(key)] = checksum_of(key, metadata);
}

bool has_checksums(std::string_view key, const Metadata& metadata) {
  const std::string begin = tensor_key(key, "");
  return std::ranges::any_of(metadata, [&](const auto& pair) {
    return pair.first == key || pair.first.starts_with(begin);
  });
}

void check_checksums(std::string_view key, const std::string& label, const Safetensors& file) {
  const std::string* sum = find(file.metadata, std::string(key));
  const std::string actual = checksum_of(key, file.metadata);
  if (sum == nullptr || *sum != actual) {
    damaged(label, "the metadata is damaged: its checksum is ", actual, ", not ",
            sum == nullptr ? "there" : in_quotes(*sum));
  }
  std::size_t sums = 0;
  const std::string begin = tensor_key(key, "");
  for (const auto& [name, value] : file.metadata) sums += name.starts_with(begin) ? 1 : 0;
  for (const auto& [name, tensor] : file.tensors) {
    const std::string* expected = find(file.metadata, tensor_key(key, name));
    const std::string found = checksum_of(name, tensor);
    if (expected == nullptr || *expected != found) {
      damaged(label, "tensor ", in_quotes(name), " is damaged: its checksum is ", found, ", not ",
              expected == nullptr ? "there" : in_quotes(*expected));
    }
  }
  if (sums != file.tensors.size()) {
    damaged(label, "has ", file.tensors.size(), " tensors, and checksums of ", sums);
  }
}

void remove_checksums(std::string_view key, Metadata& metadata) {
  const std::string begin = tensor_key(key, "");
  std::erase_if(metadata, [&](const auto& pair) {
    return pair.first == key || pair.first.starts_with(begin);
  });
}

}  // namespace extensor::io
