// Tensors on a device whose memory the host cannot read: creation, copies, ops, autograd, errors
// and failed allocations, and every op of the database, whose results must be bit-identical to the
// CPU's.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <sstream>

#include "backend/device.h"
#include "op_database/op_database.h"
#include "op_database/variants.h"
#include "support/device_test.h"
#include "support/fake_device.h"

namespace extensor {
namespace {

using fake_device::expect_words;
using fake_device::FakeDevice;
using fake_device::message_of;
using fake_device::same_bits;

constexpr Device device = fake_device::first;

TEST_F(FakeDevice, IsListedAndNamed) {
  EXPECT_EQ(to_string(device), "test:0");
  bool listed = false;
  for (const DeviceInfo& info : devices()) listed = listed || info.device == device;
  EXPECT_TRUE(listed);
  EXPECT_EQ(devices()[0].device, cpu_device);
}

TEST_F(FakeDevice, CreationFunctionsTakeADevice) {
  EXPECT_EQ(empty({2, 3}, device).device(), device);
  EXPECT_EQ(zeros({2}, device).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(ones({2}, {.dtype = int32, .device = device}).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{1, 1}));
  EXPECT_EQ(zeros({2}, {.dtype = float64}).device(), cpu_device);
  EXPECT_EQ(full({2}, 7, device).to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 7}));
  EXPECT_EQ(scalar(2.5, device).item<double>(), 2.5);
  EXPECT_EQ(arange(3, device).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(arange(0, 1, 0.5, device).to_vector<float>(), (std::vector<float>{0, 0.5}));
  EXPECT_EQ(linspace(0, 1, 3, device).to_vector<float>(), (std::vector<float>{0, 0.5, 1}));
  EXPECT_EQ(eye(2, {}, 0, device).to_vector<float>(), (std::vector<float>{1, 0, 0, 1}));
  EXPECT_EQ(tensor({{1, 2}, {3, 4}}, device).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(tensor({1, 2}, {.dtype = float32, .device = device}).dtype(), float32);

  const Tensor x = ones({2, 2}, {.dtype = float64, .device = device});
  for (const Tensor& like : {empty_like(x), zeros_like(x), ones_like(x), full_like(x, 3)}) {
    EXPECT_EQ(like.device(), device);
    EXPECT_EQ(like.dtype(), float64);
  }
  EXPECT_EQ(zeros_like(x, cpu_device).device(), cpu_device);
  EXPECT_EQ(zeros_like(x, float32).device(), device);
}

TEST_F(FakeDevice, RandomNumbersAreTheCpus) {
  const auto compare = [](const auto& drawn) {
    Generator here(5), there(5);
    const Tensor expected = drawn(TensorOptions{}, here);
    const Tensor got = drawn(TensorOptions(device), there);
    EXPECT_EQ(got.device(), device);
    EXPECT_TRUE(same_bits(got, expected));
  };
  compare([](const TensorOptions& o, Generator& g) { return rand({33}, o, g); });
  compare([](const TensorOptions& o, Generator& g) { return randn({33}, o, g); });
  compare([](const TensorOptions& o, Generator& g) { return uniform({33}, -1, 2, o, g); });
  compare([](const TensorOptions& o, Generator& g) { return normal({33}, 1, 2, o, g); });
  compare([](const TensorOptions& o, Generator& g) { return randint(-5, 5, {33}, o, g); });
  compare([](const TensorOptions& o, Generator& g) { return randperm(33, o, g); });
  compare([](const TensorOptions& o, Generator& g) { return bernoulli(0.3, {33}, o, g); });
}

TEST_F(FakeDevice, CopiesBetweenDevices) {
  const Tensor x = arange(24, float32).reshape({2, 3, 4});
  const Tensor far = x.to(device);
  EXPECT_EQ(far.device(), device);
  EXPECT_TRUE(same_bits(far, x));
  EXPECT_TRUE(same_bits(far.to(fake_device::second), x));
  EXPECT_EQ(far.to(device).impl_or_null(), far.impl_or_null()) << "a copy onto the same device";
  // Views on either side.
  EXPECT_TRUE(same_bits(x.transpose().to(device), x.transpose()));
  EXPECT_TRUE(
      same_bits(far.transpose().slice(0, 1, 3).to(cpu_device), x.transpose().slice(0, 1, 3)));
  EXPECT_TRUE(same_bits(x.to(device, float64), x.to(float64)));
  EXPECT_TRUE(same_bits(x.to(device, bfloat16), x.to(bfloat16)));
  EXPECT_EQ(zeros({0, 3}).to(device).shape(), (Shape{0, 3}));
  EXPECT_TRUE(same_bits(far.clone(), x));
  EXPECT_TRUE(same_bits(far.transpose().contiguous(), x.transpose()));

  Tensor target = zeros({2, 3, 4}, device);
  target.copy_from(x);
  EXPECT_TRUE(same_bits(target, x));
  target.slice(2, 1, 3).copy_from(x.slice(2, 0, 1).to(float64));
  Tensor expected = x.clone();
  expected.slice(2, 1, 3).copy_from(x.slice(2, 0, 1));
  EXPECT_TRUE(same_bits(target, expected));
  Tensor near = zeros({2, 3, 4});
  near.copy_from(far);
  EXPECT_TRUE(same_bits(near, x));
  target.fill(3);
  EXPECT_TRUE(same_bits(target, full_like(x, 3)));
}

TEST_F(FakeDevice, ElementwiseOpsWithViewsBroadcastingAndNumbers) {
  const Tensor a = randn({5, 7}), b = randn({7}), c = randn({7, 5});
  const Tensor x = a.to(device), y = b.to(device), z = c.to(device);
  EXPECT_TRUE(same_bits(x + y, a + b));
  EXPECT_TRUE(same_bits(x * z.transpose(), a * c.transpose()));
  EXPECT_TRUE(same_bits(x.slice(1, {}, {}, -2) - 1.5, a.slice(1, {}, {}, -2) - 1.5));
  EXPECT_TRUE(same_bits(2 / x, 2 / a));
  EXPECT_TRUE(same_bits(exp(x) > 1, exp(a) > 1));
  EXPECT_TRUE(same_bits(x.to(float16) + 0.1, a.to(float16) + 0.1));
  EXPECT_TRUE(same_bits(where(x > 0, x, y), where(a > 0, a, b)));
  EXPECT_TRUE(same_bits(fma(x, x, y), fma(a, a, b)));
  EXPECT_TRUE(same_bits(arange(9, device) % 4, arange(9) % 4));
  EXPECT_TRUE(same_bits(tril(x), tril(a)));

  Tensor u = a.to(device), v = a.clone();
  u *= 3;
  v *= 3;
  u += y;
  v += b;
  u.transpose() -= z;
  v.transpose() -= c;
  EXPECT_TRUE(same_bits(u, v));
}

TEST_F(FakeDevice, ATensorOfTheCpuWithoutDimensionsIsANumber) {
  const Tensor a = randn({3, 4});
  const Tensor x = a.to(device);
  for (const Tensor& number : {scalar(2.5), scalar(3), scalar(0.1, float16), scalar(true)}) {
    EXPECT_TRUE(same_bits(x * number, a * number));
    EXPECT_TRUE(same_bits(number + x, number + a));
    EXPECT_EQ((x * number).device(), device);
  }
  EXPECT_TRUE(same_bits(where(x > 0, x, zeros({})), where(a > 0, a, zeros({}))));
  Tensor u = a.to(device);
  u += scalar(2.0);
  EXPECT_TRUE(same_bits(u, a + 2.0));
  // Also in ops outside the elementwise tables, with the gradient on the device of the number.
  EXPECT_TRUE(same_bits(scalar(4.0) + sum(x), scalar(4.0) + sum(a)));
  Tensor factor = scalar(3.0, float32).requires_grad_();
  sum(x * factor).backward();
  EXPECT_EQ(factor.grad().device(), cpu_device);
  EXPECT_TRUE(same_bits(factor.grad(), sum(a)));
  // It cannot be written to from the device.
  Tensor near = scalar(1.0, float32);
  EXPECT_THROW(near += sum(x), DeviceError);
}

// A device that compiles formulas computes one in a single kernel, whatever the layouts.
TEST_F(FakeDevice, FormulasAreOneKernel) {
  double slope = 0.5;
  const auto op = elementwise("op", [&slope](auto x, auto y) {
    const auto wide = select(x > y && !(x == 0), gelu(2 * x + 1) * 3, slope * x / (y * y + 1));
    return select(isnan(x), y, wide) + clamp(x, -1, y * y);
  });
  const Tensor a = randn({5, 7}), b = randn({7}), g = randn({5, 7});
  for (const Tensor& x : {a, randn({7, 5}).transpose(), a.to(float64), a.to(float16)}) {
    const Tensor far_x = x.to(device), far_b = b.to(device);
    const std::int64_t before = fake_device::launches();
    const Tensor y = op(far_x, far_b);
    EXPECT_EQ(fake_device::launches() - before, 1) << name(x.dtype());
    EXPECT_TRUE(same_bits(y, op(x, b)));
    const auto near = op.backward(g, x, b), far = op.backward(g.to(device), far_x, far_b);
    EXPECT_TRUE(same_bits(far[0], near[0]));
    EXPECT_TRUE(same_bits(far[1], near[1]));
  }
  slope = 0.25;
  EXPECT_TRUE(same_bits(op(a.to(device), b.to(device)), op(a, b)));
  EXPECT_TRUE(same_bits(op(a.to(device), scalar(0.5)), op(a, scalar(0.5))));
  EXPECT_TRUE(same_bits(op(scalar(0.3, device), scalar(0.5)), op(scalar(0.3), scalar(0.5))));
}

// A function that reads the elements of its values, or is too long, runs operation by operation.
TEST_F(FakeDevice, FormulasThatCannotBeTracedWork) {
  using expression::Value;
  const Tensor a = randn({12}), far = a.to(device);
  const auto reads =
      elementwise("reads", [](const Value& x) { return Value(exp(x.elements())) + x; });
  EXPECT_TRUE(same_bits(reads(far), exp(a) + a));
  const auto is_long = elementwise("long", [](auto x) {
    auto y = x;
    for (int k = 0; k < 600; ++k) y = y * 0.5 + k;
    return y;
  });
  EXPECT_TRUE(same_bits(is_long(far), is_long(a)));
  std::vector<Value> kept;
  const auto keeps = elementwise("keeps", [&kept](const Value& x) {
    kept.push_back(x);
    return x + 1;
  });
  EXPECT_TRUE(same_bits(keeps(far), a + 1));
  EXPECT_THROW(kept[0] + 1, ValueError);
  EXPECT_THROW((void)kept[0].elements(), ValueError);
}

TEST_F(FakeDevice, ReductionsAndProducts) {
  const Tensor a = randn({6, 5}), b = randn({5, 4});
  const Tensor x = a.to(device), y = b.to(device);
  EXPECT_TRUE(same_bits(sum(x), sum(a)));
  EXPECT_TRUE(same_bits(mean(x, {0}), mean(a, {0})));
  EXPECT_TRUE(same_bits(argmax(x, 1), argmax(a, 1)));
  EXPECT_TRUE(same_bits(max_reduce(x.transpose(), {1}), max_reduce(a.transpose(), {1})));
  EXPECT_TRUE(same_bits(matmul(x, y), matmul(a, b)));
  EXPECT_TRUE(
      same_bits(matmul(y.transpose(), x.transpose()), matmul(b.transpose(), a.transpose())));
  EXPECT_TRUE(same_bits(softmax(x), softmax(a)));
}

// Two layers by hand: the loss and the gradients of all parameters.
TEST_F(FakeDevice, BackwardOfATwoLayerNetwork) {
  const auto gradients = [](Device place) {
    Generator generator(3);
    const auto leaf = [&](const Shape& shape) {
      return randn(shape, TensorOptions(place), generator).requires_grad_();
    };
    const Tensor input = randn({8, 4}, TensorOptions(place), generator);
    const Tensor w1 = leaf({4, 16}), b1 = leaf({16}), w2 = leaf({16, 2}), b2 = leaf({2});
    const Tensor hidden = relu(matmul(input, w1) + b1);
    const Tensor loss = mean(square(matmul(hidden, w2) + b2 - 0.5));
    const std::int64_t waits = fake_device::waits();
    loss.backward();
    EXPECT_EQ(fake_device::waits(), waits) << "backward waited";
    for (const Tensor& parameter : {w1, b1, w2, b2}) EXPECT_EQ(parameter.grad().device(), place);
    return std::vector<Tensor>{loss, w1.grad(), b1.grad(), w2.grad(), b2.grad()};
  };
  const auto expected = gradients(cpu_device), got = gradients(device);
  for (std::size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(same_bits(got[k], expected[k])) << k;
}

TEST_F(FakeDevice, GradientsGoBackThroughCopies) {
  Tensor x = randn({3, 4}).requires_grad_();
  const Tensor far = x.to(device);
  EXPECT_TRUE(far.requires_grad());
  const Tensor back = (far * far).to(cpu_device);
  sum(back).backward();
  EXPECT_EQ(x.grad().device(), cpu_device);
  EXPECT_TRUE(same_bits(x.grad(), x.detach() * 2));

  Tensor target = zeros({3, 4}, device);
  Tensor y = randn({3, 4}).requires_grad_();
  target.copy_from(y);
  sum(target * 3).backward();
  EXPECT_EQ(y.grad().device(), cpu_device);
  EXPECT_TRUE(same_bits(y.grad(), full({3, 4}, 3.0)));
}

TEST_F(FakeDevice, ReadsOnTheHostCopyAndWait) {
  const Tensor a = randn({3, 4});
  const Tensor x = a.to(device);
  std::int64_t waits = fake_device::waits();
  const Tensor y = sum(softmax(x * 2 + 1), {1});
  EXPECT_EQ(fake_device::waits(), waits) << "ops waited";
  EXPECT_EQ(x[1][2].item<float>(), a[1][2].item<float>());
  EXPECT_EQ(fake_device::waits(), waits + 1);
  EXPECT_EQ(x.transpose().to_vector<float>(), a.transpose().to_vector<float>());
  EXPECT_EQ(fake_device::waits(), waits + 2);
  EXPECT_EQ(to_string(x), to_string(a));
  std::ostringstream text;
  text << x.transpose();
  EXPECT_EQ(text.str(), to_string(a.transpose()));
  EXPECT_EQ(fake_device::waits(), waits + 4);
  synchronize(device);
  EXPECT_EQ(fake_device::waits(), waits + 5);
  synchronize(cpu_device);
  EXPECT_EQ(fake_device::waits(), waits + 5);
}

TEST_F(FakeDevice, DataOfADeviceThrows) {
  Tensor x = zeros({2}, device);
  expect_words(message_of<DeviceError>([&] { (void)x.data<float>(); }),
               {"data", "test:0", "to(cpu_device)"});
  EXPECT_THROW((void)std::as_const(x).data<float>(), DeviceError);
}

// The memory is protected: a read or write on the host crashes.
TEST_F(FakeDevice, TheHostCannotTouchItsMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Tensor x = zeros({2}, device);
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile std::byte*>(x.impl().data)), "");
  const auto* readable = static_cast<const float*>(fake_device::readable_address(x.impl().data));
  EXPECT_EQ(*readable, 0);
  // A kernel that receives host memory is detected too.
  const Tensor near = zeros({2});
  backend::RandomCall call{};
  call.op = backend::RandomOp::uniform;
  call.dtype = float32;
  call.numel = 2;
  call.out = near.impl().data;
  EXPECT_THROW(backend::backend_for(device).random(call), DeviceError);
}

TEST_F(FakeDevice, MixedDevicesThrowAndNameBoth) {
  const Tensor near = zeros({2, 2});
  Tensor far = zeros({2, 2}, device);
  const Tensor other = zeros({2, 2}, fake_device::second);
  expect_words(message_of<DeviceError>([&] { (void)(near + far); }), {"add", "cpu", "test:0"});
  expect_words(message_of<DeviceError>([&] { (void)(far + other); }), {"add", "test:0", "test:1"});
  expect_words(message_of<DeviceError>([&] { far += near; }), {"add_", "cpu", "test:0"});
  expect_words(message_of<DeviceError>([&] { (void)matmul(far, near); }),
               {"matmul", "cpu", "test:0"});
  expect_words(message_of<DeviceError>([&] { (void)softmax_backward(far, other); }),
               {"softmax_backward", "test:0", "test:1"});
  expect_words(message_of<DeviceError>([&] {
                 zeros({2}, Device{Device::Type::test, 2});
               }),
               {"zeros", "test:2", "cpu, test:0, test:1"});
  expect_words(message_of<DeviceError>([&] {
                 (void)near.to(Device{Device::Type::cuda, 0});
               }),
               {"to", "cuda:0"});
}

TEST_F(FakeDevice, OtherVersionsOfTheInterfaceAreRefused) {
  backend::DeviceInterface interface = *backend::registered_interface(Device::Type::test);
  expect_words(
      message_of<DeviceError>([&] { backend::register_device(Device::Type::test, interface); }),
      {"register_device", "test:0", "already"});
  interface.version = backend::device_interface_version + 1;
  expect_words(
      message_of<DeviceError>([&] { backend::register_device(Device::Type::cuda, interface); }),
      {"register_device", "cuda:0", "version"});
  EXPECT_THROW(zeros({1}, Device{Device::Type::cuda, 0}), DeviceError);
}

TEST_F(FakeDevice, MemoryIsCountedAndLimited) {
  const std::size_t before = memory_stats(device).allocated_bytes;
  {
    const Tensor x = zeros({1024}, device);
    EXPECT_EQ(memory_stats(device).allocated_bytes, before + 4096);
    reset_peak_memory_stats(device);
    set_memory_limit(before + 8192, device);
    EXPECT_EQ(memory_limit(device), before + 8192);
    EXPECT_NO_THROW(zeros({1024}, device));
    expect_words(message_of<OutOfMemoryError>([&] { zeros({2048}, device); }), {"zeros", "test:0"});
    set_memory_limit(0, device);
    EXPECT_EQ(memory_stats(device).peak_allocated_bytes, before + 8192);
  }
  empty_cache(device);
}

// Every allocation of a forward and backward pass fails once; nothing leaks, and the pass gives the
// same result when it runs again.
TEST_F(FakeDevice, AFailedAllocationLeavesNothing) {
  Tensor weight = randn({4, 4}, device).requires_grad_();
  const Tensor input = randn({3, 4}, device);
  const auto pass = [&] {
    weight.set_grad(Tensor());
    mean(softmax(relu(matmul(input, weight) * 2))).backward();
  };
  pass();
  const Tensor expected = weight.grad().clone();
  weight.set_grad(Tensor());
  const std::size_t before = memory_stats(device).allocated_bytes;
  int failures = 0;
  for (std::int64_t count = 0;; ++count) {
    fake_device::fail_allocation_after(count);
    try {
      pass();
      break;
    } catch (const OutOfMemoryError&) {
      ++failures;
    }
    weight.set_grad(Tensor());
    ASSERT_EQ(memory_stats(device).allocated_bytes, before) << "after failure " << count;
  }
  fake_device::fail_allocation_after(-1);
  EXPECT_GE(failures, 8);
  EXPECT_TRUE(same_bits(weight.grad(), expected));
}

// ---- the op database

using layouts::Layout;
using op_database::arranged;
using op_database::contains;
using op_database::find_op;
using op_database::has_dtypes;
using op_database::has_layout;
using op_database::is_differentiable;
using op_database::Op;
using op_database::Sample;
using op_database::Tensors;

// Ops that do not work on a device yet. An op that works must not be listed.
const std::set<std::string> unfinished = {};

// Ops that wait for the device. An op that does not wait must not be listed.
const std::set<std::string> waiting = {
    // the shape of the result depends on values, also for an index expression with a mask
    "bincount", "index_put", "masked_select", "nonzero", "slice", "unique", "unique_all",
    "unique_counts", "unique_inverse",
    // the values are checked
    "multinomial",
    // the range is that of the values, unless it is given
    "histogram",
    // the result is a bool on the host
    "allclose"};

// Functions whose result is not a tensor.
const std::set<std::string> with_result_on_host = {"allclose"};

bool is_float(const Tensor& x) { return x.defined() && is_floating_point(x.dtype()); }

// The inputs of a sample on the device, in the requested memory layout.
Tensors on_device(const Sample& sample, DType dtype, Layout layout) {
  Tensors inputs = arranged(sample, dtype, Layout::contiguous);
  const Tensors laid_out = arranged(sample, dtype, layout);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].defined()) continue;
    inputs[k] = layouts::with_layout(inputs[k].to(device), layout, inputs[k].shape());
    EXPECT_EQ(inputs[k].strides(), laid_out[k].strides());
  }
  return inputs;
}

