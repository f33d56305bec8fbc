// Collectives over MPI: every call is a nonblocking collective of MPI-3 on a communicator of its
// own, so a program that uses MPI itself is not disturbed.
#include <mpi.h>

#include <climits>
#include <cstdlib>
#include <memory>
#include <string>

#include "distributed/transport.h"
#include "extensor/float16.h"

namespace extensor::distributed {

namespace {

MPI_Comm communicator = MPI_COMM_NULL;
bool started_mpi = false;
MPI_Datatype half_type = MPI_DATATYPE_NULL, brain_type = MPI_DATATYPE_NULL;
MPI_Op half_ops[4], brain_ops[4];
std::string reason;

const char* failed(const char* function, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  reason = std::string(function) + ": " + text;
  return reason.c_str();
}

// MPI has no 16-bit floats. Each reduction of two numbers is computed in float and rounded once.
template <class Half, Reduction reduction>
void reduce_halves(void* in, void* inout, int* length, MPI_Datatype*) {
  const auto* a = static_cast<const Half*>(in);
  auto* b = static_cast<Half*>(inout);
  for (int i = 0; i < *length; ++i) {
    const auto x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    float result = 0;
    if constexpr (reduction == Reduction::sum) {
      result = x + y;
    } else if constexpr (reduction == Reduction::product) {
      result = x * y;
    } else if constexpr (reduction == Reduction::minimum) {
      result = x < y ? x : y;
    } else {
      result = x > y ? x : y;
    }
    b[i] = Half(result);
  }
}

template <class Half>
int create(MPI_Datatype& type, MPI_Op (&ops)[4]) {
  int code = MPI_Type_contiguous(2, MPI_BYTE, &type);
  if (code == MPI_SUCCESS) code = MPI_Type_commit(&type);
  MPI_User_function* functions[] = {
      reduce_halves<Half, Reduction::sum>, reduce_halves<Half, Reduction::product>,
      reduce_halves<Half, Reduction::minimum>, reduce_halves<Half, Reduction::maximum>};
  for (int k = 0; k < 4 && code == MPI_SUCCESS; ++k) {
    code = MPI_Op_create(functions[k], 1, &ops[k]);
  }
  return code;
}

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return MPI_UINT8_T;
    case DType::int8:
      return MPI_INT8_T;
    case DType::int16:
      return MPI_INT16_T;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::uint8:
      return MPI_UINT8_T;
    case DType::uint16:
      return MPI_UINT16_T;
    case DType::uint32:
      return MPI_UINT32_T;
    case DType::uint64:
      return MPI_UINT64_T;
    case DType::float16:
      return half_type;
    case DType::bfloat16:
      return brain_type;
    case DType::float32:
      return MPI_FLOAT;
    case DType::float64:
      return MPI_DOUBLE;
    case DType::complex64:
      return MPI_C_FLOAT_COMPLEX;
    case DType::complex128:
      return MPI_C_DOUBLE_COMPLEX;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op op_of(DType dtype, Reduction reduction) {
  const auto k = static_cast<std::size_t>(reduction);
  if (dtype == DType::float16) return half_ops[k];
  if (dtype == DType::bfloat16) return brain_ops[k];
  const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
  return ops[k];
}

const char* open(Connection* connection, void**) {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  int code = MPI_SUCCESS;
  if (is_initialized == 0) {
    int provided = 0;
    // Of Open MPI's nonblocking all_reduces, Rabenseifner's (3) is about as fast for gradients as
    // the blocking one; the one it would choose takes twice as long. Other libraries ignore this.
    setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", 0);
    // One thread makes all calls of this library; the program may call MPI, too.
    code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    if (code != MPI_SUCCESS) return failed("MPI_Init_thread", code);
    started_mpi = true;
  } else {
    int provided = MPI_THREAD_SINGLE;
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE) {
      return "the program has initialized MPI without MPI_THREAD_MULTIPLE, which is needed "
             "because ExTensor calls MPI on a thread of its own";
    }
  }
  code = MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  if (code != MPI_SUCCESS) return failed("MPI_Comm_dup", code);
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  MPI_Comm_rank(communicator, &connection->rank);
  MPI_Comm_size(communicator, &connection->size);
  code = create<Float16>(half_type, half_ops);
  if (code == MPI_SUCCESS) code = create<BFloat16>(brain_type, brain_ops);
  return code == MPI_SUCCESS ? nullptr : failed("MPI_Op_create", code);
}

const char* start(const CollectiveCall& call, void** request) {
  auto made = std::make_unique<MPI_Request>(MPI_REQUEST_NULL);
  const MPI_Datatype type = type_of(call.dtype);
  const auto count = static_cast<int>(call.count);
  int code = MPI_SUCCESS;
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      code = MPI_Iallreduce(MPI_IN_PLACE, call.output, count, type,
                            op_of(call.dtype, call.reduction), communicator, made.get());
      break;
    case CollectiveKind::reduce_scatter:
      code = MPI_Ireduce_scatter_block(call.input, call.output, count, type,
                                       op_of(call.dtype, call.reduction), communicator, made.get());
      break;
    case CollectiveKind::all_gather:
      code = MPI_Iallgather(call.input, count, type, call.output, count, type, communicator,
                            made.get());
      break;
    case CollectiveKind::broadcast:
      code = MPI_Ibcast(call.output, count, type, call.root, communicator, made.get());
      break;
    case CollectiveKind::barrier:
      code = MPI_Ibarrier(communicator, made.get());
      break;
  }
  if (code != MPI_SUCCESS) return failed("MPI", code);
  *request = made.release();
  return nullptr;
}

const char* test(void* request, Progress* progress) {
  auto* const mpi = static_cast<MPI_Request*>(request);
  int finished = 0;
  const int code = MPI_Test(mpi, &finished, MPI_STATUS_IGNORE);
  progress->done = finished != 0 || code != MPI_SUCCESS;
  if (progress->done) delete mpi;
  return code == MPI_SUCCESS ? nullptr : failed("MPI_Test", code);
}

void progress() {
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, &flag, MPI_STATUS_IGNORE);
}

void close() {
  if (!started_mpi) return;
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0) return;
  for (MPI_Op& op : half_ops) MPI_Op_free(&op);
  for (MPI_Op& op : brain_ops) MPI_Op_free(&op);
  MPI_Type_free(&half_type);
  MPI_Type_free(&brain_type);
  MPI_Finalize();
}

constexpr TransportLibrary library{.interface_version = transport_version,
                                   .name = "MPI",
                                   .most = INT_MAX,
                                   .burst = 50,
                                   .invite = nullptr,
                                   .open = open,
                                   .start = start,
                                   .test = test,
                                   .progress = progress,
                                   .abort = [] {},
                                   .close = close};

}  // namespace

}  // namespace extensor::distributed

extern "C" __attribute__((visibility("default"))) const extensor::distributed::TransportLibrary*
extensor_mpi_library() {
  return &extensor::distributed::library;
}
