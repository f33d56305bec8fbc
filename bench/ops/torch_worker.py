"""The PyTorch side of `./ex bench ops`: prepares and times the calls that ops.py sends.

The requests are those of worker.cpp, except that a call is a PyTorch function with its arguments. The answer to
"prepare" contains the equivalent call of ExTensor, from the table that `./ex check pytorch` verifies.
"""

import json
import math
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/pytorch"))
import nn_calls  # noqa: E402
import op_calls  # noqa: E402
import shape_calls  # noqa: E402
from op_calls import C, Options, Part, Results, ValuesOnly, dtype_name, sizes  # noqa: E402

CALLS = op_calls.CALLS | shape_calls.CALLS
CALLS |= {f"nn.functional.{name}": call for name, call in nn_calls.CALLS.items()}


def random_dropout(x, p):
    return Part(C.dropout(x, p, True), 0)


def attention(query, key, value, is_causal=False):
    return C.scaled_dot_product_attention(query, key, value, Options(causal=is_causal))


# Ops whose results are random, inaccurate in PyTorch or compared in float64 only: CALLS leaves these arguments out.
CALLS |= {
    "rand": lambda *shape: C.rand(sizes(shape)),
    "randn": lambda *shape: C.randn(sizes(shape)),
    "randint": lambda low, high, shape: C.randint(low, high, sizes(shape)),
    "randperm": lambda n: C.randperm(n),
    "polygamma": lambda x, n: C.polygamma(x, n),
    "multinomial": lambda x, count, replacement: C.multinomial(x, count, replacement),
    "nn.functional.dropout": random_dropout,
    "nn.functional.scaled_dot_product_attention": attention,
    "rotary_embedding": lambda x: C.rotary_embedding(x),
}


def rotary_embedding(x):
    """PyTorch has no such op: as language models write it, with the halves of each row as pairs."""
    length, width = x.shape[-2:]
    rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(length), rates)
    cosines, sines = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


# Functions that PyTorch's database of ops, and so CALLS, calls with another order of arguments; meshgrid, which makes
# views, so that a copy belongs to the same work; and one that PyTorch lacks.
REORDERED = {
    "meshgrid": lambda *x, indexing: [grid.contiguous() for grid in torch.meshgrid(*x, indexing=indexing)],
    "where": lambda x, condition, other: torch.where(condition, x, other),
    "polygamma": lambda x, n: torch.polygamma(n, x),
    "rotary_embedding": rotary_embedding,
    "nn.functional.embedding": lambda weight, ids: torch.nn.functional.embedding(ids, weight),
}


def function_of(name):
    """torch.NAME, or the member of Tensor."""
    if name in REORDERED:
        return REORDERED[name]
    found = torch
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else getattr(torch.Tensor, name)


def values_of(spec, shape):
    """Values of the same kind as those of worker.cpp, row-major."""
    kind, dtype, count = spec["values"], getattr(torch, spec["dtype"]), math.prod(shape)
    if kind == "normal":
        if dtype.is_floating_point:
            return torch.randn(shape).to(dtype)
        return torch.randint(-100, 101, shape).to(dtype)
    if kind == "uniform":
        return torch.empty(shape).uniform_(spec["low"], spec["high"]).to(dtype)
    if kind == "integers":
        return torch.randint(spec["low"], spec["high"], shape).to(dtype)
    if kind == "bool":
        return torch.rand(shape) < 0.5
    if kind == "sorted":
        return torch.arange(count).to(dtype).reshape(shape)
    if kind == "permutation":
        return torch.randperm(count).to(dtype).reshape(shape)
    raise ValueError(f"unknown values '{kind}'")


def make_tensor(spec):
    shape = list(spec["shape"])
    if "order" in spec:
        order = spec["order"]
        tensor = values_of(spec, [shape[axis] for axis in order])
        tensor = tensor.permute([order.index(axis) for axis in range(len(shape))])
    elif "stepped" in spec:
        axis = spec["stepped"] % len(shape)
        shape[axis] *= 2
        tensor = values_of(spec, shape)[(slice(None),) * axis + (slice(None, None, 2),)]
    elif "broadcast" in spec:
        tensor = values_of(spec, [1] + shape[1:]).expand(shape)
    else:
        tensor = values_of(spec, shape)
    return tensor.requires_grad_() if spec.get("gradient") else tensor


def arguments_of(value, tensors):
    """The arguments that ops.py wrote as JSON."""
    if isinstance(value, dict):
        if "tensor" in value:
            return tensors[value["tensor"]]
        if "dtype" in value:
            return getattr(torch, value["dtype"])
        return slice(*value["slice"])
    if isinstance(value, list):
        return [arguments_of(each, tensors) for each in value]
    return value


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, bool):
        yield torch.tensor(value)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)


class Worker:
    def __init__(self):
        self.run, self.calls = None, 1

    def answer(self, request):
        if request["do"] == "version":
            return {"version": torch.__version__.split("+")[0]}
        if request["do"] == "prepare":
            return self.prepare(request)
        return self.measure(request["seconds"])

    def prepare(self, request):
        self.run = None
        torch.manual_seed(0)
        tensors = {name: make_tensor(spec) for name, spec in request["tensors"].items()}
        arguments = arguments_of(request["arguments"], tensors)
        named = {name: arguments_of(value, tensors) for name, value in request["named"].items()}
        function = function_of(request["op"])

        results = list(tensors_in(function(*arguments, **named)))
        ours = CALLS[request["op"]](*arguments, **named)
        ours = ours.call if isinstance(ours, ValuesOnly) else ours
        if isinstance(ours, Results):
            results = [result for result, call in zip(results, ours) if call is not None]
            ours = [call for call in ours if call is not None]

        def name_of(tensor):
            for name, each in tensors.items():
                if each is tensor:
                    return name
            raise op_calls.LeftOut("a tensor that the equivalent call makes from the arguments")

        answer = {"call": op_calls.expression(ours, name_of), "shapes": [list(each.shape) for each in results]}
        if request["backward"]:
            outputs = [each for each in results if each.requires_grad]
            factors = [torch.randn(each.shape).to(each.dtype) for each in outputs]
            inputs = [each for each in tensors.values() if each.requires_grad]
            self.run = lambda: torch.autograd.grad(outputs, inputs, factors, retain_graph=True, allow_unused=True)
        else:
            self.run = lambda: function(*arguments, **named)
        self.run()
        self.calls = 1
        return answer

    def measure(self, seconds):
        while True:
            start, cpu_start = time.perf_counter(), time.process_time()
            for _ in range(self.calls):
                self.run()
            cpu, wall = time.process_time() - cpu_start, time.perf_counter() - start
            if wall >= seconds / 2:
                return {"wall": wall / self.calls, "cpu": cpu / self.calls}
            self.calls = min(10 * self.calls, math.ceil(seconds / max(wall / self.calls, 1e-8)))


def main():
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    worker = Worker()
    for line in sys.stdin:
        try:
            answer = worker.answer(json.loads(line))
        except Exception as error:  # reported by ops.py, which goes on with the next case
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
