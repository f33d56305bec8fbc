"""Prints how many tests of several programs ran, were skipped and failed, from their XML reports.

    python3 count_tests.py REPORT.xml...

A test that records the property `cases` stands for that many cases.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree

rows, totals = [], [0, 0, 0, 0]
for path in sys.argv[1:]:
    tests = skipped = failed = cases = 0
    for test in ElementTree.parse(path).getroot().iter("testcase"):
        if test.get("status") != "run":
            continue
        if test.get("result") == "skipped":
            skipped += 1
            continue
        tests += 1
        failed += test.find("failure") is not None
        recorded = [p.get("value") for p in test.iter("property") if p.get("name") == "cases"]
        cases += int(recorded[0]) if recorded else 1
    rows.append((pathlib.Path(path).stem, tests, cases, skipped, failed))
    totals = [total + more for total, more in zip(totals, (tests, cases, skipped, failed))]
print(f"{'program':<28}{'tests':>8}{'cases':>10}{'skipped':>9}{'failed':>8}")
for row in [*rows, ("all", *totals)]:
    print(f"{row[0]:<28}{row[1]:>8}{row[2]:>10}{row[3]:>9}{row[4]:>8}")
