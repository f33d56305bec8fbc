"""How PyTorch's ops of neural networks are called in ExTensor, for sample_inputs.py: layers and
losses. op_calls.py has all others and explains the form."""

import torch

from op_calls import C, Options, Part, Results, ValuesOnly, leave_out, whole

SAME_PADDING = -2**63  # extensor::same_padding


# ---- linear layers and attention


def linear(x, weight, bias=None):
    leave_out(weight.dim() == 1, "linear with a vector as its weight")
    return C.linear(x, weight, bias=bias)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
              enable_gqa=False):
    leave_out(dropout_p > 0, "random numbers")
    leave_out(query.dtype == torch.float32,
              "scores of hundreds, whose rounding to float32 is visible; float64 is compared")
    call = C.scaled_dot_product_attention(query, key, value, Options(
        mask=attn_mask, causal=is_causal, scale=scale, enable_gqa=enable_gqa))
    if is_causal and query.dim() != key.dim():
        return ValuesOnly(call, "second derivatives: exp(score − logsumexp) with scores of hundreds "
                          "rounds by 1e-14, which is visible where terms cancel", first=True)
    return call


def glu(x, dim=-1):
    return C.glu(x, dim)


def leaky_relu(x, negative_slope=0.01, inplace=False):
    return C.leaky_relu(x, negative_slope)


def elu(x, alpha=1.0, inplace=False):
    return C.elu(x, alpha)


# ---- convolution, pooling, resampling


def padding_of(padding):
    if padding == "same":
        return SAME_PADDING
    return 0 if padding == "valid" else one_or_list(padding)


def one_or_list(value):
    """[2] stands for 2, as in PyTorch's one-dimensional ops."""
    value = whole(value)
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def convolution(name):
    def made(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return getattr(C, name)(x, weight, bias=bias, options=Options(
            stride=one_or_list(stride), padding=padding_of(padding), dilation=one_or_list(dilation),
            groups=groups))
    return made


def transposed_convolution(name):
    def made(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return getattr(C, name)(x, weight, bias=bias, options=Options(
            stride=one_or_list(stride), padding=one_or_list(padding),
            output_padding=one_or_list(output_padding), dilation=one_or_list(dilation),
            groups=groups))
    return made


def optional_size(stride):
    return None if stride is None or stride == () or stride == [] else one_or_list(stride)


def max_pool(name):
    def made(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
             return_indices=False):
        pooled = getattr(C, name)(x, one_or_list(kernel_size), options=Options(
            stride=optional_size(stride), padding=one_or_list(padding),
            dilation=one_or_list(dilation), ceil_mode=ceil_mode))
        return Results([pooled, None]) if return_indices else pooled
    return made


def avg_pool(name):
    def made(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
             divisor_override=None):
        leave_out(divisor_override is not None)
        return getattr(C, name)(x, one_or_list(kernel_size), options=Options(
            stride=optional_size(stride), padding=one_or_list(padding), ceil_mode=ceil_mode,
            count_include_pad=count_include_pad))
    return made


def adaptive_avg_pool2d(x, output_size):
    output = output_size if isinstance(output_size, (list, tuple)) else [output_size] * 2
    return C.adaptive_avg_pool2d(x, [x.shape[k - 2] if size is None else size
                                     for k, size in enumerate(output)])


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None,
                recompute_scale_factor=None, antialias=False):
    leave_out(x.dim() != 4 or mode in ("area", "linear", "trilinear"),
              "interpolate of images only: 4 axes")
    leave_out(antialias or recompute_scale_factor)
    if isinstance(scale_factor, (list, tuple)):
        scale_factor = [float(each) for each in scale_factor]
    return C.interpolate(x, Options(
        size=None if size is None else one_or_list(size), scale_factor=scale_factor,
        mode=mode.replace("-", "_"), align_corners=align_corners))


def upsample(mode):
    def made(x, size=None, scale_factor=None):
        return interpolate(x, size, scale_factor, mode, True if mode == "bilinear" else None)
    return made


# ---- normalization, dropout


def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
               eps=1e-5):
    leave_out(running_mean is None or running_var is None, "batch_norm has running statistics")
    leave_out(x.dim() < 2, "batch_norm of one axis")
    leave_out(not 0 <= momentum <= 1, "a momentum outside [0, 1]")
    call = C.batch_norm(x, C.clone(running_mean), C.clone(running_var), weight, bias, training,
                        momentum, eps)
    if training and x.numel() == 2 * x.shape[1]:
        return ValuesOnly(call, "gradients of two normalized elements: 0, up to rounding")
    return call


