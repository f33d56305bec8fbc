// Measures for scaling.py, as a line of JSON, the step of a small GPT alone, with gradients reduced
// during backward() and after it, and the times of all_reduce.
//   for n in 1 2 4; do mpirun -n $n build/bench/bench/distributed/bench_scaling; done >measured
//   bench/distributed/scaling.py --compare measured
#include <extensor/distributed.h>
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

}  // namespace

int main() {
  set_num_threads(1);
  distributed::Communicator& world = distributed::init();
  constexpr std::int64_t vocabulary = 256, context = 64, layers = 4, width = 256, batch = 8;
  constexpr std::int64_t bucket_bytes = 2 << 20;
  const Tensor x = randint(0, vocabulary, {batch, context});
  const Tensor y = randint(0, vocabulary, {batch, context});

  // Three ways in turn, so that a change of the machine's load affects all.
  enum Way { alone, overlapped, at_end };
  std::vector<double> times[3];
  for (int repeat = 0; repeat < 24; ++repeat) {
    for (const Way way : {alone, overlapped, at_end}) {
      manual_seed(1);
      models::Gpt model({.vocabulary = vocabulary,
                         .block = context,
                         .layers = layers,
                         .heads = 4,
                         .width = width,
                         .tied = true});
      std::optional<distributed::DistributedDataParallel> parallel;
      if (way != alone) {
        parallel.emplace(model, world,
                         distributed::DataParallelOptions{.bucket_bytes = bucket_bytes,
                                                          .overlap = way == overlapped});
      }
      for (int step = 0; step < 3; ++step) {
        world.barrier();
        const double begin = now();
        train::classification_loss(model(x), y).backward();
        const double seconds = now() - begin;
        model.zero_grad();
        if (step > 0) times[way].push_back(seconds);
      }
    }
  }
  std::vector<std::pair<std::int64_t, double>> reductions;
  for (std::int64_t bytes = 4 << 10; world.size() > 1 && bytes <= 4 << 20; bytes *= 4) {
    Tensor values = zeros({bytes / 4});
    std::vector<double> seconds;
    for (int repeat = 0; repeat < 25; ++repeat) {
      world.barrier();
      const double begin = now();
      world.all_reduce(values, distributed::ReduceOp::mean);
      seconds.push_back(now() - begin);
    }
    reductions.emplace_back(bytes, median(seconds));
  }
  if (world.rank() != 0) return 0;
  std::printf(R"({"ranks": %d, "vocabulary": %d, "context": %d, "layers": %d, "width": %d, )"
              R"("batch": %d, "bucket_bytes": %d, "alone": %.6g, "overlapped": %.6g, )"
              R"("at_end": %.6g, "all_reduce": [)",
              world.size(), static_cast<int>(vocabulary), static_cast<int>(context),
              static_cast<int>(layers), static_cast<int>(width), static_cast<int>(batch),
              static_cast<int>(bucket_bytes), median(times[alone]), median(times[overlapped]),
              median(times[at_end]));
  const char* comma = "";
  for (const auto& [bytes, seconds] : reductions) {
    std::printf("%s[%lld, %.6g]", comma, static_cast<long long>(bytes), seconds);
    comma = ", ";
  }
  std::printf("]}\n");
  return 0;
}
