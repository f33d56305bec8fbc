#include "ops/call_log.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "core/check.h"
#include "core/context.h"
#include "ops/op.h"

namespace extensor::ops {

namespace {

std::FILE* file = nullptr;

void append(std::string& text, const Tensor& x, bool& first) {
  if (!first) text += ", ";
  first = false;
  text += x.defined() ? detail::message(x.dtype(), " ", x.shape()) : "number";
}

// "linear(activation=none) float32 [2, 3], float32 [4, 3] -> float32 [2, 4] 12.3 us"
void log(const Op& op, const void* attributes, Inputs inputs, std::span<const Tensor> results) {
  const double microseconds =
      1e-3 * static_cast<double>(detail::steady_nanoseconds() - detail::captured_since);
  std::string text = detail::message(op.name, "(", op.attributes->describe(attributes), ") ");
  bool first = true;
  for (std::size_t k = 0; k < inputs.size(); ++k) append(text, inputs[k], first);
  text += " -> ";
  first = true;
  for (const Tensor& result : results) {
    if (result.defined()) append(text, result, first);
  }
  char time[48];
  std::snprintf(time, sizeof time, " %.1f us\n", microseconds);
  text += time;
  std::fwrite(text.data(), 1, text.size(), file);
}

}  // namespace

bool start_call_log() noexcept {
  const char* value = std::getenv("EXTENSOR_LOG");
  if (value == nullptr || *value == '\0') return false;
  const std::string_view asked = value;
  if (asked == "ops") {
    file = stderr;
  } else if (asked.starts_with("ops:") && asked.size() > 4) {
    file = std::fopen(value + 4, "ae");
    if (file == nullptr) {
      std::fprintf(stderr, "extensor: EXTENSOR_LOG: '%s' cannot be written: %s\n", value + 4,
                   std::strerror(errno));
      return false;
    }
    std::setvbuf(file, nullptr, _IOLBF, BUFSIZ);  // complete lines, also after a crash
  } else {
    std::fprintf(stderr, "extensor: EXTENSOR_LOG is '%s' (allowed: ops, ops:FILE)\n", value);
    return false;
  }
  detail::context.capture = log;
  return true;
}

}  // namespace extensor::ops
