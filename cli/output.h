// The standard streams. Untrusted text (file names, class names, metadata) may contain terminal
// sequences, so all output of the tool passes through a buffer that escapes them.
#pragma once

namespace extensor::cli {

// Opens /dev/null in place of closed descriptors 0 to 2: otherwise a file could get one of these
// numbers and receive the tool's output. Writing to a standard output that was closed still fails.
void open_standard_descriptors();

// Makes std::cout and std::cerr escape control characters other than newline and tab.
void escape_output();

// Flushes std::cout. Throws IoError if this or an earlier write failed.
void flush_output();

}  // namespace extensor::cli
