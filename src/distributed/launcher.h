// The place of this process in a run, as the launcher describes it in the environment.
#pragma once

#include <string>

namespace extensor::distributed {

struct Launch {
  std::string launcher;  // "Open MPI" …; empty for a process that was started alone
  int rank = 0, size = 1;
};

// Throws ValueError for a variable that is not a number or out of its range.
Launch read_launch();

}  // namespace extensor::distributed
