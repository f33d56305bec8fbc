#include "extensor/distributed/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "distributed/engine.h"
#include "extensor/elementwise.h"
#include "ops/overlap.h"

namespace extensor::distributed {

using detail::message;

namespace {

void check_input(const char* operation, const Tensor& x) {
  if (x.device().type != Device::Type::cpu && x.device().type != Device::Type::cuda) {
    throw DeviceError(
        message(operation, ": the tensor is on ", x.device(), " (allowed: cpu, cuda)"));
  }
  if (detail::records(x)) {
    throw ValueError(message(operation, ": the tensor of shape ", x.shape(),
                             " requires a gradient, and collectives are not recorded (allowed: "
                             "under NoGrad, or its detach())"));
  }
}

void check_output(const char* operation, const Tensor& x) {
  check_input(operation, x);
  ops::check_writable(operation, x);
}

void check_contiguous(const char* operation, const char* argument, const Tensor& x) {
  if (x.is_contiguous()) return;
  throw ValueError(message(operation, ": ", argument, ", of shape ", x.shape(),
                           ", is not contiguous (allowed: contiguous, or the blocking form)"));
}

void check_op(const char* operation, ReduceOp op, const Tensor& x) {
  const DType dtype = x.dtype();
  if (is_complex(dtype)) {
    throw DTypeError(message(operation, ": x is ", dtype, " (allowed: a real dtype)"));
  }
  detail::check_option(operation, "op", op, ReduceOp::maximum);
  const bool is_order = op == ReduceOp::minimum || op == ReduceOp::maximum;
  if (dtype == DType::bool_ && !is_order) {
    throw DTypeError(message(operation,
                             ": a bool has no sum, mean or product over ranks "
                             "(allowed: minimum, which is all, and maximum, any)"));
  }
  if (op == ReduceOp::mean && !is_floating_point(dtype)) {
    throw DTypeError(message(operation, ": the mean of ", dtype, " (allowed: float dtypes)"));
  }
  const bool is_short = dtype == DType::int16 || dtype == DType::uint16;
  if (is_short && x.device().type == Device::Type::cuda) {
    throw DTypeError(message(operation, ": x is ", dtype, " on ", x.device(),
                             ", which NCCL cannot reduce (allowed: bool, int8, uint8, int32, "
                             "uint32, int64, uint64 and float dtypes, or the CPU)"));
  }
}

void check_root(const char* operation, int root, int size) {
  if (root >= 0 && root < size) return;
  throw ValueError(message(operation, ": root is ", root, " (allowed: 0 to ", size - 1, ")"));
}

void check_target(const char* operation, const Tensor& out, const Shape& shape, const Tensor& x) {
  check_output(operation, out);
  check_contiguous(operation, "out", out);
  if (!(out.device() == x.device())) {
    throw DeviceError(
        message(operation, ": out is on ", out.device(), ", must be on ", x.device(), " as x is"));
  }
  if (!(out.shape() == shape)) {
    throw ShapeError(message(operation, ": out is ", out.shape(), ", must be ", shape));
  }
  if (out.dtype() != x.dtype()) {
    throw DTypeError(message(operation, ": out is ", out.dtype(), ", must be ", x.dtype()));
  }
}

Shape part_shape(const Tensor& x, int size) {
  if (x.ndim() == 0 || x.size(0) % size != 0) {
    throw ShapeError(message("reduce_scatter: x is ", x.shape(),
                             ", its first dimension must be a multiple of the number of ranks, ",
                             size));
  }
  Shape shape = x.shape();
  shape[0] /= size;
  return shape;
}

Shape joined_shape(const Tensor& x, int size) {
  if (x.ndim() == 0) return {size};
  Shape shape = x.shape();
  shape[0] *= size;
  return shape;
}

// MPI counts the elements of a rank's part in an int.
void check_count(const char* operation, std::int64_t count, Device device) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  if (count <= most || device.type == Device::Type::cuda) return;
  throw ValueError(
      message(operation, ": ", count, " elements of each rank (allowed: up to ", most, ")"));
}

void divide(Tensor x, int size) {
  const detail::RecordingScope off(false);
  x /= static_cast<double>(size);
}

// The process that has connected the ranks. A child of fork has the memory of its rank, and neither
// its threads nor its connections.
pid_t rank_process = 0;
bool is_fork() { return getpid() != rank_process; }
void check_process(const char* operation) {
  if (!is_fork()) return;
  throw DistributedError(message(operation, ": process ", getpid(), " is a fork of rank process ",
                                 rank_process, " (allowed: in the process that called init)"));
}

}  // namespace

