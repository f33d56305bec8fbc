#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/check.h"
#include "core/format_number.h"
#include "extensor/train/callbacks.h"

namespace extensor::train {

using detail::message;

namespace {

template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  char text[128];
  std::snprintf(text, sizeof text, format, arguments...);
  return text;
}

std::string clock_text(double seconds) {
  const long long whole = std::llround(std::max(0.0, seconds));
  if (whole >= 3600) {
    return formatted("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return formatted("%lld:%02lld", whole / 60, whole % 60);
}

std::string percent(double part) {
  return std::isnan(part) ? "" : formatted("  accuracy %.2f %%", 100 * part);
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

constexpr double smoothing = 0.98;  // of the displayed means, per step

}  // namespace

struct ProgressBar::State {
  // Prints a line that the next one replaces.
  void show(const std::string& line) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    std::fflush(stderr);
    is_shown = true;
  }
  // Prints a permanent line.
  void print(const std::string& line) {
    std::fprintf(stderr, "%s%s\n", is_shown ? "\r\033[K" : "", line.c_str());
    std::fflush(stderr);
    is_shown = false;
  }
  std::string status(const StepRecord& step) const {
    const double left = rate > 0 ? static_cast<double>(last_step - step.step) / step_rate : 0;
    return message(formatted("loss %.4f", loss), percent(accuracy), "  ",
                   detail::with_commas(std::llround(rate)), " ", unit, "/s  ", clock_text(left),
                   " left");
  }
  void follow(const StepRecord& step);

  std::string unit;
  bool terminal = isatty(STDERR_FILENO) != 0;
  bool is_shown = false;
  std::int64_t last_step = 0, epochs = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  double accuracy = std::numeric_limits<double>::quiet_NaN();
  double rate = 0, step_rate = 0;        // per second
  double since = -1, shown = -1;         // in seconds of run time
  std::int64_t examples = 0, steps = 0;  // since `since`
};

// Updates the exponential moving averages and the rate since training resumed.
void ProgressBar::State::follow(const StepRecord& step) {
  const auto mean = [](double& value, double next) {
    if (std::isnan(next)) return;
    value = std::isnan(value) ? next : smoothing * value + (1 - smoothing) * next;
  };
  mean(loss, step.loss);
  mean(accuracy, step.accuracy);
  if (since < 0) {
    since = step.seconds;
    return;
  }
  examples += step.examples;
  steps += 1;
  const double passed = step.seconds - since;
  if (passed <= 0) return;
  rate = static_cast<double>(examples) / passed;
  step_rate = static_cast<double>(steps) / passed;
}

ProgressBar::ProgressBar(std::string unit) : state_(std::make_unique<State>()) {
  state_->unit = std::move(unit);
}

ProgressBar::~ProgressBar() {
  if (state_->is_shown) std::fputs("\r\033[K", stderr);
}

void ProgressBar::begin(const RunRecord& run) {
  state_->last_step = run.last_step;
  state_->epochs = run.epochs;
}

void ProgressBar::step(const StepRecord& step) {
  State& state = *state_;
  state.follow(step);
  const double wait = state.terminal ? 0.1 : 10;
  if (state.shown >= 0 && step.seconds - state.shown < wait) return;
  const bool first = state.shown < 0;
  state.shown = step.seconds;
  const std::string place = message("epoch ", step.epoch, "/", std::max(state.epochs, step.epoch));
  if (!state.terminal) {
    if (!first) {
      state.print(
          message(place, "  step ", step.step, "/", state.last_step, "  ", state.status(step)));
    }
    return;
  }
  const std::string status = state.status(step);
  const int room = terminal_columns() - static_cast<int>(place.size() + status.size()) - 5;
  const int length = std::clamp(room, 0, 30);
  // Of the epoch, or of the run if the data is a stream.
  const bool is_sized = step.batches > 0;
  const std::int64_t done = is_sized ? step.batch : step.step;
  const std::int64_t whole = is_sized ? step.batches : state.last_step;
  const auto filled = static_cast<int>(length * done / std::max<std::int64_t>(1, whole));
  std::string bar;
  for (int k = 0; k < length; ++k) bar += k < filled ? "█" : "░";
  state.show(message(place, " ", bar, " ", status));
}

void ProgressBar::evaluation(const EvaluationRecord& record) {
  const Evaluation& validation = record.evaluation;
  std::string line = message("epoch ", record.epoch, "  step ", record.step,
                             formatted("  loss %.4f", record.train_loss));
  if (validation.examples > 0) {
    line += formatted("  validation: loss %.4f", validation.loss) + percent(validation.accuracy);
  }
  state_->print(line + "  " + clock_text(record.seconds));
  // Evaluation time does not count: restart the rate.
  state_->since = -1;
  state_->examples = state_->steps = 0;
}

void ProgressBar::end(const Outcome&) {
  if (state_->is_shown) std::fputs("\r\033[K", stderr);
  state_->is_shown = false;
}

}  // namespace extensor::train
