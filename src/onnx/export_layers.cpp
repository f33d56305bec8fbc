// Rules for products, convolutions, pooling, normalization, attention and resampling.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/convolution.h"
#include "extensor/creation.h"
#include "onnx/graph_builder.h"

namespace extensor::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

// ---- products

void write_matmul(CallWriter& call) {
  const DType dtype = call.result_dtype();
  call.result(call.node("MatMul", {call.input(0, dtype), call.input(1, dtype)}));
}

void write_linear(CallWriter& call) {
  const DType dtype = call.result_dtype();
  const std::string x = call.input(0, dtype), weight = call.input(1, dtype),
                    bias = call.input(2, dtype);
  std::string y;
  if (call.rank(0) == 2 && call.rank(1) == 2) {
    y = call.node("Gemm", {x, weight, bias}, {attribute("transB", 1)});
  } else {
    y = call.node("MatMul", {x, call.transpose(weight, {1, 0})});
    if (!bias.empty()) y = call.node("Add", {y, bias});
  }
  constexpr const char* activations[] = {"none", "relu", "sigmoid",  "tanh",
                                         "gelu", "silu", "gelu_tanh"};
  const auto activation = static_cast<std::size_t>(call.integer("activation"));
  if (activation >= std::size(activations)) call.refuse("its activation is unknown");
  call.result(write_activation(call, activations[activation], y, dtype));
}

void write_glu(CallWriter& call) {
  const std::int64_t axis = call.axis(call.integer("axis"), call.rank(0));
  const Size& half = call.result_shape()[static_cast<std::size_t>(axis)];
  const Names parts = call.graph.nodes(
      "Split", {call.input(0, call.result_dtype()), call.graph.sizes({half, half})}, 2,
      {attribute("axis", axis)});
  call.result(call.node("Mul", {parts[0], call.node("Sigmoid", {parts[1]})}));
}

// ---- windows

// The numbers of an attribute for each axis: 3, (3, 3), (1, 3, 3).
Integers per_axis(const CallWriter& call, const AttributeTree& item) {
  return item.is_list ? call.integers(item) : Integers{call.integer(item)};
}

// Calls `write` with x as a batch: a single sample becomes a batch of one.
template <class Write>
void with_batch(CallWriter& call, std::size_t axes, DType dtype, const Write& write) {
  const bool batched = call.shape(0).size() == axes + 2;
  const std::string x = call.input(0, dtype);
  const std::string y = write(batched ? x : call.unsqueeze(x, {0}));
  call.result(batched ? y : call.squeeze(y, {0}));
}

template <bool transposed>
void write_convolution(CallWriter& call) {
  const Integers stride = per_axis(call, call.item("stride")),
                 padding = per_axis(call, call.item("padding"));
  const Integers dilation = per_axis(call, call.item("dilation"));
  Integers pads, behind;
  for (std::size_t k = 0; k < padding.size(); ++k) {
    const auto axes = static_cast<std::int64_t>(padding.size());
    const bool same = padding[k] == same_padding;
    const std::int64_t all =
        same ? dilation[k] * (call.fixed(1, static_cast<std::int64_t>(k) - axes) - 1) : 0;
    pads.push_back(same ? all / 2 : padding[k]);
    behind.push_back(same ? all - all / 2 : padding[k]);
  }
  pads.insert(pads.end(), behind.begin(), behind.end());
  Attributes attributes{attribute("strides", stride), attribute("pads", pads),
                        attribute("dilations", dilation),
                        attribute("group", call.integer("groups"))};
  if (transposed) {
    attributes.push_back(attribute("output_padding", per_axis(call, call.item("output_padding"))));
  }
  const DType dtype = call.result_dtype();
  with_batch(call, stride.size(), dtype, [&](const std::string& x) {
    return call.node(transposed ? "ConvTranspose" : "Conv",
                     {x, call.input(1, dtype), call.input(2, dtype)}, attributes);
  });
}

