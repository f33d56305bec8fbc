// Files of tensors, whatever their format.
#pragma once

#include <extensor/extensor.h>

#include <filesystem>

namespace extensor::cli {

struct TensorFile {
  NamedTensors tensors;
  Metadata metadata;  // of safetensors
};

// By its ending: .safetensors, .npy, .npz; a run's directory is its weights. ValueError for
// another.
TensorFile load_tensors(const std::filesystem::path& path);

}  // namespace extensor::cli
