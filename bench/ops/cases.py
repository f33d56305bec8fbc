"""What `./ex bench ops` measures: for a number of elements, calls of PyTorch ops with the specification of their
tensors. tests/pytorch has the equivalent calls of ExTensor."""

import math

FLOATS = ("float32", "bfloat16", "float64")
NUMBERS = ("float32", "bfloat16", "float64", "int64")


class T:
    """A tensor argument. `values`: normal; uniform(low, high); integers(low, high); bool; sorted; permutation.
    Floating tensors take the dtype of the measurement, and its layout unless `fixed`; those without `fixed` also get a
    gradient. A layout of its own: `order`, the axes from the slowest to the fastest in memory, or `stepped`, an axis
    of which every second element is used."""

    def __init__(self, *shape, values="normal", low=None, high=None, dtype=None, fixed=False, gradient=None,
                 order=None, stepped=None):
        self.shape, self.values, self.low, self.high = [int(size) for size in shape], values, low, high
        if dtype is None and values in ("integers", "bool"):
            dtype = {"integers": "int64", "bool": "bool"}[values]
        self.dtype, self.fixed = dtype, fixed or dtype is not None or order is not None or stepped is not None
        self.gradient = dtype is None and not fixed if gradient is None else gradient
        self.order, self.stepped = order, stepped


class Case:
    """One call of a PyTorch op. `label` distinguishes it from others of the op. `most` bounds the number of elements:
    ops whose time grows faster, or which are slow, are not measured beyond it."""

    def __init__(self, op, *arguments, label="", backward=True, dtypes=("float32",), layouts=False, most=None,
                 **named):
        self.op, self.arguments, self.named, self.label = op, list(arguments), named, label
        self.backward, self.dtypes, self.layouts, self.most = backward, dtypes, layouts, most


def indices(*shape, below):
    return T(*shape, values="integers", low=0, high=below)


def positive(*shape):
    return T(*shape, values="uniform", low=0.5, high=4)


def unit(*shape):
    return T(*shape, values="uniform", low=-0.9, high=0.9)


# ---- elementwise

POSITIVE = "acosh digamma lgamma log log10 log1p log2 reciprocal rsqrt sqrt".split()
UNIT = "acos asin atanh erfinv".split()
UNARY = """abs acos acosh asin asinh atan atanh cos cosh digamma erf erfinv exp exp2 expm1 lgamma log log10 log1p log2
neg reciprocal rsqrt sigmoid sin sinh sqrt square tan tanh special.ndtr nn.functional.relu nn.functional.relu6
nn.functional.selu nn.functional.silu nn.functional.mish nn.functional.logsigmoid nn.functional.hardsigmoid
nn.functional.hardswish nn.functional.gelu nn.functional.softplus nn.functional.hardtanh nn.functional.leaky_relu
nn.functional.elu""".split()
FLAT = "ceil floor isfinite isinf isnan logical_not round sign trunc".split()
IN_MANY_DTYPES = "abs exp neg square tanh sigmoid nn.functional.relu nn.functional.gelu sqrt".split()


