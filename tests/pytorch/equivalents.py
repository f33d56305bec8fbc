"""Writes what depends on the rows of equivalents.def.

    python3 tests/pytorch/equivalents.py             # the table of docs/coming-from-pytorch.md
    python3 tests/pytorch/equivalents.py --numbers   # also equivalents_numbers.inc; needs PyTorch 2.4 or newer

`./ex docs` runs the first. The second is for new rows: the test fails for a row without numbers.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import equivalent_rows  # noqa: E402

PAGE = HERE.parent.parent / "docs/coming-from-pytorch.md"
NUMBERS = HERE / "equivalents_numbers.inc"


def rows():
    """(macro, PyTorch, note, C++) of every row."""
    return equivalent_rows.read_rows(HERE / "equivalents.def", 2)


def table():
    lines = []
    for macro, pytorch, note, code in rows():
        if macro == "SECTION":
            lines += ["", f"### {pytorch}", "", "| PyTorch | ExTensor | notes |", "|---|---|---|"]
        else:
            cells = [equivalent_rows.code(text) for text in (pytorch, code)]
            lines.append(f"| {' | '.join(cells)} | {equivalent_rows.escaped(note)} |")
    return lines[1:]


# ---- PyTorch's numbers ---------------------------------------------------------------------------


def inputs(torch):
    """The tensors of the rows. coming_from_pytorch_test.cpp has the same."""
    t = torch.tensor
    names = {
        "x": t([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]]),
        "y": t([[0.5, 2.0, -1.0], [2.0, 3.0, 4.0]]),
        "pos": t([[0.5, 1.0, 2.0], [3.0, 4.0, 0.25]]),
        "a": t([1.0, 2.0, 3.0]),
        "b": t([4.0, 5.0, 6.0]),
        "m": t([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "s": t([[2.0, 1.0], [1.0, 3.0]]),
        "n": t([[3, -7, 5], [2, 9, -4]]),
        "k": t([2, 3, 2]),
        "i": t([2, 0]),
        "j": t([[0, 2], [1, 1]]),
        "big": torch.arange(24.0).reshape(2, 3, 4),
        "image": torch.arange(32.0).reshape(1, 2, 4, 4) / 8,
        "filters": torch.arange(54.0).reshape(3, 2, 3, 3) / 32 - 0.75,
        "signal": torch.arange(12.0).reshape(1, 2, 6) / 4,
        "taps": torch.arange(18.0).reshape(3, 2, 3) / 8 - 1,
        "labels": t([2, 0]),
        "probs": t([[0.25, 0.625, 0.125], [0.5, 0.25, 0.25]]),
        "truth": t([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]),
        "w": torch.arange(12.0).reshape(4, 3) / 8 - 0.5,
        "bias": t([0.5, -0.5, 0.25, 0.0]),
        "mean": t([1.0, 3.0]),
        "var": t([0.5, 2.0]),
        "table": torch.arange(15.0).reshape(5, 3),
        "ids": t([[0, 4], [2, 2]]),
        "query": torch.arange(24.0).reshape(1, 2, 3, 4) / 16 - 0.5,
        "key": torch.arange(24.0).reshape(1, 2, 3, 4) / 32,
        "value": torch.arange(24.0).reshape(1, 2, 3, 4) / 8 - 1,
    }
    names["mask"] = names["x"] > 0
    parameter = torch.nn.Parameter(t([1.0, 2.0]))
    parameter.grad = t([0.5, -1.0])
    names["ps"] = [parameter]
    names["o"] = torch.optim.SGD(names["ps"], lr=0.8, momentum=0.5)
    return names


def description(torch, value, names):
    """A text that describes dtypes and shapes, and the numbers."""
    if isinstance(value, torch.Size):
        return "shape", [float(size) for size in value]
    if isinstance(value, (bool, int, float)):
        return "number", [float(value)]
    if isinstance(value, torch.nn.Module):
        return " ".join(f"{name}{list(p.shape)}" for name, p in value.named_parameters()), []
    if isinstance(value, torch.optim.Optimizer):
        value.step()
        value.step()
        return "optimizer", names["ps"][0].tolist()
    if isinstance(value, torch.optim.lr_scheduler.LRScheduler):
        rates = []
        for _ in range(6):
            rates.append(names["o"].param_groups[0]["lr"])
            names["o"].step()
            value.step()
        return "schedule", rates
    if isinstance(value, torch.Tensor):
        text = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        return text, [float(number) for number in value.detach().double().flatten()]
    parts = [description(torch, part, names) for part in value]
    return " ".join(part[0] for part in parts), [number for part in parts for number in part[1]]


def numbers():
    import copy
    import warnings

    import torch
    import torch.utils.checkpoint

    warnings.simplefilter("ignore")
    scope = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "copy": copy}
    lines = [
        "// PyTorch's results of the rows of equivalents.def: dtypes and shapes, then all numbers. Written by",
        f"// equivalents.py --numbers with PyTorch {torch.__version__.split('+')[0]}.",
        "",
    ]
    for macro, pytorch, _, _ in rows():
        if macro == "SECTION":
            continue
        names = scope | inputs(torch)
        if macro == "RUNS":
            exec(pytorch, names)
            value = names["out"]
        else:
            value = eval(pytorch, names)
        text, found = description(torch, value, names)
        lines.append(equivalent_rows.number_row(pytorch, text, [] if macro == "SHAPES" else found))
    NUMBERS.write_text("\n".join(lines) + "\n", "utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", action="store_true", help="evaluate the rows with PyTorch")
    if parser.parse_args().numbers:
        numbers()
    equivalent_rows.write_table(PAGE, "equivalents.py", table())


if __name__ == "__main__":
    main()
