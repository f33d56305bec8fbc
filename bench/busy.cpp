#include "busy.h"

#include <extensor/extensor.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "peak.h"
#include "peers.h"

namespace extensor::bench {

namespace {

// Processes that use one core each, until this process ends or destroys them.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile unsigned n = 0;;) n = n + 1;
      }
      children_.push_back(child);
    }
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;
  ~BusyProcesses() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

// Seconds of an epoch in a separate process.
double epoch_seconds(const std::string& who, int threads) {
  return number_printed_with("--epoch " + who + " " + std::to_string(threads));
}

struct Times {
  std::vector<double> all;
  double median() const {
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
  double worst() const { return all.empty() ? 0 : *std::max_element(all.begin(), all.end()); }
};

void print_situation(const std::string& who, int busy, int rounds) {
  Times several, one;
  const BusyProcesses processes(busy);
  for (int round = 0; round < rounds; ++round) {
    several.all.push_back(epoch_seconds(who, 0));
    one.all.push_back(epoch_seconds(who, 1));
  }
  std::printf("%-10s %4d %12.2f %12.2f %12.2f %12.2f\n", who.c_str(), busy, several.median(),
              several.worst(), one.median(), several.worst() / one.median());
  std::fflush(stdout);
}

}  // namespace

int print_busy(int rounds) {
  std::printf("One epoch of LeNet on 8,000 images, seconds; %d rounds, interleaved.\n", rounds);
  std::printf("%-10s %4s %12s %12s %12s %12s\n", "", "busy", "default", "worst", "1 thread",
              "worst/1");
  for (const int busy : {0, 1, 2, 4}) print_situation("ExTensor", busy, rounds);
  if (epoch_seconds("PyTorch", 0) == 0) return 0;  // it is missing
  for (const int busy : {0, 1, 2}) print_situation("PyTorch", busy, 1);
  return 0;
}

int print_epoch(const std::string& who, int threads) {
  constexpr int steps = 125;  // of 64 images
  const Task task{.op = "train_lenet"};
  const int default_count = static_cast<int>(std::thread::hardware_concurrency());
  const Peer* peer = load_peer(who, threads > 0 ? threads : default_count);
  if (peer == nullptr && who != "ExTensor") return 1;
  if (peer == nullptr && threads > 0) set_num_threads(threads);
  const Work work = peer != nullptr ? peer->make(task) : extensor_work(task);
  if (!work) return 1;
  work();
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) work();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  std::printf("%.4f\n", spent.count());
  return 0;
}

}  // namespace extensor::bench
