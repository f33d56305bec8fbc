"""`./ex bench ops`: times every op of ExTensor beside PyTorch, and lists where PyTorch is faster.

    ops.py --worker BUILD/bench/ops/extensor_bench_ops --python PYTHON [OPTIONS] [REGEX]

cases.py has the calls. ExTensor runs in a C++ program (worker.cpp), PyTorch in two processes of the interpreter PYTHON:
one as it comes, and one whose malloc keeps freed memory, since PyTorch otherwise pays for page faults of large results;
the better of the two counts. All take turns, in short batches of calls, so that a machine that slows down slows
everybody down. They are separate processes because malloc is configured at start, and because the threads of PyTorch
spin for a while after their last task, which the next program waits for. The smallest tensors have 131072 elements, so
that the cost of a call from Python or by name, of about a microsecond, does not matter; the first line states it. All
measurements take about half an hour; those that are done are kept in OUT, from where --resume goes on.
"""

import argparse
import contextlib
import html
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import cases  # noqa: E402

SIZES = {"cache": 2**17, "llc": 2**21, "memory": 2**25}
LAYOUTS = ("transposed", "stepped", "broadcast")
KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**32), "MALLOC_MMAP_MAX_": "0"}


class Program:
    """A worker: answers JSON requests, one per line."""

    def __init__(self, command, threads, environment=None):
        self.command = command
        self.environment = {"OMP_NUM_THREADS": str(threads), "EXTENSOR_NUM_THREADS": str(threads)} | (environment or {})
        self.start()

    def start(self):
        # In a session of its own, so that Ctrl-C stops ops.py, and the program ends with its standard input.
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | self.environment, start_new_session=True)

    def ask(self, **request):
        """The answer. RuntimeError if it is an error, or if the program has crashed; it then starts again."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self.close()
            self.start()
            raise RuntimeError(f"{pathlib.Path(self.command[-1]).name} ended with code {code}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def measure(self, seconds):
        """The times of a batch of calls. Returns once all threads sleep, so that they take no core from the next
        program: those of PyTorch spin for 7 ms after their last task."""
        answer = self.ask(do="measure", seconds=seconds)
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        with contextlib.suppress(OSError):  # a thread that ended meanwhile
            for _ in range(100):
                time.sleep(0.001)
                if all(stat.read_text().rpartition(")")[2].split()[0] != "R" for stat in tasks.glob("*/stat")):
                    break
        return answer["wall"], answer["cpu"]

    def close(self):
        """Returns the code with which it ended."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()


# ---- measurements


class Measurement:
    """A case at one size, dtype and layout, forward or backward."""

    def __init__(self, case, count, dtype, layout, backward):
        self.case, self.count, self.dtype, self.layout, self.backward = case, count, dtype, layout, backward
        label = f" ({case.label})" if case.label else ""
        direction = " backward" if backward else ""
        self.call = None  # ExTensor's, once it is known
        self.name = f"{case.op.removeprefix('nn.functional.')}{label}{direction}, {count}, {dtype}, {layout}"

    def request(self):
        """The request to PyTorch's worker."""
        tensors, names = {}, {}

        def json_of(value):
            if isinstance(value, cases.T):
                if id(value) not in names:
                    names[id(value)] = f"t{len(names)}"
                    tensors[names[id(value)]] = self.tensor(value)
                return {"tensor": names[id(value)]}
            if isinstance(value, list):
                return [json_of(each) for each in value]
            return value

        return {"op": self.case.op, "arguments": json_of(self.case.arguments),
                "named": {name: json_of(value) for name, value in self.case.named.items()},
                "tensors": tensors, "backward": self.backward}

    def tensor(self, t):
        spec = {"shape": t.shape, "values": t.values, "dtype": t.dtype or self.dtype}
        spec |= {key: value for key, value in (("low", t.low), ("high", t.high), ("order", t.order),
                                               ("stepped", t.stepped)) if value is not None}
        if not t.fixed and len(t.shape) > 0:
            if self.layout == "transposed":
                spec["order"] = list(range(len(t.shape)))[::-1]
            elif self.layout == "stepped":
                spec["stepped"] = len(t.shape) - 1
            elif self.layout == "broadcast":
                spec["broadcast"] = True
        return spec | {"gradient": self.backward and t.gradient}


