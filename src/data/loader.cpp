#include "extensor/data/loader.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "core/check.h"
#include "core/parallel.h"
#include "data/draw_blocks.h"
#include "extensor/autocast.h"
#include "extensor/autograd.h"

namespace extensor::data {

using detail::message;

namespace {

void check_epoch(const char* operation, std::int64_t epoch) {
  if (epoch < 0 || epoch >> epoch_bits != 0) {
    throw ValueError(message("DataLoader::", operation, ": epoch is ", epoch, " (allowed: 0 … 2^",
                             epoch_bits, " − 1)"));
  }
}

std::int64_t batches_of(std::int64_t size, const DataLoaderOptions& options) {
  const std::int64_t whole = size / options.batch_size;
  return options.drop_last || size % options.batch_size == 0 ? whole : whole + 1;
}

// Space for the indices of all examples.
std::vector<std::int64_t> numbers(std::int64_t size) {
  try {
    return std::vector<std::int64_t>(static_cast<std::size_t>(size));
  } catch (const std::exception&) {
    throw OutOfMemoryError(message("DataLoader::order: no memory for ", size, " numbers"));
  }
}

// Lowers the priority of the calling thread, so that preparing batches does not take a core from
// compute threads. It still runs whenever they wait for a batch.
void lower_priority() {
  constexpr int steps = 10;
  const auto thread = static_cast<id_t>(gettid());
  errno = 0;
  const int now = getpriority(PRIO_PROCESS, thread);
  if (errno == 0) setpriority(PRIO_PROCESS, thread, now + steps);  // ignored if refused
}

// Random 64-bit numbers for the order of an epoch; each Philox block yields two.
class OrderBits {
 public:
  OrderBits(std::uint64_t seed, std::int64_t epoch)
      : seed_(seed), epoch_(static_cast<std::uint64_t>(epoch)) {}

  std::uint64_t operator()() {
    if (next_++ % 2 != 0) return spare_;
    const detail::PhiloxBlock block = detail::draw_block(seed_, epoch_, order_kind, next_ / 2);
    spare_ = detail::join_words(block.word[2], block.word[3]);
    return detail::join_words(block.word[0], block.word[1]);
  }

 private:
  std::uint64_t seed_, epoch_, next_ = 0, spare_ = 0;
};

}  // namespace

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  if (dataset_ == nullptr) throw ValueError("DataLoader: there is no dataset");
  const auto check = [](const char* option, std::int64_t value, std::int64_t least) {
    if (value < least) {
      throw ValueError(
          message("DataLoader: ", option, " is ", value, " (allowed: ", least, " or more)"));
    }
  };
  check("the dataset's size", dataset_->size(), 0);
  check("batch_size", options.batch_size, 1);
  check("workers", options.workers, 0);
  check("prefetch", options.prefetch, 1);
}

std::int64_t DataLoader::batches() const { return batches_of(dataset_->size(), options_); }

std::vector<std::int64_t> DataLoader::order(std::int64_t epoch) const {
  check_epoch("order", epoch);
  std::vector<std::int64_t> order = numbers(dataset_->size());
  if (!options_.shuffle) {
    std::iota(order.begin(), order.end(), std::int64_t{0});
    return order;
  }
  // Fisher-Yates shuffle, inside out: i is inserted at a random position of 0 … i.
  OrderBits bits(options_.seed, epoch);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto place = static_cast<std::size_t>(number_below(i + 1, bits));
    order[i] = order[place];
    order[place] = static_cast<std::int64_t>(i);
  }
  return order;
}

// The state that an epoch shares with its threads. Batches are started (`taken`) and returned
// (`given`) in order, and batch k waits in place k mod prefetch.
struct DataLoader::Epoch::Work {
  struct Place {
    std::optional<Batch> batch;
    std::exception_ptr error;
    bool filled() const { return batch.has_value() || error != nullptr; }
  };

  Work(const DataLoader& loader, std::int64_t epoch_number, std::int64_t first)
      : dataset(loader.dataset_),
        options(loader.options_),
        epoch(epoch_number),
        order(loader.order(epoch_number)),
        taken(first),
        given(first),
        end(batches_of(static_cast<std::int64_t>(order.size()), options)) {
    const std::int64_t ahead = std::min(options.prefetch, end - first);
    const std::int64_t count = std::min<std::int64_t>(options.workers, ahead);
    if (count <= 0) return;
    places.resize(static_cast<std::size_t>(ahead));
    threads.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      try {
        threads.emplace_back([this] { work(); });
      } catch (const std::exception&) {
        break;  // continue with fewer threads; with none, next() makes the batches
      }
    }
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() { stop(); }

