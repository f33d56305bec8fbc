// ./ex bench: measures every case in all contenders, in turn, and prints the medians.
//
// Google Benchmark registers, filters and writes the JSON. One of its iterations is one round: a
// batch of calls by ExTensor and by each peer, in alternating order, so that a machine that slows
// down slows everybody down.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "busy.h"
#include "cases.h"
#include "contender.h"
#include "peak.h"
#include "peers.h"
#include "table.h"

namespace extensor::bench {
namespace {

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// Measures the case in all contenders that can do it.
void run_case(const Case& c, std::size_t index, std::deque<Contender>& contenders,
              benchmark::State& state) {
  struct Column {
    Contender* contender;
    std::vector<double> samples = {};
  };
  try {
    std::vector<Column> columns;
    for (Contender& contender : contenders) {
      if (contender.prepare(index)) columns.push_back({&contender});
    }
    for (auto _ : state) {
      for (Column& column : columns) {
        column.samples.push_back(column.contender->measure());
        if (column.contender == &contenders.front()) {
          state.SetIterationTime(c.in_bytes ? 1e-9 : column.samples.back());
        }
      }
      std::reverse(columns.begin(), columns.end());
    }
    for (const Column& column : columns) {
      state.counters[column.contender->name()] = median(column.samples);
    }
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

// ExTensor first. A peer that is missing, does not load or crashes only leaves its column empty.
std::deque<Contender> start_contenders(const std::vector<Case>& cases, int threads) {
  std::deque<Contender> contenders;
  contenders.emplace_back("ExTensor", cases, threads);
  // For comparing two builds of ExTensor.
  if (std::getenv("EXTENSOR_BENCH_ALONE") != nullptr) return contenders;
  for (const std::string& name : peer_names()) {
    try {
      contenders.emplace_back(name, cases, threads);
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "bench: %s; its column stays empty\n", error.what());
    }
  }
  for (const char* name : {"reference", "floor"}) contenders.emplace_back(name, cases, threads);
  return contenders;
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
  const std::vector<Case> cases = all_cases();
  std::deque<Contender> contenders = start_contenders(cases, threads);
  std::string whom;
  for (const Contender& contender : contenders) {
    if (contender.version().empty()) continue;
    benchmark::AddCustomContext(contender.name(), contender.version());
    whom += (whom.empty() ? "" : ", ") + contender.name() + " " + contender.version();
  }
  benchmark::AddCustomContext("threads", std::to_string(threads));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;

  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    benchmark::RegisterBenchmark(
        c.name.c_str(), [&, i](benchmark::State& state) { run_case(c, i, contenders, state); })
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

int main(int argc, char** argv) {
  try {
    return extensor::bench::main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}
