// Helpers of the reader fuzzers: arbitrary bytes must produce an error or tensors, and tensors that
// are written must be read back unchanged. Valid files are among the mutations, so no corpus is
// needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "extensor/extensor.h"
#include "fuzz/allocation_limit.h"
#include "io/byte_sink.h"
#include "io/byte_source.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace extensor::fuzz {

using File = std::vector<std::byte>;

inline File file_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A few tensors that every format can hold.
inline NamedTensors sample_tensors() {
  return {{"weight", arange(6, float32).reshape({2, 3})},
          {"count", arange(3)},
          {"mask", tensor({true, false, true})},
          {"half", scalar(0.5, float16)},
          {"none", zeros({2, 0, 3}, int16)}};
}

// Compares every byte, and the shape.
inline bool same(const NamedTensors& a, const NamedTensors& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    const Tensor &s = x.second, &t = y.second;
    return x.first == y.first && s.dtype() == t.dtype() && s.shape() == t.shape() &&
           std::ranges::equal(io::bytes_of(s), io::bytes_of(t));
  });
}

// `read` makes tensors of a source, `write` makes a file of tensors.
template <class Read, class Write>
int check_reader(const std::uint8_t* data, std::size_t size, Read&& read, Write&& write) {
  NamedTensors tensors;
  try {
    const AllocationLimit limit(size);
    tensors = read(io::MemorySource("fuzz", std::as_bytes(std::span(data, size))));
  } catch (const Error&) {
    return 0;
  }
  const File file = write(tensors);
  if (!same(read(io::MemorySource("again", file)), tensors)) std::abort();
  return 0;
}

// Sometimes replaces the fuzzer's input by one of the valid files.
inline std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed,
                          const std::vector<File>& files) {
  if (seed % 256 == 0) {
    const File& file = files[seed / 256 % files.size()];
    if (file.size() <= most) {
      std::memcpy(data, file.data(), file.size());
      return file.size();
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}

}  // namespace extensor::fuzz
