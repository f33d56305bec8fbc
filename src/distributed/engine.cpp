#include "distributed/engine.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cuda_library.h"
#include "core/check.h"
#include "core/open_part.h"

namespace extensor::distributed {

using detail::message;

namespace {

using Clock = std::chrono::steady_clock;

const TransportLibrary* mpi_library() {
  std::string reason;
  void* handle =
      detail::open_part("libextensor_mpi.so", "EXTENSOR_MPI_LIBRARY", "EXTENSOR_MPI=ON", reason);
  if (handle == nullptr) {
    throw DistributedError(message("distributed::init: several ranks need MPI: ", reason));
  }
  const auto function = reinterpret_cast<TransportFunction>(dlsym(handle, mpi_library_function));
  const TransportLibrary* library = function == nullptr ? nullptr : function();
  if (library == nullptr || library->interface_version != transport_version) {
    throw DistributedError(
        "distributed::init: libextensor_mpi.so belongs to another version of the library");
  }
  return library;
}

const TransportLibrary* nccl_library() {
  const auto function =
      reinterpret_cast<TransportFunction>(backend::cuda_function(nccl_library_function));
  const TransportLibrary* library = function == nullptr ? nullptr : function();
  if (library == nullptr || library->interface_version != transport_version) {
    throw DistributedError("libextensor_cuda.so belongs to another version of the library");
  }
  return library;
}

// The event after which work of other streams may use what this thread's work on the device writes.
std::shared_ptr<void> recorded_event(int index) {
  const backend::cuda::Library& cuda = *backend::cuda_library();
  const auto destroy = [&cuda, index](void* event) { cuda.events.destroy(event, index); };
  std::shared_ptr<void> event(cuda.events.create(index), destroy);
  cuda.events.record(event.get(), cuda.native_stream(index), index);
  return event;
}

Reduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      return Reduction::sum;
    case ReduceOp::product:
      return Reduction::product;
    case ReduceOp::minimum:
      return Reduction::minimum;
    case ReduceOp::maximum:
      return Reduction::maximum;
  }
  return Reduction::sum;
}

}  // namespace

void Trace::start() {
  const std::lock_guard lock(mutex_);
  events_.clear();
  is_on_ = true;
}

std::vector<TraceEvent> Trace::take() {
  const std::lock_guard lock(mutex_);
  is_on_ = false;
  return std::exchange(events_, {});
}

void Trace::add(const std::string& name, Clock::time_point begin) {
  add(name, std::chrono::duration<double>(Clock::now() - begin).count());
}

void Trace::add(const std::string& name, double seconds) {
  const double end = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  const std::lock_guard lock(mutex_);
  if (is_on()) events_.push_back({name, end - seconds, end});
}

Communicator::Engine::Engine(const Launch& launch, const InitOptions& options)
    : launch_(launch), options_(options), mpi_{.library = mpi_library()} {
  std::promise<void> connected;
  std::future<void> result = connected.get_future();
  thread_ =
      std::jthread([this, promise = std::move(connected)]() mutable { work(std::move(promise)); });
  result.get();
}

Communicator::Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Work::State> Communicator::Engine::submit(const Call& call) {
  auto state = std::make_shared<Work::State>();
  state->input = call.input;
  state->output = call.output;
  state->finish = call.finish;
  state->trace = trace_;
  const bool has_tensor = call.output.defined();
  const DType dtype = has_tensor ? call.output.dtype() : DType::bool_;
  const Device device = has_tensor ? call.output.device() : cpu_device;
  const auto signature =
      Signature::of(call.kind, dtype, call.op, device.type, call.root, call.count);
  std::shared_ptr<void> ready;
  if (!(device == cpu_device)) {
    choose_device(device, signature);
    ready = recorded_event(device.index);
  }
  Job job{{.kind = call.kind,
           .dtype = dtype,
           .reduction = reduction_of(call.op),
           .root = call.root,
           .input = call.input.defined() ? call.input.impl().data : nullptr,
           .output = has_tensor ? call.output.impl().data : nullptr,
           .count = call.count,
           .ready = ready.get()},
          signature,
          state,
          device,
          ready};
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
  return state;
}

void Communicator::Engine::choose_device(Device device, const Signature& signature) {
  const std::lock_guard lock(mutex_);
  if (device_ == cpu_device) {
    cuda_.library = nccl_library();
    device_ = device;
  }
  if (device == device_) return;
  throw DeviceError(message(signature.describe(), ": the tensor is on ", device,
                            ", the collectives of this process are on ", device_,
                            " (allowed: one CUDA device in each process)"));
}

void Communicator::Engine::fail(const std::string& reason) {
  watch_->fail(message("rank ", rank_, " (process ",
                       ranks_[static_cast<std::size_t>(rank_)].process, " on ",
                       ranks_[static_cast<std::size_t>(rank_)].host, ") gave up: ", reason));
}

