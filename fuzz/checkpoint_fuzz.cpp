#include "extensor/train/checkpoint.h"
#include "fuzz/reader.h"
#include "io/safetensors.h"
#include "train/checkpoint_format.h"

namespace {

using namespace extensor;

fuzz::File sample_file() {
  train::Checkpoint checkpoint;
  checkpoint.tensors = fuzz::sample_tensors();
  checkpoint.numbers = {{"run.step", 12}, {"lr", 0.1}};
  checkpoint.texts = {{"random.seed", "7"}};
  return train::checkpoint_bytes(checkpoint);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  train::Checkpoint checkpoint;
  try {
    const fuzz::AllocationLimit limit(size);
    checkpoint =
        train::read_checkpoint(io::MemorySource("fuzz", std::as_bytes(std::span(data, size))));
  } catch (const Error&) {
    return 0;
  }
  const fuzz::File file = train::checkpoint_bytes(checkpoint);
  const train::Checkpoint again = train::read_checkpoint(io::MemorySource("again", file));
  if (!fuzz::same(again.tensors, checkpoint.tensors) || again.texts != checkpoint.texts ||
      again.numbers.size() != checkpoint.numbers.size()) {
    std::abort();
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = {sample_file()};
  return fuzz::mutate(data, size, most, seed, files);
}
