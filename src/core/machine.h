// What the machine has.
#pragma once

#include <cstddef>

namespace extensor::detail {

// Physical memory and swap, or what the container allows of it; asked once.
std::size_t machine_bytes();

}  // namespace extensor::detail
