// The cost of data-parallel training beside one process with the same local batch:
//   mpirun -n 2 build/bench/bench/distributed/bench_ranks
#include <extensor/extensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
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

// One of the ways to train a model that are compared.
template <class Model>
struct Way {
  Model model;
  std::optional<distributed::DistributedDataParallel> parallel = {};
  std::optional<optim::AdamW> optimizer = {};
  std::vector<double> times = {};

  void step(distributed::Communicator& world, const Tensor& x, const Tensor& y) {
    world.barrier();
    const double begin = now();
    train::classification_loss(model(x), y).backward();
    optimizer->step();
    optimizer->zero_grad();
    times.push_back(now() - begin);
  }
  // The median without the first steps, of the slowest rank.
  double seconds(distributed::Communicator& world) {
    times.erase(times.begin(), times.begin() + 2);
    Tensor slowest = scalar(median(times), float64);
    world.all_reduce(slowest, distributed::ReduceOp::maximum);
    return slowest.item<double>();
  }
};

template <class MakeModel>
void compare(distributed::Communicator& world, const char* name, const MakeModel& make,
             const Tensor& x, const Tensor& y, int repeats) {
  using Model = decltype(make());
  Way<Model> alone{make()}, overlapped{make()}, at_end{make()};
  overlapped.parallel.emplace(overlapped.model, world);
  at_end.parallel.emplace(at_end.model, world, distributed::DataParallelOptions{.overlap = false});
  std::int64_t bytes = 0;
  for (const Tensor& each : alone.model.parameters()) {
    bytes += static_cast<std::int64_t>(each.nbytes());
  }
  for (Way<Model>* way : {&alone, &overlapped, &at_end}) {
    way->optimizer.emplace(way->model.parameters());
  }
  // In turn, so that a change of the machine's load affects all.
  for (int k = 0; k < repeats + 2; ++k) {
    for (Way<Model>* way : {&alone, &overlapped, &at_end}) way->step(world, x, y);
  }
  const double one = alone.seconds(world), all = overlapped.seconds(world),
               after = at_end.seconds(world);
  if (world.rank() != 0) return;
  std::printf(
      "%-10s %5.1f MB  step alone %8.2f ms, on %d ranks %8.2f ms: %.2f times; "
      "%8.2f ms without overlap\n",
      name, static_cast<double>(bytes) / 1e6, 1e3 * one, world.size(), 1e3 * all, all / one,
      1e3 * after);
}

}  // namespace

int main() {
  set_num_threads(1);
  distributed::Communicator& world = distributed::init();
  compare(
      world, "LeNet", [] { return models::LeNet(); }, randn({64, 1, 28, 28}), randint(0, 10, {64}),
      50);
  compare(
      world, "GPT",
      [] {
        return models::Gpt({.vocabulary = 256, .block = 64, .layers = 4, .heads = 4, .width = 128});
      },
      randint(0, 256, {8, 64}), randint(0, 256, {8, 64}), 20);
  compare(
      world, "ResNet-18", [] { return models::ResNet18(); }, randn({8, 3, 32, 32}),
      randint(0, 10, {8}), 6);
  return 0;
}
