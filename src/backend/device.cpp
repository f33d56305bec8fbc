// The registry of devices, and the public functions that work on any device.
#include "backend/device.h"

#include <array>
#include <atomic>

#include "backend/cuda_library.h"
#include "core/allocator.h"
#include "core/check.h"
#include "core/context.h"
#include "extensor/error.h"

namespace extensor {

namespace backend {

namespace {

constexpr std::size_t type_count = static_cast<std::size_t>(Device::Type::test) + 1;
constinit std::array<std::atomic<const DeviceInterface*>, type_count> registered = {&cpu_interface};

std::string available_devices() {
  std::string list;
  for (std::size_t type = 0; type < type_count; ++type) {
    const DeviceInterface* interface = registered_interface(static_cast<Device::Type>(type));
    const int count = interface == nullptr ? 0 : interface->count();
    for (int index = 0; index < count; ++index) {
      const Device device{static_cast<Device::Type>(type), static_cast<std::int16_t>(index)};
      list += (list.empty() ? "" : ", ") + to_string(device);
    }
  }
  return list;
}

}  // namespace

void register_device(Device::Type type, const DeviceInterface& interface) {
  const Device device{type, 0};
  if (interface.version != device_interface_version) {
    throw DeviceError(detail::message("register_device: the interface of ", device, " has version ",
                                      interface.version, ", this library has ",
                                      device_interface_version));
  }
  const DeviceInterface* before = nullptr;
  if (!registered.at(static_cast<std::size_t>(type))
           .compare_exchange_strong(before, &interface, std::memory_order_acq_rel) &&
      before != &interface) {
    throw DeviceError(
        detail::message("register_device: ", device, " is registered already, by another library"));
  }
}

const DeviceInterface* registered_interface(Device::Type type) {
  const auto index = static_cast<std::size_t>(type);
  return index < type_count ? registered[index].load(std::memory_order_acquire) : nullptr;
}

const DeviceInterface& available_interface(Device device, const char* operation) {
  const DeviceInterface* interface = registered_interface(device.type);
  const bool is_cuda = device.type == Device::Type::cuda;
  if (interface == nullptr && is_cuda) {
    cuda_library();  // registers its devices
    interface = registered_interface(device.type);
  }
  if (interface == nullptr || device.index < 0 || device.index >= interface->count()) {
    const std::string reason = is_cuda ? cuda_unavailable_reason() : "";
    throw DeviceError(detail::message(operation, ": device ", device, " is not available",
                                      reason.empty() ? "" : ": ", reason,
                                      " (allowed: ", available_devices(), ")"));
  }
  return *interface;
}

const Backend& backend_for(Device device) { return interface_of(device).kernels; }

}  // namespace backend

using backend::available_interface;

StoragePointer allocate_storage(std::size_t bytes, Device device, const char* operation) {
  return available_interface(device, operation).allocate(bytes, device.index, operation);
}

std::vector<DeviceInfo> devices() {
  backend::cuda_library();  // registers its devices
  std::vector<DeviceInfo> list;
  for (std::size_t type = 0; type < backend::type_count; ++type) {
    const auto* interface = backend::registered_interface(static_cast<Device::Type>(type));
    const int count = interface == nullptr ? 0 : interface->count();
    for (int index = 0; index < count; ++index) list.push_back(interface->info(index));
  }
  return list;
}

Device default_device() { return detail::context.default_device; }

void set_default_device(Device device) {
  available_interface(device, "set_default_device");
  detail::context.default_device = device;
}

DefaultDevice::DefaultDevice(Device device) : before_(default_device()) {
  available_interface(device, "DefaultDevice");
  detail::context.default_device = device;
}
DefaultDevice::~DefaultDevice() { detail::context.default_device = before_; }

void synchronize(Device device) {
  available_interface(device, "synchronize").synchronize(device.index);
}

MemoryStats memory_stats(Device device) {
  return available_interface(device, "memory_stats").memory(device.index);
}
void reset_peak_memory_stats(Device device) {
  available_interface(device, "reset_peak_memory_stats").reset_peak(device.index);
}
void empty_cache(Device device) {
  available_interface(device, "empty_cache").empty_cache(device.index);
}
void set_memory_limit(std::size_t bytes, Device device) {
  available_interface(device, "set_memory_limit").set_memory_limit(bytes, device.index);
}
std::size_t memory_limit(Device device) {
  return available_interface(device, "memory_limit").memory_limit(device.index);
}

}  // namespace extensor
