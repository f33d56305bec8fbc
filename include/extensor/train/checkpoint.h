// Everything that a run needs to go on, in one file that is whole or not there.
//
//   train::Checkpoints checkpoints("run/checkpoints");
//   checkpoints.save(step, state);                   // on the disk when the call returns
//   if (auto found = checkpoints.newest()) resume(found->state);
//
// A checkpoint is a safetensors file, so any program can read its tensors; its metadata has the
// numbers, the texts, and a checksum of everything.
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
  std::map<std::string, double> numbers;     // exact to the last bit, NaN and infinities too
  std::map<std::string, std::string> texts;  // UTF-8
};

// Replaces the file as a whole or not at all. IoError; ValueError as save_safetensors.
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// FormatError for a file that is damaged, naming what is, or that is no checkpoint; IoError.
Checkpoint load_checkpoint(const std::filesystem::path& path);

// The checkpoints of one run in a directory of their own: step-00001200.safetensors …
class Checkpoints {
 public:
  struct Found {
    std::filesystem::path path;
    std::int64_t step = 0;
    Checkpoint state;
    std::vector<std::string> damaged;  // what is wrong with newer ones
  };

  // At most `keep` stay, the newest. ValueError below 1. The directory is made by the first save.
  explicit Checkpoints(std::filesystem::path directory, std::int64_t keep = 2);

  // When this returns, the checkpoint is on the disk; older ones go only then. IoError: those that
  // there were are still there. What a killed process left half written goes too.
  std::filesystem::path save(std::int64_t step, const Checkpoint& checkpoint) const;
  // The newest that is whole; nothing where there is none at all. FormatError, naming each, where
  // there are some and all of them are damaged.
  std::optional<Found> newest() const;
  std::vector<std::filesystem::path> list() const;  // the oldest first
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  std::int64_t keep_;
};

}  // namespace extensor::train

EXTENSOR_END_API
