// Random number generators. Every draw is a function of (seed, stream, offset): the same on every
// device, for any number of threads, and however the draws are split over calls.
#pragma once

#include <cstdint>
#include <mutex>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The complete state of a generator; enough to continue it elsewhere.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  // below 2⁵⁶
  std::uint64_t offset = 0;  // the number of draws so far

  friend bool operator==(const RandomState&, const RandomState&) = default;
};

// A seed and a position in its sequence. Safe to use from several threads at once: no two calls
// share draws.
class Generator {
 public:
  // Different streams of one seed are independent. ValueError for a stream of 2⁵⁶ or more.
  explicit Generator(std::uint64_t seed, std::uint64_t stream = 0);
  explicit Generator(const RandomState& state);
  Generator(const Generator& other) : state_(other.state()) {}
  Generator& operator=(const Generator& other) {
    set_state(other.state());
    return *this;
  }

  std::uint64_t seed() const { return state().seed; }
  std::uint64_t stream() const { return state().stream; }
  std::uint64_t offset() const { return state().offset; }
  RandomState state() const;
  void set_state(const RandomState& state);

  // Restarts at offset 0 with another seed; the stream stays.
  void manual_seed(std::uint64_t seed);

  // Reserves `draws` draws and returns the offset of the first.
  std::uint64_t advance(std::uint64_t draws) { return reserve(draws).offset; }

  // The same, together with the seed and stream they belong to.
  RandomState reserve(std::uint64_t draws);

 private:
  mutable std::mutex mutex_;
  RandomState state_;
};

// The generator used where none is given; its seed is 0 until manual_seed is called.
Generator& default_generator();

// Seeds the default generator.
void manual_seed(std::uint64_t seed);

}  // namespace extensor

EXTENSOR_END_API
