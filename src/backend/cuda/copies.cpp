// Copies between the host and a device, and between devices. The host's memory is pageable, so its
// bytes pass through pinned buffers, which CUDA copies while the host fills or empties the next.
#include <algorithm>
#include <cstring>

#include "backend/cuda/state.h"
#include "core/check.h"

namespace extensor::backend::cuda {

namespace {

void make_buffers(DeviceState& device) {
  for (int k = 0; k < DeviceState::buffer_count; ++k) {
    if (device.buffers[k] != nullptr) continue;
    check(cudaEventCreateWithFlags(&device.buffer_free[k], cudaEventDisableTiming),
          "cudaEventCreate");
    void* memory = nullptr;
    check(cudaMallocHost(&memory, DeviceState::buffer_bytes), "cudaMallocHost");
    device.buffers[k] = static_cast<std::byte*>(memory);
  }
}

// The next buffer in turn, once the copies that used it before are done.
int take_buffer(DeviceState& device) {
  const int buffer = device.next_buffer;
  device.next_buffer = (buffer + 1) % DeviceState::buffer_count;
  check(cudaEventSynchronize(device.buffer_free[buffer]), "waiting for a copy");
  return buffer;
}

void copy_from_host(DeviceState& device, std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::lock_guard lock(device.copying);
  make_buffers(device);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, DeviceState::buffer_bytes);
    const int buffer = take_buffer(device);
    std::memcpy(device.buffers[buffer], from + done, part);
    check(cudaMemcpyAsync(to + done, device.buffers[buffer], part, cudaMemcpyHostToDevice,
                          stream_of(device)),
          "copying to the device");
    check(cudaEventRecord(device.buffer_free[buffer], stream_of(device)), "cudaEventRecord");
    done += part;
  }
}

void copy_to_host(DeviceState& device, std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::lock_guard lock(device.copying);
  make_buffers(device);
  constexpr int count = DeviceState::buffer_count;
  const std::size_t whole = DeviceState::buffer_bytes, parts = (bytes + whole - 1) / whole;
  const auto size_of = [&](std::size_t part) { return std::min(whole, bytes - part * whole); };
  int buffers[count];
  // Up to three copies are under way while the host empties a buffer.
  for (std::size_t part = 0; part < parts + count - 1; ++part) {
    if (part < parts) {
      const int buffer = take_buffer(device);
      buffers[part % count] = buffer;
      check(cudaMemcpyAsync(device.buffers[buffer], from + part * whole, size_of(part),
                            cudaMemcpyDeviceToHost, stream_of(device)),
            "copying to the host");
      check(cudaEventRecord(device.buffer_free[buffer], stream_of(device)), "cudaEventRecord");
    }
    if (part + 1 < count) continue;
    const std::size_t arrived = part + 1 - count;
    if (arrived >= parts) break;
    const int buffer = buffers[arrived % count];
    check(cudaEventSynchronize(device.buffer_free[buffer]), "copying to the host");
    std::memcpy(to + arrived * whole, device.buffers[buffer], size_of(arrived));
  }
}

void copy_between(const CopyCall& call) {
  DeviceState& source = enter(call.from_device.index);
  cudaEvent_t ready = nullptr, done = nullptr;
  check(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming), "cudaEventCreate");
  check(cudaEventRecord(ready, stream_of(source)), "cudaEventRecord");
  DeviceState& target = enter(call.to_device.index);
  check(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "cudaEventCreate");
  check(cudaStreamWaitEvent(stream_of(target), ready), "cudaStreamWaitEvent");
  check(cudaMemcpyPeerAsync(call.to, target.index, call.from, source.index, call.bytes,
                            stream_of(target)),
        "copying between devices");
  // The source may be freed and reused after the copy only.
  check(cudaEventRecord(done, stream_of(target)), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream_of(source), done), "cudaStreamWaitEvent");
  check(cudaEventDestroy(ready), "cudaEventDestroy");
  check(cudaEventDestroy(done), "cudaEventDestroy");
}

// An upload that is not under way, with a buffer of at least `bytes` bytes.
std::size_t take_upload(DeviceState& device, std::size_t bytes) {
  constexpr std::size_t most_buffers = 8;
  std::vector<DeviceState::Upload>& all = device.uploads;
  const std::size_t none = all.size();
  std::size_t best = none, any = none;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (all[k].under_way) continue;
    if (any == none || all[k].bytes > all[any].bytes) any = k;
    if (all[k].bytes < bytes || (best != none && all[k].bytes >= all[best].bytes)) continue;
    const cudaError_t state = cudaEventQuery(all[k].done);
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // no error of a later call
      continue;
    }
    check(state, "cudaEventQuery");
    best = k;
  }
  if (best != none) return best;
  if (any == none || all.size() < most_buffers) {
    DeviceState::Upload made{};
    check(cudaEventCreateWithFlags(&made.ready, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaEventCreateWithFlags(&made.done, cudaEventDisableTiming), "cudaEventCreate");
    all.push_back(made);
    any = none;
  }
  DeviceState::Upload& upload = all[any];
  check(cudaEventSynchronize(upload.done), "waiting for a copy");
  if (upload.bytes < bytes) {
    if (upload.buffer != nullptr) check(cudaFreeHost(upload.buffer), "cudaFreeHost");
    upload.buffer = nullptr;
    upload.bytes = 0;
    void* memory = nullptr;
    check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
    upload.buffer = static_cast<std::byte*>(memory);
    upload.bytes = bytes;
  }
  return any;
}

}  // namespace

