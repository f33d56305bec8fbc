// User-defined ops on a CUDA device, where a formula is compiled into one kernel, and the files in
// which such kernels are kept.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cuda/cuda_test.h"

namespace extensor {
namespace {

using cuda_test::CudaTest;
using cuda_test::device;
using cuda_test::expect_words;
using cuda_test::same_bits;
namespace fs = std::filesystem;

// A directory for the kernels of this program, removed at its end. The first one is set before any
// kernel is compiled.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "extensor_formula_XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  fs::path path;
};

std::vector<fs::path> files_in(const fs::path& path) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path)) found.push_back(entry.path());
  return found;
}

class Formula : public CudaTest {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    setenv("EXTENSOR_CACHE", folder_->path.c_str(), 0);
  }
  static void TearDownTestSuite() { delete folder_; }

  static Folder* folder_;
};
Folder* Formula::folder_ = nullptr;

// The largest error relative to max(1, |expected|).
double error_of(const Tensor& got, const Tensor& expected) {
  const Tensor a = got.detach().to(cpu_device, float64), b = expected.to(float64);
  return max(abs(a - b) / maximum(abs(b), ones_like(b))).item<double>();
}

// The unit roundoff of a dtype, and room for a few operations in the type of computation.
double tolerance_of(DType dtype) {
  if (dtype == float16) return 0x1p-11 + 1e-5;
  if (dtype == bfloat16) return 0x1p-8 + 1e-5;
  return dtype == float32 ? 3e-6 : 1e-14;
}

template <class Op>
void expect_right(const char* what, const Op& op, const Tensor& a, const Tensor& b) {
  const Tensor g = randn(op(a, b).shape());
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    // The same rounded numbers in every dtype.
    const Tensor x = a.to(dtype), y = b.to(dtype), h = g.to(dtype);
    const Tensor wide_x = x.to(float64), wide_y = y.to(float64);
    const Tensor got = op(x.to(device), y.to(device));
    EXPECT_EQ(got.dtype(), dtype);
    EXPECT_EQ(got.device(), device);
    EXPECT_LT(error_of(got, op(wide_x, wide_y)), tolerance_of(dtype)) << what << name(dtype);
    const auto gradients = op.backward(h.to(device), x.to(device), y.to(device));
    const auto expected = op.backward(h.to(float64), wide_x, wide_y);
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(gradients[k].dtype(), dtype);
      // A gradient of a broadcast input is a sum.
      EXPECT_LT(error_of(gradients[k], expected[k]), 4 * tolerance_of(dtype))
          << what << name(dtype) << " gradient " << k;
    }
  }
}

TEST_F(Formula, ValuesAndGradientsInEveryDtype) {
  const auto op = elementwise("op", [](auto x, auto y) {
    const auto wide = select(x > y && !(x == 0), gelu(2 * x + 1) * 3, x / (y * y + 1));
    return select(isnan(x), y, wide) + clamp(x, -1, y * y) + softplus(y, 2);
  });
  expect_right("dense ", op, randn({33, 65}), randn({33, 65}));
  expect_right("packs ", op, randn({16, 64}), randn({64}));
  expect_right("rows ", op, randn({24, 64}), randn({24, 1}));
  expect_right("transposed ", op, randn({40, 24}), randn({24, 40}).transpose());
  expect_right("one ", op, randn({1, 1}), randn({1}));
  const auto square = elementwise("square", [](auto x) { return x * x; });
  const Tensor x = tensor({1, 2, 3, 250});
  for (const DType dtype : {bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64}) {
    EXPECT_TRUE(same_bits(square(x.to(device, dtype)), square(x.to(dtype)))) << name(dtype);
  }
  EXPECT_GT(files_in(std::getenv("EXTENSOR_CACHE")).size(), 10u);  // kernels were compiled
}

// Dtypes that are mixed, with the results of gradients in each.
TEST_F(Formula, MixedDtypes) {
  const auto op = elementwise("op", [](auto x, auto y) { return x * y + x; });
  const Tensor a = randn({6, 64}), b = randn({6, 64}), g = randn({6, 64});
  for (const DType first : {float16, bfloat16, float32, float64, int32}) {
    for (const DType second : {float16, bfloat16, float32, float64}) {
      const Tensor x = a.to(first), y = b.to(second);
      EXPECT_TRUE(same_bits(op(x.to(device), y.to(device)), op(x, y)))
          << name(first) << " " << name(second);
      if (first == int32) continue;
      const auto near = op.backward(g, x, y);
      const auto far = op.backward(g.to(device), x.to(device), y.to(device));
      EXPECT_TRUE(same_bits(far[0], near[0])) << name(first) << " " << name(second);
      EXPECT_TRUE(same_bits(far[1], near[1])) << name(first) << " " << name(second);
    }
  }
}

