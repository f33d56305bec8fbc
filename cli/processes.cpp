#include "cli/processes.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "cli/launcher.h"
#include "cli/program.h"
#include "core/check.h"

namespace extensor::cli {

namespace {

// The run of rank 0, seen from the other ranks.
class JoinedRun final : public ClaimedRun {
 public:
  explicit JoinedRun(const std::string& path) : directory_{path} {}
  const RunDirectory& directory() const override { return directory_; }

 private:
  RunDirectory directory_;
};

// Only where the user has set nothing else.
void set_default(const char* variable, const std::string& value) {
  setenv(variable, value.c_str(), 0);
}

}  // namespace

void start_processes(const distributed::Communicator& world, std::int64_t processes,
                     bool threads_given) {
  if (processes < 1) {
    throw ValueError(detail::message("--processes is ", processes, " (allowed: 1 or more)"));
  }
  if (processes == 1 || processes == world.size()) return;
  if (world.size() > 1) {
    throw ValueError(detail::message("--processes is ", processes, " on ", world.size(),
                                     " ranks that a launcher has started (allowed: ", world.size(),
                                     ", or without --processes)"));
  }
  const std::int64_t threads = std::max<std::int64_t>(1, get_num_threads() / processes);
  if (!threads_given) set_default("EXTENSOR_NUM_THREADS", std::to_string(threads));
  // Open MPI refuses root and more ranks than cores, and binds each rank to one core, unless it is
  // told otherwise. Other launchers ignore these.
  set_default("OMPI_ALLOW_RUN_AS_ROOT", "1");
  set_default("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  set_default("OMPI_MCA_rmaps_base_oversubscribe", "1");
  set_default("OMPI_MCA_hwloc_base_binding_policy", "none");
  std::vector<std::string> words{"mpirun", "-n", std::to_string(processes), "/proc/self/exe"};
  words.back() = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::vector<std::string>& own = program_arguments();
  words.insert(words.end(), own.begin(), own.end());
  throw CLI::RuntimeError(run_launcher(std::move(words)));
}

std::unique_ptr<ClaimedRun> claim_together(
    distributed::Communicator& world, const std::function<std::unique_ptr<ClaimedRun>()>& claim) {
  std::unique_ptr<ClaimedRun> own;
  if (world.rank() == 0) own = claim();
  const std::string path = own == nullptr ? "" : own->directory().path.string();
  if (world.size() == 1) return own;
  const std::string shared = world.all_gather_text(path)[0];
  return own != nullptr ? std::move(own) : std::make_unique<JoinedRun>(shared);
}

void run_together(distributed::Communicator& world, const std::function<void()>& function) {
  try {
    function();
  } catch (const distributed::DistributedError&) {
    throw;
  } catch (const CLI::RuntimeError&) {  // all ranks end by the same signal
    throw;
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
}

}  // namespace extensor::cli
