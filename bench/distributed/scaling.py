#!/usr/bin/env python3
"""A model of the time of a data-parallel training step against the number of ranks.

  scaling.py                    the predictions for GPT-2 124M and ResNet-50, up to 1,024 GPUs
  scaling.py --write docs       writes them into docs/scaling.md and docs/scaling.svg
  scaling.py --compare FILE...  beside what bench_scaling measured on local ranks (its output in FILE)

A step computes forward and backward. Gradients travel in buckets, in the order of DistributedDataParallel: a
bucket starts when its last gradient is computed and the bucket before has arrived. The step ends when both the
computation and the last bucket have. Everything that the model is told is in INPUTS.
"""

import argparse
import json
import math
import pathlib
import sys
from dataclasses import dataclass, field, replace

RANKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


# ---- what the model is told

@dataclass
class Link:
    latency: float  # seconds from one rank to the next
    bandwidth: float  # bytes per second and direction


@dataclass
class Network:
    ranks_per_node: int
    inside: Link
    between: Link  # of each rank: every GPU has a network card of its own
    algorithm: str = "faster"  # between nodes: ring, tree, or the faster one for each bucket


@dataclass
class Work:
    """A model in training: its layers in the order of the forward pass, as (parameters, multiply-adds per example)."""
    name: str
    layers: list
    batch: int  # examples of a measured step on one rank
    seconds: float  # of that step
    global_batch: int  # of strong scaling
    least_seconds: float = 0  # of a step, however small its batch: the time to launch its kernels
    gradient_bytes: int = 4  # of one parameter
    forward_share: float = 1 / 3  # of a step; the gradient of a layer is two products of the size of the forward one
    first_bucket: int = 1 << 20
    bucket: int = 25 << 20


def gpt_layers(vocabulary, context, depth, width):
    """GPT with the head tied to the embedding; multiply-adds are those of a sequence of the whole context."""
    layers = [(vocabulary * width, 0), (context * width, 0)]
    for _ in range(depth):
        scores = context * context * width  # q·k and the weighted sum of v, half of each is masked
        layers += [(2 * width, 0), (3 * width * width + 3 * width, context * 3 * width * width + scores),
                   (width * width + width, context * width * width), (2 * width, 0),
                   (4 * width * width + 4 * width, context * 4 * width * width),
                   (4 * width * width + width, context * 4 * width * width)]
    # The head's gradient joins that of the embedding, which is complete at the very end.
    return layers + [(2 * width, 0), (0, context * vocabulary * width)]


def resnet50_layers():
    side = 112
    layers = [(7 * 7 * 3 * 64, side * side * 7 * 7 * 3 * 64), (2 * 64, 0)]
    side, channels = 56, 64

    def convolution(size, inputs, outputs, out_side):
        weights = size * size * inputs * outputs
        return [(weights, out_side * out_side * weights), (2 * outputs, 0)]

    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers += convolution(1, channels, width, side)
            side //= stride
            layers += convolution(3, width, width, side) + convolution(1, width, 4 * width, side)
            if block == 0:
                layers += convolution(1, channels, 4 * width, side)
            channels = 4 * width
    return layers + [(channels * 1000 + 1000, channels * 1000)]


INPUTS = {
    # Measured by the project on one H200: GPT-2 124M in bfloat16, 16 sequences of 1024 tokens, 421,000 tokens per
    # second; ResNet-50 in bfloat16, 256 images, 4,858 images per second. Parameters and gradients are float32.
    "work": [
        Work("GPT-2 124M", gpt_layers(50257, 1024, 12, 768), batch=16, seconds=16 * 1024 / 421_000,
             global_batch=1024, least_seconds=3e-3),
        Work("ResNet-50", resnet50_layers(), batch=256, seconds=256 / 4858, global_batch=8192, least_seconds=4e-3),
    ],
    # Assumed, not measured: nodes of 8 GPUs with NVLink (450 GB/s per direction, of which collectives reach about
    # 80 %) and one network card of 400 Gb/s for each GPU (of which they reach about 90 %); least_seconds above.
    "network": Network(8, Link(3e-6, 360e9), Link(10e-6, 45e9)),
    # The same with one card of 100 Gb/s for each GPU.
    "slow network": Network(8, Link(3e-6, 360e9), Link(20e-6, 11.25e9)),
}


# ---- the model

def ring(ranks, size, link):
    """All-reduce of `size` bytes: 2 (ranks − 1) messages of size / ranks, one after another."""
    return 2 * (ranks - 1) * (link.latency + size / ranks / link.bandwidth)


def tree(ranks, size, link):
    """All-reduce up and down two binary trees at once, in pieces: latency grows with the depth only."""
    if ranks == 1:
        return 0.0
    return 2 * math.ceil(math.log2(ranks)) * link.latency + 2 * size / link.bandwidth


