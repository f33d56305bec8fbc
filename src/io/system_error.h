// What the system says of files, as errors of this library.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "extensor/export.h"

// The tool uses it too.
EXTENSOR_BEGIN_API

namespace extensor::io {

// "label: what: No such file or directory". IoError, or OutOfMemoryError for ENOMEM.
[[noreturn]] void throw_system_error(const std::string& label, std::string_view what, int error);

// ValueError for a path with a NUL byte: the system would take what stands before it for the path.
void check_path(const std::string& label, const std::filesystem::path& path);

// "a directory", "a FIFO", …
std::string_view kind_of_file(mode_t mode);

}  // namespace extensor::io

EXTENSOR_END_API
