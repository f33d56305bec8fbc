#include <cmath>

#include "core/check.h"
#include "data/draw_blocks.h"
#include "extensor/data/dataset.h"

namespace extensor::data {

using detail::message;

Draws::Draws(std::uint64_t seed, std::int64_t epoch, std::int64_t index)
    : seed_(seed),
      epoch_(static_cast<std::uint64_t>(epoch)),
      index_(static_cast<std::uint64_t>(index)) {
  // Negative values are large here, since the members are unsigned.
  if (epoch_ >> epoch_bits != 0 || index_ >> index_bits != 0) {
    throw ValueError(message("Draws: epoch is ", epoch, " and index is ", index,
                             " (allowed: 0 … 2^", epoch_bits, " − 1 and 0 … 2^", index_bits,
                             " − 1)"));
  }
}

std::uint64_t Draws::bits() {
  if (next_++ % 2 != 0) return spare_;
  const detail::PhiloxBlock block =
      example_block(seed_, epoch_, index_, static_cast<std::uint32_t>(next_ / 2));
  spare_ = detail::join_words(block.word[2], block.word[3]);
  return detail::join_words(block.word[0], block.word[1]);
}

double Draws::uniform() { return detail::uniform_double(bits()); }

double Draws::uniform(double low, double high) {
  if (!(low <= high) || !std::isfinite(high - low)) {
    throw ValueError(message("Draws::uniform: low is ", low, " and high is ", high,
                             " (allowed: low ≤ high, both and their difference finite)"));
  }
  const double value = low + (high - low) * uniform();
  // Rounding may bring the sum up to high.
  return value < high || low == high ? value : std::nextafter(high, low);
}

std::int64_t Draws::below(std::int64_t count) {
  if (count < 1) {
    throw ValueError(message("Draws::below: count is ", count, " (allowed: 1 or more)"));
  }
  return static_cast<std::int64_t>(
      number_below(static_cast<std::uint64_t>(count), [this] { return bits(); }));
}

bool Draws::chance(double probability) {
  if (!(probability >= 0 && probability <= 1)) {
    throw ValueError(message("Draws::chance: probability is ", probability, " (allowed: 0 … 1)"));
  }
  return uniform() < probability;
}

}  // namespace extensor::data
