#include "backend/cuda_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "core/check.h"
#include "core/context.h"
#include "extensor/cuda.h"
#include "extensor/tensor.h"

namespace extensor {

namespace backend {

namespace {

constexpr const char* file_name = "libextensor_cuda.so";

struct Loaded {
  const cuda::Library* library = nullptr;
  std::string reason;
};

// The directory of the file that contains this function: libextensor.so, or the program.
std::string own_directory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_directory), &info) == 0) return "";
  const std::string path = info.dli_fname == nullptr ? "" : info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

void* open_library(std::string& reason) {
  if (const char* path = std::getenv("EXTENSOR_CUDA_LIBRARY")) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) reason = dlerror();
    return handle;
  }
  const std::string directory = own_directory();
  for (const std::string& path : {directory + file_name, directory + "../" + file_name,
                                  directory + "../lib/" + file_name, std::string(file_name)}) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return handle;
    const char* error = dlerror();
    const std::string text = error == nullptr ? "" : error;
    // A file that exists but cannot be loaded is the reason that helps.
    if (reason.empty() && text.find("No such file") == std::string::npos) reason = text;
  }
  if (reason.empty()) {
    reason = detail::message(file_name, " was not found beside the library (build with ",
                             "EXTENSOR_CUDA=ON, or set EXTENSOR_CUDA_LIBRARY to its path)");
  }
  return nullptr;
}

Loaded load() {
  Loaded loaded;
  void* handle = open_library(loaded.reason);
  if (handle == nullptr) return loaded;
  const auto function =
      reinterpret_cast<cuda::LibraryFunction>(dlsym(handle, cuda::library_function));
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
