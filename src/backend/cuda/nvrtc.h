// NVRTC, NVIDIA's compiler as a library, opened when a formula is first compiled.
#pragma once

#include <string>

namespace extensor::backend::cuda {

// The version of NVRTC, such as 13.0, or why it cannot be used.
struct NvrtcState {
  bool available = false;
  std::string text;
};
const NvrtcState& nvrtc_state();

// A cubin for an architecture such as sm_90; the source may include the embedded headers. Returns
// false with the compiler's messages in `result` if it fails. NVRTC must be available.
bool compile(const std::string& source, const std::string& architecture, std::string& result);

// Differs between versions of the embedded headers.
const std::string& embedded_headers_hash();

}  // namespace extensor::backend::cuda