// A fused kernel has the functions of the rows: its results are those of the ops, to the last bit.
TEST_F(Formula, EveryRow) {
  const Tensor u = rand({10000}), far = u.to(device), g = randn({10000});
  constexpr int groups = 12;
  for (int group = 0; group < groups; ++group) {
    const auto sum_of_rows = [group](const auto& x) {
      int k = 0;
      auto total = x * 0.5;
#define UNARY(op, lo, hi, ...) \
  if (k++ % groups == group) total = total + op(lo + x * (hi - (lo)));
#define UNARY_2_NUMERIC(op, p, q, lo, hi, ...) \
  if (k++ % groups == group) total = total + op(lo + x * (hi - (lo)), -1, 2);
#include "extensor/tables/unary.def"
#define BINARY(op, lo, hi, ...) \
  if (k++ % groups == group) total = total + op(lo + x * (hi - (lo)), hi - x * (hi - (lo)));
#include "extensor/tables/binary.def"
      return total;
    };
    const auto op = elementwise("rows", sum_of_rows);
    for (const DType dtype : {float32, float64}) {
      const Tensor x = far.to(dtype);
      EXPECT_TRUE(same_bits(op(x), sum_of_rows(x))) << "group " << group << " " << name(dtype);
    }
    const Tensor wide = u.to(float64);
    const Tensor expected = op.backward(g.to(float64), wide);
    EXPECT_LT(error_of(op.backward(g.to(device), far), expected), 1e-4) << "group " << group;
    EXPECT_LT(error_of(op.backward(g.to(device, float64), far.to(float64)), expected), 1e-11)
        << "group " << group;
  }
}

TEST_F(Formula, Layouts) {
  // Exact in float32.
  const auto op = elementwise("op", [](auto x, auto y, auto z) { return 2 * x + y - z; });
  const auto compare = [&](const char* what, const Tensor& x, const Tensor& y, const Tensor& z) {
    const Tensor got = op(x.to(device), y.to(device), z.to(device));
    EXPECT_TRUE(same_bits(got, 2 * x + y - z)) << what;
  };
  const auto numbers = [](const Shape& shape) { return randint(-99, 99, shape).to(float32); };
  const Tensor a = numbers({12, 7, 64}), b = numbers({12, 7, 64});
  compare("dense", a, b, a);
  compare("numbers", a, numbers({}), numbers({1}));
  compare("broadcast", a, numbers({64}), numbers({12, 1, 1}));
  compare("broadcast both", numbers({12, 1, 64}), numbers({7, 1}), b);
  compare("0-d", numbers({}), numbers({}), numbers({}));
  compare("empty", numbers({0, 3}), numbers({3}), numbers({}));
  compare("odd", numbers({13, 3}), numbers({3}), numbers({13, 1}));
  const Tensor far = a.to(device), other = b.to(device);
  const auto same = [&](const char* what, const Tensor& x, const Tensor& y, const Tensor& near_x,
                        const Tensor& near_y) {
    const Tensor got = op(x, y, x);
    EXPECT_TRUE(same_bits(got, 2 * near_x + near_y - near_x)) << what;
    const auto gradients = op.backward(y, x, y, x);
    EXPECT_TRUE(same_bits(gradients[0], 2 * near_y)) << what;
    EXPECT_TRUE(same_bits(gradients[2], -near_y)) << what;
  };
  same("transposed", far.transpose({2, 0, 1}), other.transpose({2, 0, 1}), a.transpose({2, 0, 1}),
       b.transpose({2, 0, 1}));
  same("one transposed", far.transpose({1, 0, 2}).contiguous().transpose({1, 0, 2}), other, a, b);
  same("sliced", far.slice(2, 1, 60), other.slice(2, 4, 63), a.slice(2, 1, 60), b.slice(2, 4, 63));
  same("negative step", far.slice(1, {}, {}, -2), other.slice(1, {}, {}, -2),
       a.slice(1, {}, {}, -2), b.slice(1, {}, {}, -2));
  const Tensor flat = numbers({4099}), far_flat = flat.to(device);
  same("not aligned", far_flat.slice(0, 1), far_flat.slice(0, 0, 4098), flat.slice(0, 1),
       flat.slice(0, 0, 4098));
  // More dimensions than a kernel takes.
  Shape shape(20, 2);
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < 20; d += 2) {
    order.push_back(d + 1);
    order.push_back(d);
  }
  const Tensor many = numbers({1 << 20}).reshape(shape), far_many = many.to(device);
  same("20 dimensions", far_many, far_many.transpose(order), many, many.transpose(order));
}

