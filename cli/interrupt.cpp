#include "cli/interrupt.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

namespace extensor::cli {

namespace {

constexpr std::array<int, 3> ending = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> first_signal{0};
std::array<std::atomic<bool>, ending.size()> seen{};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// The previous actions, which the destructor restores; SIGPIPE is the last.
std::array<struct sigaction, ending.size() + 1> replaced;

// Limited to async-signal-safe operations: flags, and one write of a fixed line.
void handle(int signal) {
  const int error = errno;
  int none = 0;
  const bool is_first = first_signal.compare_exchange_strong(none, signal);
  for (std::size_t k = 0; k < ending.size(); ++k) {
    if (ending[k] != signal || !seen[k].exchange(true) || signal == SIGHUP) continue;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  constexpr std::string_view text = "\nextensor: ending after this step; again to end at once\n";
  if (is_first) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  }
  errno = error;
}

}  // namespace

InterruptWatch::InterruptWatch() {
  first_signal = 0;
  for (auto& one : seen) one = false;
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t k = 0; k < ending.size(); ++k) {
    sigaction(ending[k], nullptr, &replaced[k]);
    if (replaced[k].sa_handler != SIG_IGN) sigaction(ending[k], &action, nullptr);
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigemptyset(&ignore.sa_mask);
  sigaction(SIGPIPE, &ignore, &replaced.back());
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t k = 0; k < ending.size(); ++k) sigaction(ending[k], &replaced[k], nullptr);
  sigaction(SIGPIPE, &replaced.back(), nullptr);
}

int InterruptWatch::signal() { return first_signal; }

}  // namespace extensor::cli
