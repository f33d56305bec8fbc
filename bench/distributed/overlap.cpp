// The part of the communication that runs while backward() computes, from a trace of ResNet-18:
//   mpirun -n 2 build/bench/bench/distributed/bench_overlap [TRACE.json [DEVICE]]
// On the CPU, communication is hidden while no thread waits for it; with cuda as DEVICE, where it
// is beside the kernels of backward(). TRACE.json opens in ui.perfetto.dev.
#include <extensor/cuda.h>
#include <extensor/distributed.h>
#include <extensor/extensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

using namespace extensor;
using distributed::TraceEvent;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of the first list during an event of the second. The events of a list are disjoint.
double common_seconds(const std::vector<TraceEvent>& a, const std::vector<TraceEvent>& b) {
  double total = 0;
  for (const TraceEvent& x : a) {
    for (const TraceEvent& y : b) {
      total += std::max(0.0, std::min(x.end, y.end) - std::max(x.begin, y.begin));
    }
  }
  return total;
}

double length(const std::vector<TraceEvent>& events) { return common_seconds(events, events); }

// A GPU for this rank. Ranks that share one must seem to NCCL to be on different machines.
Device gpu_of(const distributed::Communicator& world) {
  const std::vector<DeviceInfo> all = devices();
  const auto count = std::ranges::count_if(
      all, [](const DeviceInfo& info) { return info.device.type == Device::Type::cuda; });
  if (count == 0) {
    std::fprintf(stderr, "bench_overlap: no CUDA device: %s\n", cuda_unavailable_reason().c_str());
    std::exit(1);
  }
  if (world.local_size() > count) {
    setenv("NCCL_HOSTID", ("host" + std::to_string(world.rank())).c_str(), 0);
  }
  return cuda(static_cast<int>(world.local_rank() % count));
}

// When the kernels of backward() begin and end on a CUDA device.
struct KernelTimes {
  explicit KernelTimes(Device device) : begin(device), end(device), after(device) {}
  TraceEvent backward() {
    after.record();
    after.synchronize();
    const double at = now();
    return {"backward", at - 1e-3 * after.milliseconds_since(begin),
            at - 1e-3 * after.milliseconds_since(end)};
  }
  CudaEvent begin, end, after;
};

void write(const char* path, const std::vector<std::vector<TraceEvent>>& tracks) {
  std::ofstream file(path);
  file << "[\n";
  const double origin = tracks[0].front().begin;
  const char* comma = "";
  for (std::size_t track = 0; track < tracks.size(); ++track) {
    for (const TraceEvent& event : tracks[track]) {
      file << comma << R"({"ph": "X", "pid": 0, "tid": )" << track << R"(, "name": ")" << event.name
           << R"(", "ts": )" << 1e6 * (event.begin - origin) << R"(, "dur": )"
           << 1e6 * (event.end - event.begin) << "}";
      comma = ",\n";
    }
  }
  file << "\n]\n";
}

}  // namespace

int main(int count, char** words) {
  set_num_threads(1);
  distributed::Communicator& world = distributed::init();
  if (world.size() == 1) {
    std::fprintf(stderr, "bench_overlap: one rank does not communicate (mpirun -n 2 ...)\n");
    return 1;
  }
  const bool on_gpu = count > 2 && std::string(words[2]) == "cuda";
  if (count > 2 && !on_gpu && std::string(words[2]) != "cpu") {
    std::fprintf(stderr, "bench_overlap: the device is '%s' (allowed: cpu, cuda)\n", words[2]);
    return 1;
  }
  const Device device = on_gpu ? gpu_of(world) : cpu_device;
  models::ResNet18 model;
  model.to(device);
  const distributed::DistributedDataParallel parallel(model, world, {.bucket_bytes = 4 << 20});
  optim::SGD optimizer(model.parameters());
  const std::int64_t size = on_gpu ? 512 : 16;
  Tensor x = randn({size, 3, 32, 32}, device);
  const Tensor y = randint(0, 10, {size}, {int64, device});
  std::optional<KernelTimes> kernels;
  if (on_gpu) {
    kernels.emplace(device);
    // The gradient of the input is the last one that backward() computes.
    x.requires_grad_().register_hook([&](const Tensor& gradient) {
      kernels->end.record();
      return gradient;
    });
  }
  std::vector<TraceEvent> backward, collectives, waits;
  for (int step = 0; step < 12; ++step) {
    optimizer.zero_grad();
    const Tensor loss = train::classification_loss(model(x), y);
    synchronize(device);
    world.barrier();  // ranks begin together: otherwise the wait for a late rank counts
    const bool counts = step >= 2;
    if (counts) world.start_trace();
    const double begin = now();
    if (on_gpu) kernels->begin.record();
    loss.backward();
    if (counts) {
      backward.push_back(on_gpu ? kernels->backward() : TraceEvent{"backward", begin, now()});
      for (TraceEvent& event : world.take_trace()) {
        (event.name == "wait" ? waits : collectives).push_back(event);
      }
    }
    optimizer.step();
  }
  const double seen = on_gpu ? length(collectives) - common_seconds(collectives, backward)
                             : common_seconds(collectives, waits);
  Tensor seconds = tensor({length(collectives), seen, length(waits), length(backward)});
  world.all_reduce(seconds, distributed::ReduceOp::mean);
  if (world.rank() != 0) return 0;
  if (count > 1) write(words[1], {backward, collectives, waits});
  const std::vector<double> all = seconds.to(float64).to_vector<double>();
  std::printf(
      "ResNet-18 on %d ranks, 10 steps: backward %.0f ms, waiting %.0f ms; "
      "communication %.0f ms, %.1f %% of it hidden behind backward\n",
      world.size(), 1e3 * all[3], 1e3 * all[2], 1e3 * all[0], 100 * (1 - all[1] / all[0]));
  return 0;
}
