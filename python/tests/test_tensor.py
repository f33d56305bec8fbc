"""Properties, conversions, printing, copies and pickling of Tensor."""

import copy
import gc
import pickle
import pickletools
import weakref

import numpy as np
import pytest

import extensor as ex

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "bfloat16", "float32", "float64"]  # fmt: skip


def test_properties():
    x = ex.zeros(2, 3, dtype="float64")
    assert x.shape == (2, 3) and isinstance(x.shape, tuple)
    assert x.strides == (3, 1)
    assert (x.ndim, x.size, x.itemsize, x.nbytes) == (2, 6, 8, 48)
    assert x.dtype is ex.float64
    assert x.device == ex.Device("cpu") and x.device == "cpu"
    assert not x.requires_grad and x.is_leaf and x.grad is None
    with pytest.raises(AttributeError):
        x.shape = (6,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_and_numbers(dtype):
    values = [[1, 0], [1, 1]]
    x = ex.tensor(values, dtype=dtype)
    assert x.dtype.name == dtype
    assert x.tolist() == values
    assert type(x.tolist()[0][0]) is {"b": bool, "f": float}.get(x.dtype.kind, int)
    assert x[0, 0].item() == 1
    assert bool(x[0, 0]) is True and float(x[0, 0]) == 1.0 and int(x[0, 0]) == 1


def test_dtypes_of_literals():
    assert ex.tensor([1, 2]).dtype is ex.int64
    assert ex.tensor([1, 2.5]).dtype is ex.float32
    assert ex.tensor([True, False]).dtype is ex.bool_
    assert ex.tensor([True, 2]).dtype is ex.int64
    assert ex.tensor([]).dtype is ex.float32
    assert ex.tensor(2**63).dtype is ex.uint64
    assert ex.tensor(3).shape == ()
    assert ex.tensor([[], []]).shape == (2, 0)
    assert ex.tensor([np.float64(1.5), 2]).tolist() == [1.5, 2]
    assert ex.tensor([np.float64(0.1), 2]).dtype == ex.tensor(np.float64(0.1)).dtype == ex.float64
    assert ex.tensor([0.1, 2]).dtype == ex.float32
    assert ex.asarray(np.array([0.1, 0.2]).mean()).item() == np.array([0.1, 0.2]).mean()
    assert (ex.ones(2) * np.float64(2)).dtype == ex.float32  # a number beside a tensor is weak
    assert ex.tensor([ex.tensor(1), ex.tensor(2)]).tolist() == [1, 2]
    assert ex.tensor([ex.ones(2), ex.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert ex.tensor([np.ones(2), np.zeros(2)]).shape == (2, 2)


def test_malformed_literals():
    with pytest.raises(ex.ShapeError, match="2 and 1 elements"):
        ex.tensor([[1, 2], [3]])
    with pytest.raises(ValueError, match="mixed"):
        ex.tensor([1, [2]])
    with pytest.raises(ValueError):
        ex.tensor([[1], 2])
    with pytest.raises(TypeError, match="str"):
        ex.tensor(["a"])
    with pytest.raises(TypeError, match="object"):
        ex.tensor(object())
    with pytest.raises(ValueError, match="64 bits"):
        ex.tensor(2**70)


def test_scalars():
    assert ex.tensor(2.5).item() == 2.5
    assert [10, 20, 30][ex.tensor(1)] == 20
    assert ex.tensor([[7]]).item() == 7
    assert ex.tensor([[1, 2], [3, 4]]).item((1, 0)) == 3
    with pytest.raises(ValueError, match="2 elements"):
        ex.tensor([1, 2]).item()
    with pytest.raises(ValueError, match="any"):
        bool(ex.tensor([1, 2]))
    with pytest.raises(TypeError):
        [1][ex.tensor(0.0)]
    assert f"{ex.tensor(0.12345):.2f}" == "0.12"


def test_printing():
    assert repr(ex.tensor([1, 2])) == "tensor([1, 2])"
    assert "dtype=float32" in repr(ex.tensor([1.5]))
    assert "requires_grad=True" in repr(ex.ones(1).requires_grad_())
    lines = repr(ex.tensor([[1, 2], [3, 4]])).split("\n")
    assert lines == ["tensor([[1, 2],", "        [3, 4]])"]
    assert str(ex.tensor([1, 2])) == "[1 2]"
    assert len(repr(ex.zeros(1000, 1000))) < 2000
    page = ex.tensor([[1, 2], [3, 4]])._repr_html_()
    assert page.count("<td>") == 4 and "int64" in page
    assert "<pre>" in ex.zeros(3)._repr_html_()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(dtype, protocol):
    x = ex.tensor([[1, 0], [1, 1]], dtype=dtype).T
    y = pickle.loads(pickle.dumps(x, protocol))
    assert y.dtype is x.dtype and y.tolist() == x.tolist()


def test_pickles_name_only_our_functions():
    text = pickle.dumps(ex.ones(2).requires_grad_(), 3)
    names = {argument for code, argument, _ in pickletools.genops(text) if code.name == "GLOBAL"}
    assert names == {"extensor._tensor _rebuild"}
    assert pickle.loads(text).requires_grad
    assert pickle.loads(pickle.dumps(ex.float32)) is ex.float32
    assert pickle.loads(pickle.dumps(ex.bool_)) is ex.bool_
    assert pickle.loads(pickle.dumps(ex.Device("cuda:1"))) == ex.Device("cuda", 1)
    with pytest.raises(ValueError):
        from extensor._tensor import _rebuild

        _rebuild(b"12345", "float32", (1,), False)


def test_copies():
    x = ex.tensor([1.0, 2.0]).requires_grad_()
    for made in (copy.deepcopy(x), copy.copy(x), x.clone()):
        with ex.no_grad():
            made += 1
    assert x.tolist() == [1, 2]
    assert copy.deepcopy(x).requires_grad and copy.deepcopy(x).is_leaf
    a, b = copy.deepcopy([x, x])
    assert a is b
    with pytest.raises(ValueError, match="leaves"):
        copy.deepcopy(x * 2)


def test_conversions():
    x = ex.tensor([1.7, -2.2])
    assert x.to(ex.int32).tolist() == [1, -2]
    assert x.to("float64").dtype is ex.float64
    assert x.to(np.float16).dtype is ex.float16
    assert x.to("cpu").tolist() == x.tolist()
    assert x.to(device="cpu", dtype="int8").dtype is ex.int8
    assert x.astype("float32")._identity != x._identity
    assert x.to("float32")._identity == x._identity
    with pytest.raises(ValueError, match="unknown device"):
        x.to("floot")
    assert ex.result_type(ex.int8, ex.float16) is ex.float16
    assert ex.result_type(ex.ones(1, dtype="float16"), 1.5) is ex.float16


def test_subclasses_and_references():
    class Mine(ex.Tensor):
        pass

    x = Mine([1.0, 2.0])
    x.note = "kept"
    assert isinstance(x, ex.Tensor) and (x + 1).tolist() == [2, 3]
    again = pickle.loads(pickle.dumps(Local([3.0])))
    assert type(again) is Local and again.tolist() == [3]
    y = ex.ones(3)
    reference = weakref.ref(y)
    row = y[0]
    del y
    gc.collect()
    assert reference() is None and row.item() == 1  # the view keeps the memory, not the object
    with pytest.raises(TypeError, match="unhashable"):
        hash(ex.ones(1))


class Local(ex.Tensor):
    pass


def test_writes():
    x = ex.zeros(2, 2)
    assert x.fill(3) is x
    assert x.copy_from([1, 2]) is x
    assert x.tolist() == [[1, 2], [1, 2]]
    assert ex.relu_(x) is x and x.relu_() is x
