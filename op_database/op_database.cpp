#include "op_database/op_database.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace extensor::op_database {

namespace {

std::size_t count_of(const Shape& shape) {
  return static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

// Aliases: the names of the Python Array API, PyTorch's, those of the original specification, and
// one for `std`, which a using-directive makes ambiguous.
void add_aliases(std::vector<Op>& list) {
  constexpr std::pair<const char*, const char*> aliases[] = {
      {"modulo", "remainder"},
      {"power", "pow"},
      {"unsqueeze", "expand_dims"},
      {"flatten", "ravel"},
      {"concatenate", "concat"},
      {"transpose", "permute_dims"},
      {"max_reduce", "max"},
      {"min_reduce", "min"},
      {"std", "standard_deviation"},
      {"subtract", "sub"},
      {"multiply", "mul"},
      {"divide", "div"},
      {"negative", "neg"},
      {"equal", "eq"},
      {"not_equal", "ne"},
      {"less", "lt"},
      {"less_equal", "le"},
      {"greater", "gt"},
      {"greater_equal", "ge"},
      {"log_sigmoid", "logsigmoid"},
      {"hard_sigmoid", "hardsigmoid"},
      {"hard_swish", "hardswish"},
      {"hard_tanh", "hardtanh"},
      {"clip", "clamp"},
      {"max_reduce", "amax"},
      {"min_reduce", "amin"},
      {"cumulative_sum", "cumsum"},
      {"cumulative_prod", "cumprod"},
      {"matmul", "mm"},
      {"matmul", "bmm"},
      {"concatenate", "cat"},
      {"transpose", "permute"},
      {"transpose", "swapaxes"},
      {"split", "chunk"},
      {"unstack", "unbind"},
      {"repeat", "repeat_interleave"},
      {"take", "index_select"},
      {"slice", "select"},
      {"scatter", "scatter_reduce"},
      {"mean_squared_error", "mse"},
      {"mean_squared_error", "mse_loss"},
      {"mean_squared_error", "mse_backward"},
      {"kl_divergence", "kl_div"},
      {"norm", "vector_norm"},
      {"inv", "inverse"},
      {"norm", "vector_norm_backward"},
  };
  for (const auto& [name, alias] : aliases) {
    const auto op = std::ranges::find(list, name, &Op::name);
    if (op != list.end()) op->aliases.emplace_back(alias);
  }
}

}  // namespace

const std::vector<Op>& ops() {
  static const std::vector<Op> made = [] {
    std::vector<Op> list;
    add_creation(list);
    add_random(list);
    add_elementwise(list);
    add_floating_point(list);
    add_reductions(list);
    add_cumulative(list);
    add_softmax(list);
    add_matrix(list);
    add_linalg(list);
    add_fft(list);
    add_shape(list);
    add_index_expressions(list);
    add_indexing(list);
    add_sorting(list);
    add_statistics(list);
    add_losses(list);
    add_composed_losses(list);
    add_linear(list);
    add_convolution(list);
    add_volumes(list);
    add_pooling(list);
    add_resampling(list);
    add_normalization(list);
    add_embedding_and_dropout(list);
    add_attention(list);
    add_recurrent(list);
    add_optimizer_steps(list);
    add_aliases(list);
    return list;
  }();
  return made;
}

const Op* find_op(const std::string& name) {
  const auto found = std::ranges::find(ops(), name, &Op::name);
  return found == ops().end() ? nullptr : &*found;
}

bool is_differentiable(const Sample& sample, std::size_t input) {
  const Tensor& x = sample.inputs[input];
  return x.defined() && is_floating_point(x.dtype()) &&
         std::ranges::find(sample.constants, input) == sample.constants.end();
}

bool contains(DTypes dtypes, DType dtype) {
  const bool is_float = is_floating_point(dtype), is_bool = dtype == bool_;
  switch (dtypes) {
    case DTypes::floats:
      return is_float;
    case DTypes::wide_floats:
      return is_float && !is_half(dtype);
    case DTypes::numbers:
      return !is_bool;
    case DTypes::all:
    case DTypes::as_float32:
    case DTypes::as_64_bits:
      return true;
    case DTypes::integers:
      return !is_float && !is_bool;
    case DTypes::integers_and_bool:
      return !is_float;
    case DTypes::int64_only:
      return dtype == int64;
  }
  return false;
}

DType result_dtype(DTypes dtypes, DType dtype) {
  if (is_floating_point(dtype)) return dtype;
  if (dtypes == DTypes::as_float32) return float32;
  if (dtypes != DTypes::as_64_bits) return dtype;
  return is_unsigned_integer(dtype) ? uint64 : int64;
}

const char* description(DTypes dtypes) {
  switch (dtypes) {
    case DTypes::floats:
      return "float16, bfloat16, float32, float64";
    case DTypes::wide_floats:
      return "float32, float64";
    case DTypes::numbers:
      return "floats and integers";
    case DTypes::all:
      return "every dtype";
    case DTypes::as_float32:
      return "every dtype; integers and bool give float32";
    case DTypes::as_64_bits:
      return "every dtype; integers and bool give int64, unsigned integers uint64";
    case DTypes::integers:
      return "integers";
    case DTypes::integers_and_bool:
      return "integers and bool";
    case DTypes::int64_only:
      return "int64";
  }
  return "";
}

double whole_number(std::size_t, double x) { return std::round(x); }

Tensor sample_uniform(const Shape& shape, double lo, double hi, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> distribution(lo, hi);
  std::vector<double> values(count_of(shape));
  for (double& value : values) value = distribution(engine);
  return from_data(values, shape);
}

Tensor sample_distinct(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<double> values(count_of(shape));
  const double middle = static_cast<double>(values.size()) / 2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.02 * (static_cast<double>(i) - middle) + 0.003;
  }
  std::ranges::shuffle(values, engine);
  return from_data(values, shape);
}

Tensor sample_integers(const Shape& shape, std::int64_t lo, std::int64_t hi, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_int_distribution<std::int64_t> distribution(lo, hi - 1);
  std::vector<std::int64_t> values(count_of(shape));
  for (std::int64_t& value : values) value = distribution(engine);
  return from_data(values, shape);
}

}  // namespace extensor::op_database
