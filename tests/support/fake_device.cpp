// The memory of the fake devices is one file that is mapped twice: without access at the addresses
// that tensors hold, and readable at the addresses that kernels receive.
#include "support/fake_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/checks.h"
#include "backend/device.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/error.h"

namespace extensor::fake_device {

namespace {

using backend::CopyCall;
using backend::DeviceInterface;
using detail::message;

constexpr int device_count = 2;
constexpr std::size_t mapped_bytes = std::size_t{1} << 34;  // reserved, not committed
constexpr std::size_t smallest_block = 64;

// ---- memory

class Memory {
 public:
  Memory() {
    const int file = memfd_create("extensor fake device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, mapped_bytes) != 0) fail("memfd_create");
    unreadable_ = map(file, PROT_NONE);
    readable_ = map(file, PROT_READ | PROT_WRITE);
    close(file);
  }

  bool contains(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= unreadable_ && byte < unreadable_ + mapped_bytes;
  }
  std::byte* readable(const void* address) const {
    return readable_ + (static_cast<const std::byte*>(address) - unreadable_);
  }

  // A block whose size is a power of two; null if there is no room.
  std::byte* take(std::size_t bytes) {
    std::vector<std::byte*>& blocks = free_[bytes];
    std::byte* block = nullptr;
    if (!blocks.empty()) {
      block = blocks.back();
      blocks.pop_back();
    } else if (bytes <= mapped_bytes - used_) {
      block = unreadable_ + used_;
      used_ += bytes;
    }
    // Makes results that depend on uninitialized memory conspicuous.
    if (block != nullptr) std::memset(readable(block), 0xA5, std::min<std::size_t>(bytes, 4096));
    return block;
  }
  void put_back(std::byte* block, std::size_t bytes) { free_[bytes].push_back(block); }

 private:
  [[noreturn]] static void fail(const char* call) {
    throw DeviceError(message("fake device: ", call, " failed: ", std::strerror(errno)));
  }
  static std::byte* map(int file, int access) {
    void* address = mmap(nullptr, mapped_bytes, access, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (address == MAP_FAILED) fail("mmap");
    return static_cast<std::byte*>(address);
  }

  std::byte* unreadable_ = nullptr;
  std::byte* readable_ = nullptr;
  std::size_t used_ = 0;
  std::map<std::size_t, std::vector<std::byte*>> free_;
};

// Never destroyed: tensors in static objects may be freed at any time.
Memory& memory() {
  static auto* made = new Memory;
  return *made;
}

// A number on its way to the host, and the number of launches before.
struct Read {
  std::uint64_t value;
  std::int64_t launches;
};

struct State {
  std::mutex mutex;
  std::size_t limit[device_count] = {};
  MemoryStats stats[device_count] = {};
  std::int64_t allocations_until_failure = -1;
  backend::CheckReport report;  // the first invalid value that a kernel reported
  std::atomic<std::int64_t> waits{0};
  std::atomic<std::int64_t> launches{0};
  std::atomic<std::int64_t> idle_reads{0};
  std::uint64_t last_ticket = 0, uploads = 0;
  std::map<std::uint64_t, Read> reads;
  std::map<std::uint64_t, std::pair<void*, std::vector<std::byte>>> unfinished_uploads;
};

State& state() {
  static auto* made = new State;
  return *made;
}

std::size_t block_bytes(std::size_t bytes) {
  return std::bit_ceil(std::max(bytes, smallest_block));
}

void release(Storage* storage) {
  const std::size_t bytes = block_bytes(storage->bytes);
  {
    const std::lock_guard lock(state().mutex);
    memory().put_back(static_cast<std::byte*>(storage->data), bytes);
    state().stats[storage->device.index].allocated_bytes -= bytes;
  }
  delete storage;
}

StoragePointer allocate(std::size_t bytes, int index, const char* operation) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  MemoryStats& stats = all.stats[index];
  const std::size_t rounded = bytes > mapped_bytes ? bytes : block_bytes(bytes);
  const bool fails = all.allocations_until_failure == 0;
  if (all.allocations_until_failure >= 0) --all.allocations_until_failure;
  const bool fits = rounded <= mapped_bytes &&
                    (all.limit[index] == 0 || stats.allocated_bytes + rounded <= all.limit[index]);
  std::byte* block = fails || !fits ? nullptr : memory().take(rounded);
  if (block == nullptr) {
    throw OutOfMemoryError(message(operation, ": no room for ", bytes, " bytes on test:", index));
  }
  stats.allocated_bytes += rounded;
  stats.peak_allocated_bytes = std::max(stats.peak_allocated_bytes, stats.allocated_bytes);
  ++stats.allocations;
  auto* storage = new Storage;
  storage->device = {Device::Type::test, static_cast<std::int16_t>(index)};
  storage->data = block;
  storage->bytes = bytes;
  storage->release = &release;
  return StoragePointer(storage);
}

// ---- synchronization

// Throws the errors that kernels have reported so far.
void throw_report() {
  backend::CheckReport report;
  {
    const std::lock_guard lock(state().mutex);
    std::swap(report, state().report);
  }
  if (report.check != 0) backend::throw_reported(report);
}

void wait(int) {
  ++state().waits;
  throw_report();
}

// Called after a CPU kernel, which notes invalid values on this thread.
void keep_note() {
  const auto found = backend::take_note();
  if (!found) return;
  const std::lock_guard lock(state().mutex);
  if (state().report.check == 0) state().report = *found;
}

template <class T>
T* readable(T* address) {
  return static_cast<T*>(
      const_cast<std::remove_const_t<T>*>(static_cast<const T*>(readable_address(address))));
}

void copy(const CopyCall& call) {
  const bool to_host = call.to_device == cpu_device, from_host = call.from_device == cpu_device;
  std::memcpy(to_host ? call.to : readable_address(call.to),
              from_host ? call.from : readable_address(call.from), call.bytes);
  if (to_host) wait(call.from_device.index);
}

// Work is complete when it is launched, so there is no wait.
std::uint64_t begin_read(const void* from, std::size_t bytes, int) {
  Read read{0, state().launches};
  std::memcpy(&read.value, readable_address(from), bytes);
  const std::lock_guard lock(state().mutex);
  state().reads[++state().last_ticket] = read;
  return state().last_ticket;
}

void finish_read(std::uint64_t ticket, void* to, std::size_t bytes, int) {
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().reads.find(ticket);
    if (found == state().reads.end()) {
      throw DeviceError("fake device: a number was read twice");
    }
    const Read read = found->second;
    state().reads.erase(found);
    if (to == nullptr) return;
    std::memcpy(to, &read.value, bytes);
    if (state().launches == read.launches) ++state().idle_reads;
  }
  throw_report();
}

// The bytes arrive with finish_upload: a kernel that reads the memory before is conspicuous.
std::uint64_t begin_upload(void* to, const void* from, std::size_t bytes, int) {
  const auto* first = static_cast<const std::byte*>(from);
  const std::lock_guard lock(state().mutex);
  const std::uint64_t ticket = ++state().uploads;
  state().unfinished_uploads[ticket] = {readable_address(to), {first, first + bytes}};
  return ticket;
}

void finish_upload(std::uint64_t ticket, int) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().unfinished_uploads.find(ticket);
  if (found == state().unfinished_uploads.end()) {
    throw DeviceError("fake device: an upload was finished twice");
  }
  const auto& [to, bytes] = found->second;
  std::memcpy(to, bytes.data(), bytes.size());
  state().unfinished_uploads.erase(found);
}

// ---- kernels: the CPU's, called with replaced addresses

template <class... Pointers>
void translate(Pointers&... pointers) {
  ((pointers = readable(pointers)), ...);
}

void prepare(backend::ElementwiseCall& call) {
  translate(call.out.data);
  for (int k = 0; k < call.input_count; ++k) translate(call.inputs[k].data);
}
void prepare(backend::ReduceCall& call) { translate(call.input.data, call.out.data); }
void prepare(backend::RowCall& call) { translate(call.x, call.y, call.out); }
void prepare(backend::MatmulCall& call) {
  translate(call.a.data, call.b.data, call.c.data, call.bias);
}
void prepare(backend::RandomCall& call) { translate(call.out); }
void prepare(backend::LossCall& call) {
  translate(call.x, call.y, call.g, call.out, call.gradient_x, call.gradient_y);
}
void prepare(backend::ClassLossCall& call) {
  translate(call.x, call.indices, call.probabilities, call.weight, call.g, call.out,
            call.gradient_x, call.gradient_probabilities, call.statistics);
}
void prepare(backend::ClassBlockCall& call) {
  translate(call.x, call.indices, call.weight, call.statistics, call.g, call.out);
}
void prepare(backend::EmbeddingCall& call) { translate(call.ids, call.values, call.out); }
void prepare(backend::DropoutCall& call) { translate(call.x, call.out); }
void prepare(backend::CheckIntegersCall& call) { translate(call.values, call.out); }
void prepare(backend::IndexCall& call) { translate(call.indices, call.source, call.out); }
void prepare(backend::SelectCall& call) { translate(call.offsets, call.strided, call.dense); }
void prepare(backend::NonzeroCall& call) { translate(call.mask, call.out); }
void prepare(backend::SortCall& call) { translate(call.x, call.values, call.indices); }
void prepare(backend::SearchCall& call) { translate(call.sorted, call.values, call.out); }
void prepare(backend::ScanCall& call) {
  translate(call.x, call.grad_output, call.grad_gradient, call.out, call.grad_grad_output);
}
void prepare(backend::AttentionCall& call) {
  translate(call.q.data, call.k.data, call.v.data, call.mask.data, call.out.data, call.logsumexp);
}
void prepare(backend::AttentionBackwardCall& call) {
  prepare(call.forward);
  translate(call.grad_output.data, call.grad_q.data, call.grad_k.data, call.grad_v.data,
            call.grad_mask);
}
void prepare(backend::RowNormalizationCall& call) {
  translate(call.x, call.weight, call.bias, call.out, call.grad_output, call.grad_weight,
            call.grad_bias, call.residual, call.sum, call.grad_sum);
}
void prepare(backend::BatchNormalizationCall& call) {
  translate(call.x, call.mean, call.variance, call.weight, call.bias, call.out, call.grad_output,
            call.grad_weight, call.grad_bias, call.residual, call.result, call.grad_residual);
}
void prepare(backend::ConvolutionCall& call) { translate(call.x, call.weight, call.y, call.bias); }
void prepare(backend::PoolingCall& call) { translate(call.x, call.y, call.out); }
void prepare(backend::InterpolationCall& call) { translate(call.x, call.out); }
void prepare(backend::MatrixCall& call) {
  translate(call.x, call.b, call.out[0], call.out[1], call.out[2]);
}
void prepare(backend::FftCall& call) { translate(call.in, call.out); }
void prepare(backend::RecurrentCall& call) {
  translate(call.weight, call.bias, call.gates, call.states, call.cells);
}
void prepare(backend::RecurrentBackwardCall& call) {
  prepare(call.forward);
  translate(call.grad_output, call.grad_hidden, call.grad_cell, call.grad_gates,
            call.grad_recurrent_gates);
}

template <auto kernel, class Call>
void run(const Call& given) {
  ++state().launches;
  Call call = given;
  prepare(call);
  (backend::cpu_interface.kernels.*kernel)(call);
  keep_note();
}

void complex_elementwise(backend::ComplexOp op, const backend::ElementwiseCall& given) {
  ++state().launches;
  backend::ElementwiseCall call = given;
  prepare(call);
  backend::cpu_interface.kernels.complex_elementwise(op, call);
}

void power_sum(const backend::PowerSumCall& given) {
  ++state().launches;
  std::vector<backend::PowerSumItem> items(given.items, given.items + given.item_count);
  for (backend::PowerSumItem& item : items) translate(item.x, item.out);
  backend::PowerSumCall call = given;
  call.items = items.data();
  backend::cpu_interface.kernels.power_sum(call);
}

void optimizer_step(const backend::OptimizerCall& given) {
  ++state().launches;
  std::vector<backend::OptimizerItem> items(given.items, given.items + given.item_count);
  for (backend::OptimizerItem& item : items) {
    translate(item.param, item.grad);
    for (std::byte*& each : item.states) translate(each);
  }
  backend::OptimizerCall call = given;
  call.items = items.data();
  translate(call.condition, call.factor);
  backend::cpu_interface.kernels.optimizer_step(call);
}

// Computes a formula step by step. Every value has all elements.
bool formula(const backend::FormulaCall& call) {
  ++state().launches;
  using backend::FormulaValue;
  const auto count = static_cast<std::size_t>(call.numel);
  struct Elements {
    DType dtype;
    std::vector<std::byte> bytes;
  };
  const auto make = [&](DType dtype) {
    return Elements{dtype, std::vector<std::byte>(count * itemsize(dtype))};
  };
  std::vector<Elements> inputs, steps;
  const auto run_row = [&](backend::ElementwiseOp op, DType compute, const FormulaValue* values,
                           int value_count, const double* parameters, std::byte* out, DType dtype) {
    backend::ElementwiseCall row;
    row.op = op;
    row.compute = compute;
    row.input_count = value_count;
    row.shape = call.shape;
    row.numel = call.numel;
    row.contiguous = true;
    row.out = {out, dtype, nullptr};
    for (int k = 0; k < value_count; ++k) {
      const FormulaValue& value = values[k];
      row.repeats[k] = value.kind == FormulaValue::Kind::number;
      if (row.repeats[k]) {
        row.inputs[k].dtype = float64;
        std::memcpy(row.inputs[k].number, &value.number, sizeof value.number);
      } else {
        auto& from = value.kind == FormulaValue::Kind::input ? inputs : steps;
        Elements& elements = from[static_cast<std::size_t>(value.index)];
        row.inputs[k] = {elements.bytes.data(), elements.dtype, nullptr};
      }
    }
    for (int k = 0; k < 2; ++k) row.parameters[k].real = parameters[k];
    backend::cpu_interface.kernels.elementwise(row);
  };
  constexpr double no_parameters[2] = {0, 0};
  for (int k = 0; k < call.input_count; ++k) {
    backend::ElementwiseCall copy;
    inputs.push_back(make(call.compute));
    const Strides dense = detail::contiguous_strides(*call.shape);
    copy.op = backend::ElementwiseOp::copy;
    copy.compute = call.compute;
    copy.input_count = 1;
    copy.shape = call.shape;
    copy.numel = call.numel;
    copy.contiguous = false;
    copy.repeats[0] = false;
    copy.inputs[0] = {const_cast<std::byte*>(readable(call.inputs[k].data)), call.inputs[k].dtype,
                      call.inputs[k].strides};
    copy.out = {inputs.back().bytes.data(), call.compute, dense.data()};
    backend::cpu_interface.kernels.elementwise(copy);
  }
  for (int index = 0; index < call.step_count; ++index) {
    const backend::FormulaStep& step = call.steps[index];
    Elements result = make(backend::is_test(step.op) ? bool_ : call.compute);
    using Op = backend::ElementwiseOp;
    const bool logical = step.op == Op::logical_and || step.op == Op::logical_or ||
                         step.op == Op::logical_xor || step.op == Op::logical_not;
    run_row(step.op, logical ? bool_ : call.compute, step.inputs, step.input_count, step.parameters,
            result.bytes.data(), result.dtype);
    steps.push_back(std::move(result));
  }
  for (int k = 0; k < call.output_count; ++k) {
    const backend::FormulaOutput& out = call.outputs[k];
    run_row(backend::ElementwiseOp::copy, out.dtype, &out.value, 1, no_parameters,
            readable(out.data), out.dtype);
  }
  return true;
}

using backend::Backend;

DeviceInterface fake_interface{
    .count = [] { return device_count; },
    .info =
        [](int index) {
          return DeviceInfo{{Device::Type::test, static_cast<std::int16_t>(index)},
                            "fake device",
                            "cpu",
                            1,
                            mapped_bytes};
        },
    .allocate = &allocate,
    .copy = &copy,
    .begin_read = &begin_read,
    .finish_read = &finish_read,
    .begin_upload = &begin_upload,
    .finish_upload = &finish_upload,
    .synchronize = &wait,
    .memory =
        [](int index) {
          const std::lock_guard lock(state().mutex);
          return state().stats[index];
        },
    .reset_peak =
        [](int index) {
          const std::lock_guard lock(state().mutex);
          state().stats[index].peak_allocated_bytes = state().stats[index].allocated_bytes;
        },
    .empty_cache = [](int) {},
    .set_memory_limit = [](std::size_t bytes, int index) { state().limit[index] = bytes; },
    .memory_limit = [](int index) { return state().limit[index]; },
    .kernels = {.elementwise = &run<&Backend::elementwise>,
                .reduce = &run<&Backend::reduce>,
                .rows = &run<&Backend::rows>,
                .matmul = &run<&Backend::matmul>,
                .random = &run<&Backend::random>,
                .loss = &run<&Backend::loss>,
                .class_loss = &run<&Backend::class_loss>,
                .class_block = &run<&Backend::class_block>,
                .embedding = &run<&Backend::embedding>,
                .dropout = &run<&Backend::dropout>,
                .check_integers = &run<&Backend::check_integers>,
                .index = &run<&Backend::index>,
                .select = &run<&Backend::select>,
                .nonzero = &run<&Backend::nonzero>,
                .sort = &run<&Backend::sort>,
                .search = &run<&Backend::search>,
                .scan = &run<&Backend::scan>,
                .attention = &run<&Backend::attention>,
                .attention_backward = &run<&Backend::attention_backward>,
                .normalize_rows = &run<&Backend::normalize_rows>,
                .normalize_batch = &run<&Backend::normalize_batch>,
                .optimizer_step = &optimizer_step,
                .power_sum = &power_sum,
                .convolution = &run<&Backend::convolution>,
                .pooling = &run<&Backend::pooling>,
                .recurrent = &run<&Backend::recurrent>,
                .recurrent_backward = &run<&Backend::recurrent_backward>,
                .interpolate = &run<&Backend::interpolate>,
                .matrices = &run<&Backend::matrices>,
                .formula = &formula,
                .complex_elementwise = &complex_elementwise,
                .fft = &run<&Backend::fft>},
};

}  // namespace

void install() { backend::register_device(Device::Type::test, fake_interface); }

std::int64_t waits() { return state().waits; }
std::int64_t idle_reads() { return state().idle_reads; }
std::int64_t launches() { return state().launches; }
std::int64_t uploads() {
  const std::lock_guard lock(state().mutex);
  return static_cast<std::int64_t>(state().uploads);
}
std::int64_t unfinished_uploads() {
  const std::lock_guard lock(state().mutex);
  return std::ssize(state().unfinished_uploads);
}

void compute_complex(bool enabled) {
  fake_interface.kernels.complex_elementwise = enabled ? &complex_elementwise : nullptr;
}

void fail_allocation_after(std::int64_t count) {
  const std::lock_guard lock(state().mutex);
  state().allocations_until_failure = count;
}

void* readable_address(const void* address) {
  if (address == nullptr) return nullptr;
  if (!memory().contains(address)) {
    throw DeviceError("fake device: a kernel was given an address of the host's memory");
  }
  return memory().readable(address);
}

}  // namespace extensor::fake_device
