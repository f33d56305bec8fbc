// The part of the communication that runs while backward() computes, from a trace of ResNet-18:
//   mpirun -n 2 build/bench/bench/distributed/bench_overlap [TRACE.json]
// Communication is hidden while no thread waits for it. TRACE.json opens in ui.perfetto.dev.
#include <extensor/distributed.h>
#include <extensor/extensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
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
  models::ResNet18 model;
  const distributed::DistributedDataParallel parallel(model, world, {.bucket_bytes = 4 << 20});
  optim::SGD optimizer(model.parameters());
  const Tensor x = randn({16, 3, 32, 32}), y = randint(0, 10, {16});
  std::vector<TraceEvent> backward, collectives, waits;
  for (int step = 0; step < 12; ++step) {
    optimizer.zero_grad();
    const Tensor loss = train::classification_loss(model(x), y);
    world.barrier();  // ranks begin together: otherwise the wait for a late rank counts
    const bool counts = step >= 2;
    if (counts) world.start_trace();
    const double begin = now();
    loss.backward();
    if (counts) {
      backward.push_back({"backward", begin, now()});
      for (TraceEvent& event : world.take_trace()) {
        (event.name == "wait" ? waits : collectives).push_back(event);
      }
    }
    optimizer.step();
  }
  Tensor seconds = tensor(
      {length(collectives), common_seconds(collectives, waits), length(waits), length(backward)});
  world.all_reduce(seconds, distributed::ReduceOp::mean);
  if (world.rank() != 0) return 0;
  if (count > 1) write(words[1], {backward, collectives, waits});
  const std::vector<double> all = seconds.to(float64).to_vector<double>();
  std::printf(
      "ResNet-18 on %d ranks, 10 steps: backward %.0f ms, of it waiting %.0f ms; "
      "communication %.0f ms, %.1f %% of it hidden behind backward\n",
      world.size(), 1e3 * all[3], 1e3 * all[2], 1e3 * all[0], 100 * (1 - all[1] / all[0]));
  return 0;
}
