// The list of layers, and the Python class that holds one.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "extensor/onnx.h"
#include "layer.h"

namespace nb = nanobind;

namespace extensor::python {

namespace {

nb::object take(PyObject* object) { return nb::steal(checked(object)); }

}  // namespace

void add_layers(nb::module_& module) {
  nb::class_<Layer>(module, "_Layer")
      .def("__call__",
           [](Layer& self, const nb::args& inputs, const nb::kwargs& options) {
             Inputs list;
             for (const nb::handle input : inputs) {
               list.push_back(input.is_none() ? Tensor() : as_tensor(input.ptr(), "an input"));
             }
             nn::AttentionMasks masks;
             for (const auto& [key, value] : options) {
               const std::string name = nb::cast<std::string>(key);
               if (name == "mask") {
                 masks.mask = as_tensor(value.ptr(), "mask");
               } else if (name == "key_padding") {
                 masks.key_padding = as_tensor(value.ptr(), "key_padding");
               } else if (name == "causal" && PyBool_Check(value.ptr())) {
                 masks.causal = value.is(nb::bool_(true));
               } else {
                 throw ArgumentError("forward: argument '" + name +
                                     "' is not known (accepted: mask, key_padding and causal)");
               }
             }
             return take(self.call(list, options.size() > 0 ? &masks : nullptr));
           })
      .def("parameters",
           [](const Layer& self) { return take(python::to_python(self.parameters())); })
      .def("buffers", [](const Layer& self) { return take(python::to_python(self.buffers())); })
      .def("state", [](const Layer& self) { return take(python::to_python(self.state())); })
      .def("load",
           [](Layer& self, const nb::dict& saved) {
             NamedTensors state;
             for (const auto& [key, value] : saved) {
               state.emplace_back(nb::cast<std::string>(key), as_tensor(value.ptr(), "state"));
             }
             self.load(state);
           })
      .def("train", &Layer::train)
      .def("to_dtype", [](Layer& self, nb::handle dtype) { self.to(to_dtype(dtype.ptr())); })
      .def("to_device", [](Layer& self, nb::handle device) { self.to(to_device(device.ptr())); })
      .def("describe", &Layer::describe)
      .def("copy", &Layer::copy, nb::rv_policy::take_ownership);

  module.def(
      "_load_onnx",
      [](const nb::bytes& path) -> Layer* {
        return new LayerOf<OnnxModel>(load_onnx(std::string(path.c_str(), path.size())));
      },
      nb::rv_policy::take_ownership);

  nb::module_ layers = module.def_submodule("_layers");
  PyObject* m = layers.ptr();
  using I = std::int64_t;
  add_layer<nn::Linear, nn::LinearOptions, I, I>(m, "x · weightᵀ + bias over the last axis.",
                                                 {{"in_features"}, {"out_features"}});
  add_layer<nn::Conv1d, Conv1dOptions, I, I, I>(m, "A convolution along one axis, x [N, C, L].",
                                                {{"in_channels"}, {"out_channels"}, {"kernel"}});
  add_layer<nn::Conv2d, Conv2dOptions, I, I, Size2d>(
      m, "A convolution of images, x [N, C, H, W].",
      {{"in_channels"}, {"out_channels"}, {"kernel"}});
  add_layer<nn::Conv3d, Conv3dOptions, I, I, Size3d>(
      m, "A convolution of volumes, x [N, C, D, H, W].",
      {{"in_channels"}, {"out_channels"}, {"kernel"}});
  add_layer<nn::ConvTranspose1d, ConvTranspose1dOptions, I, I, I>(
      m, "The gradient of Conv1d with respect to x, as a layer.",
      {{"in_channels"}, {"out_channels"}, {"kernel"}});
  add_layer<nn::ConvTranspose2d, ConvTranspose2dOptions, I, I, Size2d>(
      m, "The gradient of Conv2d with respect to x, as a layer.",
      {{"in_channels"}, {"out_channels"}, {"kernel"}});
  add_layer<nn::ConvTranspose3d, ConvTranspose3dOptions, I, I, Size3d>(
      m, "The gradient of Conv3d with respect to x, as a layer.",
      {{"in_channels"}, {"out_channels"}, {"kernel"}});
  add_layer<nn::MaxPool1d, MaxPool1dOptions, StrictInt>(m, "The maximum of each window.",
                                                        {{"kernel"}});
  add_layer<nn::MaxPool2d, MaxPool2dOptions, Size2d>(m, "The maximum of each window.",
                                                     {{"kernel"}});
  add_layer<nn::MaxPool3d, MaxPool3dOptions, Size3d>(m, "The maximum of each window.",
                                                     {{"kernel"}});
  add_layer<nn::AvgPool1d, AvgPool1dOptions, StrictInt>(m, "The mean of each window.",
                                                        {{"kernel"}});
  add_layer<nn::AvgPool2d, AvgPool2dOptions, Size2d>(m, "The mean of each window.", {{"kernel"}});
  add_layer<nn::AvgPool3d, AvgPool3dOptions, Size3d>(m, "The mean of each window.", {{"kernel"}});
  add_layer<nn::AdaptiveAvgPool2d, NoOptions, Size2d>(
      m, "Means over windows that make the result as large as `output`.", {{"output"}});
  add_layer<nn::Flatten, NoOptions, StrictInt, StrictInt>(m, "Merges the axes first … last.",
                                                          {{"first", "1"}, {"last", "-1"}});
  add_layer<nn::BatchNorm1d, nn::BatchNormOptions, I>(
      m, "Batch normalization of x [N, C] or [N, C, L].", {{"features"}});
  add_layer<nn::BatchNorm2d, nn::BatchNormOptions, I>(m, "Batch normalization of x [N, C, H, W].",
                                                      {{"features"}});
  add_layer<nn::LayerNorm, nn::LayerNormOptions, Shape>(
      m, "Normalization over the last axes, which have the given shape.", {{"normalized_shape"}});
  add_layer<nn::RMSNorm, nn::RMSNormOptions, Shape>(
      m, "Division by the root mean square over the last axes.", {{"normalized_shape"}});
  add_layer<nn::GroupNorm, nn::GroupNormOptions, I, I>(m, "Normalization over groups of channels.",
                                                       {{"groups"}, {"channels"}});
  add_layer<nn::InstanceNorm, nn::InstanceNormOptions, I>(
      m, "Normalization of each channel of each example.", {{"features"}});
  add_layer<nn::Dropout, NoOptions, StrictDouble>(
      m, "Drops elements with probability p and scales the others, during training.",
      {{"p", "0.5"}});
  add_layer<nn::Dropout2d, NoOptions, StrictDouble>(
      m, "Drops whole channels with probability p, during training.", {{"p", "0.5"}});
  add_layer<nn::Embedding, nn::EmbeddingOptions, I, I>(m, "The rows of weight at integer ids.",
                                                       {{"rows"}, {"width"}});
  add_layer<nn::RNN, nn::RNNOptions, I, I>(m, "A recurrent network; returns (output, hidden).",
                                           {{"input_size"}, {"hidden_size"}});
  add_layer<nn::LSTM, nn::RecurrentOptions, I, I>(
      m, "Long short-term memory; returns (output, hidden, cell).",
      {{"input_size"}, {"hidden_size"}});
  add_layer<nn::GRU, nn::RecurrentOptions, I, I>(
      m, "Gated recurrent units; returns (output, hidden).", {{"input_size"}, {"hidden_size"}});
  add_layer<nn::MultiheadAttention, nn::AttentionOptions, I, I>(
      m, "Attention with several heads, on [batch, sequence, width].", {{"width"}, {"heads"}});
  add_layer<nn::PixelShuffle, NoOptions, StrictInt>(
      m, "Turns groups of factor² channels into pixels.", {{"factor"}});
  add_layer<nn::PixelUnshuffle, NoOptions, StrictInt>(
      m, "Turns pixels into groups of factor² channels.", {{"factor"}});
#define EXTENSOR_PLAIN(Type) add_layer<nn::Type, NoOptions>(m, "An activation.", {});
  EXTENSOR_PLAIN(ReLU)
  EXTENSOR_PLAIN(ReLU6)
  EXTENSOR_PLAIN(Sigmoid)
  EXTENSOR_PLAIN(LogSigmoid)
  EXTENSOR_PLAIN(Tanh)
  EXTENSOR_PLAIN(SELU)
  EXTENSOR_PLAIN(SiLU)
  EXTENSOR_PLAIN(Mish)
  EXTENSOR_PLAIN(Hardsigmoid)
  EXTENSOR_PLAIN(Hardswish)
#undef EXTENSOR_PLAIN
  add_layer<nn::GELU, NoOptions, StrictBool>(m, "An activation.", {{"approximate", "False"}});
  add_layer<nn::LeakyReLU, NoOptions, StrictDouble>(m, "An activation.", {{"slope", "0.01"}});
  add_layer<nn::ELU, NoOptions, StrictDouble>(m, "An activation.", {{"alpha", "1.0"}});
  add_layer<nn::Softplus, NoOptions, StrictDouble>(m, "An activation.", {{"beta", "1.0"}});
  add_layer<nn::Hardtanh, NoOptions, StrictDouble, StrictDouble>(m, "An activation.",
                                                                 {{"lo", "-1.0"}, {"hi", "1.0"}});
  add_layer<nn::PReLU, NoOptions, StrictInt, StrictDouble>(
      m, "An activation with a learned slope.", {{"parameters", "1"}, {"initial", "0.25"}});
  add_layer<nn::MSELoss, NoOptions, Reduction>(m, "The mean squared error.",
                                               {{"reduction", "'mean'"}});
  add_layer<nn::L1Loss, NoOptions, Reduction>(m, "The mean absolute error.",
                                              {{"reduction", "'mean'"}});
#define EXTENSOR_LOSS(Type, Options, text) add_layer<nn::Type, Options>(m, text, {});
  EXTENSOR_LOSS(BCELoss, BinaryCrossEntropyOptions, "Binary cross-entropy of probabilities.")
  EXTENSOR_LOSS(BCEWithLogitsLoss, BinaryCrossEntropyWithLogitsOptions,
                "Binary cross-entropy of logits.")
  EXTENSOR_LOSS(SmoothL1Loss, SmoothL1Options, "Quadratic below beta, linear above.")
  EXTENSOR_LOSS(HuberLoss, HuberOptions, "Quadratic below delta, linear above.")
  EXTENSOR_LOSS(HingeLoss, HingeOptions, "max(0, margin − y · x).")
  EXTENSOR_LOSS(KLDivLoss, KlDivergenceOptions, "The divergence of Kullback and Leibler.")
  EXTENSOR_LOSS(CrossEntropyLoss, CrossEntropyOptions, "Cross-entropy of logits and classes.")
  EXTENSOR_LOSS(NLLLoss, NllOptions, "Negative log-likelihood of log-probabilities and classes.")
  EXTENSOR_LOSS(FocalLoss, FocalOptions, "Cross-entropy that weighs easy examples down.")
  EXTENSOR_LOSS(TripletMarginLoss, TripletMarginOptions,
                "max(0, d(anchor, positive) − d(anchor, negative) + margin).")
  EXTENSOR_LOSS(CosineEmbeddingLoss, CosineEmbeddingOptions, "A loss of the cosine of two vectors.")
  EXTENSOR_LOSS(GaussianNLLLoss, GaussianNllOptions, "Negative log-likelihood of a normal.")
#undef EXTENSOR_LOSS
}

}  // namespace extensor::python
