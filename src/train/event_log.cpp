#include <cmath>

#include "extensor/train/callbacks.h"
#include "extensor/train/event_file.h"

namespace extensor::train {

// Creates the file with the first value, so that a run that never starts leaves no file.
struct EventLog::Writer {
  void add(std::string_view name, double value, std::int64_t step) {
    if (std::isnan(value)) return;
    if (!file) file = std::make_unique<EventFile>(directory);
    file->add_scalar(name, value, step);
  }
  std::filesystem::path directory;
  std::unique_ptr<EventFile> file;
};

EventLog::EventLog(const std::filesystem::path& directory)
    : writer_(std::make_unique<Writer>(Writer{directory, nullptr})) {}

EventLog::~EventLog() = default;

void EventLog::step(const StepRecord& step) {
  writer_->add("train/loss", step.loss, step.step);
  writer_->add("train/accuracy", step.accuracy, step.step);
  writer_->add("train/learning_rate", step.learning_rate, step.step);
  writer_->add("train/gradient_norm", step.gradient_norm, step.step);
}

void EventLog::evaluation(const EvaluationRecord& record) {
  writer_->add("validation/loss", record.evaluation.loss, record.step);
  writer_->add("validation/accuracy", record.evaluation.accuracy, record.step);
}

}  // namespace extensor::train