// The first difference between the results of the device and those of the CPU, or nothing.
std::string difference(const Tensors& got, const Tensors& expected, const char* what,
                       Device place = device) {
  if (got.size() != expected.size()) return std::string(what) + ": another number of results";
  for (std::size_t k = 0; k < got.size(); ++k) {
    const std::string which = std::string(what) + " " + std::to_string(k);
    if (got[k].defined() != expected[k].defined()) return which + " is undefined on one device";
    if (!got[k].defined()) continue;
    if (got[k].device() != place) return which + " is on " + to_string(got[k].device());
    if (!same_bits(got[k], expected[k])) return which + " has other bits";
  }
  return "";
}

Tensors gradients_for(const Tensors& results, Device place) {
  Tensors gradients;
  std::uint64_t seed = 7;
  for (const Tensor& y : results) {
    gradients.push_back(
        is_float(y) ? op_database::sample_uniform(y.shape(), -1, 1, seed++).to(place, y.dtype())
                    : Tensor());
  }
  return gradients;
}

Tensors explicit_backward(const Sample& sample, const Tensors& inputs, const Tensors& results,
                          Device place) {
  return sample.backward(gradients_for(results, place),
                         sample.saves_results ? op_database::joined(inputs, results) : inputs);
}

// The gradients of all differentiable inputs by autograd, and those of their sum.
Tensors recorded_gradients(const Sample& sample, const Tensors& inputs, Device place) {
  Tensors leaves, asked, tracked, given;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    leaves.push_back(inputs[k].defined() ? inputs[k].detach() : inputs[k]);
    if (is_differentiable(sample, k)) asked.push_back(leaves.back().requires_grad_());
  }
  const Tensors results = sample.forward(leaves);
  const Tensors gradients = gradients_for(results, place);
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!is_float(results[k]) || !results[k].requires_grad()) continue;
    tracked.push_back(results[k]);
    given.push_back(gradients[k]);
  }
  Tensors first =
      grad(tracked, asked, {.create_graph = true, .allow_unused = true, .grad_outputs = given});
  Tensors again;
  for (const Tensor& gradient : first) {
    if (gradient.defined() && gradient.requires_grad()) again.push_back(sum(gradient * gradient));
  }
  if (again.empty()) return first;
  return op_database::joined(first, grad(again, asked, {.allow_unused = true}));
}

