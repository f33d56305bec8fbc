// The DeviceInterface of CUDA, and the function through which libextensor gets it.
#include <new>

#include "backend/cuda/kernels.h"
#include "backend/cuda/library.h"
#include "backend/cuda/state.h"
#include "core/check.h"

namespace extensor::backend::cuda {

namespace {

// ---- memory

void release(Storage* storage) {
  auto* block = static_cast<DeviceMemory::Block*>(storage->context);
  state_of(storage->device.index).memory.free(block);
  delete storage;
}

StoragePointer allocate(std::size_t bytes, int index, const char* operation) {
  DeviceState& device = enter(index);
  DeviceMemory::Block* block = device.memory.allocate(bytes, operation, pool_of(device));
  auto* storage = new (std::nothrow) Storage;
  if (storage == nullptr) {
    device.memory.free(block);
    throw OutOfMemoryError(detail::message(operation, ": no room on the host for a tensor"));
  }
  storage->device = {Device::Type::cuda, static_cast<std::int16_t>(index)};
  storage->data = block->data;
  storage->bytes = bytes;
  storage->release = &release;
  storage->context = block;
  return StoragePointer(storage);
}

DeviceInfo info(int index) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return {{Device::Type::cuda, static_cast<std::int16_t>(index)},
          properties.name,
          detail::message("sm_", properties.major, properties.minor),
          properties.multiProcessorCount * properties.maxThreadsPerMultiProcessor,
          properties.totalGlobalMem};
}

// ---- kernels

// An address that the call writes or reads, from which its device follows.
const void* address_in(const ElementwiseCall& call) { return call.out.data; }
const void* address_in(const FormulaCall& call) { return call.outputs[0].data; }
const void* address_in(const ReduceCall& call) { return call.out.data; }
const void* address_in(const RowCall& call) { return call.out; }
const void* address_in(const MatmulCall& call) { return call.c.data; }
const void* address_in(const RandomCall& call) { return call.out; }
const void* address_in(const LossCall& call) { return call.x; }
const void* address_in(const ClassLossCall& call) { return call.x; }
const void* address_in(const ClassBlockCall& call) { return call.statistics; }
const void* address_in(const EmbeddingCall& call) { return call.out; }
const void* address_in(const DropoutCall& call) { return call.out; }
const void* address_in(const CheckIntegersCall& call) { return call.values; }
const void* address_in(const IndexCall& call) { return call.out; }
const void* address_in(const SelectCall& call) { return call.strided; }
const void* address_in(const NonzeroCall& call) { return call.mask; }
const void* address_in(const SortCall& call) { return call.x; }
const void* address_in(const SearchCall& call) { return call.out; }
const void* address_in(const ScanCall& call) { return call.out; }
const void* address_in(const AttentionCall& call) { return call.out.data; }
const void* address_in(const AttentionBackwardCall& call) { return call.forward.q.data; }
const void* address_in(const RowNormalizationCall& call) { return call.out; }
const void* address_in(const BatchNormalizationCall& call) { return call.x; }
const void* address_in(const OptimizerCall& call) {
  return call.item_count == 0 ? nullptr : call.items[0].grad;
}
const void* address_in(const PowerSumCall& call) {
  return call.item_count == 0 ? nullptr : call.items[0].out;
}
const void* address_in(const ConvolutionCall& call) { return call.y; }
const void* address_in(const PoolingCall& call) { return call.out; }
const void* address_in(const InterpolationCall& call) { return call.out; }
const void* address_in(const MatrixCall& call) { return call.x; }
const void* address_in(const RecurrentCall& call) { return call.gates; }
const void* address_in(const RecurrentBackwardCall& call) { return call.grad_hidden; }
const void* address_in(const FftCall& call) { return call.out; }

template <auto kernel, class Call>
auto run(const Call& call) {
  enter(device_count() == 1 ? 0 : device_of(address_in(call)));
  return kernel(call);
}

void run_complex(ComplexOp op, const ElementwiseCall& call) {
  enter(device_count() == 1 ? 0 : device_of(address_in(call)));
  complex_elementwise(op, call);
}

const DeviceInterface cuda_interface{
    .count = &device_count,
    .info = &info,
    .allocate = &allocate,
    .copy = &copy,
    .begin_read = &begin_read,
    .finish_read = &finish_read,
    .begin_upload = &begin_upload,
    .finish_upload = &finish_upload,
    .synchronize = [](int index) { wait(enter(index)); },
    .memory = [](int index) { return enter(index).memory.stats(); },
    .reset_peak = [](int index) { enter(index).memory.reset_peak(); },
    .empty_cache = [](int index) { enter(index).memory.empty_cache(); },
    .set_memory_limit = [](std::size_t bytes, int index) { enter(index).memory.set_limit(bytes); },
    .memory_limit = [](int index) { return enter(index).memory.limit(); },
    .kernels = {.elementwise = &run<&elementwise, ElementwiseCall>,
                .reduce = &run<&reduce, ReduceCall>,
                .rows = &run<&rows, RowCall>,
                .matmul = &run<&matmul, MatmulCall>,
                .random = &run<&random, RandomCall>,
                .loss = &run<&loss, LossCall>,
                .class_loss = &run<&class_loss, ClassLossCall>,
                .class_block = &run<&class_block, ClassBlockCall>,
                .embedding = &run<&embedding, EmbeddingCall>,
                .dropout = &run<&dropout, DropoutCall>,
                .check_integers = &run<&check_integers, CheckIntegersCall>,
                .index = &run<&index, IndexCall>,
                .select = &run<&select, SelectCall>,
                .nonzero = &run<&nonzero, NonzeroCall>,
                .sort = &run<&sort, SortCall>,
                .search = &run<&search, SearchCall>,
                .scan = &run<&scan, ScanCall>,
                .attention = &run<&attention, AttentionCall>,
                .attention_backward = &run<&attention_backward, AttentionBackwardCall>,
                .normalize_rows = &run<&normalize_rows, RowNormalizationCall>,
                .normalize_batch = &run<&normalize_batch, BatchNormalizationCall>,
                .optimizer_step = &run<&optimizer_step, OptimizerCall>,
                .power_sum = &run<&power_sum, PowerSumCall>,
                .convolution = &run<&convolution, ConvolutionCall>,
                .pooling = &run<&pooling, PoolingCall>,
                .recurrent = &run<&recurrent, RecurrentCall>,
                .recurrent_backward = &run<&recurrent_backward, RecurrentBackwardCall>,
                .interpolate = &run<&interpolate, InterpolationCall>,
                .matrices = &run<&matrices, MatrixCall>,
                .formula = &run<&formula, FormulaCall>,
                .takes_halves = true,
                .sums_wide = true,
                .complex_elementwise = &run_complex,
                .fft = &run<&fft, FftCall>},
};

}  // namespace

}  // namespace extensor::backend::cuda

// Called once, when the library has been loaded.
extern "C" __attribute__((visibility("default"))) const extensor::backend::cuda::Library*
extensor_cuda_library(const extensor::backend::cuda::HostFunctions* functions) {
  using namespace extensor::backend::cuda;
  static const Library library{
      .interface = &cuda_interface,
      .unavailable_reason = &unavailable_reason,
      .native_stream = [](int index) -> void* { return stream_of(enter(index)); },
      .events = event_functions,
      .streams = stream_functions};
  set_host_functions(*functions);
  return &library;
}
