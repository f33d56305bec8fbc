// Handles signals that end a run. They take effect between two steps, so that the run ends with a
// checkpoint.
#pragma once

namespace extensor::cli {

// During its lifetime, SIGINT, SIGTERM and SIGHUP (a closed terminal) are recorded. A second SIGINT
// or SIGTERM ends the program; SIGHUP never does, because a closed terminal may send it more than
// once. SIGPIPE is ignored: a run must not end because the reader of its messages has exited.
// Signals that were ignored when the program began, by nohup or in the background, stay ignored.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();
  // The first signal received, or 0.
  static int signal();
  static bool requested() { return signal() != 0; }
};

}  // namespace extensor::cli
