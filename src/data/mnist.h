// The four IDX files of MNIST and of datasets that use the same file names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "extensor/data/images.h"

namespace extensor::data {

// Whether at least one of the files exists.
bool has_idx_splits(const std::filesystem::path& directory);

// Loads images of any size. Labels must be below the number of classes; without classes, any label
// is allowed.
ImageSplits load_idx_splits(const char* operation, const std::filesystem::path& directory,
                            const std::vector<std::string>& classes);

}  // namespace extensor::data
