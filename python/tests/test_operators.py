"""Operators, methods and functions, compared with NumPy in every dtype and layout."""

import operator

import numpy as np
import pytest

import extensor as ex

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64"]
LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.T.copy().T,
    "reversed": lambda a: a[::-1, ::-1],
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "empty": lambda a: a[:0],
}


def sample(dtype, seed=0, shape=(3, 4)):
    random = np.random.default_rng(seed)
    return random.integers(1, 9, shape).astype(dtype)


def same(tensor, array, tolerance=0.0):
    """Equal shape and values; the dtype is checked by the caller where both promote alike."""
    result = np.asarray(tensor)
    assert result.shape == np.shape(array)
    np.testing.assert_allclose(result, array, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge"])
def test_binary_operators(name, dtype, layout):
    a, b = (LAYOUTS[layout](sample(dtype, seed)) for seed in (1, 2))
    if name == "sub":
        a, b = np.maximum(a, b), np.minimum(a, b)  # no wrap-around in unsigned dtypes
    f = getattr(operator, name)
    result = f(ex.asarray(a), ex.asarray(b))
    expected = f(a, b)
    same(result, expected)
    assert result.dtype.name == expected.dtype.name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_division_and_power(dtype):
    a, b = sample(dtype, 1), sample(dtype, 2)
    x, y = ex.asarray(a), ex.asarray(b)
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    same(x / y, a / b, tolerance)
    same(x**2, a**2, tolerance)
    same(2.0**y, 2.0**b, tolerance)
    same(x @ y.T, a @ b.T, tolerance * 10)
    same(-x, -a)
    same(abs(-x), a)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_python_numbers_are_weak(dtype):
    x = ex.asarray(sample(dtype))
    assert (x + 1).dtype == x.dtype
    assert (1 + x).dtype == x.dtype
    assert (2 * x).dtype == x.dtype
    expected = x.dtype if x.dtype.is_floating_point else ex.float32
    assert (x * 1.5).dtype == expected
    same(10 - x, 10 - sample(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float32"])
def test_numbers_are_weak_in_functions(dtype):
    array = np.ones(2, dtype)
    for x in (ex.asarray(array), array):
        for function in (ex.add, ex.remainder, ex.modulo, ex.power, ex.maximum, ex.floor_divide):
            assert function(x, 2).dtype.name == dtype, function
            assert function(2, x).dtype.name == dtype, function
        for condition in (ex.asarray([True, False]), np.array([True, False]), [True, False], True):
            assert ex.where(condition, x, 2).dtype.name == dtype
            assert ex.where(condition, 2, x).dtype.name == dtype
    assert ex.add(array, 1.5).dtype.name == ("float32" if dtype.endswith("int8") else dtype)
    assert ex.add([1, 2], [1.5, 2]).dtype.name == "float32"


def test_bitwise_operators():
    a, b = sample("int32", 1), sample("int32", 2)
    x, y = ex.asarray(a), ex.asarray(b)
    for f in (operator.and_, operator.or_, operator.xor):
        same(f(x, y), f(a, b))
        same(f(x > 3, y > 3), f(a > 3, b > 3))
        same(f(x, 5), f(a, 5))
    same(~x, ~a)
    same(~(x > 3), ~(a > 3))


def test_operators_with_arrays_give_tensors():
    a, x = sample("float32", 1), ex.asarray(sample("float32", 2))
    for result in (a + x, x + a, a * x, a - x, a / x, a < x, a @ x.T):
        assert isinstance(result, ex.Tensor)
    same(a - x, a - sample("float32", 2))


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_in_place_operators(name):
    a = sample("float64", 1)
    x = ex.tensor(a)
    view, before = x[0], id(x)
    f = getattr(operator, name)
    expected = f(a.copy(), 2)
    x = f(x, 2)
    assert id(x) == before
    same(x, expected, 1e-15)
    same(view, expected[0], 1e-15)  # views share the memory
    x = f(x, ex.asarray(sample("float64", 3)))
    same(x, f(expected, sample("float64", 3)), 1e-15)


def test_in_place_bitwise_operators():
    a = sample("int64")
    x = ex.tensor(a)
    x &= 6
    x |= 1
    x ^= ex.asarray(a)
    same(x, ((a & 6) | 1) ^ a)


def test_in_place_keeps_the_dtype():
    x = ex.tensor([1, 2])
    with pytest.raises(TypeError, match="cannot be stored in place"):
        x += 0.5
    assert x.tolist() == [1, 2]


def test_unknown_operands():
    x = ex.ones(2)
    with pytest.raises(TypeError):
        x + "a"
    with pytest.raises(TypeError):
        [1, 2] @ x @ "a"
    assert (x == "a") is False
    assert (x != None) is True  # noqa: E711


UNARY = {
    "exp": (-3, 3), "log": (0.1, 5), "sqrt": (0, 5), "sin": (-4, 4), "cos": (-4, 4), "tan": (-1, 1),
    "tanh": (-3, 3), "arcsin": (-1, 1), "floor": (-4, 4), "ceil": (-4, 4), "trunc": (-4, 4),
    "sign": (-4, 4), "square": (-4, 4), "expm1": (-1, 1), "log1p": (-0.5, 3), "log2": (0.1, 5),
    "log10": (0.1, 5), "isnan": (-1, 1), "isfinite": (-1, 1), "abs": (-3, 3), "negative": (-3, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(name):
    low, high = UNARY[name]
    a = np.random.default_rng(0).uniform(low, high, (5, 7))
    own = {"arcsin": "asin"}.get(name, name)
    same(getattr(ex, own)(ex.asarray(a)), getattr(np, name)(a), 1e-13)
    same(getattr(ex.asarray(a), own)(), getattr(np, name)(a), 1e-13)
    same(getattr(ex, own)(a), getattr(np, name)(a), 1e-13)  # arrays are converted


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), ()])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "var", "std", "all", "any"])
def test_reductions(name, axis):
    a = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 4))
    expected = getattr(np, name)(a, axis=axis)
    same(getattr(ex, name)(ex.asarray(a), axis), expected, 1e-13)
    same(getattr(ex.asarray(a), name)(axes=axis), expected, 1e-13)
    kept = getattr(np, name)(a, axis=axis, keepdims=True)
    same(getattr(ex, name)(ex.asarray(a), axis, keepdims=True), kept, 1e-13)


