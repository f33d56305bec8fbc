// TensorBoard event files: `tensorboard --logdir DIR` shows their curves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

// A new file events.out.tfevents.<seconds>.<pid>.<number> in the directory, which is created if
// necessary. Every record is complete in the file when the call returns; a record that fails is
// removed entirely. Throws IoError. Not thread-safe.
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& directory);
  EventFile(EventFile&&) noexcept;
  EventFile& operator=(EventFile&&) noexcept;
  ~EventFile();
  // TensorBoard stores float32: larger values become infinity. Throws ValueError for names or texts
  // that are not UTF-8.
  void add_scalar(std::string_view name, double value, std::int64_t step);
  void add_text(std::string_view name, std::string_view text, std::int64_t step);
  const std::filesystem::path& path() const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace extensor::train

EXTENSOR_END_API
