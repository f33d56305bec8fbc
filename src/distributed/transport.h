// The boundary between libextensor and a library that carries collectives, such as
// libextensor_mpi.so, which does not link libextensor. A library for another device (NCCL) fills
// the same table: `start` may then launch work on a stream, and `test` ask an event.
//
// One thread makes all calls. No function waits for another rank, except open and close.
#pragma once

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
  const void* input;   // of all_gather and reduce_scatter; else unused
  void* output;        // of all; read as well by all_reduce and broadcast
  std::int64_t count;  // elements of one rank's part for all_gather and reduce_scatter, else all
};

struct TransportLibrary {
  int interface_version;
  const char* name;   // for messages: "MPI"
  std::int64_t most;  // the largest count of a call
  // Functions that can fail return null or the reason, which is valid until the next call.
  // Connects to the other ranks.
  const char* (*open)(int* rank, int* size);
  // Starts a collective. The memory must stay valid until test() has reported its end.
  const char* (*start)(const CollectiveCall& call, void** request);
  // Whether the collective has ended; the request is released if so.
  const char* (*test)(void* request, bool* done);
  // Lets messages to other ranks move on while this one has no collective in progress.
  void (*progress)();
  void (*close)();
};

inline constexpr int transport_version = 1;

// The only exported function of libextensor_mpi.so.
inline constexpr const char* mpi_library_function = "extensor_mpi_library";
using TransportFunction = const TransportLibrary* (*)();

}  // namespace extensor::distributed
