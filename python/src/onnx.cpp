// Export to ONNX of Python modules and functions; extensor/onnx.py calls it. Loaded models are
// layers.
#include "extensor/onnx.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;

namespace extensor::python {

namespace {

std::vector<Tensor> tensors_of(nb::handle list, const char* what) {
  std::vector<Tensor> tensors;
  for (const nb::handle item : list) tensors.push_back(as_tensor(item.ptr(), what));
  return tensors;
}

}  // namespace

void add_onnx(nb::module_& module) {
  // `function` takes and returns a list of tensors; `path` is in the encoding of the file system.
  module.def(
      "_export_onnx",
      [](const nb::bytes& path, const nb::callable& function, const nb::dict& state,
         const nb::list& inputs, const std::vector<std::string>& input_names,
         const std::vector<std::string>& output_names, bool dynamic_batch, std::int64_t opset) {
        const OnnxExportOptions options{input_names, output_names, dynamic_batch, opset};
        NamedTensors named;
        for (const auto& [name, tensor] : state) {
          named.emplace_back(nb::cast<std::string>(name), as_tensor(tensor.ptr(), "state"));
        }
        const OnnxFunction called = [&](std::span<const Tensor> given) {
          const WithGil gil;
          const Owned list(checked(to_python(std::vector<Tensor>(given.begin(), given.end()))));
          const Owned result(checked(PyObject_CallOneArg(function.ptr(), list.get())));
          return tensors_of(result.get(), "a result of the model");
        };
        detail::export_onnx(std::string(path.c_str(), path.size()), called, nullptr, {}, named,
                            tensors_of(inputs, "an input"), options);
      });
}

}  // namespace extensor::python
