// Checkpoints on any source and sink, so that tests can damage them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "extensor/train/checkpoint.h"
#include "io/byte_source.h"
#include "io/file_operations.h"

namespace extensor::train {

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint,
                      io::FileOperations& files);
std::vector<std::byte> checkpoint_bytes(const Checkpoint& checkpoint);
Checkpoint read_checkpoint(const io::ByteSource& source);

}  // namespace extensor::train
