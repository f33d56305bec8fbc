// Collectives between the processes (ranks) of a run that a launcher such as mpirun or srun
// started.
//
//   distributed::Communicator& world = distributed::init();   // alone: one rank
//   Tensor sum = extensor::full({3}, world.rank());
//   world.all_reduce(sum);                                     // 0 + 1 + … on every rank
//
//   distributed::Work work = world.all_reduce_async(sum);      // runs while this thread computes
//   …
//   work.wait();
//
// All ranks call the same collectives in the same order with the same shapes and dtypes. Ranks that
// do not are told what differs; a rank that ends, or shows no sign of life, ends the collectives of
// all others. Both throw DistributedError on every rank.
//
// With the same number of ranks, a collective has the same bits in every run and on every rank.
// MPI connects the ranks and carries tensors on the CPU: libextensor_mpi.so, which is loaded when
// there are several ranks. NCCL carries those on CUDA devices. All ranks pass tensors of one type
// of device, and a process passes those of one CUDA device; others are a DeviceError.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "extensor/error.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::distributed {

// A rank ended, hangs, cannot be reached or disagrees with the others. The message names the
// collective and the rank. Further collectives throw it as well: the program should end.
class DistributedError : public Error {
 public:
  using Error::Error;
};

// mean divides the sum by the number of ranks. For bool, minimum is "all" and maximum is "any". The
// minimum and maximum are unspecified where a rank has NaN.
enum class ReduceOp : std::uint8_t { sum, mean, product, minimum, maximum };

// A collective in progress. Copies stand for the same collective.
class Work {
 public:
  Work() = default;      // nothing to wait for
  bool is_done() const;  // finished or failed: wait() returns at once
  // Waits for the result. Until then, the tensors of the collective must be neither read nor
  // written. On a CUDA device, the host waits as well. Throws DistributedError, also when called
  // again.
  void wait();

 private:
  friend class Communicator;
  struct State;  // of the implementation
  std::shared_ptr<State> state_;
};

// A collective, or a thread that waited for some, in seconds of std::chrono::steady_clock. One on a
// CUDA device begins when the work before it in the tensor's stream has ended.
struct TraceEvent {
  std::string name;  // "all_reduce (mean) of 1024 float32" or "wait"
  double begin = 0, end = 0;
};

struct InitOptions {
  // Seconds without a sign of life after which a rank counts as hung or out of reach.
  double heartbeat_timeout = 3;
  // Seconds that a rank waits in a collective which another one has not called yet.
  double collective_timeout = 1800;
};

// Functions of one communicator may be called by several threads only if these agree on an order
// that is the same on all ranks. Collectives are not recorded for backward(): tensors that require
// a gradient are refused with a ValueError unless under NoGrad.
class Communicator {
 public:
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  int rank() const;  // 0 … size() − 1
  int size() const;
  // The position among the ranks of the same machine, and their number.
  int local_rank() const;
  int local_size() const;

  // Replaces x by its reduction over all ranks. Throws DTypeError for the sum, mean or product of
  // bool, for the mean of integers and for int16 and uint16 on a CUDA device. The asynchronous form
  // throws ValueError for a tensor that is not contiguous.
  void all_reduce(Tensor& x, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work all_reduce_async(Tensor& x, ReduceOp op = ReduceOp::sum);

  // Reduces x over all ranks and returns part rank() of size() equal parts along the first axis.
  // Throws ShapeError unless its size is a multiple of size().
  Tensor reduce_scatter(const Tensor& x, ReduceOp op = ReduceOp::sum);
  // The same into `out`, which must be contiguous and have the shape and dtype of the part.
  [[nodiscard]] Work reduce_scatter_async(const Tensor& x, Tensor& out,
                                          ReduceOp op = ReduceOp::sum);

  // The tensors of all ranks, joined in the order of ranks along the first axis (0-d tensors become
  // a vector). All have the same shape.
  Tensor all_gather(const Tensor& x);
  // The same into `out`, which must be contiguous and have the joined shape and the dtype of x.
  [[nodiscard]] Work all_gather_async(const Tensor& x, Tensor& out);

  // Replaces x by that of rank `root`. Throws ValueError unless 0 ≤ root < size().
  void broadcast(Tensor& x, int root = 0);
  [[nodiscard]] Work broadcast_async(Tensor& x, int root = 0);

  // Returns when all ranks have called it.
  void barrier();

  // The text of every rank, in the order of ranks.
  std::vector<std::string> all_gather_text(const std::string& text);

  // Records the collectives of this rank, and the waits for them, until take_trace(), which returns
  // them in the order of their ends. One rank alone has none.
  void start_trace();
  std::vector<TraceEvent> take_trace();

  // Tells all other ranks that this one cannot continue: their collectives throw a DistributedError
  // with this reason. Does nothing if the ranks have failed already.
  void abort(const std::string& reason);

 private:
  friend Communicator& init(const InitOptions& options);
  struct Call;
  class Engine;
  explicit Communicator(const InitOptions& options);
  Work start(const Call& call);

  std::unique_ptr<Engine> engine_;
};

// Connects the ranks at the first call and returns their communicator, which lasts until the
// program ends. Reads the number of ranks from the environment that Open MPI, MPICH and Intel MPI
// (Hydra), Slurm or RANK and WORLD_SIZE set; without any, there is one rank and nothing is loaded.
// Throws ValueError for an option that is not positive, and DistributedError if
// libextensor_mpi.so cannot be loaded or the launcher and MPI disagree about the number of ranks.
Communicator& init(const InitOptions& options = {});

// Whether init() has returned.
bool is_initialized();

}  // namespace extensor::distributed

EXTENSOR_END_API
