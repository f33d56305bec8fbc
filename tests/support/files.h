// Files in tests: a temporary directory, reading and writing bytes, and tensors of all kinds to
// store.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "extensor/extensor.h"
#include "op_database/layouts.h"

namespace test_support {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "extensor-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      list.push_back(entry.path().filename().string());
    }
    std::ranges::sort(list);
    return list;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
}

// The elements as bytes, row-major.
inline std::string bytes_of(const extensor::Tensor& x) {
  const extensor::Tensor dense = x.detach().to(extensor::cpu_device).contiguous();
  return {reinterpret_cast<const char*>(dense.impl().data), dense.nbytes()};
}

// Whether dtype, shape and bits are equal.
inline void expect_same(const extensor::Tensor& actual, const extensor::Tensor& expected) {
  EXPECT_EQ(actual.dtype(), expected.dtype());
  EXPECT_EQ(actual.shape(), expected.shape());
  EXPECT_TRUE(actual.is_contiguous());
  EXPECT_EQ(bytes_of(actual), bytes_of(expected));
}

inline void expect_same(const extensor::NamedTensors& actual,
                        const extensor::NamedTensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(expected[i].first);
    EXPECT_EQ(actual[i].first, expected[i].first);
    expect_same(actual[i].second, expected[i].second);
  }
}

inline std::vector<extensor::DType> every_dtype() {
  std::vector<extensor::DType> list;
  for (int i = 0; i < extensor::dtype_count; ++i) list.push_back(static_cast<extensor::DType>(i));
  return list;
}

// Every dtype in every layout, including empty tensors and tensors without axes.
inline extensor::NamedTensors every_kind(bool with_bfloat16) {
  using namespace extensor;
  NamedTensors list;
  for (const DType dtype : every_dtype()) {
    if (dtype == DType::bfloat16 && !with_bfloat16) continue;
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{2, 0, 3}, Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 3, 4}}) {
      for (const layouts::Layout layout : layouts::every_layout) {
        const Shape drawn = layouts::drawn_shape(layout, shape);
        const Tensor numbers =
            arange(layouts::element_count(drawn)).reshape(drawn).to(float64) * 1.375 - 3.0;
        // Every integer dtype uses its highest bit, so that a wrong byte order is detected.
        const Tensor scaled = is_integer(dtype) ? numbers * 77.0 : numbers;
        list.emplace_back(std::string(name(dtype)) + to_string(shape) + layouts::name(layout),
                          layouts::with_layout(scaled.to(dtype), layout, shape));
      }
    }
  }
  return list;
}

// ---- NumPy --------------------------------------------------------------------------------------

// A Python interpreter that has NumPy; empty if there is none.
inline const std::string& python_with_numpy() {
  static const std::string found = [] {
    for (const std::string python : {"python3", "/usr/bin/python3"}) {
      if (std::system((python + " -c 'import numpy' >/dev/null 2>&1").c_str()) == 0) return python;
    }
    return std::string();
  }();
  return found;
}

// Runs a Python program in a directory; true if it succeeds.
inline bool run_python(const TemporaryDirectory& directory, const std::string& program) {
  write_file(directory / "program.py", "import numpy as np\n" + program);
  const std::string command =
      "cd '" + directory.path().string() + "' && " + python_with_numpy() + " program.py";
  return std::system(command.c_str()) == 0;
}

}  // namespace test_support
