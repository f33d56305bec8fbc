// Profiles: the time, memory traffic and memory of every op that a part of a program calls.
//
//   {
//     const auto scope = ext::profile({.trace = "step.json"});
//     loss(net(x), y).backward();
//   }  // prints a table; step.json opens in chrome://tracing and ui.perfetto.dev
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct ProfileOptions {
  bool print = true;                 // print the table to standard error at the end
  std::filesystem::path trace = {};  // write a Chrome trace to this file at the end
};

// All calls of one op.
struct OpProfile {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;      // of inputs and results, each counted once per call
  double flops = 0;      // as Module::summary() counts them
  double new_bytes = 0;  // of the results, without views and writes in place
  // The time that the machine needs for the bytes and FLOPs: the larger one of bytes divided by the
  // rate of a copy and FLOPs divided by the rate of a large matrix product, both measured when the
  // first profile begins. NaN for an op on another device than the CPU.
  double floor_seconds = 0;
};

// Measures the ops that this thread calls, gradients included, until the end of the scope. An op
// that runs as part of another op is not listed on its own. After every op on another device, the
// host waits for that device, so that the op's time is its own.
class [[nodiscard]] Profile {
 public:
  explicit Profile(const ProfileOptions& options = {});
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  // Calls stop(). Prints an error of writing the trace to standard error.
  ~Profile();

  // Ends the measurement, prints the table and writes the trace. Profiles end in the reverse order
  // of their beginnings. Throws IoError.
  void stop();

  std::vector<OpProfile> ops() const;  // so far; the slowest first
  double seconds() const;              // from the beginning to the end, or until now
  std::string table() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline Profile profile(const ProfileOptions& options = {}) { return Profile(options); }

}  // namespace extensor

EXTENSOR_END_API
