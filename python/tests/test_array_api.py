"""The Python Array API: names, keywords and members that differ from those of C++. `./ex array-api` runs
the whole conformance suite."""

import math

import numpy as np
import pytest

import extensor as ex


def same(found, expected):
    found = found.numpy() if isinstance(found, ex.Tensor) else found
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def test_namespace():
    x = ex.ones(2)
    assert x.__array_namespace__() is ex and x.__array_namespace__(api_version="2024.12") is ex
    with pytest.raises(ex.ValueError, match="'api_version' is '2019.01' .*'2024.12'"):
        x.__array_namespace__(api_version="2019.01")
    assert ex.__array_api_version__ == "2024.12"
    assert ex.bool is ex.bool_ and (ex.pi, ex.e, ex.inf) == (math.pi, math.e, math.inf)
    assert ex.newaxis is None and math.isnan(ex.nan)


def test_clip_with_a_bound_of_another_dtype():
    x = np.array([-500, -5, 5, 500], np.int32)
    same(ex.clip(ex.asarray(x), None, ex.asarray(np.array(10, np.uint8))), np.minimum(x, 10))
    same(ex.clip(ex.asarray(x), ex.asarray(np.array(10, np.uint8)), None), np.maximum(x, 10))
    y = x.astype(np.float32)
    same(ex.clip(ex.asarray(y), None, ex.asarray(np.array(10, np.int8))), np.minimum(y, np.float32(10)))


def test_info():
    info = ex.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() == "cpu" and info.default_device() in info.devices()
    assert info.default_dtypes() == {
        "real floating": ex.float32, "complex floating": ex.complex64, "integral": ex.int64, "indexing": ex.int64,
    }  # fmt: skip
    assert info.dtypes(kind=("bool", "real floating")) == {
        "bool": ex.bool, "float32": ex.float32, "float64": ex.float64,
    }  # fmt: skip
    assert len(info.dtypes()) == 13


@pytest.mark.parametrize("name", ["axis", "axes"])
def test_axis_has_two_names(name):
    x = ex.asarray(np.arange(6.0).reshape(2, 3))
    assert ex.sum(x, **{name: 1}).tolist() == [3, 12]
    assert x.sum(**{name: (0, 1)}).item() == 15
    assert ex.flip(x, **{name: 0})[0, 0].item() == 3
    assert ex.squeeze(ex.ones(1, 2, 1), **{name: 0}).shape == (2, 1)
    assert ex.roll(ex.arange(3), shift=1, **{name: 0}).tolist() == [2, 0, 1]


def test_keywords_of_the_standard():
    assert ex.full((2,), fill_value=3).tolist() == ex.full((2,), value=3).tolist() == [3, 3]
    assert ex.full_like(ex.ones(2), fill_value=3).tolist() == [3, 3]
    same(ex.eye(2, 3, k=1, dtype="int8"), np.eye(2, 3, 1, np.int8))
    assert ex.eye(2, n_cols=2, k=10**30).tolist() == [[0, 0], [0, 0]]
    same(ex.tril(ex.ones(3, 3, dtype="int64"), k=-1), np.tril(np.ones((3, 3), np.int64), -1))
    assert ex.linspace(0, 1, num=3).tolist() == [0, 0.5, 1]
    x = ex.tensor([3, 1, 2])
    assert ex.sort(x, descending=True, stable=True).tolist() == [3, 2, 1]
    assert ex.argsort(x, stable=False).tolist() == [1, 2, 0]
    same(ex.cumulative_sum(x, dtype="float64", include_initial=True), [0.0, 3.0, 4.0, 6.0])
    same(ex.cumulative_prod(x, axis=0, include_initial=True), [1, 3, 3, 6])
    assert ex.sum(x, dtype="int8").dtype == ex.int8


def test_wrong_keywords_are_named():
    with pytest.raises(TypeError, match="sum: has no argument 'dim'"):
        ex.sum(ex.ones(2), dim=0)
    with pytest.raises(TypeError, match="several values for the argument"):
        ex.flip(ex.ones(2), axis=0, axes=0)
    with pytest.raises(TypeError, match="flip: argument 'axis' is str .*accepted: an int"):
        ex.flip(ex.ones(2), axes="rows")


def test_data_types():
    assert ex.finfo(ex.float32).eps == float(np.finfo(np.float32).eps)
    assert ex.finfo(ex.ones(1, dtype="float16")).max == 65504 and ex.finfo("float64").dtype == ex.float64
    assert ex.iinfo(ex.uint64).max == 2**64 - 1 and ex.iinfo("int8").min == -128
    with pytest.raises(ex.DTypeError, match="finfo: dtype is int32"):
        ex.finfo(ex.int32)
    assert ex.can_cast(ex.int8, ex.int16) and not ex.can_cast(ex.ones(1), ex.int64)
    assert ex.isdtype(ex.int8, "integral") and ex.isdtype(ex.int8, ("bool", ex.int8))
    assert not ex.isdtype(ex.bool, "numeric")
    with pytest.raises(ex.ValueError, match="kind is 'number' .*'numeric'"):
        ex.isdtype(ex.int8, "number")
    assert ex.result_type(ex.int8, ex.ones(1, dtype="uint8"), 3) == ex.int16
    assert ex.result_type(1, True, 2.5) == ex.float32 and ex.result_type(ex.int64, 1.5) == ex.float32
    with pytest.raises(TypeError, match="result_type: argument 2 is NoneType"):
        ex.result_type(ex.int8, None)
    with pytest.raises(ex.ValueError):
        ex.result_type()
    x = ex.ones(2)
    assert ex.astype(x, ex.float32, copy=False) is not x and ex.astype(x, "int8").dtype == ex.int8
    assert x.to_device("cpu").device == "cpu"


