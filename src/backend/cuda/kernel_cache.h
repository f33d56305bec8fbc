// Compiled kernels in files: $EXTENSOR_CACHE, $XDG_CACHE_HOME/extensor or ~/.cache/extensor. The
// files may be deleted at any time. A directory that cannot be written, or a damaged file, costs
// only the time to compile again.
#pragma once

#include <optional>
#include <string>

namespace extensor::backend::cuda {

// The kernel that was stored under the key; none if there is no intact file of it.
std::optional<std::string> load_kernel(const std::string& key);

// Replaces the file at once, so that no other process reads a part of it.
void store_kernel(const std::string& key, const std::string& kernel);

}  // namespace extensor::backend::cuda
