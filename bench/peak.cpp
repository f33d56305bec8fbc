#include "peak.h"

#include <extensor/extensor.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "cases.h"
#include "peers.h"

namespace extensor::bench {

namespace {

// A line of /proc/self/status, in bytes.
double status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return 1024 * std::stod(line.substr(name.size() + 1));
  }
  return 0;
}

}  // namespace

double resident_bytes() { return status_bytes("VmRSS"); }

double number_printed_with(const std::string& arguments) {
  const std::string command = "'" + std::string(EXTENSOR_BENCH_SELF) + "' " + arguments;
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  double number = 0;
  if (output == nullptr || std::fscanf(output.get(), "%lf", &number) != 1) return 0;
  return number;
}

double peak_bytes(const std::string& who, const std::string& op) {
  return number_printed_with("--peak " + who + " " + op);
}

int print_peak(const std::string& who, const std::string& op, int threads) {
  set_num_threads(threads);
  Task task;
  task.op = op;
  const Peer* peer = load_peer(who, threads);
  if (peer == nullptr && who != "ExTensor") return 1;
  const std::function<Work(const Task&)> make = peer != nullptr ? peer->make : extensor_work;
  // Resets the peak, which includes the loading of libraries.
  std::ofstream("/proc/self/clear_refs") << "5";
  const double before = resident_bytes();
  const Work work = make(task);
  if (!work) return 1;
  for (int step = 0; step < 3; ++step) work();
  std::printf("%.0f\n", status_bytes("VmHWM") - before);
  return 0;
}

}  // namespace extensor::bench
