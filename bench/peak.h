// The most memory a piece of work takes, measured in a process of its own.
#pragma once

#include <string>

namespace extensor::bench {

// Runs this program once more, to do `op` as "ExTensor" or as a peer does it; 0 where that fails.
double peak_bytes(const std::string& who, const std::string& op);

// What that program does: three times the work, then the growth of the resident set on stdout.
int print_peak(const std::string& who, const std::string& op, int threads);

// Of this process, now.
double resident_bytes();

// The number that this program prints when it runs once more with these arguments; 0 if that fails.
double number_printed_with(const std::string& arguments);

}  // namespace extensor::bench