// ---- connecting

void Communicator::Engine::connect() {
  Connection connection;
  void* request = nullptr;
  if (const char* error = mpi_.library->open(&connection, &request)) {
    throw DistributedError(message("distributed::init: ", error));
  }
  mpi_.is_open = true;
  rank_ = connection.rank;
  size_ = connection.size;
  if (size_ != launch_.size || rank_ != launch_.rank) {
    throw DistributedError(
        message("distributed::init: ", launch_.launcher, " says rank ", launch_.rank, " of ",
                launch_.size, ", ", mpi_.library->name, " says rank ", rank_, " of ", size_,
                " (allowed: the launcher of the MPI that libextensor_mpi.so is built with)"));
  }
  const Introduction own = introduce();
  ranks_.resize(static_cast<std::size_t>(size_));
  const Watch::Exchange all = [this](const void* mine, void* out, std::size_t bytes) {
    const std::string error = exchange(mine, out, bytes);
    if (!error.empty()) throw DistributedError(message("distributed::init: ", error));
  };
  all(&own, ranks_.data(), sizeof own);
  for (std::size_t k = 1; k < ranks_.size(); ++k) {
    if (std::strcmp(ranks_[k].version, ranks_[0].version) == 0) continue;
    throw DistributedError(message("distributed::init: the ranks run different versions: rank 0 (",
                                   ranks_[0].host, ") ", ranks_[0].version, ", rank ", k, " (",
                                   ranks_[k].host, ") ", ranks_[k].version));
  }
  const auto here = std::ranges::count_if(
      ranks_, [&](const Introduction& one) { return std::strcmp(one.machine, own.machine) == 0; });
  may_spin_ = here <= static_cast<std::ptrdiff_t>(std::thread::hardware_concurrency());
  watch_ = std::make_unique<Watch>(rank_, ranks_, options_, all);
}

std::string Communicator::Engine::exchange(const void* own, void* all, std::size_t bytes) {
  const CollectiveCall call{.kind = CollectiveKind::all_gather,
                            .dtype = DType::uint8,
                            .reduction = Reduction::sum,
                            .root = 0,
                            .input = own,
                            .output = all,
                            .count = static_cast<std::int64_t>(bytes)};
  const std::atomic<bool> is_awaited{true};
  double seconds = -1;
  return run_parts(*mpi_.library, call, is_awaited, &seconds);
}

// In the first collective on a CUDA device, which all ranks have called. Rank 0 invites the others
// over MPI.
std::string Communicator::Engine::open_cuda(const std::atomic<bool>& is_awaited) {
  struct Letter {
    Invitation invitation;
    char error[512];
  };
  Letter own{};
  if (rank_ == 0) {
    if (const char* error = cuda_.library->invite(&own.invitation)) {
      std::string(error).copy(own.error, sizeof own.error - 1);
    }
  }
  std::vector<Letter> all(static_cast<std::size_t>(size_));
  std::string error = exchange(&own, all.data(), sizeof own);
  if (!error.empty()) return error;
  if (all[0].error[0] != '\0') return all[0].error;
  Connection connection{.rank = rank_, .size = size_, .device = 0, .invitation = all[0].invitation};
  {
    const std::lock_guard lock(mutex_);
    connection.device = device_.index;
  }
  cuda_.is_open = true;  // also if it fails: what was begun must be aborted
  void* request = nullptr;
  if (const char* reason = cuda_.library->open(&connection, &request)) return reason;
  double seconds = -1;
  return finish_request(*cuda_.library, request, is_awaited, &seconds);
}

// ---- the thread

