// Streams beside a device's first one, for extensor/cuda.h.
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/state.h"

namespace extensor::backend::cuda {

namespace {

thread_local SideStream* chosen = nullptr;

SideStream* as_side(void* stream) { return static_cast<SideStream*>(stream); }

}  // namespace

SideStream* chosen_stream() { return chosen; }

const StreamFunctions stream_functions{
    .create = [](int index) -> void* {
      DeviceState& device = enter(index);
      auto made = std::make_unique<SideStream>();
      made->device = index;
      check(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking), "cudaStreamCreate");
      made->pool = device.memory.open_pool(made->stream);
      const std::lock_guard lock(device.side_mutex);
      device.side_streams.push_back(made.get());
      return made.release();
    },
    .destroy =
        [](void* stream) {
          SideStream* side = as_side(stream);
          if (chosen == side) chosen = nullptr;
          DeviceState& device = state_of(side->device);
          {
            const std::lock_guard lock(device.side_mutex);
            std::erase(device.side_streams, side);
          }
          try {
            if (!is_unusable()) {
              enter(side->device);
              check(cudaStreamSynchronize(side->stream), "waiting for a stream");
              device.memory.close_pool(side->pool);
              check(cudaStreamDestroy(side->stream), "cudaStreamDestroy");
            }
          } catch (const std::exception&) {  // the device failed: later calls say so
          }
          delete side;
        },
    .native = [](void* stream) -> void* { return as_side(stream)->stream; },
    .choose = [](void* stream) -> void* {
      SideStream* last = chosen;
      chosen = as_side(stream);
      return last;
    },
    .synchronize =
        [](void* stream) {
          DeviceState& device = enter(as_side(stream)->device);
          check(cudaStreamSynchronize(as_side(stream)->stream), "waiting for a stream");
          throw_reports(device);
        },
};

}  // namespace extensor::backend::cuda
