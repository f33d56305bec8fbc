// extensor inspect: what is in a file of tensors.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "cli/commands.h"
#include "cli/ingredients.h"
#include "cli/tensor_files.h"
#include "cli/terminal.h"

namespace extensor::cli {

TensorFile load_tensors(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) throw IoError("there is no file '" + path.string() + "'");
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
  throw ValueError("'" + path.string() + "' ends with '" + ending +
                   "' (allowed: .safetensors, .npy, .npz, or a run's directory)");
}

namespace {

// What numbers are like: NaN and infinities are counted apart.
struct Statistics {
  double least = NAN, most = NAN, mean = NAN, deviation = NAN;
  std::int64_t not_finite = 0;
  std::vector<double> finite;
};

Statistics statistics_of(const Tensor& tensor) {
  Statistics result;
  const auto values = tensor.to(float64).to_vector<double>();
  result.finite.reserve(values.size());
  double sum = 0;
  for (const double value : values) {
    if (std::isfinite(value)) {
      result.finite.push_back(value);
      sum += value;
    }
  }
  result.not_finite = std::ssize(values) - std::ssize(result.finite);
  if (result.finite.empty()) return result;
  const auto count = static_cast<double>(result.finite.size());
  result.mean = sum / count;
  double squares = 0;
  for (const double value : result.finite) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / count);
  const auto [least, most] = std::ranges::minmax(result.finite);
  result.least = least;
  result.most = most;
  return result;
}

constexpr const char* heights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// How many numbers are in each of equal ranges from the least to the most.
std::vector<std::size_t> histogram(const Statistics& of, std::size_t bins) {
  std::vector<std::size_t> counts(bins);
  const double range = of.most - of.least;
  for (const double value : of.finite) {
    const double at = range > 0 ? (value - of.least) / range : 0.5;
    ++counts[std::min(bins - 1, static_cast<std::size_t>(at * static_cast<double>(bins)))];
  }
  return counts;
}

constexpr std::size_t bins = 16;

// One line of blocks.
std::string small_histogram(const Statistics& of) {
  if (of.finite.empty()) return "";
  const std::vector<std::size_t> counts = histogram(of, bins);
  const std::size_t highest = *std::ranges::max_element(counts);
  std::string text;
  for (const std::size_t count : counts) {
    // What is there at all is seen.
    text += heights[count == 0 ? 0 : std::max<std::size_t>(1, count * 8 / highest)];
  }
  return text;
}

void print_histogram(const Statistics& of) {
  constexpr std::size_t width = 50;
  if (of.finite.empty()) return;
  const std::vector<std::size_t> counts = histogram(of, bins);
  const std::size_t highest = *std::ranges::max_element(counts);
  for (std::size_t k = 0; k < bins; ++k) {
    std::string bar;
    for (std::size_t i = 0; i < counts[k] * width / highest; ++i) bar += "█";
    char line[64];
    std::snprintf(line, sizeof line, "%12.4g  ",
                  of.least + (of.most - of.least) * static_cast<double>(k) / bins);
    std::cout << line << bar << (bar.empty() ? "" : " ") << counts[k] << '\n';
  }
}

std::string shape_text(const Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.shape())
    text += (text.empty() ? "" : " × ") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

void run(const std::string& path, const std::vector<std::string>& words) {
  const TensorFile file = load_tensors(path);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);
  const std::vector<std::string> wanted = chosen(words, names, "tensor");
  for (const auto& [key, value] : file.metadata) {
    if (key.starts_with("checksum")) continue;
    std::cout << key << ": " << value.substr(0, 100) << (value.size() > 100 ? " …" : "") << '\n';
  }
  std::vector<std::vector<std::string>> rows{
      {"name", "dtype", "shape", "least", "most", "mean", "deviation", "histogram"}};
  std::int64_t elements = 0;
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : file.tensors) {
    if (std::ranges::find(wanted, name) == wanted.end()) continue;
    elements += tensor.numel();
    bytes += tensor.nbytes();
    const Statistics of = statistics_of(tensor);
    const auto text = [&](double value) { return of.finite.empty() ? "" : short_number(value); };
    rows.push_back({name, extensor::name(tensor.dtype()), shape_text(tensor), text(of.least),
                    text(of.most), text(of.mean), text(of.deviation), small_histogram(of)});
    if (of.not_finite != 0) rows.back().push_back(std::to_string(of.not_finite) + " not finite");
  }
  std::cout << table(rows) << counted(std::ssize(wanted), "tensor") << ", "
            << counted(elements, "element") << ", "
            << counted(static_cast<std::int64_t>(bytes), "byte") << '\n';
  if (words.size() == 1) {
    for (const auto& [name, tensor] : file.tensors) {
      if (name == wanted.front()) {
        std::cout << '\n';
        print_histogram(statistics_of(tensor));
      }
    }
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show the tensors of a file: shapes, dtypes, numbers");
  static std::string path;
  static std::vector<std::string> words;
  command->add_option("file", path, "A .safetensors, .npy or .npz file, or a run's directory")
      ->required();
  command->add_option("tensor", words, "Only these; of a single one, a histogram too");
  command->footer("Example:\n  extensor inspect runs/digits-lenet conv1.weight");
  command->callback([] { run(path, words); });
}

}  // namespace extensor::cli