def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None,
                  use_input_stats=True, momentum=0.1, eps=1e-5):
    leave_out(not use_input_stats)
    return C.instance_norm(x, weight, bias, eps)


NEGATIVE_EPS = "a negative eps"


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    leave_out(eps < 0, NEGATIVE_EPS)
    leave_out(len(normalized_shape) == 0, "normalization of single elements")
    call = C.layer_norm(x, whole(normalized_shape), weight, bias, eps)
    if all(size == 1 for size in normalized_shape):
        return ValuesOnly(call, "gradients of one normalized element: 0, up to rounding")
    return call


def rms_norm(x, normalized_shape, weight=None, eps=None):
    leave_out(eps is not None and eps < 0, NEGATIVE_EPS)
    leave_out(len(normalized_shape) == 0, "normalization of single elements")
    return C.rms_norm(x, whole(normalized_shape), weight, eps)


def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    leave_out(eps < 0, NEGATIVE_EPS)
    call = C.group_norm(x, num_groups, weight, bias, eps)
    if x.dtype == torch.float32 and x.numel() <= 3 * x.shape[0] * num_groups:
        return ValuesOnly(call, "gradients of three normalized elements cancel in float32")
    return call


def dropout(name):
    def made(x, p=0.5, training=True, inplace=False):
        leave_out(training and 0 < p < 1, "random numbers")
        return Part(getattr(C, name)(x, p, training), 0)
    return made


# ---- losses


def loss(name, **renamed):
    def made(x, y, reduction="mean", **options):
        leave_out(reduction == "batchmean", "the reduction batchmean")
        return getattr(C, name)(x, y, Options(reduction=reduction, **options) if options else reduction)
    return made


def no_size_average(size_average=None, reduce=None):
    leave_out(size_average is not None or reduce is not None)


def binary_cross_entropy(x, y, weight=None, size_average=None, reduce=None, reduction="mean"):
    no_size_average(size_average, reduce)
    return ValuesOnly(C.binary_cross_entropy(x, y, Options(weight=weight, reduction=reduction)),
                      "second derivatives: PyTorch adds 1e-12 to its denominators", first=True)


def with_logits(x, y, weight=None, size_average=None, reduce=None, reduction="mean",
                pos_weight=None):
    no_size_average(size_average, reduce)
    return C.binary_cross_entropy_with_logits(
        x, y, Options(weight=weight, reduction=reduction, pos_weight=pos_weight))


def cross_entropy(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                  reduction="mean", label_smoothing=0.0):
    no_size_average(size_average, reduce)
    return C.cross_entropy(x, target, Options(weight=weight, reduction=reduction,
                                              ignore_index=ignore_index,
                                              label_smoothing=label_smoothing))


def nll_loss(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
             reduction="mean"):
    no_size_average(size_average, reduce)
    return C.nll_loss(x, target, Options(weight=weight, reduction=reduction,
                                         ignore_index=ignore_index))


def triplet(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
            reduce=None, reduction="mean"):
    no_size_average(size_average, reduce)
    return C.triplet_margin_loss(anchor, positive, negative, Options(
        margin=margin, p=p, eps=eps, swap=swap, reduction=reduction))


