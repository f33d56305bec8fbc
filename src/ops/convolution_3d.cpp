// Convolutions over volumes, composed of those over images: the taps along the depth become
// channels of an image, so a volume of depth D is a batch of D images of kd times as many channels.
#include <numeric>

#include "core/check.h"
#include "extensor/convolution.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "ops/convolution_support.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

// The attributes of the recorded ops: the options that matter to a convolution.
struct Conv3dAttributes {
  Size3d stride, padding, dilation;
  std::int64_t groups;
};
struct ConvTranspose3dAttributes {
  Size3d stride, padding, output_padding, dilation;
  std::int64_t groups;
};
Conv3dAttributes attributes_of(const Conv3dOptions& given) {
  return {given.stride, given.padding, given.dilation, given.groups};
}
ConvTranspose3dAttributes attributes_of(const ConvTranspose3dOptions& given) {
  return {given.stride, given.padding, given.output_padding, given.dilation, given.groups};
}

// The windows along one axis of a volume, `length` elements long.
struct Windows {
  std::int64_t length, count, taps, stride, dilation;
  std::int64_t before, after;  // zeros around the volume

  // The element of tap t in the first window, zeros counted.
  std::int64_t begin(std::int64_t t) const { return t * dilation; }
};

// The windows along an axis whose element at a tap lies inside the volume, and the elements of
// those windows: a range with the step of the windows.
struct Inside {
  std::int64_t first, end;  // of the windows
  std::int64_t begin, beyond;

  Inside(const Windows& depth, std::int64_t tap) {
    const std::int64_t shift = depth.begin(tap) - depth.before;  // of window 0
    first = shift >= 0 ? 0 : std::min(depth.count, (-shift - 1) / depth.stride + 1);
    end = shift >= depth.length
              ? 0
              : std::min(depth.count, (depth.length - 1 - shift) / depth.stride + 1);
    end = std::max(first, end);
    begin = first * depth.stride + shift;
    beyond = first == end ? begin : (end - 1) * depth.stride + shift + 1;
  }
  bool empty() const { return first == end; }
  // The elements of a volume [N, C, D, H, W], [N, windows, C, H, W].
  Tensor of_volume(const Tensor& x, const Windows& depth) const {
    return x.slice(2, begin, beyond, depth.stride).transpose({0, 2, 1, 3, 4});
  }
};

// Images of windows by tap: [N · count, C · taps, H, W] as [N, count, C, H, W] of one tap.
Tensor of_tap(const Tensor& images, const Windows& depth, std::int64_t batch, std::int64_t tap) {
  return images
      .reshape({batch, depth.count, images.size(1) / depth.taps, depth.taps, images.size(2),
                images.size(3)})
      .slice(3, tap, tap + 1)
      .squeeze(3);
}

// The images of all windows: x [N, C, D, H, W] → [N · count, C · taps, H, W].
Tensor unfold(const Tensor& x, const Windows& depth) {
  Tensor images = empty({x.size(0) * depth.count, x.size(1) * depth.taps, x.size(3), x.size(4)},
                        {x.dtype(), x.device()});
  for (std::int64_t t = 0; t < depth.taps; ++t) {
    const Inside inside(depth, t);
    Tensor tap = of_tap(images, depth, x.size(0), t);
    if (!inside.empty()) {
      tap.slice(1, inside.first, inside.end).copy_from(inside.of_volume(x, depth));
    }
    tap.slice(1, 0, inside.first).fill(0);
    tap.slice(1, inside.end).fill(0);
  }
  return images;
}

// Adds the images of all windows to volumes [N, C, D, H, W] of zeros.
void fold_into(const Tensor& total, const Tensor& images, const Windows& depth) {
  const std::int64_t batch = total.size(0);
  const bool overlap = depth.begin(depth.taps - 1) >= depth.stride;
  for (std::int64_t t = 0; t < depth.taps; ++t) {
    const Inside inside(depth, t);
    if (inside.empty()) continue;
    Tensor to = inside.of_volume(total, depth);
    const Tensor tap = of_tap(images, depth, batch, t).slice(1, inside.first, inside.end);
    if (overlap) {
      to += tap;
    } else {
      to.copy_from(tap);
    }
  }
}

// The adjoint of unfold: the sum of the images of all windows, [N, C, D, H, W].
Tensor fold(const Tensor& images, const Windows& depth, std::int64_t batch) {
  Tensor total =
      zeros({batch, images.size(1) / depth.taps, depth.length, images.size(2), images.size(3)},
            {images.dtype(), images.device()});
  fold_into(total, images, depth);
  return total;
}

