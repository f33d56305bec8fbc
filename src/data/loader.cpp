#include "extensor/data/loader.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "core/check.h"
#include "core/parallel.h"
#include "data/draw_blocks.h"
#include "data/stream_reader.h"
#include "extensor/autocast.h"
#include "extensor/autograd.h"
#include "extensor/interruption.h"

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

// Lowers the priority of the calling thread, so that preparing batches does not take a core from
// compute threads. It still runs whenever they wait for a batch.
void lower_priority() {
  constexpr int steps = 10;
  const auto thread = static_cast<id_t>(gettid());
  errno = 0;
  const int now = getpriority(PRIO_PROCESS, thread);
  if (errno == 0) setpriority(PRIO_PROCESS, thread, now + steps);  // ignored if refused
}

void check_option(const char* option, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw ValueError(
        message("DataLoader: ", option, " is ", value, " (allowed: ", least, " or more)"));
  }
}

void check_options(const DataLoaderOptions& options) {
  check_option("batch_size", options.batch_size, 1);
  check_option("workers", options.workers, 0);
  check_option("prefetch", options.prefetch, 1);
  check_option("ranks", options.ranks, 1);
  if (options.rank < 0 || options.rank >= options.ranks) {
    throw ValueError(message("DataLoader: rank is ", options.rank, " of ", options.ranks,
                             " ranks (allowed: 0 ≤ rank < ranks)"));
  }
  if (options.batch_size < options.ranks) {
    throw ValueError(message("DataLoader: batch_size is ", options.batch_size, " for ",
                             options.ranks, " ranks, which share every batch (allowed: at least ",
                             options.ranks, ")"));
  }
}

// The examples of a whole batch that this rank loads.
struct Part {
  std::size_t first, size;
};
Part part_of(std::size_t examples, const DataLoaderOptions& options) {
  const auto rank = static_cast<std::size_t>(options.rank);
  const auto ranks = static_cast<std::size_t>(options.ranks);
  const std::size_t each = examples / ranks, more = examples % ranks;
  return {rank * each + std::min(rank, more), each + (rank < more ? 1 : 0)};
}

void check_sized(const char* operation, const DataLoader& loader) {
  if (!loader.is_stream()) return;
  throw ValueError(message("DataLoader::", operation,
                           ": a stream has no size and no indices "
                           "(allowed: epoch, which reads it)"));
}

// How often a wait for a worker looks for an interruption.
constexpr std::chrono::milliseconds between_checks(50);

constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();

}  // namespace

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  if (dataset_ == nullptr) throw ValueError("DataLoader: there is no dataset");
  check_option("the dataset's size", dataset_->size(), 0);
  check_options(options);
  if (options_.sampler == nullptr) {
    options_.sampler = options.shuffle ? random_sampler() : sequential_sampler();
  }
  check_option("the sampler's size", options_.sampler->size(dataset_->size()), 0);
}

DataLoader::DataLoader(StreamDataset stream, const DataLoaderOptions& options)
    : stream_(std::make_shared<const StreamDataset>(std::move(stream))), options_(options) {
  check_options(options);
  if (options.sampler != nullptr) {
    throw ValueError(
        "DataLoader: a stream is read in its own order, a sampler is given (allowed: "
        "StreamOptions::shuffle_buffer)");
  }
  if (options.ranks != 1) {
    throw ValueError(message("DataLoader: a stream cannot be split between ", options.ranks,
                             " ranks (allowed: ranks = 1, with another part of the data in the "
                             "stream of each process)"));
  }
}

const Dataset& DataLoader::dataset() const {
  check_sized("dataset", *this);
  return *dataset_;
}

std::int64_t DataLoader::batches() const {
  check_sized("batches", *this);
  return batches_of(options_.sampler->size(dataset_->size()), options_);
}