def cosine_embedding(a, b, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    no_size_average(size_average, reduce)
    return C.cosine_embedding_loss(a, b, target, Options(margin=margin, reduction=reduction))


def gaussian_nll(x, target, var, full=False, eps=1e-6, reduction="mean"):
    leave_out(not isinstance(var, torch.Tensor))
    if target.shape != x.shape and torch.broadcast_shapes(target.shape, x.shape) == x.shape:
        target = C.broadcast_to(target, list(x.shape))  # losses do not broadcast their targets
    if var.shape != x.shape and var.shape == x.shape[:-1]:
        var = C.unsqueeze(var, -1)  # PyTorch's rule; ours broadcasts as elsewhere
    return C.gaussian_nll_loss(x, target, var, Options(full=full, eps=eps, reduction=reduction))


def ctc(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
        zero_infinity=False):
    leave_out(log_probs.dim() != 3 or targets.dim() != 2, "ctc_loss of a batch with padded targets")
    return ValuesOnly(
        C.ctc_loss(log_probs, targets, whole(input_lengths), whole(target_lengths), Options(
            blank=blank, reduction=reduction, zero_infinity=zero_infinity)),
        "gradients: PyTorch's assumes a log_softmax before ctc_loss")


def linear_cross_entropy(x, linear_weight, target, *, linear_bias=None, weight=None,
                         reduction="mean", ignore_index=None, label_smoothing=0.0, options=None):
    leave_out(linear_weight.dim() > 2, "linear with more than two axes in its weight")
    leave_out(target.dtype.is_floating_point, "linear_cross_entropy with probabilities")
    call = C.linear_cross_entropy(x, linear_weight, linear_bias, target, Options(
        weight=weight, reduction=reduction, ignore_index=ignore_index,
        label_smoothing=label_smoothing))
    if options is not None and x.dtype == torch.float32:
        return ValuesOnly(call, "gradients of chunks in float32: PyTorch's are up to 80 times further from "
                          "float64's than ours")
    if options is not None:
        return ValuesOnly(call, "second derivatives: PyTorch's chunks have none", first=True)
    return call


CALLS = {
    "linear": linear,
    "scaled_dot_product_attention": attention,
    "glu": glu, "leaky_relu": leaky_relu, "elu": elu,
    **{name: convolution(name) for name in ("conv1d", "conv2d", "conv3d")},
    **{f"conv_transpose{n}d": transposed_convolution(f"conv_transpose{n}d") for n in (1, 2, 3)},
    **{f"max_pool{n}d": max_pool(f"max_pool{n}d") for n in (1, 2, 3)},
    **{f"avg_pool{n}d": avg_pool(f"avg_pool{n}d") for n in (1, 2, 3)},
    "adaptive_avg_pool2d": adaptive_avg_pool2d,
    "interpolate": interpolate,
    "upsample_nearest": upsample("nearest"), "upsample_bilinear": upsample("bilinear"),
    "pixel_shuffle": lambda x, upscale_factor: C.pixel_shuffle(x, upscale_factor),
    "pixel_unshuffle": lambda x, downscale_factor: C.pixel_unshuffle(x, downscale_factor),
    "batch_norm": batch_norm, "instance_norm": instance_norm, "layer_norm": layer_norm,
    "rms_norm": rms_norm, "group_norm": group_norm,
    "dropout": dropout("dropout"), "dropout2d": dropout("dropout2d"),
    "mse_loss": loss("mean_squared_error"), "l1_loss": loss("l1_loss"),
    "smooth_l1_loss": loss("smooth_l1_loss"), "huber_loss": loss("huber_loss"),
    "kl_div": loss("kl_divergence"),
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_with_logits": with_logits,
    "cross_entropy": cross_entropy, "nll_loss": nll_loss, "triplet_margin_loss": triplet,
    "cosine_embedding_loss": cosine_embedding, "gaussian_nll_loss": gaussian_nll,
    "ctc_loss": ctc, "linear_cross_entropy": linear_cross_entropy,
}