// ---- work

bool Work::is_done() const {
  if (state_ == nullptr) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Work::wait() {
  if (state_ == nullptr) return;
  check_process("wait");
  state_->is_awaited.store(true, std::memory_order_relaxed);
  std::unique_lock lock(state_->mutex);
  if (!state_->done) {
    const auto begin = std::chrono::steady_clock::now();
    state_->changed.wait(lock, [&] { return state_->done; });
    if (state_->trace->is_on()) state_->trace->add("wait", begin);
  }
  if (!state_->error.empty()) throw DistributedError(state_->error);
  if (const auto finish = std::exchange(state_->finish, {})) finish();
}

// ---- collectives

Communicator::Communicator(const InitOptions& options) {
  const Launch launch = read_launch();
  if (launch.size > 1) engine_ = std::make_unique<Engine>(launch, options);
}
Communicator::~Communicator() = default;

int Communicator::rank() const { return engine_ == nullptr ? 0 : engine_->rank(); }
int Communicator::size() const { return engine_ == nullptr ? 1 : engine_->size(); }

int Communicator::local_rank() const {
  if (engine_ == nullptr) return 0;
  const auto& ranks = engine_->ranks();
  const auto own = ranks.begin() + rank();
  return static_cast<int>(std::count_if(ranks.begin(), own, [&](const Introduction& one) {
    return std::strcmp(one.machine, own->machine) == 0;
  }));
}

int Communicator::local_size() const {
  if (engine_ == nullptr) return 1;
  const auto& ranks = engine_->ranks();
  const auto own = ranks.begin() + rank();
  return static_cast<int>(std::ranges::count_if(
      ranks, [&](const Introduction& one) { return std::strcmp(one.machine, own->machine) == 0; }));
}

Work Communicator::start(const Call& call) {
  check_process("collectives");
  Work work;
  work.state_ = engine_->submit(call);
  return work;
}

Work Communicator::all_reduce_async(Tensor& x, ReduceOp op) {
  check_output("all_reduce", x);
  check_op("all_reduce", op, x);
  check_contiguous("all_reduce", "x", x);
  if (engine_ == nullptr) return {};
  detail::wrote(x);
  Call call{.kind = CollectiveKind::all_reduce, .op = op, .output = x, .count = x.numel()};
  if (op == ReduceOp::mean) call.finish = [x, size = size()] { divide(x, size); };
  return start(call);
}

void Communicator::all_reduce(Tensor& x, ReduceOp op) {
  if (x.is_contiguous()) return all_reduce_async(x, op).wait();
  check_output("all_reduce", x);
  const detail::RecordingScope off(false);
  Tensor dense = x.contiguous();
  all_reduce_async(dense, op).wait();
  x.copy_from(dense);
}

Work Communicator::reduce_scatter_async(const Tensor& x, Tensor& out, ReduceOp op) {
  check_input("reduce_scatter", x);
  check_op("reduce_scatter", op, x);
  check_contiguous("reduce_scatter", "x", x);
  check_target("reduce_scatter", out, part_shape(x, size()), x);
  if (ops::overlap(x, out) != ops::Overlap::none) {
    throw ValueError("reduce_scatter: x and out share memory (allowed: separate tensors)");
  }
  check_count("reduce_scatter", out.numel(), x.device());
  detail::wrote(out);
  if (engine_ == nullptr) {
    const detail::RecordingScope off(false);
    out.copy_from(x);
    return {};
  }
  Call call{.kind = CollectiveKind::reduce_scatter,
            .op = op,
            .input = x,
            .output = out,
            .count = out.numel()};
  if (op == ReduceOp::mean) call.finish = [out, size = size()] { divide(out, size); };
  return start(call);
}

Tensor Communicator::reduce_scatter(const Tensor& x, ReduceOp op) {
  check_input("reduce_scatter", x);
  const detail::RecordingScope off(false);
  Tensor out = detail::make_empty("reduce_scatter", part_shape(x, size()), x.dtype(), x.device());
  reduce_scatter_async(x.contiguous(), out, op).wait();
  return out;
}

Work Communicator::all_gather_async(const Tensor& x, Tensor& out) {
  check_input("all_gather", x);
  check_contiguous("all_gather", "x", x);
  check_target("all_gather", out, joined_shape(x, size()), x);
  if (ops::overlap(x, out) != ops::Overlap::none) {
    throw ValueError("all_gather: x and out share memory (allowed: separate tensors)");
  }
  check_count("all_gather", x.numel(), x.device());
  detail::wrote(out);
  if (engine_ == nullptr) {
    const detail::RecordingScope off(false);
    out.copy_from(x.ndim() == 0 ? x.reshape({1}) : x);
    return {};
  }
  return start({.kind = CollectiveKind::all_gather, .input = x, .output = out, .count = x.numel()});
}

Tensor Communicator::all_gather(const Tensor& x) {
  check_input("all_gather", x);
  const detail::RecordingScope off(false);
  Tensor out = detail::make_empty("all_gather", joined_shape(x, size()), x.dtype(), x.device());
  all_gather_async(x.contiguous(), out).wait();
  return out;
}

Work Communicator::broadcast_async(Tensor& x, int root) {
  check_output("broadcast", x);
  check_root("broadcast", root, size());
  check_contiguous("broadcast", "x", x);
  if (engine_ == nullptr) return {};
  detail::wrote(x);
  return start({.kind = CollectiveKind::broadcast, .root = root, .output = x, .count = x.numel()});
}

void Communicator::broadcast(Tensor& x, int root) {
  if (x.is_contiguous()) return broadcast_async(x, root).wait();
  check_output("broadcast", x);
  const detail::RecordingScope off(false);
  Tensor dense = x.contiguous();
  broadcast_async(dense, root).wait();
  x.copy_from(dense);
}

void Communicator::barrier() {
  if (engine_ != nullptr) start({.kind = CollectiveKind::barrier}).wait();
}

std::vector<std::string> Communicator::all_gather_text(const std::string& text) {
  Tensor length = detail::make_empty("all_gather_text", {1}, DType::int64, cpu_device);
  *length.data<std::int64_t>() = std::ssize(text);
  const std::vector<std::int64_t> lengths = all_gather(length).to_vector<std::int64_t>();
  const std::int64_t most = *std::ranges::max_element(lengths);
  Tensor padded = detail::make_empty("all_gather_text", {most}, DType::uint8, cpu_device);
  auto* bytes = padded.data<std::uint8_t>();
  std::fill(std::copy(text.begin(), text.end(), bytes), bytes + most, std::uint8_t{0});
  const std::vector<std::uint8_t> all = all_gather(padded).to_vector<std::uint8_t>();
  std::vector<std::string> texts;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(k) * most;
    texts.emplace_back(begin, begin + lengths[k]);
  }
  return texts;
}

