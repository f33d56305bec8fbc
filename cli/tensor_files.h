// Reads files of tensors in any supported format.
#pragma once

#include <extensor/extensor.h>

#include <filesystem>

namespace extensor::cli {

struct TensorFile {
  NamedTensors tensors;
  Metadata metadata;  // only of safetensors
};

// Chooses the format by extension: .safetensors, .npy or .npz; for a run's directory, loads its
// weights. Throws ValueError for any other.
TensorFile load_tensors(const std::filesystem::path& path);

}  // namespace extensor::cli
