// Products, convolutions, pooling, normalization and resampling of files.
#include <algorithm>
#include <cmath>
#include <limits>

#include "extensor/attention.h"
#include "extensor/convolution.h"
#include "extensor/creation.h"
#include "extensor/einsum.h"
#include "extensor/elementwise.h"
#include "extensor/interpolation.h"
#include "extensor/linear.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/normalization.h"
#include "extensor/pooling.h"
#include "extensor/reduction.h"
#include "onnx/program.h"

namespace extensor::onnx {

using detail::message;

namespace {

using Integers = std::vector<std::int64_t>;

Tensor optional_input(Arguments x, std::size_t k) { return k < x.size() ? x[k] : Tensor(); }

// ---- products

Kernel translate_matmul(NodeReader&) {
  return [](Arguments x) { return Results{matmul(x[0], x[1])}; };
}

Kernel translate_gemm(NodeReader& node) {
  const double alpha = node.real("alpha", 1), beta = node.real("beta", 1);
  const bool a_transposed = node.flag("transA", false), b_transposed = node.flag("transB", false);
  return [=](Arguments x) {
    const Tensor a = a_transposed ? x[0].transpose() : x[0];
    const Tensor c = optional_input(x, 2);
    const bool is_bias =
        !c.defined() || (c.ndim() == 1 && c.size(0) == x[1].size(b_transposed ? 0 : 1));
    if (b_transposed && alpha == 1 && beta == 1 && is_bias) return Results{linear(a, x[1], c)};
    Tensor y = matmul(a, b_transposed ? x[1].transpose() : x[1]);
    if (c.defined()) check_broadcasts("Gemm: c", c, y);
    if (alpha != 1) y = y * alpha;
    if (c.defined() && beta != 0) y = y + (beta == 1 ? c : c * beta);
    return Results{y};
  };
}

Kernel translate_einsum(NodeReader& node) {
  std::string equation = node.text("equation", "");
  std::erase(equation, ' ');
  return [=](Arguments x) { return Results{einsum(equation, {x.begin(), x.end()})}; };
}

// ---- windows

// The attributes of convolutions and pooling, for one to three axes of the image.
struct Windows {
  std::string auto_pad;
  std::optional<Integers> kernel, strides, pads, dilations;

  explicit Windows(NodeReader& node)
      : auto_pad(node.text("auto_pad", "NOTSET")),
        kernel(node.integers("kernel_shape")),
        strides(node.integers("strides")),
        pads(node.integers("pads")),
        dilations(node.integers("dilations")) {
    static constexpr const char* modes[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
    if (std::ranges::find(modes, auto_pad) == std::end(modes)) {
      node.refuse("attribute auto_pad is '", auto_pad, "'");
    }
  }
};

// The numbers for an image with `axes` axes.
struct WindowSizes {
  Integers kernel, strides, before, behind, dilations;
  Integers counts;  // of windows that start before the padding behind the image

