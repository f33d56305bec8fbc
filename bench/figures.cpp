// Figures of the whole library: the cost of including, starting and shipping it.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "cases.h"

namespace extensor::bench {
namespace {

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

double median_seconds(int rounds, const Work& work) {
  std::vector<double> samples;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    samples.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(samples.begin(), samples.begin() + rounds / 2, samples.end());
  return samples[static_cast<std::size_t>(rounds / 2)];
}

}  // namespace

double include_seconds() {
  const std::string command =
      "echo '#include <extensor/extensor.h>' | " EXTENSOR_BENCH_CXX
      " -std=c++20 -O0 -x c++ -I" EXTENSOR_BENCH_INCLUDE " -c - -o /dev/null";
  run(command);
  return median_seconds(5, [&] { run(command); });
}

double startup_seconds() {
  const auto start_and_end = [] {
    const pid_t child = vfork();
    if (child == 0) {
      execl(EXTENSOR_BENCH_STARTUP, EXTENSOR_BENCH_STARTUP, nullptr);
      _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      throw std::runtime_error("the start-up program failed");
    }
  };
  start_and_end();
  return median_seconds(21, start_and_end);
}

double library_bytes() {
  const std::string stripped = EXTENSOR_BENCH_LIBRARY ".stripped";
  run("strip -o " + stripped + " " EXTENSOR_BENCH_LIBRARY);
  struct stat status {};
  const int result = stat(stripped.c_str(), &status);
  std::remove(stripped.c_str());
  if (result != 0) throw std::runtime_error("no such library: " EXTENSOR_BENCH_LIBRARY);
  return static_cast<double>(status.st_size);
}

}  // namespace extensor::bench
