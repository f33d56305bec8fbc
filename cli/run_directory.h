// The directory of a run: its files, the lock that keeps two processes out of it, and its
// beginning, which leaves everything as it was until the run is known to have started.
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
  std::filesystem::path pictures() const { return path / "pictures.json"; }
  std::filesystem::path tokenizer() const { return path / "tokenizer.json"; }
  std::filesystem::path fingerprint() const { return path / "data.json"; }
  std::filesystem::path report() const { return path / "report.html"; }
  std::filesystem::path lock() const { return path / "lock"; }
  // The files of a run that another one is to replace: while they are moved away, until the new run
  // has started, and after that.
  std::filesystem::path moving() const { return path / ".moving-run"; }
  std::filesystem::path previous() const { return path / ".previous-run"; }
  std::filesystem::path discarded() const { return path / ".discarded-run"; }

  bool has_run() const;  // config.json is written last, so that a directory with it is a run
};

// IoError unless it is the directory of a run.
void check_run(const RunDirectory& directory);
// The best weights; the last ones where none were evaluated. IoError where there are none.
std::filesystem::path trained_weights(const RunDirectory& directory);

// Exclusive use of a run's directory, held by this process and freed by the system when it ends,
// however it ends. IoError, naming the directory and the process, where another one holds it.
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

// A directory that this process may write a run into.
class ClaimedRun {
 public:
  virtual ~ClaimedRun() = default;
  virtual const RunDirectory& directory() const = 0;
  // The first step is done. Until then the end of this object undoes what was begun.
  virtual void started() {}
};

// A run that is there already. Brings back the one that a process was about to replace when it was
// killed. IoError, ValueError.
std::unique_ptr<ClaimedRun> claim_resumed_run(const RunDirectory& directory);

// A new run in `path`, made with the directories above it. With `overwrite` files of a run that are
// there are set aside, to be removed when the new one has started; without, ValueError.
std::unique_ptr<ClaimedRun> claim_new_run(const std::filesystem::path& path, bool overwrite);

// A new run in runs/NAME, runs/NAME-2 …: the first that is free.
std::unique_ptr<ClaimedRun> claim_free_run(const std::string& name);

// ValueError that says how to resume it or to begin anew.
[[noreturn]] void refuse_existing_run(const RunDirectory& directory);

}  // namespace extensor::cli