def measurements(sizes, quick):
    """Every case at every size; the other dtypes and layouts at the middle one."""
    middle = sizes[len(sizes) // 2]
    for count in sizes:
        for case in cases.cases(count):
            variants = [("float32", "contiguous")]
            if count == middle and not quick:
                variants += [(dtype, "contiguous") for dtype in case.dtypes if dtype != "float32"]
                variants += [("float32", layout) for layout in LAYOUTS if case.layouts]
            for dtype, layout in variants:
                yield Measurement(case, count, dtype, layout, False)
                if case.backward and dtype != "int64":
                    yield Measurement(case, count, dtype, layout, True)


def alike(shapes, others):
    """Whether the shapes agree. Sizes that depend on random values, as those of nonzero, differ a little."""
    def sizes(lists):
        return [size for shape in lists for size in shape]

    return [len(shape) for shape in shapes] == [len(shape) for shape in others] and all(
        a == b or (min(a, b) > 1000 and abs(a - b) < 0.02 * max(a, b)) for a, b in zip(sizes(shapes), sizes(others)))


def measure(measurement, ours, peers, rounds, seconds):
    """{name of a program: (wall, cpu)}: medians of seconds per call."""
    request = measurement.request()
    for peer in peers.values():
        prepared = peer.ask(do="prepare", **request)
    measurement.call = prepared["call"]
    for program in ours.values():
        shapes = program.ask(do="prepare", tensors=request["tensors"], call=prepared["call"],
                             backward=request["backward"])["shapes"]
        if not alike(shapes, prepared["shapes"]):
            raise RuntimeError(f"results have shapes {shapes}, PyTorch's {prepared['shapes']}")
    programs = ours | peers
    samples = {name: [] for name in programs}
    for program in programs.values():
        program.measure(seconds)  # warms up and finds the number of calls
    for turn in range(rounds):
        for name in list(programs)[:: 1 if turn % 2 else -1]:
            samples[name].append(programs[name].measure(seconds))
    return {name: tuple(statistics.median(column) for column in zip(*rows)) for name, rows in samples.items()}


class Row:
    """The result of a measurement. Ratios above 1: ExTensor is faster."""

    def __init__(self, name, times, peers):
        self.name, self.times = name, times
        self.ours = times["ExTensor"]
        self.peer = tuple(min(times[peer][k] for peer in peers) for k in (0, 1))
        self.ratio = self.peer[0] / self.ours[0]
        self.cpu_ratio = self.peer[1] / max(self.ours[1], 1e-12)
        self.gain = times["other"][0] / self.ours[0] if "other" in times else None
        self.cpu_gain = times["other"][1] / max(self.ours[1], 1e-12) if "other" in times else None

    def sort_key(self, by):
        return self.cpu_ratio if by == "cpu" else self.ratio

    def line(self):
        text = f"{self.ratio:7.2f} {self.cpu_ratio:7.2f} {self.ours[0] * 1e6:12.1f} {self.peer[0] * 1e6:12.1f}"
        if self.gain is not None:
            text += f" {self.gain:8.2f} {self.cpu_gain:8.2f}"
        return f"{text}  {self.name}"


def heading(rows):
    other = f" {'old/new':>8} {'(CPU)':>8}" if any(row.gain is not None for row in rows) else ""
    return f"{'ratio':>7} {'(CPU)':>7} {'ExTensor µs':>12} {'PyTorch µs':>12}{other}"


def geometric_mean(numbers):
    return math.exp(statistics.fmean(math.log(number) for number in numbers))


# ---- the report


def summary(rows, by):
    slow = sum(row.sort_key(by) < 0.95 for row in rows)
    return (f"{len(rows)} measurements: geometric mean {geometric_mean([row.sort_key(by) for row in rows]):.2f}, "
            f"{slow} below 0.95, {sum(row.sort_key(by) < 1 for row in rows)} below 1.0")


def chart(rows, by):
    """All ratios in ascending order on a logarithmic axis, as SVG. The curve above the line at 1 is where ExTensor is
    faster."""
    width, height, left = 900, 300, 50
    ratios = sorted(row.sort_key(by) for row in rows)
    low, high = min(-1, math.floor(math.log2(ratios[0]))), max(1, math.ceil(math.log2(ratios[-1])))

    def y(power):
        return 10 + (height - 30) * (high - power) / (high - low)

    step = (width - left - 10) / len(ratios)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
             'aria-label="ratios in ascending order">']
    for power in range(low, high + 1):
        stroke = "#444" if power == 0 else "#ddd"
        text = f"{2**power}×" if power >= 0 else f"1/{2**-power}×"
        parts.append(f'<line x1="{left}" x2="{width - 10}" y1="{y(power):.1f}" y2="{y(power):.1f}" stroke="{stroke}"/>'
                     f'<text x="{left - 6}" y="{y(power) + 4:.1f}" text-anchor="end" font-size="11">{text}</text>')
    for k, ratio in enumerate(ratios):
        top, bottom = sorted((y(math.log2(ratio)), y(0)))
        parts.append(f'<rect x="{left + k * step:.2f}" y="{top:.1f}" width="{max(step, 0.3):.2f}" '
                     f'height="{max(bottom - top, 0.5):.1f}" fill="{"#2a7" if ratio >= 1 else "#c33"}"/>')
    return "\n".join(parts + ["</svg>"])


