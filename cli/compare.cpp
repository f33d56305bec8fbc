// extensor compare: compares two files of tensors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>

#include "cli/commands.h"
#include "cli/tensor_files.h"
#include "cli/tensor_values.h"
#include "cli/terminal.h"
#include "cli/validators.h"

namespace extensor::cli {

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.impl().data, y.impl().data, x.nbytes()) == 0;
}

struct Difference {
  double largest = 0, relative = 0;
  std::int64_t count = 0;
};

// Two NaNs are equal; a NaN is infinitely far from any number.
template <class Element>
Difference difference_of(std::span<const Element> a, std::span<const Element> b) {
  Difference result;
  double scale = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double x = number_of(a[k]), y = number_of(b[k]);
    if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ++result.count;
    const double distance = std::abs(x - y);
    result.largest = std::max(result.largest, std::isnan(distance) ? INFINITY : distance);
  }
  result.relative = result.largest / std::max(scale, 1e-300);
  return result;
}

// Requires tensors of the same shape and dtype.
Difference difference_of(const Tensor& a, const Tensor& b) {
  Difference result;
  visit_elements(a, [&]<class Element>(std::span<const Element> elements) {
    result = difference_of(elements, std::span(b.data<Element>(), elements.size()));
  });
  return result;
}

// Returns whether the files agree within the tolerance.
bool run(const std::string& first, const std::string& second, double tolerance) {
  const TensorFile a = load_tensors(first), b = load_tensors(second);
  std::map<std::string, Tensor> others;
  for (const auto& [name, tensor] : b.tensors) others[name] = tensor;
  std::vector<std::vector<std::string>> rows{
      {"name", "what", "elements that differ", "largest difference", "relative"}};
  std::int64_t same = 0, different = 0;
  for (const auto& [name, tensor] : a.tensors) {
    const auto found = others.find(name);
    if (found == others.end()) {
      rows.push_back({name, "only in the first"});
      ++different;
      continue;
    }
    const Tensor other = found->second;
    others.erase(found);
    if (tensor.shape() != other.shape() || tensor.dtype() != other.dtype()) {
      rows.push_back({name, std::string(extensor::name(tensor.dtype())) + " " +
                                to_string(tensor.shape()) + " and " +
                                extensor::name(other.dtype()) + " " + to_string(other.shape())});
      ++different;
      continue;
    }
    if (same_bits(tensor, other)) {
      ++same;
      continue;
    }
    const Difference by = difference_of(tensor, other);
    const bool close = by.relative <= tolerance;
    (close ? same : different) += 1;
    rows.push_back({name, close ? "close" : "differs",
                    std::to_string(by.count) + " of " + std::to_string(tensor.numel()),
                    short_number(by.largest), short_number(by.relative)});
  }
  for (const auto& [name, tensor] : others) {
    rows.push_back({name, "only in the second"});
    ++different;
  }
  if (rows.size() > 1) std::cout << table(rows);
  std::cout << counted(same, "tensor") << (same == 1 ? " agrees" : " agree")
            << (tolerance > 0 ? "" : " bit for bit") << ", " << different << " do not\n";
  return different == 0;
}

}  // namespace

void add_compare_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compare", "Show in what two files of tensors differ");
  static std::string first, second;
  static double tolerance = 0;
  command->add_option("first", first, "A .safetensors, .npy or .npz file, or a run's directory")
      ->required()
      ->check(not_empty());
  command->add_option("second", second, "Another")->required()->check(not_empty());
  command
      ->add_option("--tolerance", tolerance,
                   "Differences up to this part of a tensor's largest element do not count")
      ->check(number_between(0.0, 1e300, "a number, 0 or more"));
  command->footer(
      "Exit code 1 where they differ.\n\nExample:\n"
      "  extensor compare runs/a/model.safetensors runs/b/model.safetensors");
  command->callback([] {
    if (!run(first, second, tolerance)) throw CLI::RuntimeError(1);
  });
}

}  // namespace extensor::cli
