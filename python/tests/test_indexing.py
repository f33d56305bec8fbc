"""x[key] and x[key] = value, compared with NumPy."""

import numpy as np
import pytest

import extensor as ex

ROWS, COLUMNS = np.array([0, 2, -1]), np.array([[1], [0]])
MASK = np.arange(24).reshape(4, 6) % 3 == 0
KEYS = {
    "integer": 1, "negative": -1, "slice": slice(1, 3), "step": slice(None, None, 2),
    "negative step": slice(None, None, -1), "backwards": slice(3, 0, -2), "ellipsis": ...,
    "newaxis": (None, 0), "pair": (1, 2), "mixed": (slice(None), 2), "last axes": (..., 1),
    "ellipsis between": (0, ..., slice(1, 4)), "beyond the end": slice(2, 100),
    "empty slice": slice(3, 1), "rows": ROWS, "list": [0, 2], "row and column": (ROWS, ROWS),
    "broadcast": (ROWS, COLUMNS), "array and slice": (ROWS, slice(1, 3)),
    "slice and array": (slice(1, 3), ROWS), "array, newaxis": (ROWS, None, slice(None, 2)),
    "mask": MASK, "row mask": np.array([True, False, True, True]),
    "mask of columns": (slice(None), np.array([True] * 3 + [False] * 3)),
    "mask and integer": (np.array([True, False, True, True]), 1), "empty list": [],
    "NumPy integer": np.int64(2), "nothing": (),
}  # fmt: skip


def array(dtype="float32"):
    return np.arange(24).reshape(4, 6).astype(dtype)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_reading(key):
    a = array()
    if isinstance(key, list) and not key:
        expected = a[np.array([], dtype=int)]
    else:
        expected = a[key]
    result = ex.tensor(a)[key]
    assert result.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(result), expected)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64"])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_writing_numbers(key, dtype):
    if isinstance(key, list) and not key:
        key = np.array([], dtype=int)
    a = array(dtype)
    x = ex.tensor(a)
    a[key] = 1
    x[key] = 1
    np.testing.assert_array_equal(np.asarray(x), a)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_writing_tensors(key):
    if isinstance(key, list) and not key:
        key = np.array([], dtype=int)
    a = array()
    x = ex.tensor(a)
    values = -np.arange(np.size(a[key])).reshape(np.shape(a[key])).astype("float32")
    a[key] = values
    x[key] = ex.tensor(values)
    np.testing.assert_array_equal(np.asarray(x), a)


def test_keys_may_be_tensors():
    a = array()
    x = ex.tensor(a)
    np.testing.assert_array_equal(np.asarray(x[ex.tensor(ROWS)]), a[ROWS])
    np.testing.assert_array_equal(np.asarray(x[ex.tensor(ROWS), ex.tensor(COLUMNS)]), a[ROWS, COLUMNS])
    np.testing.assert_array_equal(np.asarray(x[x > 5]), a[a > 5])
    x[x > 5] = 0
    assert x.max().item() == 5
    assert ex.tensor([10, 20, 30])[ex.tensor(1)].item() == 20


def test_views_share_memory():
    x = ex.zeros(3, 4)
    x[1][2] = 5
    x[:, ::-1][0, 0] = 7
    assert x.tolist() == [[0, 0, 0, 7], [0, 0, 5, 0], [0, 0, 0, 0]]
    x[0] += 1
    assert x[0].tolist() == [1, 1, 1, 8]


def test_errors():
    x = ex.zeros(2, 3)
    with pytest.raises(IndexError, match="5"):
        x[5]
    with pytest.raises(ex.IndexError):
        x[0, 3]
    with pytest.raises(IndexError):
        x[ex.tensor([0, 9])]
    with pytest.raises(IndexError):
        x[ex.tensor([0, 9])] = 1
    with pytest.raises(TypeError, match="str is not an index"):
        x["a"]
    with pytest.raises(TypeError):
        x[0.5]
    with pytest.raises(ValueError):
        x[0] = ex.zeros(5)
    with pytest.raises(TypeError):
        del x[0]
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_iteration_and_length():
    x = ex.tensor([[1, 2], [3, 4], [5, 6]])
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[1, 2], [3, 4], [5, 6]]
    a, b, c = x
    assert c.tolist() == [5, 6]
    with pytest.raises(TypeError, match="no length"):
        len(ex.tensor(1))
    with pytest.raises(TypeError, match="no rows"):
        iter(ex.tensor(1))
