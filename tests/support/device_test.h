// Helpers of the tests that use the fake device.
#pragma once

#include <gtest/gtest.h>

#include "extensor/extensor.h"
#include "support/device_checks.h"
#include "support/fake_device.h"

namespace extensor::fake_device {

class FakeDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    install();
    allocated_ = memory_stats(first).allocated_bytes;
  }
  // Every test frees its allocations.
  void TearDown() override { EXPECT_EQ(memory_stats(first).allocated_bytes, allocated_); }

 private:
  std::size_t allocated_ = 0;
};

using device_checks::expect_words;
using device_checks::message_of;
using device_checks::same_bits;

}  // namespace extensor::fake_device
