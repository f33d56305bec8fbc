// Promotion: the whole table, written out by hand.
#include "extensor/dtype.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "extensor/error.h"
#include "extensor/scalar.h"

namespace {

using extensor::DType;
using extensor::DTypeError;
using extensor::promote_types;
using extensor::promote_with_scalar;
using extensor::Scalar;

const std::string short_names[] = {"b",  "i1", "i2", "i4", "i8", "u1", "u2",
                                   "u4", "u8", "f2", "bf", "f4", "f8"};

// Row and column in the order above; -- means no common dtype.
const char* const promotion_table = R"(
b  i1 i2 i4 i8 u1 u2 u4 u8 f2 bf f4 f8
i1 i1 i2 i4 i8 i2 i4 i8 -- f2 bf f4 f8
i2 i2 i2 i4 i8 i2 i4 i8 -- f2 bf f4 f8
i4 i4 i4 i4 i8 i4 i4 i8 -- f2 bf f4 f8
i8 i8 i8 i8 i8 i8 i8 i8 -- f2 bf f4 f8
u1 i2 i2 i4 i8 u1 u2 u4 u8 f2 bf f4 f8
u2 i4 i4 i4 i8 u2 u2 u4 u8 f2 bf f4 f8
u4 i8 i8 i8 i8 u4 u4 u4 u8 f2 bf f4 f8
u8 -- -- -- -- u8 u8 u8 u8 f2 bf f4 f8
f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f4 f8
bf bf bf bf bf bf bf bf bf f4 bf f4 f8
f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8
)";

TEST(DTypeTest, PromotionTable) {
  std::istringstream table(promotion_table);
  for (int row = 0; row < extensor::dtype_count; ++row) {
    for (int column = 0; column < extensor::dtype_count; ++column) {
      std::string expected;
      table >> expected;
      const auto a = static_cast<DType>(row);
      const auto b = static_cast<DType>(column);
      if (expected == "--") {
        EXPECT_THROW(promote_types(a, b), DTypeError) << name(a) << " " << name(b);
      } else {
        EXPECT_EQ(short_names[static_cast<int>(promote_types(a, b))], expected)
            << name(a) << " " << name(b);
      }
    }
  }
}

TEST(DTypeTest, ErrorNamesBothDtypes) {
  try {
    promote_types(DType::uint64, DType::int8);
    FAIL();
  } catch (const DTypeError& error) {
    EXPECT_NE(std::string(error.what()).find("uint64 and int8"), std::string::npos) << error.what();
  }
}

TEST(DTypeTest, ScalarsAreWeak) {
  for (int i = 0; i < extensor::dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(promote_with_scalar(dtype, true), dtype);
    EXPECT_EQ(promote_with_scalar(dtype, 3), dtype == DType::bool_ ? DType::int64 : dtype);
    EXPECT_EQ(promote_with_scalar(dtype, 2.5), i >= 9 ? dtype : DType::float32);
  }
  EXPECT_EQ(promote_with_scalar(DType::bool_, UINT64_MAX), DType::uint64);
}

TEST(DTypeTest, NamesAndSizes) {
  EXPECT_STREQ(name(DType::bool_), "bool");
  EXPECT_STREQ(name(DType::bfloat16), "bfloat16");
  EXPECT_EQ(itemsize(DType::bool_), 1u);
  EXPECT_EQ(itemsize(DType::float16), 2u);
  EXPECT_EQ(itemsize(DType::uint64), 8u);
  EXPECT_EQ(extensor::dtype_of<long long>, DType::int64);
}

}  // namespace
