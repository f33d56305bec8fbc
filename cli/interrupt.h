// Ctrl-C, noticed between two steps.
#pragma once

namespace extensor::cli {

// While it lives, the first SIGINT or SIGTERM is remembered, the second ends the program.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();
  static bool requested();
};

}  // namespace extensor::cli
