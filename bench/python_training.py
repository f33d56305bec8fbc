#!/usr/bin/env python3
"""Times training steps from Python beside the same steps in C++, and in PyTorch where it is installed.

    python3 bench/python_training.py [ROUNDS]

LeNet with a batch of 64 and the character GPT with 12 sequences of 64, as in bench/training.cpp. All run in one process
with the same number of threads, step by step in turn. The table shows medians: the time of a step, and the ratios of the
other times to that of Python in the same round (above 1: Python with ExTensor is faster). Needs a C++20 compiler.
"""

import ctypes
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import extensor as ex
from extensor import models, optim

try:
    import torch
    from python_training_torch import steps as torch_steps
except ImportError:
    torch = None

SOURCE = pathlib.Path(__file__).resolve().parents[1]
LIBRARY = pathlib.Path(ex.__file__).parent / "lib/libextensor.so.0"


def python_steps(name):
    if name == "LeNet":
        model, x, y = models.LeNet(), ex.rand(64, 1, 28, 28), ex.arange(64) % 10
        optimizer = optim.SGD(model.parameters(), lr=0.01)
    else:
        y = ex.arange(12 * 64) % 65
        model, x = models.Gpt(), y.reshape(12, 64)
        optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        logits = model(x)
        ex.cross_entropy(logits.reshape(-1, logits.shape[-1]), y).backward()
        optimizer.step()

    return step


def cpp_steps(name, directory):
    program = pathlib.Path(directory) / "steps.so"
    if not program.exists():
        command = ["g++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{SOURCE}/include", "-o", program,
                   SOURCE / "bench/python_training_step.cpp", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"]  # fmt: skip
        subprocess.run(command, check=True)
    library = ctypes.CDLL(str(program))
    library.make_steps.restype = ctypes.c_void_p
    library.run_step.argtypes = [ctypes.c_void_p]
    steps = library.make_steps(name.encode())
    return lambda: library.run_step(steps)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    if torch is not None:
        torch.set_num_threads(ex.get_num_threads())
    print(f"{ex.get_num_threads()} threads, {rounds} rounds; PyTorch: {torch and torch.__version__}")
    with tempfile.TemporaryDirectory() as directory:
        for name in ("LeNet", "Gpt"):
            work = {"Python": python_steps(name), "C++": cpp_steps(name, directory)}
            if torch is not None:
                work["PyTorch"] = torch_steps(name)
            for step in work.values():
                step()
            times = {key: [] for key in work}
            for k in range(rounds):
                for key in list(work) if k % 2 else reversed(list(work)):
                    start = time.perf_counter()
                    work[key]()
                    times[key].append(time.perf_counter() - start)
            ours = times["Python"]
            text = f"{name:6} Python {statistics.median(ours) * 1e3:8.3f} ms"
            for key in list(work)[1:]:
                ratio = statistics.median(other / own for other, own in zip(times[key], ours))
                text += f"   {key} {statistics.median(times[key]) * 1e3:8.3f} ms ({ratio:.3f})"
            print(text)


if __name__ == "__main__":
    main()
