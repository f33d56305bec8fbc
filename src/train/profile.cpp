#include "extensor/profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <map>
#include <string_view>

#include "core/check.h"
#include "core/context.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/matrix.h"
#include "extensor/memory.h"
#include "extensor/threads.h"
#include "io/atomic_file.h"
#include "nn/calls.h"
#include "ops/op_cost.h"
#include "train/machine_rates.h"

namespace extensor {

using detail::message;

namespace {

// ---- text

std::string number(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3g %s", value, unit);
  return text;
}

std::string time_text(double seconds) {
  if (seconds >= 1) return number(seconds, "s");
  return seconds >= 1e-3 ? number(1e3 * seconds, "ms") : number(1e6 * seconds, "µs");
}

std::string count_text(double count) {
  const std::pair<double, const char*> units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [size, unit] : units) {
    if (count >= size) return number(count / size, unit);
  }
  return std::to_string(std::llround(count));
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t k = 0;
  for (; bytes >= 1000 && k + 1 < std::size(units); ++k) bytes /= 1024;
  return number(bytes, units[k]);
}

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return std::isfinite(part) ? text : "–";
}

std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// Text of a JSON string.
std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string described(ops::Inputs inputs) {
  std::string text;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].defined()) continue;
    text += message(text.empty() ? "" : ", ", inputs[k].dtype(), " ", inputs[k].shape());
  }
  return text;
}

struct Event {
  std::string name, arguments;
  std::int64_t begin = 0, end = 0;  // nanoseconds
  bool is_module = false;
};

}  // namespace