def all_reduce(ranks, size, network):
    """In a node, reduce_scatter and all_gather, which together are a ring; between nodes, each GPU reduces its part
    with those of its number on the other nodes."""
    inside = min(ranks, network.ranks_per_node)
    nodes = -(-ranks // network.ranks_per_node)
    ways = {"ring": [ring], "tree": [tree], "faster": [ring, tree]}[network.algorithm]
    return ring(inside, size, network.inside) + min(way(nodes, size / inside, network.between) for way in ways)


def buckets(work):
    """(bytes, share of the backward pass after which the bucket is complete), as DistributedDataParallel fills them."""
    total = sum(cost for _, cost in work.layers)
    filled, done = [], 0
    for parameters, cost in reversed(work.layers):
        done += cost
        size = parameters * work.gradient_bytes
        limit = min(work.first_bucket, work.bucket) if len(filled) <= 1 else work.bucket
        if not filled or (filled[-1][0] > 0 and filled[-1][0] + size > limit):
            filled.append([0, 0.0])
        filled[-1][0] += size
        filled[-1][1] = done / total
    return [(size, ready) for size, ready in filled if size > 0]


@dataclass
class Step:
    seconds: float
    compute: float
    communication: float
    exposed: float = field(init=False)

    def __post_init__(self):
        self.exposed = self.seconds - self.compute


def simulate(work, examples, ranks, reduce, overlap=True, shares_cores=0.0):
    """One step of `examples` on each rank. More than work.batch are computed one part after another, and only the last
    one communicates. reduce(ranks, bytes) is the time of an all-reduce; of it, the part shares_cores takes the cores
    from the computation."""
    def compute(count):
        return max(count * work.seconds / work.batch, work.least_seconds)

    parts = max(1, math.ceil(examples / work.batch))
    last = compute(examples / parts)
    total = parts * last
    begin = (parts - 1) * last + work.forward_share * last
    backward = (1 - work.forward_share) * last
    end, communication, slowed = 0.0, 0.0, 0.0
    for size, ready in buckets(work):
        duration = reduce(ranks, size)
        at = begin + backward * (ready if overlap else 1) + slowed
        start = max(at, end)
        end = start + duration
        communication += duration
        if overlap and ready < 1:
            slowed += shares_cores * duration
    return Step(max(total + slowed, end), total, communication)


def predict(work, network, ranks, strong):
    examples = work.global_batch / ranks if strong else work.batch
    return simulate(work, examples, ranks, lambda count, size: all_reduce(count, size, network))


def efficiency(work, network, ranks, strong):
    """Examples per second and rank, relative to one rank."""
    alone, together = predict(work, network, 1, strong), predict(work, network, ranks, strong)
    if strong:
        return alone.seconds / (ranks * together.seconds)
    return alone.seconds / together.seconds


# ---- tables and the plot

def table(network, strong):
    lines = ["| ranks |" + "".join(f" {w.name}: step | hidden | efficiency |" for w in INPUTS["work"]),
             "|---:|" + "---:|---:|---:|" * len(INPUTS["work"])]
    for ranks in RANKS:
        line = f"| {ranks:,} |"
        for work in INPUTS["work"]:
            step = predict(work, network, ranks, strong)
            hidden = 1 - step.exposed / step.communication if step.communication > 0 else None
            line += f" {1e3 * step.seconds:.1f} ms |"
            line += " |" if hidden is None else f" {100 * hidden:.0f} % |"
            line += f" {100 * efficiency(work, network, ranks, strong):.1f} % |"
        lines.append(line)
    return "\n".join(lines)


def algorithm_table(strong=False):
    ways = ["ring", "tree", "faster"]
    lines = ["| ranks |" + "".join(f" {w.name}: ring | tree | the faster |" for w in INPUTS["work"]),
             "|---:|" + "---:|---:|---:|" * len(INPUTS["work"])]
    for ranks in RANKS[4:]:
        line = f"| {ranks:,} |"
        for work in INPUTS["work"]:
            for way in ways:
                line += f" {100 * efficiency(work, replace(INPUTS['network'], algorithm=way), ranks, strong):.1f} % |"
        lines.append(line)
    return "\n".join(lines)


SERIES = [("network", "400 Gb/s", ""), ("slow network", "100 Gb/s", "6 4")]
COLORS = ["#1f5fbf", "#c2410c"]


def svg():
    width, height, left, top, plot_w, plot_h = 860, 380, 60, 50, 340, 250
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for panel, (strong, title) in enumerate([(False, "Weak scaling: the batch of a rank is constant"),
                                             (True, "Strong scaling: the batch of all ranks is constant")]):
        x0 = left + panel * (plot_w + 70)
        x = lambda ranks: x0 + plot_w * math.log2(ranks) / math.log2(RANKS[-1])
        y = lambda value: top + plot_h * (1 - value)
        out.append(f'<text x="{x0}" y="{top - 18}" font-weight="bold">{title}</text>')
        for percent in range(0, 101, 20):
            at = y(percent / 100)
            out.append(f'<line x1="{x0}" x2="{x0 + plot_w}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
            out.append(f'<text x="{x0 - 6}" y="{at + 4:.1f}" text-anchor="end">{percent} %</text>')
        for ranks in RANKS:
            if ranks in (1, 4, 16, 64, 256, 1024):
                out.append(f'<text x="{x(ranks):.1f}" y="{top + plot_h + 18}" text-anchor="middle">{ranks:,}</text>')
        out.append(f'<text x="{x0 + plot_w / 2}" y="{top + plot_h + 36}" text-anchor="middle">GPUs</text>')
        for work, color in zip(INPUTS["work"], COLORS):
            for name, _, dash in SERIES:
                points = " ".join(f"{x(r):.1f},{y(efficiency(work, INPUTS[name], r, strong)):.1f}" for r in RANKS)
                out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2" '
                           f'stroke-dasharray="{dash}"/>')
    at = left
    for work, color in zip(INPUTS["work"], COLORS):
        for _, label, dash in SERIES:
            out.append(f'<line x1="{at}" x2="{at + 28}" y1="{height - 14}" y2="{height - 14}" stroke="{color}" '
                       f'stroke-width="2" stroke-dasharray="{dash}"/>')
            out.append(f'<text x="{at + 34}" y="{height - 10}">{work.name}, {label}</text>')
            at += 200
    return "\n".join(out + ["</svg>", ""])


def page(text):
    """The page with new tables between its marks."""
    tables = {"weak": table(INPUTS["network"], False), "strong": table(INPUTS["network"], True),
              "weak, slow network": table(INPUTS["slow network"], False), "algorithms": algorithm_table()}
    for name, content in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        after = rest.split(end)[1]
        text = before + begin + "\n" + content + "\n\n" + end + after
    return text


# ---- beside measurements

def fit(points):
    """Latency and bandwidth of seconds = latency + bytes / bandwidth, with least squares of relative errors."""
    weights = [(1 / t, size / t) for size, t in points]
    a = sum(u * u for u, _ in weights)
    b = sum(u * v for u, v in weights)
    c = sum(v * v for _, v in weights)
    p, q = sum(u for u, _ in weights), sum(v for _, v in weights)
    determinant = a * c - b * b
    return max(0.0, (p * c - q * b) / determinant), max(1e-15, (q * a - p * b) / determinant)


def compare(measured):
    """The cost of copying gradients into buckets is that of one rank, which does not communicate."""
    copying = [one["overlapped"] / one["alone"] for one in measured if one["ranks"] == 1]
    if len(copying) != 1:
        sys.exit("--compare needs the output of one run with one rank")
    lines = ["ranks  step alone   predicted, cores free … shared   measured   at the end: predicted   measured"]
    for one in sorted(measured, key=lambda m: m["ranks"]):
        work = Work("measured", gpt_layers(one["vocabulary"], one["context"], one["layers"], one["width"]),
                    one["batch"], one["alone"] * copying[0], one["batch"], first_bucket=min(1 << 20, one["bucket_bytes"]),
                    bucket=one["bucket_bytes"])
        if one["all_reduce"]:
            latency, per_byte = fit(one["all_reduce"])
            reduce = lambda _, size: latency + per_byte * size
        else:
            reduce = lambda *_: 0.0
        free, shared = (simulate(work, one["batch"], one["ranks"], reduce, shares_cores=s) for s in (0, 1))
        at_end = simulate(work, one["batch"], one["ranks"], reduce, overlap=False)
        lines.append(f"{one['ranks']:5}  {1e3 * one['alone']:7.2f} ms   {1e3 * free.seconds:13.2f} … "
                     f"{1e3 * shared.seconds:.2f} ms   {1e3 * one['overlapped']:8.2f} ms   "
                     f"{1e3 * at_end.seconds:12.2f} ms {1e3 * one['at_end']:13.2f} ms")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=pathlib.Path, metavar="DOCS")
    parser.add_argument("--check", type=pathlib.Path, metavar="DOCS", help="fails unless --write would change nothing")
    parser.add_argument("--compare", type=pathlib.Path, nargs="+", metavar="FILE")
    options = parser.parse_args()
    if options.compare:
        print(compare([json.loads(line) for path in options.compare for line in path.read_text().splitlines()
                       if line.startswith("{")]))
        return 0
    docs = options.write or options.check
    if docs is None:
        for name, _, _ in SERIES:
            for strong in (False, True):
                print(f"{'strong' if strong else 'weak'} scaling, {name}: {INPUTS[name]}\n{table(INPUTS[name], strong)}\n")
        return 0
    text = (docs / "scaling.md").read_text()
    files = {docs / "scaling.md": page(text), docs / "scaling.svg": svg()}
    stale = [path for path, content in files.items() if not path.exists() or path.read_text() != content]
    if options.check and stale:
        print("not what scaling.py --write makes:", *stale)
        return 1
    for path in stale:
        path.write_text(files[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