std::uint64_t begin_upload(void* to, const void* from, std::size_t bytes, int index) {
  DeviceState& device = enter(index);
  const std::lock_guard lock(device.uploading);
  if (device.upload_stream == nullptr) {
    check(cudaStreamCreateWithFlags(&device.upload_stream, cudaStreamNonBlocking),
          "cudaStreamCreate");
  }
  const std::size_t ticket = take_upload(device, bytes);
  DeviceState::Upload& upload = device.uploads[ticket];
  std::memcpy(upload.buffer, from, bytes);
  // Kernels that were launched before may still use the memory of the target for another tensor.
  check(cudaEventRecord(upload.ready, stream_of(device)), "cudaEventRecord");
  check(cudaStreamWaitEvent(device.upload_stream, upload.ready), "cudaStreamWaitEvent");
  check(cudaMemcpyAsync(to, upload.buffer, bytes, cudaMemcpyHostToDevice, device.upload_stream),
        "copying to the device");
  check(cudaEventRecord(upload.done, device.upload_stream), "cudaEventRecord");
  upload.under_way = true;
  return ticket;
}

void finish_upload(std::uint64_t ticket, int index) {
  if (is_unusable()) return;
  DeviceState& device = enter(index);
  const std::lock_guard lock(device.uploading);
  DeviceState::Upload& upload = device.uploads[ticket];
  upload.under_way = false;
  check(cudaStreamWaitEvent(stream_of(device), upload.done), "cudaStreamWaitEvent");
}

void copy(const CopyCall& call) {
  const bool to_host = call.to_device.type == Device::Type::cpu;
  const bool from_host = call.from_device.type == Device::Type::cpu;
  auto* to = static_cast<std::byte*>(call.to);
  const auto* from = static_cast<const std::byte*>(call.from);
  if (to_host) {
    DeviceState& device = enter(call.from_device.index);
    if (call.bytes != 0) copy_to_host(device, to, from, call.bytes);
    throw_reports(device);
    return;
  }
  if (!from_host && call.from_device != call.to_device) return copy_between(call);
  DeviceState& device = enter(call.to_device.index);
  if (call.bytes == 0) return;
  if (from_host) return copy_from_host(device, to, from, call.bytes);
  check(cudaMemcpyAsync(to, from, call.bytes, cudaMemcpyDeviceToDevice, stream_of(device)),
        "copying on the device");
}

std::uint64_t begin_read(const void* from, std::size_t bytes, int index) {
  DeviceState& device = enter(index);
  const std::lock_guard lock(device.reading);
  if (device.free_reads.empty()) {
    DeviceState::Read made{};
    void* memory = nullptr;
    check(cudaMallocHost(&memory, sizeof *made.value), "cudaMallocHost");
    made.value = static_cast<std::uint64_t*>(memory);
    check(cudaEventCreateWithFlags(&made.arrived, cudaEventDisableTiming), "cudaEventCreate");
    device.free_reads.reserve(device.reads.size() + 1);  // finish_read may not fail there
    device.reads.push_back(made);
    device.free_reads.push_back(device.reads.size() - 1);
  }
  const std::size_t ticket = device.free_reads.back();
  const DeviceState::Read& read = device.reads[ticket];
  // A read that was dropped may still be under way in another stream.
  if (device.memory.has_many_streams()) {
    check(cudaStreamWaitEvent(stream_of(device), read.arrived), "cudaStreamWaitEvent");
  }
  check(cudaMemcpyAsync(read.value, from, bytes, cudaMemcpyDeviceToHost, stream_of(device)),
        "reading a value");
  check(cudaEventRecord(read.arrived, stream_of(device)), "cudaEventRecord");
  device.free_reads.pop_back();
  return ticket;
}

void finish_read(std::uint64_t ticket, void* to, std::size_t bytes, int index) {
  if (to == nullptr) {
    if (is_unusable()) return;
    // The copy may still be under way: the slot is used again after it, in the order of the stream.
    DeviceState& device = enter(index);
    const std::lock_guard lock(device.reading);
    device.free_reads.push_back(ticket);
    return;
  }
  DeviceState& device = enter(index);
  DeviceState::Read read{};
  {
    const std::lock_guard lock(device.reading);
    read = device.reads[ticket];
  }
  const cudaError_t result = cudaEventSynchronize(read.arrived);
  std::memcpy(to, read.value, bytes);
  {
    const std::lock_guard lock(device.reading);
    device.free_reads.push_back(ticket);
  }
  check(result, "reading a value");
  throw_reports(device);
}

}  // namespace extensor::backend::cuda
