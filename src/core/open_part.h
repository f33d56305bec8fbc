// Finds and opens the optional parts of the library, such as libextensor_cuda.so.
#pragma once

#include <string>

namespace extensor::detail {

// Opens `file_name`, which lies beside libextensor or the program or where the system looks for
// libraries; the environment variable may name another path. Returns the handle of dlopen, or null
// and the reason, which names the CMake setting that builds the part.
void* open_part(const char* file_name, const char* variable, const char* setting,
                std::string& reason);

// The directory of libextensor.so, or of the program that contains the library, with a slash at its
// end; empty if it is unknown.
std::string own_directory();

}  // namespace extensor::detail
