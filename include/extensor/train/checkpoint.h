// Checkpoints: the complete state of a run in one file, replaced atomically.
//
//   train::Checkpoints checkpoints("run/checkpoints");
//   checkpoints.save(step, state);                   // on the disk when the call returns
//   if (auto found = checkpoints.newest()) resume(found->state);
//
// A checkpoint is a safetensors file, so any program can read its tensors. Its metadata contains
// the numbers, the texts and a checksum of everything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "extensor/export.h"
#include "extensor/named_tensors.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

struct Checkpoint {
  NamedTensors tensors;
  std::map<std::string, double> numbers;     // stored exactly, including NaN and infinities
  std::map<std::string, std::string> texts;  // UTF-8
};

// Replaces the file atomically. Throws IoError, and ValueError like save_safetensors.
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// Throws FormatError that describes the damage, or for a file that is not a checkpoint; IoError.
Checkpoint load_checkpoint(const std::filesystem::path& path);

// The checkpoints of one run, in a dedicated directory: step-00001200.safetensors …
class Checkpoints {
 public:
  struct Found {
    std::filesystem::path path;
    std::int64_t step = 0;
    Checkpoint state;
    std::vector<std::string> damaged;  // errors of newer, damaged checkpoints
  };

  // Keeps the newest `keep` checkpoints. Throws ValueError below 1. The first save creates the
  // directory.
  explicit Checkpoints(std::filesystem::path directory, std::int64_t keep = 2);

  // Returns after the checkpoint is on disk; only then removes older ones and incomplete files of
  // killed processes. Throws IoError; existing checkpoints then remain.
  std::filesystem::path save(std::int64_t step, const Checkpoint& checkpoint) const;
  // The newest intact checkpoint, or nullopt if there are none. Throws FormatError that names each
  // checkpoint if all of them are damaged.
  std::optional<Found> newest() const;
  std::vector<std::filesystem::path> list() const;  // oldest first
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  std::int64_t keep_;
};

}  // namespace extensor::train

EXTENSOR_END_API