  WindowSizes(const Windows& windows, const Tensor& x, const Integers& taps) {
    const std::size_t axes = taps.size();
    const auto list = [&](const std::optional<Integers>& given, std::size_t count,
                          std::int64_t otherwise, const char* name) {
      Integers values = given.value_or(Integers(count, otherwise));
      if (values.size() != count) {
        throw ShapeError(message(name, ": ", values.size(), " numbers for ", axes, " axes"));
      }
      return values;
    };
    if (axes < 1 || axes > 3 || x.ndim() != static_cast<std::int64_t>(axes) + 2) {
      throw ShapeError(message("x is ", x.shape(), " for a kernel with ", axes, " axes"));
    }
    kernel = taps;
    strides = list(windows.strides, axes, 1, "strides");
    dilations = list(windows.dilations, axes, 1, "dilations");
    const Integers both = list(windows.pads, 2 * axes, 0, "pads");
    before.assign(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(axes));
    behind.assign(both.begin() + static_cast<std::ptrdiff_t>(axes), both.end());
    if (windows.kernel && *windows.kernel != taps) {
      throw ShapeError(
          message("kernel_shape ", Dims(*windows.kernel), " for a kernel of ", Dims(taps)));
    }
    // Products of two of these numbers do not overflow.
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    const auto fits = [](const Integers& list, std::int64_t least) {
      return std::ranges::all_of(list, [=](std::int64_t n) { return n >= least && n <= most; });
    };
    if (!fits(kernel, 1) || !fits(strides, 1) || !fits(dilations, 1) || !fits(both, 0)) {
      throw ValueError(message("kernel ", Dims(kernel), ", strides ", Dims(strides), ", dilations ",
                               Dims(dilations), " and pads ", Dims(both),
                               " must be positive, or 0 for pads, and at most ", most));
    }
    if (windows.auto_pad == "VALID") {  // its pads do not count
      std::ranges::fill(before, 0);
      std::ranges::fill(behind, 0);
    }
    for (std::size_t k = 0; k < axes; ++k) {
      const std::int64_t in = x.size(static_cast<std::int64_t>(k) + 2);
      counts.push_back((in + before[k] + strides[k] - 1) / strides[k]);
      if (!windows.auto_pad.starts_with("SAME")) continue;
      const std::int64_t out = (in + strides[k] - 1) / strides[k];
      const std::int64_t all = std::max<std::int64_t>(
          0, (out - 1) * strides[k] + dilations[k] * (kernel[k] - 1) + 1 - in);
      before[k] = windows.auto_pad == "SAME_UPPER" ? all / 2 : all - all / 2;
      behind[k] = all - before[k];
    }
  }

