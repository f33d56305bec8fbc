#include "backend/cuda/nvrtc.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "backend/cuda/embedded_headers.h"
#include "backend/cuda/libraries.h"
#include "core/check.h"

namespace extensor::backend::cuda {

namespace {

using detail::message;

// Declared here: the functions are few and stable, and nvrtc.h is a package of its own.
using Program = void*;
struct Functions {
  int (*version)(int* major, int* minor) = nullptr;
  int (*create)(Program* program, const char* source, const char* name, int header_count,
                const char* const* headers, const char* const* header_names) = nullptr;
  int (*compile)(Program program, int option_count, const char* const* options) = nullptr;
  int (*cubin_size)(Program program, std::size_t* bytes) = nullptr;
  int (*cubin)(Program program, char* bytes) = nullptr;
  int (*log_size)(Program program, std::size_t* bytes) = nullptr;
  int (*log)(Program program, char* bytes) = nullptr;
  int (*destroy)(Program* program) = nullptr;
  const char* (*error_text)(int result) = nullptr;
};

struct Loaded {
  Functions functions;
  NvrtcState state;
};

void* open_nvrtc(std::string& reason) {
  if (const char* path = std::getenv("EXTENSOR_NVRTC")) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char* error = handle == nullptr ? dlerror() : nullptr;
    if (error != nullptr) reason = error;
    return handle;
  }
  for (const char* soname : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
    std::string why;
    if (void* handle = open_library(soname, &why)) return handle;
    if (reason.empty()) reason = why;
  }
  return nullptr;
}

Loaded load() {
  Loaded loaded;
  Functions& functions = loaded.functions;
  std::string& reason = loaded.state.text;
  void* handle = open_nvrtc(reason);
  if (handle == nullptr) {
    reason = message("libnvrtc.so.13 is not found: ", reason,
                     " (install it with: pip install nvidia-cuda-nvrtc, or put its folder into "
                     "EXTENSOR_CUDA_LIBRARIES)");
    return loaded;
  }
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) missing = name;
  };
  find(functions.version, "nvrtcVersion");
  find(functions.create, "nvrtcCreateProgram");
  find(functions.compile, "nvrtcCompileProgram");
  find(functions.cubin_size, "nvrtcGetCUBINSize");
  find(functions.cubin, "nvrtcGetCUBIN");
  find(functions.log_size, "nvrtcGetProgramLogSize");
  find(functions.log, "nvrtcGetProgramLog");
  find(functions.destroy, "nvrtcDestroyProgram");
  find(functions.error_text, "nvrtcGetErrorString");
  if (missing != nullptr) {
    reason = message("libnvrtc has no function ", missing,
                     " (install a newer one: pip install -U nvidia-cuda-nvrtc)");
    return loaded;
  }
  int major = 0, minor = 0;
  functions.version(&major, &minor);
  reason = message(major, ".", minor);
  loaded.state.available = true;
  return loaded;
}

const Loaded& loaded() {
  static const auto* once = new Loaded(load());
  return *once;
}

std::string log_of(Program program) {
  const Functions& nvrtc = loaded().functions;
  std::size_t bytes = 0;
  if (nvrtc.log_size(program, &bytes) != 0 || bytes <= 1) return "";
  std::string log(bytes, '\0');
  if (nvrtc.log(program, log.data()) != 0) return "";
  log.resize(bytes - 1);  // without the final zero
  return log;
}

}  // namespace

const NvrtcState& nvrtc_state() { return loaded().state; }

bool compile(const std::string& source, const std::string& architecture, std::string& result) {
  const Functions& nvrtc = loaded().functions;
  std::vector<const char*> names, texts;
  for (int k = 0; k < embedded_header_count; ++k) {
    names.push_back(embedded_headers[k].name);
    texts.push_back(embedded_headers[k].text);
  }
  Program program = nullptr;
  int status = nvrtc.create(&program, source.c_str(), "formula.cu", embedded_header_count,
                            texts.data(), names.data());
  if (status != 0) {
    result = message("nvrtcCreateProgram: ", nvrtc.error_text(status));
    return false;
  }
  const std::string target = message("--gpu-architecture=", architecture);
  const char* const options[] = {target.c_str(), "--std=c++20",
                                 "--device-as-default-execution-space", "-no-source-include"};
  status = nvrtc.compile(program, static_cast<int>(std::size(options)), options);
  std::size_t bytes = 0;
  if (status == 0) status = nvrtc.cubin_size(program, &bytes);
  if (status == 0) {
    result.assign(bytes, '\0');
    status = nvrtc.cubin(program, result.data());
  }
  if (status != 0) {
    result = message("NVRTC: ", nvrtc.error_text(status), "\n", log_of(program));
  }
  nvrtc.destroy(&program);
  return status == 0;
}

const std::string& embedded_headers_hash() {
  static const auto* hash = [] {
    std::uint64_t value = 0xcbf29ce484222325u;
    for (int k = 0; k < embedded_header_count; ++k) {
      for (const char* text : {embedded_headers[k].name, embedded_headers[k].text}) {
        for (; *text != '\0'; ++text) {
          value = (value ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
        }
      }
    }
    return new std::string(std::to_string(value));
  }();
  return *hash;
}

}  // namespace extensor::backend::cuda
