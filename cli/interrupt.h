// Signals that end a run, noticed between two steps so that it ends with a checkpoint.
#pragma once

namespace extensor::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP (a terminal that was closed) are remembered. A second
// SIGINT or SIGTERM ends the program; a closed terminal may send SIGHUP more than once, and it
// never does. SIGPIPE is ignored: a reader of the messages that is gone must not end a run. A
// signal that was ignored when the program began, by nohup or in the background, stays ignored.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();
  // The first signal that came, or 0.
  static int signal();
  static bool requested() { return signal() != 0; }
};

}  // namespace extensor::cli
