#include "cli/run_directory.h"

#include <extensor/extensor.h>

#include <optional>
#include <system_error>

#include "cli/program.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

namespace fs = std::filesystem;

std::string quoted(const fs::path& path) { return io::in_quotes(path.native()); }

void move_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    throw IoError(quoted(from) + " cannot be moved to " + quoted(to) + ": " + error.message());
  }
}

// The run's files in `parent`; other files are not touched.
std::vector<fs::path> run_files(const RunDirectory& directory, const fs::path& parent) {
  std::vector<fs::path> found;
  for (const fs::path& path :
       {directory.config(), directory.log(), directory.checkpoints(), directory.weights(),
        directory.best(), directory.images(), directory.pictures(), directory.table(),
        directory.tokenizer(), directory.fingerprint(), directory.report()}) {
    if (fs::exists(fs::symlink_status(parent / path.filename()))) {
      found.push_back(parent / path.filename());
    }
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (entry.path().filename().native().starts_with("events.out.tfevents.")) {
      found.push_back(entry.path());
    }
  }
  return found;
}

void remove_run(const RunDirectory& directory) {
  std::error_code ignored;
  for (const fs::path& path : run_files(directory, directory.path)) fs::remove_all(path, ignored);
}

void move_run(const RunDirectory& directory, const fs::path& from, const fs::path& to) {
  for (const fs::path& path : run_files(directory, from)) move_file(path, to / path.filename());
}

// A run is set aside file by file and restored the same way. If the process is killed at any
// moment, the name of the directory determines the owner of the other files: next to .moving-run
// they belong to the old run, next to .previous-run to the new one.
void set_aside(const RunDirectory& directory) {
  std::error_code error;
  fs::create_directory(directory.moving(), error);
  if (error) throw IoError(quoted(directory.moving()) + " cannot be made: " + error.message());
  move_run(directory, directory.path, directory.moving());
  move_file(directory.moving(), directory.previous());
}

void bring_back(const RunDirectory& directory) {
  if (fs::exists(directory.previous())) {
    remove_run(directory);
    move_file(directory.previous(), directory.moving());
  }
  if (!fs::exists(directory.moving())) return;
  move_run(directory, directory.moving(), directory.path);
  std::error_code ignored;
  fs::remove(directory.moving(), ignored);
}

// Recovers from a killed process.
void recover(const RunDirectory& directory) {
  std::error_code ignored;
  fs::remove_all(directory.discarded(), ignored);
  bring_back(directory);
}

// Creates the directories for a run and removes them in the destructor unless they are kept.
class MadeDirectories {
 public:
  explicit MadeDirectories(const fs::path& path) {
    std::error_code error;
    fs::path missing = path;
    while (!missing.empty() && !fs::exists(fs::symlink_status(missing))) {
      made_.push_back(missing);
      missing = missing.parent_path();
    }
    fs::create_directories(path, error);
    if (!error && !fs::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
    if (error) {
      remove();
      throw IoError(quoted(path) + " cannot be made: " + error.message());
    }
  }
  MadeDirectories(const MadeDirectories&) = delete;
  MadeDirectories& operator=(const MadeDirectories&) = delete;
  ~MadeDirectories() { remove(); }

  void keep() { made_.clear(); }

 private:
  // Removes the innermost first, and only empty directories.
  void remove() {
    std::error_code ignored;
    for (const fs::path& path : made_) fs::remove(path, ignored);
  }

  std::vector<fs::path> made_;
};

class NewRun final : public ClaimedRun {
 public:
  NewRun(const fs::path& path, bool overwrite) : directory_{path}, made_(path), lock_(directory_) {
    recover(directory_);
    const std::vector<fs::path> files = run_files(directory_, path);
    if (files.empty()) return;
    if (!overwrite && directory_.has_run()) refuse_existing_run(directory_);
    if (!overwrite) {
      throw ValueError(quoted(path) + " has " + quoted(files.front().filename()) +
                       ", which a run would replace (allowed: another directory, or --overwrite)");
    }
    try {
      set_aside(directory_);
    } catch (...) {
      bring_back(directory_);
      throw;
    }
    replaces_ = true;
  }
  NewRun(const NewRun&) = delete;
  NewRun& operator=(const NewRun&) = delete;
  ~NewRun() override {
    if (started_) return;
    try {
      remove_run(directory_);
      if (replaces_) bring_back(directory_);
    } catch (const std::exception&) {  // NOLINT: the next start or resume brings it back
    }
  }

  const RunDirectory& directory() const override { return directory_; }

  void started() override {
    if (started_) return;
    started_ = true;
    made_.keep();
    if (!replaces_) return;
    move_file(directory_.previous(), directory_.discarded());
    std::error_code ignored;
    fs::remove_all(directory_.discarded(), ignored);
  }

 private:
  RunDirectory directory_;
  MadeDirectories made_;
  RunLock lock_;
  bool replaces_ = false, started_ = false;
};

class ResumedRun final : public ClaimedRun {
 public:
  explicit ResumedRun(RunDirectory directory)
      : directory_(std::move(directory)), lock_(directory_) {
    recover(directory_);
    check_run(directory_);
  }
  const RunDirectory& directory() const override { return directory_; }

 private:
  RunDirectory directory_;
  RunLock lock_;
};

}  // namespace

bool RunDirectory::has_run() const { return fs::exists(config()); }

void refuse_existing_run(const RunDirectory& directory) {
  throw ValueError(quoted(directory.path) + " has a run already: resume it (" +
                   command_line({"train", "--resume", directory.path.string()}) +
                   "), or begin anew (--overwrite)");
}

void check_run(const RunDirectory& directory) {
  if (!fs::exists(directory.path)) {
    throw IoError("there is no directory " + quoted(directory.path));
  }
  if (!directory.has_run()) {
    throw IoError(quoted(directory.path) + " is no run's directory: it has no config.json");
  }
}

fs::path trained_weights(const RunDirectory& directory) {
  for (const auto& path : {directory.best(), directory.weights()}) {
    if (fs::exists(path)) return path;
  }
  throw IoError(quoted(directory.path) +
                " has no weights yet: the run was neither evaluated nor ended so far (" +
                command_line({"train", "--resume", directory.path.string()}) + ")");
}

std::unique_ptr<ClaimedRun> claim_resumed_run(const RunDirectory& directory) {
  if (!fs::exists(directory.previous()) && !fs::exists(directory.moving())) check_run(directory);
  return std::make_unique<ResumedRun>(directory);
}

std::unique_ptr<ClaimedRun> claim_new_run(const fs::path& path, bool overwrite) {
  return std::make_unique<NewRun>(path, overwrite);
}

std::unique_ptr<ClaimedRun> claim_free_run(const std::string& name) {
  const fs::path parent = "runs";
  for (int k = 1;; ++k) {
    const fs::path path = parent / (k == 1 ? name : name + "-" + std::to_string(k));
    if (!fs::exists(fs::symlink_status(path))) return claim_new_run(path, false);
  }
}

}  // namespace extensor::cli
