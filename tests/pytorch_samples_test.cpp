// Compares ops with PyTorch's over the sample inputs of its own tests: values, first and second
// derivatives; what PyTorch refuses is refused here, too. tests/pytorch/sample_inputs.py writes the
// calls and PyTorch's results to the directory that EXTENSOR_PYTORCH_REFERENCE names; without it
// the tests are skipped (`./ex check pytorch` does all of it).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "extensor/extensor.h"
#include "support/call_expression.h"

namespace extensor {
namespace {

using nlohmann::json;
using test::evaluate;
using test::flatten;
using Tensors = std::map<std::string, Tensor>;

std::filesystem::path samples_directory() {
  const char* directory = std::getenv("EXTENSOR_PYTORCH_REFERENCE");
  return directory == nullptr ? "" : std::filesystem::path(directory) / "samples";
}

std::vector<std::string> sampled_ops() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(samples_directory(), error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

// To 1e-10 of the number itself, or of the largest number in its tensor if that is a thousand times
// larger; float32 to 1e-5 of the larger of the number and a tenth of the largest. Numbers that
// differ by less than 1e-13 (1e-7) are equal. A number has one or two parts.
std::string difference(const Tensor& got, const Tensor& expected, std::size_t parts = 1) {
  if (!got.defined()) return "there is none";
  if (got.dtype() != expected.dtype()) {
    return std::string("dtype ") + name(got.dtype()) + ", PyTorch's " + name(expected.dtype());
  }
  if (got.shape() != expected.shape()) {
    return "shape " + to_string(got.shape()) + ", PyTorch's " + to_string(expected.shape());
  }
  if (!is_floating_point(got.dtype()) && !is_complex(got.dtype())) {
    const auto ours = got.to(int64).to_vector<std::int64_t>();
    const auto theirs = expected.to(int64).to_vector<std::int64_t>();
    const auto [mine, other] = std::ranges::mismatch(ours, theirs);
    if (mine == ours.end()) return "";
    return "element " + std::to_string(mine - ours.begin()) + " is " + std::to_string(*mine) +
           ", PyTorch's " + std::to_string(*other);
  }
  if (is_complex(got.dtype())) {
    return difference(view_as_real(got.contiguous()), view_as_real(expected), 2);
  }
  const bool single = got.dtype() != DType::float64;
  const double relative = single ? 1e-5 : 1e-10, share = single ? 0.1 : 1e-3;
  const std::vector<double> ours = got.to(float64).to_vector<double>();
  const std::vector<double> theirs = expected.to(float64).to_vector<double>();
  double largest = single ? 0.1 : 1;
  for (double value : theirs) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i] == theirs[i] || (std::isnan(ours[i]) && std::isnan(theirs[i]))) continue;
    const std::size_t number = i - i % parts;
    const double size =
        parts == 1 ? std::fabs(theirs[i]) : std::hypot(theirs[number], theirs[number + 1]);
    const double scale = std::max(size, share * largest);
    if (std::fabs(ours[i] - theirs[i]) <= relative * scale) continue;
    std::ostringstream text;
    text.precision(17);
    text << "element " << i << " is " << ours[i] << ", PyTorch's " << theirs[i];
    return text.str();
  }
  return "";
}

class PyTorchSamples : public ::testing::TestWithParam<std::string> {
 protected:
  void check(const json& sample) {
    std::vector<Tensor> outputs;
    try {
      if (sample.contains("refused")) {
        flatten(evaluate(sample["call"], tensors_), outputs);
        fail(sample, "accepts what PyTorch refuses: " + sample["refused"].get<std::string>());
      } else {
        compare(sample);
      }
    } catch (const Error& error) {
      if (sample.contains("of_integers") && dynamic_cast<const DTypeError*>(&error) != nullptr) {
        ++left_out_["takes floats only"];
      } else if (sample.contains("of_complex") &&
                 dynamic_cast<const DTypeError*>(&error) != nullptr) {
        ++left_out_["takes real numbers only"];
      } else if (sample.contains("of_number") &&
                 dynamic_cast<const IndexError*>(&error) != nullptr) {
        ++left_out_["an axis of a tensor without axes"];
      } else if (!sample.contains("refused")) {
        fail(sample, std::string("throws ") + error.what());
      } else {
        ++comparisons_;
      }
    } catch (const std::invalid_argument& error) {
      if (sample.contains("refused")) {
        ++comparisons_;  // does not compile
        return;
      }
      fail(sample, std::string("cannot be called: ") + error.what());
    }
  }

