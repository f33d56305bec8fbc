// Neighbours and signs of floats. The references use the C library, and the bits of halves.
#include <cmath>
#include <limits>

#include "op_database/op_database.h"
#include "op_database/plain_array.h"

namespace extensor::op_database {

namespace {

// The bits of numbers of one sign are in the order of their magnitudes.
template <class Half>
double next_half(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return b;
  if (a == 0) {
    return std::copysign(static_cast<double>(static_cast<float>(Half::from_bits(1))), b);
  }
  const std::uint16_t bits = Half(static_cast<float>(a)).bits();
  const bool away = (b > a) == (a > 0);
  return static_cast<float>(
      Half::from_bits(static_cast<std::uint16_t>(away ? bits + 1 : bits - 1)));
}

double next_number(DType dtype, double a, double b) {
  if (dtype == DType::float64) return std::nextafter(a, b);
  if (dtype == DType::float16) return next_half<Float16>(a, b);
  if (dtype == DType::bfloat16) return next_half<BFloat16>(a, b);
  return std::nextafter(static_cast<float>(a), static_cast<float>(b));
}

std::vector<Sample> nextafter_samples() {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Sample> samples;
  const auto add = [&](std::string label, Tensor a, Tensor b) {
    Sample sample;
    sample.label = std::move(label);
    sample.inputs = {std::move(a), std::move(b)};
    sample.forward = [](const Tensors& in) { return Tensors{nextafter(in[0], in[1])}; };
    sample.reference = [](const Tensors& in) {
      const DType dtype = is_floating_point(in[0].dtype()) ? in[0].dtype() : DType::float32;
      const PlainArray first(in[0]), second(in[1]);
      const Shape shape = broadcast_shapes(first.shape, second.shape);
      const PlainArray a(in[0].broadcast_to(shape)), b(in[1].broadcast_to(shape));
      return Tensors{PlainArray::from(shape, [&](const Dims& at) {
                       return next_number(dtype, a.at(at), b.at(at));
                     }).to_tensor(dtype)};
    };
    samples.push_back(std::move(sample));
  };
  add("[4, 1], [33]", sample_uniform({4, 1}, -3, 3, 1), sample_uniform({33}, -3, 3, 2));
  add("[], [0]", sample_uniform({}, -3, 3, 3), sample_uniform({0}, -3, 3, 4));
  add("zeros and powers of 2", tensor({0.0, -0.0, 0.0, 1.0, 1.0, -2.0, -2.0, 0.25}, float64),
      tensor({1.0, 1.0, -0.0, 2.0, 0.0, -3.0, 3.0, 0.25}, float64));
  add("infinities and NaN", tensor({inf, -inf, inf, 1.0, nan, 1.0, -1.0}, float64),
      tensor({0.0, 0.0, inf, inf, 1.0, nan, -inf}, float64));
  samples.back().floats_only = true;
  return samples;
}

std::vector<Sample> signbit_samples() {
  std::vector<Sample> samples;
  const auto add = [&](std::string label, Tensor x) {
    Sample sample;
    sample.label = std::move(label);
    sample.inputs = {std::move(x)};
    sample.forward = [](const Tensors& in) { return Tensors{signbit(in[0])}; };
    sample.reference = [](const Tensors& in) {
      const PlainArray x(in[0]);
      return Tensors{PlainArray::from(x.shape, [&](const Dims& at) {
                       return std::signbit(x.at(at)) ? 1.0 : 0.0;
                     }).to_tensor(DType::bool_)};
    };
    samples.push_back(std::move(sample));
  };
  add("[3, 17]", sample_uniform({3, 17}, -2, 2, 1));
  add("[]", sample_uniform({}, -2, -1, 2));
  add("[0]", sample_uniform({0}, -2, 2, 3));
  const double inf = std::numeric_limits<double>::infinity();
  add("zeros and infinities", tensor({0.0, -0.0, inf, -inf}, float64));
  samples.back().floats_only = true;
  return samples;
}

}  // namespace

void add_floating_point(std::vector<Op>& ops) {
  ops.push_back({"nextafter",
                 "elementwise",
                 "the number next to a in the direction of b",
                 "",
                 {},
                 DTypes::as_float32,
                 nextafter_samples});
  ops.push_back({"signbit",
                 "comparison",
                 "whether the sign bit of x is set",
                 "",
                 {},
                 DTypes::all,
                 signbit_samples});
}

}  // namespace extensor::op_database
