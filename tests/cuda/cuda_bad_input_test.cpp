// Bad and unusual input on a CUDA device: a typed error with the CPU's message, or the CPU's
// result, and the next call works.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cuda/cuda_test.h"
#include "op_database/check.h"
#include "op_database/op_database.h"
#include "op_database/tolerance.h"

namespace extensor {
namespace {

using cuda_test::CudaTest;
using cuda_test::device;
using cuda_test::expect_words;
using cuda_test::message_of;
using cuda_test::same_bits;
using op_database::Op;
using op_database::Sample;
using op_database::Tensors;

class CudaBadInput : public CudaTest {};

void expect_usable() { EXPECT_EQ(sum(ones({100}, device)).item<float>(), 100); }

// ---- indices

// The device reports the error at the next wait, with the CPU's text.
void expect_same_error(const char* what, const std::function<Tensor(Device)>& call) {
  const std::string expected = message_of<IndexError>([&] { (void)call(cpu_device); });
  const std::string got = message_of<IndexError>([&] {
    const Tensor result = call(device);
    synchronize(device);
  });
  EXPECT_EQ(got, expected) << what;
  EXPECT_NO_THROW(synchronize(device)) << what << ": the error is reported once";
  expect_usable();
}

TEST_F(CudaBadInput, IndicesOutOfRange) {
  const Tensor table = randn({10, 4}), source = randn({3, 4});
  for (const std::int64_t wrong :
       {std::int64_t{10}, std::int64_t{-11}, std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::min()}) {
    SCOPED_TRACE(wrong);
    const Tensor rows = from_data(std::vector<std::int64_t>{1, wrong, 3});
    const Tensor each = rows.reshape({3, 1}).broadcast_to({3, 4}).contiguous();
    expect_same_error("embedding", [&](Device at) { return embedding(table.to(at), rows.to(at)); });
    expect_same_error("embedding_backward", [&](Device at) {
      return embedding_backward(source.to(at), rows.to(at), 10);
    });
    expect_same_error("take", [&](Device at) { return take(table.to(at), rows.to(at), 0); });
    expect_same_error("gather", [&](Device at) { return gather(table.to(at), 0, each.to(at)); });
    expect_same_error(
        "scatter", [&](Device at) { return scatter(table.to(at), 0, each.to(at), source.to(at)); });
    expect_same_error("scatter_add", [&](Device at) {
      return scatter_add(table.to(at), 0, each.to(at), source.to(at));
    });
    expect_same_error("index_add", [&](Device at) {
      return index_add(table.to(at), 0, rows.to(at), source.to(at), 1.0);
    });
    expect_same_error("index_put", [&](Device at) {
      return index_put(table.to(at), {rows.to(at)}, source.to(at));
    });
    expect_same_error("cross_entropy", [&](Device at) {
      return cross_entropy(randn({3, 10}).to(at), rows.to(at));
    });
    expect_same_error("nll_loss", [&](Device at) {
      return nll_loss(randn({3, 10}).to(at), rows.to(at));
    });
    expect_same_error("one_hot", [&](Device at) { return one_hot(rows.to(at), 10); });
  }
}

TEST_F(CudaBadInput, IntegerDivisionByZero) {
  const Tensor a = arange(5).to(device), b = zeros({5}, int64).to(device);
  EXPECT_THROW(
      {
        const Tensor q = floor_divide(a, b);
        synchronize(device);
      },
      ValueError);
  expect_usable();
}

// ---- devices

TEST_F(CudaBadInput, MixedDevices) {
  const Tensor near = rand({4, 4}), far = near.to(device);
  const Tensor ids = from_data(std::vector<std::int64_t>{0, 1, 2, 3}), far_ids = ids.to(device);
  const auto expect_error = [](const char* op, const std::function<void()>& call) {
    expect_words(message_of<DeviceError>(call), {op, "cpu", "cuda:0"});
  };
  expect_error("matmul", [&] { (void)matmul(near, far); });
  expect_error("where", [&] { (void)where(near > 0, far, far); });
  expect_error("embedding", [&] { (void)embedding(far, ids); });
  expect_error("gather", [&] { (void)gather(near, 0, far_ids.reshape({4, 1})); });
  expect_error("cross_entropy", [&] { (void)cross_entropy(far, ids); });
  expect_error("concatenate", [&] { (void)concatenate({near, far}); });
  expect_error("layer_norm", [&] { (void)layer_norm(far, {4}, ones({4}), zeros({4})); });
  expect_error("linear", [&] { (void)linear(far, near); });
  expect_error("scaled_dot_product_attention", [&] {
    const Tensor q = near.reshape({1, 1, 4, 4});
    (void)scaled_dot_product_attention(q, q.to(device), q);
  });
  nn::Linear layer(4, 2);
  expect_error("linear", [&] { (void)layer(far); });
  expect_usable();
}

TEST_F(CudaBadInput, DevicesThatDoNotExist) {
  for (const int index : {-1, 1000, 32767}) {
    expect_words(message_of<DeviceError>([&] { (void)zeros({1}, cuda(index)); }),
                 {("cuda:" + std::to_string(index)).c_str(), "is not available"});
    EXPECT_THROW((void)ones({2}).to(cuda(index)), DeviceError);
    EXPECT_THROW(synchronize(cuda(index)), DeviceError);
    EXPECT_THROW((void)memory_stats(cuda(index)), DeviceError);
    nn::Linear layer(2, 2);
    EXPECT_THROW(layer.to(cuda(index)), DeviceError);
    EXPECT_EQ(layer.weight.device(), cpu_device);
  }
  expect_usable();
}

TEST_F(CudaBadInput, HostAccess) {
  Tensor far = zeros({3}, device);
  expect_words(message_of<DeviceError>([&] { (void)far.data<float>(); }),
               {"data", "cuda:0", "to(cpu_device)"});
  expect_words(message_of<DeviceError>([&] { (void)std::as_const(far).data<float>(); }),
               {"data", "cuda:0"});
}

// ---- memory

// The step fails in the middle of a graph; what it allocated is freed, and a smaller one runs.
TEST_F(CudaBadInput, OutOfMemoryInATrainingStep) {
  models::Mlp model({64, 4096, 10});
  model.to(device);
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  const auto step = [&](std::int64_t rows) {
    optimizer.zero_grad();
    const Tensor x = zeros({rows, 64}, device), y = zeros({rows}, {int64, device});
    cross_entropy(model(x), y).backward();
    optimizer.step();
    synchronize(device);
  };
  step(16);
  const std::size_t before = memory_stats(device).allocated_bytes;
  set_memory_limit(before + (std::size_t{64} << 20), device);
  expect_words(message_of<OutOfMemoryError>([&] { step(1 << 16); }), {"cuda:0", "limit"});
  optimizer.zero_grad();
  EXPECT_LE(memory_stats(device).allocated_bytes, before);
  EXPECT_NO_THROW(step(16));
  set_memory_limit(0, device);
}

// ---- shapes

TEST_F(CudaBadInput, MostDimensions) {
  Shape shape(64, 1);
  shape[0] = 3;
  shape[31] = 2;
  shape[63] = 5;
  const Tensor near = arange(30, float32).reshape(shape), far = near.to(device);
  EXPECT_TRUE(same_bits(far + far, near + near));
  EXPECT_TRUE(same_bits(far.transpose() * 2, near.transpose() * 2));
  EXPECT_TRUE(same_bits(sum(far, 31), sum(near, 31)));
  EXPECT_TRUE(same_bits(softmax(far * 0, 63), softmax(near * 0, 63)));
  EXPECT_TRUE(same_bits(max_reduce(far, {0, 63}), max_reduce(near, {0, 63})));
  EXPECT_TRUE(same_bits(where(far > 3, far, -far), where(near > 3, near, -near)));
  EXPECT_TRUE(same_bits(concatenate({far, far}, 63), concatenate({near, near}, 63)));
  EXPECT_TRUE(same_bits(cumulative_sum(far, 0), cumulative_sum(near, 0)));
  EXPECT_TRUE(same_bits(sort(far, 63, true), sort(near, 63, true)));
  EXPECT_THROW((void)far.reshape(Shape(65, 1)), ShapeError);
  EXPECT_THROW((void)zeros(Shape(65, 1), device), ShapeError);
}

TEST_F(CudaBadInput, MoreThanTwoToThe31Floats) {
  const std::int64_t count = (std::int64_t{1} << 31) + 12;
  const Tensor x = full({count}, 0.5, {.dtype = float16, .device = device});
  const Tensor y = exp(x) + x;  // 4 GiB each
  EXPECT_TRUE(same_bits(y.slice(0, count - 5), y.slice(0, 0, 5)));
  EXPECT_EQ(argmax(x).item<std::int64_t>(), 0);
  const Tensor rows = x.reshape({4, count / 4});
  EXPECT_EQ(sum(rows.to(float32), 1).to_vector<float>(),
            std::vector<float>(4, 0.5f * static_cast<float>(count / 4)));
  const Tensor ids = from_data(std::vector<std::int64_t>{count - 1, 3});
  EXPECT_EQ(take(x, ids.to(device), 0).to(float32).to_vector<float>(),
            (std::vector<float>{0.5f, 0.5f}));
  empty_cache(device);
}

// The outcome of a call: its results, or the type and the text of its error.
struct Outcome {
  Tensors results;
  std::string error;
};
Outcome outcome_of(const Sample& sample, const Tensors& inputs, Device at) {
  Outcome outcome;
  try {
    outcome.results = sample.forward(inputs);
    synchronize(at);
  } catch (const std::exception& error) {
    outcome.results.clear();
    outcome.error = std::string(typeid(error).name()) + ": " + error.what();
  }
  return outcome;
}

class CudaUnusualShapes : public CudaTest, public ::testing::WithParamInterface<std::string> {};

// Every op with inputs without elements, and without dimensions: an error or a result, but the one
// that the CPU gives.
TEST_P(CudaUnusualShapes, AreTheCpus) {
  const Op& op = *op_database::find_op(GetParam());
  int cases = 0;
  for (const Sample& sample : op.samples()) {
    for (const bool empty_inputs : {true, false}) {
      for (const DType dtype : {float32, bfloat16, int64}) {
        if (!contains(op.dtypes, dtype)) continue;
        Tensors near, far;
        bool changed = false;
        for (const Tensor& x : sample.inputs) {
          Tensor part = x;
          if (x.defined()) {
            if (x.dtype() == float64) part = part.to(dtype);
            const bool has_elements = x.ndim() > 0 && x.numel() > 0;
            if (has_elements) part = empty_inputs ? part.slice(0, 0, 0) : part.flatten()[0];
            changed = changed || has_elements;
          }
          near.push_back(part.defined() ? part.contiguous() : part);
          far.push_back(part.defined() ? part.contiguous().to(device) : part);
        }
        if (!changed) continue;
        ++cases;
        const Outcome expected = outcome_of(sample, near, cpu_device);
        const Outcome got = outcome_of(sample, far, device);
        const std::string what =
            sample.label + (empty_inputs ? ", no elements, " : ", 0-d, ") + name(dtype);
        if (expected.error.find("DeviceError") != std::string::npos) continue;
        EXPECT_EQ(got.error, expected.error) << what;
        if (!got.error.empty() || !expected.error.empty()) continue;
        Tensors here;
        for (const Tensor& y : got.results) here.push_back(y.defined() ? y.to(cpu_device) : y);
        const auto allowance =
            op_database::allowance_of(is_floating_point(dtype) ? dtype : float32);
        EXPECT_EQ(op_database::compare(here, expected.results, allowance, {}).message, "") << what;
      }
    }
  }
  RecordProperty("cases", cases);
  expect_usable();
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const Op& op : op_database::ops()) names.push_back(op.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaUnusualShapes, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

// ---- a kernel that fails

// A kernel of the test's own in the library's stream, by the driver's functions: it stops with an
// error after which CUDA does nothing more in this process.
void launch_trap() {
  static constexpr const char* source =
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry fail() {\n  trap;\n}\n";
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) throw std::runtime_error(dlerror());
  const auto function = [&](const char* symbol) { return dlsym(driver, symbol); };
  const auto load = reinterpret_cast<int (*)(void**, const void*)>(function("cuModuleLoadData"));
  const auto find =
      reinterpret_cast<int (*)(void**, void*, const char*)>(function("cuModuleGetFunction"));
  const auto launch =
      reinterpret_cast<int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void*, void**, void**)>(function("cuLaunchKernel"));
  void *module = nullptr, *kernel = nullptr;
  if (load(&module, source) != 0 || find(&kernel, module, "fail") != 0 ||
      launch(kernel, 1, 1, 1, 1, 1, 1, 0, cuda_stream(), nullptr, nullptr) != 0) {
    throw std::runtime_error("the failing kernel could not be launched");
  }
}

// Runs in a process of its own. Returns 0 if everything is as it should be.
int use_after_failure() {
  Tensor x = ones({1000}, device);
  synchronize(device);
  launch_trap();
  try {
    synchronize(device);
    return 1;
  } catch (const DeviceError&) {
  }
  // Every later call says at once that the device failed.
  for (int k = 0; k < 3; ++k) {
    try {
      (void)(x + x);
      return 2;
    } catch (const DeviceError& error) {
      if (std::string(error.what()).find("failed in this process") == std::string::npos) return 3;
    }
  }
  try {
    (void)x.to(cpu_device);
    return 4;
  } catch (const DeviceError&) {
  }
  x = Tensor();                                            // freeing does not fail
  return sum(ones({1000})).item<float>() == 1000 ? 0 : 5;  // the CPU works on
}

TEST_F(CudaBadInput, AKernelThatFails) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(_exit(use_after_failure()), ::testing::ExitedWithCode(0), "");
  expect_usable();
}

}  // namespace
}  // namespace extensor
