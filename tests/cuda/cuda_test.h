// Helpers of the tests on a CUDA device.
#pragma once

#include <gtest/gtest.h>

#include "extensor/cuda.h"
#include "extensor/extensor.h"
#include "support/device_checks.h"

namespace extensor::cuda_test {

inline constexpr Device device = cuda(0);

// Skips every test of a machine without a CUDA device.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) {
      GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
    }
    synchronize(device);
    allocated_ = memory_stats(device).allocated_bytes;
  }
  // Every test frees its allocations.
  void TearDown() override {
    if (!cuda_is_available()) return;
    EXPECT_EQ(memory_stats(device).allocated_bytes, allocated_);
  }

 private:
  std::size_t allocated_ = 0;
};

using device_checks::expect_words;
using device_checks::message_of;
using device_checks::same_bits;

}  // namespace extensor::cuda_test