// The padding of windows. With ceil_mode the last one extends past the end, which more padding
// behind expresses.
Integers window_pads(const CallWriter& call, const Integers& kernel, const Integers& stride,
                     const Integers& padding, const Integers& dilation, bool& extends) {
  Integers before = padding, behind = padding;
  const auto axes = static_cast<std::int64_t>(kernel.size());
  extends = false;
  for (std::int64_t d = 0; d < axes; ++d) {
    const auto k = static_cast<std::size_t>(d);
    const std::int64_t in = call.fixed(0, d - axes);
    const Size& out = call.result_shape()[call.result_shape().size() - kernel.size() + k];
    if (!out.is_fixed()) call.refuse("the size of the image depends on the batch");
    const std::int64_t reach = (out.value - 1) * stride[k] + dilation[k] * (kernel[k] - 1) + 1;
    const std::int64_t more = reach - in - 2 * padding[k];
    if (more > 0) {
      behind[k] += more;
      extends = true;
    }
  }
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

struct Windows {
  Integers kernel, stride, padding, dilation, pads;
  bool extends = false;

  explicit Windows(const CallWriter& call) {
    const AttributeTree& options = call.item("options");
    kernel = per_axis(call, call.item("kernel"));
    const AttributeTree& given = call.item(options, "stride");
    stride = given.is_none() ? kernel : per_axis(call, given);
    padding = per_axis(call, call.item(options, "padding"));
    const AttributeTree* spread = options.find("dilation");
    dilation = spread == nullptr ? Integers(kernel.size(), 1) : per_axis(call, *spread);
    pads = window_pads(call, kernel, stride, padding, dilation, extends);
  }
};

void write_max_pool(CallWriter& call) {
  const Windows windows(call);
  const DType dtype = call.result_dtype();
  const std::size_t axes = windows.kernel.size();
  // Runtimes refuse pads that are not below the kernel, which windows with gaps may need.
  bool is_wide = false;
  for (std::size_t k = 0; k < 2 * axes; ++k) {
    is_wide = is_wide || windows.pads[k] >= windows.kernel[k % axes];
  }
  if (is_wide && !is_floating_point(dtype)) {
    call.refuse("padding of integers beyond the kernel has no form in ONNX");
  }
  with_batch(call, axes, dtype, [&](std::string x) {
    Integers pads = windows.pads;
    if (is_wide) {
      Integers all = pads;
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(axes), 2, 0);
      all.insert(all.begin(), 2, 0);
      constexpr double infinity = std::numeric_limits<double>::infinity();
      x = call.node("Pad", {x, call.graph.integers(all), call.graph.number(-infinity, dtype)});
      std::ranges::fill(pads, 0);
    }
    return call.node(
        "MaxPool", {x},
        {attribute("kernel_shape", windows.kernel), attribute("strides", windows.stride),
         attribute("pads", pads), attribute("dilations", windows.dilation)});
  });
}

void write_avg_pool(CallWriter& call) {
  const Windows windows(call);
  const AttributeTree& options = call.item("options");
  const bool pads = std::ranges::any_of(windows.padding, [](std::int64_t p) { return p != 0; });
  const bool counts = pads && call.item(options, "count_include_pad").text == "true";
  if (counts && windows.extends) {
    call.refuse(
        "ceil_mode with padding that counts has no form in ONNX (allowed: "
        "count_include_pad = false)");
  }
  with_batch(call, windows.kernel.size(), call.result_dtype(), [&](const std::string& x) {
    return call.node(
        "AveragePool", {x},
        {attribute("kernel_shape", windows.kernel), attribute("strides", windows.stride),
         attribute("pads", windows.pads), attribute("count_include_pad", counts)});
  });
}

// Row i has the weights of the mean over window i.
Tensor averaging_matrix(std::int64_t in, std::int64_t out, DType dtype) {
  std::vector<double> weights(static_cast<std::size_t>(in * out), 0);
  for (std::int64_t i = 0; i < out; ++i) {
    const std::int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
    for (std::int64_t k = begin; k < end; ++k) {
      weights[static_cast<std::size_t>(i * in + k)] = 1 / static_cast<double>(end - begin);
    }
  }
  return from_data(weights).reshape({out, in}).to(dtype);
}

void write_adaptive_pool(CallWriter& call) {
  const Integers output = call.integers("output");
  const std::int64_t height = call.fixed(0, -2), width = call.fixed(0, -1);
  const DType dtype = call.result_dtype();
  if (output[0] == 0 || output[1] == 0) call.refuse("an image without pixels has no form in ONNX");
  with_batch(call, 2, dtype, [&](const std::string& x) {
    if (output[0] == 1 && output[1] == 1) return call.node("GlobalAveragePool", {x});
    if (height % output[0] == 0 && width % output[1] == 0 && height > 0 && width > 0) {
      const Integers windows{height / output[0], width / output[1]};
      return call.node("AveragePool", {x},
                       {attribute("kernel_shape", windows), attribute("strides", windows)});
    }
    // Windows of different lengths: products with matrices of means.
    const std::string rows = call.graph.constant(averaging_matrix(height, output[0], dtype)),
                      columns = call.graph.constant(
                          averaging_matrix(width, output[1], dtype).transpose());
    return call.node("MatMul", {call.node("MatMul", {rows, x}), columns});
  });
}

