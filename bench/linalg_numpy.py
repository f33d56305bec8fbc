#!/usr/bin/env python3
"""Times linear algebra from Python beside NumPy.

    python3 bench/linalg_numpy.py [THREADS]

Both libraries run in turn in one process, on the matrices of bench/linalg.cpp in float64, with one thread unless
THREADS says otherwise; the table shows the best time of each. EXTENSOR_LAPACK_LIBRARY can name NumPy's own OpenBLAS, in
the folder numpy.libs, so that both call the same LAPACK.
"""

import os
import sys
import timeit

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)
import numpy as np  # noqa: E402: reads the variable

import extensor as ex  # noqa: E402

ROUNDS = 9
SECONDS = 0.01  # of one round, at least


def cases(shape):
    """The functions without arguments of both libraries, by name."""
    x = np.random.default_rng(1).uniform(-1, 1, shape)
    p = x @ x.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])
    b = np.ascontiguousarray(x[..., :1])
    for name, arguments in {
        "cholesky": [p], "solve": [p, b], "inv": [p], "det": [p / shape[-1]], "qr": [x], "eigh": [p], "eigvalsh": [p],
        "svd": [x], "pinv": [x],
    }.items():  # fmt: skip
        tensors = [ex.asarray(array) for array in arguments]
        numpy, extensor = getattr(np.linalg, name), getattr(ex.linalg, name)
        yield name, lambda: numpy(*arguments), lambda: extensor(*tensors)


def best(calls):
    """The least time of each function over rounds in which all of them run."""
    timers = [timeit.Timer(call) for call in calls]
    counts = []
    for timer in timers:
        count = 1
        while timer.timeit(count) < SECONDS:
            count *= 2
        counts.append(count)
    rounds = [[timer.timeit(count) / count for timer, count in zip(timers, counts)] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds)]


def main():
    ex.set_num_threads(THREADS)
    print(f"{'function':10}{'matrices':>14}{'extensor':>14}{'numpy':>14}   numpy / extensor")
    for label, shape in (("10x10", (10, 10)), ("100x100", (100, 100)), ("1000x1000", (1000, 1000)),
                         ("1000 of 8x8", (1000, 8, 8))):  # fmt: skip
        for name, numpy, extensor in cases(shape):
            theirs, ours = best([numpy, extensor])
            print(f"{name:10}{label:>14}{ours * 1e6:11.2f} µs{theirs * 1e6:11.2f} µs{theirs / ours:11.2f}x", flush=True)


if __name__ == "__main__":
    main()
