// Checks that the tests of every device use.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>

#include "extensor/extensor.h"

namespace extensor::device_checks {

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

// Equal dtypes, shapes and bits; either may be on any device.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Tensor x = a.detach().to(cpu_device).contiguous();
  const Tensor y = b.detach().to(cpu_device).contiguous();
  return std::memcmp(x.impl().data, y.impl().data, x.nbytes()) == 0;
}

}  // namespace extensor::device_checks