// Calls f(first, end) for parts of a batch whose images stay in the cache, or once for all of it if
// the device is not the CPU. `elements`: of the images of one volume.
template <class Function>
void for_parts(const Tensor& x, std::int64_t elements, const Function& f) {
  constexpr std::int64_t most = 1 << 19;
  const std::int64_t batch = x.size(0);
  std::int64_t step = batch;
  if (x.device() == cpu_device) {
    step = std::max<std::int64_t>(1, most / std::max<std::int64_t>(1, elements));
  }
  for (std::int64_t first = 0; first < batch; first += step) {
    f(first, std::min(batch, first + step));
  }
}

// [N, C, D, H, W] as a batch of N · D images, and back.
Tensor as_images(const Tensor& x) {
  return x.transpose({0, 2, 1, 3, 4})
      .reshape({x.size(0) * x.size(2), x.size(1), x.size(3), x.size(4)});
}
Tensor as_volume(const Tensor& images, std::int64_t batch, std::int64_t depth) {
  return images.reshape({batch, depth, images.size(1), images.size(2), images.size(3)})
      .transpose({0, 2, 1, 3, 4})
      .contiguous();
}
// Joins the channels and depth taps of a weight.
Tensor as_image_weight(const Tensor& weight) {
  const Shape& shape = weight.shape();
  return weight.reshape({shape[0], shape[1] * shape[2], shape[3], shape[4]});
}

void check_volume(const char* operation, const char* argument, const Tensor& x) {
  check_float(operation, argument, x);
  if (x.ndim() == 5) return;
  throw ShapeError(
      message(operation, ": ", argument, " is ", x.shape(), ", must have 5 dimensions"));
}

void check_at_least(const char* operation, const char* what, const Size3d& given,
                    std::int64_t least) {
  if (std::min({given.depth, given.height, given.width}) >= least) return;
  throw ValueError(message(operation, ": ", what, " is ",
                           Dims{given.depth, given.height, given.width}, ", must be ", least,
                           " or more"));
}

// Checks options and operands as far as the convolution over images does not.
template <class Options>
void check_operands(const char* operation, const Options& options, const Tensor& x,
                    const Tensor& weight) {
  check_volume(operation, "x", x);
  check_volume(operation, "weight", weight);
  check_at_least(operation, "stride", options.stride, 1);
  check_at_least(operation, "dilation", options.dilation, 1);
  const auto at_least_0 = [&](std::int64_t side) { return side == same_padding ? 0 : side; };
  check_at_least(operation, "padding",
                 {at_least_0(options.padding.depth), at_least_0(options.padding.height),
                  at_least_0(options.padding.width)},
                 0);
  const Shape& taps = weight.shape();
  if (taps[2] == 0 || taps[3] == 0 || taps[4] == 0) {
    throw ShapeError(message(operation, ": weight is ", taps, ", has no taps"));
  }
  constexpr bool transposed = requires { options.output_padding; };
  if (options.groups < 1) {
    throw ValueError(message(operation, ": groups is ", options.groups, ", must be 1 or more"));
  }
  if (x.size(1) % options.groups != 0 || (!transposed && taps[0] % options.groups != 0)) {
    throw ValueError(message(operation, ": groups is ", options.groups,
                             ", must divide the channels of x ", x.shape(), " and weight ", taps));
  }
  if (transposed ? taps[0] != x.size(1) : taps[1] != x.size(1) / options.groups) {
    throw ShapeError(message(operation, ": channels differ: x is ", x.shape(), ", weight is ", taps,
                             ", groups is ", options.groups));
  }
}

void check_bias(const char* operation, const Tensor& bias, std::int64_t channels) {
  if (!bias.defined()) return;
  check_float(operation, "bias", bias);
  if (bias.shape() == Shape{channels}) return;
  throw ShapeError(message(operation, ": bias is ", bias.shape(), ", must be [", channels, "]"));
}

[[noreturn]] void throw_too_large(const char* operation, const Tensor& x, const Tensor& weight) {
  throw ShapeError(message(operation, ": the kernel is larger than the padded input: x ", x.shape(),
                           ", weight ", weight.shape()));
}

// dilation · (taps − 1), or −1 if that overflows int64.
std::int64_t reach_of(std::int64_t taps, std::int64_t dilation) {
  std::int64_t reach;
  return __builtin_mul_overflow(taps - 1, dilation, &reach) ? -1 : reach;
}

