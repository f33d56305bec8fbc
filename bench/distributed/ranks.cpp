// The cost of data-parallel training beside one process with the same local batch, and the part of
// the communication that backward() hides:
//   mpirun -n 2 build/bench/bench/distributed/bench_ranks
#include <extensor/extensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

using namespace extensor;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return times[times.size() / 2];
}

// The median time of a step, of the slowest rank.
template <class Model>
double step_time(distributed::Communicator& world, Model& model, const Tensor& x, const Tensor& y,
                 const distributed::DataParallelOptions* options, int repeats) {
  std::optional<distributed::DistributedDataParallel> parallel;
  if (options != nullptr) parallel.emplace(model, world, *options);
  optim::AdamW optimizer(model.parameters());
  std::vector<double> times;
  for (int k = 0; k < repeats + 2; ++k) {
    world.barrier();
    const double begin = now();
    train::classification_loss(model(x), y).backward();
    optimizer.step();
    optimizer.zero_grad();
    if (k >= 2) times.push_back(now() - begin);
  }
  Tensor slowest = scalar(median(times), float64);
  world.all_reduce(slowest, distributed::ReduceOp::maximum);
  return slowest.item<double>();
}

template <class Model>
void compare(distributed::Communicator& world, const char* name, Model& model, const Tensor& x,
             const Tensor& y, int repeats) {
  std::int64_t bytes = 0;
  for (const Tensor& each : model.parameters()) bytes += static_cast<std::int64_t>(each.nbytes());
  const distributed::DataParallelOptions overlapped, at_end{.overlap = false};
  const double alone = step_time(world, model, x, y, nullptr, repeats);
  const double with = step_time(world, model, x, y, &overlapped, repeats);
  const double after = step_time(world, model, x, y, &at_end, repeats);
  if (world.rank() != 0) return;
  const double communication = after - alone;
  std::printf("%-10s %5.1f MB  step alone %8.2f ms, on %d ranks %8.2f ms: %.2f times", name,
              static_cast<double>(bytes) / 1e6, 1e3 * alone, world.size(), 1e3 * with,
              with / alone);
  if (communication > 0) {
    std::printf("; %.0f %% of the communication is hidden",
                100 * std::clamp((after - with) / communication, 0.0, 1.0));
  }
  std::printf("\n");
}

}  // namespace

int main() {
  set_num_threads(1);
  distributed::Communicator& world = distributed::init();
  {
    models::LeNet model;
    compare(world, "LeNet", model, randn({64, 1, 28, 28}), randint(0, 10, {64}), 50);
  }
  {
    models::Gpt model({.vocabulary = 256, .block = 64, .layers = 4, .heads = 4, .width = 128});
    compare(world, "GPT", model, randint(0, 256, {8, 64}), randint(0, 256, {8, 64}), 20);
  }
  {
    models::ResNet18 model;
    compare(world, "ResNet-18", model, randn({8, 3, 32, 32}), randint(0, 10, {8}), 6);
  }
  return 0;
}