  // The threads end after the batches that they are making.
  void stop() {
    {
      const std::lock_guard lock(mutex);
      end = given;
    }
    room.notify_all();
    threads.clear();
  }

  // Depends on `number` only: the calling thread's modes must not affect the dataset.
  Batch make(std::int64_t number) const {
    const NoGrad no_grad;
    const Autocast no_autocast(DType::bfloat16, false);
    const auto from = static_cast<std::size_t>(number * options.batch_size);
    const auto size = std::min(static_cast<std::size_t>(options.batch_size), order.size() - from);
    return dataset->batch({std::span(order).subspan(from, size), options.seed, epoch});
  }

  void work() {
    lower_priority();
    detail::disable_nested_parallelism();
    std::unique_lock lock(mutex);
    for (;;) {
      const auto ahead = static_cast<std::int64_t>(places.size());
      room.wait(lock, [&] { return taken >= end || (filling && taken - given < ahead); });
      if (taken >= end) return;
      const std::int64_t number = taken++;
      filling = taken - given < ahead;
      lock.unlock();
      Place made;
      try {
        made.batch = make(number);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      if (made.error != nullptr) end = std::min(end, number + 1);
      place(number) = std::move(made);
      filled.notify_one();
    }
  }

  Place& place(std::int64_t number) {
    return places[static_cast<std::size_t>(number) % places.size()];
  }

  std::optional<Batch> next() {
    std::unique_lock lock(mutex);
    if (given >= end) {
      lock.unlock();
      stop();
      return std::nullopt;
    }
    // If no thread has started this batch, make it here, with all threads of the parallel kernels.
    // When every core is busy, that is faster than waiting for a worker.
    if (taken == given) {
      const std::int64_t number = taken++;
      lock.unlock();
      return make_here(number);
    }
    filled.wait(lock, [&] { return place(given).filled(); });
    Place made = std::exchange(place(given), {});
    const bool wake = give();
    lock.unlock();
    if (wake) room.notify_one();
    if (made.error == nullptr) return std::move(made.batch);
    stop();
    std::rethrow_exception(made.error);
  }

  Batch make_here(std::int64_t number) {
    try {
      Batch batch = make(number);
      bool wake = false;
      {
        const std::lock_guard lock(mutex);
        wake = give();
      }
      if (wake) room.notify_one();
      return batch;
    } catch (...) {
      stop();
      throw;
    }
  }

  // Counts a batch as returned. Returns whether more batches should be made.
  bool give() {
    ++given;
    filling = filling || taken - given <= static_cast<std::int64_t>(places.size()) / 2;
    return filling;
  }

  const std::shared_ptr<const Dataset> dataset;
  const DataLoaderOptions options;
  const std::int64_t epoch;
  const std::vector<std::int64_t> order;

  std::mutex mutex;  // guards everything below except the list of threads
  std::condition_variable room, filled;
  std::int64_t taken, given, end;  // batch numbers
  // False once all places are in use, true again when half of them are free: a worker displaces a
  // compute thread, so each time it wakes up it makes several batches.
  bool filling = true;
  std::vector<Place> places;
  std::vector<std::jthread> threads;
};

DataLoader::Epoch DataLoader::epoch(std::int64_t epoch, std::int64_t first) const {
  check_epoch("epoch", epoch);
  if (first < 0 || first > batches()) {
    throw IndexError(message("DataLoader::epoch: first is ", first, " of ", batches(),
                             " batches (allowed: 0 … ", batches(), ")"));
  }
  return Epoch(std::make_unique<Epoch::Work>(*this, epoch, first));
}

DataLoader::Epoch::Epoch(std::unique_ptr<Work> work) : work_(std::move(work)) {}
DataLoader::Epoch::Epoch(Epoch&&) noexcept = default;
DataLoader::Epoch& DataLoader::Epoch::operator=(Epoch&&) noexcept = default;
DataLoader::Epoch::~Epoch() = default;

std::optional<Batch> DataLoader::Epoch::next() {
  return work_ == nullptr ? std::nullopt : work_->next();
}

}  // namespace extensor::data
