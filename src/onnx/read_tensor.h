// Reads tensors of ONNX files.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "extensor/tensor.h"
#include "onnx/wire.h"

namespace extensor::onnx {

// The file that is read, and where its external data may be.
struct Origin {
  const std::string& label;
  const std::filesystem::path* folder;
};

// The name of a tensor and its value. Throws FormatError.
std::pair<std::string, Tensor> read_tensor(const Origin& origin, WireReader reader);

}  // namespace extensor::onnx
