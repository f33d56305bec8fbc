// The directory of a run: its files, the lock that excludes other processes, and the claim, which
// leaves everything unchanged until the run has started.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace extensor::cli {

struct RunDirectory {
  std::filesystem::path path;
  std::filesystem::path config() const { return path / "config.json"; }
  std::filesystem::path log() const { return path / "log.jsonl"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path weights() const { return path / "model.safetensors"; }
  std::filesystem::path best() const { return path / "best.safetensors"; }
  std::filesystem::path images() const { return path / "images.json"; }
  // The same of runs of older versions.
  std::filesystem::path pictures() const { return path / "pictures.json"; }
  std::filesystem::path table() const { return path / "table.json"; }
  std::filesystem::path tokenizer() const { return path / "tokenizer.json"; }
  std::filesystem::path fingerprint() const { return path / "data.json"; }
  std::filesystem::path report() const { return path / "report.html"; }
  std::filesystem::path lock() const { return path / "lock"; }
  // The files of a run that is being replaced: while they are moved away, until the new run has
  // started, and afterwards.
  std::filesystem::path moving() const { return path / ".moving-run"; }
  std::filesystem::path previous() const { return path / ".previous-run"; }
  std::filesystem::path discarded() const { return path / ".discarded-run"; }

  bool has_run() const;  // config.json is written last, so a directory that has it is a run
};

// Throws IoError unless it is the directory of a run.
void check_run(const RunDirectory& directory);
// The best weights, or the last ones if none were evaluated. Throws IoError if there are none.
std::filesystem::path trained_weights(const RunDirectory& directory);

// Exclusive use of a run's directory. The system releases the lock when the process ends for any
// reason. Throws IoError, with the directory and the process, if another process holds the lock.
class RunLock {
 public:
  explicit RunLock(const RunDirectory& directory);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// A directory that this process may write a run to.
class ClaimedRun {
 public:
  virtual ~ClaimedRun() = default;
  virtual const RunDirectory& directory() const = 0;
  // Called after the first step. Before that, the destructor reverts all changes.
  virtual void started() {}
};

// Claims an existing run. Restores a run that a killed process was about to replace. Throws IoError
// or ValueError.
std::unique_ptr<ClaimedRun> claim_resumed_run(const RunDirectory& directory);

// Claims a new run in `path`, which is created with its parents. With `overwrite`, the files of an
// existing run are set aside and removed when the new run has started; without, throws ValueError.
std::unique_ptr<ClaimedRun> claim_new_run(const std::filesystem::path& path, bool overwrite);

// Claims the first free name of runs/NAME, runs/NAME-2 …
std::unique_ptr<ClaimedRun> claim_free_run(const std::string& name);

// Throws ValueError that explains how to resume or overwrite the run.
[[noreturn]] void refuse_existing_run(const RunDirectory& directory);

}  // namespace extensor::cli
