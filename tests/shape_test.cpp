// Shapes, axes, and the checks and messages that all ops share.
#include "extensor/shape.h"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/make_tensor.h"

namespace {

using namespace extensor;

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(DimsTest, HeapAndInlineBehaveAlike) {
  for (std::size_t rank = 0; rank <= 64; ++rank) {
    Dims dims;
    for (std::size_t i = 0; i < rank; ++i) dims.push_back(static_cast<std::int64_t>(i));
    Dims copy = dims;
    EXPECT_EQ(copy, dims);
    Dims moved = std::move(copy);
    EXPECT_EQ(moved, dims);
    EXPECT_TRUE(copy.empty());  // NOLINT: a moved-from Dims is empty by design
    copy = moved;
    EXPECT_EQ(copy, dims);
    copy.insert(rank / 2, 99);
    EXPECT_EQ(copy[rank / 2], 99);
    copy.erase(rank / 2);
    EXPECT_EQ(copy, dims);
    copy.resize(rank + 3, 7);
    EXPECT_EQ(copy.back(), 7);
    copy = Dims{1};
    moved = std::move(copy);
    EXPECT_EQ(moved, (Dims{1}));
  }
}

TEST(DimsTest, Text) {
  EXPECT_EQ(to_string(Dims{}), "[]");
  EXPECT_EQ(to_string(Dims{2, -3}), "[2, -3]");
  std::ostringstream stream;
  stream << Dims{4};
  EXPECT_EQ(stream.str(), "[4]");
}

TEST(MessageTest, JoinsParts) {
  EXPECT_EQ(detail::message("a ", std::string("b "), 3, ' ', -4L, " ", UINT64_MAX, " ", true),
            "a b 3 -4 18446744073709551615 true");
  EXPECT_EQ(detail::message(0.1, " ", 0.1f, " ", 1e300, " ", float16, " ", Dims{1, 2}, " ",
                            cpu_device, " ", Device{Device::Type::cuda, 1}),
            "0.1 0.1 1e+300 float16 [1, 2] cpu cuda:1");
  EXPECT_EQ(detail::message(Scalar(2), Scalar(2.5), Scalar(false)), "22.5false");
}

TEST(AxisTest, NormalizeAxis) {
  EXPECT_EQ(detail::normalize_axis("sum", -1, 3), 2);
  EXPECT_EQ(detail::normalize_axis("sum", 0, 3), 0);
  EXPECT_THROW(detail::normalize_axis("sum", 3, 3), IndexError);
  EXPECT_THROW(detail::normalize_axis("sum", 0, 0), IndexError);
  EXPECT_THROW(detail::normalize_axis("sum", INT64_MIN, 3), IndexError);
  EXPECT_EQ(text_of([] { detail::normalize_axis("sum", 3, 2); }),
            "sum: axis 3 is out of range for a tensor of rank 2 (allowed: -2 to 1)");
}

TEST(AxisTest, NormalizeAxes) {
  EXPECT_EQ(detail::normalize_axes("sum", {}, 3), (Dims{0, 1, 2}));
  EXPECT_EQ(detail::normalize_axes("sum", Axes{-1, 0}, 3), (Dims{0, 2}));
  EXPECT_EQ(detail::normalize_axes("sum", 1, 3), (Dims{1}));
  EXPECT_EQ(detail::normalize_axes("sum", Dims{}, 3), Dims{});
  EXPECT_EQ(text_of([] {
              detail::normalize_axes("sum", Axes{2, -1}, 3);
            }),
            "sum: axis 2 is given more than once in axes [2, -1] (each axis at most once)");
}

TEST(CreationTest, Item01NegativeDimension) {
  EXPECT_THROW(detail::make_empty("empty", {2, -3}, float32, cpu_device), ShapeError);
  EXPECT_EQ(text_of([] {
              detail::make_empty("empty", {2, -3}, float32, cpu_device);
            }),
            "empty: negative dimension -3 in shape [2, -3] (allowed: 0 or more)");
  EXPECT_THROW(detail::make_empty("empty", {0, INT64_MIN}, float32, cpu_device), ShapeError);
}

TEST(CreationTest, Item02ElementCountOverflows) {
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_THROW(detail::make_empty("empty", {big, big}, float32, cpu_device), ShapeError);
  EXPECT_THROW(detail::make_empty("empty", {0, big, big}, float32, cpu_device), ShapeError);
  EXPECT_THROW(detail::make_empty("empty", {big, big, 0}, float32, cpu_device), ShapeError);
}

TEST(CreationTest, Item03ByteCountOverflows) {
  EXPECT_THROW(detail::make_empty("empty", {std::int64_t{1} << 61}, float32, cpu_device),
               ShapeError);
}

TEST(CreationTest, Item04Petabyte) {
  EXPECT_THROW(detail::make_empty("empty", {std::int64_t{1} << 50}, uint8, cpu_device),
               OutOfMemoryError);
  const std::string text =
      text_of([] { detail::make_empty("empty", {std::int64_t{1} << 50}, uint8, cpu_device); });
  EXPECT_NE(text.find("empty: no room for 1125899906842624 bytes"), std::string::npos) << text;
  EXPECT_EQ(detail::make_empty("empty", {3}, uint8, cpu_device).numel(), 3);
}

TEST(CreationTest, Item05Rank65) {
  EXPECT_THROW(detail::make_empty("empty", Shape(65, 1), float32, cpu_device), ShapeError);
  EXPECT_EQ(detail::make_empty("empty", Shape(64, 1), float32, cpu_device).ndim(), 64);
}

TEST(CreationTest, EmptyShapes) {
  const Tensor tensor = detail::make_empty("empty", {3, 0, 5}, float32, cpu_device);
  EXPECT_EQ(tensor.numel(), 0);
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(tensor.strides(), (Strides{5, 5, 1}));
  EXPECT_EQ(detail::make_empty("empty", {}, float32, cpu_device).numel(), 1);
}

// No machine has that many GPUs; most test machines have none.
TEST(CreationTest, UnknownDevice) {
  EXPECT_THROW(detail::make_empty("empty", {3}, float32, {Device::Type::cuda, 99}), DeviceError);
}

}  // namespace
