// The log of op calls that the environment variable EXTENSOR_LOG asks for.
#pragma once

namespace extensor::ops {

// EXTENSOR_LOG=ops writes a line for every op that the main thread calls to standard error, and
// EXTENSOR_LOG=ops:FILE appends it to a file. Called when the library is loaded, in which no
// exception may be thrown: a value that cannot be used is reported on standard error.
bool start_call_log() noexcept;

}  // namespace extensor::ops
