// extensor inspect: shows the contents of a file of tensors.
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <set>

#include "cli/commands.h"
#include "cli/run_parts.h"
#include "cli/tensor_files.h"
#include "cli/tensor_values.h"
#include "cli/terminal.h"
#include "cli/validators.h"
#include "io/text.h"

namespace extensor::cli {

TensorFile load_tensors(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw IoError("there is no file " + io::in_quotes(path.native()));
  }
  if (std::filesystem::is_directory(path)) {
    const RunDirectory run{path};
    check_run(run);
    return load_tensors(trained_weights(run));
  }
  const std::string ending = path.extension().string();
  if (ending == ".npy") return {{{path.stem().string(), load_npy(path)}}, {}};
  if (ending == ".npz") return {load_npz(path), {}};
  if (ending == ".safetensors") {
    Safetensors file = load_safetensors(path, {.mmap = true});
    return {std::move(file.tensors), std::move(file.metadata)};
  }
  throw ValueError(io::in_quotes(path.native()) + " ends with " + io::in_quotes(ending) +
                   " (allowed: .safetensors, .npy, .npz, or a run's directory)");
}

namespace {

constexpr std::size_t bins = 16;

// Statistics of the finite numbers; NaN and infinities are counted separately.
struct Statistics {
  double least = NAN, most = NAN, mean = NAN, deviation = NAN;
  std::int64_t finite = 0, not_finite = 0;
  std::array<std::size_t, bins> counts{};  // in bins of equal width from least to most
};

// Reads the elements twice in place: a copy may not fit into memory.
template <class Element>
Statistics statistics_of(std::span<const Element> elements) {
  Statistics result;
  double least = INFINITY, most = -INFINITY, sum = 0;
  for (const Element element : elements) {
    const double value = number_of(element);
    if (!std::isfinite(value)) continue;
    ++result.finite;
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  result.not_finite = std::ssize(elements) - result.finite;
  if (result.finite == 0) return result;
  result.least = least;
  result.most = most;
  result.mean = sum / static_cast<double>(result.finite);
  // Halved, because the full range may overflow float64.
  const double half_range = most / 2 - least / 2;
  const double scale = half_range > 0 ? static_cast<double>(bins) / 2 / half_range : 0;
  double squares = 0;
  for (const Element element : elements) {
    const double value = number_of(element);
    if (!std::isfinite(value)) continue;
    const double from_mean = value - result.mean;
    squares += from_mean * from_mean;
    const double at = half_range > 0 ? (value / 2 - least / 2) * scale * 2 : bins / 2.0;
    ++result.counts[std::min(bins - 1, static_cast<std::size_t>(at))];
  }
  result.deviation = std::sqrt(squares / static_cast<double>(result.finite));
  return result;
}

Statistics statistics_of(const Tensor& tensor) {
  Statistics result;
  visit_elements(tensor, [&](auto elements) { result = statistics_of(elements); });
  return result;
}

constexpr const char* heights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// A histogram in one line of block characters.
std::string small_histogram(const Statistics& of) {
  if (of.finite == 0) return "";
  const std::size_t highest = *std::ranges::max_element(of.counts);
  std::string text;
  for (const std::size_t count : of.counts) {
    // Every bin that is not empty is visible.
    text += heights[count == 0 ? 0 : std::max<std::size_t>(1, count * 8 / highest)];
  }
  return text;
}

void print_histogram(const Statistics& of) {
  constexpr std::size_t width = 50;
  if (of.finite == 0) return;
  const std::size_t highest = *std::ranges::max_element(of.counts);
  for (std::size_t k = 0; k < bins; ++k) {
    std::string bar;
    for (std::size_t i = 0; i < of.counts[k] * width / highest; ++i) bar += "█";
    char line[64];
    std::snprintf(line, sizeof line, "%12.4g  ",
                  of.least + (of.most - of.least) * static_cast<double>(k) / bins);
    std::cout << line << bar << (bar.empty() ? "" : " ") << of.counts[k] << '\n';
  }
}

std::string shape_text(const Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.shape())
    text += (text.empty() ? "" : " × ") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

// The tensors named by `words`, in the order of the file; all if there are no words.
NamedTensors wanted_tensors(NamedTensors tensors, const std::vector<std::string>& words) {
  if (words.empty()) return tensors;
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  const std::vector<std::string> list = chosen(words, names, "tensor");
  const std::set<std::string> wanted(list.begin(), list.end());
  NamedTensors found;
  for (const auto& [name, tensor] : tensors) {
    if (wanted.contains(name)) found.emplace_back(name, tensor);
  }
  return found;
}

void run(const std::string& path, const std::vector<std::string>& words) {
  TensorFile file = load_tensors(path);
  const NamedTensors tensors = wanted_tensors(std::move(file.tensors), words);
  for (const auto& [key, value] : file.metadata) {
    if (key.starts_with("checksum")) continue;  // of a checkpoint
    std::cout << io::printable(key) << ": " << io::printable(value.substr(0, 100))
              << (value.size() > 100 ? " …" : "") << '\n';
  }
  std::vector<std::vector<std::string>> rows{
      {"name", "dtype", "shape", "least", "most", "mean", "deviation", "histogram"}};
  rows.reserve(tensors.size() + 1);
  std::int64_t elements = 0;
  std::size_t bytes = 0;
  Statistics of;
  for (const auto& [name, tensor] : tensors) {
    elements += tensor.numel();
    bytes += tensor.nbytes();
    of = statistics_of(tensor);
    std::vector<std::string>& row = rows.emplace_back();
    row.reserve(9);
    row.push_back(name);
    row.emplace_back(extensor::name(tensor.dtype()));
    row.push_back(shape_text(tensor));
    for (const double value : {of.least, of.most, of.mean, of.deviation}) {
      row.push_back(of.finite == 0 ? "" : short_number(value));
    }
    row.push_back(small_histogram(of));
    if (of.not_finite != 0) row.push_back(std::to_string(of.not_finite) + " not finite");
  }
  std::cout << table(std::move(rows)) << counted(std::ssize(tensors), "tensor") << ", "
            << counted(elements, "element") << ", "
            << counted(static_cast<std::int64_t>(bytes), "byte") << '\n';
  if (words.size() == 1) {
    std::cout << '\n';
    print_histogram(of);
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show the tensors of a file: shapes, dtypes, numbers");
  static std::string path;
  static std::vector<std::string> words;
  command->add_option("file", path, "A .safetensors, .npy or .npz file, or a run's directory")
      ->required()
      ->check(not_empty());
  command->add_option("tensor", words, "Only these; of a single one, a histogram too");
  command->footer("Example:\n  extensor inspect runs/digits-lenet conv1.weight");
  command->callback([] { run(path, words); });
}

}  // namespace extensor::cli