// Counts the waits while `function` runs.
template <class Function>
auto counting(std::int64_t& waits, const Function& function) {
  const std::int64_t before = fake_device::waits();
  auto result = function();
  waits += fake_device::waits() - before;
  return result;
}

// The first difference of an op from its behavior on the CPU, or nothing. Counts the op's waits.
std::string fault_of(const Op& op, std::int64_t& waits) {
  const Device place = with_result_on_host.contains(op.name) ? cpu_device : device;
  for (const Sample& sample : op.samples()) {
    if (sample.inputs.empty()) continue;  // it has no device
    for (const DType dtype : {float64, float32, bfloat16, int32, DType::bool_}) {
      if (!has_dtypes(sample) && dtype != float64) continue;
      if (has_dtypes(sample) && !contains(op.dtypes, dtype)) continue;
      if (!is_floating_point(dtype) && sample.floats_only) continue;
      for (const Layout layout : layouts::every_layout) {
        if (layout == Layout::broadcast || !has_layout(sample, layout)) continue;
        const std::string where = sample.label + ", " + name(dtype) + ", " + layouts::name(layout);
        try {
          const Tensors near = arranged(sample, dtype, layout);
          const Tensors far = on_device(sample, dtype, layout);
          const Tensors expected = sample.forward(near);
          const Tensors got = counting(waits, [&] { return sample.forward(far); });
          std::string fault = difference(got, expected, "result", place);
          if (fault.empty() && sample.backward && is_floating_point(dtype)) {
            const Tensors gradients =
                counting(waits, [&] { return explicit_backward(sample, far, got, device); });
            fault = difference(gradients, explicit_backward(sample, near, expected, cpu_device),
                               "gradient");
            if (fault.empty() && layout == Layout::contiguous) {
              const Tensors recorded =
                  counting(waits, [&] { return recorded_gradients(sample, far, device); });
              fault = difference(recorded, recorded_gradients(sample, near, cpu_device),
                                 "recorded gradient");
            }
          }
          if (!fault.empty()) return where + ": " + fault;
        } catch (const std::exception& error) {
          return where + ": " + error.what();
        }
      }
    }
  }
  return "";
}

class FakeDeviceDatabase : public ::testing::TestWithParam<std::string> {};

TEST_P(FakeDeviceDatabase, HasTheBitsOfTheCpu) {
  fake_device::install();
  const Op& op = *find_op(GetParam());
  const std::size_t before = memory_stats(device).allocated_bytes;
  std::int64_t waits = 0;
  const std::string fault = fault_of(op, waits);
  EXPECT_EQ(memory_stats(device).allocated_bytes, before) << "memory is leaked";
  if (unfinished.contains(op.name)) {
    EXPECT_NE(fault, "") << op.name << " works: remove it from the list of unfinished ops";
  } else {
    EXPECT_EQ(fault, "") << op.name;
    EXPECT_EQ(waits != 0, waiting.contains(op.name)) << op.name << " waits " << waits << " times";
  }
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const Op& op : op_database::ops()) names.push_back(op.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, FakeDeviceDatabase, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

TEST(FakeDeviceList, NamesOpsOfTheDatabase) {
  for (const std::string& op : unfinished) EXPECT_NE(find_op(op), nullptr) << op;
}

}  // namespace
}  // namespace extensor
