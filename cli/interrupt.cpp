#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

namespace extensor::cli {

namespace {

std::atomic<bool> was_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// Only what a signal handler may do: a flag, and a line written as it stands.
void handle(int signal) {
  if (was_requested.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  constexpr std::string_view text = "\nextensor: ending after this step; again to end at once\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

InterruptWatch::InterruptWatch() {
  was_requested = false;
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

InterruptWatch::~InterruptWatch() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptWatch::requested() { return was_requested; }

}  // namespace extensor::cli
