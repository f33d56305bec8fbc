// Complex numbers on a device: copies move their bytes, and a device without kernels for them
// refuses everything else with a DTypeError.
#include <gtest/gtest.h>

#include <complex>
#include <functional>
#include <map>
#include <string>

#include "extensor/extensor.h"
#include "support/fake_device.h"

namespace extensor {
namespace {

using C64 = std::complex<float>;

class ComplexDevice : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override { fake_device::install(); }
  void TearDown() override { fake_device::compute_complex(true); }
};

TEST_P(ComplexDevice, ComputesAsTheCpuDoes) {
  const Tensor z = complex(linspace(-2, 2, 12).reshape({3, 4}), linspace(1, -3, 12).reshape({3, 4}))
                       .to(GetParam());
  const Tensor there = z.to(fake_device::first);
  const auto same = [](const Tensor& x, const Tensor& expected) {
    return x.device() == fake_device::first && x.dtype() == expected.dtype() &&
           all(equal(x.to(cpu_device), expected)).item<bool>();
  };
  EXPECT_TRUE(same(there + there.slice(0, 1, 2), z + z.slice(0, 1, 2)));
  EXPECT_TRUE(same(exp(there.transpose()), exp(z.transpose())));
  EXPECT_TRUE(same(abs(there), abs(z)));
  EXPECT_TRUE(same(conj(there), conj(z)));
  // Numbers, and tensors on the CPU that act as numbers, are passed by value.
  using namespace std::complex_literals;
  EXPECT_TRUE(same((2.0 - 3i) * there, (2.0 - 3i) * z));
  EXPECT_TRUE(same(there - z[0][1], z - z[0][1]));
  EXPECT_TRUE(same(zeros_like(there).fill(1.0 + 2i), zeros_like(z).fill(1.0 + 2i)));
}

TEST_P(ComplexDevice, CopiesBytes) {
  fake_device::compute_complex(false);
  const Tensor z =
      complex(arange(12.0).reshape({3, 4}), -arange(12.0).reshape({3, 4})).to(GetParam());
  const Tensor there = z.to(fake_device::first);
  EXPECT_EQ(there.dtype(), GetParam());
  const auto same = [](const Tensor& x, const Tensor& expected) {
    return x.shape() == expected.shape() && all(equal(x.to(cpu_device), expected)).item<bool>();
  };
  EXPECT_TRUE(same(there, z));
  EXPECT_TRUE(same(there.clone(), z));
  EXPECT_TRUE(same(there.transpose().contiguous(), z.transpose()));
  EXPECT_TRUE(same(there.slice(1, {}, {}, -2).contiguous(), z.slice(1, {}, {}, -2)));
  EXPECT_TRUE(same(concatenate({there, there}, 0), concatenate({z, z}, 0)));
  EXPECT_TRUE(same(tile(there, {2, 1}), tile(z, {2, 1})));
  EXPECT_TRUE(
      same(take(there, tensor({2, 0}).to(fake_device::first), 0), take(z, tensor({2, 0}), 0)));
  EXPECT_TRUE(same(real(there), real(z)));
  EXPECT_TRUE(same(view_as_complex(view_as_real(there)), z));
  EXPECT_TRUE(same(sum(there, 0), sum(z, 0)));
  EXPECT_EQ(to_string(there), to_string(z));
  EXPECT_EQ(there[0][1].item<C64>(), C64(1, -1));
}

TEST_P(ComplexDevice, RefusesTheRest) {
  fake_device::compute_complex(false);
  const Tensor z = ones({3, 4}, GetParam()).to(fake_device::first);
  const Tensor index = zeros({3, 4}, int64).to(fake_device::first);
  const std::map<std::string, std::function<void()>> calls = {
      {"add", [&] { (void)(z + z); }},
      {"add a number", [&] { (void)(z + 1); }},
      {"add a CPU number", [&] { (void)(z + full({}, std::complex<double>(0, 1))); }},
      {"exp", [&] { (void)exp(z); }},
      {"abs", [&] { (void)abs(z); }},
      {"conj", [&] { (void)conj(z); }},
      {"complex", [&] { (void)complex(real(z), real(z)); }},
      {"cast", [&] { (void)z.to(GetParam() == complex64 ? complex128 : complex64); }},
      {"fill", [&] { Tensor(z.clone()).fill(2); }},
      {"zeros",
       [&] {
         (void)zeros({2}, {GetParam(), fake_device::first});
       }},
      {"gather", [&] { (void)gather(z, 0, index); }},
      {"index", [&] { (void)Tensor(z[index.slice(0, 0, 1)]); }},
      {"softmax", [&] { (void)softmax(z, 0); }},
  };
  for (const auto& [name, call] : calls) {
    try {
      call();
      ADD_FAILURE() << name << " is not refused";
    } catch (const DTypeError& error) {
      EXPECT_NE(std::string(error.what()).find("complex"), std::string::npos) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << " throws something else: " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ComplexDevice, ::testing::Values(complex64, complex128),
                         [](const auto& info) { return name(info.param); });

}  // namespace
}  // namespace extensor
