// extensor compare: in what two files of tensors differ.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>

#include "cli/commands.h"
#include "cli/tensor_files.h"
#include "cli/terminal.h"

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

// Two NaNs are alike; one is as far as can be.
Difference difference_of(const Tensor& a, const Tensor& b) {
  const auto x = a.to(float64).to_vector<double>(), y = b.to(float64).to_vector<double>();
  Difference result;
  double scale = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (x[k] == y[k] || (std::isnan(x[k]) && std::isnan(y[k]))) continue;
    ++result.count;
    const double distance = std::abs(x[k] - y[k]);
    result.largest = std::max(result.largest, std::isnan(distance) ? INFINITY : distance);
  }
  for (const double value : x) scale = std::max(scale, std::isfinite(value) ? std::abs(value) : 0);
  result.relative = result.largest / std::max(scale, 1e-300);
  return result;
}

// Whether they are the same, as far as is asked.
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
      ->required();
  command->add_option("second", second, "Another")->required();
  command
      ->add_option("--tolerance", tolerance,
                   "Differences up to this part of a tensor's largest element do not count")
      ->check([](const std::string& text) {
        return text.starts_with('-') ? "--tolerance is " + text + " (allowed: 0 or more)" : "";
      });
  command->footer(
      "Exit code 1 where they differ.\n\nExample:\n"
      "  extensor compare runs/a/model.safetensors runs/b/model.safetensors");
  command->callback([] {
    if (!run(first, second, tolerance)) throw CLI::RuntimeError(1);
  });
}

}  // namespace extensor::cli
