#!/usr/bin/env python3
"""Lints the sources of the library with clang-tidy, several at a time, and prints what it finds.

    lint.py CLANG_TIDY BUILD_DIR CACHE_DIR [FILE...]

BUILD_DIR has the compile commands. CACHE_DIR remembers which inputs were clean: a file is linted again
only if its preprocessed text (headers and comments included), its compile command, the checks or
clang-tidy changed, as with ccache. The exit status is 1 if anything was found.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

NOISE = re.compile(r"warnings? (and \d+ errors? )?generated|^Suppressed|^Use -header-filter")


def preprocess(command: dict[str, str]) -> bytes:
    words = shlex.split(command["command"])
    output = words.index("-o")
    words = [*words[:output], *words[output + 2 :]]
    words[words.index("-c") : words.index("-c") + 1] = ["-E", "-C"]
    return subprocess.run(words, cwd=command["directory"], stdout=subprocess.PIPE, check=True).stdout


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    tidy, build = sys.argv[1], pathlib.Path(sys.argv[2])
    cache = pathlib.Path(sys.argv[3])
    cache.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path.cwd()
    wanted = {str(root / name) for name in sys.argv[4:]}
    version = subprocess.run([tidy, "--version"], stdout=subprocess.PIPE, check=True).stdout
    settings = version + (root / ".clang-tidy").read_bytes()
    commands = [
        entry for entry in json.loads((build / "compile_commands.json").read_text())
        if entry["file"] in wanted or (not wanted and entry["file"].startswith(f"{root}/src/"))
    ]  # fmt: skip
    if not commands:
        sys.exit(f"lint: {build}/compile_commands.json names no source to lint")

    def lint(command: dict[str, str]) -> tuple[bool, str]:
        """Whether the file was linted now, and the findings."""
        key = hashlib.sha256(settings + command["command"].encode() + b"\0" + preprocess(command)).hexdigest()
        if (cache / key).exists():
            return False, ""
        run = subprocess.run(
            [tidy, "-p", build, "--quiet", "--warnings-as-errors=*", command["file"]],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if run.returncode == 0:
            (cache / key).touch()
            return True, ""
        findings = "\n".join(line for line in run.stdout.splitlines() if not NOISE.search(line)).strip() or run.stdout
        return True, findings or f"{command['file']}: {tidy} ended with code {run.returncode}"

    linted = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, (now, findings) in enumerate(pool.map(lint, commands), 1):
            linted += now
            failed += bool(findings)
            if findings:
                print(findings, flush=True)
            if sys.stderr.isatty():
                print(f"\r[{done}/{len(commands)}] linted", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"linted {linted} of {len(commands)} files, {len(commands) - linted} unchanged; {failed} with findings")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
