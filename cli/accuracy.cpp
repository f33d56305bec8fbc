#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "op_database/compare.h"
#include "op_database/elementwise_reference.h"
#include "op_database/elementwise_rows.h"

namespace extensor::cli {

namespace {

using op_database::UnaryRow;

// The worst result of a function over all inputs.
struct Worst {
  double ulp = 0;
  double x = 0, got = 0;
  long double exact = 0;
  std::int64_t inputs = 0;
};

void compare_all(const UnaryRow& row, const reference::Unary& exact, const Tensor& inputs,
                 Worst& worst) {
  const compare::Format format = compare::format_of(inputs.dtype());
  reference::Parameters parameters;
  const auto rounded = [&](double p) {
    return inputs.dtype() == float64 ? p : static_cast<double>(static_cast<float>(p));
  };
  if (!row.parameters.empty()) parameters.p = rounded(row.parameters[0]);
  if (row.parameters.size() > 1) parameters.q = rounded(row.parameters[1]);
  const std::vector<double> x = compare::values_of(inputs);
  const std::vector<double> got = compare::values_of(row.forward(inputs));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double expected = exact(x[i], parameters);
    const double ulp = compare::ulp_error(format, got[i], expected);
    if (ulp > worst.ulp) worst = {ulp, x[i], got[i], expected, worst.inputs};
  }
  worst.inputs += inputs.numel();
}

template <class Float, class Bits>
Tensor from_bits(const std::vector<Bits>& bits) {
  std::vector<Float> values;
  values.reserve(bits.size());
  for (Bits pattern : bits) {
    if constexpr (sizeof(Bits) == 2) {
      values.push_back(Float::from_bits(pattern));
    } else {
      values.push_back(std::bit_cast<Float>(pattern));
    }
  }
  return from_data(values);
}

// `count` bit patterns in equal steps from `first`, so that every exponent, every sign and the
// neighbourhood of every special value occur.
template <class Bits>
std::vector<Bits> spread(std::uint64_t first, std::uint64_t step, std::size_t count) {
  std::vector<Bits> bits(count);
  for (std::size_t i = 0; i < count; ++i) bits[i] = static_cast<Bits>(first + i * step);
  return bits;
}

constexpr std::size_t block = 1 << 16;

// Called after each block of inputs to show progress.
using Step = std::function<void()>;

Worst over_halves(const UnaryRow& row, const reference::Unary& exact, DType dtype,
                  const Step& step) {
  Worst worst;
  const auto bits = spread<std::uint16_t>(0, 1, block);
  compare_all(row, exact,
              dtype == DType::float16 ? from_bits<Float16>(bits) : from_bits<BFloat16>(bits),
              worst);
  step();
  return worst;
}

constexpr std::uint64_t all_float32 = std::uint64_t{1} << 32;
constexpr std::uint64_t float32_stride(bool exhaustive) { return exhaustive ? 1 : 4093; }
constexpr int float64_blocks = 16;

Worst over_float32(const UnaryRow& row, const reference::Unary& exact, bool exhaustive,
                   const Step& step) {
  Worst worst;
  const std::uint64_t stride = float32_stride(exhaustive);
  for (std::uint64_t first = 0; first < all_float32; first += stride * block) {
    compare_all(row, exact, from_bits<float>(spread<std::uint32_t>(first, stride, block)), worst);
    step();
  }
  return worst;
}

Worst over_float64(const UnaryRow& row, const reference::Unary& exact, const Step& step) {
  Worst worst;
  constexpr std::uint64_t stride = 17592186044399;  // a prime near 2⁴⁴, for 2²⁰ patterns
  for (int i = 0; i < float64_blocks; ++i) {
    const std::uint64_t first = static_cast<std::uint64_t>(i) * block * stride;
    compare_all(row, exact, from_bits<double>(spread<std::uint64_t>(first, stride, block)), worst);
    step();
  }
  return worst;
}

// The number of input blocks that one function is measured on.
std::int64_t block_count(bool exhaustive) {
  const std::uint64_t of_float32 = float32_stride(exhaustive) * block;
  return static_cast<std::int64_t>((all_float32 + of_float32 - 1) / of_float32) + float64_blocks +
         2;
}

struct Measured {
  Worst single, wide, half, brain;
};

std::vector<std::string> cells_of(const std::string& label, const Measured& of) {
  return {label,
          short_number(of.single.ulp),
          short_number(of.single.x),
          short_number(of.wide.ulp),
          short_number(of.wide.x),
          short_number(of.half.ulp),
          short_number(of.brain.ulp)};
}

nlohmann::ordered_json json_of(const Worst& of) {
  return {{"ulp", of.ulp}, {"x", of.x}, {"inputs", of.inputs}};
}

nlohmann::ordered_json json_of(const std::string& label, const Measured& of) {
  return {{"function", label},
          {"float32", json_of(of.single)},
          {"float64", json_of(of.wide)},
          {"float16", json_of(of.half)},
          {"bfloat16", json_of(of.brain)}};
}

void run(const std::vector<std::string>& words, bool exhaustive, bool json) {
  const auto& references = reference::unary_references();
  std::vector<UnaryRow> rows;
  std::vector<std::string> names;
  for (UnaryRow& row : op_database::unary_rows()) {
    if (!references.contains(row.name)) continue;
    if (std::ranges::find(names, row.name) == names.end()) names.push_back(row.name);
    rows.push_back(std::move(row));
  }
  const std::vector<std::string> wanted = chosen(words, names, "function");
  std::erase_if(rows, [&](const UnaryRow& row) {
    return std::ranges::find(wanted, row.name) == wanted.end();
  });
  // Print every line immediately: measuring all inputs of a function takes minutes.
  std::size_t widest = 0;
  for (const UnaryRow& row : rows) widest = std::max(widest, row.label.size());
  std::optional<TableWriter> lines;
  if (!json) {
    lines.emplace(std::vector<std::string>{"function", "float32 ULP", "at x", "float64 ULP", "at x",
                                           "float16 ULP", "bfloat16 ULP"},
                  std::vector<std::size_t>{widest, 0, 10, 0, 10});
  }
  Progress progress(std::ssize(rows) * block_count(exhaustive));
  const char* before = "[\n";
  for (const UnaryRow& row : rows) {
    const reference::Unary& exact = references.at(row.name);
    const Step step = [&] { progress.advance(row.label); };
    const Measured measured{over_float32(row, exact, exhaustive, step),
                            over_float64(row, exact, step),
                            over_halves(row, exact, DType::float16, step),
                            over_halves(row, exact, DType::bfloat16, step)};
    progress.clear();
    if (json) {
      std::cout << before << json_of(row.label, measured).dump(2);
      flush_output();
      before = ",\n";
    } else {
      lines->add(cells_of(row.label, measured));
    }
  }
  if (json) {
    std::cout << "\n]\n";
    return;
  }
  std::cout << "\nThe largest error against long double, in units of the last place; "
            << "0.5 is rounded correctly.\nfloat16 and bfloat16 on all 65,536 inputs, float32 on "
            << (exhaustive ? "all 2^32" : "2^20 spread over all") << ", float64 on 2^20.\n";
}

}  // namespace

void add_accuracy_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("accuracy", "The largest error of every elementwise function");
  static std::vector<std::string> words;
  static bool exhaustive, json;
  command->add_option("function", words, "The functions to measure; all without any");
  command->add_flag("--exhaustive", exhaustive,
                    "float32 on all 2^32 inputs (minutes per function)");
  command->add_flag("--json", json, "As JSON");
  command->footer("Examples:\n  extensor accuracy\n  extensor accuracy exp gelu --exhaustive");
  command->callback([] { run(words, exhaustive, json); });
}

}  // namespace extensor::cli