std::int64_t DataLoader::examples_of_batch(std::int64_t batch) const {
  check_sized("examples_of_batch", *this);
  const std::int64_t count = batches();
  if (batch < 0 || batch >= count) {
    throw IndexError(message("DataLoader::examples_of_batch: batch is ", batch, " of ", count,
                             " (they count from 0)"));
  }
  const std::int64_t examples = options_.sampler->size(dataset_->size());
  return std::min(options_.batch_size, examples - batch * options_.batch_size);
}

std::vector<std::int64_t> DataLoader::order(std::int64_t epoch) const {
  check_epoch("order", epoch);
  check_sized("order", *this);
  const std::int64_t examples = dataset_->size(), size = options_.sampler->size(examples);
  std::vector<std::int64_t> order = options_.sampler->order(examples, options_.seed, epoch);
  if (std::ssize(order) != size) {
    throw ValueError(message("DataLoader::order: the sampler returned ", order.size(),
                             " examples (allowed: its size, ", size, ")"));
  }
  for (const std::int64_t index : order) {
    if (index < 0 || index >= examples) {
      throw IndexError(message("DataLoader::order: the sampler returned index ", index, " of ",
                               examples, " examples (allowed: 0 and more, below their number)"));
    }
  }
  return order;
}

// The state that an epoch shares with its threads. Batches are started (`taken`) and returned
// (`given`) in order, and batch k waits in place k mod prefetch.
struct DataLoader::Epoch::Work {
  struct Place {
    std::optional<Batch> batch;
    std::exception_ptr error;
    bool beyond_end = false;  // of a stream
    bool filled() const { return batch.has_value() || error != nullptr || beyond_end; }
  };

  Work(const DataLoader& loader, std::int64_t epoch_number, std::int64_t first)
      : dataset(loader.dataset_),
        options(loader.options_),
        epoch(epoch_number),
        order(loader.is_stream() ? std::vector<std::int64_t>() : loader.order(epoch_number)),
        taken(first),
        given(first),
        end(loader.is_stream() ? unknown
                               : batches_of(static_cast<std::int64_t>(order.size()), options)) {
    if (loader.is_stream()) {
      const Modes modes;
      stream = std::make_unique<StreamReader>(loader.stream_, options, epoch, first);
    }
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

  // The calling thread's modes must not affect the dataset.
  struct Modes {
    const NoGrad no_grad;
    const Autocast no_autocast{DType::bfloat16, false};
  };

  // Depends on `number` only; nullopt beyond the end of a stream.
  std::optional<Batch> make(std::int64_t number) const {
    const Modes modes;
    if (stream != nullptr) return stream->batch(number);
    const auto from = static_cast<std::size_t>(number * options.batch_size);
    const auto size = std::min(static_cast<std::size_t>(options.batch_size), order.size() - from);
    const Part part = part_of(size, options);
    if (part.size == 0 && options.ranks > 1) return Batch{};
    return dataset->batch(
        {std::span(order).subspan(from + part.first, part.size), options.seed, epoch});
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
        made.beyond_end = !made.batch.has_value();
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      if (!made.batch) end = std::min(end, number + 1);
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
    while (!filled.wait_for(lock, between_checks, [&] { return place(given).filled(); })) {
      lock.unlock();
      detail::check_interruption();
      lock.lock();
    }
    Place made = std::exchange(place(given), {});
    const bool wake = give();
    lock.unlock();
    if (wake) room.notify_one();
    if (made.batch) return std::move(made.batch);
    stop();
    if (made.error != nullptr) std::rethrow_exception(made.error);
    return std::nullopt;
  }

  std::optional<Batch> make_here(std::int64_t number) {
    try {
      std::optional<Batch> batch = make(number);
      if (!batch) {
        stop();
        return batch;
      }
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
  const std::vector<std::int64_t> order;  // empty for a stream
  std::unique_ptr<StreamReader> stream;   // null for a dataset

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
  if (is_stream()) {
    if (first < 0) {
      throw IndexError(message("DataLoader::epoch: first is ", first,
                               " (allowed: 0 or more, within the stream)"));
    }
  } else if (first < 0 || first > batches()) {
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
