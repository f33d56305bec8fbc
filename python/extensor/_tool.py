"""Runs the command-line tool that comes with the package."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    tool = pathlib.Path(__file__).parent / "bin" / "extensor"
    if not tool.exists():
        sys.exit(f"extensor: this package was built without the command-line tool ({tool})")
    os.execv(tool, [str(tool), *sys.argv[1:]])