// ---- normalization

std::string filled(CallWriter& call, std::int64_t count, double value, DType dtype) {
  return call.graph.constant(full({count}, value, DType::float64).to(dtype));
}

// The parameter, or a constant one where it is not given.
std::string parameter(CallWriter& call, std::size_t k, double otherwise, std::int64_t count,
                      DType dtype) {
  return call.has(k) ? call.input(k, dtype) : filled(call, count, otherwise, dtype);
}

std::string batch_norm(CallWriter& call, std::size_t first) {
  if (call.flag("training") || !call.has(first + 2)) {
    call.refuse(
        "it normalizes by the statistics of the batch, which has no form in a graph for "
        "inference (allowed: running statistics)");
  }
  const DType dtype = call.result_dtype();
  const std::int64_t channels = call.fixed(0, 1);
  return call.node("BatchNormalization",
                   {call.input(0, dtype), parameter(call, first, 1, channels, dtype),
                    parameter(call, first + 1, 0, channels, dtype), call.input(first + 2, dtype),
                    call.input(first + 3, dtype)},
                   {attribute("epsilon", call.real("eps"))});
}

void write_batch_norm(CallWriter& call) { call.result(batch_norm(call, 1)); }

void write_batch_norm_add_relu(CallWriter& call) {
  std::string y = batch_norm(call, 2);
  if (call.has(1)) y = call.node("Add", {y, call.input(1, call.result_dtype())});
  call.result(call.node("Relu", {y}));
}

std::string layer_norm(CallWriter& call, const std::string& x, std::size_t weight, DType dtype) {
  const Integers shape = call.integers("normalized_shape");
  const std::string scale = call.has(weight)
                                ? call.input(weight, dtype)
                                : call.graph.constant(ones(Shape(shape), {.dtype = dtype}));
  return call.node("LayerNormalization", {x, scale, call.input(weight + 1, dtype)},
                   {attribute("axis", -static_cast<std::int64_t>(shape.size())),
                    attribute("epsilon", call.real("eps"))});
}

// x / √(mean(x²) + eps) · weight
std::string rms_norm(CallWriter& call, const std::string& x, std::size_t weight, DType dtype) {
  const Integers shape = call.integers("normalized_shape");
  Integers axes;
  for (std::size_t d = shape.size(); d > 0; --d) axes.push_back(-static_cast<std::int64_t>(d));
  const std::string mean =
      call.node("ReduceMean", {call.node("Mul", {x, x}), call.graph.integers(axes)},
                {attribute("keepdims", 1)});
  const std::string shifted = call.node("Add", {mean, call.graph.number(call.real("eps"), dtype)});
  const std::string y = call.node("Div", {x, call.node("Sqrt", {shifted})});
  return call.has(weight) ? call.node("Mul", {y, call.input(weight, dtype)}) : y;
}

void write_layer_norm(CallWriter& call) {
  const DType dtype = call.result_dtype();
  call.result(layer_norm(call, call.input(0, dtype), 1, dtype));
}
void write_rms_norm(CallWriter& call) {
  const DType dtype = call.result_dtype();
  call.result(rms_norm(call, call.input(0, dtype), 1, dtype));
}

using WriteNorm = std::string (*)(CallWriter&, const std::string&, std::size_t, DType);
template <WriteNorm norm>
void write_add_norm(CallWriter& call) {
  const DType dtype = call.result_dtype();
  const std::string sum = call.node("Add", {call.input(0, dtype), call.input(1, dtype)});
  call.result(0, sum);
  call.result(1, norm(call, sum, 2, dtype));
}

// x [n, channels, …] with the parameters of its channels applied.
std::string scaled_channels(CallWriter& call, std::string y, DType dtype) {
  Integers behind;
  for (std::int64_t d = 1; d + 1 < call.rank(0); ++d) behind.push_back(d);
  const auto aligned = [&](std::size_t k) {
    const std::string given = call.input(k, dtype);
    return behind.empty() ? given : call.unsqueeze(given, behind);
  };
  if (call.has(1)) y = call.node("Mul", {y, aligned(1)});
  if (call.has(2)) y = call.node("Add", {y, aligned(2)});
  return y;
}

