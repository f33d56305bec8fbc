// Events, for extensor/cuda.h.
#include "backend/cuda/state.h"

namespace extensor::backend::cuda {

namespace {

cudaEvent_t as_event(void* event) { return static_cast<cudaEvent_t>(event); }
cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

const EventFunctions event_functions{
    .create = [](int index) -> void* {
      enter(index);
      cudaEvent_t event = nullptr;
      check(cudaEventCreate(&event), "cudaEventCreate");
      return event;
    },
    .destroy =
        [](void* event, int) {
          if (is_unusable()) return;
          if (cudaEventDestroy(as_event(event)) != cudaSuccess) cudaGetLastError();
        },
    .record =
        [](void* event, void* stream, int index) {
          enter(index);
          check(cudaEventRecord(as_event(event), as_stream(stream)), "cudaEventRecord");
        },
    .wait =
        [](void* event, void* stream, int index) {
          enter(index);
          check(cudaStreamWaitEvent(as_stream(stream), as_event(event), 0), "cudaStreamWaitEvent");
        },
    .is_done =
        [](void* event, int index) {
          enter(index);
          const cudaError_t result = cudaEventQuery(as_event(event));
          if (result == cudaErrorNotReady) {
            cudaGetLastError();  // clears it: not an error
            return false;
          }
          check(result, "cudaEventQuery");
          return true;
        },
    .synchronize =
        [](void* event, int index) {
          DeviceState& device = enter(index);
          check(cudaEventSynchronize(as_event(event)), "waiting for an event");
          throw_reports(device);
        },
    .milliseconds =
        [](void* start, void* end, int index) {
          enter(index);
          float passed = 0;
          check(cudaEventElapsedTime(&passed, as_event(start), as_event(end)),
                "cudaEventElapsedTime");
          return static_cast<double>(passed);
        },
};

}  // namespace extensor::backend::cuda
