// The modes of the calling thread that ops consult in addition to their arguments. They form one
// struct, so that code which runs a function later or elsewhere (recomputation, the backward walk)
// can save and restore all of them at once.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "extensor/tensor.h"

namespace extensor::ops {
struct Op;
class Inputs;
}  // namespace extensor::ops

namespace extensor::detail {

class Node;

// Called with every recorded result, if set. AnomalyMode sets it.
using ResultCheck = void (*)(const Node& node, const Tensor& result);

// Called after every op that a program calls, if set: for graph capture and tracing. Ops that run
// as parts of another op are not reported. An input that is a number is undefined here: the
// attributes hold it.
using CaptureHook = void (*)(const ops::Op& op, const void* attributes, ops::Inputs inputs,
                             std::span<const Tensor> results);

struct Context {
  bool recording = true;               // GradMode, NoGrad
  std::optional<DType> autocast = {};  // Autocast: the half dtype of products
  bool allow_tf32 = false;             // AllowTF32: products of float32 may use TF32
  // GradientEps: the floor that recorded functions pass to their backward. A function recorded
  // under an eps of 0 keeps it, so that the parts of a gradient, recorded for the next order, have
  // no floor besides the one of the gradient itself.
  double gradient_eps = 1e-10;
  ResultCheck result_check = nullptr;  // AnomalyMode
  CaptureHook capture = nullptr;
  Device default_device = cpu_device;  // DefaultDevice: for tensors created without a device
};

// Every op reads it: the access is inline and takes one instruction.
extern constinit thread_local Context context __attribute__((tls_model("initial-exec")));

// Sets one mode until the end of a scope.
template <auto mode>
class [[nodiscard]] ModeScope {
  using Value = std::remove_reference_t<decltype(std::declval<Context&>().*mode)>;

 public:
  explicit ModeScope(Value value) : before_(std::exchange(context.*mode, value)) {}
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;
  ~ModeScope() { context.*mode = before_; }

 private:
  Value before_;
};
using RecordingScope = ModeScope<&Context::recording>;
using AutocastScope = ModeScope<&Context::autocast>;
using TF32Scope = ModeScope<&Context::allow_tf32>;
using EpsScope = ModeScope<&Context::gradient_eps>;
using CaptureScope = ModeScope<&Context::capture>;

// Sets all modes until the end of a scope.
class [[nodiscard]] ContextScope {
 public:
  explicit ContextScope(const Context& modes) : before_(std::exchange(context, modes)) {}
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope() { context = before_; }

 private:
  Context before_;
};

// When the call began that the capture hook is told of next, in nanoseconds of the steady clock.
// Set only while there is a hook.
extern constinit thread_local std::int64_t captured_since
    __attribute__((tls_model("initial-exec")));
std::int64_t steady_nanoseconds();
inline void note_call_begin() {
  if (context.capture != nullptr) [[unlikely]] {
    captured_since = steady_nanoseconds();
  }
}

inline bool recording_enabled() { return context.recording; }

}  // namespace extensor::detail
