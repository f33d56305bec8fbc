"""Writes what depends on the rows of rows.def.

    python3 tests/numpy/rows.py             # the table of docs/coming-from-numpy.md
    python3 tests/numpy/rows.py --numbers   # also rows_numbers.inc; needs NumPy

`./ex docs` runs the first. The second is for new rows: the tests fail for a row without numbers.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import equivalent_rows  # noqa: E402

PAGE = HERE.parent.parent / "docs/coming-from-numpy.md"
NUMBERS = HERE / "rows_numbers.inc"


def rows():
    """(macro, NumPy, Python, note, C++) of every row."""
    return equivalent_rows.read_rows(HERE / "rows.def", 3)


def table():
    lines = []
    for macro, numpy, python, note, code in rows():
        if macro == "SECTION":
            lines += ["", f"### {numpy}", "", "| NumPy | Python | C++ | notes |", "|---|---|---|---|"]
        else:
            cells = [equivalent_rows.code(text) for text in (numpy, python, code)]
            lines.append(f"| {' | '.join(cells)} | {equivalent_rows.escaped(note)} |")
    return lines[1:]


def inputs(np):
    """The arrays of the rows. coming_from_numpy_test.cpp has the same."""
    f = np.float32
    x = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]], f)
    return {
        "np": np,
        "rng": np.random.default_rng(0),
        "x": x,
        "y": np.array([[0.5, 2.0, -1.0], [2.0, 3.0, 4.0]], f),
        "pos": np.array([[0.5, 1.0, 2.0], [3.0, 4.0, 0.25]], f),
        "a": np.array([1.0, 2.0, 3.0], f),
        "b": np.array([4.0, 5.0, 6.0], f),
        "m": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], f),
        "s": np.array([[2.0, 1.0], [1.0, 3.0]], f),
        "n": np.array([[3, -7, 5], [2, 9, -4]]),
        "k": np.array([2, 3, 2]),
        "i": np.array([2, 0]),
        "j": np.array([[0, 2], [1, 1]]),
        "big": np.arange(24, dtype=f).reshape(2, 3, 4),
        "mask": x > 0,
    }


def evaluate(macro, text, names):
    """The value of an expression; of statements the array x that they change."""
    if macro != "RUNS":
        return eval(text, names)
    exec(text, names)
    return names["x"]


def description(np, value):
    """A text with kinds and shapes, and the numbers. Tensors of ExTensor are arrays to np.asarray."""
    if isinstance(value, (bool, int, float)):
        return "number", [float(value)]
    if isinstance(value, tuple) and all(isinstance(size, int) for size in value):
        return "shape", [float(size) for size in value]
    if isinstance(value, (tuple, list)):
        parts = [description(np, part) for part in value]
        return " ".join(part[0] for part in parts), [number for part in parts for number in part[1]]
    array = np.asarray(value)
    kind = {"f": "float", "i": "int", "u": "uint", "b": "bool"}[array.dtype.kind]
    return f"{kind}{list(array.shape)}", [float(number) for number in array.ravel()]


def numbers(np):
    lines = [
        "// NumPy's results of the rows of rows.def: kinds and shapes, then all numbers. Written by",
        "// rows.py --numbers.",
        "",
    ]
    for macro, numpy, *_ in rows():
        if macro != "SECTION":
            text, found = description(np, evaluate(macro, numpy, inputs(np)))
            lines.append(equivalent_rows.number_row(numpy, text, [] if macro == "SHAPES" else found))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", action="store_true", help="evaluate the rows with NumPy")
    if parser.parse_args().numbers:
        import numpy

        NUMBERS.write_text(numbers(numpy), "utf-8")
    equivalent_rows.write_table(PAGE, "rows.py", table())


if __name__ == "__main__":
    main()
