// Converts the system's file errors to this library's exceptions.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "extensor/export.h"

// Exported because the command-line tool uses it.
EXTENSOR_BEGIN_API

namespace extensor::io {

// Throws IoError, or OutOfMemoryError for ENOMEM: "label: what: No such file or directory".
[[noreturn]] void throw_system_error(const std::string& label, std::string_view what, int error);

// Throws ValueError for a path with a NUL byte, where the system would truncate the path.
void check_path(const std::string& label, const std::filesystem::path& path);

// "a directory", "a FIFO", …
std::string_view kind_of_file(mode_t mode);

}  // namespace extensor::io

EXTENSOR_END_API
