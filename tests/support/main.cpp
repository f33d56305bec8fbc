// The main function of every test program. Unlike GTest's, it distinguishes skipped tests from
// passed ones: it prints a line "SKIPPED program Suite.Case: reason" for each, which `./ex test`
// counts, and returns SKIP_RETURN_CODE of tests/CMakeLists.txt if all tests that ran were skipped.
// A program that ran no test, because a filter matched none, fails. With EXTENSOR_TEST_DEVICE=fake,
// or cuda, tensors are created on the fake device, or the first CUDA device, unless a test names
// another.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "extensor/cuda.h"
#include "support/fake_device.h"

namespace {

constexpr int all_skipped = 77;

class Skips : public ::testing::EmptyTestEventListener {
 public:
  explicit Skips(std::string program) : program_(std::move(program)) {}

  void OnTestEnd(const ::testing::TestInfo& test) override {
    const ::testing::TestResult& result = *test.result();
    if (!result.Skipped()) return;
    std::string reason;
    for (int i = 0; i < result.total_part_count(); ++i) {
      if (result.GetTestPartResult(i).skipped()) reason = result.GetTestPartResult(i).message();
    }
    for (char& c : reason) c = c == '\n' ? ' ' : c;
    lines_.push_back(program_ + " " + test.test_suite_name() + "." + test.name() + ": " + reason);
  }
  void OnTestProgramEnd(const ::testing::UnitTest&) override {
    for (const std::string& line : lines_) std::printf("SKIPPED %s\n", line.c_str());
  }

 private:
  std::string program_;
  std::vector<std::string> lines_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string program = argc > 0 ? argv[0] : "";
  program = program.substr(program.rfind('/') + 1);
  if (const char* simd = std::getenv("EXTENSOR_SIMD")) program += std::string("_") + simd;
  if (const char* device = std::getenv("EXTENSOR_TEST_DEVICE")) {
    program += std::string("_") + device;
    if (std::string(device) == "fake") {
      extensor::fake_device::install();
      extensor::set_default_device(extensor::fake_device::first);
    } else if (std::string(device) == "cuda") {
      if (!extensor::cuda_is_available()) {
        std::printf("SKIPPED %s: no CUDA device\n", program.c_str());
        return all_skipped;
      }
      extensor::set_default_device(extensor::cuda());
    } else {
      std::fprintf(stderr, "EXTENSOR_TEST_DEVICE is %s (allowed: fake, cuda)\n", device);
      return 1;
    }
  }
  ::testing::InitGoogleTest(&argc, argv);
  // Owned by GTest.
  ::testing::UnitTest::GetInstance()->listeners().Append(new Skips(program));
  const int result = RUN_ALL_TESTS();
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  if (result != 0 || GTEST_FLAG_GET(list_tests)) return result;
  if (tests.test_to_run_count() == 0) {
    std::fprintf(stderr, "%s: no test was run (the filter is '%s')\n", program.c_str(),
                 GTEST_FLAG_GET(filter).c_str());
    return 1;
  }
  return tests.skipped_test_count() == tests.test_to_run_count() ? all_skipped : 0;
}