// The windows along depth, height and width; checks everything.
struct VolumeWindows {
  Windows depth, height, width;

  template <class Options>
  VolumeWindows(const char* operation, const Options& options, const Tensor& x,
                const Tensor& weight);
};

template <class Options>
Size2d plane(Size3d Options::*member, const Options& options) {
  return {(options.*member).height, (options.*member).width};
}

Conv2dOptions image_options(const Conv3dAttributes& options) {
  return {plane(&Conv3dAttributes::stride, options), plane(&Conv3dAttributes::padding, options),
          plane(&Conv3dAttributes::dilation, options), options.groups};
}

Windows windows_along(const char* operation, const Conv3dAttributes& options, const Tensor& x,
                      const Tensor& weight, std::int64_t axis, std::int64_t Size3d::*side) {
  const std::int64_t length = x.size(axis), taps = weight.size(axis), stride = options.stride.*side,
                     dilation = options.dilation.*side, reach = reach_of(taps, dilation);
  if (reach < 0) throw_too_large(operation, x, weight);
  std::int64_t before = options.padding.*side, after = before, padded;
  if (before == same_padding) {
    if (stride != 1) {
      throw ValueError(message(operation, ": padding is same_padding, needs a stride of 1"));
    }
    before = reach / 2;
    after = reach - before;
  }
  if (__builtin_add_overflow(before, after, &padded) ||
      __builtin_add_overflow(padded, length, &padded)) {
    throw ShapeError(
        message(operation, ": padding ", before, " of ", x.shape(), " goes beyond int64"));
  }
  if (length == 0 || reach >= padded) throw_too_large(operation, x, weight);
  return {length, (padded - reach - 1) / stride + 1, taps, stride, dilation, before, after};
}

ConvTranspose2dOptions image_options(const ConvTranspose3dAttributes& options) {
  using Options = ConvTranspose3dAttributes;
  return {plane(&Options::stride, options), plane(&Options::padding, options),
          plane(&Options::output_padding, options), plane(&Options::dilation, options),
          options.groups};
}

// The windows of the result, of which each image of x fills one.
Windows windows_along(const char* operation, const ConvTranspose3dAttributes& options,
                      const Tensor& x, const Tensor& weight, std::int64_t axis,
                      std::int64_t Size3d::*side) {
  const std::int64_t count = x.size(axis), taps = weight.size(axis), stride = options.stride.*side,
                     dilation = options.dilation.*side, padding = options.padding.*side,
                     output_padding = options.output_padding.*side,
                     reach = reach_of(taps, dilation);
  if (padding == same_padding) {
    throw ValueError(message(operation,
                             ": padding is same_padding, needs a convolution that is "
                             "not transposed"));
  }
  if (output_padding < 0 || (output_padding >= stride && output_padding >= dilation)) {
    throw ValueError(message(operation, ": output_padding is ", output_padding,
                             ", must be 0 or more and below stride ", stride, " or dilation ",
                             dilation));
  }
  std::int64_t whole, cut;
  if (reach < 0 || __builtin_mul_overflow(count - 1, stride, &whole) ||
      __builtin_add_overflow(whole, reach, &whole) ||
      __builtin_add_overflow(whole, output_padding + 1, &whole) ||
      __builtin_mul_overflow(padding, 2, &cut)) {
    throw ShapeError(message(operation, ": the result of x ", x.shape(), " goes beyond int64"));
  }
  if (count < 1 || whole - cut < 1) {
    throw ShapeError(message(operation, ": nothing is left: x ", x.shape(), ", weight ",
                             weight.shape(), ", stride ", stride, ", padding ", padding));
  }
  // The result with its padding must hold all windows; output_padding may extend it further.
  return {whole - cut,
          count,
          taps,
          stride,
          dilation,
          padding,
          std::max<std::int64_t>(0, padding - output_padding)};
}

template <class Options>
VolumeWindows::VolumeWindows(const char* operation, const Options& options, const Tensor& x,
                             const Tensor& weight)
    : depth((check_operands(operation, options, x, weight),
             windows_along(operation, options, x, weight, 2, &Size3d::depth))),
      height(windows_along(operation, options, x, weight, 3, &Size3d::height)),
      width(windows_along(operation, options, x, weight, 4, &Size3d::width)) {}

// The gradients in the dtypes of their operands.
ConvolutionGradients converted(const ConvolutionGradients& gradients, DType x, DType weight) {
  const auto as = [](const Tensor& gradient, DType dtype) {
    return gradient.defined() ? gradient.to(dtype) : gradient;
  };
  return {as(gradients.x, x), as(gradients.weight, weight), as(gradients.bias, weight)};
}

