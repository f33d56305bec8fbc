"""How PyTorch's ops are called in ExTensor, for sample_inputs.py.

CALLS maps the name of an op in PyTorch's database to a function of PyTorch's arguments that returns
the equivalent expression: C.sum(x, axes=1) stands for the call of extensor::sum. An argument that
is None is left out. A function raises LeftOut with the reason where no equivalent exists, or where
the result differs on purpose; docs/coming-from-pytorch.md names those differences.
"""

import math

import torch


class LeftOut(Exception):
    """No equivalent of this sample; the text is the reason."""


class Call:
    """The call of a public function by its name."""

    def __init__(self, name, arguments, named):
        arguments = list(arguments)
        while arguments and arguments[-1] is None:
            arguments.pop()
        self.name, self.arguments = name, arguments
        self.named = {key: value for key, value in named.items() if value is not None}


class Part:
    """One of several results of a call."""

    def __init__(self, of, index):
        self.of, self.index = of, index


class Options(dict):
    """An options struct; fields that are None keep their default."""

    def __init__(self, **fields):
        super().__init__({key: value for key, value in fields.items() if value is not None})


class Results(list):
    """Several results, each an expression, or None for a result of PyTorch that is not compared."""


class ValuesOnly:
    """A call whose derivatives differ on purpose, or all but the first; the text is the reason."""

    def __init__(self, call, reason, first=False):
        self.call, self.reason, self.first = call, reason, first


def unchanged(value):
    return value


class Compared:
    """A call, or a list of calls, that is compared with PyTorch's results for prepare(input), processed."""

    def __init__(self, call, prepare=unchanged, process=unchanged):
        self.call, self.prepare, self.process = call, prepare, process


class Calls:
    def __getattr__(self, name):
        return lambda *arguments, **named: Call(name, arguments, named)


C = Calls()
NOT_THERE = "not in the library"


def leave_out(condition, reason=NOT_THERE):
    if condition:
        raise LeftOut(reason)


def dtype_name(dtype):
    if dtype is None:
        return None
    name = str(dtype).removeprefix("torch.")
    leave_out(name == "complex32", "complex32")
    return "bool_" if name == "bool" else name


