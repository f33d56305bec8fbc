// The peak memory of a piece of work, measured in a separate process.
#pragma once

#include <string>

namespace extensor::bench {

// Runs this program again, to do `op` as "ExTensor" or as a peer; 0 if that fails.
double peak_bytes(const std::string& who, const std::string& op);

// The body of that program: does the work three times, then prints the growth of the resident set.
int print_peak(const std::string& who, const std::string& op, int threads);

// Resident bytes of this process, now.
double resident_bytes();

// The number that this program prints when run again with these arguments; 0 if that fails.
double number_printed_with(const std::string& arguments);

}  // namespace extensor::bench
