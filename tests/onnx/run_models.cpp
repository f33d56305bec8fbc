// Runs the ONNX models in folders with ExTensor and compares the results with those of onnxruntime,
// which runtime.py has written beside them: model.onnx, input_0.npy …, output_0.npy ….
#include <cmath>
#include <filesystem>
#include <iostream>

#include "extensor/extensor.h"

namespace {

using namespace extensor;

std::vector<Tensor> arrays(const std::filesystem::path& folder, const std::string& prefix) {
  std::vector<Tensor> list;
  for (;;) {
    const std::filesystem::path path = folder / (prefix + std::to_string(list.size()) + ".npy");
    if (!std::filesystem::exists(path)) return list;
    list.push_back(load_npy(path));
  }
}

// Empty if the results agree.
std::string difference(const std::filesystem::path& folder) {
  const OnnxModel model = load_onnx(folder / "model.onnx");
  const std::vector<Tensor> found = model.run(arrays(folder, "input_")),
                            expected = arrays(folder, "output_");
  if (found.size() != expected.size()) return "another number of outputs";
  for (std::size_t k = 0; k < found.size(); ++k) {
    const Tensor &x = found[k], &y = expected[k];
    const std::string output = "output " + std::to_string(k);
    if (!(x.shape() == y.shape())) {
      return output + " is " + to_string(x.shape()) + ", must be " + to_string(y.shape());
    }
    if (x.dtype() != y.dtype()) {
      return output + " is " + name(x.dtype()) + ", must be " + name(y.dtype());
    }
    if (!allclose(x.to(float64), y.to(float64), 2e-5, 2e-6, true)) return output + " differs";
  }
  return "";
}

}  // namespace

int main(int count, char** words) {
  int failures = 0;
  for (int k = 1; k < count; ++k) {
    const std::filesystem::path folder = words[k];
    std::string text;
    try {
      text = difference(folder);
    } catch (const std::exception& error) {
      text = error.what();
    }
    if (text.empty()) continue;
    ++failures;
    std::cout << folder.filename().string() << ": " << text << '\n';
  }
  return failures == 0 ? 0 : 1;
}
