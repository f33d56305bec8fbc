"""Times NumPy on the matrices of bench/linalg.cpp, which it prints as seconds per call.

    python3 bench/linalg_numpy.py [threads]        # in processor time, the sum over the threads
"""

import os
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[1] if len(sys.argv) > 1 else "1"
import numpy as np  # noqa: E402: reads the variable


def positive_definite(x):
    return x @ x.swapaxes(-1, -2) + x.shape[-1] * np.eye(x.shape[-1])


def seconds(call):
    best = float("inf")
    calls = 1
    spent = 0.0
    while spent < 1.0:
        start = time.process_time()
        for _ in range(calls):
            call()
        took = time.process_time() - start
        spent += took
        best = min(best, took / calls)
        if took < 0.05:
            calls *= 2
    return best


random = np.random.default_rng(1)
for name, shape in [("10x10", (10, 10)), ("100x100", (100, 100)), ("1000x1000", (1000, 1000)),
                    ("1000 of 8x8", (1000, 8, 8))]:
    x = random.uniform(-1, 1, shape)
    p = positive_definite(x)
    b = np.ascontiguousarray(x[..., :1])
    for op, call in {
            "svd": lambda: np.linalg.svd(x),
            "eigh": lambda: np.linalg.eigh(p),
            "solve": lambda: np.linalg.solve(p, b),
            "qr": lambda: np.linalg.qr(x),
            "cholesky": lambda: np.linalg.cholesky(p),
    }.items():
        print(f"linalg {op}/float64/{name}: {seconds(call):.3e} s", flush=True)
