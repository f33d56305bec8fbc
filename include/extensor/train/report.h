// A run as one page of HTML: curves, the confusion matrix, the worst mistakes as pictures, the
// layers, the configuration, the timings. It needs nothing else, no network either.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"
#include "extensor/train/metrics.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

struct ReportPicture {
  Tensor image;         // uint8 [height, width] or [channels, height, width]
  std::string caption;  // "3, read as 8"
};

struct Report {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts =
      {};                          // {"accuracy", "99.31 %"}, shown large
  std::filesystem::path log = {};  // what JsonLog wrote
  std::optional<ConfusionMatrix> confusion = {};
  std::vector<std::string> classes = {};  // what they are called; numbers without
  std::string pictures_title = "Worst mistakes";
  std::vector<ReportPicture> pictures = {};
  std::string sample = {};  // text that the model wrote
  std::string model = {};   // its table of layers
  std::vector<std::pair<std::string, std::string>> configuration = {};
  std::vector<std::pair<std::string, std::string>> timings = {};
};

// Replaces the file as a whole or not at all. IoError. Returns a warning for each line of the log
// that is damaged, and one for a log that cannot be read: the report is written without them.
std::vector<std::string> write_report(const std::filesystem::path& path, const Report& report);

}  // namespace extensor::train

EXTENSOR_END_API
