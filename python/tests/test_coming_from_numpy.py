"""Every row of docs/coming-from-numpy.md gives the kinds, shapes and numbers that NumPy gives."""

import pathlib
import sys

import pytest

import extensor as ex

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/numpy"))
import rows as table  # noqa: E402

ROWS = [row[:3] for row in table.rows() if row[0] != "SECTION"]


def tensors():
    names = table.inputs(np)
    return {"ex": ex} | {name: ex.tensor(v) for name, v in names.items() if isinstance(v, np.ndarray)}


def test_there_are_rows():
    assert len(ROWS) > 100


@pytest.mark.parametrize("macro, numpy, python", ROWS, ids=[row[1] for row in ROWS])
def test_row(macro, numpy, python):
    kinds, numbers = table.description(np, table.evaluate(macro, numpy, table.inputs(np)))
    got_kinds, got = table.description(np, table.evaluate(macro, python, tensors()))
    assert got_kinds == kinds
    if macro != "SHAPES":
        # Both are float32, within a few roundings.
        np.testing.assert_allclose(got, numbers, rtol=4e-6, atol=4e-6)
