// The standard streams. Text from outside (file names, class names, metadata) may hold terminal
// sequences, so everything that the tool prints passes through a buffer that escapes them.
#pragma once

namespace extensor::cli {

// Opens /dev/null in place of closed descriptors 0 to 2: a file that got one of their numbers would
// receive what is printed. Writing to a standard output that was closed still fails.
void open_standard_descriptors();

// Makes std::cout and std::cerr escape control characters other than newline and tab.
void escape_output();

// Writes what std::cout still holds. IoError where it cannot be written, now or before.
void flush_output();

}  // namespace extensor::cli
