// Asynchronous devices: errors in values that are reported later, numbers that are read later, and
// the default device.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <thread>

#include "support/device_test.h"

namespace extensor {
namespace {

using fake_device::expect_words;
using fake_device::FakeDevice;
using fake_device::message_of;
using fake_device::same_bits;

constexpr Device device = fake_device::first;

// ---- invalid values that kernels detect

// Runs `function` on both devices. The CPU throws immediately; the device does not wait, and throws
// the same error once, at the next wait.
template <class Error, class Function>
void expect_late_error(const char* name, const Function& function) {
  SCOPED_TRACE(name);
  const std::string expected = message_of<Error>([&] { function(cpu_device); });
  EXPECT_EQ(expected.rfind(std::string(name) + ": ", 0), 0u) << expected;
  synchronize(device);
  const std::int64_t waits = fake_device::waits();
  function(device);
  EXPECT_EQ(fake_device::waits(), waits);
  EXPECT_EQ(message_of<Error>([&] { synchronize(device); }), expected);
  EXPECT_NO_THROW(synchronize(device)) << "reported twice";
}

TEST_F(FakeDevice, ReportsIndicesOutOfRangeAtTheNextWait) {
  const auto table = [](Device place) { return arange(12, {float32, place}).reshape({4, 3}); };
  const auto integers = [](std::initializer_list<std::int64_t> values, Device place) {
    return tensor(values, place);
  };
  expect_late_error<IndexError>("embedding", [&](Device d) {
    embedding(table(d), integers({0, 4, 5}, d));
  });
  expect_late_error<IndexError>("embedding", [&](Device d) {
    embedding(table(d), integers({0, -1}, d));
  });
  expect_late_error<IndexError>("embedding_backward", [&](Device d) {
    embedding_backward(ones({2, 3}, d), integers({0, 9}, d), 4);
  });
  expect_late_error<IndexError>("take", [&](Device d) {
    take(table(d), integers({-4, 3, -5}, d), 0);
  });
  expect_late_error<IndexError>("gather", [&](Device d) {
    gather(table(d), 0, tensor({{0, 1, 2}, {3, 4, 0}}, d));
  });
  expect_late_error<IndexError>("scatter", [&](Device d) {
    scatter(table(d), 1, tensor({{0, 3}}, d), ones({1, 2}, d));
  });
  expect_late_error<IndexError>("scatter_add", [&](Device d) {
    scatter_add(table(d), 1, tensor({{0, 3}}, d), ones({1, 2}, d));
  });
  expect_late_error<IndexError>("one_hot", [&](Device d) { one_hot(integers({1, 7}, d), 3); });
  expect_late_error<IndexError>("index", [&](Device d) {
    (void)Tensor(table(d)[integers({1, 7}, d)]);
  });
  expect_late_error<IndexError>("cross_entropy", [&](Device d) {
    cross_entropy(table(d), integers({0, 1, 2, 3}, d));
  });
  expect_late_error<IndexError>("nll_loss", [&](Device d) {
    nll_loss(table(d), integers({0, 1, 2, -1}, d));
  });
  // The largest numbers, and other dtypes.
  expect_late_error<IndexError>("take", [&](Device d) {
    take(table(d), full({1}, std::numeric_limits<std::uint64_t>::max(), {uint64, d}), 0);
  });
  expect_late_error<IndexError>("take", [&](Device d) {
    take(table(d), tensor({-100}, {int8, d}), 0);
  });
  // ignore_index is not an error.
  EXPECT_TRUE(same_bits(cross_entropy(table(device), integers({0, -100, 2, 1}, device)),
                        cross_entropy(table(cpu_device), integers({0, -100, 2, 1}, cpu_device))));
}

TEST_F(FakeDevice, ReportsOtherValuesAtTheNextWait) {
  expect_late_error<ValueError>("floor_divide", [](Device d) {
    floor_divide(arange(3, d), tensor({1, 0, 2}, d));
  });
  expect_late_error<ValueError>("modulo", [](Device d) { 5 % tensor({1, 0, 2}, d); });
  expect_late_error<ValueError>("power", [](Device d) {
    power(arange(3, d), tensor({1, -3, -7}, d));
  });
  expect_late_error<ValueError>("bitwise_left_shift", [](Device d) {
    bitwise_left_shift(tensor({1}, {int8, d}), tensor({8}, {int8, d}));
  });
  for (const double wrong : {-0.5, 1.25}) {
    expect_late_error<ValueError>("binary_cross_entropy", [&](Device d) {
      binary_cross_entropy(tensor({0.5, wrong}, d), ones({2}, d));
    });
    expect_late_error<ValueError>("binary_cross_entropy", [&](Device d) {
      binary_cross_entropy(full({2}, 0.5, d), tensor({1.0, wrong}, {bfloat16, d}));
    });
  }
}

// Every way to wait throws; the first of several errors is reported.
TEST_F(FakeDevice, EveryWaitReports) {
  const Tensor table = ones({4, 3}, device);
  const auto go_wrong = [&] {
    take(table, tensor({7}, device), 0);
    take(table, tensor({8}, device), 0);
  };
  const std::initializer_list<std::function<void()>> ways = {
      [&] { (void)sum(table).item<float>(); },
      [&] { (void)table.to_vector<float>(); },
      [&] { (void)to_string(table); },
      [&] { (void)table.to(cpu_device); },
      [&] { (void)PendingItem(sum(table)).item<float>(); },
      [&] { synchronize(device); },
  };
  for (const auto& way : ways) {
    go_wrong();
    expect_words(message_of<IndexError>(way), {"take: index 7 "});
    EXPECT_NO_THROW(way());
  }
  // With an empty table a kernel has no row to read instead, so the call itself throws.
  EXPECT_THROW(embedding(zeros({0, 3}, device), tensor({0}, device)), IndexError);
}

TEST_F(FakeDevice, PendingItemsAreReadWithoutAWait) {
  Tensor x = full({}, 3.5, device);
  const std::int64_t waits = fake_device::waits();
  PendingItem item(x);
  x += 1;
  EXPECT_EQ(item.item<double>(), 3.5) << "the value when the copy began";
  EXPECT_EQ(item.item<std::int64_t>(), 3);
  PendingItem moved = std::move(item);
  EXPECT_EQ(moved.item<float>(), 3.5F);
  EXPECT_FALSE(item.defined());  // NOLINT: looked at on purpose
  EXPECT_THROW((void)item.item<float>(), ValueError);
  moved = PendingItem(x);
  EXPECT_EQ(moved.item<float>(), 4.5F);
  EXPECT_EQ(fake_device::waits(), waits);
  EXPECT_EQ(PendingItem(scalar(true)).item<int>(), 1);
  EXPECT_THROW(PendingItem(ones({2}, device)), ValueError);
  EXPECT_THROW(PendingItem{Tensor()}, ValueError);
}

TEST_F(FakeDevice, DefaultDeviceIsWhereTensorsAreCreated) {
  EXPECT_EQ(default_device(), cpu_device);
  {
    const DefaultDevice there(device);
    EXPECT_EQ(default_device(), device);
    for (const Tensor& x :
         {empty({2}), zeros({2}), ones({2}), full({2}, 3), scalar(1), arange(3), linspace(0, 1, 3),
          eye(2), tensor({1, 2}), tensor({{1}, {2}}), from_data(std::vector<float>{1, 2}),
          rand({2}), randn({2}), randint(0, 3, {2}), randperm(4), bernoulli(0.5, {2})}) {
      EXPECT_EQ(x.device(), device);
    }
    EXPECT_EQ(zeros({2}, cpu_device).device(), cpu_device);
    EXPECT_EQ(zeros_like(zeros({2}, cpu_device)).device(), cpu_device);
    // Ops run on the device of their operands.
    const Tensor x = ones({3, 3}, cpu_device).requires_grad_();
    sum(tril(logsumexp(x, {0}, true) + norm(x))).backward();
    EXPECT_EQ(x.grad().device(), cpu_device);
    {
      const DefaultDevice here(cpu_device);
      EXPECT_EQ(zeros({2}).device(), cpu_device);
    }
    EXPECT_EQ(nn::Linear(2, 3).weight.tensor().device(), device);
    std::thread([] { EXPECT_EQ(default_device(), cpu_device) << "of another thread"; }).join();
  }
  EXPECT_EQ(default_device(), cpu_device);
  set_default_device(device);
  EXPECT_EQ(zeros({2}).device(), device);
  set_default_device(cpu_device);
  expect_words(message_of<DeviceError>([] {
                 set_default_device({Device::Type::test, 5});
               }),
               {"set_default_device", "test:5"});
  expect_words(message_of<DeviceError>([] {
                 const DefaultDevice none({Device::Type::cuda, 0});
               }),
               {"DefaultDevice", "cuda:0"});
  EXPECT_EQ(default_device(), cpu_device);
}

}  // namespace
}  // namespace extensor