// Groups become the channels of an instance norm.
void write_group_norm(CallWriter& call) {
  const DType dtype = call.result_dtype();
  const std::int64_t groups = call.integer("groups");
  std::int64_t length = 1;
  for (std::int64_t d = 1; d < call.rank(0); ++d) length *= call.fixed(0, d);
  if (length == 0) call.refuse("a tensor without elements has no form in ONNX");
  const std::string grouped =
      call.reshape(call.input(0, dtype), {call.shape(0)[0], {groups, 0}, {length / groups, 0}});
  const std::string y =
      call.node("InstanceNormalization",
                {grouped, filled(call, groups, 1, dtype), filled(call, groups, 0, dtype)},
                {attribute("epsilon", call.real("eps"))});
  call.result(scaled_channels(call, call.reshape(y, call.result_shape()), dtype));
}

void write_instance_norm(CallWriter& call) {
  const DType dtype = call.result_dtype();
  const std::int64_t channels = call.fixed(0, 1);
  call.result(call.node("InstanceNormalization",
                        {call.input(0, dtype), parameter(call, 1, 1, channels, dtype),
                         parameter(call, 2, 0, channels, dtype)},
                        {attribute("epsilon", call.real("eps"))}));
}

// ---- attention

struct Heads {
  std::string q, k, v;
  std::int64_t queries, keys, width, rank;
};

// softmax(scale · q·kᵀ + mask)·v; a query that sees no key yields 0.
std::string attention(CallWriter& call, const Heads& heads, std::size_t mask,
                      const AttributeTree& options, DType dtype) {
  const double infinity = std::numeric_limits<double>::infinity();
  const AttributeTree& given = call.item(options, "scale");
  const double scale =
      given.is_none() ? 1 / std::sqrt(static_cast<double>(heads.width)) : call.real(given);
  Integers swapped;
  for (std::int64_t d = 0; d < heads.rank; ++d) swapped.push_back(d);
  std::swap(swapped[swapped.size() - 2], swapped[swapped.size() - 1]);
  std::string scores = call.node("MatMul", {heads.q, call.transpose(heads.k, swapped)});
  scores = call.node("Mul", {scores, call.graph.number(scale, dtype)});
  const std::string hidden = call.graph.number(-infinity, dtype);
  const bool causal = call.item(options, "causal").text == "true";
  if (causal) {
    const Tensor seen = tril(ones({heads.queries, heads.keys}, {.dtype = DType::int8}));
    scores = call.node("Where", {call.graph.constant(seen.to(DType::bool_)), scores, hidden});
  }
  if (call.has(mask) && call.dtype(mask) == DType::bool_) {
    scores = call.node("Where", {call.input(mask), scores, hidden});
  } else if (call.has(mask)) {
    scores = call.node("Add", {scores, call.input(mask, dtype)});
  }
  std::string weights = call.node("Softmax", {scores}, {attribute("axis", -1)});
  if (call.has(mask)) {
    const std::string largest =
        call.node("ReduceMax", {scores, call.graph.integers({-1})}, {attribute("keepdims", 1)});
    weights = call.node(
        "Where", {call.node("Equal", {largest, hidden}), call.graph.number(0, dtype), weights});
  }
  return call.node("MatMul", {weights, heads.v});
}

void write_attention(CallWriter& call) {
  const DType dtype = call.result_dtype();
  if (call.results() > 1 && call.call().results[1] != no_value) {
    call.refuse("the logsumexp of its scores has no form in ONNX");
  }
  const Heads heads{call.input(0, dtype), call.input(1, dtype), call.input(2, dtype),
                    call.fixed(0, -2),    call.fixed(1, -2),    call.fixed(0, -1),
                    call.rank(1)};
  call.result(attention(call, heads, 3, call.tree(), dtype));
}

