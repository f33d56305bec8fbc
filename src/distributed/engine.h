// Runs the collectives of a rank, one after another, on a thread that makes all calls of the
// transport. The thread polls: no collective waits for MPI without noticing that a rank has failed.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "distributed/launcher.h"
#include "distributed/transport.h"
#include "distributed/watch.h"
#include "extensor/distributed/communicator.h"

namespace extensor::distributed {

class Trace {
 public:
  void start();
  std::vector<TraceEvent> take();
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  // An event that ends now and began at `begin`, or `seconds` ago.
  void add(const std::string& name, std::chrono::steady_clock::time_point begin);
  void add(const std::string& name, double seconds);

 private:
  std::mutex mutex_;
  std::atomic<bool> is_on_{false};
  std::vector<TraceEvent> events_;
};

// A library and whether its connection to the other ranks was opened. The thread of the engine sets
// and reads `is_open`.
struct Transport {
  const TransportLibrary* library = nullptr;
  bool is_open = false;
};

struct Work::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::atomic<bool> is_awaited{false};  // a thread does nothing but wait for it
  std::string error;                    // empty: none
  // The memory of the collective, until it has ended.
  Tensor input, output;
  std::shared_ptr<Trace> trace;
  // Called by the first wait(), for what is left to compute.
  std::function<void()> finish;
};

struct Communicator::Call {
  CollectiveKind kind;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  Tensor input = {}, output = {};
  std::int64_t count = 0;  // as in CollectiveCall
  std::function<void()> finish = {};
};

class Communicator::Engine {
 public:
  // Connects the ranks; throws DistributedError.
  Engine(const Launch& launch, const InitOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Waits until all ranks have come to the end, unless the run has failed.
  ~Engine();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::vector<Introduction>& ranks() const { return ranks_; }

  std::shared_ptr<Work::State> submit(const Call& call);
  void fail(const std::string& reason);
  Trace& trace() { return *trace_; }

 private:
  struct Job {
    CollectiveCall call;
    Signature signature;
    std::shared_ptr<Work::State> state;
    Device device;
    std::shared_ptr<void> ready;  // the event of a CUDA device that the call names
  };

  void work(std::promise<void> connected);
  void connect();
  // Throws DeviceError unless this process can call collectives on the device.
  void choose_device(Device device, const Signature& signature);
  void run(const Job& job);
  // The following return the error, or an empty text.
  // An all_gather of bytes over MPI.
  std::string exchange(const void* own, void* all, std::size_t bytes);
  std::string run_job(const Job& job, double* seconds);
  std::string open_cuda(const std::atomic<bool>& is_awaited);
  std::string run_parts(const TransportLibrary& library, const CollectiveCall& call,
                        const std::atomic<bool>& is_awaited, double* seconds);
  std::string finish_request(const TransportLibrary& library, void* request,
                             const std::atomic<bool>& is_awaited, double* seconds);
  static void end(Work::State& state, const std::string& error);
  // The memory of a collective that failed: the transport may still write to it.
  static void keep_forever(Work::State& state);

  const Launch launch_;
  const InitOptions options_;
  Transport mpi_, cuda_;  // cuda_.library is null until choose_device() has set it
  int rank_ = 0, size_ = 1;
  std::vector<Introduction> ranks_;
  std::unique_ptr<Watch> watch_;
  const std::shared_ptr<Trace> trace_ = std::make_shared<Trace>();
  std::uint64_t sequence_ = 0;
  // Collectives that all ranks have once called together. Others are compared before they start.
  std::set<std::pair<std::uint64_t, std::int64_t>> agreed_;
  bool may_spin_ = false;     // every rank of this machine has a core
  bool is_reported_ = false;  // a collective has thrown the failure

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  Device device_;  // of the tensors that are not on the CPU; the CPU: none yet
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace extensor::distributed
