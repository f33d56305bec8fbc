// Helpers of the tests that use the fake device.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>

#include "extensor/extensor.h"
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

template <class Error, class Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
  }
}

// Equal dtypes, shapes and bits; b may be on any device.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Tensor x = a.detach().to(cpu_device).contiguous();
  const Tensor y = b.detach().to(cpu_device).contiguous();
  return std::memcmp(x.impl().data, y.impl().data, x.nbytes()) == 0;
}

}  // namespace extensor::fake_device
