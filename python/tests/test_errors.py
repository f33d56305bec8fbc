"""Exceptions: their types, and messages that name the function, the argument and what is accepted."""

import builtins

import numpy as np
import pytest

import extensor as ex
import extensor.nn
import extensor.optim


@pytest.mark.parametrize(
    ("kind", "natural"),
    [
        (ex.ShapeError, builtins.ValueError), (ex.DTypeError, builtins.TypeError),
        (ex.IndexError, builtins.IndexError), (ex.DeviceError, builtins.RuntimeError),
        (ex.ValueError, builtins.ValueError), (ex.FormatError, builtins.ValueError),
        (ex.IoError, builtins.OSError), (ex.OutOfMemoryError, builtins.MemoryError),
    ],
)  # fmt: skip
def test_hierarchy(kind, natural):
    assert issubclass(kind, ex.Error) and issubclass(kind, natural)


def test_library_errors(tmp_path):
    with pytest.raises(ex.ShapeError, match=r"add.*\[2\].*\[3\]"):
        ex.ones(2) + ex.ones(3)
    with pytest.raises(ex.IndexError, match="softmax: axis 5 is out of range"):
        ex.softmax(ex.ones(2, 2), 5)
    with pytest.raises(ex.DTypeError):
        ex.ones(2, dtype="int32").requires_grad_()
    with pytest.raises(ex.IoError):
        ex.load_npy(tmp_path / "missing.npy")
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    with pytest.raises(ex.FormatError):
        ex.load_npy(tmp_path / "bad.npy")
    with pytest.raises(ex.OutOfMemoryError):
        ex.empty(2**46)
    with pytest.raises(ex.DeviceError):
        ex.ones(2, device="cuda:99")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ex.sum(ex.ones(2), keepdims=1), "sum: argument 'keepdims' is int .accepted: a bool"),
        (lambda: ex.sum(ex.ones(2), "a"), "argument 'axis' is str .accepted: an int, a list or tuple"),
        (lambda: ex.sum(ex.ones(2), True), "argument 'axis' is bool"),
        (lambda: ex.exp(), "exp: missing argument 'x'"),
        (lambda: ex.exp(object()), "exp: argument 'x' is object .accepted: a Tensor"),
        (lambda: ex.exp(ex.ones(1), 2), "takes at most 1 positional"),
        (lambda: ex.exp(x=ex.ones(1), y=2), "has no argument 'y'"),
        (lambda: ex.exp(ex.ones(1), x=ex.ones(1)), "several values for the argument 'x'"),
        (lambda: ex.zeros((2, "a")), "argument 'shape' is tuple"),
        (lambda: ex.zeros(2, dtype="float33"), "argument 'dtype' is str .accepted: a dtype such as"),
        (lambda: ex.relu_([1.0]), "a Tensor, which is changed in place"),
        (lambda: ex.concat(ex.ones(2)), "argument 'tensors' is extensor.Tensor"),
        (lambda: ex.one_hot(ex.tensor([1]), 2.5), "argument 'classes' is float .accepted: an int"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_wrong_names_list_the_values():
    with pytest.raises(ValueError, match="'reduction' is 'avg' .accepted: 'mean', 'sum', 'none'"):
        ex.cross_entropy(ex.ones(1, 2), ex.tensor([0]), reduction="avg")


def test_overloads_are_listed():
    with pytest.raises(TypeError, match="Signatures:\n  add"):
        ex.add(ex.ones(1), object())


def test_numbers_out_of_range():
    with pytest.raises(ValueError, match="2⁶³"):
        ex.softmax(ex.ones(2), 2**64)
    with pytest.raises(ValueError, match="64 bits"):
        ex.ones(2) + 2**70
    with pytest.raises(ValueError, match="0 to"):
        ex.manual_seed(-1)


def test_numbers_of_thousands_of_digits():
    """Python itself refuses to write them into a message."""
    with pytest.raises(ex.ValueError, match="'seed' is an int of thousands of digits"):
        ex.manual_seed(10**5000)
    with pytest.raises(ex.ValueError, match="index is an int of thousands"):
        ex.ones(2)[10**5000]
    with pytest.raises(ex.ValueError, match="the number an int of thousands"):
        ex.asarray(10**5000)


def test_exceptions_of_index_arrive_unchanged():
    class Broken:
        def __index__(self):
            raise LookupError("in __index__")

    with pytest.raises(LookupError, match="in __index__"):
        ex.ones(2)[Broken()]


def test_lists_that_contain_themselves():
    numbers, tensors, tuples = [], [ex.ones(1)], ([],)
    numbers.append(numbers)
    tensors.append(tensors)
    tuples[0].append(tuples)
    deep = [ex.ones(1)]
    for _ in range(100_000):
        deep = [deep]
    for each in (numbers, tensors, tuples, deep, [ex.ones(1), numbers]):
        with pytest.raises(ex.ShapeError, match="64 deep"):
            ex.asarray(each)
    assert ex.asarray([[ex.ones(2), (1, 2)], [ex.zeros(2), [3, 4]]]).tolist() == [[[1, 1], [1, 2]], [[0, 0], [3, 4]]]


def test_modules_that_contain_themselves():
    """RecursionError, as from Python's own walks; the stack would end otherwise."""

    class Loop(ex.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = ex.nn.Linear(2, 2)
            self.inner_again = self

    with pytest.raises(RecursionError):
        Loop().to("float64")


def test_states_of_other_types():
    optimizer = ex.optim.Adam(ex.nn.Linear(2, 2).parameters(), lr=0.1)
    with pytest.raises(TypeError, match="load_state_dict: 'a' is str .accepted: a Tensor or a number"):
        optimizer.load_state_dict({"a": "b"})
    with pytest.raises(TypeError, match="load_state_dict: the name 5 is int"):
        optimizer.load_state_dict({5: 1.0})
    saved = optimizer.state_dict()
    optimizer.load_state_dict({name: np.float32(x) if isinstance(x, float) else x for name, x in saved.items()})


def test_help():
    assert ex.softmax.__name__ == "softmax"
    assert "axis: int = -1" in ex.softmax.__doc__
    assert ex.sum.__signatures__[0].startswith("sum(x: TensorLike, axis: int | Sequence[int] | None")
    import inspect

    assert list(inspect.signature(ex.log_softmax_backward).parameters) == ["grad_output", "y", "axis"]
    import pickle

    assert pickle.loads(pickle.dumps(ex.softmax)) is ex.softmax
