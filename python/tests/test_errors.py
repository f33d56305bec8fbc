"""Exceptions: their types, and messages that name the function, the argument and what is accepted."""

import builtins
import copy
import pickle

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
        (lambda: ex.zeros(2, dtype="float33"), "argument 'dtype' is 'float33' .accepted: a dtype such as"),
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
    for key in (10**30, -(10**30), (10**30,)):
        with pytest.raises(IndexError, match="2⁶³"):
            ex.ones(2)[key]


def test_numbers_of_thousands_of_digits():
    """Python itself refuses to write them into a message."""
    with pytest.raises(ex.ValueError, match="'seed' is an int of thousands of digits"):
        ex.manual_seed(10**5000)
    with pytest.raises(ex.IndexError, match="index is an int of thousands"):
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
    for each in (optimizer, ex.nn.Linear(2, 2), ex.optim.GradScaler()):
        with pytest.raises(TypeError, match="argument 'state' is list .accepted: "):
            each.load_state_dict([1])
    optimizer.load_state_dict({name: np.float32(x) if isinstance(x, float) else x for name, x in saved.items()})


def test_dtypes_are_named():
    with pytest.raises(TypeError, match="ones: argument 'dtype' is 'float31' .accepted: a dtype such as"):
        ex.ones(2, dtype="float31")
    with pytest.raises(TypeError, match="ones: argument 'dtype' is str"):
        ex.ones(2, dtype="\ud800")


def test_the_number_of_arguments():
    with pytest.raises(TypeError, match="inv: takes at most 1 positional argument, got 2"):
        ex.linalg.inv(ex.eye(2), 1)
    with pytest.raises(TypeError, match="solve: takes at most 2 positional arguments, got 3"):
        ex.linalg.solve(ex.eye(2), ex.ones(2), 1)


def test_messages_have_the_names_of_python():
    w = ex.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"allowed: within no_grad\(\)"):
        w += 1
    with pytest.raises(TypeError, match=r"x.to\(ex.float32\), or the layer with layer.to\(ex.float64\)"):
        ex.nn.Linear(2, 2)(ex.ones(1, 2, dtype="float64"))
    with pytest.raises(TypeError, match="^register_hook: argument 'hook' is int"):
        w.register_hook(3)


@pytest.mark.parametrize("make", [ex.optim.SGD, ex.optim.LBFGS, ex.optim.ExponentialMovingAverage])
def test_parameters_are_tensors(make):
    """A number or an array would be a copy, which no step changes."""
    for parameters in ([1.0], [np.ones(2, np.float32)], [[1.0, 2.0]], [ex.ones(2), None]):
        with pytest.raises(TypeError, match="argument 'params' is list .accepted: a list or tuple of Tensors"):
            make(parameters)
    with pytest.raises(ValueError, match="only leaves"):
        make([ex.ones(2).requires_grad_() * 2])


def test_what_cannot_be_copied():
    w = ex.nn.Parameter([1.0])
    optimizer = ex.optim.Adam([w], lr=0.1)
    for each in (
        optimizer,
        ex.optim.StepLR(optimizer, step_size=1),
        ex.optim.ReduceLROnPlateau(optimizer),
        ex.optim.GradScaler(),
        ex.nn.Linear(2, 2),
    ):
        with pytest.raises(TypeError, match=f"^{type(each).__name__} cannot be pickled.*state_dict"):
            pickle.dumps(each)
    with pytest.raises(TypeError, match="^Adam cannot be pickled or copied"):
        copy.deepcopy(optimizer)


def test_formats():
    assert f"{ex.tensor(1.25):.1f} {ex.ones(2)} {ex.ones(2):>10}" == "1.2 [1. 1.]    [1. 1.]"
    with pytest.raises(TypeError, match=r"'.2f' is a format of numbers, and the tensor has the shape \(2,\)"):
        f"{ex.ones(2):.2f}"


def test_help():
    assert ex.softmax.__name__ == "softmax"
    assert "axis: int = -1" in ex.softmax.__doc__
    assert ex.sum.__signatures__[0].startswith("sum(x: TensorLike, axis: int | Sequence[int] | None")
    import inspect

    assert list(inspect.signature(ex.log_softmax_backward).parameters) == ["grad_output", "y", "axis"]
    assert pickle.loads(pickle.dumps(ex.softmax)) is ex.softmax
