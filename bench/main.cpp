// ./ex bench: measures every case in one process, all contenders in turn, and prints the medians.
//
// Google Benchmark registers, filters and writes the JSON. One of its iterations is one round: a
// batch of calls by ExTensor and by each peer, in alternating order, so that a machine that slows
// down slows everybody down.
#include <benchmark/benchmark.h>
#include <extensor/extensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "busy.h"
#include "cases.h"
#include "peak.h"
#include "peers.h"
#include "table.h"

namespace extensor::bench {
namespace {

struct Contender {
  std::string name;
  Work work;
  double scale = 1;
  std::int64_t batch = 1;
  std::vector<double> samples = {};
};

double time_batch(const Work& work, std::int64_t batch) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < batch; ++i) work();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / static_cast<double>(batch);
}

// Warms up, and picks a batch that is long enough for the clock and short enough to alternate
// often.
void calibrate(Contender& contender) {
  constexpr double batch_seconds = 2e-3;
  double once = 0;
  for (int i = 0; i < 3; ++i) {
    once = time_batch(contender.work, contender.batch);
    contender.batch =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(batch_seconds / once), 1, 1'000'000);
  }
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Waits until the threads of all contenders sleep, so that they take no core from the next
// contender: each has its own thread pool, whose threads spin for a while after their last task.
// The period is longer than a tick of the scheduler, because the processor time of running threads
// is only counted then.
void wait_for_idle_threads() {
  constexpr int most_rounds = 20;
  constexpr auto period = std::chrono::milliseconds(10);
  for (int round = 0; round < most_rounds; ++round) {
    const double before = processor_seconds();
    std::this_thread::sleep_for(period);
    if (processor_seconds() - before < 1e-3) return;
  }
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// All contenders that can do the case.
std::vector<Contender> contenders_for(const Case& c, const std::vector<Peer*>& peers, int threads) {
  std::vector<Contender> contenders;
  contenders.push_back({"ExTensor", extensor_work(c.task)});
  // For comparing two builds of ExTensor without the thread pools of peers.
  if (std::getenv("EXTENSOR_BENCH_ALONE") != nullptr) return contenders;
  for (Peer* peer : peers) {
    try {
      Work work = peer->make(c.task);
      if (work) work();
      contenders.push_back({peer->name, std::move(work)});
    } catch (const OtherNetwork& error) {
      throw std::runtime_error(peer->name + ": " + error.what());
    } catch (const std::exception&) {
      // The peer has the function but not this dtype or layout: an empty cell.
    }
  }
  if (c.reference) contenders.push_back({"reference", extensor_work(*c.reference)});
  if (c.floor) {
    Floor floor = c.floor(threads);
    contenders.push_back({"floor", std::move(floor.work), floor.scale});
  }
  std::erase_if(contenders, [](const Contender& contender) { return !contender.work; });
  return contenders;
}

void run_figure(const Case& c, benchmark::State& state) {
  for (auto _ : state) {
    const double amount = c.figure();
    state.SetIterationTime(c.in_bytes ? 1e-9 : amount);
    state.counters["ExTensor"] = amount;
    if (c.torch_figure) state.counters["PyTorch"] = c.torch_figure();
  }
}

void run_case(const Case& c, const std::vector<Peer*>& peers, int threads,
              benchmark::State& state) {
  try {
    if (c.figure) return run_figure(c, state);
    std::vector<Contender> contenders = contenders_for(c, peers, threads);
    for (Contender& contender : contenders) calibrate(contender);
    for (auto _ : state) {
      for (Contender& contender : contenders) {
        if (contenders.size() > 1) {
          wait_for_idle_threads();
          time_batch(contender.work, contender.batch);  // warms up caches and clocks again
        }
        contender.samples.push_back(time_batch(contender.work, contender.batch));
      }
      state.SetIterationTime(contenders.front().name == "ExTensor"
                                 ? contenders.front().samples.back()
                                 : contenders.back().samples.back());
      std::reverse(contenders.begin(), contenders.end());
    }
    for (const Contender& contender : contenders) {
      state.counters[contender.name] = median(contender.samples) * contender.scale;
    }
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

int thread_count() {
  const char* text = std::getenv("EXTENSOR_BENCH_THREADS");
  const int asked = text != nullptr ? std::atoi(text) : 0;
  return asked > 0 ? asked : 2;
}

int main(int argc, char** argv) {
  const int threads = thread_count();
  if (argc == 4 && std::string(argv[1]) == "--peak") return print_peak(argv[2], argv[3], threads);
  if (argc == 4 && std::string(argv[1]) == "--epoch")
    return print_epoch(argv[2], std::atoi(argv[3]));
  if (argc == 2 && std::string(argv[1]) == "--busy") return print_busy(5);
  set_num_threads(threads);
  const std::vector<Peer*> peers = load_peers();
  std::string whom;
  for (Peer* peer : peers) {
    peer->set_threads(threads);
    benchmark::AddCustomContext(peer->name, peer->version);
    whom += (whom.empty() ? "" : ", ") + peer->name + " " + peer->version;
  }
  benchmark::AddCustomContext("threads", std::to_string(threads));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;

  const std::vector<Case> cases = all_cases();
  for (const Case& c : cases) {
    benchmark::RegisterBenchmark(
        c.name.c_str(), [&](benchmark::State& state) { run_case(c, peers, threads, state); })
        ->UseManualTime()
        ->Iterations(c.figure ? 1 : c.rounds);
  }

  std::printf("%d threads; medians of interleaved rounds; ratio > 1: ExTensor is faster.\n",
              threads);
  std::printf("Beside it: %s.\n\n", whom.empty() ? "nobody" : whom.c_str());
  double load = 0;
  if (getloadavg(&load, 1) == 1 && load > 0.5) {
    std::printf("Careful: this machine is busy (load %.1f); times are not to be trusted.\n\n",
                load);
  }
  Table table(cases);
  benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace extensor::bench

int main(int argc, char** argv) { return extensor::bench::main(argc, argv); }
