"""Memory shared with NumPy (and PyTorch, if it is installed) without copies."""

import array
import gc
import subprocess
import sys

import numpy as np
import pytest

import extensor as ex

NUMPY_DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                "float16", "float32", "float64"]  # fmt: skip
VIEWS = {
    "contiguous": lambda a: a, "transposed": lambda a: a.T, "reversed": lambda a: a[::-1, ::-1],
    "strided": lambda a: a[::2, 1::2], "row": lambda a: a[1], "0-d": lambda a: a[1, 2],
    "empty": lambda a: a[:0], "broadcast": lambda a: np.broadcast_to(a[0], (3, 6)),
}  # fmt: skip


def source(dtype="float32"):
    return (np.arange(24).reshape(4, 6) % 2 if dtype == "bool" else np.arange(24).reshape(4, 6)).astype(dtype)


@pytest.mark.parametrize("convert", [ex.asarray, ex.from_dlpack], ids=["buffer", "dlpack"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_from_numpy(dtype, view, convert):
    a = VIEWS[view](source(dtype))
    if not isinstance(a, np.ndarray):
        a = np.asarray(a)
    x = convert(a)
    assert x.dtype.name == dtype and x.shape == a.shape
    np.testing.assert_array_equal(np.asarray(x), a)
    if a.size:
        assert x.__array__().__array_interface__["data"][0] == a.__array_interface__["data"][0]
        assert [s * a.itemsize for s in x.strides] == list(a.strides)


@pytest.mark.parametrize("convert", [np.asarray, np.from_dlpack, memoryview, lambda x: x.numpy()],
                         ids=["asarray", "dlpack", "memoryview", "numpy"])  # fmt: skip
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_to_numpy(dtype, convert):
    x = ex.tensor(source(dtype))[::-1, 1::2]
    a = np.asarray(convert(x))
    assert a.dtype == dtype
    np.testing.assert_array_equal(a, source(dtype)[::-1, 1::2])


@pytest.mark.parametrize("convert", [ex.asarray, ex.from_dlpack], ids=["buffer", "dlpack"])
def test_writes_are_seen_on_both_sides(convert):
    a = source()
    x = convert(a[::-1])
    x[0, 0] = 100
    assert a[3, 0] == 100
    a[0, 0] = -1
    assert x[3, 0].item() == -1
    b = np.from_dlpack(x)
    b[0, 1] = 7
    assert a[3, 1] == 7


@pytest.mark.parametrize("convert", [ex.asarray, ex.from_dlpack], ids=["buffer", "dlpack"])
def test_read_only_arrays(convert):
    a = source()
    a.flags.writeable = False
    x = convert(a)
    assert x.is_read_only
    for write in (lambda: x.fill(0), lambda: x.__setitem__(0, 0), lambda: x.__iadd__(1), lambda: x[0].relu_()):
        with pytest.raises(ValueError, match="read-only"):
            write()
    np.testing.assert_array_equal(a, source())
    assert not np.asarray(x).flags.writeable
    assert not np.from_dlpack(x).flags.writeable
    assert not x.clone().is_read_only


def test_memory_lives_as_long_as_a_view():
    x = ex.asarray(source())[1]
    gc.collect()
    assert x.tolist() == source()[1].tolist()
    a = np.asarray(ex.tensor(source())[2])
    b = np.from_dlpack(ex.tensor(source())[3])
    gc.collect()
    junk = [ex.zeros(4, 6) for _ in range(50)]
    assert a.tolist() == source()[2].tolist() and b.tolist() == source()[3].tolist()
    del junk


def test_objects_are_released():
    a = source()
    before = sys.getrefcount(a)
    for convert in (ex.asarray, ex.from_dlpack):
        x = convert(a)
        view = x[0]
        del x
        assert sys.getrefcount(a) > before
        del view
    gc.collect()
    assert sys.getrefcount(a) == before
    capsule = ex.ones(3).__dlpack__()
    del capsule  # an unused capsule frees its tensor


def test_other_objects():
    assert ex.asarray(array.array("d", [1.0, 2.0])).dtype is ex.float64
    assert ex.asarray(memoryview(b"\x01\x02")).tolist() == [1, 2]
    assert ex.asarray(bytearray(b"\x03")).tolist() == [3]
    assert ex.asarray(np.float32(1.5)).item() == 1.5


def test_copy_argument():
    a = source()
    assert not np.shares_memory(np.asarray(ex.asarray(a, copy=True)), a)
    assert np.shares_memory(np.asarray(ex.asarray(a, copy=False)), a)
    assert not np.shares_memory(np.asarray(ex.tensor(a)), a)
    with pytest.raises(ValueError, match="requires a copy"):
        ex.asarray(a, dtype="float64", copy=False)
    with pytest.raises(ValueError, match="requires a copy"):
        ex.asarray([1, 2], copy=False)


def test_unaligned_and_foreign_layouts_are_copied_or_refused():
    raw = np.zeros(17, dtype="uint8")[1:]
    unaligned = raw.view("float64") if raw.ctypes.data % 8 == 0 else np.frombuffer(raw.data, "float64", 2)
    assert ex.asarray(unaligned).tolist() == [0, 0]
    fields = np.zeros(3, dtype=[("a", "i1"), ("b", "f4")])["b"]
    assert ex.asarray(fields).tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match="no dtype"):
        ex.asarray(np.zeros(2, dtype="longdouble"))
    with pytest.raises(TypeError):
        ex.asarray(np.zeros(2, dtype=">f8"))
    with pytest.raises(TypeError):
        ex.asarray(np.array(["a"]))


def test_bfloat16_has_no_buffer():
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(ex.ones(2, dtype="bfloat16"))
    x = ex.ones(2, dtype="bfloat16")
    assert ex.from_dlpack(x).dtype is ex.bfloat16


def test_dlpack_protocol():
    x = ex.ones(2)
    assert x.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(x.__dlpack__())
    with pytest.raises(TypeError, match="from_dlpack: argument 'x' is int"):
        ex.from_dlpack(3)
    y = x.requires_grad_()
    assert not ex.from_dlpack(y).requires_grad


class Exporter:
    """An object whose __dlpack__() returns the same object every time."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def test_capsules_that_cannot_be_taken():
    with pytest.raises(TypeError, match=r"from_dlpack: __dlpack__\(\) returned int .accepted: a capsule"):
        ex.from_dlpack(Exporter(5))
    for version in (None, (1, 0)):
        exporter = Exporter(ex.arange(3.0).__dlpack__(max_version=version))
        assert ex.from_dlpack(exporter).tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="from_dlpack: the memory of the capsule was taken before"):
            ex.from_dlpack(exporter)
    import datetime

    with pytest.raises(ValueError, match="from_dlpack: the capsule is called 'datetime.datetime_CAPI'"):
        ex.from_dlpack(Exporter(datetime.datetime_CAPI))


def test_pytorch():
    torch = pytest.importorskip("torch")
    t = torch.arange(6.0).reshape(2, 3).T
    x = ex.from_dlpack(t)
    x[0, 0] = 9
    assert t[0, 0].item() == 9
    back = torch.from_dlpack(ex.asarray(source())[::2])
    assert back.shape == (2, 6)


def test_import_does_not_import_numpy():
    program = "import sys, extensor; extensor.ones(2) + 1; print('numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_bools_are_0_or_1():
    """Other bytes, which NumPy accepts in a view, would count as more than one."""
    for size in (3, 5000):
        bytes_ = np.zeros(size, dtype="uint8")
        bytes_[-2] = 2
        mask = bytes_.view(bool)
        for each in (mask, mask[::-1], mask[:, None]):
            with pytest.raises(ex.ValueError, match="asarray: an array of bool has a byte 2"):
                ex.asarray(each)
        with pytest.raises(ex.ValueError, match="asarray: an array of bool has a byte 2"):
            ex.sum(memoryview(bytes_.tobytes()).cast("?"))
        with pytest.raises(ex.ValueError, match="from_dlpack: an array of bool has a byte 2"):
            ex.from_dlpack(mask)
        assert ex.sum(ex.asarray(mask != 0)).item() == 1
    assert ex.asarray(np.zeros((0, 3), bool)).shape == (0, 3)
    assert ex.asarray(np.array(True)).item() is True
    assert ex.asarray(np.broadcast_to(np.array([True, False]), (3, 2))).sum().item() == 3
