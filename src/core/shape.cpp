#include "extensor/shape.h"

#include <ostream>

#include "core/check.h"

namespace extensor {

std::string to_string(const Dims& dims) { return detail::message(dims); }

std::ostream& operator<<(std::ostream& stream, const Dims& dims) {
  return stream << to_string(dims);
}

}  // namespace extensor