def test_sum_with_dtype():
    a = sample("int8")
    result = ex.sum(ex.asarray(a), dtype="float64")
    assert result.dtype == ex.float64
    same(result, a.sum(dtype="float64"))
    assert ex.asarray(a).sum(0, dtype=ex.int32).dtype == ex.int32


def test_shapes():
    a = sample("float32", shape=(2, 3, 4))
    x = ex.asarray(a)
    same(x.reshape(6, 4), a.reshape(6, 4))
    same(x.reshape((4, -1)), a.reshape(4, -1))
    same(x.reshape([24]), a.reshape(24))
    same(ex.reshape(x, (6, 4)), a.reshape(6, 4))
    same(x.permute(2, 0, 1), a.transpose(2, 0, 1))
    same(x.transpose(0, 2), a.swapaxes(0, 2))
    same(x.transpose(), a.T)
    same(x.T, a.T)
    same(x.mT, a.swapaxes(1, 2))
    same(x.flatten(1), a.reshape(2, 12))
    same(x.unsqueeze(1), a[:, None])
    same(ex.concat([x, x], axis=1), np.concatenate([a, a], 1))
    same(ex.stack([x, x], -1), np.stack([a, a], -1))
    for mine, theirs in zip(ex.split(x, 2, axis=2), np.split(a, 2, 2)):
        same(mine, theirs)
    same(ex.split(x, (1, 3), axis=2)[1], a[:, :, 1:])
    same(ex.flip(x, (0, 2)), np.flip(a, (0, 2)))
    same(ex.roll(x, 1, 1), np.roll(a, 1, 1))
    same(ex.pad(x, [(0, 0), (1, 2), (0, 1)]), np.pad(a, [(0, 0), (1, 2), (0, 1)]))
    same(x.tile((1, 2, 1)), np.tile(a, (1, 2, 1)))
    same(ex.broadcast_to(ex.arange(4), (3, 4)), np.broadcast_to(np.arange(4), (3, 4)))


