#!/usr/bin/env python3
"""Runs the conformance suite of the Python Array API against the installed package and prints the pass
rate and the failures.

    array_api.py CHECKOUT [PYTEST_ARGUMENTS...]

CHECKOUT is github.com/data-apis/array-api-tests with its submodule. array_api_failures.txt beside this
file lists the tests that are known to fail, each with the reason. The exit status is 1 if another test
fails, or if a listed one passes.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from typing import Any

LIST = pathlib.Path(__file__).resolve().parent / "array_api_failures.txt"
# Deadlines would make failures depend on the load of the machine.
OPTIONS = ["-q", "-p", "no:cacheprovider", "--disable-deadline", "--disable-warnings"]


def known_failures() -> dict[str, str]:
    """The reasons by the name of the test."""
    reasons = {}
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        name, _, reason = line.partition("#")
        if name.strip() and not reason.strip():
            sys.exit(f"{LIST.name}:{number}: {name.strip()} has no reason (write: NAME  # reason)")
        if name.strip():
            reasons[name.strip()] = reason.strip()
    return reasons


def outcomes(report: pathlib.Path) -> dict[str, tuple[str, str]]:
    """passed, skipped or failed, and the last line of the message, by the name of the test."""
    found = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        # array_api_tests.test_x.TestY → array_api_tests/test_x.py::TestY
        package, module, *classes = (case.get("classname") or "").split(".")
        name = "::".join([f"{package}/{module}.py", *classes, case.get("name") or ""])
        result, message = "passed", ""
        for part in case:
            if part.tag in ("failure", "error", "skipped"):
                result = "skipped" if part.tag == "skipped" else "failed"
                message = (part.get("message") or part.text or "").strip()
        found[name] = (result, message)
    return found


def run(command: list[str], **options: Any) -> tuple[int, str]:
    """The exit status and the output of pytest. Its lines of progress are shown while it runs, with the time."""
    start, shown, output = time.monotonic(), -1, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            progress = re.search(r"\[ *(\d+)%\]$", line)
            if progress and int(progress[1]) // 5 > shown // 5:
                shown = int(progress[1])
                print(f"{shown:3} % after {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return process.returncode, "".join(output)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    checkout, arguments = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    reasons = known_failures()
    environment = os.environ | {"ARRAY_API_TESTS_MODULE": "extensor"}
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", *OPTIONS, f"--junit-xml={report}", "-o", "junit_logging=no"]
        if not any(not argument.startswith("-") for argument in arguments):
            command.append("array_api_tests")
        status, output = run([*command, *arguments], cwd=checkout, env=environment)
        if not report.exists() or status not in (0, 1):
            sys.exit(f"{output}\narray-api: pytest ended with status {status}")
        results = outcomes(report)
    log = pathlib.Path("array_api.log").resolve()
    log.write_text(output)

    def known(name: str) -> str | None:
        return reasons.get(name) or reasons.get(name.partition("[")[0])

    ran = {name: result for name, (result, _) in results.items() if result != "skipped"}
    failed = [name for name, result in ran.items() if result == "failed"]
    unexpected = [name for name in failed if known(name) is None]
    stale = [
        name for name in reasons
        if any(test.startswith(name) for test in ran) and not any(test.startswith(name) for test in failed)
    ]  # fmt: skip
    for name in failed:
        if known(name):
            print(f"known failure  {name}: {known(name)}")
    for name in unexpected:
        print(f"FAILED         {name}: {results[name][1].splitlines()[0][:150] if results[name][1] else ''}")
    for name in stale:
        print(f"passes now     {name}: remove it from python/{LIST.name}")
    passed = len(ran) - len(failed)
    print(
        f"{passed} of {len(ran)} tests passed ({100 * passed / max(1, len(ran)):.1f} %), "
        f"{len(failed) - len(unexpected)} known failures, {len(unexpected)} others, "
        f"{len(results) - len(ran)} skipped; {log} has the output"
    )
    sys.exit(1 if unexpected or stale else 0)


if __name__ == "__main__":
    main()
