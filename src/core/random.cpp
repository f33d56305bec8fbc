#include "extensor/random.h"

#include "core/check.h"
#include "core/philox.h"

namespace extensor {

namespace {

RandomState checked(const RandomState& state) {
  if (state.stream >= detail::stream_count) {
    throw ValueError(detail::message("Generator: stream ", state.stream,
                                     " is too large (allowed: below ", detail::stream_count, ")"));
  }
  return state;
}

}  // namespace

Generator::Generator(std::uint64_t seed, std::uint64_t stream)
    : Generator(RandomState{seed, stream, 0}) {}

Generator::Generator(const RandomState& state) : state_(checked(state)) {}

RandomState Generator::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(const RandomState& state) {
  const RandomState valid = checked(state);
  const std::lock_guard lock(mutex_);
  state_ = valid;
}

void Generator::manual_seed(std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  state_.seed = seed;
  state_.offset = 0;
}

RandomState Generator::reserve(std::uint64_t draws) {
  const std::lock_guard lock(mutex_);
  const RandomState first = state_;
  state_.offset += draws;
  return first;
}

Generator& default_generator() {
  // Never destroyed: static objects may still draw while the program ends.
  static Generator& generator = *new Generator(0);
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace extensor
