// Collectives between CUDA devices over NCCL, for the table that libextensor uses
// (distributed/transport.h). They run in a stream of their own. The communicator of NCCL does not
// block: its calls return at once, and test() asks how far they are, so that a rank that has failed
// does not keep the others waiting.
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "backend/cuda/context.h"
#include "backend/cuda/libraries.h"
#include "backend/cuda/state.h"
#include "core/check.h"
#include "distributed/transport.h"

namespace extensor::backend::cuda {

namespace {

using detail::message;
using distributed::CollectiveCall;
using distributed::CollectiveKind;
using distributed::Connection;
using distributed::Invitation;
using distributed::Progress;
using distributed::Reduction;
using distributed::TransportLibrary;

// ---- NCCL's C interface, which is stable; its header is not needed to build

using Comm = void*;

enum Result { success = 0, invalid_usage = 5, in_progress = 7 };
enum RedOp { op_sum = 0, op_product = 1, op_maximum = 2, op_minimum = 3 };
enum Type {
  type_int8 = 0,
  type_uint8 = 1,
  type_int32 = 2,
  type_uint32 = 3,
  type_int64 = 4,
  type_uint64 = 5,
  type_float16 = 6,
  type_float32 = 7,
  type_float64 = 8,
  type_bfloat16 = 9
};

// ncclConfig_t of the oldest version that is accepted. NCCL reads no more than `bytes` of it and
// gives the fields of later versions their defaults.
constexpr int least_version = 21800;  // 2.18
constexpr int undefined = INT_MIN;
struct Config {
  std::size_t bytes = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = least_version;
  int blocking = 0;
  int cluster_size = undefined, least_blocks = undefined, most_blocks = undefined;
  const char* network = nullptr;
  int split_share = undefined;
  int unused = undefined;
};

// The functions that are used here.
#define EXTENSOR_NCCL(X)                                                                 \
  X(GetVersion, int, (int*))                                                             \
  X(GetErrorString, const char*, (int))                                                  \
  X(GetLastError, const char*, (Comm))                                                   \
  X(GetUniqueId, int, (Invitation*))                                                     \
  X(CommInitRankConfig, int, (Comm*, int, Invitation, int, Config*))                     \
  X(CommGetAsyncError, int, (Comm, int*))                                                \
  X(CommAbort, int, (Comm))                                                              \
  X(AllReduce, int, (const void*, void*, std::size_t, int, int, Comm, cudaStream_t))     \
  X(ReduceScatter, int, (const void*, void*, std::size_t, int, int, Comm, cudaStream_t)) \
  X(AllGather, int, (const void*, void*, std::size_t, int, Comm, cudaStream_t))          \
  X(Broadcast, int, (const void*, void*, std::size_t, int, int, Comm, cudaStream_t))

struct Nccl {
#define EXTENSOR_DECLARE(name, result, arguments) result(*name) arguments = nullptr;
  EXTENSOR_NCCL(EXTENSOR_DECLARE)
#undef EXTENSOR_DECLARE
};

const Nccl& nccl() {
  static const Nccl loaded = [] {
    const RequiredLibrary opened("distributed: collectives on CUDA tensors need NCCL",
                                 "libnccl.so.2", "nvidia-nccl-cu13");
    Nccl result;
#define EXTENSOR_FIND(name, ...) opened.find(result.name, "nccl" #name);
    EXTENSOR_NCCL(EXTENSOR_FIND)
#undef EXTENSOR_FIND
    int version = 0;
    if (result.GetVersion(&version) != success || version < least_version) {
      opened.refuse(message("has version ", version, " (allowed: ", least_version,
                            ", which is 2.18, or newer)"));
    }
    return result;
  }();
  return loaded;
}

// ---- the connection

struct State {
  int device = 0;
  Comm comm = nullptr;
  cudaStream_t stream = nullptr;
  std::string reason;  // of the last error
};
State& state() {
  static State* kept = new State;  // never freed: NCCL has threads of its own
  return *kept;
}

// in_progress is no error.
void check_nccl(int result, const char* action, const char* allowed = "") {
  if (result == success || result == in_progress) return;
  std::string text = message("NCCL: ", action, ": ", nccl().GetErrorString(result));
  const char* last = nccl().GetLastError(state().comm);
  if (last != nullptr && *last != '\0') text += message(": ", last);
  throw DeviceError(text + allowed);
}

// The error that the function throws, as the table returns it.
template <class Function>
const char* reason_of(const Function& function) {
  std::string& reason = state().reason;
  try {
    function();
    return nullptr;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  return reason.c_str();
}

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (cudaEventDestroy(event_) != cudaSuccess) cudaGetLastError();
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// A call of NCCL. It is complete for the host when CommGetAsyncError says so; only then does the
// stream contain all of its work.
struct Request {
  enum class Stage { connecting, launching, running, done };
  Stage stage = Stage::done;
  std::unique_ptr<Event> begin, end;
};

bool is_pending(const char* action, const char* allowed = "") {
  int status = success;
  check_nccl(nccl().CommGetAsyncError(state().comm, &status), action, allowed);
  check_nccl(status, action, allowed);
  return status == in_progress;
}

// Whether the request has ended.
bool advance(Request& request, double* seconds) {
  const State& now = state();
  enter(now.device);
  switch (request.stage) {
    case Request::Stage::connecting:
      return !is_pending("connecting the ranks",
                         " (allowed: a device of its own for each rank, such as "
                         "cuda(world.local_rank()); ranks that share one need different "
                         "values of NCCL_HOSTID)");
    case Request::Stage::launching:
      if (is_pending("starting a collective")) return false;
      check(cudaEventRecord(request.end->get(), now.stream), "cudaEventRecord");
      request.stage = Request::Stage::running;
      [[fallthrough]];
    case Request::Stage::running: {
      const cudaError_t result = cudaEventQuery(request.end->get());
      if (result == cudaErrorNotReady) {
        cudaGetLastError();  // clears it: not an error
        is_pending("a collective");
        return false;
      }
      check(result, "a collective of NCCL");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, request.begin->get(), request.end->get()),
            "cudaEventElapsedTime");
      *seconds = 1e-3 * static_cast<double>(milliseconds);
      return true;
    }
    case Request::Stage::done:
      return true;
  }
  return true;
}

// ---- collectives

Type type_of(DType dtype) {
  switch (dtype) {
    case DType::bool_:  // its minimum and maximum are those of the bytes 0 and 1
    case DType::uint8:
      return type_uint8;
    case DType::int8:
      return type_int8;
    case DType::int32:
      return type_int32;
    case DType::uint32:
      return type_uint32;
    case DType::int64:
      return type_int64;
    case DType::uint64:
      return type_uint64;
    case DType::float16:
      return type_float16;
    case DType::bfloat16:
      return type_bfloat16;
    case DType::float32:
      return type_float32;
    case DType::float64:
      return type_float64;
    default:
      throw_unexpected_dtype(dtype);
  }
}

RedOp op_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return op_sum;
    case Reduction::product:
      return op_product;
    case Reduction::minimum:
      return op_minimum;
    case Reduction::maximum:
      return op_maximum;
  }
  return op_sum;
}

