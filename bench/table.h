// The result table: prints one line per case as soon as it is measured.
#pragma once

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

#include "cases.h"

namespace extensor::bench {

// Counters of a run: seconds under "ExTensor" and the name of every peer, "floor", "reference".
class Table : public benchmark::BenchmarkReporter {
 public:
  explicit Table(const std::vector<Case>& cases);
  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

 private:
  void print(const Run& run);

  std::map<std::string, const Case*> cases_;
  int reached_ = 0;
  int missed_ = 0;
};

}  // namespace extensor::bench