def test_shapes():
    a, b = ex.ones(3, 1), ex.arange(2)
    found = ex.broadcast_arrays(a, b)
    assert isinstance(found, list) and [x.shape for x in found] == [(3, 2), (3, 2)]
    with pytest.raises(ex.ShapeError, match="broadcast_arrays"):
        ex.broadcast_arrays(ex.ones(2), ex.ones(3))
    for indexing in ("xy", "ij"):
        expected = np.meshgrid(np.arange(2), np.arange(3), indexing=indexing)
        for x, y in zip(ex.meshgrid(ex.arange(2), ex.arange(3), indexing=indexing), expected):
            same(x, y)
    assert len(ex.meshgrid([ex.arange(2), ex.arange(3)])) == 2
    with pytest.raises(ex.ValueError, match="'indexing' is 'yx' .*'xy', 'ij'"):
        ex.meshgrid(b, indexing="yx")
    assert ex.concat([a, b], axis=None).tolist() == [1, 1, 1, 0, 1]
    assert isinstance(ex.unstack(a), tuple) and isinstance(ex.nonzero(b), tuple)
    with pytest.raises(ex.ValueError, match="nonzero"):
        ex.nonzero(ex.tensor(1))
    x = ex.asarray(np.arange(6.0))
    y = ex.reshape(x, (2, 3), copy=True)
    y[0, 0] = 7
    assert x[0].item() == 0
    z = ex.reshape(x, (2, 3), copy=False)
    z[0, 0] = 8
    assert x[0].item() == 8
    with pytest.raises(ex.ValueError, match="copy=False"):
        ex.reshape(z.T, (6,), copy=False)
    assert ex.arange(3, None, 2).tolist() == ex.arange(3, step=2).tolist() == [0, 2]


def test_elements():
    x = ex.asarray(np.array([-2, 0, 3], np.int8))
    assert ex.clip(x, ex.tensor([0, 1, 2], dtype="int8"), 2).tolist() == [0, 1, 2]
    assert ex.clip(x, max=ex.tensor([0, 1, 2], dtype="int8")).tolist() == [-2, 0, 2]
    assert ex.clip(x, None, 1).tolist() == [-2, 0, 1] and ex.clip(x).tolist() == [-2, 0, 3]
    assert ex.clip(x, 0, 2).dtype == ex.int8
    floats = np.array([1.0, -0.0, np.inf], np.float32)
    same(ex.nextafter(ex.asarray(floats), 0.0), np.nextafter(floats, np.float32(0)))
    same(ex.signbit(ex.asarray(floats)), np.signbit(floats))
    row = ex.tensor([3, 1, 2])
    wanted = ex.tensor([1, 2])
    assert ex.searchsorted(row, wanted, side="right", sorter=ex.argsort(row)).tolist() == [1, 2]
    assert ex.searchsorted(ex.sort(row), wanted).tolist() == [0, 1]
    with pytest.raises(ex.ValueError, match="'side' is 'middle'"):
        ex.searchsorted(row, wanted, side="middle")
    assert ex.isin(row, ex.tensor([2, 3])).tolist() == [True, False, True]
    assert ex.diff(ex.tensor([1, 4, 9]), n=2).tolist() == [2]
    assert ex.diff(ex.tensor([1, 4]), prepend=ex.tensor([0]), append=ex.tensor([5])).tolist() == [1, 3, 1]
    found = ex.unique_inverse(ex.tensor([[2, 1], [2, 2]]))
    assert found.values.tolist() == [1, 2] and found.inverse_indices.tolist() == [[1, 0], [1, 1]]
    assert ex.unique_counts(row).counts.tolist() == [1, 1, 1]
    a, b = ex.asarray(np.arange(24.0).reshape(2, 3, 4)), ex.asarray(np.arange(24.0).reshape(3, 4, 2))
    same(ex.tensordot(a, b, axes=((1, 2), (0, 1))), np.tensordot(a.numpy(), b.numpy(), ((1, 2), (0, 1))))
    same(ex.tensordot(a, b), np.tensordot(a.numpy(), b.numpy(), 2))
    same(ex.linalg.trace(ex.ones(2, 2, dtype="int8"), dtype="int8"), np.int8(2))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_shifts(dtype):
    values, by = np.array([1, 5, 100], dtype), np.array([0, 2, 3], dtype)
    x = ex.asarray(values)
    same(x << ex.asarray(by), values << by)
    same(x >> 1, values >> 1)
    same(ex.bitwise_left_shift(2, ex.asarray(by)), np.array(2, dtype) << by)
    assert (x << ex.asarray(np.array([64, 0, 1], dtype))).tolist()[0] == 0
    assert (x >> 64).tolist() == [0, 0, 0] and (x << 64).dtype == x.dtype
    if not dtype.startswith("u"):
        assert (-x >> 100).tolist() == [-1, -1, -1]
    with pytest.raises(ex.ValueError, match="shift"):
        x << -1
    y = ex.asarray(values.copy())
    address = y._address
    y <<= 1
    y >>= ex.asarray(by)
    same(y, values << np.array(1, dtype) >> by)
    assert y._address == address
    with pytest.raises(ex.DTypeError):
        ex.ones(2) << 1


def test_indexing():
    x = ex.asarray(np.arange(6).reshape(2, 3))
    assert x[ex.zeros(0, dtype="bool")].shape == (0, 3)
    assert x[ex.zeros(2, 0, dtype="bool")].shape == (0,)
    for shape in ((3,), (2, 2), (2, 3, 1)):
        with pytest.raises(ex.IndexError):
            x[ex.ones(*shape, dtype="bool")]
    with pytest.raises(ex.IndexError):
        x[[0, 1], [0, 1, 2]]
