"""Tests `./ex bench ops` on tensors of a few elements.

    bench_ops.py WORKER          without PyTorch: a peer that answers in its place
    bench_ops.py WORKER torch    with the PyTorch of this interpreter; exits with 77 without one

WORKER is the program extensor_bench_ops.
"""

import argparse
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench/ops"))
import cases  # noqa: E402
import ops  # noqa: E402
from cases import Case, T  # noqa: E402

WORKER = sys.argv[1]

# Answers as torch_worker.py does, for add and softmax, in invented times.
PEER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "measure":
        answer = {"wall": WALL, "cpu": WALL}
    elif request["op"] == "crash":
        sys.exit(3)
    elif request["op"] == "unknown":
        answer = {"error": "no such op"}
    else:
        tensors = [name["tensor"] for name in request["arguments"] if isinstance(name, dict)]
        rest = [value for value in request["arguments"] if not isinstance(value, dict)]
        shape = request["tensors"]["t0"]["shape"] if request["op"] != "exp" else [99]
        answer = {"shapes": [shape], "call": {"call": request["op"], "named": {},
                  "arguments": [{"tensor": name} for name in tensors] + rest}}
    print(json.dumps(answer), flush=True)
"""


def options(out, **changed):
    chosen = {"rounds": 2, "seconds": 1e-4, "by": "wall", "all": False, "out": out, "title": "a title",
              "resume": False}
    return argparse.Namespace(**chosen | changed)


class Programs:
    """The workers, which end with the block."""

    def __init__(self, *walls):
        self.ours = {"ExTensor": ops.Program([WORKER], 1)}
        self.peers = {f"peer {wall}": ops.Program([sys.executable, "-c", PEER.replace("WALL", str(wall))], 1)
                      for wall in walls}

    def __enter__(self):
        return self.ours, self.peers

    def __exit__(self, *error):
        for program in (self.ours | self.peers).values():
            program.close()


def small(case, **changed):
    fields = {"dtype": "float32", "layout": "contiguous", "backward": False} | changed
    return ops.Measurement(case, 6, fields["dtype"], fields["layout"], fields["backward"])


class Workers(unittest.TestCase):
    def test_every_layout_dtype_and_kind_of_values(self):
        with Programs(1) as (ours, peers):
            worker = ours["ExTensor"]
            for layout in ("contiguous",) + ops.LAYOUTS:
                for dtype in ("float32", "bfloat16", "float64", "int64"):
                    request = small(Case("add", T(4, 6), T(4, 6)), dtype=dtype, layout=layout).request()
                    call = peers["peer 1"].ask(do="prepare", **request)["call"]
                    answer = worker.ask(do="prepare", tensors=request["tensors"], call=call)
                    self.assertEqual(answer["shapes"], [[4, 6]])
            for values in ("normal", "uniform", "integers", "bool", "sorted", "permutation"):
                tensor = T(2, 3, values=values, low=1, high=5)
                request = small(Case("add", tensor, tensor)).request()
                self.assertEqual(len(request["tensors"]), 1)
                if values != "bool":
                    call = {"call": "add", "arguments": [{"tensor": "t0"}] * 2, "named": {}}
                    worker.ask(do="prepare", tensors=request["tensors"], call=call)
            timed = worker.ask(do="measure", seconds=1e-4)
            self.assertGreater(timed["wall"], 0)
            self.assertGreater(timed["cpu"], 0)

    def test_tensors_of_their_own_layout(self):
        with Programs(1) as (ours, _):
            for tensor in (T(2, 3, 4, order=[1, 2, 0]), T(4, 3, stepped=0)):
                request = small(Case("reshape", tensor, [-1])).request()
                call = {"call": "reshape", "arguments": [{"tensor": "t0"}, [-1]], "named": {}}
                answer = ours["ExTensor"].ask(do="prepare", tensors=request["tensors"], call=call)
                self.assertEqual(answer["shapes"], [[24 if len(tensor.shape) == 3 else 12]])

    def test_errors_are_answers(self):
        with Programs(1) as (ours, _):
            worker = ours["ExTensor"]
            for request, text in (
                ({"do": "sing"}, "unknown request"),
                ({"do": "measure", "seconds": 1}, "nothing is prepared"),
                ({"do": "prepare", "tensors": {},
                  "call": {"call": "sum", "arguments": [{"tensor": "t9"}], "named": {}}}, "at"),
                ({"do": "prepare", "tensors": {"t0": {"shape": [2], "values": "odd", "dtype": "float32"}},
                  "call": None}, "unknown values 'odd'"),
            ):
                with self.assertRaisesRegex(RuntimeError, text):
                    worker.ask(**request)
            self.assertIn("sum", [names[0] for names in worker.ask(do="ops")["ops"]])


class Runs(unittest.TestCase):
    def test_prints_what_is_slow_worst_first(self):
        chosen = [small(Case("softmax", T(2, 3), 1)), small(Case("softmax", T(2, 3), 1), backward=True),
                  small(Case("add", T(2, 3), T(2, 3)), layout="broadcast"),
                  small(Case("unknown", T(2))), small(Case("exp", T(2)))]
        with tempfile.TemporaryDirectory() as out, Programs(1e-12, 1) as (ours, peers):
            printed = io.StringIO()
            rows = ops.run(chosen, ours, peers, options(out), printed, io.StringIO())
            self.assertEqual(len(rows), 3)
            self.assertEqual(rows, sorted(rows, key=lambda row: row.ratio))
            # The better of the two peers counts.
            self.assertTrue(all(row.peer == (1e-12, 1e-12) for row in rows))
            text = printed.getvalue()
            for row in rows:
                self.assertIn(row.name, text)
            self.assertIn("not measured: unknown, 6, float32, contiguous: no such op", text)
            self.assertIn("not measured: exp, 6, float32, contiguous: results have shapes [[2]], PyTorch's [[99]]",
                          text)
            self.assertIn("3 measurements", text)
            written = pathlib.Path(out, "index.html").read_text("utf-8")
            self.assertIn("<svg", written)
            self.assertIn("no such op", written)
            self.assertEqual(len(json.loads(pathlib.Path(out, "rows.json").read_text("utf-8"))), 3)

    def test_prints_only_what_is_slow(self):
        with tempfile.TemporaryDirectory() as out, Programs(1) as (ours, peers):
            printed = io.StringIO()
            ops.run([small(Case("softmax", T(2, 3), 1))], ours, peers, options(out), printed, io.StringIO())
            self.assertNotIn("softmax", printed.getvalue())
            self.assertIn("0 below 1.0", printed.getvalue())
            ops.run([small(Case("softmax", T(2, 3), 1))], ours, peers, options(out, all=True), printed, io.StringIO())
            self.assertIn("softmax", printed.getvalue())

    def test_goes_on_after_a_crash(self):
        with tempfile.TemporaryDirectory() as out, Programs(1) as (ours, peers):
            printed = io.StringIO()
            chosen = [small(Case("crash", T(2))), small(Case("softmax", T(2, 3), 1))]
            self.assertEqual(len(ops.run(chosen, ours, peers, options(out), printed, io.StringIO())), 1)
            self.assertRegex(printed.getvalue(), "not measured: crash, 6, float32, contiguous: [^/]*ended with code 3")

    def test_resumes_a_stopped_run(self):
        chosen = [small(Case("softmax", T(2, 3), 1)), small(Case("add", T(2, 3), T(2, 3)))]
        with tempfile.TemporaryDirectory() as out:
            def peer_times(wall, **changed):
                with Programs(wall) as (ours, peers):
                    rows = ops.run(chosen, ours, {"PyTorch": next(iter(peers.values()))}, options(out, **changed),
                                   io.StringIO(), io.StringIO())
                return {row.name.split(",")[0]: row.peer[0] for row in rows}

            self.assertEqual(peer_times(1), {"softmax": 1, "add": 1})
            journal = pathlib.Path(out, "measured.jsonl")
            journal.write_text(journal.read_text("utf-8")[:-9], "utf-8")  # stopped while it wrote the second line
            self.assertEqual(peer_times(2, resume=True), {"softmax": 1, "add": 2})
            self.assertEqual(chosen[0].call["call"], "softmax")
            self.assertEqual(peer_times(3), {"softmax": 3, "add": 3})

    def test_compares_two_builds(self):
        with tempfile.TemporaryDirectory() as out, Programs(1) as (ours, peers):
            ours["other"] = ops.Program([WORKER], 1)
            printed = io.StringIO()
            rows = ops.run([small(Case("softmax", T(2, 3), 1))], ours, peers, options(out), printed, io.StringIO())
            self.assertGreater(rows[0].gain, 0)
            self.assertIn("old/new", printed.getvalue())
            ours["other"].close()


class Lists(unittest.TestCase):
    def test_ops_without_a_case(self):
        registry = [["sum", "total"], ["add"], ["exp"], ["clone"]]
        calls = [{"call": "total", "arguments": [{"call": "exp", "arguments": [], "named": {}}], "named": {}}, None]
        self.assertEqual(ops.uncovered(registry, calls), ["add", "clone"])

    def test_names_are_unique(self):
        for quick in (False, True):
            names = [each.name for each in ops.measurements(list(ops.SIZES.values()), quick)]
            self.assertEqual(sorted(names), sorted(set(names)))
            self.assertGreater(len(names), 500)

    def test_sizes_that_depend_on_values(self):
        self.assertTrue(ops.alike([[2, 3]], [[2, 3]]))
        self.assertTrue(ops.alike([[10000]], [[10100]]))
        self.assertFalse(ops.alike([[10000]], [[11000]]))
        self.assertFalse(ops.alike([[2, 3]], [[2, 4]]))
        self.assertFalse(ops.alike([[6]], [[2, 3]]))

    def test_tensors_have_the_number_of_elements(self):
        for count in ops.SIZES.values():
            for case in cases.cases(count):
                sizes = [cases.math.prod(value.shape) for argument in case.arguments
                         for value in (argument if isinstance(argument, list) else [argument]) if isinstance(value, T)]
                self.assertTrue(all(size > 0 for size in sizes), case.op)


def compare_with_torch():
    """The mapping of every case, and a few measurements."""
    worker = str(ops.HERE / "torch_worker.py")
    torch = ops.Program([sys.executable, "-W", "ignore", worker], 1)
    ours = {"ExTensor": ops.Program([WORKER], 1)}
    smallest = min(ops.SIZES.values())
    chosen = [each for each in ops.measurements([smallest], True) if not each.backward]
    for each in chosen:
        request = each.request()
        prepared = torch.ask(do="prepare", **request)
        shapes = ours["ExTensor"].ask(do="prepare", tensors=request["tensors"], call=prepared["call"])["shapes"]
        if not ops.alike(shapes, prepared["shapes"]):
            sys.exit(f"{each.name}: results have shapes {shapes}, PyTorch's {prepared['shapes']}")
    print(f"{len(chosen)} cases have the same shapes in PyTorch")
    torch.close()
    ours["ExTensor"].close()


if __name__ == "__main__":
    if sys.argv[2:] == ["torch"]:
        if importlib.util.find_spec("torch") is None:
            print("SKIPPED bench_ops PyTorch: this Python has no PyTorch")
            sys.exit(77)
        compare_with_torch()
    else:
        unittest.main(argv=sys.argv[:1])
