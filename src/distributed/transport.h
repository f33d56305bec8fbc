// The boundary between libextensor and the libraries that carry collectives, which do not link
// libextensor: libextensor_mpi.so for tensors on the CPU, and libextensor_cuda.so, which calls
// NCCL, for those on CUDA devices. Both fill the same table.
//
// One thread makes all calls. No function waits for another rank, except close, and open where it
// returns no request.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::distributed {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  barrier
};

// As MPI defines them; the mean is a sum here.
enum class Reduction : std::uint8_t { sum, product, minimum, maximum };

struct CollectiveCall {
  CollectiveKind kind;
  DType dtype;
  Reduction reduction;
  int root;
  const void* input;      // of all_gather and reduce_scatter; else unused
  void* output;           // of all; read as well by all_reduce and broadcast
  std::int64_t count;     // elements of one rank's part for all_gather and reduce_scatter, else all
  void* ready = nullptr;  // of a device: the event after which the memory may be used
};

// Created by the first rank; all ranks need it to find each other.
struct Invitation {
  static constexpr std::size_t size = 128;
  unsigned char bytes[size];
};

struct Connection {
  int rank = 0, size = 1;  // MPI sets them, others are given them
  int device = 0;          // the index of the device of all tensors
  Invitation invitation = {};
};

struct Progress {
  bool done = false;
  double seconds = -1;  // what the collective took on its device; negative if it is not known
};

struct TransportLibrary {
  int interface_version;
  const char* name;   // for messages: "MPI"
  std::int64_t most;  // the largest count of a call
  int burst;          // calls of test() between two pauses while no thread waits for the collective
  // Functions that can fail return null or the reason, which is valid until the next call.
  // On rank 0, before open. Null if the ranks find each other without.
  const char* (*invite)(Invitation* invitation);
  // Connects to the other ranks. If `request` is set, the connection is made when test() says so.
  const char* (*open)(Connection* connection, void** request);
  // Starts a collective. The memory must stay valid until test() has reported its end.
  const char* (*start)(const CollectiveCall& call, void** request);
  // Whether the request has ended; it is released if so, and after an error.
  const char* (*test)(void* request, Progress* progress);
  // Lets messages to other ranks move on while this one has no collective in progress.
  void (*progress)();
  // After a failure: ends the collectives in progress without the other ranks. Nothing but close
  // may be called afterwards.
  void (*abort)();
  void (*close)();
};

inline constexpr int transport_version = 2;

// The only exported function of libextensor_mpi.so.
inline constexpr const char* mpi_library_function = "extensor_mpi_library";
// Of libextensor_cuda.so. Throws DeviceError, which says what to install, if NCCL is missing.
inline constexpr const char* nccl_library_function = "extensor_nccl_library";
using TransportFunction = const TransportLibrary* (*)();

}  // namespace extensor::distributed
