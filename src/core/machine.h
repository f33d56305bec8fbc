// The resources of the machine that this process may use.
#pragma once

#include <cstddef>
#include <string>

namespace extensor::detail {

// Physical memory and swap, or the part that the container allows. Determined once.
std::size_t machine_bytes();

constexpr int most_threads = 1024;

// The default number of threads: EXTENSOR_NUM_THREADS, else OMP_NUM_THREADS, else the processors
// that affinity and control groups leave to this process. Determined once. Throws ValueError if
// EXTENSOR_NUM_THREADS is not a number from 1 to 1024.
int default_threads();

// The processors that the control groups of a process allow: the least quota on the path from its
// group to the root, or infinity without one. `membership` is the text of /proc/self/cgroup and
// `root` the directory where control groups are mounted. Reads versions 1 and 2.
double processor_quota(const std::string& membership, const std::string& root);

}  // namespace extensor::detail