def expression(value, name_of):
    """A call and its arguments as JSON; tests/support/call_expression.h states the form. name_of(tensor) is
    the name of a tensor."""
    if isinstance(value, Call):
        return {"call": value.name, "arguments": [expression(each, name_of) for each in value.arguments],
                "named": {key: expression(each, name_of) for key, each in value.named.items()}}
    if isinstance(value, Part):
        return {"part": value.index, "of": expression(value.of, name_of)}
    if isinstance(value, Options):
        return {"options": {key: expression(each, name_of) for key, each in value.items()}}
    if isinstance(value, torch.Tensor):
        return {"tensor": name_of(value)}
    if isinstance(value, (list, tuple)):
        return [expression(each, name_of) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    leave_out(isinstance(value, complex), "complex numbers as arguments")
    leave_out(not (value is None or isinstance(value, (bool, int, float, str))),
              f"arguments of type {type(value).__name__}")
    return value


def whole(value):
    """Sizes and axes as a list of integers."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    return [int(each) for each in value] if isinstance(value, (list, tuple)) else int(value)


def axes(dim):
    return None if dim is None or dim == () or dim == [] else whole(dim)


def sizes(shape):
    """Sizes that are passed one by one or as a list."""
    return whole(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)


# ---- elementwise


UNARY = """abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfinv exp exp2 expm1 floor
isfinite isinf isnan lgamma log log10 log1p log2 logical_not neg positive reciprocal rsqrt sigmoid sign
sin sinh sqrt square tan tanh trunc ravel""".split()
RENAMED = {
    "bitwise_not": "bitwise_invert", "nn.functional.relu": "relu", "nn.functional.relu6": "relu6",
    "nn.functional.selu": "selu", "nn.functional.silu": "silu", "nn.functional.mish": "mish",
    "nn.functional.logsigmoid": "log_sigmoid", "nn.functional.hardsigmoid": "hard_sigmoid",
    "nn.functional.hardswish": "hard_swish", "special.ndtr": "normal_cdf", "T": "transpose",
    "mT": "matrix_transpose",
}
BINARY = """atan2 hypot copysign logaddexp maximum minimum floor_divide remainder pow eq ne lt le gt ge
logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift
bitwise_right_shift mul true_divide""".split()
BINARY_NAMES = {"true_divide": "divide"}
REFLECTED = {"__radd__": "add", "__rsub__": "subtract", "__rmul__": "multiply", "__rdiv__": "divide",
             "__rmod__": "modulo", "__rpow__": "power", "__rand__": "bitwise_and",
             "__ror__": "bitwise_or", "__rxor__": "bitwise_xor", "__rmatmul__": "matmul"}


def unary(name):
    return lambda x: getattr(C, name)(x)


def binary(name):
    return lambda a, b: getattr(C, name)(a, b)


def reflected(name):
    return lambda a, b: getattr(C, name)(b, a)


def scaled(name):
    def made(a, b, alpha=1):
        return getattr(C, name)(a, b if alpha == 1 else C.multiply(b, alpha))
    return made


def divide(a, b, rounding_mode=None):
    return C.divide(a, b, rounding=rounding_mode)


def clamp(x, min=None, max=None):
    if min is None and max is None:
        raise LeftOut("no bounds")
    if isinstance(min, torch.Tensor) or isinstance(max, torch.Tensor):
        leave_out(min is not None and max is not None and
                  not (isinstance(min, torch.Tensor) and isinstance(max, torch.Tensor)),
                  "one bound a tensor and the other a number")
        return C.clip(x, min, max)
    return C.clip(x, Options(min=min, max=max))


def gelu(x, approximate="none"):
    return C.gelu(x, {"none": False, "tanh": True}[approximate])


def float_only(name):
    def made(x, *arguments, **named):
        leave_out(not x.dtype.is_floating_point, "activations of integers are floats")
        return getattr(C, name)(x, *arguments, *named.values())
    return made


def hardsigmoid(x):
    return ValuesOnly(C.hard_sigmoid(x), "gradients: PyTorch rounds the slope 1/6 to float32")


def power(a, b):
    def is_fractional(each):
        if isinstance(each, torch.Tensor):
            return each.dtype.is_floating_point or each.dtype.is_complex
        return isinstance(each, (float, complex))

    leave_out(not is_fractional(a) and not is_fractional(b) and
              (b.lt(0).any() if isinstance(b, torch.Tensor) else b < 0),
              "an integer to a negative power is an error")
    return C.pow(a, b)


def round_(x, decimals=0):
    leave_out(decimals != 0)
    return C.round(x)


TRIGAMMA = "trigamma: PyTorch's has relative errors of 5e-10 in float64, 4 % next to poles in float32"


def polygamma(x, n):
    leave_out(n == 1, TRIGAMMA)
    return ValuesOnly(C.polygamma(x, n), TRIGAMMA) if n == 0 else C.polygamma(x, n)


def softplus(x, beta=1, threshold=20):
    leave_out(threshold != 20, "softplus has no threshold: it is exact everywhere")
    return C.softplus(x, beta)


def prelu(x, weight):
    leave_out(weight.dim() > 1 or (x.dim() == 0 and weight.numel() > 1), "prelu broadcasts its weight")
    if x.dim() == 0:
        weight = C.reshape(weight, [])
    elif weight.numel() > 1 and x.dim() > 2:
        weight = C.reshape(weight, [-1] + [1] * (x.dim() - 2))
    return C.prelu(x, weight)


def where(a, condition, b):
    return C.where(condition, a, b)


# ---- reductions


def reduction(name, **defaults):
    def made(x, dim=None, keepdim=False, dtype=None, **options):
        leave_out(options)
        arguments = [x, axes(dim), keepdim] + ([dtype_name(dtype)] if dtype is not None else [])
        return getattr(C, name)(*arguments)
    return made


def mean(x, dim=None, keepdim=False, dtype=None):
    leave_out(not x.dtype.is_floating_point and dtype is None, "mean of integers is a float")
    return reduction("mean")(x, dim, keepdim, dtype)


def extremum(name):
    def made(x, dim=None, keepdim=False, other=None):
        if isinstance(dim, torch.Tensor) or other is not None:
            return getattr(C, f"{name}imum")(x, other if other is not None else dim)
        if dim is None:
            return getattr(C, f"{name}_reduce")(x)
        return getattr(C, f"{name}_with_indices")(x, dim, keepdim)
    return made


def arg_extremum(name):
    return lambda x, dim=None, keepdim=False: getattr(C, name)(x, dim, keepdim)


def spread(name):
    def made(x, dim=None, unbiased=None, *, correction=None, keepdim=False):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        leave_out(correction < 0, "a negative correction")
        return getattr(C, name)(x, axes(dim), correction, keepdim)
    return made


def norm(x, p="fro", dim=None, keepdim=False, dtype=None):
    leave_out(p == "nuc" or dtype is not None)
    return C.norm(x, 2 if p in ("fro", None) else p, axes(dim), keepdim)


def vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    leave_out(dtype is not None)
    return C.norm(x, ord, axes(dim), keepdim)


def cumulative(name):
    def made(x, dim, dtype=None):
        return getattr(C, name)(x, dim, *([dtype_name(dtype)] if dtype is not None else []))
    return made


def softmax(name):
    def made(x, dim=None, dtype=None, **_):
        return getattr(C, name)(x, dim, *([dtype_name(dtype)] if dtype is not None else []))
    return made


def median(x, dim=None, keepdim=False):
    if dim is None:
        return C.median(x)
    return Results([C.median(x, dim, keepdim), None])


def quantile(x, q, dim=None, keepdim=False, interpolation="linear"):
    q = q.tolist() if isinstance(q, torch.Tensor) else q
    return C.quantile(x, q, dim, keepdim, interpolation)


def histogram(x, bins, range=None, weight=None, density=False):
    leave_out(weight is not None or density or not isinstance(bins, int))
    counts = C.histogram(x, bins, None if range is None else list(range))
    return Results([C.to(Part(counts, 0), dtype_name(x.dtype)), Part(counts, 1)])


def bincount(x, weights=None, minlength=0):
    leave_out(weights is not None and not weights.dtype.is_floating_point,
              "bincount sums weights in their dtype")
    return C.bincount(x, weights, minlength)


def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    leave_out(dim is not None)
    found = C.unique_all(x)
    return Results([Part(found, 0)] + [Part(found, 2)] * return_inverse +
                   [Part(found, 3)] * return_counts)


def searchsorted(sequence, values, out_int32=False, right=False, side=None, sorter=None):
    leave_out(not isinstance(values, torch.Tensor))
    sorter = [] if sorter is None else [sorter]
    found = C.searchsorted(sequence, values, right or side == "right", *sorter)
    return C.to(found, "int32") if out_int32 else found


def has_ties(x):
    return not x.dtype.is_floating_point


def sort(x, dim=-1, descending=False, stable=None):
    ordered = C.sort_with_indices(x, dim, descending)
    if stable or not has_ties(x):
        return ordered
    return Results([Part(ordered, 0), None])  # PyTorch leaves the order of equal elements open


def argsort(x, dim=-1, descending=False, stable=None):
    leave_out(not stable and has_ties(x), "the order of equal elements, which PyTorch leaves open")
    return C.argsort(x, dim, descending)


def topk(x, k, dim=-1, largest=True, sorted=True):
    found = C.topk(x, k, dim, largest, sorted)
    return Results([Part(found, 0), None]) if has_ties(x) else found


CALLS = {
    **{name: unary(name) for name in UNARY},
    **{name: unary(ours) for name, ours in RENAMED.items()},
    **{name: binary(BINARY_NAMES.get(name, name)) for name in BINARY},
    **{name: reflected(ours) for name, ours in REFLECTED.items()},
    "add": scaled("add"), "sub": scaled("subtract"),
    "rsub": lambda a, b, alpha=1: scaled("subtract")(b, a, alpha),
    "div": divide, "clamp": clamp, "clamp_min": lambda x, min: clamp(x, min=min),
    "clamp_max": lambda x, max: clamp(x, max=max), "round": round_, "where": where,
    "nn.functional.gelu": gelu, "nn.functional.hardsigmoid": hardsigmoid,
    "nn.functional.relu6": float_only("relu6"), "nn.functional.hardtanh": float_only("hard_tanh"),
    "pow": power, "__rpow__": lambda a, b: power(b, a),
    "polygamma": polygamma, "special.polygamma": polygamma, "nn.functional.softplus": softplus, "nn.functional.prelu": prelu,
    "isclose": lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: C.isclose(a, b, rtol, atol, equal_nan),
    "allclose": lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: C.allclose(a, b, rtol, atol, equal_nan),
    "clone": lambda x, memory_format=None: C.clone(x),
    **{name: reduction(name) for name in ("sum", "prod", "all", "any", "count_nonzero", "logsumexp")},
    "mean": mean, "amax": reduction("amax"), "amin": reduction("amin"),
    "max": extremum("max"), "min": extremum("min"),
    "argmax": arg_extremum("argmax"), "argmin": arg_extremum("argmin"),
    "var": spread("var"), "std": spread("std"), "norm": norm, "linalg.vector_norm": vector_norm,
    "cumsum": cumulative("cumulative_sum"), "cumprod": cumulative("cumulative_prod"),
    "softmax": softmax("softmax"), "log_softmax": softmax("log_softmax"),
    "digamma": lambda x: ValuesOnly(C.digamma(x), TRIGAMMA),
    "lgamma": lambda x: ValuesOnly(C.lgamma(x), TRIGAMMA, first=True),
    "median": median, "quantile": quantile, "histogram": histogram,
    "bincount": bincount,
    "unique": unique, "searchsorted": searchsorted, "sort": sort, "argsort": argsort,
    "msort": lambda x: C.sort(x, 0), "topk": topk,
    "bucketize": lambda x, boundaries, **options: searchsorted(boundaries, x, **options),
}
