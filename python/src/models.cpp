// The models of extensor::models, as layers.
#include "extensor/models.h"

#include "layer.h"

namespace nb = nanobind;

namespace extensor::python {

namespace {

bool is_gpt(PyObject* value, const ArgumentType&, bool) {
  const Owned layer(PyObject_GetAttrString(value, "_layer"));
  if (!layer) {
    PyErr_Clear();
    return false;
  }
  Layer* held = nullptr;
  return nb::try_cast<Layer*>(nb::handle(layer.get()), held) && held != nullptr &&
         held->as<models::Gpt>() != nullptr;
}

}  // namespace

const ArgumentType types::gpt{"Any", "a Gpt of extensor.models", is_gpt};

const models::Gpt& Call::gpt(int i) {
  set_large();
  const Owned layer(checked(PyObject_GetAttrString(values[i], "_layer")));
  return *nb::cast<Layer*>(nb::handle(layer.get()))->as<models::Gpt>();
}

void add_models(nb::module_& module) {
  nb::module_ models = module.def_submodule("_model_layers");
  PyObject* m = models.ptr();
  add_layer<models::Mlp, NoOptions, std::vector<std::int64_t>>(
      m, "Linear layers with ReLU between them: widths [784, 512, 256, 10].", {{"widths"}});
  add_layer<models::LeNet, models::LeNetOptions>(
      m, "LeNet-5 with ReLU and max pooling; x [n, channels, height, width] → [n, classes].", {});
  add_layer<models::ResNet18, models::ResNetOptions>(
      m, "ResNet-18 with torchvision's parameter names; small_images is for 32 × 32.", {});
  add_layer<models::ResNet50, models::ResNet50Options>(
      m, "ResNet-50 with torchvision's parameter names, order and initialization.", {});
  add_layer<models::Vgg16, models::VggOptions>(m, "VGG-16 with batch norm.", {});
  add_layer<models::Gpt, models::GptOptions>(
      m,
      "A GPT with learned positions, initialized as GPT-2; tokens int64 [n, length] → logits\n"
      "[n, length, vocabulary]. models.generate continues a prompt.",
      {});
}

}  // namespace extensor::python
