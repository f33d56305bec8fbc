"""Copies, reductions, sorting and convolutions of random shapes and layouts against NumPy. The sizes lie
around the widths of vectors and the edges of tiles."""

import numpy as np
import pytest

import extensor as ex

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 127, 129]
MOST = 30_000  # elements of a case


def numbers(random, shape, dtype):
    """An array of any numbers; of floats, some are NaN or infinite."""
    if dtype == "bool":
        return np.asarray(random.random(shape) < 0.5)
    if "int" in dtype:
        return np.asarray(random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True))
    x = np.asarray(np.round(10 * random.standard_normal(shape)) / 4)
    kind = random.random(shape)
    x = np.where(kind < 0.02, np.nan, np.where(kind < 0.03, np.inf, np.where(kind < 0.04, -np.inf, x)))
    return x.astype(dtype)


def layout(random, dtype):
    """The same part of an array and of a tensor: sliced, reversed, transposed and broadcast."""
    while True:
        shape = tuple(int(size) for size in random.choice(SIZES, random.integers(0, 5)))
        if np.prod([2 * size + 2 for size in shape], dtype=float) < MOST:
            break
    x = numbers(random, tuple(2 * size + 2 for size in shape), dtype)
    t = ex.asarray(x)
    if not shape:
        return x, t
    slices = [(slice(1, size + 1), slice(1, 2 * size + 1, 2), slice(size, 0, -1)) for size in shape]
    part = tuple(three[random.integers(0, 3)] if three[0].stop > 1 else slice(0, 0) for three in slices)
    axes = [int(axis) for axis in random.permutation(len(shape))]
    x, t = x[part].transpose(axes), ex.transpose(t[part], axes)
    if random.random() < 0.2:
        x = np.broadcast_to(x[None], (3, *x.shape))
        t = ex.broadcast_to(t.unsqueeze(0), x.shape)
    return x, t


def same(found, expected, what):
    found, expected = found.numpy(), np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape, what
    assert np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f"), what


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies(dtype):
    random = np.random.default_rng(DTYPES.index(dtype))
    for _ in range(60):
        x, t = layout(random, dtype)
        what = f"{x.shape} with strides {x.strides}"
        same(t.clone(), x, what)
        same(t.contiguous(), x, what)
        if x.ndim == 0:
            continue
        axis = int(random.integers(x.ndim))
        same(ex.flip(t, axis), np.flip(x, axis), what)
        same(ex.concat([t, t], axis), np.concatenate([x, x], axis), what)
        # Into every other column of a larger tensor, in reverse.
        into = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        target = ex.asarray(into)
        into[..., -2::-2] = x
        target[..., -2::-2] = t
        same(target, into, what)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_and_sorting(dtype):
    random = np.random.default_rng(50 + DTYPES.index(dtype))
    for _ in range(40):
        x, t = layout(random, dtype)
        what = f"{x.shape} with strides {x.strides}"
        if x.ndim == 0 or x.size == 0:
            continue
        axis = int(random.integers(x.ndim))
        for name in ("max", "min", "any", "all", "argmax", "argmin", "sort"):
            same(getattr(ex, name)(t, axis=axis), getattr(np, name)(x, axis=axis), f"{name} of axis {axis}, {what}")
        same(ex.argsort(t, axis=axis), np.argsort(x, axis=axis, kind="stable"), what)
        rows = np.moveaxis(x, axis, -1)
        middle = np.sort(rows, -1)[..., (rows.shape[-1] - 1) // 2]
        if x.dtype.kind == "f":
            middle = np.where(np.isnan(rows).any(-1), np.array(np.nan, dtype), middle)
        else:
            same(ex.sum(t, axis=axis), np.sum(x, axis=axis), what)
        same(ex.median(t, axis=axis), middle, what)


def convolution(x, weight, stride, padding, dilation, groups):
    """The convolution and, for a gradient of the result, those of x and of the weight, tap by tap."""
    (n, channels, height, width), (filters, _, *taps) = x.shape, weight.shape
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    out = [(size - d * (t - 1) - 1) // s + 1 for size, d, t, s in zip(padded.shape[2:], dilation, taps, stride)]
    places = [
        (i, j, (..., *(slice(k * d, k * d + (o - 1) * s + 1, s) for k, d, o, s in zip((i, j), dilation, out, stride))))
        for i in range(taps[0])
        for j in range(taps[1])
    ]
    split = weight.reshape(groups, filters // groups, channels // groups, *taps)

    def grouped(y):
        return y.reshape(n, groups, -1, *out)

    result = sum(np.einsum("ngchw,goc->ngohw", grouped(padded[at]), split[..., i, j]) for i, j, at in places)

    def gradients(g):
        of_x, of_weight = np.zeros_like(padded), np.zeros_like(split)
        for i, j, at in places:
            of_x[at] += np.einsum("ngohw,goc->ngchw", grouped(g), split[..., i, j]).reshape(n, channels, *out)
            of_weight[..., i, j] = np.einsum("ngchw,ngohw->goc", grouped(padded[at]), grouped(g))
        inside = of_x[..., padding[0] : padding[0] + height, padding[1] : padding[1] + width]
        return inside, of_weight.reshape(weight.shape)

    return result.reshape(n, filters, *out), gradients


@pytest.mark.parametrize("kind", ["any", "side by side", "pointwise", "depthwise", "three by three"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions(kind, channels_last):
    random = np.random.default_rng(len(kind))

    def pair(low, high):
        return tuple(int(k) for k in random.integers(low, high, 2))

    for _ in range(60):
        taps, stride, padding, dilation = pair(1, 6), pair(1, 5), pair(0, 4), pair(1, 3)
        n, (a, b), groups = int(random.integers(1, 4)), pair(1, 20), int(random.choice([1, 1, 3]))
        if kind == "side by side":
            stride, padding, dilation = taps, (0, 0), (1, 1)
        elif kind == "pointwise":
            taps, dilation = (1, 1), (1, 1)
        elif kind == "depthwise":
            a, b, groups = 1, 1, a
        elif kind == "three by three":
            taps, stride, padding, dilation, groups = (3, 3), (1, 1), (1, 1), (1, 1), 1
        least = [max(1, d * (t - 1) + 1 - 2 * p) for d, t, p in zip(dilation, taps, padding)]
        size = [m + int(random.choice([0, 1, 2, 5, 9, 16, 33])) for m in least]
        if kind == "side by side":
            size = [t * int(random.integers(1, 18)) for t in taps]
        dtype, allowed = (("float32", 2e-5), ("float64", 1e-13))[random.integers(2)]
        # Sixteenths, which both dtypes hold.
        x = np.round(16 * random.standard_normal((n, a * groups, *size))) / 16
        weight = np.round(16 * random.standard_normal((b * groups, a, *taps))) / 16
        t, w = ex.asarray(x.astype(dtype)), ex.asarray(weight.astype(dtype))
        if channels_last:
            t = t.transpose(0, 2, 3, 1).contiguous().transpose(0, 3, 1, 2)
        t.requires_grad_()
        w.requires_grad_()
        found = ex.conv2d(t, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
        expected, gradients = convolution(x, weight, stride, padding, dilation, groups)
        g = np.round(16 * random.standard_normal(expected.shape)) / 16
        found.backward(ex.asarray(g.astype(dtype)))
        what = f"x {x.shape}, weight {weight.shape}, {stride=}, {padding=}, {dilation=}, {groups=}"
        for y, z in zip((found.detach(), t.grad, w.grad), (expected, *gradients(g)), strict=True):
            np.testing.assert_allclose(y.numpy(), z, rtol=0, atol=allowed * np.abs(z).max(), err_msg=what)
