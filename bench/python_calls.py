#!/usr/bin/env python3
"""Times calls from Python beside NumPy, and PyTorch where it is installed.

    python3 bench/python_calls.py

All libraries run in turn in one process, in rounds; the table shows the median of each over the rounds. The import is
timed in processes of its own.
"""

import statistics
import subprocess
import sys
import timeit

import numpy

import extensor

try:
    import torch
except ImportError:
    torch = None

ROUNDS = 21

IMPORT = """
import time
def resident():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1]) / 1024
before, start = resident(), time.perf_counter()
import extensor
print((time.perf_counter() - start) * 1e3, resident() - before)
"""


def add_cases():
    one = numpy.ones(1, numpy.float32)
    cases = {"extensor": (extensor.from_dlpack(one), extensor.from_dlpack(one)), "numpy": (one, one)}
    if torch is not None:
        cases["torch"] = (torch.ones(1), torch.ones(1))
    return {name: timeit.Timer("a + b", globals={"a": a, "b": b}) for name, (a, b) in cases.items()}


def dlpack_cases():
    array = numpy.ones((100, 100), numpy.float32)
    modules = {"extensor": extensor, "numpy": numpy} | ({} if torch is None else {"torch": torch})
    return {
        name: timeit.Timer("from_dlpack(array)", globals={"from_dlpack": module.from_dlpack, "array": array})
        for name, module in modules.items()
    }


def nanoseconds(timers, calls=20000):
    """The median of each timer over rounds in which all of them run."""
    for timer in timers.values():
        timer.timeit(calls // 10)
    rounds = [{name: timer.timeit(calls) for name, timer in timers.items()} for _ in range(ROUNDS)]
    return {name: statistics.median(each[name] for each in rounds) / calls * 1e9 for name in timers}


def main():
    print(f"{'call':28}{'extensor':>12}{'numpy':>12}{'torch':>12}   ratios")
    for label, timers in (("a + b, 1 element", add_cases()), ("from_dlpack(numpy array)", dlpack_cases())):
        times = nanoseconds(timers)
        cells = "".join(
            f"{times[name]:9.0f} ns" if name in times else f"{'-':>12}" for name in ("extensor", "numpy", "torch")
        )
        ratios = ", ".join(f"{times[name] / times['extensor']:.2f}x {name}" for name in times if name != "extensor")
        print(f"{label:28}{cells}   {ratios}")
    runs = [
        [float(value) for value in subprocess.check_output([sys.executable, "-c", IMPORT], text=True).split()]
        for _ in range(ROUNDS)
    ]
    time, memory = (statistics.median(column) for column in zip(*runs))
    print(f"{'import extensor':28}{time:9.1f} ms{memory:9.1f} MB")


if __name__ == "__main__":
    main()
