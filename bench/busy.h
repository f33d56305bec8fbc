// Training speed while other processes use the cores.
#pragma once

#include <string>

namespace extensor::bench {

// Prints the time of one epoch of LeNet on 8,000 images next to 0, 1, 2 and 4 busy processes, with
// the default number of threads and with one. Every epoch runs in a separate process.
int print_busy(int rounds);

// Runs one epoch as `who` ("ExTensor" or a peer) and prints its seconds. `threads` 0 means the
// default.
int print_epoch(const std::string& who, int threads);

}  // namespace extensor::bench