void launch(const CollectiveCall& call) {
  const auto& [device, comm, stream, reason] = state();
  const auto count = static_cast<std::size_t>(call.count);
  const std::size_t bytes = count * itemsize(call.dtype);
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      return check_nccl(nccl().AllReduce(call.output, call.output, count, type_of(call.dtype),
                                         op_of(call.reduction), comm, stream),
                        "ncclAllReduce");
    case CollectiveKind::reduce_scatter:
      return check_nccl(nccl().ReduceScatter(call.input, call.output, count, type_of(call.dtype),
                                             op_of(call.reduction), comm, stream),
                        "ncclReduceScatter");
    case CollectiveKind::all_gather:
      return check_nccl(nccl().AllGather(call.input, call.output, bytes, type_uint8, comm, stream),
                        "ncclAllGather");
    case CollectiveKind::broadcast:
      return check_nccl(
          nccl().Broadcast(call.output, call.output, bytes, type_uint8, call.root, comm, stream),
          "ncclBroadcast");
    case CollectiveKind::barrier:  // has no tensor, so it is never called on a device
      break;
  }
  throw DeviceError("NCCL: an unknown collective");
}

// ---- the table

const char* invite(Invitation* invitation) {
  return reason_of([&] {
    check_nccl(nccl().GetUniqueId(invitation), "finding an address for the other ranks");
  });
}

const char* open(Connection* connection, void** request) {
  return reason_of([&] {
    State& now = state();
    now.device = connection->device;
    enter(now.device);
    // Before kernels that wait for a multiprocessor: a collective should begin beside them.
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&now.stream, cudaStreamNonBlocking, greatest),
          "cudaStreamCreate");
    Config config;
    check_nccl(nccl().CommInitRankConfig(&now.comm, connection->size, connection->invitation,
                                         connection->rank, &config),
               "ncclCommInitRankConfig");
    auto made = std::make_unique<Request>();
    made->stage = Request::Stage::connecting;
    *request = made.release();
  });
}

const char* start(const CollectiveCall& call, void** request) {
  return reason_of([&] {
    const State& now = state();
    enter(now.device);
    auto made = std::make_unique<Request>();
    if (call.count > 0) {
      made->begin = std::make_unique<Event>();
      made->end = std::make_unique<Event>();
      check(cudaStreamWaitEvent(now.stream, static_cast<cudaEvent_t>(call.ready), 0),
            "cudaStreamWaitEvent");
      check(cudaEventRecord(made->begin->get(), now.stream), "cudaEventRecord");
      launch(call);
      made->stage = Request::Stage::launching;
    }
    *request = made.release();
  });
}

const char* test(void* request, Progress* progress) {
  auto* const made = static_cast<Request*>(request);
  const char* error = reason_of([&] { progress->done = advance(*made, &progress->seconds); });
  if (error != nullptr || progress->done) delete made;
  return error;
}

// NCCL tells its kernels to end, and waits for its own threads. Should that take long, the process
// does not wait for it.
void abort() {
  struct Ending {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  const Comm comm = std::exchange(state().comm, nullptr);
  if (comm == nullptr) return;
  const auto ending = std::make_shared<Ending>();
  std::thread([ending, comm] {
    nccl().CommAbort(comm);
    const std::lock_guard lock(ending->mutex);
    ending->done = true;
    ending->changed.notify_all();
  }).detach();
  std::unique_lock lock(ending->mutex);
  ending->changed.wait_for(lock, std::chrono::seconds(1), [&] { return ending->done; });
}

constexpr TransportLibrary library{
    .interface_version = distributed::transport_version,
    .name = "NCCL",
    .most = std::numeric_limits<std::int64_t>::max() / 16,  // in bytes, a std::size_t
    .burst = 1,
    .invite = invite,
    .open = open,
    .start = start,
    .test = test,
    .progress = [] {},
    .abort = abort,
    // The program ends, and the runtime of CUDA may be gone already: the system frees everything.
    .close = [] {}};

}  // namespace

}  // namespace extensor::backend::cuda

extern "C" __attribute__((visibility("default"))) const extensor::distributed::TransportLibrary*
extensor_nccl_library() {
  extensor::backend::cuda::nccl();  // throws if it is missing
  return &extensor::backend::cuda::library;
}