struct Profile::State final : nn::detail::ModuleObserver {
  explicit State(const ProfileOptions& given)
      : options(given),
        rates(train::machine_rates()),
        outer(std::exchange(current, this)),
        hook(detail::context.capture),
        begin(detail::steady_nanoseconds()) {
    detail::context.capture = see;
    if (!options.trace.empty()) observer.emplace(*this);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() = default;

  // The hook: reports the call to all profiles of this thread, and to the hook before them.
  static void see(const ops::Op& op, const void* attributes, ops::Inputs inputs,
                  std::span<const Tensor> results) {
    Device device = cpu_device;
    for (const Tensor& result : results) {
      if (result.defined()) device = result.device();
    }
    if (!(device == cpu_device)) synchronize(device);
    const std::int64_t now = detail::steady_nanoseconds(), since = detail::captured_since;
    for (State* one = current; one != nullptr; one = one->outer) {
      one->add(op, attributes, inputs, results, device, since, now);
      if (one->outer == nullptr && one->hook != nullptr) {
        one->hook(op, attributes, inputs, results);
      }
    }
  }

  void add(const ops::Op& op, const void* attributes, ops::Inputs inputs,
           std::span<const Tensor> results, Device device, std::int64_t since, std::int64_t now) {
    OpProfile& entry = entries[op.name];
    const double bytes = ops::bytes_of(op, inputs, results);
    const double flops = ops::flops_of(op, inputs, results);
    const DType dtype =
        results.empty() || !results[0].defined() ? DType::float32 : results[0].dtype();
    ++entry.calls;
    entry.seconds += 1e-9 * static_cast<double>(now - since);
    entry.bytes += bytes;
    entry.flops += flops;
    entry.new_bytes += ops::new_bytes_of(inputs, results);
    entry.floor_seconds += device == cpu_device ? rates.floor_seconds(bytes, flops, dtype)
                                                : std::numeric_limits<double>::quiet_NaN();
    const std::size_t live = memory_stats(device).allocated_bytes;
    if (live > most_live) {
      most_live = live;
      most_live_after = op.name;
    }
    if (options.trace.empty()) return;
    if (events.size() == most_events) {
      ++dropped;
      return;
    }
    events.push_back({op.name,
                      message("\"attributes\":", json_text(op.attributes->describe(attributes)),
                              ",\"inputs\":", json_text(described(inputs)), ",\"bytes\":", bytes,
                              ",\"flops\":", flops),
                      since, now});
  }

  // ---- calls of modules, for the trace

  void enter(const nn::ModuleDescription& module) override {
    open.push_back(
        {nn::detail::unqualified(module.type), "", detail::steady_nanoseconds(), 0, true});
  }
  void result(const Tensor& output) override {
    if (output.defined()) {
      open.back().arguments = message("\"output\":", json_text(message(output.shape())));
    }
  }
  void leave() override {
    open.back().end = detail::steady_nanoseconds();
    if (events.size() < most_events) events.push_back(std::move(open.back()));
    open.pop_back();
  }

  // ---- the end

  void end() {
    ended = detail::steady_nanoseconds();
    observer.reset();
    detail::context.capture = hook;
    current = outer;
  }

  double seconds() const {
    return 1e-9 * static_cast<double>((ended == 0 ? detail::steady_nanoseconds() : ended) - begin);
  }

  void write_trace() const {
    std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
    bool first = true;
    for (const Event& event : events) {
      char times[96];
      std::snprintf(times, sizeof times, "\"ts\":%.3f,\"dur\":%.3f",
                    1e-3 * static_cast<double>(event.begin - begin),
                    1e-3 * static_cast<double>(event.end - event.begin));
      text += message(first ? "" : ",\n", "{\"name\":", json_text(event.name), ",\"cat\":\"",
                      event.is_module ? "module" : "op", "\",\"ph\":\"X\",", times,
                      ",\"pid\":1,\"tid\":1,\"args\":{", event.arguments, "}}");
      first = false;
    }
    text += "\n]}\n";
    io::AtomicFile file("profile", options.trace);
    file.write(text);
    file.commit();
  }

  static constexpr std::size_t most_events = 1'000'000;
  static thread_local State* current;

  ProfileOptions options;
  train::MachineRates rates;
  State* outer;
  detail::CaptureHook hook;  // before this profile
  std::int64_t begin, ended = 0;
  std::map<std::string, OpProfile, std::less<>> entries;
  std::size_t most_live = 0;
  std::string most_live_after;
  std::vector<Event> events, open;
  std::int64_t dropped = 0;
  std::optional<nn::detail::ObserverScope> observer;
};

thread_local Profile::State* Profile::State::current = nullptr;

Profile::Profile(const ProfileOptions& options) : state_(std::make_unique<State>(options)) {}

Profile::~Profile() {
  try {
    stop();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
  }
}

void Profile::stop() {
  if (state_->ended != 0) return;
  state_->end();
  if (state_->options.print) std::cerr << table();
  if (!state_->options.trace.empty()) state_->write_trace();
}

std::vector<OpProfile> Profile::ops() const {
  std::vector<OpProfile> list;
  for (const auto& [name, entry] : state_->entries) {
    list.push_back(entry);
    list.back().name = name;
  }
  std::ranges::stable_sort(list, std::greater<>(), &OpProfile::seconds);
  return list;
}

double Profile::seconds() const { return state_->seconds(); }

std::string Profile::table() const {
  std::vector<std::vector<std::string>> rows = {
      {"op", "calls", "time", "share", "bytes", "FLOPs", "floor", "new memory"}};
  const double all = seconds();
  OpProfile sum;
  const auto add = [&](const OpProfile& op) {
    rows.push_back({op.name, std::to_string(op.calls), time_text(op.seconds),
                    percent(op.seconds / all), bytes_text(op.bytes), count_text(op.flops),
                    percent(op.floor_seconds / op.seconds), bytes_text(op.new_bytes)});
  };
  for (const OpProfile& op : ops()) {
    add(op);
    sum.calls += op.calls;
    sum.seconds += op.seconds;
    sum.bytes += op.bytes;
    sum.flops += op.flops;
    sum.new_bytes += op.new_bytes;
    sum.floor_seconds += op.floor_seconds;
  }
  sum.name = "all ops";
  add(sum);
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], columns(row[k]));
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::string space(widths[k] - columns(row[k]), ' ');
      text += k == 0 ? row[k] + space : "  " + space + row[k];
    }
    text += "\n";
  }
  text +=
      message("in ", time_text(all),
              "; most memory in live tensors: ", bytes_text(static_cast<double>(state_->most_live)),
              state_->most_live_after.empty() ? "" : ", after ", state_->most_live_after, "\n");
  if (state_->dropped > 0) {
    text += message("the trace has the first ", State::most_events, " events; ", state_->dropped,
                    " more are left out\n");
  }
  return text;
}

}  // namespace extensor
