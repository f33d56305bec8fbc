// A self-contained HTML report of a run: curves, the confusion matrix, images of the worst
// mistakes, the layers, the configuration and the timings. It loads nothing from the network.
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

struct ReportImage {
  Tensor image;         // uint8 [height, width] or [channels, height, width]
  std::string caption;  // "3, taken for 8"
  // Shown under the caption, as bars: {"8", 0.93}, {"3", 0.05}.
  std::vector<std::pair<std::string, double>> probabilities = {};
};

struct Report {
  std::string title;
  std::vector<std::pair<std::string, std::string>> about = {};  // {"date", "2026-11-16 17:50 UTC"}
  std::string command = {};                                     // as typed in a shell
  std::vector<std::pair<std::string, std::string>> facts =
      {};                          // {"accuracy", "99.31 %"}, shown large
  std::filesystem::path log = {};  // written by JsonLog
  std::optional<ConfusionMatrix> confusion = {};
  std::vector<std::string> classes = {};  // class names; empty: numbers
  std::string images_title = "Worst mistakes";
  std::vector<ReportImage> pictures = {};
  std::string sample = {};  // generated text
  std::string model = {};   // table of layers
  std::vector<std::pair<std::string, std::string>> configuration = {};
  std::vector<std::pair<std::string, std::string>> timings = {};
};

// Replaces the file atomically. Throws IoError. Returns a warning for each damaged line of the log
// and for a log that cannot be read: the report is written without them.
std::vector<std::string> write_report(const std::filesystem::path& path, const Report& report);

}  // namespace extensor::train

EXTENSOR_END_API
