// The CPU as a device: its kernels and its memory.
#include <cstring>
#include <fstream>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/complex/complex.h"
#include "backend/cpu/convolution/convolution.h"
#include "backend/cpu/dropout.h"
#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/embedding.h"
#include "backend/cpu/fft/fft.h"
#include "backend/cpu/indexing/indexing.h"
#include "backend/cpu/interpolation/interpolation.h"
#include "backend/cpu/linalg/linalg.h"
#include "backend/cpu/losses/losses.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/normalization/normalization.h"
#include "backend/cpu/optimizer/optimizer.h"
#include "backend/cpu/pooling/pooling.h"
#include "backend/cpu/random.h"
#include "backend/cpu/recurrent/recurrent.h"
#include "backend/cpu/reduce/reduce.h"
#include "backend/cpu/rows/rows.h"
#include "backend/device.h"
#include "core/allocator.h"
#include "core/machine.h"
#include "core/simd/bfloat16.h"
#include "core/simd/target.h"
#include "extensor/threads.h"

namespace extensor::backend {

namespace {

std::string processor_name() {
  std::ifstream lines("/proc/cpuinfo");
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

DeviceInfo cpu_info(int) {
  const char* kernels =
      detail::has_bfloat16_products() ? "avx512_bf16" : detail::name(detail::simd_target());
  return {cpu_device, processor_name(), kernels, get_num_threads(), detail::machine_bytes()};
}

}  // namespace

constinit const DeviceInterface cpu_interface{
    .count = [] { return 1; },
    .info = &cpu_info,
    .allocate = [](std::size_t bytes, int,
                   const char* operation) { return detail::allocate_host(bytes, operation); },
    .copy = [](const CopyCall& call) { std::memcpy(call.to, call.from, call.bytes); },
    .begin_read =
        [](const void* from, std::size_t bytes, int) {
          std::uint64_t value = 0;  // the ticket
          std::memcpy(&value, from, bytes);
          return value;
        },
    .finish_read =
        [](std::uint64_t ticket, void* to, std::size_t bytes, int) {
          if (to != nullptr) std::memcpy(to, &ticket, bytes);
        },
    .begin_upload =
        [](void* to, const void* from, std::size_t bytes, int) {
          std::memcpy(to, from, bytes);
          return std::uint64_t{0};
        },
    .finish_upload = [](std::uint64_t, int) {},
    .synchronize = [](int) {},
    .memory = [](int) { return detail::host_memory_stats(); },
    .reset_peak = [](int) { detail::reset_host_peak(); },
    .empty_cache = [](int) { detail::empty_host_cache(); },
    .set_memory_limit = [](std::size_t bytes, int) { detail::set_host_memory_limit(bytes); },
    .memory_limit = [](int) { return detail::host_memory_limit(); },
    .kernels = {.elementwise = &cpu::elementwise,
                .reduce = &cpu::reduce,
                .rows = &cpu::rows,
                .matmul = &cpu::matmul,
                .random = &cpu::random,
                .loss = &cpu::loss,
                .class_loss = &cpu::class_loss,
                .class_block = &cpu::class_block,
                .embedding = &cpu::embedding,
                .dropout = &cpu::dropout,
                .check_integers = &cpu::check_integers,
                .index = &cpu::index,
                .select = &cpu::select,
                .nonzero = &cpu::nonzero,
                .sort = &cpu::sort,
                .search = &cpu::search,
                .scan = &cpu::scan,
                .attention = &cpu::attention,
                .attention_backward = &cpu::attention_backward,
                .normalize_rows = &cpu::normalize_rows,
                .normalize_batch = &cpu::normalize_batch,
                .optimizer_step = &cpu::optimizer_step,
                .power_sum = &cpu::power_sum,
                .convolution = &cpu::convolution,
                .pooling = &cpu::pooling,
                .recurrent = &cpu::recurrent,
                .recurrent_backward = &cpu::recurrent_backward,
                .interpolate = &cpu::interpolate,
                .matrices = &cpu::matrices,
                .rank = &cpu::rank,
                .count = &cpu::count,
                .complex_elementwise = &cpu::complex_elementwise,
                .fft = &cpu::fft},
};

}  // namespace extensor::backend