TEST_F(Formula, Autograd) {
  const auto swish = elementwise("swish", [](auto x) { return x * sigmoid(x); });
  const Tensor x = randn({1000}, float64);
  const Tensor near = x.clone().requires_grad_(), far = x.to(device).requires_grad_();
  const Tensor slope = grad(sum(square(swish(near))), {near}, {.create_graph = true})[0];
  const Tensor far_slope = grad(sum(square(swish(far))), {far}, {.create_graph = true})[0];
  EXPECT_LT(error_of(far_slope, slope.detach()), 1e-13);
  EXPECT_LT(error_of(grad(sum(far_slope), {far})[0], grad(sum(slope), {near})[0]), 1e-13);
}

TEST_F(Formula, MoreThanTwoToThe31Elements) {
  const auto op = elementwise("op", [](auto x) { return 2 * x + 1; });
  const std::int64_t count = (std::int64_t{1} << 31) + 5;
  {
    Tensor x = ones({count}, {.dtype = bfloat16, .device = device});
    x.slice(0, count - 3).fill(3);
    const Tensor y = op(x);
    EXPECT_EQ(y.slice(0, count - 5).to(float32).to_vector<float>(),
              (std::vector<float>{3, 3, 7, 7, 7}));
    EXPECT_EQ(sum(y.slice(0, 0, 1 << 20), 0, false, float32).item<float>(), 3.0f * (1 << 20));
  }
  const auto outer = elementwise("outer", [](auto x, auto y) { return x * y; });
  const std::int64_t rows = (std::int64_t{1} << 30) + 1;
  Tensor column = ones({rows, 1}, {.dtype = bfloat16, .device = device});
  column.slice(0, rows - 1).fill(5);
  const Tensor row = tensor({1.0, 2.0, 3.0}, bfloat16).to(device);
  const Tensor table = outer(column, row);
  EXPECT_EQ(table.slice(0, rows - 2).to(float32).to_vector<float>(),
            (std::vector<float>{1, 2, 3, 5, 10, 15}));
}

// ---- files and libraries

// The tests below run this one in processes of their own.
TEST_F(Formula, TwoNumbers) {
  for (const double slope : {0.25, 0.5}) {
    const auto op = elementwise("scaled", [slope](auto x) { return slope * x + 1; });
    EXPECT_TRUE(same_bits(op(arange(1000, float32).to(device)), slope * arange(1000, float32) + 1));
  }
}

struct Child {
  int status;
  std::string output;
};
Child run_child(const std::string& variables) {
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  const std::string command =
      variables + " '" + program + "' --gtest_filter=Formula.TwoNumbers 2>&1";
  Child child;
  std::FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) child.output += buffer;
  child.status = pclose(pipe);
  EXPECT_EQ(child.status, 0) << child.output;
  return child;
}

ino_t file_number(const fs::path& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0);
  return found.st_ino;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_F(Formula, KernelsAreKeptInFiles) {
  const Folder folder;
  const std::string variables = "EXTENSOR_CACHE='" + folder.path.string() + "/new/folder'";
  const fs::path inner = folder.path / "new" / "folder";
  run_child(variables);
  ASSERT_TRUE(fs::is_directory(inner));
  const std::vector<fs::path> files = files_in(inner);
  ASSERT_EQ(files.size(), 1u);  // numbers are arguments, and no other file is left
  const std::string intact = contents(files[0]);
  const ino_t number = file_number(files[0]);
  run_child(variables);
  EXPECT_EQ(file_number(files[0]), number);  // read, not written again

  const auto damage = [&](const char* what, const std::string& bytes) {
    std::ofstream(files[0], std::ios::binary | std::ios::trunc) << bytes;
    run_child(variables);
    EXPECT_EQ(contents(files[0]), intact) << what;
  };
  damage("empty", "");
  damage("cut", intact.substr(0, intact.size() / 2));
  std::string changed = intact;
  changed[changed.size() - 100] ^= 1;
  damage("one bit", changed);
  damage("longer", intact + "x");
}

TEST_F(Formula, ADirectoryThatCannotBeWrittenCostsOnlyTime) {
  run_child("EXTENSOR_CACHE=/dev/null/folder");
  run_child("EXTENSOR_CACHE=");
  run_child("XDG_CACHE_HOME=relative HOME= EXTENSOR_CACHE=/proc");
}

TEST_F(Formula, WithoutNvrtcFormulasRunOpByOp) {
  const Child child = run_child("EXTENSOR_NVRTC=/no/such/libnvrtc.so");
  expect_words(child.output, {"scaled", "op by op", "pip install nvidia-cuda-nvrtc"});
  EXPECT_EQ(child.output.find("op by op"), child.output.rfind("op by op"));  // said once
}

}  // namespace
}  // namespace extensor