  void fail(const json& sample, const std::string& text) {
    if (++failures_ <= 20) ADD_FAILURE() << sample["what"].get<std::string>() << ": " << text;
  }

  Tensors tensors_;
  std::int64_t failures_ = 0, comparisons_ = 0;
  std::map<std::string, std::int64_t> left_out_;

 private:
  void expect_equal(const json& sample, const std::string& what, const std::vector<Tensor>& got,
                    const json& names) {
    if (got.size() != names.size()) {
      fail(sample, what + ": " + std::to_string(got.size()) + ", PyTorch's " +
                       std::to_string(names.size()));
      return;
    }
    for (std::size_t k = 0; k < got.size(); ++k) {
      if (names[k].is_null()) continue;
      const Tensor& expected = tensors_.at(names[k]);
      // PyTorch returns zeros where a gradient of ours is undefined, or none.
      const Tensor ours = got[k].defined() ? got[k].detach() : zeros_like(expected);
      ++comparisons_;
      if (const std::string text = difference(ours, expected); !text.empty()) {
        fail(sample, what + " " + std::to_string(k) + ": " + text);
        return;
      }
    }
  }

  std::vector<Tensor> named(const json& names) {
    std::vector<Tensor> all;
    for (const json& name : names) {
      all.push_back(name.is_null() ? Tensor() : tensors_.at(name));
    }
    return all;
  }

  void compare(const json& sample) {
    const GradientEps exact(0);  // singular derivatives are infinite, as in PyTorch
    std::vector<Tensor> inputs = named(sample["inputs"]);
    for (Tensor& input : inputs) input.requires_grad_();
    std::vector<Tensor> outputs;
    flatten(evaluate(sample["call"], tensors_), outputs);
    expect_equal(sample, "value", outputs, sample["outputs"]);
    if (!sample.contains("gradients") || outputs.size() != sample["outputs"].size()) return;

    const auto used = [](const std::vector<Tensor>& all, const std::vector<Tensor>& factors) {
      std::pair<std::vector<Tensor>, std::vector<Tensor>> kept;
      for (std::size_t k = 0; k < all.size(); ++k) {
        if (!factors[k].defined() || !all[k].defined() || !all[k].requires_grad()) continue;
        kept.first.push_back(all[k]);
        kept.second.push_back(factors[k]);
      }
      return kept;
    };
    const bool second = sample.contains("second");
    const auto [results, weights] = used(outputs, named(sample["weights"]));
    if (results.empty()) {
      fail(sample, "gradient: no result requires one");
      return;
    }
    const std::vector<Tensor> gradients = grad(
        results, inputs, {.create_graph = second, .allow_unused = true, .grad_outputs = weights});
    expect_equal(sample, "gradient", gradients, sample["gradients"]);
    if (!second) return;
    const auto [firsts, directions] = used(gradients, named(sample["directions"]));
    std::vector<Tensor> seconds(inputs.size());
    if (!firsts.empty()) {
      seconds = grad(firsts, inputs, {.allow_unused = true, .grad_outputs = directions});
    }
    expect_equal(sample, "second derivative", seconds, sample["second"]);
  }
};

TEST_P(PyTorchSamples, Agree) {
  std::ifstream file(samples_directory() / (GetParam() + ".json"));
  const json op = json::parse(file);
  for (auto& [name, tensor] :
       load_safetensors(samples_directory() / (GetParam() + ".safetensors")).tensors) {
    tensors_[name] = tensor;
  }
  for (const json& name : op["complex"]) tensors_[name] = view_as_complex(tensors_.at(name));
  for (const json& sample : op["samples"]) check(sample);
  std::cout << op["op"].get<std::string>() << ": " << op["samples"].size() << " samples, "
            << comparisons_ << " comparisons, " << failures_ << " disagreements\n";
  for (const auto& [reason, count] : op["left_out"].items()) {
    std::cout << "  " << count << " left out: " << reason << "\n";
  }
  for (const auto& [reason, count] : left_out_) {
    std::cout << "  " << count << " left out: " << reason << "\n";
  }
  EXPECT_TRUE(comparisons_ > 0 || left_out_.contains("takes real numbers only"));
}

INSTANTIATE_TEST_SUITE_P(Op, PyTorchSamples, ::testing::ValuesIn(sampled_ops()),
                         [](const auto& op) { return op.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PyTorchSamples);

TEST(PyTorchSampleInputs, AreThere) {
  if (samples_directory().empty() || sampled_ops().empty()) {
    GTEST_SKIP() << "no sample inputs of PyTorch; ./ex check pytorch writes them";
  }
}

}  // namespace
}  // namespace extensor
