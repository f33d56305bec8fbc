#!/usr/bin/env python3
"""Times Fourier transforms beside scipy.fft, in turns, with as many threads.

    python bench/fft_scipy.py [--threads 1 2] [--seconds 1]

Prints the fastest time of each and how many times faster ExTensor is.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
import scipy.fft

import extensor as ex


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(label: str, name: str, x: np.ndarray, axis: int | None, threads: int, seconds: float) -> None:
    tensor = ex.asarray(x)
    theirs = getattr(scipy.fft, name)
    ours = getattr(ex.fft, name)
    place = {} if axis is None else {"axis": axis}
    expected = theirs(x, **place)
    error = np.abs(np.asarray(ours(tensor, **place)) - expected).max() / math.sqrt((np.abs(expected) ** 2).mean())
    limit = 1e-4 if expected.dtype == np.complex64 else 1e-12
    assert error < limit, f"{label}: the results differ by {error}"
    best = [math.inf, math.inf]
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        best[0] = min(best[0], timed(lambda: theirs(x, workers=threads, **place)))
        best[1] = min(best[1], timed(lambda: ours(tensor, **place)))
        rounds += 1
    print(
        f"{label:34} {threads} thread{'s' if threads > 1 else ' '}  SciPy {best[0] * 1e3:9.4f} ms"
        f"  ExTensor {best[1] * 1e3:9.4f} ms  {best[0] / best[1]:5.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line")
    options = parser.parse_args()
    draw = np.random.default_rng(0)
    for threads in options.threads:
        ex.set_num_threads(threads)
        for dtype in (np.complex128, np.complex64):
            for name, shape, axis in [
                ("fft", (1 << 10,), -1),
                ("fft", (1 << 16,), -1),
                ("fft", (1 << 20,), -1),
                ("fft", (10007,), -1),
                ("fft", (1000, 1000), -1),
                ("fft", (1000, 1000), 0),
                ("fftn", (1000, 1000), None),
                ("rfft", (1000, 1000), -1),
                ("fft", (20000, 16), -1),
            ]:
                x = draw.standard_normal(shape) + 1j * draw.standard_normal(shape)
                x = np.ascontiguousarray(x.astype(dtype).real if name == "rfft" else x.astype(dtype))
                size = "x".join(str(n) for n in shape)
                where = "" if axis is None else f" axis {axis}"
                compare(f"{name} {x.dtype} {size}{where}", name, x, axis, threads, options.seconds)


if __name__ == "__main__":
    main()
