#include "backend/cuda_library.h"

#include <dlfcn.h>

#include "core/check.h"
#include "core/context.h"
#include "core/open_part.h"
#include "extensor/cuda.h"
#include "extensor/tensor.h"

namespace extensor {

namespace backend {

namespace {

constexpr const char* file_name = "libextensor_cuda.so";

struct Loaded {
  void* handle = nullptr;  // of dlopen
  const cuda::Library* library = nullptr;
  std::string reason;
};

Loaded load() {
  Loaded loaded;
  loaded.handle =
      detail::open_part(file_name, "EXTENSOR_CUDA_LIBRARY", "EXTENSOR_CUDA=ON", loaded.reason);
  if (loaded.handle == nullptr) return loaded;
  const auto function =
      reinterpret_cast<cuda::LibraryFunction>(dlsym(loaded.handle, cuda::library_function));
  if (function == nullptr) {
    loaded.reason = detail::message(file_name, " has no function ", cuda::library_function);
    return loaded;
  }
  static const cuda::HostFunctions functions{
      .throw_reported = &throw_reported,
      .is_tf32_allowed = [] { return detail::context.allow_tf32; },
      .matrices =
          [](const MatrixCall& call) {
            cpu_interface.kernels.matrices(call);
            if (const auto found = take_note()) throw_reported(*found);
          }};
  const cuda::Library* library = function(&functions);
  try {
    register_device(Device::Type::cuda, *library->interface);
  } catch (const DeviceError& error) {
    loaded.reason = error.what();
    return loaded;
  }
  loaded.library = library;
  loaded.reason = library->unavailable_reason();
  return loaded;
}

const Loaded& loaded() {
  static const auto* once = new Loaded(load());
  return *once;
}

}  // namespace

const cuda::Library* cuda_library() { return loaded().library; }

void* cuda_function(const char* name) {
  return loaded().library == nullptr ? nullptr : dlsym(loaded().handle, name);
}

std::string cuda_unavailable_reason() { return loaded().reason; }

}  // namespace backend

bool cuda_is_available() { return backend::cuda_unavailable_reason().empty(); }
std::string cuda_unavailable_reason() { return backend::cuda_unavailable_reason(); }

void* cuda_stream(Device device) {
  if (device.type != Device::Type::cuda) {
    throw DeviceError(
        detail::message("cuda_stream: device ", device, " has no stream (allowed: cuda)"));
  }
  backend::available_interface(device, "cuda_stream");
  return backend::cuda_library()->native_stream(device.index);
}

void* detail::cuda_address(const Tensor& x, DType dtype) {
  if (x.dtype() != dtype) detail::throw_dtype_mismatch("cuda_data", x.dtype(), dtype);
  if (x.device().type != Device::Type::cuda) {
    throw DeviceError(
        detail::message("cuda_data: the tensor is on ", x.device(), " (allowed: cuda)"));
  }
  return x.impl().data;
}

}  // namespace extensor