// grad_output in the dtype that all gradients are computed in.
Tensor wide_gradient(const char* operation, const Tensor& grad_output, const Tensor& x,
                     const Tensor& weight) {
  const Source all[] = {grad_output, x, weight};
  common_device(operation, all);
  return grad_output.to(compute_dtype(promote_types(
      promote_types(grad_output.dtype(), x.dtype(), operation), weight.dtype(), operation)));
}

// ---- conv3d

Tensor conv3d_forward(const Run& run, const Conv3dAttributes& options, const Tensor& x,
                      const Tensor& weight, const Tensor& bias) {
  const VolumeWindows windows(run.name(), options, x, weight);
  const Windows& depth = windows.depth;
  check_bias(run.name(), bias, weight.size(0));
  const auto images_of = [&](const Tensor& part) {
    return conv2d(unfold(part, depth), as_image_weight(weight), bias, image_options(options));
  };
  const std::int64_t elements = x.numel() / std::max<std::int64_t>(1, x.size(0)) * depth.taps;
  Tensor y;
  for_parts(x, elements, [&](std::int64_t first, std::int64_t end) {
    const Tensor images = images_of(x.slice(0, first, end));
    if (first == 0 && end == x.size(0)) {
      y = as_volume(images, x.size(0), depth.count);
      return;
    }
    if (!y.defined()) {
      y = run.empty({x.size(0), images.size(1), depth.count, images.size(2), images.size(3)},
                    images.dtype());
    }
    y.slice(0, first, end)
        .copy_from(
            images
                .reshape({end - first, depth.count, images.size(1), images.size(2), images.size(3)})
                .transpose({0, 2, 1, 3, 4}));
  });
  return y.defined() ? y : as_volume(images_of(x), x.size(0), depth.count);
}

ConvolutionGradients conv3d_gradients(const char* operation, const Tensor& grad_output,
                                      const Tensor& x, const Tensor& weight,
                                      const Conv3dAttributes& options,
                                      const WantedGradients& wanted) {
  const VolumeWindows windows(operation, options, x, weight);
  const Windows& depth = windows.depth;
  check_grad_output(
      operation, grad_output,
      {x.size(0), weight.size(0), depth.count, windows.height.count, windows.width.count});
  const Tensor g = wide_gradient(operation, grad_output, x, weight);
  ConvolutionGradients result;
  if (wanted[0] || wanted[1]) {
    const ConvolutionGradients images = conv2d_backward(
        as_images(g), unfold(x.to(g.dtype()), depth), as_image_weight(weight).to(g.dtype()),
        image_options(options), {wanted[0], wanted[1], false});
    if (wanted[0]) result.x = fold(images.x, depth, x.size(0));
    if (wanted[1]) result.weight = images.weight.reshape(weight.shape());
  }
  if (wanted[2]) result.bias = sum(g, {0, 2, 3, 4});
  return converted(result, x.dtype(), weight.dtype());
}

Gradients conv3d_gradient(const GradientCall& call, const Conv3dAttributes& options) {
  const ConvolutionGradients gradients =
      conv3d_gradients(call.name(), call.grad(), call.input(0), call.input(1), options,
                       {call.needs(0), call.needs(1), call.needs(2)});
  return {gradients.x, gradients.weight, gradients.bias};
}

// ---- conv_transpose3d

std::int64_t out_channels(const ConvTranspose3dAttributes& options, const Tensor& weight) {
  return weight.size(1) * options.groups;
}

Tensor with_bias(const Tensor& y, const Tensor& bias) {
  return bias.defined() ? y + bias.reshape({bias.size(0), 1, 1, 1}) : y;
}

Tensor conv_transpose3d_forward(const Run& run, const ConvTranspose3dAttributes& options,
                                const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const VolumeWindows windows(run.name(), options, x, weight);
  const Windows& depth = windows.depth;
  check_bias(run.name(), bias, out_channels(options, weight));
  DType dtype = promote_types(x.dtype(), weight.dtype(), run.name());
  if (bias.defined()) dtype = promote_types(dtype, bias.dtype(), run.name());
  const DType wide = compute_dtype(dtype);  // the sum over the taps is rounded once
  const Tensor image_weight = as_image_weight(weight).to(wide);
  Tensor y = run.empty({x.size(0), out_channels(options, weight), depth.length,
                        windows.height.length, windows.width.length},
                       wide);
  y.fill(0);
  const std::int64_t elements =
      y.numel() / std::max<std::int64_t>(1, x.size(0) * depth.length) * depth.count * depth.taps;
  for_parts(x, elements, [&](std::int64_t first, std::int64_t end) {
    const Tensor images = conv_transpose2d(as_images(x.slice(0, first, end)).to(wide), image_weight,
                                           {}, image_options(options));
    fold_into(y.slice(0, first, end), images, depth);
  });
  return with_bias(y, bias).to(dtype);
}