def page(rows, notes, by):
    cells = "\n".join(
        f"<tr><td>{row.ratio:.2f}</td><td>{row.cpu_ratio:.2f}</td><td>{row.ours[0] * 1e6:.1f}</td>"
        f"<td>{row.peer[0] * 1e6:.1f}</td><td>{html.escape(row.name)}</td></tr>" for row in rows)
    text = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return f"""<!doctype html>
<meta charset="utf-8"><title>ExTensor beside PyTorch, op by op</title>
<style>body{{font:15px sans-serif;max-width:60em;margin:2em auto}}td,th{{padding:1px 8px;text-align:right}}
td:last-child,th:last-child{{text-align:left}}</style>
<h1>ExTensor beside PyTorch, op by op</h1>
<p>Ratios are PyTorch's time over ExTensor's: above 1, ExTensor is faster.</p>
{text}
{chart(rows, by)}
<table><tr><th>ratio</th><th>of CPU time</th><th>ExTensor µs</th><th>PyTorch µs</th>
<th>op, elements, dtype, layout</th></tr>
{cells}
</table>
"""


def uncovered(registry, calls):
    """The ops of the registry that no call of `calls` names, itself or in an argument."""
    named = set()

    def visit(value):
        if isinstance(value, dict):
            if "call" in value:
                named.add(value["call"])
            for each in value.values():
                visit(each)
        elif isinstance(value, list):
            for each in value:
                visit(each)

    visit(calls)
    return [names[0] for names in registry if not named & set(names)]


def measured_before(journal, names):
    """{name: record} of the measurements in the journal of a run that was stopped."""
    lines = journal.read_text("utf-8").splitlines(keepends=True) if journal.exists() else []
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return {record["name"]: record for record in records if record["name"] in names}


def run(chosen, ours, peers, options, out=sys.stdout, progress=sys.stderr):
    """Measures, prints and writes OUT/index.html and OUT/rows.json. Returns the rows, the slowest first. Each
    measurement is also a line of OUT/measured.jsonl, from which a run that was stopped can resume."""
    directory = pathlib.Path(options.out)
    directory.mkdir(parents=True, exist_ok=True)
    journal, last, stopped = directory / "measured.jsonl", 0.0, False
    records = measured_before(journal, {each.name for each in chosen}) if options.resume else {}
    journal.write_text("".join(json.dumps(record) + "\n" for record in records.values()), "utf-8")
    for k, each in enumerate(chosen):
        if each.name in records:
            each.call = records[each.name]["call"]
            continue
        if progress.isatty() or time.monotonic() - last > 10:
            last, end = time.monotonic(), "" if progress.isatty() else "\n"
            start = "\r\033[K" if progress.isatty() else ""
            print(f"{start}[{k + 1}/{len(chosen)}] {each.name}", end=end, file=progress, flush=True)
        try:
            record = {"times": measure(each, ours, peers, options.rounds, options.seconds)}
        except RuntimeError as error:
            record = {"error": str(error)}
        except KeyboardInterrupt:
            stopped = True
            for program in (ours | peers).values():
                program.process.kill()
            break
        records[each.name] = {"name": each.name, "call": each.call} | record
        with journal.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(records[each.name]) + "\n")
    if progress.isatty():
        print("\r\033[K", end="", file=progress)
    rows = [Row(name, record["times"], list(peers)) for name, record in records.items() if "times" in record]
    failed = [f"{name}: {record['error']}" for name, record in records.items() if "error" in record]
    rows.sort(key=lambda row: row.sort_key(options.by))
    for line in failed:
        print(f"not measured: {line}", file=out)
    if not rows:
        return rows
    shown = rows if options.all or "other" in ours else [row for row in rows if row.sort_key(options.by) < 1]
    if shown:
        print(heading(shown), file=out)
    for row in shown:
        print(row.line(), file=out)
    print(summary(rows, options.by), file=out)
    notes = [options.title, summary(rows, options.by)] + [f"not measured: {line}" for line in failed]
    (directory / "index.html").write_text(page(rows, notes, options.by), "utf-8")
    (directory / "rows.json").write_text(json.dumps(
        [{"name": row.name, "ratio": row.ratio, "cpu_ratio": row.cpu_ratio, "times": row.times} for row in rows],
        indent=1), "utf-8")
    print(f"wrote {directory / 'index.html'}", file=out)
    if stopped:
        raise SystemExit(f"stopped after {len(records)} of {len(chosen)} measurements; --resume measures the others")
    return rows