void write_packed_attention(CallWriter& call) {
  const DType dtype = call.result_dtype();
  const std::int64_t count = call.integer("heads"), length = call.fixed(0, 1),
                     width = call.fixed(0, 2) / (3 * count);
  const Size batch = call.shape(0)[0];
  const std::string parts =
      call.reshape(call.input(0, dtype), {batch, {length, 0}, {3, 0}, {count, 0}, {width, 0}});
  const Names split = call.graph.nodes(
      "Split", {call.transpose(parts, {2, 0, 3, 1, 4}), call.graph.integers({1, 1, 1})}, 3,
      {attribute("axis", 0)});
  const auto part = [&](std::size_t k) { return call.squeeze(split[k], {0}); };
  const Heads heads{part(0), part(1), part(2), length, length, width, 4};
  const std::string y = attention(call, heads, 1, call.item("attention"), dtype);
  call.result(call.reshape(call.transpose(y, {0, 2, 1, 3}), call.result_shape()));
}

// ---- resampling

// A float close to the factor that leads to the length that interpolate has found: in runtimes,
// which multiply floats; in load_onnx, which multiplies decimals; and in onnx.checker, which
// multiplies doubles. The nearest modes do without the last: another pixel would be worse.
float scale_of(double factor, bool is_smooth, const Size& from, const Size& to) {
  const auto nearest = static_cast<float>(factor);
  const auto in = static_cast<double>(from.value), out = static_cast<double>(to.value);
  for (const float scale :
       {nearest, std::nextafter(nearest, INFINITY), std::nextafter(nearest, 0.0F)}) {
    if (std::floor(static_cast<float>(from.value) * scale) == static_cast<float>(to.value) &&
        std::floor(in * decimal_value(scale)) == out &&
        (!is_smooth || std::floor(in * static_cast<double>(scale)) == out)) {
      return scale;
    }
  }
  return nearest;
}

void write_interpolate(CallWriter& call) {
  constexpr const char* modes[] = {"nearest", "nearest", "linear", "cubic"};
  const auto mode = static_cast<std::size_t>(call.integer("mode"));
  if (mode >= std::size(modes)) call.refuse("its mode is unknown");
  const bool corners = call.flag("align_corners");
  Attributes attributes{attribute("axes", Integers{2, 3}), attribute("mode", modes[mode])};
  // Coordinates as in PyTorch: nearest rounds i · scale down, nearest_exact the centre of a pixel.
  if (mode == 0) {
    attributes.push_back(attribute("coordinate_transformation_mode", "asymmetric"));
    attributes.push_back(attribute("nearest_mode", "floor"));
  } else {
    attributes.push_back(
        attribute("coordinate_transformation_mode", corners ? "align_corners" : "half_pixel"));
  }
  if (mode == 1) attributes.push_back(attribute("nearest_mode", "round_prefer_ceil"));
  if (mode == 3) attributes.push_back(attribute("cubic_coeff_a", -0.75));
  const AttributeTree& factor = call.item("scale_factor");
  if (factor.is_none()) {
    const std::string sizes = call.graph.integers(call.integers("size"));
    return call.result(call.node("Resize", {call.input(0), "", "", sizes}, attributes));
  }
  std::vector<float> scales;
  for (const std::size_t k : {0, 1}) {
    scales.push_back(scale_of(call.real(factor.items[k]), mode >= 2, call.shape(0)[k + 2],
                              call.result_shape()[k + 2]));
  }
  call.result(
      call.node("Resize", {call.input(0), "", call.graph.constant(from_data(scales))}, attributes));
}

constexpr ExportRule rules[] = {
    {"matmul", write_matmul},
    {"dot", write_matmul},
    {"linear", write_linear},
    {"glu", write_glu},
    {"conv1d", write_convolution<false>},
    {"conv2d", write_convolution<false>},
    {"conv3d", write_convolution<false>},
    {"conv_transpose1d", write_convolution<true>},
    {"conv_transpose2d", write_convolution<true>},
    {"conv_transpose3d", write_convolution<true>},
    {"max_pool2d", write_max_pool},
    {"avg_pool2d", write_avg_pool},
    {"adaptive_avg_pool2d", write_adaptive_pool},
    {"batch_norm", write_batch_norm},
    {"batch_norm_add_relu", write_batch_norm_add_relu},
    {"layer_norm", write_layer_norm},
    {"rms_norm", write_rms_norm},
    {"add_layer_norm", write_add_norm<layer_norm>},
    {"add_rms_norm", write_add_norm<rms_norm>},
    {"group_norm", write_group_norm},
    {"instance_norm", write_instance_norm},
    {"scaled_dot_product_attention", write_attention},
    {"scaled_dot_product_attention_packed", write_packed_attention},
    {"interpolate", write_interpolate},
};

}  // namespace

const std::span<const ExportRule> layer_export_rules = rules;

}  // namespace extensor::onnx
