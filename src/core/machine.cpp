#include "core/machine.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/check.h"
#include "extensor/error.h"
#include "extensor/threads.h"

namespace extensor::detail {

namespace {

std::size_t ask_machine_bytes() {
  struct sysinfo machine {};
  if (sysinfo(&machine) != 0) return SIZE_MAX / 2;
  const std::size_t swap = static_cast<std::size_t>(machine.totalswap) * machine.mem_unit;
  std::size_t memory = static_cast<std::size_t>(machine.totalram) * machine.mem_unit;
  // A container may be limited to less than the machine has (control groups, versions 2 and 1).
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::size_t allowed = 0;
    if (file >> allowed && allowed != 0) memory = std::min(memory, allowed);  // else it is "max"
  }
  return memory + swap;
}

// The least value of read(directory) from `path` up to the root.
template <class Read>
double least_on_the_way_up(std::string path, const Read& read) {
  double least = std::numeric_limits<double>::infinity();
  for (;;) {
    least = std::min(least, read(path));
    const std::size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return least;
    path.resize(slash);
  }
}

double quotient(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

// cpu.max of version 2: "max 100000" or "150000 100000".
double quota_of_version_2(const std::string& directory) {
  std::ifstream file(directory + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period ? quotient(quota, period)
                                 : std::numeric_limits<double>::infinity();
}

double quota_of_version_1(const std::string& directory) {
  std::ifstream quota_file(directory + "/cpu.cfs_quota_us");
  std::ifstream period_file(directory + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  return quota_file >> quota && period_file >> period ? quotient(quota, period)
                                                      : std::numeric_limits<double>::infinity();
}

// The processors that this process may be scheduled on.
int affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::optional<int> parse_threads(std::string_view text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  if (count < 1 || count > most_threads) return {};
  return count;
}

int choose_threads() {
  if (const char* asked = std::getenv("EXTENSOR_NUM_THREADS"); asked != nullptr && *asked != 0) {
    if (const auto count = parse_threads(asked)) return *count;
    throw ValueError(
        message("EXTENSOR_NUM_THREADS is '", asked, "' (allowed: 1 … ", most_threads, ")"));
  }
  // The variable is meant for another library, so an unusable value is not an error. It may be a
  // list.
  if (const char* asked = std::getenv("OMP_NUM_THREADS"); asked != nullptr) {
    const std::string_view list = asked;
    if (const auto count = parse_threads(list.substr(0, list.find(',')))) return *count;
  }
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream membership;
  membership << file.rdbuf();
  const double quota = std::round(processor_quota(membership.str(), "/sys/fs/cgroup"));
  const int processors = std::min(affinity_count(), most_threads);
  return quota < processors ? std::max(1, static_cast<int>(quota)) : processors;
}

}  // namespace

double processor_quota(const std::string& membership, const std::string& root) {
  double least = std::numeric_limits<double>::infinity();
  std::istringstream lines(membership);
  // hierarchy:controllers:path, with no controllers in version 2.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      least = std::min(least, least_on_the_way_up(path, [&](const std::string& group) {
                         return quota_of_version_2(root + group);
                       }));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      for (const std::string& mount : {message(root, "/", controllers), root + "/cpu"}) {
        least = std::min(least, least_on_the_way_up(path, [&](const std::string& group) {
                           return quota_of_version_1(mount + group);
                         }));
      }
    }
  }
  return least;
}

int default_threads() {
  static const int threads = choose_threads();
  return threads;
}

std::size_t machine_bytes() {
  static const std::size_t bytes = ask_machine_bytes();
  return bytes;
}

}  // namespace extensor::detail
