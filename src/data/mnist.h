// The four IDX files of MNIST, and of all that are named as they are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "extensor/data/images.h"

namespace extensor::data {

// Whether one of them is there.
bool has_idx_splits(const std::filesystem::path& directory);

// Pictures of any size. Labels below the number of classes; without classes, any.
ImageSplits load_idx_splits(const char* operation, const std::filesystem::path& directory,
                            const std::vector<std::string>& classes);

}  // namespace extensor::data
