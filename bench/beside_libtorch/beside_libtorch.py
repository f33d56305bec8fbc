#!/usr/bin/env python3
"""Builds the same small program with ExTensor and with LibTorch, runs both, and prints what each costs.

usage: beside_libtorch.py PREFIX TORCH

PREFIX is where ExTensor is installed, TORCH the directory of an unpacked PyTorch wheel (torch/). Compile times are
processor time of one compiler process, so that other work on the machine matters little. Runs are interleaved; the
table has medians of 9.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = 2000


def run(command, env=None):
    """The wall time, processor time and peak memory in MB of a command that must succeed."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)
    child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def stripped_size(libraries, directory):
    total = 0
    for library in libraries:
        out = directory / "stripped.so"
        subprocess.run(["strip", "-o", out, library.resolve()], check=True)
        total += out.stat().st_size
    return total / 1e6


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    here = Path(__file__).parent
    prefix, torch = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    library_dir = next((d for d in (prefix / "lib", *prefix.glob("lib*/**/")) if (d / "libextensor.so").exists()), None)
    if library_dir is None:
        sys.exit(f"{prefix} has no libextensor.so: install ExTensor there first")
    torch_libraries = [torch / "lib" / name for name in ("libtorch_cpu.so", "libc10.so")]
    # Beside them the wheel needs small CUDA libraries, which are not counted.
    cuda = sorted({str(path.parent) for path in torch.parent.glob("nvidia/**/*.so*")})
    ways = {
        "ExTensor": (["-I", prefix / "include"],
                     ["-L", library_dir, f"-Wl,-rpath,{library_dir}", "-lextensor"],
                     [library_dir / "libextensor.so"]),
        "LibTorch": (["-isystem", torch / "include", "-isystem", torch / "include/torch/csrc/api/include"],
                     [*torch_libraries, f"-Wl,-rpath,{torch / 'lib'}:{':'.join(cuda)}",
                      "-Wl,--allow-shlib-undefined"], torch_libraries),
    }
    rows = {name: {} for name in ways}
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        environment = dict(os.environ, LD_LIBRARY_PATH=":".join(cuda))
        for name, (include, link, libraries) in ways.items():
            source = here / f"{name.lower()}.cpp"
            compiler = ["c++", "-std=c++20", "-O2", *include, "-c", source, "-o", directory / f"{name}.o"]
            runs = [run(compiler) for _ in range(3)]
            rows[name]["compile a program of 30 lines"] = f"{min(r[1] for r in runs):.2f} s"
            rows[name]["memory of the compiler"] = f"{runs[0][2]:.0f} MB"
            subprocess.run(["c++", directory / f"{name}.o", "-o", directory / name, *link], check=True)
            rows[name]["libraries, stripped"] = f"{stripped_size(libraries, directory):.1f} MB"
        short, long, memory = ({name: [] for name in ways} for _ in range(3))
        for _ in range(9):
            for name in ways:
                wall, _, _ = run([directory / name, "0"], environment)
                short[name].append(wall)
                wall, _, peak = run([directory / name, str(STEPS)], environment)
                long[name].append(wall)
                memory[name].append(peak)
        for name in ways:
            start = statistics.median(short[name])
            rows[name]["start and end"] = f"{start * 1e3:.1f} ms"
            rows[name]["one training step, 784-128-10, batch 64"] = (
                f"{(statistics.median(long[name]) - start) / STEPS * 1e6:.0f} µs")
            rows[name]["peak memory of the run"] = f"{statistics.median(memory[name]):.0f} MB"
    print(f"| | {' | '.join(ways)} |\n|---|{'---|' * len(ways)}")
    for line in rows["ExTensor"]:
        print(f"| {line} | {' | '.join(rows[name][line] for name in ways)} |")


main()
