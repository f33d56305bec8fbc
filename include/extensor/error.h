// The exceptions of ExTensor. All derive from Error; the message names the op, the argument, the
// value and the allowed values.
#pragma once

#include <stdexcept>
#include <string>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The environment variable EXTENSOR_BACKTRACE=1 adds a stack trace to the message. An error inside
// a module names the path of the module and the shapes of its inputs.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
  explicit Error(const char* message);
};

// Shapes that do not fit together, or a shape that cannot exist.
class ShapeError : public Error {
 public:
  using Error::Error;
};

// A dtype for which the operation is not defined, or two without a common dtype.
class DTypeError : public Error {
 public:
  using Error::Error;
};

// An axis or an index out of range.
class IndexError : public Error {
 public:
  using Error::Error;
};

// Tensors on different devices, or a device that is not available.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// An argument whose value is not allowed: step 0, integer division by 0, lo > hi.
class ValueError : public Error {
 public:
  using Error::Error;
};

// A file whose contents violate its format.
class FormatError : public Error {
 public:
  using Error::Error;
};

// The operating system refused to read or write.
class IoError : public Error {
 public:
  using Error::Error;
};

// An allocation beyond the machine's memory or the configured limit.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

}  // namespace extensor

EXTENSOR_END_API
