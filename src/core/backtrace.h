// Stack traces of errors.
#pragma once

#include <string>

namespace extensor::detail {

// The calls that led here, innermost first, one per line: "  #0 extensor::matmul(…)". Functions
// without a name in the symbol tables appear as file+offset, which addr2line translates. Leaves out
// the innermost `skip` calls.
std::string stack_trace(int skip);

// Whether the environment variable EXTENSOR_BACKTRACE asks for stack traces.
bool traces_wanted();

}  // namespace extensor::detail
