// Records of CIFAR-10 and CIFAR-100; the first byte selects the format.
#include "data/cifar.h"

#include "fuzz/data_reader.h"

namespace {

using namespace extensor;

// The records that the data was read from, rebuilt; the coarse labels are not kept.
bool is_what_was_read(const data::LabelledImages& set, std::span<const std::uint8_t> bytes,
                      std::size_t labels) {
  const std::size_t record = labels + 3072;
  const auto* pixels = set.images.data<std::uint8_t>();
  const auto* label = set.labels.data<std::int64_t>();
  for (std::size_t i = 0; i < bytes.size() / record; ++i) {
    const auto one = bytes.subspan(i * record, record);
    if (label[i] != one[labels - 1] ||
        !std::ranges::equal(one.subspan(labels), std::span(pixels + i * 3072, 3072))) {
      return false;
    }
  }
  return set.labels.numel() == static_cast<std::int64_t>(bytes.size() / record);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool hundred = data[0] % 2 == 1;
  const std::span<const std::uint8_t> bytes(data + 1, size - 1);
  const io::MemorySource source("fuzz", std::as_bytes(bytes));
  const io::ByteSource* only = &source;
  try {
    data::LabelledImages set;
    {
      const fuzz::AllocationLimit limit(size);
      set = io::read_cifar({&only, 1}, hundred ? io::cifar100 : io::cifar10);
    }
    if (!is_what_was_read(set, bytes, hundred ? 2 : 1)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = {
      fuzz::file_of(std::string("\0\3", 2) + std::string(3072, 'x')),
      fuzz::file_of("\1\2\3" + std::string(3072, 'x')),
      fuzz::file_of(std::string(1, '\0') + std::string(2 * 3073, '\1'))};
  return fuzz::mutate(data, size, most, seed, files);
}
