#include "distributed/launcher.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/check.h"

namespace extensor::distributed {

using detail::message;

namespace {

struct Variables {
  const char *launcher, *rank, *size;
};
constexpr Variables launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"Hydra", "PMI_RANK", "PMI_SIZE"},
    {"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

int read(const char* name, const char* text, int least, int most) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < least || value > most) {
    throw ValueError(message("distributed::init: ", name, " is '", text, "' (allowed: ", least,
                             " to ", most, ")"));
  }
  return value;
}

}  // namespace

Launch read_launch() {
  constexpr int most = std::numeric_limits<int>::max();
  for (const Variables& names : launchers) {
    const char* rank = std::getenv(names.rank);
    const char* size = std::getenv(names.size);
    if (rank == nullptr || size == nullptr) continue;
    Launch launch;
    launch.launcher = names.launcher;
    launch.size = read(names.size, size, 1, most);
    launch.rank = read(names.rank, rank, 0, launch.size - 1);
    return launch;
  }
  return {};
}

}  // namespace extensor::distributed
