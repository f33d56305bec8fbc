// The formula family: a kernel is compiled when a formula is first computed on a kind of GPU, and
// kept in memory and in a file.
#include <cuda_runtime.h>

#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cuda/context.h"
#include "backend/cuda/elementwise.h"
#include "backend/cuda/formula_source.h"
#include "backend/cuda/kernel_cache.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/nvrtc.h"
#include "core/check.h"

namespace extensor::backend::cuda {

namespace {

using detail::message;

// By device and formula_key; a null kernel could not be compiled.
struct Kernels {
  std::shared_mutex mutex;
  std::mutex compiling;
  std::unordered_map<std::string, cudaKernel_t> all;
};
Kernels& kernels() {
  static auto* kept = new Kernels;  // never freed: CUDA may be gone when static objects are
  return *kept;
}

// Said once: results are the same, but formulas take several times as long.
void warn(const char* operation, const std::string& reason) {
  static std::once_flag once;
  std::call_once(once, [&] {
    std::fprintf(stderr, "extensor: %s runs op by op on CUDA, without a kernel of its own: %s\n",
                 operation, reason.c_str());
  });
}

// A null kernel if the driver rejects the code.
cudaKernel_t load_code(const std::string& code) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  if (cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) !=
      cudaSuccess) {
    cudaGetLastError();  // clears it
    return nullptr;
  }
  if (cudaLibraryGetKernel(&kernel, library, "formula") != cudaSuccess) {
    cudaGetLastError();
    cudaLibraryUnload(library);
    return nullptr;
  }
  return kernel;  // kept for the rest of the program
}

cudaKernel_t make_kernel(const FormulaCall& call, const FormulaLayout& layout) {
  const NvrtcState& nvrtc = nvrtc_state();
  if (!nvrtc.available) {
    warn(call.operation, nvrtc.text);
    return nullptr;
  }
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, current_device()),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, current_device()),
        "cudaDeviceGetAttribute");
  const std::string architecture = message("sm_", major, minor);
  const std::string source = formula_source(call, layout);
  const std::string file_key = message("nvrtc ", nvrtc.text, " ", architecture, " headers ",
                                       embedded_headers_hash(), "\n", source);
  if (const auto stored = load_kernel(file_key)) {
    if (cudaKernel_t kernel = load_code(*stored)) return kernel;
  }
  std::string code;
  if (!compile(source, architecture, code)) {
    warn(call.operation, code);
    return nullptr;
  }
  cudaKernel_t kernel = load_code(code);
  if (kernel == nullptr) {
    warn(call.operation, "the driver cannot load the code of this NVRTC (install a newer driver)");
    return nullptr;
  }
  store_kernel(file_key, code);
  return kernel;
}

cudaKernel_t kernel_of(const FormulaCall& call, const FormulaLayout& layout) {
  Kernels& kept = kernels();
  const std::string key = formula_key(call, layout) + static_cast<char>(current_device());
  const auto find = [&](cudaKernel_t& kernel) {
    const std::shared_lock lock(kept.mutex);
    const auto found = kept.all.find(key);
    if (found == kept.all.end()) return false;
    kernel = found->second;
    return true;
  };
  cudaKernel_t kernel = nullptr;
  if (find(kernel)) return kernel;
  // One formula at a time; kernels that exist are found meanwhile.
  const std::lock_guard compiling(kept.compiling);
  if (find(kernel)) return kernel;
  kernel = make_kernel(call, layout);
  const std::lock_guard lock(kept.mutex);
  kept.all.emplace(key, kernel);
  return kernel;
}

// Slower than memory: a thread then computes many elements.
bool is_costly_formula(const FormulaCall& call) {
  constexpr int many = 12;
  if (call.step_count > many) return true;
  for (int k = 0; k < call.step_count; ++k) {
    if (is_costly(call.steps[k].op)) return true;
  }
  return false;
}

}  // namespace

bool formula(const FormulaCall& call) {
  FormulaLayout layout;
  if (!lay_out(call, layout)) return false;
  cudaKernel_t kernel = kernel_of(call, layout);
  if (kernel == nullptr) return false;
  FormulaOperands operands{};
  operands.count = call.numel;
  operands.packs = call.numel / layout.width;
  for (int k = 0; k < call.input_count; ++k) operands.inputs[k] = call.inputs[k].data;
  for (int k = 0; k < call.output_count; ++k) operands.outputs[k] = call.outputs[k].data;
  std::vector<double> numbers = formula_numbers(call);
  if (numbers.empty()) numbers.push_back(0);
  std::vector<float> singles(numbers.begin(), numbers.end());
  void* passed_numbers = call.compute == DType::float64 ? static_cast<void*>(numbers.data())
                                                        : static_cast<void*>(singles.data());
  void* arguments[] = {&operands, passed_numbers, &layout.over};
  const int blocks = blocks_for(operands.packs + 1, formula_threads,
                                is_costly_formula(call) ? costly_blocks : whole_grid);
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                         dim3(formula_threads), arguments, 0, stream()),
        "formula");
  launched("formula");
  return true;
}

}  // namespace extensor::backend::cuda