ConvolutionGradients conv_transpose3d_gradients(const char* operation, const Tensor& grad_output,
                                                const Tensor& x, const Tensor& weight,
                                                const ConvTranspose3dAttributes& options,
                                                const WantedGradients& wanted) {
  const VolumeWindows windows(operation, options, x, weight);
  const Windows& depth = windows.depth;
  check_grad_output(operation, grad_output,
                    {x.size(0), out_channels(options, weight), depth.length, windows.height.length,
                     windows.width.length});
  const Tensor g = wide_gradient(operation, grad_output, x, weight);
  ConvolutionGradients result;
  if (wanted[0] || wanted[1]) {
    const ConvolutionGradients images = conv_transpose2d_backward(
        unfold(g, depth), as_images(x).to(g.dtype()), as_image_weight(weight).to(g.dtype()),
        image_options(options), {wanted[0], wanted[1], false});
    if (wanted[0]) result.x = as_volume(images.x, x.size(0), depth.count);
    if (wanted[1]) result.weight = images.weight.reshape(weight.shape());
  }
  if (wanted[2]) result.bias = sum(g, {0, 2, 3, 4});
  return converted(result, x.dtype(), weight.dtype());
}

Gradients conv_transpose3d_gradient(const GradientCall& call,
                                    const ConvTranspose3dAttributes& options) {
  const ConvolutionGradients gradients =
      conv_transpose3d_gradients(call.name(), call.grad(), call.input(0), call.input(1), options,
                                 {call.needs(0), call.needs(1), call.needs(2)});
  return {gradients.x, gradients.weight, gradients.bias};
}

constexpr Reads operands = input(0) | input(1);
constexpr auto conv3d_op =
    define<conv3d_forward, conv3d_gradient>({.name = "conv3d",
                                             .inputs = {"x", "weight", "bias"},
                                             .reads = {operands, operands, operands},
                                             .cast = Cast::down,
                                             .optional = 1 << 2});
constexpr auto conv_transpose3d_op = define<conv_transpose3d_forward, conv_transpose3d_gradient>(
    {.name = "conv_transpose3d",
     .inputs = {"x", "weight", "bias"},
     .reads = {operands, operands, operands},
     .cast = Cast::down,
     .optional = 1 << 2});

// The public backward functions; `gradients` is one of the two above.
template <class Given, class Attributes>
ConvolutionGradients backward(
    const char* operation, const Tensor& grad_output, const Tensor& x, const Tensor& weight,
    const Given& given, const WantedGradients& wanted,
    ConvolutionGradients (*gradients)(const char*, const Tensor&, const Tensor&, const Tensor&,
                                      const Attributes&, const WantedGradients&)) {
  check_layer_options(operation, given, weight, {});
  const Attributes attributes = attributes_of(given);
  if (!is_single(x, weight))
    return gradients(operation, grad_output, x, weight, attributes, wanted);
  return without_batch(
      gradients(operation, grad_output.unsqueeze(0), x.unsqueeze(0), weight, attributes, wanted));
}

}  // namespace

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv3dOptions& options) {
  return convolved(conv3d_op, attributes_of(options), x, weight, bias, options);
}
ConvolutionGradients conv3d_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Conv3dOptions& options,
                                     const WantedGradients& wanted) {
  return backward("conv3d_backward", grad_output, x, weight, options, wanted, conv3d_gradients);
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose3dOptions& options) {
  return convolved(conv_transpose3d_op, attributes_of(options), x, weight, bias, options);
}
ConvolutionGradients conv_transpose3d_backward(const Tensor& grad_output, const Tensor& x,
                                               const Tensor& weight,
                                               const ConvTranspose3dOptions& options,
                                               const WantedGradients& wanted) {
  return backward("conv_transpose3d_backward", grad_output, x, weight, options, wanted,
                  conv_transpose3d_gradients);
}

constinit const OpList ops::convolution_3d_ops = listed<conv3d_op, conv_transpose3d_op>;

}  // namespace extensor
