#!/usr/bin/env python3
"""Uses an installed wheel as another machine would; run by check_wheel.sh.

    python -I check_wheel.py

Fails if something outside the wheel is missing, if LAPACK of the wheel is not the one that is used, or if it is
opened before it is needed.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig
import time

import extensor as ex
from extensor import nn, optim

PACKAGE = pathlib.Path(ex.__file__).parent
LAPACK = PACKAGE / "lib" / "libextensor_lapack.so"


def loaded(name: str) -> list[str]:
    """The paths of loaded libraries whose file names begin so."""
    paths = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
    return sorted(path for path in paths if os.path.basename(path).startswith(name))


def loaded_lapack() -> list[str]:
    return loaded("libextensor_lapack") + loaded("libopenblas") + loaded("liblapack") + loaded("libmkl")


def check_training() -> None:
    ex.manual_seed(1)
    x = ex.randn(64, 3)
    y = x @ ex.tensor([[1.0], [-2.0], [0.5]])
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-6, loss.item()


def largest(x: ex.Tensor) -> float:
    return ex.abs(x).max().item()


def check_linear_algebra() -> None:
    for dtype, bound in (("float32", 5e-2), ("float64", 1e-10), ("complex64", 5e-2), ("complex128", 1e-10)):
        a = ex.randn(200, 200, dtype="float64").to(dtype)
        if "complex" in dtype:
            a = ex.complex(ex.real(a), ex.real(a).T)
        b = a[:, :3]
        symmetric = a + ex.conj(a).T
        assert largest(a @ ex.linalg.solve(a, b) - b) < bound
        u, s, vh = ex.linalg.svd(a)
        assert largest((u * s.to(dtype)) @ vh - a) < bound
        q, r = ex.linalg.qr(a)
        assert largest(q @ r - a) < bound
        values, vectors = ex.linalg.eigh(symmetric)
        assert largest(symmetric @ vectors - vectors * values.to(dtype)) < bound


def check_tool() -> None:
    tool = pathlib.Path(sysconfig.get_path("scripts")) / "extensor"
    version = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout
    assert ex.__version__ in version, version
    subprocess.run([tool, "ops"], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    check_training()
    check_tool()
    assert not loaded_lapack(), "LAPACK is loaded before its first use"
    start = time.perf_counter()
    check_linear_algebra()
    seconds = time.perf_counter() - start
    used = loaded_lapack()
    if LAPACK.exists() and "EXTENSOR_LAPACK_LIBRARY" not in os.environ:
        assert used == [str(LAPACK)], used
    outside = [path for path in loaded("libextensor") + loaded("libjpeg") if not path.startswith(str(PACKAGE.parent))]
    assert not outside, outside
    licenses = [path.name for path in PACKAGE.parent.glob("extensor-*.dist-info/licenses/*")]
    assert "LICENSE" in licenses and (not LAPACK.exists() or "OpenBLAS.txt" in licenses), licenses
    names = ", ".join(os.path.basename(path) for path in used) or "no LAPACK"
    print(f"extensor {ex.__version__}, Python {sys.version.split()[0]}: linear algebra with {names} in {seconds:.2f} s")


if __name__ == "__main__":
    main()
