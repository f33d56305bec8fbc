// Checks of values that only kernels see: indices, and probabilities of a loss. A kernel notes the
// first invalid value. On the CPU the op reads the note when the kernel returns. Another device
// keeps it, and throws the same error at the next point where the host waits for it.
#pragma once

#include <cstdint>
#include <optional>

#include "extensor/dtype.h"
#include "extensor/export.h"
#include "extensor/shape.h"

// Device libraries use these functions.
EXTENSOR_BEGIN_API

namespace extensor::backend {

// The allowed values, and the words for them in messages.
struct ValueCheck {
  enum class Kind : std::uint8_t {
    index,          // IndexError
    divisor,        // ValueError for an integer divisor of 0
    exponent,       // ValueError for a negative integer exponent
    shift,          // ValueError for a shift below 0 or beyond the width
    unit_interval,  // ValueError for a number outside 0 … 1
    invertible,     // ValueError for a singular matrix; `shape` is that of the batch
    positive,       // ValueError for a matrix that is not positive-definite; likewise
  };
  Kind kind = Kind::index;
  const char* operation = "";
  const char* argument = "indices";  // the argument that holds them
  const char* counted = nullptr;     // the things that indices count, such as "classes";
  std::int64_t axis = 0;             // or the axis that they index,
  std::int64_t size = 0;             // and its size; the width of shifted integers
  bool from_end = false;             // also allow −size … −1
  DType dtype = DType::int64;        // of the values
  Shape shape = {};                  // of the argument
};

// The first invalid value.
struct CheckReport {
  std::uint32_t check = 0;    // the number passed in the call
  std::int64_t position = 0;  // row-major, in the argument
  std::uint64_t bits = 0;     // the value as int64, as uint64 if it is one, or as double
};

// The number of a check, not 0, for calls on a device other than the CPU. Equal checks share one
// number. The strings are copied.
std::uint32_t check_number(const ValueCheck& check);
// The number for calls on the CPU, where the op knows the check and throws.
inline constexpr std::uint32_t immediate_check = 1;

// For CPU kernels, on the thread that calls them: notes a value. The first note stays.
void note(const CheckReport& report);
// Returns and clears the note of this thread.
std::optional<CheckReport> take_note();

[[noreturn]] void throw_not_allowed(const ValueCheck& check, const CheckReport& report);
// For devices: throws the error of a report with a number from check_number().
[[noreturn]] void throw_reported(const CheckReport& report);

}  // namespace extensor::backend

EXTENSOR_END_API
