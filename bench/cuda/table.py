"""Prints the lines of extensor_cuda_bench beside those of lines_torch.py, with the figures asked for.

    python3 table.py --library STRIPPED_LIBRARY EXTENSOR.jsonl PYTORCH.jsonl

A line is reached if it is at least as fast as its figure: a rate (GB/s, Tflop/s, tokens/s, images/s),
a time, or a multiple of PyTorch's rate in the same run. Lines without a figure show the ratio alone.
"""

import argparse
import json
import os

RATES = ("GB/s", "Tflop/s", "tokens/s", "images/s")
# The end of a line's name, and its figure: ("x", multiple of PyTorch), ("rate", at least), ("ms", at most).
FIGURES = {
    "softmax 16384x4096 float32": ("rate", 3600),
    "softmax 16384x4096 bfloat16": ("rate", 3200),
    "layer_norm 16384x4096 float32": ("rate", 3600),
    "transposed copy 8192^2 float32": ("rate", 3000),
    "transposed copy 8192^2 bfloat16": ("rate", 2500),
    "NCHW to NHWC 64x256x56^2 bfloat16": ("rate", 2500),
    "sum all 8192^2 float32": ("rate", 3800),
    "sum axis 0 8192^2 float32": ("rate", 3800),
    "sum axis 1 8192^2 float32": ("rate", 3800),
    "batch_norm forward + backward 256x256x56^2 bfloat16 channels-last": ("ms", 1.0),
    "embedding backward 16384x768 of 50304 float32": ("ms", 0.30),
    "sort 2^26 float32": ("ms", 3.0),
    "topk(100) of 2^26 float32": ("ms", 1.0),
    "LSTM 2x512, 128 steps, batch 64 forward + backward float32": ("ms", 15),
    "cross_entropy forward + backward 8192x50304 float32": ("ms", 1.4),
    "cross_entropy forward + backward 8192x50304 bfloat16": ("ms", 0.75),
    "matmul 8192^3 bfloat16": ("x", 0.98),
    "matmul 8192^3 tf32": ("x", 0.98),
    "matmul 8192^3 float32": ("x", 0.98),
    "AdamW 124M float32": ("ms", 1.0),
    "one-element add": ("ms", 0.0050),
    "gelu(2x+1)*3 8192^2 float32": ("ms", 0.20),
    "GPT-2 124M step, B16 T1024 bfloat16": ("rate", 400e3),
    "ResNet-50 step, B256 bfloat16": ("rate", 4700),
    "2^28 float32": ("x", 0.97),
    "2^28 bfloat16": ("x", 1.0),
}


def figure_of(name):
    return FIGURES.get(name) or FIGURES.get(" ".join(name.split()[-2:]), (None, None))


def read(path):
    with open(path, encoding="utf-8") as lines:
        return {line["name"]: line for line in map(json.loads, lines)}


def value_of(line):
    """A number to print, with its unit."""
    if line is None:
        return "–"
    for unit in RATES:
        if unit in line:
            return f"{line[unit]:,.0f} {unit}"
    return f"{line['ms']:.4g} ms" if line["ms"] >= 0.02 else f"{line['ms'] * 1e3:.3g} µs"


def is_reached(kind, figure, line, ratio):
    if kind == "ms":
        return line["ms"] <= figure
    if kind == "rate":
        return next(line[unit] for unit in RATES if unit in line) >= figure
    return None if ratio is None else round(ratio, 3) >= figure


def asked(kind, figure):
    if kind is None:
        return ""
    return {"ms": f"≤ {figure:g} ms", "rate": f"≥ {figure:,g}", "x": f"≥ {figure:g}×"}[kind]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--library")
    arguments.add_argument("extensor")
    arguments.add_argument("pytorch")
    given = arguments.parse_args()
    ours, theirs = read(given.extensor), read(given.pytorch)
    rows, reached, missed = [], 0, []
    for name, line in ours.items():
        other = theirs.get(name)
        if other is not None and "error" in other:
            other = None
        kind, figure = figure_of(name)
        if "error" in line:
            rows.append((name, "failed: " + line["error"], value_of(other), "", asked(kind, figure), "no"))
            missed.append(name)
            continue
        ratio = other["ms"] / line["ms"] if other is not None else None
        result = "" if kind is None else is_reached(kind, figure, line, ratio)
        if result is False:
            missed.append(name)
        reached += result is True
        rows.append((name, value_of(line), value_of(other), "" if ratio is None else f"{ratio:.3f}×",
                     asked(kind, figure), {True: "yes", False: "no", None: "?", "": ""}[result]))
    if given.library:
        size = os.path.getsize(given.library) / 1e6
        rows.append(("libextensor_cuda.so, stripped", f"{size:.2f} MB", "–", "", "≤ 15 MB",
                     "yes" if size <= 15 else "no"))
        reached += size <= 15
        if size > 15:
            missed.append("the size of libextensor_cuda.so")
    header = ("line", "ExTensor", "PyTorch", "ratio", "asked", "reached")
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(cell.ljust(width) if k in (0, 5) else cell.rjust(width)
                        for k, (cell, width) in enumerate(zip(row, widths))).rstrip())
    print(f"\n{reached} figures reached, {len(missed)} missed" + ":" * bool(missed))
    for name in missed:
        print(f"  {name}")


if __name__ == "__main__":
    main()
