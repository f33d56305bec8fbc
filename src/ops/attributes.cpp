#include "ops/attributes.h"

namespace extensor::ops::field {

void append_index(std::string& text, const Index& index) {
  switch (index.kind()) {
    case Index::Kind::integer:
      return detail::append_signed(text, index.integer());
    case Index::Kind::slice:
      return append(text, index.slice());
    case Index::Kind::ellipsis:
      text += "...";
      return;
    case Index::Kind::newaxis:
      text += "newaxis";
      return;
    case Index::Kind::tensor:
      text += "tensor";
      return;
  }
}

bool equal_index(const Index& a, const Index& b) {
  return a.kind() == b.kind() && a.integer() == b.integer() && equal(a.slice(), b.slice()) &&
         a.tensor().impl_or_null() == b.tensor().impl_or_null();
}

bool equal_scalar(const Scalar& a, const Scalar& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_floating()) return equal(a.as_double(), b.as_double());
  return a.kind() == Scalar::Kind::unsigned_integer ? a.as_unsigned() == b.as_unsigned()
                                                    : a.as_integer() == b.as_integer();
}

}  // namespace extensor::ops::field
