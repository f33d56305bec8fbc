// Training on several processes: how they are started, and what the first of them does alone.
#pragma once

#include <extensor/extensor.h>

#include <functional>
#include <memory>

#include "cli/run_directory.h"

namespace extensor::cli {

// Starts this command again with mpirun, as `processes` ranks on this machine, and throws
// CLI::RuntimeError with its exit code when it has ended. Returns if `processes` is 1 or this is
// one of the ranks already. Throws ValueError for a number below 1 or other than that of the ranks,
// IoError if mpirun cannot be started.
void start_processes(const distributed::Communicator& world, std::int64_t processes,
                     bool threads_given);

// Rank 0 claims the run's directory; the others learn where it is.
std::unique_ptr<ClaimedRun> claim_together(
    distributed::Communicator& world, const std::function<std::unique_ptr<ClaimedRun>()>& claim);

// Calls the function. If it throws on one rank, the others end with the same message.
void run_together(distributed::Communicator& world, const std::function<void()>& function);

}  // namespace extensor::cli