  bool is_symmetric() const { return before == behind; }
  // x with zeros, or `value`, around the image where the padding is not the same on both sides.
  Tensor padded(const Tensor& x, double value) {
    if (is_symmetric()) return x;
    Padding widths(2, {0, 0});
    for (std::size_t k = 0; k < before.size(); ++k) widths.emplace_back(before[k], behind[k]);
    std::ranges::fill(before, 0);
    std::ranges::fill(behind, 0);
    return pad(x, widths, PadMode::constant, value);
  }
  // Without the windows that ceil_mode adds if the padding is part of the image.
  Tensor counted(Tensor y) const {
    for (std::size_t k = 0; k < counts.size(); ++k) {
      const auto axis = static_cast<std::int64_t>(k) + 2;
      if (y.size(axis) > counts[k]) y = y.slice(axis, 0, counts[k]);
    }
    return y;
  }
  Size2d pair(const Integers& list) const { return {list[0], list[1]}; }
  Size3d triple(const Integers& list) const { return {list[0], list[1], list[2]}; }
};

Integers taps_of(const Tensor& weight) {
  return {weight.shape().begin() + std::min<std::ptrdiff_t>(2, weight.ndim()),
          weight.shape().end()};
}

Kernel translate_conv(NodeReader& node) {
  const Windows windows(node);
  const std::int64_t groups = node.integer("group", 1);
  return [=](Arguments x) {
    WindowSizes s(windows, x[0], taps_of(x[1]));
    const Tensor y = s.padded(x[0], 0), bias = optional_input(x, 2);
    switch (s.kernel.size()) {
      case 1:
        return Results{conv1d(y, x[1], bias,
                              {.stride = s.strides[0],
                               .padding = s.before[0],
                               .dilation = s.dilations[0],
                               .groups = groups})};
      case 2:
        return Results{conv2d(y, x[1], bias,
                              {.stride = s.pair(s.strides),
                               .padding = s.pair(s.before),
                               .dilation = s.pair(s.dilations),
                               .groups = groups})};
      default:
        return Results{conv3d(y, x[1], bias,
                              {.stride = s.triple(s.strides),
                               .padding = s.triple(s.before),
                               .dilation = s.triple(s.dilations),
                               .groups = groups})};
    }
  };
}

Kernel translate_conv_transpose(NodeReader& node) {
  const Windows windows(node);
  const std::int64_t groups = node.integer("group", 1);
  const auto output_padding = node.integers("output_padding");
  if (node.has("output_shape") || windows.auto_pad.starts_with("SAME")) {
    node.refuse("output_shape and auto_pad are not supported (allowed: pads)");
  }
  return [=](Arguments x) {
    WindowSizes s(windows, x[0], taps_of(x[1]));
    const std::size_t axes = s.kernel.size();
    Integers more = output_padding.value_or(Integers(axes, 0));
    if (more.size() != axes) throw ShapeError("output_padding has another number of axes");
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (std::ranges::any_of(more, [](std::int64_t n) { return n < 0 || n > most; })) {
      throw ValueError(message("output_padding ", Dims(more), " (allowed: 0 to ", most, ")"));
    }
    // Less padding at the end is more output there, and more padding less.
    Integers less(axes);
    for (std::size_t k = 0; k < axes; ++k) {
      more[k] += s.before[k] - s.behind[k];
      less[k] = std::max<std::int64_t>(0, -more[k]);
      more[k] = std::max<std::int64_t>(0, more[k]);
    }
    const auto cropped = [&](Tensor y) {
      for (std::size_t k = 0; k < axes; ++k) {
        const auto axis = static_cast<std::int64_t>(k) + 2;
        if (less[k] >= y.size(axis)) throw ShapeError("the pads leave no output");
        if (less[k] > 0) y = y.slice(axis, 0, y.size(axis) - less[k]);
      }
      return Results{y};
    };
    const Tensor bias = optional_input(x, 2);
    switch (axes) {
      case 1:
        return cropped(conv_transpose1d(x[0], x[1], bias,
                                        {.stride = s.strides[0],
                                         .padding = s.before[0],
                                         .output_padding = more[0],
                                         .dilation = s.dilations[0],
                                         .groups = groups}));
      case 2:
        return cropped(conv_transpose2d(x[0], x[1], bias,
                                        {.stride = s.pair(s.strides),
                                         .padding = s.pair(s.before),
                                         .output_padding = s.pair(more),
                                         .dilation = s.pair(s.dilations),
                                         .groups = groups}));
      default:
        return cropped(conv_transpose3d(x[0], x[1], bias,
                                        {.stride = s.triple(s.strides),
                                         .padding = s.triple(s.before),
                                         .output_padding = s.triple(more),
                                         .dilation = s.triple(s.dilations),
                                         .groups = groups}));
    }
  };
}

// ---- pooling

Kernel translate_max_pool(NodeReader& node) {
  const Windows windows(node);
  const bool ceil_mode = node.flag("ceil_mode", false);
  node.ignore("storage_order");  // of the indices
  if (!windows.kernel) node.refuse("attribute kernel_shape is missing");
  if (node.outputs() > 1 && !node.node().outputs[1].empty()) {
    node.refuse("its second output, the indices, is not supported");
  }
  return [=](Arguments x) {
    WindowSizes s(windows, x[0], *windows.kernel);
    const Tensor y = s.padded(x[0], -std::numeric_limits<double>::infinity());
    switch (s.kernel.size()) {
      case 1:
        return Results{s.counted(max_pool1d(y, s.kernel[0],
                                            {.stride = s.strides[0],
                                             .padding = s.before[0],
                                             .dilation = s.dilations[0],
                                             .ceil_mode = ceil_mode}))};
      case 2:
        return Results{s.counted(max_pool2d(y, s.pair(s.kernel),
                                            {.stride = s.pair(s.strides),
                                             .padding = s.pair(s.before),
                                             .dilation = s.pair(s.dilations),
                                             .ceil_mode = ceil_mode}))};
      default:
        return Results{s.counted(max_pool3d(y, s.triple(s.kernel),
                                            {.stride = s.triple(s.strides),
                                             .padding = s.triple(s.before),
                                             .dilation = s.triple(s.dilations),
                                             .ceil_mode = ceil_mode}))};
    }
  };
}

Tensor average(const WindowSizes& s, const Tensor& x, bool ceil_mode, bool counts) {
  switch (s.kernel.size()) {
    case 1:
      return avg_pool1d(x, s.kernel[0],
                        {.stride = s.strides[0],
                         .padding = s.before[0],
                         .ceil_mode = ceil_mode,
                         .count_include_pad = counts});
    case 2:
      return avg_pool2d(x, s.pair(s.kernel),
                        {.stride = s.pair(s.strides),
                         .padding = s.pair(s.before),
                         .ceil_mode = ceil_mode,
                         .count_include_pad = counts});
    default:
      return avg_pool3d(x, s.triple(s.kernel),
                        {.stride = s.triple(s.strides),
                         .padding = s.triple(s.before),
                         .ceil_mode = ceil_mode,
                         .count_include_pad = counts});
  }
}

Kernel translate_avg_pool(NodeReader& node) {
  const Windows windows(node);
  const bool ceil_mode = node.flag("ceil_mode", false),
             counts = node.flag("count_include_pad", false);
  if (!windows.kernel) node.refuse("attribute kernel_shape is missing");
  if (windows.dilations &&
      std::ranges::any_of(*windows.dilations, [](std::int64_t d) { return d != 1; })) {
    node.refuse("attribute dilations must be 1");
  }
  return [=](Arguments x) {
    WindowSizes s(windows, x[0], *windows.kernel);
    if (s.is_symmetric() || counts) {
      const Tensor y = s.padded(x[0], 0);
      return Results{s.counted(average(s, y, ceil_mode, counts))};
    }
    // Divides the mean over a window by the part of it that is inside x.
    WindowSizes same = s;
    const Tensor inside = same.padded(ones_like(x[0]), 0), y = s.padded(x[0], 0);
    return Results{s.counted(average(s, y, ceil_mode, true)) /
                   s.counted(average(s, inside, ceil_mode, true))};
  };
}

Axes image_axes(const Tensor& x) {
  Integers axes;
  for (std::int64_t d = 2; d < x.ndim(); ++d) axes.push_back(d);
  return axes;
}

Kernel translate_global_average(NodeReader&) {
  return [](Arguments x) {
    if (x[0].ndim() == 4) return Results{adaptive_avg_pool2d(x[0], 1)};
    return Results{mean(x[0], image_axes(x[0]), true)};
  };
}
Kernel translate_global_max(NodeReader&) {
  return [](Arguments x) { return Results{max_reduce(x[0], image_axes(x[0]), true)}; };
}

// ---- normalization

Kernel translate_batch_norm(NodeReader& node) {
  const double eps = node.real("epsilon", 1e-5);
  node.ignore("momentum");
  if (node.flag("training_mode", false)) node.refuse("training_mode is not supported");
  if (node.integer("spatial", 1) != 1) node.refuse("spatial must be 1");
  return [=](Arguments x) {
    return Results{batch_norm(x[0], x[3], x[4], x[1], x[2], false, 0.1, eps)};
  };
}

// The axes from `axis` on; with `centred` false, without the mean.
template <bool centred>
Kernel translate_row_norm(NodeReader& node) {
  const std::int64_t axis = node.integer("axis", -1);
  const double eps = node.real("epsilon", 1e-5);
  node.ignore("stash_type");
  for (std::size_t k = 1; k < node.outputs(); ++k) {
    if (!node.node().outputs[k].empty()) node.refuse("its statistics are not supported outputs");
  }
  return [=](Arguments x) {
    const std::int64_t first = axis < 0 ? axis + x[0].ndim() : axis;
    if (first < 0 || first >= x[0].ndim()) {
      throw IndexError(message("axis ", axis, " of ", x[0].shape()));
    }
    const Shape rows(std::span(x[0].shape().begin() + first, x[0].shape().end()));
    const Tensor bias = optional_input(x, 2);
    // The scale may broadcast to the rows.
    const auto fitted = [&](const Tensor& p) {
      return !p.defined() || p.shape() == rows ? p : p.broadcast_to(rows).contiguous();
    };
    if (centred) return Results{layer_norm(x[0], rows, fitted(x[1]), fitted(bias), eps)};
    return Results{rms_norm(x[0], rows, fitted(x[1]), eps)};
  };
}

Kernel translate_instance_norm(NodeReader& node) {
  const double eps = node.real("epsilon", 1e-5);
  return [=](Arguments x) { return Results{instance_norm(x[0], x[1], x[2], eps)}; };
}

Kernel translate_group_norm(NodeReader& node) {
  const double eps = node.real("epsilon", 1e-5);
  const std::int64_t groups = node.integer("num_groups");
  node.ignore("stash_type");
  if (node.opset() < 21) node.refuse("it has one scale for each group before opset 21");
  return [=](Arguments x) { return Results{group_norm(x[0], groups, x[1], x[2], eps)}; };
}

// Inference: the input unchanged, and a mask that keeps everything.
Kernel translate_dropout(NodeReader& node) {
  node.ignore("ratio");
  node.ignore("seed");
  const bool masks = node.outputs() > 1;
  return [=](Arguments x) {
    if (!masks) return Results{x[0]};
    return Results{x[0], ones(x[0].shape(), {.dtype = DType::bool_, .device = x[0].device()})};
  };
}

// ---- attention

// [batch, length, heads · width] as [batch, heads, length, width].
Tensor by_heads(const Tensor& x, std::int64_t heads) {
  if (heads < 1 || x.size(2) % heads != 0) {
    throw ShapeError(message("Attention: ", x.shape(), " for ", heads, " heads"));
  }
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose({0, 2, 1, 3});
}

Kernel translate_attention(NodeReader& node) {
  const bool causal = node.flag("is_causal", false);
  std::optional<double> scale;
  if (node.has("scale")) scale = node.real("scale", 1);
  const std::int64_t heads = node.integer("q_num_heads", 0),
                     key_heads = node.integer("kv_num_heads", heads);
  node.ignore("softmax_precision");
  node.ignore("qk_matmul_output_mode");  // of an output that is not supported
  if (node.real("softcap", 0) != 0) node.refuse("softcap is not supported");
  if (node.has_input(4) || node.has_input(5)) node.refuse("past keys are not supported");
  for (std::size_t k = 1; k < node.outputs(); ++k) {
    if (!node.node().outputs[k].empty()) node.refuse("only its first output is supported");
  }
  return [=](Arguments x) {
    const bool joined = x[0].ndim() == 3;
    const Tensor q = joined ? by_heads(x[0], heads) : x[0],
                 k = joined ? by_heads(x[1], key_heads) : x[1],
                 v = joined ? by_heads(x[2], key_heads) : x[2];
    const Tensor y = scaled_dot_product_attention(q, k, v,
                                                  {.mask = optional_input(x, 3),
                                                   .causal = causal,
                                                   .scale = scale,
                                                   .enable_gqa = q.size(1) != k.size(1)});
    if (!joined) return Results{y};
    return Results{y.transpose({0, 2, 1, 3}).reshape({y.size(0), y.size(2), -1})};
  };
}

// ---- resampling

Kernel translate_resize(NodeReader& node) {
  const std::string mode = node.text("mode", "nearest"),
                    coordinates = node.text("coordinate_transformation_mode", "half_pixel"),
                    rounding = node.text("nearest_mode", "round_prefer_floor");
  const double cubic = node.real("cubic_coeff_a", -0.75);
  const auto axes = node.integers("axes");
  node.ignore("extrapolation_value");
  if (node.flag("antialias", false) || node.flag("exclude_outside", false)) {
    node.refuse("antialias and exclude_outside are not supported");
  }
  if (node.text("keep_aspect_ratio_policy", "stretch") != "stretch") {
    node.refuse("keep_aspect_ratio_policy must be stretch");
  }
  if (node.opset() < 11) node.refuse("it is supported from opset 11 on");
  InterpolateOptions options;
  // The second takes the first element, not the middle, for a size of 1.
  const bool first_of_one = coordinates == "pytorch_half_pixel";
  const bool half_pixel = coordinates == "half_pixel" || first_of_one;
  if (mode == "nearest" && coordinates == "asymmetric" && rounding == "floor") {
    options.mode = InterpolateMode::nearest;
  } else if (mode == "nearest" && half_pixel && rounding == "round_prefer_ceil") {
    options.mode = InterpolateMode::nearest_exact;
  } else if ((mode == "linear" || (mode == "cubic" && cubic == -0.75)) &&
             (half_pixel || coordinates == "align_corners")) {
    options.mode = mode == "linear" ? InterpolateMode::bilinear : InterpolateMode::bicubic;
    options.align_corners = coordinates == "align_corners";
  } else {
    node.refuse("mode ", mode, " with ", coordinates, " and ", rounding,
                " is not one that ExTensor has");
  }
  return [=](Arguments x) {
    if (x[0].ndim() != 4) throw ShapeError(message("Resize: x is ", x[0].shape()));
    // The last two axes; the others keep their sizes.
    const auto last_two = [&](const std::vector<double>& list, bool sizes) {
      Integers named{0, 1, 2, 3};
      if (axes) named = *axes;
      if (named.size() != list.size()) {
        throw ShapeError(message("Resize: ", list.size(), " numbers for ", named.size(), " axes"));
      }
      double result[4];
      for (std::size_t d = 0; d < 4; ++d) {
        result[d] = sizes ? static_cast<double>(x[0].shape()[d]) : 1;
      }
      for (std::size_t k = 0; k < named.size(); ++k) {
        const std::int64_t axis = named[k] < 0 ? named[k] + 4 : named[k];
        if (axis < 0 || axis > 3) throw IndexError(message("Resize: axis ", named[k]));
        result[axis] = list[k];
      }
      if (result[0] != (sizes ? static_cast<double>(x[0].size(0)) : 1) ||
          result[1] != (sizes ? static_cast<double>(x[0].size(1)) : 1)) {
        throw ShapeError("Resize: only the last two axes may change");
      }
      return std::pair(result[2], result[3]);
    };
    const auto numbers = [](const Tensor& list) {
      std::vector<double> values = list.detach().to(DType::float64).to_vector<double>();
      if (list.dtype() != DType::float32) return values;
      for (double& value : values) value = decimal_value(static_cast<float>(value));
      return values;
    };
    InterpolateOptions given = options;
    const Tensor scales = optional_input(x, 2), sizes = optional_input(x, 3);
    if (scales.defined() && scales.numel() > 0) {
      const auto [height, width] = last_two(numbers(scales), false);
      given.scale_factor = Scale2d(height, width);
    } else if (sizes.defined()) {
      const auto [height, width] = last_two(numbers(sizes), true);
      if (!(height < 0x1p53 && width < 0x1p53)) {
        throw ShapeError(message("Resize: sizes ", height, " and ", width));
      }
      given.size = Size2d{static_cast<std::int64_t>(height), static_cast<std::int64_t>(width)};
    } else {
      throw ValueError("Resize: neither scales nor sizes are given");
    }
    Tensor y = interpolate(x[0], given);
    const auto shrinks = [&](std::int64_t d) { return y.size(d) == 1 && x[0].size(d) > 1; };
    if (first_of_one && (shrinks(2) || shrinks(3))) {
      throw ShapeError("Resize: pytorch_half_pixel to a size of 1 is not supported");
    }
    return Results{std::move(y)};
  };
}

constexpr ImportRule rules[] = {
    {"MatMul", 2, 2, translate_matmul},
    {"Gemm", 2, 3, translate_gemm},
    {"Einsum", 1, any_number, translate_einsum},
    {"Conv", 2, 3, translate_conv},
    {"ConvTranspose", 2, 3, translate_conv_transpose},
    {"MaxPool", 1, 1, translate_max_pool},
    {"AveragePool", 1, 1, translate_avg_pool},
    {"GlobalAveragePool", 1, 1, translate_global_average},
    {"GlobalMaxPool", 1, 1, translate_global_max},
    {"BatchNormalization", 5, 5, translate_batch_norm},
    {"LayerNormalization", 2, 3, translate_row_norm<true>},
    {"RMSNormalization", 2, 2, translate_row_norm<false>},
    {"InstanceNormalization", 3, 3, translate_instance_norm},
    {"GroupNormalization", 3, 3, translate_group_norm},
    {"Attention", 3, 6, translate_attention},
    {"Dropout", 1, 3, translate_dropout},
    {"Resize", 1, 4, translate_resize},
};

}  // namespace

const std::span<const ImportRule> layer_import_rules = rules;

}  // namespace extensor::onnx
