// TensorBoard's event files: curves that `tensorboard --logdir DIR` shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

// A new file events.out.tfevents.<seconds>.<pid>.<number> in the directory, which is made if need
// be. Every record is whole in the file when the call returns; one that could not be written is not
// there in part. IoError. Not for several threads at once.
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& directory);
  EventFile(EventFile&&) noexcept;
  EventFile& operator=(EventFile&&) noexcept;
  ~EventFile();
  // TensorBoard has float32: a value beyond it is infinity. ValueError for what is not UTF-8.
  void add_scalar(std::string_view name, double value, std::int64_t step);
  void add_text(std::string_view name, std::string_view text, std::int64_t step);
  const std::filesystem::path& path() const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace extensor::train

EXTENSOR_END_API