void Communicator::start_trace() {
  if (engine_ != nullptr) engine_->trace().start();
}

std::vector<TraceEvent> Communicator::take_trace() {
  return engine_ == nullptr ? std::vector<TraceEvent>() : engine_->trace().take();
}

void Communicator::abort(const std::string& reason) {
  if (engine_ == nullptr) return;
  check_process("abort");
  engine_->fail(reason);
}

// ---- the communicator of all ranks

namespace {

std::mutex world_mutex;
Communicator* world = nullptr;  // lives until the end of the program, see init()

}  // namespace

Communicator& init(const InitOptions& options) {
  const auto check = [](const char* option, double value) {
    if (value > 0) return;
    throw ValueError(message("distributed::init: ", option, " is ", value, " (allowed: above 0)"));
  };
  check("heartbeat_timeout", options.heartbeat_timeout);
  check("collective_timeout", options.collective_timeout);
  const std::lock_guard lock(world_mutex);
  if (world == nullptr) {
    rank_process = getpid();
    world = new Communicator(options);
    // Before the library's other objects end, and in the order that ranks have come to the end. A
    // fork leaves the engine as it is: it cannot join the threads, and its rank goes on.
    std::atexit([] {
      if (!is_fork()) {
        world->engine_.reset();
      } else {
        static_cast<void>(world->engine_.release());
      }
    });
  }
  return *world;
}

bool is_initialized() {
  const std::lock_guard lock(world_mutex);
  return world != nullptr;
}

}  // namespace extensor::distributed
