#!/usr/bin/env python3
"""The model of step times against independent computations, and the page against the model."""

import math
import pathlib
import random
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "distributed"))
import scaling  # noqa: E402
from scaling import Link, Network, Work  # noqa: E402


def ring_of_messages(ranks, size, link):
    """Sends every message of a ring, with clocks for all ranks, and checks the sums."""
    values = [[random.randrange(100) for _ in range(ranks)] for _ in range(ranks)]
    sums = [sum(column) for column in zip(*values)]
    clock = [0.0] * ranks
    for step in range(2 * (ranks - 1)):
        sent = []
        for rank in range(ranks):
            chunk = (rank - step) % ranks if step < ranks - 1 else (rank + 1 - (step - ranks + 1)) % ranks
            sent.append((chunk, values[rank][chunk], clock[rank] + link.latency + size / ranks / link.bandwidth))
        for rank in range(ranks):
            chunk, value, arrives = sent[rank - 1]
            values[rank][chunk] = value + values[rank][chunk] if step < ranks - 1 else value
            clock[rank] = max(clock[rank], arrives)
    assert values == [sums] * ranks
    return max(clock)


def work_of(layers, **options):
    return Work("test", layers, **{"batch": 8, "seconds": 0.3, "global_batch": 64, **options})


class Scaling(unittest.TestCase):
    def test_models_have_the_published_sizes(self):
        gpt, resnet = scaling.INPUTS["work"]
        self.assertEqual(sum(count for count, _ in gpt.layers), 124_439_808)
        self.assertEqual(sum(count for count, _ in resnet.layers), 25_557_032)
        self.assertAlmostEqual(sum(cost for _, cost in resnet.layers) / 4.09e9, 1, delta=0.01)
        for work in scaling.INPUTS["work"]:
            filled = scaling.buckets(work)
            self.assertEqual(sum(size for size, _ in filled), 4 * sum(count for count, _ in work.layers))
            self.assertEqual([ready for _, ready in filled], sorted(ready for _, ready in filled))
            self.assertEqual(filled[-1][1], 1)

    def test_a_ring_takes_as_long_as_its_messages(self):
        link = Link(7e-6, 3e9)
        for ranks in [1, 2, 3, 5, 8, 17]:
            self.assertAlmostEqual(scaling.ring(ranks, 1e6, link), ring_of_messages(ranks, 1e6, link), places=12)

    def test_a_tree_is_as_deep_as_the_logarithm(self):
        for ranks, depth in [(2, 1), (3, 2), (4, 2), (5, 3), (1024, 10)]:
            self.assertAlmostEqual(scaling.tree(ranks, 0, Link(1, 1)), 2 * depth)
        self.assertEqual(scaling.tree(1, 1e9, Link(1, 1)), 0)
        self.assertAlmostEqual(scaling.tree(4, 30, Link(0, 10)), 6)

    def test_nodes_reduce_inside_first(self):
        network = Network(4, Link(0, 100), Link(0, 10), "ring")
        self.assertAlmostEqual(scaling.all_reduce(4, 400, network), 2 * 3 / 4 * 400 / 100)
        # 2 nodes: each rank then reduces a quarter with its partner.
        self.assertAlmostEqual(scaling.all_reduce(8, 400, network), 6 + 2 * 1 / 2 * 100 / 10)
        self.assertEqual(scaling.all_reduce(1, 400, network), 0)

    def test_steps_by_hand(self):
        # Two layers of 1 and 3 units of work; forward 0.1 s, backward 0.2 s: the last layer's gradient is complete
        # after 0.15 s, the other one after 0.2 s.
        work = work_of([(1000, 1), (1000, 3)], first_bucket=1, bucket=1)
        self.assertEqual(scaling.buckets(work), [(4000, 0.75), (4000, 1.0)])
        for duration, expected in [(0.01, 0.31), (0.05, 0.35), (0.1, 0.45)]:
            step = scaling.simulate(work, 8, 2, lambda *_: duration)
            self.assertAlmostEqual(step.seconds, expected)
            self.assertAlmostEqual(step.exposed, expected - 0.3)
            after = scaling.simulate(work, 8, 2, lambda *_: duration, overlap=False)
            self.assertAlmostEqual(after.seconds, 0.3 + 2 * duration)
        # The computation waits for the first reduction, which takes its core.
        shared = scaling.simulate(work, 8, 2, lambda *_: 0.01, shares_cores=1)
        self.assertAlmostEqual(shared.seconds, 0.32)

    def test_large_batches_are_computed_in_parts(self):
        work = work_of([(1000, 1)], least_seconds=0.1)
        self.assertAlmostEqual(scaling.simulate(work, 32, 2, lambda *_: 0.05).seconds, 4 * 0.3 + 0.05)
        self.assertAlmostEqual(scaling.simulate(work, 1, 2, lambda *_: 0.05).seconds, 0.1 + 0.05)

    def test_a_free_network_scales_perfectly(self):
        free = Network(8, Link(0, math.inf), Link(0, math.inf))
        for work in scaling.INPUTS["work"]:
            for ranks in [1, 8, 1024]:
                self.assertAlmostEqual(scaling.efficiency(work, free, ranks, False), 1)

    def test_predictions_are_ordered(self):
        for work in scaling.INPUTS["work"]:
            fast, slow = scaling.INPUTS["network"], scaling.INPUTS["slow network"]
            for strong in (False, True):
                values = [scaling.efficiency(work, fast, ranks, strong) for ranks in scaling.RANKS]
                self.assertEqual(values, sorted(values, reverse=True))
                for ranks in scaling.RANKS:
                    self.assertLessEqual(scaling.efficiency(work, slow, ranks, strong),
                                         scaling.efficiency(work, fast, ranks, strong) + 1e-12)

    def test_fit_finds_latency_and_bandwidth(self):
        latency, per_byte = scaling.fit([(size, 3e-5 + size * 2e-10) for size in (4096, 65536, 1 << 20, 1 << 24)])
        self.assertAlmostEqual(latency, 3e-5, places=10)
        self.assertAlmostEqual(per_byte, 2e-10, places=16)

    def test_comparison_adds_the_cost_of_buckets(self):
        shape = {"vocabulary": 8, "context": 4, "layers": 1, "width": 8, "batch": 2, "bucket_bytes": 1 << 20}
        one = {**shape, "ranks": 1, "alone": 0.1, "overlapped": 0.11, "at_end": 0.11, "all_reduce": []}
        # One bucket, which is ready at the end: its all-reduce takes 1 ms + bytes * 0 s.
        two = {**one, "ranks": 2, "alone": 0.2, "all_reduce": [[4096, 1e-3], [65536, 1e-3]]}
        lines = scaling.compare([two, one]).splitlines()
        self.assertEqual(lines[1].split()[:2], ["1", "100.00"])
        self.assertIn("110.00 … 110.00", lines[1])
        self.assertIn("221.00 … 221.00", lines[2])

    def test_the_page_is_what_the_model_says(self):
        docs = ROOT / "docs"
        self.assertEqual((docs / "scaling.md").read_text(), scaling.page((docs / "scaling.md").read_text()))
        self.assertEqual((docs / "scaling.svg").read_text(), scaling.svg())


if __name__ == "__main__":
    unittest.main()