void Communicator::Engine::work(std::promise<void> connected) {
  try {
    connect();
    connected.set_value();
  } catch (...) {
    connected.set_exception(std::current_exception());
    return;
  }
  // Messages of the last collective may still be on their way to other ranks.
  constexpr auto brief = std::chrono::milliseconds(1), long_time = std::chrono::milliseconds(50);
  Clock::time_point last = Clock::now();
  for (;;) {
    std::unique_lock lock(mutex_);
    const auto pause = Clock::now() - last < std::chrono::milliseconds(100) ? brief : long_time;
    changed_.wait_for(lock, pause, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) {
      if (stopping_) break;
      lock.unlock();
      if (!watch_->failed()) mpi_.library->progress();
      continue;
    }
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    run(job);
    last = Clock::now();
  }
  // All ranks must come to the end, or those that still call collectives would wait for this one.
  if (!watch_->failed()) {
    watch_->announce(++sequence_, Signature{}, true);
    watch_->wait_confirmed(sequence_);
  }
  if (!watch_->failed()) {
    watch_->expect_end();
    if (cuda_.is_open) cuda_.library->close();
    mpi_.library->close();
    return;
  }
  if (!is_reported_) {
    std::fprintf(stderr, "extensor: the end of the program: %s\n", watch_->reason().c_str());
  }
  // Rank 0 passes the reason on: its connections stay open until it has been read.
  if (rank_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

void Communicator::Engine::end(Work::State& state, const std::string& error) {
  {
    const std::lock_guard lock(state.mutex);
    state.error = error;
    state.done = true;
    // The memory is released before wait() returns.
    state.input = state.output = Tensor();
  }
  state.changed.notify_all();
}

void Communicator::Engine::run(const Job& job) {
  const std::uint64_t sequence = ++sequence_;
  const Clock::time_point begin = Clock::now();
  double seconds = -1;
  std::string error;
  const auto described = [&](const std::string& what) {
    return message(job.signature.describe(), ", collective ", sequence, " of rank ", rank_, ": ",
                   what);
  };
  if (!watch_->failed()) {
    // Ranks are compared before the transport sees a collective that it might not survive.
    constexpr std::size_t most = 10'000;
    const auto key = std::pair(job.signature.what, job.signature.count);
    const bool compare = !agreed_.contains(key);
    watch_->announce(sequence, job.signature, compare);
    if (!compare || watch_->wait_confirmed(sequence)) {
      if (compare && agreed_.size() < most) agreed_.insert(key);
      error = run_job(job, &seconds);
    }
  }
  if (watch_->failed()) {
    error = watch_->reason();
  } else if (!error.empty()) {
    // Another rank may know a better reason, such as ranks that disagree.
    for (int k = 0; k < 100 && !watch_->failed(); ++k) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (!watch_->failed()) fail(error);
    error = watch_->reason();
  }
  if (!error.empty()) {
    is_reported_ = true;
    keep_forever(*job.state);
    for (Transport* each : {&cuda_, &mpi_}) {
      if (std::exchange(each->is_open, false)) each->library->abort();
    }
  }
  if (trace_->is_on() && seconds >= 0) {
    trace_->add(job.signature.describe(), seconds);
  } else if (trace_->is_on()) {
    trace_->add(job.signature.describe(), begin);
  }
  end(*job.state, error.empty() ? error : described(error));
}

std::string Communicator::Engine::run_job(const Job& job, double* seconds) {
  if (job.device == cpu_device) {
    return run_parts(*mpi_.library, job.call, job.state->is_awaited, seconds);
  }
  if (!cuda_.is_open) {
    std::string error = open_cuda(job.state->is_awaited);
    if (!error.empty()) return error;
  }
  return run_parts(*cuda_.library, job.call, job.state->is_awaited, seconds);
}

std::string Communicator::Engine::run_parts(const TransportLibrary& library,
                                            const CollectiveCall& call,
                                            const std::atomic<bool>& is_awaited, double* seconds) {
  const bool is_divisible =
      call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::broadcast;
  std::int64_t at = 0;
  do {
    CollectiveCall part = call;
    if (is_divisible) {
      part.count = std::min(call.count - at, library.most);
      part.output = static_cast<std::byte*>(call.output) +
                    static_cast<std::size_t>(at) * itemsize(call.dtype);
    }
    void* request = nullptr;
    if (const char* error = library.start(part, &request)) return error;
    std::string error = finish_request(library, request, is_awaited, seconds);
    if (!error.empty()) return error;
    at += part.count;
  } while (is_divisible && at < call.count);
  return "";
}

// Polls until the request has ended. While a thread of this rank waits for it, polling takes no
// core from a computation; it does otherwise, and pauses between short bursts.
std::string Communicator::Engine::finish_request(const TransportLibrary& library, void* request,
                                                 const std::atomic<bool>& is_awaited,
                                                 double* seconds) {
  const Clock::time_point begin = Clock::now();
  for (std::int64_t polls = 1;; ++polls) {
    Progress progress;
    const char* error = library.test(request, &progress);
    if (error != nullptr) return error;
    *seconds = progress.seconds;
    if (progress.done) return "";
    if (polls % library.burst != 0) continue;
    if (watch_ != nullptr && watch_->failed()) return watch_->reason();
    if (watch_ == nullptr && Clock::now() - begin > std::chrono::seconds(60)) {
      return "not all ranks have called distributed::init within 60 s";
    }
    if (!is_awaited.load(std::memory_order_relaxed)) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    } else if (!may_spin_) {
      sched_yield();
    }
  }
}

void Communicator::Engine::keep_forever(Work::State& state) {
  static auto* kept = new std::vector<Tensor>();
  const std::lock_guard lock(state.mutex);
  kept->push_back(state.input);
  kept->push_back(state.output);
}

}  // namespace extensor::distributed