def test_creation():
    assert ex.zeros(2, 3).shape == (2, 3)
    assert ex.zeros((2, 3)).dtype == ex.float32
    assert ex.zeros([2], dtype="int8").dtype == ex.int8
    assert ex.ones(3, dtype=np.float64).dtype == ex.float64
    assert ex.ones(3, dtype=float).dtype == ex.float32
    assert ex.full((2,), 7).tolist() == [7, 7]
    assert ex.full((), 2.5).item() == 2.5
    assert ex.arange(5).tolist() == [0, 1, 2, 3, 4]
    assert ex.arange(1, 7, 2).tolist() == [1, 3, 5]
    same(ex.arange(0, 1, 0.25, dtype="float64"), np.arange(0, 1, 0.25))
    same(ex.linspace(0, 1, 5, dtype="float64"), np.linspace(0, 1, 5))
    same(ex.linspace(0, 1, 4, endpoint=False, dtype="float64"), np.linspace(0, 1, 4, endpoint=False), 1e-15)
    same(ex.eye(3, 4, 1), np.eye(3, 4, 1))
    assert ex.zeros_like(ex.ones(2, dtype="int32")).dtype == ex.int32
    assert ex.empty(0).tolist() == []


def test_random_numbers_have_seeds():
    a = ex.randn(4, generator=ex.Generator(3))
    b = ex.randn((4,), generator=ex.Generator(3))
    assert a.tolist() == b.tolist()
    ex.manual_seed(5)
    c = ex.rand(3)
    ex.manual_seed(5)
    assert ex.rand(3).tolist() == c.tolist()
    assert sorted(ex.randperm(5).tolist()) == [0, 1, 2, 3, 4]


def test_options_are_keywords():
    x, w = ex.randn(1, 2, 5, 5), ex.randn(3, 2, 3, 3)
    assert ex.conv2d(x, w, stride=2, padding=(1, 0)).shape == (1, 3, 3, 2)
    assert ex.max_pool2d(x, 2, stride=1, ceil_mode=True).shape == (1, 2, 4, 4)
    loss = ex.cross_entropy(ex.randn(4, 3), ex.tensor([0, 1, 2, 0]), reduction="none")
    assert loss.shape == (4,)
    x = ex.tensor([-2.0, 0.5, 2.0])
    assert ex.clip(x, min=0).tolist() == [0, 0.5, 2]
    assert ex.clip(x, max=1).tolist() == [-2, 0.5, 1]
    assert ex.clip(x, -1, 1).tolist() == [-1, 0.5, 1]


def test_results_with_several_parts():
    x = ex.tensor([[3.0, 1.0, 2.0]])
    top = ex.topk(x, 2)
    assert top.values.tolist() == [[3, 2]]
    assert top.indices.tolist() == [[0, 2]]
    values, indices = x.topk(2)
    assert values.tolist() == [[3, 2]] and indices.tolist() == [[0, 2]]
    dropped = ex.dropout(x, 0.0)
    assert ex.dropout_backward(ex.ones((1, 3)), dropped.mask).tolist() == [[1, 1, 1]]


def test_where_and_maximum_take_numbers():
    a = sample("float32")
    x = ex.asarray(a)
    same(ex.where(x > 4, x, 0), np.where(a > 4, a, 0))
    same(ex.where(x > 4, 1.0, x), np.where(a > 4, 1, a))
    same(ex.maximum(x, 4), np.maximum(a, 4))
    same(ex.add([1, 2], [3, 4]), [4, 6])


def test_einsum_and_products():
    a, b = sample("float64", 1), sample("float64", 2)
    same(ex.einsum("ij,kj->ik", [a, b]), np.einsum("ij,kj->ik", a, b), 1e-12)
    same(ex.einsum("ij,kj->ik", ex.asarray(a), b), np.einsum("ij,kj->ik", a, b), 1e-12)
    same(ex.einsum("ij->ji", a), a.T)
    with pytest.raises(TypeError, match="einsum: argument 2 is None"):
        ex.einsum("ij,jk", a, None)
    same(ex.outer(a[0], b[0]), np.outer(a[0], b[0]))
    same(ex.tensordot(a, b.T, 1), np.tensordot(a, b.T, 1), 1e-12)
