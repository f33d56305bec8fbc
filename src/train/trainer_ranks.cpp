// The parts of the trainer that concern several ranks.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/train/trainer.h"
#include "train/state.h"

namespace extensor::train {

using detail::message;

bool Trainer::is_first() const {
  return parallel_ == nullptr || options_.communicator->rank() == 0;
}

bool Trainer::on_any_rank(bool here) const {
  if (parallel_ == nullptr) return here;
  Tensor any = full({}, here, cpu_device);
  options_.communicator->all_reduce(any, distributed::ReduceOp::maximum);
  return any.item<bool>();
}

void Trainer::check_loader(const data::DataLoader& loader) const {
  if (parallel_ == nullptr) {
    if (loader.is_stream() || loader.options().ranks == 1) return;
    throw ValueError(message("Trainer: the loader is for rank ", loader.options().rank, " of ",
                             loader.options().ranks,
                             ", the trainer has no communicator of several ranks, so gradients "
                             "would not be averaged (allowed: ranks = 1)"));
  }
  const distributed::Communicator& ranks = *options_.communicator;
  if (loader.is_stream()) {
    throw ValueError("Trainer: a stream cannot be split between ranks (allowed: a dataset)");
  }
  const data::DataLoaderOptions& options = loader.options();
  if (options.rank == ranks.rank() && options.ranks == ranks.size()) return;
  throw ValueError(message("Trainer: the loader is for rank ", options.rank, " of ", options.ranks,
                           ", the communicator has rank ", ranks.rank(), " of ", ranks.size()));
}

// The generators of all ranks, in their order.
std::vector<RandomState> Trainer::generators() const {
  const RandomState own = default_generator().state();
  if (parallel_ == nullptr) return {own};
  const Tensor all = options_.communicator->all_gather(
      tensor({static_cast<std::int64_t>(own.seed), static_cast<std::int64_t>(own.stream),
              static_cast<std::int64_t>(own.offset)},
             cpu_device));
  const auto numbers = all.to_vector<std::int64_t>();
  std::vector<RandomState> states;
  for (std::size_t k = 0; k < numbers.size(); k += 3) {
    states.push_back({static_cast<std::uint64_t>(numbers[k]),
                      static_cast<std::uint64_t>(numbers[k + 1]),
                      static_cast<std::uint64_t>(numbers[k + 2])});
  }
  return states;
}

// Gives each rank the seed of rank 0 and a stream of its own: dropout must not drop the same units
// on all of them.
void Trainer::split_generator() {
  if (parallel_ == nullptr || !on_any_rank(!is_generator_split_)) return;
  RandomState state = generators().front();
  if (std::exchange(is_generator_split_, true)) return;
  state.stream += static_cast<std::uint64_t>(options_.communicator->rank());
  default_generator().set_state(state);
}

void Trainer::combine(StepRecord& record, std::int64_t& right, std::int64_t& targets) {
  if (parallel_ == nullptr) return;
  const bool stop = options_.stop && options_.stop();
  Tensor sums = tensor({record.loss, static_cast<double>(right), static_cast<double>(targets),
                        static_cast<double>(record.examples), stop ? 1.0 : 0.0},
                       {DType::float64, cpu_device});
  options_.communicator->all_reduce(sums);
  const auto all = sums.to_vector<double>();
  record.loss = all[0];
  right = static_cast<std::int64_t>(all[1]);
  targets = static_cast<std::int64_t>(all[2]);
  record.examples = static_cast<std::int64_t>(all[3]);
  is_interrupted_ = all[4] > 0;
}

// ---- checkpoints

namespace {

std::string generator_of(std::int64_t rank) {
  return rank == 0 ? std::string("random.") : message("random.rank", rank, ".");
}

}  // namespace

// Of all ranks: they do not draw equally often.
void Trainer::put_generator(Checkpoint& state) const {
  std::int64_t rank = 0;
  for (const RandomState& each : generators()) put(state, generator_of(rank++), each);
}

void Trainer::restore_generator(const std::string& label, const Checkpoint& state) {
  const std::int64_t rank = parallel_ == nullptr ? 0 : options_.communicator->rank();
  is_generator_split_ = state.texts.contains(generator_of(rank) + "seed");
  // A run of fewer ranks has no generator for this one, which gets a stream of its own in fit().
  default_generator().set_state(
      random_state(label, state, generator_of(is_generator_split_ ? rank : 0)));
}

void Trainer::check_same_checkpoint(std::int64_t step) const {
  const Tensor all = options_.communicator->all_gather(tensor({step}, cpu_device));
  const auto steps = all.to_vector<std::int64_t>();
  const auto other =
      std::ranges::find_if(steps, [&](std::int64_t each) { return each != steps[0]; });
  if (other == steps.end()) return;
  const auto name = [](std::int64_t at) {
    return at < 0 ? std::string("no checkpoint") : message("the checkpoint of step ", at);
  };
  throw distributed::DistributedError(message("Trainer: rank 0 finds ", name(steps[0]), " in ",
                                              options_.checkpoints.string(), ", rank ",
                                              other - steps.begin(), " finds ", name(*other),
                                              " (allowed: a directory that all ranks share)"));
}

}  // namespace extensor::train