def call_cost(ours, peers):
    """Seconds of a call that adds two numbers, for each program."""
    request = Measurement(cases.Case("add", cases.T(1), cases.T(1)), 1, "float32", "contiguous", False)
    return {name: times[0] for name, times in measure(request, ours, peers, 5, 0.01).items()}


def parser():
    made = argparse.ArgumentParser(prog="./ex bench ops", description="Times every op beside PyTorch.")
    made.add_argument("regex", nargs="?", default="", help="measure only what matches, for example 'softmax.*backward'")
    made.add_argument("--sizes", default=",".join(SIZES), help=f"of {', '.join(SIZES)}; default: all")
    made.add_argument("--quick", action="store_true", help="only the smallest size, float32, contiguous; fewer rounds")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--seconds", type=float, default=0.03, help="of one batch of calls")
    made.add_argument("--by", choices=("wall", "cpu"), default="wall",
                      help="the time by which to sort; cpu is steadier on a busy machine, with --threads 1")
    made.add_argument("--all", action="store_true", help="print every measurement, not only those below 1.0")
    made.add_argument("--other", help="the worker of another build, to compare with")
    made.add_argument("--out", default="build/bench-ops", help="where the page is written")
    made.add_argument("--resume", action="store_true", help="keep what a stopped run has measured in OUT")
    made.add_argument("--worker", required=True, help=argparse.SUPPRESS)
    made.add_argument("--python", required=True, help=argparse.SUPPRESS)
    return made


def main():
    options = parser().parse_args()
    names = options.sizes.split(",")
    for name in names:
        if name not in SIZES:
            parser().error(f"unknown size '{name}' (allowed: {', '.join(SIZES)})")
    if options.quick:
        names, options.rounds = ["cache"], min(options.rounds, 3)
    try:
        wanted = re.compile(options.regex)
    except re.error as error:
        parser().error(f"'{options.regex}' is no regular expression: {error}")
    every = list(measurements([SIZES[name] for name in names], options.quick))
    chosen = [each for each in every if wanted.search(each.name)]
    if not chosen:
        parser().error(f"no measurement matches '{options.regex}'")

    torch = [options.python, "-W", "ignore", str(HERE / "torch_worker.py")]
    ours = {"ExTensor": Program([options.worker], options.threads)}
    if options.other:
        ours["other"] = Program([options.other], options.threads)
    peers = {"PyTorch": Program(torch, options.threads),
             "PyTorch, memory kept": Program(torch, options.threads, KEPT_MEMORY)}
    version = peers["PyTorch"].ask(do="version")["version"]
    options.title = (f"PyTorch {version}, {options.threads} threads, medians of {options.rounds} interleaved rounds; "
                     "the better of PyTorch's two malloc settings.")
    print(options.title)
    costs = call_cost(ours, peers)
    print("A call that adds two numbers: " + ", ".join(f"{name} {cost * 1e6:.1f} µs" for name, cost in costs.items()))
    if os.getloadavg()[0] > 0.5:
        print(f"Careful: this machine is busy (load {os.getloadavg()[0]:.1f}); wall times are not to be trusted.")
    run(chosen, ours, peers, options)
    if not options.regex:
        left = uncovered(ours["ExTensor"].ask(do="ops")["ops"], [each.call for each in chosen])
        print(f"Without a case: {', '.join(left) or 'no op'}.")
    for program in (ours | peers).values():
        program.close()


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(str(error))