def elementwise(n):
    shape = (n // 1024, 1024)
    for op in UNARY:
        values = positive if op in POSITIVE else unit if op in UNIT else T
        x = values(*shape)
        if op == "acosh":
            x = T(*shape, values="uniform", low=1.1, high=9)
        yield Case(op, x, dtypes=FLOATS if op in IN_MANY_DTYPES else ("float32",), layouts=True)
    for op in FLAT:
        yield Case(op, T(*shape), backward=False, layouts=True)
    yield Case("nn.functional.gelu", T(*shape), approximate="tanh", label="tanh")
    yield Case("nn.functional.glu", T(*shape))
    yield Case("nn.functional.prelu", T(*shape), T(1, fixed=True, gradient=True))
    for op in ("add", "sub", "mul", "div", "maximum", "minimum"):
        yield Case(op, T(*shape), T(*shape), dtypes=NUMBERS if op != "div" else FLOATS, layouts=True)
        yield Case(op, T(*shape), T(1024), label="a row")
        yield Case(op, T(*shape), T(shape[0], 1), label="a column")
    yield Case("add", T(*shape), T(*shape, order=[1, 0]), label="transposed operand")
    yield Case("add", T(*shape), 2.0, label="number")
    for op in ("atan2", "hypot", "copysign", "logaddexp"):
        yield Case(op, T(*shape), T(*shape), layouts=op == "hypot")
    for op in ("floor_divide", "remainder"):
        yield Case(op, T(*shape), positive(*shape), backward=op == "remainder", layouts=True)
        yield Case(op, indices(*shape, below=1000), T(*shape, values="integers", low=1, high=100), label="int64",
                   backward=False)
    yield Case("pow", positive(*shape), T(*shape), layouts=True)
    for exponent in (2, 3, 4, -1, -2, 0.5, 2.5):
        yield Case("pow", positive(*shape), exponent, label=str(exponent), dtypes=FLOATS if exponent == 3 else
                   ("float32",))
    yield Case("pow", indices(*shape, below=10), 3, label="int64, 3", backward=False)
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        yield Case(op, T(*shape), T(*shape), backward=False, dtypes=NUMBERS if op == "lt" else ("float32",),
                   layouts=op == "lt")
    for op in ("logical_and", "logical_or", "logical_xor"):
        yield Case(op, T(*shape, values="bool"), T(*shape, values="bool"), backward=False)
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield Case(op, indices(*shape, below=1000), indices(*shape, below=1000), backward=False)
    for op in ("bitwise_left_shift", "bitwise_right_shift"):
        yield Case(op, indices(*shape, below=1000), indices(*shape, below=8), backward=False)
    yield Case("bitwise_not", indices(*shape, below=1000), backward=False)
    yield Case("where", T(*shape), T(*shape, values="bool"), T(*shape), layouts=True)
    yield Case("clamp", T(*shape), min=-0.5, max=0.5, layouts=True)
    yield Case("isclose", T(*shape), T(*shape), backward=False)
    yield Case("allclose", T(*shape, fixed=True), T(*shape, fixed=True), backward=False)
    yield Case("polygamma", positive(*shape), 1, most=2**21)
    for target in ("bool", "byte", "int", "long", "half", "bfloat16", "double"):
        yield Case(target, T(*shape), backward=target in ("half", "bfloat16", "double"), layouts=target == "double")
    for source, target in (("float64", "float"), ("float16", "float"), ("bfloat16", "float"), ("int64", "float"),
                           ("int64", "int"), ("int32", "long"), ("uint8", "float"), ("bool", "float")):
        values = {"bool": "bool", "uint8": "integers"}.get(source, "normal")
        yield Case(target, T(*shape, values=values, low=0, high=100, dtype=source), label=f"of {source}",
                   backward=False)


# ---- reductions and sorting


def reductions(n):
    rows, columns = n // 512, 512
    for op in ("sum", "mean", "amax", "amin", "prod", "logsumexp", "var", "std", "norm"):
        dtypes = {"sum": NUMBERS, "mean": FLOATS, "amax": NUMBERS}.get(op, ("float32",))
        x = T(rows, columns, values="uniform", low=0.99, high=1.01) if op == "prod" else T(rows, columns)
        if op != "logsumexp" and op not in ("amax", "amin"):
            yield Case(op, x, label="all", dtypes=dtypes)
        for axis in (0, 1):
            yield Case(op, x, dim=axis, label=f"axis {axis}", dtypes=dtypes, layouts=True)
    yield Case("sum", T(n // 2048, 32, 64), dim=[0, 2], label="axes 0 and 2")
    yield Case("prod", T(rows, columns, values="integers", low=1, high=3), label="int64", backward=False)
    yield Case("norm", T(rows, columns), p=1, label="1-norm")
    yield Case("norm", T(rows, columns), p=3, label="3-norm")
    yield Case("norm", T(rows, columns), p=math.inf, label="inf-norm")
    for op in ("max", "min"):
        yield Case(op, T(rows, columns), label="all", dtypes=NUMBERS)
        for axis in (0, 1):
            yield Case(op, T(rows, columns), dim=axis, label=f"axis {axis}")
    for op in ("argmax", "argmin"):
        for axis in (0, 1):
            yield Case(op, T(rows, columns), dim=axis, label=f"axis {axis}", backward=False, layouts=True)
    for op in ("all", "any", "count_nonzero"):
        x = T(rows, columns, values="bool")
        yield Case(op, x, label="bool", backward=False)
        yield Case(op, T(rows, columns), label="float32", backward=False)
        yield Case(op, x, dim=1, label="bool, axis 1", backward=False)
        yield Case(op, T(rows, columns), dim=1, label="float32, axis 1", backward=False)
    for op in ("cumsum", "cumprod"):
        for axis in (0, 1):
            yield Case(op, T(rows, columns, values="uniform", low=0.99, high=1.01), dim=axis, label=f"axis {axis}",
                       layouts=op == "cumsum")
    for op in ("softmax", "log_softmax"):
        for axis in (0, 1):
            yield Case(op, T(rows, columns), dim=axis, label=f"axis {axis}", dtypes=FLOATS, layouts=True)
        yield Case(op, T(n // 32768, 32768), dim=1, label="long rows")
        yield Case(op, T(n // 16, 16), dim=1, label="short rows")
    yield Case("median", T(rows, columns), dim=1, most=2**21)
    yield Case("quantile", T(rows, columns), 0.3, dim=1, most=2**21)
    yield Case("bincount", indices(n, below=1000), backward=False)
    yield Case("histogram", T(n), 100, range=[-1.0, 1.0], backward=False, most=2**21)
    yield Case("unique", indices(n, below=1000), backward=False, label="of 1000", most=2**21)
    yield Case("unique", indices(n, below=2**40), backward=False, label="of many", most=2**21)
    yield Case("unique", T(n), backward=False, label="float32", most=2**21)
    yield Case("searchsorted", T(1024, values="sorted", gradient=False, fixed=True),
               T(n, values="uniform", low=0, high=1024, gradient=False), backward=False)
    yield Case("bucketize", T(n, values="uniform", low=0, high=64, gradient=False),
               T(64, values="sorted", gradient=False, fixed=True), backward=False)
    for dtype in ("float32", "int64"):
        of = f", {dtype}" if dtype != "float32" else ""
        for shape, label in (((n,), "vector"), ((rows, columns), "rows")):
            x = T(*shape, values="integers", low=-2**40, high=2**40) if dtype == "int64" else T(*shape)
            yield Case("sort", x, label=label + of, backward=dtype == "float32", most=2**21)
            yield Case("argsort", x, stable=True, label=label + of, backward=False, most=2**21)
    yield Case("sort", indices(n, below=1000), label="vector of 1000 values, int64", backward=False, most=2**21)
    yield Case("msort", T(rows, columns), most=2**21)
    yield Case("topk", T(n), 10, label="10 of a vector", most=2**21)
    yield Case("topk", T(rows, columns), 10, label="10 of rows", most=2**21)
    yield Case("topk", T(n), n // 4, label="a quarter of a vector", most=2**21)


# ---- shapes and indexing


def shapes(n):
    rows, columns = n // 1024, 1024
    half = rows // 2
    x = T(rows, columns)
    yield Case("reshape", x, [n], label="copy", dtypes=NUMBERS, layouts=True)
    yield Case("reshape", T(rows, columns, stepped=0), [n], label="of every second row", dtypes=FLOATS)
    square = 2 ** (int(math.log2(n)) // 2)
    yield Case("reshape", T(square, n // square, order=[1, 0]), [n], label="of a transposed square")
    for order in ([0, 2, 1], [1, 0, 2], [2, 0, 1], [1, 2, 0]):
        yield Case("reshape", T(n // 4096, 64, 64, order=order), [n], label=f"of axes in the order {order}")
    yield Case("reshape", T(n // 16384, 16, 32, 32, order=[0, 2, 3, 1]), [n], label="of channels last")
    yield Case("reshape", T(8, n // 8 // 512, 8, 64, order=[0, 2, 1, 3]), [n], label="of attention heads")
    yield Case("clone", x, dtypes=NUMBERS)
    yield Case("cat", [T(half, columns), T(half, columns)], 0, label="axis 0")
    yield Case("cat", [T(rows, columns // 2), T(rows, columns // 2)], 1, label="axis 1")
    yield Case("cat", [T(n // 64, 16)] + [T(n // 64, 16) for _ in range(3)], -1, label="4 short rows")
    yield Case("stack", [T(half, columns), T(half, columns)], 0, label="axis 0")
    yield Case("stack", [T(half, columns), T(half, columns)], -1, label="axis -1")
    for axis in (0, 1):
        yield Case("roll", x, 3, axis, label=f"axis {axis}")
        yield Case("repeat_interleave", T(half, columns), 2, axis, label=f"axis {axis}")
    yield Case("roll", T(n), 100, label="vector")
    yield Case("tile", T(half, columns), [2, 1], label="rows")
    yield Case("tile", T(rows, columns // 2), [1, 2], label="columns")
    yield Case("tile", T(n // 8, 4), [1, 2], label="short rows")
    yield Case("repeat_interleave", T(n // 4), 4, label="vector")
    yield Case("tril", T(square, n // square))
    yield Case("triu", T(n // 16384, 128, 128), label="batch")
    for mode in ("constant", "reflect", "replicate", "circular"):
        yield Case("nn.functional.pad", T(n // 16384, 16, 32, 32), [1, 1, 1, 1], mode=mode, label=mode)
    yield Case("nn.functional.pad", x, [0, 8], label="rows")
    yield Case("meshgrid", T(rows, fixed=True), T(columns, fixed=True), indexing="ij", backward=False)
    yield Case("nn.functional.pixel_shuffle", T(n // 16384, 16, 32, 32), 2)
    yield Case("nn.functional.pixel_unshuffle", T(n // 16384, 4, 64, 64), 2)


def indexing(n):
    rows, columns = n // 512, 512
    x = T(rows, columns)
    for axis in (0, 1):
        below = (rows, columns)[axis]
        index = indices(rows, columns, below=below)
        yield Case("gather", x, axis, index, label=f"axis {axis}")
        yield Case("scatter", x, axis, index, T(rows, columns), label=f"axis {axis}")
        yield Case("scatter_add", x, axis, index, T(rows, columns), label=f"axis {axis}")
        yield Case("index_select", x, axis, indices(below, below=below), label=f"axis {axis}")
        yield Case("index_add", x, axis, indices(below, below=below), T(rows, columns), label=f"axis {axis}")
    yield Case("take_along_dim", x, indices(rows, columns, below=columns), dim=1)
    yield Case("scatter_reduce", x, 1, indices(rows, columns, below=columns), T(rows, columns), "amax", label="amax")
    yield Case("gather", x, 1, indices(rows, 1, below=columns), label="one of each row")
    yield Case("take", T(n), indices(n, below=n))
    yield Case("index_select", T(n), 0, indices(n, below=n), label="vector")
    yield Case("__getitem__", x, indices(rows, below=rows), label="rows")
    yield Case("masked_select", x, T(rows, columns, values="bool"))
    yield Case("masked_fill", x, T(rows, columns, values="bool"), 1.0, layouts=True)
    yield Case("nonzero", T(rows, columns, values="bool"), as_tuple=True, backward=False)
    yield Case("nn.functional.one_hot", indices(n // 64, below=64), 64, backward=False)
    yield Case("nn.functional.embedding", T(4096, 128, fixed=True, gradient=True), indices(n // 128, below=4096))


def creation(n):
    square = 2 ** (int(math.log2(n)) // 2)
    yield Case("zeros", [n], backward=False)
    yield Case("ones", [n], backward=False)
    yield Case("full", [n], 2.5, backward=False)
    yield Case("arange", n, backward=False, label="int64")
    yield Case("linspace", 0, 1, n, backward=False)
    yield Case("eye", square, n // square, backward=False)
    yield Case("rand", n, backward=False)
    yield Case("randn", n, backward=False)
    yield Case("randint", 0, 100, [n], backward=False)
    yield Case("randperm", n, backward=False, most=2**21)
    yield Case("multinomial", T(64, 1024, values="uniform", low=0.1, high=1, fixed=True), n // 128, True,
               backward=False, most=2**21)
    yield Case("nn.functional.dropout", T(n), 0.5)


# ---- matrices and networks


def matrices(n):
    square = 2 ** (int(math.log2(n)) // 2)
    most = 2**21
    yield Case("matmul", T(square, square), T(square, square), dtypes=FLOATS, layouts=True, most=most)
    yield Case("bmm", T(n // 4096, 64, 64), T(n // 4096, 64, 64), most=most)
    yield Case("mv", T(n // 512, 512), T(512))
    yield Case("dot", T(n), T(n))
    yield Case("outer", T(n // 1024), T(1024))
    yield Case("inner", T(square, square), T(square), label="matrix and vector")
    yield Case("tensordot", T(n // 4096, 64, 64), T(64, 64, 8), most=most)
    yield Case("einsum", "bij,bjk->bik", [T(n // 4096, 64, 64), T(n // 4096, 64, 64)], most=most)
    yield Case("linalg.vecdot", T(n // 512, 512), T(n // 512, 512))
    yield Case("nn.functional.linear", T(n // 256, 256), T(256, 256, fixed=True, gradient=True),
               T(256, fixed=True, gradient=True), most=most)


def networks(n):
    most = 2**21
    batch = max(n // 16384, 1)
    image, signal = T(batch, 16, 32, 32), T(batch, 16, 1024)
    volume = T(batch, 4, 16, 16, 16)
    weight = {"fixed": True, "gradient": True}
    yield Case("nn.functional.conv1d", signal, T(16, 16, 3, **weight), padding=1, most=most)
    yield Case("nn.functional.conv2d", image, T(16, 16, 3, 3, **weight), padding=1, most=most)
    yield Case("nn.functional.conv2d", image, T(16, 16, 3, 3, **weight), padding=1, stride=2, label="stride 2",
               most=most)
    yield Case("nn.functional.conv2d", image, T(16, 1, 5, 5, **weight), padding=2, groups=16, label="depthwise",
               most=most)
    yield Case("nn.functional.conv2d", image, T(16, 16, 1, 1, **weight), label="1x1", most=most)
    yield Case("nn.functional.conv3d", volume, T(8, 4, 3, 3, 3, **weight), padding=1, most=most)
    yield Case("nn.functional.conv_transpose1d", signal, T(16, 16, 4, **weight), stride=2, padding=1, most=most)
    yield Case("nn.functional.conv_transpose2d", image, T(16, 16, 4, 4, **weight), stride=2, padding=1, most=most)
    yield Case("nn.functional.conv_transpose3d", volume, T(4, 4, 4, 4, 4, **weight), stride=2, padding=1, most=most)
    for axes, x in ((1, signal), (2, image), (3, volume)):
        yield Case(f"nn.functional.max_pool{axes}d", x, 2)
        yield Case(f"nn.functional.avg_pool{axes}d", x, 2)
    yield Case("nn.functional.max_pool2d", image, 3, stride=2, padding=1, label="3x3, stride 2")
    yield Case("nn.functional.adaptive_avg_pool2d", image, [1, 1])
    for mode in ("nearest", "bilinear", "bicubic"):
        yield Case("nn.functional.interpolate", T(max(batch // 4, 1), 16, 32, 32), scale_factor=2.0, mode=mode,
                   label=mode)
    channels = T(16, fixed=True, gradient=True)
    mean, var = T(16, fixed=True, gradient=False), T(16, values="uniform", low=0.5, high=2, fixed=True, gradient=False)
    yield Case("nn.functional.batch_norm", image, mean, var, channels, T(16, **weight), training=True, label="training")
    yield Case("nn.functional.batch_norm", image, mean, var, channels, T(16, **weight), label="evaluation")
    yield Case("nn.functional.instance_norm", image)
    yield Case("nn.functional.group_norm", image, 4, channels, T(16, **weight))
    yield Case("nn.functional.layer_norm", T(n // 256, 256), [256], T(256, **weight), T(256, **weight), dtypes=FLOATS)
    yield Case("nn.functional.rms_norm", T(n // 256, 256), [256], T(256, **weight))
    heads = (max(n // 65536, 1), 8, 128, 64)
    yield Case("nn.functional.scaled_dot_product_attention", T(*heads), T(*heads), T(*heads), most=most)
    yield Case("nn.functional.scaled_dot_product_attention", T(*heads), T(*heads), T(*heads), is_causal=True,
               label="causal", most=most)
    rows, classes = n // 256, 256
    target = {"gradient": False}
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        yield Case(f"nn.functional.{name}", T(rows, classes), T(rows, classes, **target))
    probability = {"values": "uniform", "low": 0.1, "high": 0.9}
    yield Case("nn.functional.binary_cross_entropy", T(rows, classes, **probability),
               T(rows, classes, **probability, **target))
    yield Case("nn.functional.binary_cross_entropy_with_logits", T(rows, classes),
               T(rows, classes, **probability, **target))
    yield Case("nn.functional.kl_div", T(rows, classes), T(rows, classes, **probability, **target))
    yield Case("nn.functional.cross_entropy", T(rows, classes), indices(rows, below=classes))
    yield Case("nn.functional.nll_loss", T(rows, classes), indices(rows, below=classes))
    yield Case("nn.functional.triplet_margin_loss", T(rows, classes), T(rows, classes), T(rows, classes))
    yield Case("nn.functional.cosine_embedding_loss", T(rows, classes), T(rows, classes),
               T(rows, values="integers", low=1, high=2))
    sequences, labels = max(n // 8192, 1), 30
    yield Case("nn.functional.ctc_loss", T(128, sequences, 64, values="uniform", low=-6, high=-2),
               T(sequences, labels, values="integers", low=1, high=64), [128] * sequences, [labels] * sequences,
               most=2**21)
    yield Case("rotary_embedding", T(max(n // 65536, 1), 8, 128, 64))
    yield Case("nn.functional.gaussian_nll_loss", T(rows, classes), T(rows, classes, **target),
               T(rows, classes, values="uniform", low=0.5, high=2, gradient=False))


def cases(n):
    for family in (elementwise, reductions, shapes, indexing, creation, matrices, networks):
        for case in family(n):
            if case.most is None or n <= case.most:
                yield case
