"""Complex numbers: Python numbers, NumPy arrays, buffers and DLPack, against NumPy."""

import numpy as np
import pytest

import extensor as ex


def test_dtypes():
    assert ex.asarray(1j).dtype is ex.complex64 and ex.asarray(1j).shape == ()
    assert ex.asarray([1, 2.5, 3j]).dtype is ex.complex64
    assert ex.asarray(np.complex128(1j)).dtype is ex.complex128
    assert ex.zeros(2, dtype=complex).dtype is ex.complex64
    assert ex.zeros(2, dtype=np.dtype("complex128")).dtype is ex.complex128
    assert ex.isdtype(ex.complex64, "complex floating") and not ex.isdtype(ex.complex64, "real floating")
    assert ex.result_type(ex.float64, ex.complex64) is ex.complex128
    assert ex.result_type(ex.ones(1), 1j) is ex.complex64
    assert ex.finfo(ex.complex64).bits == 32
    assert ex.complex64.is_complex and not ex.complex64.is_floating_point
    with pytest.raises(ex.DTypeError):
        ex.ones(2, dtype="complex64").astype("float32")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_interchange(dtype):
    a = (np.arange(6) + 1j * np.arange(6)[::-1]).astype(dtype).reshape(2, 3)
    for array in (a, a.T, a[:, ::-1], a[:, 1:]):
        x = ex.asarray(array)
        assert x.dtype == getattr(ex, dtype) and x.shape == array.shape
        np.testing.assert_array_equal(x.numpy(), array)
        np.testing.assert_array_equal(np.asarray(memoryview(x)), array)
        np.testing.assert_array_equal(np.from_dlpack(x), array)
        np.testing.assert_array_equal(ex.from_dlpack(array).numpy(), array)
        assert x.tolist() == array.tolist()
    assert np.shares_memory(ex.asarray(a).numpy(), a)


def test_numbers():
    z = ex.asarray([1 + 2j, -3.5])
    assert z[0].item() == 1 + 2j and complex(z[0]) == 1 + 2j and bool(z[0])
    with pytest.raises(TypeError):
        float(z[0])
    assert (z * 1j).tolist() == [-2 + 1j, -3.5j]
    assert (1j + ex.ones(1)).tolist() == [1 + 1j] and (ex.ones(1, dtype="float64") / 2j).dtype is ex.complex128
    z[0] = 5j
    z[1] *= 2
    assert z.tolist() == [5j, -7]
    x = ex.ones(2)
    with pytest.raises(ex.DTypeError):
        x[0] = 1j
    with pytest.raises(ex.DTypeError):
        x += 1j
    assert ex.full((2,), 1 + 1j).tolist() == [1 + 1j, 1 + 1j]
    assert ex.where(ex.asarray([True, False]), 1j, ex.zeros(2)).tolist() == [1j, 0]
    assert ex.equal(z, 5j).tolist() == [True, False]


@pytest.mark.parametrize(
    "name",
    ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "conj", "cos", "cosh", "exp", "expm1", "imag",
     "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "negative", "real", "reciprocal", "round", "sign",
     "sin", "sinh", "sqrt", "square", "sum", "prod", "mean", "tan", "tanh"],
)  # fmt: skip
def test_functions(name):
    generator = np.random.default_rng(1)
    a = generator.normal(size=20) + 1j * generator.normal(size=20)
    reference = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
                 "atanh": "arctanh"}  # fmt: skip
    expected = getattr(np, reference.get(name, name))(a)
    if name == "sign":
        expected = a / np.abs(a)
    found = getattr(ex, name)(ex.asarray(a)).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_products():
    generator = np.random.default_rng(2)
    a, b = (generator.normal(size=(4, 4)) + 1j * generator.normal(size=(4, 4)) for _ in range(2))
    x, y = ex.asarray(a), ex.asarray(b)
    np.testing.assert_allclose((x @ y).numpy(), a @ b, rtol=1e-13)
    np.testing.assert_allclose(ex.vecdot(x, y).numpy(), (a.conj() * b).sum(-1), rtol=1e-13)
    np.testing.assert_allclose(ex.cumulative_sum(x, axis=1).numpy(), a.cumsum(1), rtol=1e-13)
    np.testing.assert_allclose(ex.cumulative_prod(x, axis=0).numpy(), a.cumprod(0), rtol=1e-13)
    np.testing.assert_allclose((x**y).numpy(), a**b, rtol=1e-12)


def test_gradient():
    z = ex.asarray([3 + 4j]).requires_grad_()
    ex.abs(z).sum().backward()
    assert z.grad.tolist() == pytest.approx([0.6 + 0.8j])
    assert repr(ex.asarray([1 + 2j])).startswith("tensor([")
