// NVIDIA's libraries, opened when first needed: ExTensor neither links nor installs them.
#pragma once

#include <string>

namespace extensor::backend::cuda {

// The handle of a shared library such as "libcublasLt.so.13", searched in the system's path, in the
// directories of EXTENSOR_CUDA_LIBRARIES (separated by colons), in /usr/local/cuda and in the
// packages that pip installs. Null if it is not found; `reason` then says why.
void* open_library(const char* soname, std::string* reason = nullptr);

// A library without which a call fails.
class RequiredLibrary {
 public:
  // Opens it, or throws DeviceError. `need` begins the errors: "fft: transforms of CUDA tensors
  // need cuFFT"; `package` is the one of pip that contains the library.
  RequiredLibrary(const char* need, const char* soname, const char* package);

  // Sets `function` to the one of this name. DeviceError if the library has none.
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(find(name));
  }

  // DeviceError that says why this version cannot be used.
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  void* find(const char* name) const;

  const char* need_;
  const char* soname_;
  const char* package_;
  void* handle_;
};

}  // namespace extensor::backend::cuda
