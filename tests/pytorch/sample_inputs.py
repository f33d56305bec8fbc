"""Writes the sample inputs of PyTorch's own tests, its results, and the equivalent calls.

    sample_inputs.py DIRECTORY [OP...]

For every op of PyTorch's database (torch.testing._internal) that op_calls.py, shape_calls.py,
linalg_calls.py or nn_calls.py has a call for: DIRECTORY/samples/OP.json with the calls and OP.safetensors with tensors, results, first
and second derivatives. tests/pytorch_samples_test.cpp makes the calls and compares. Exits with 77
if PyTorch or its database is not installed.
"""

import collections
import json
import os
import re
import struct
import sys
import warnings

try:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
except ImportError as error:
    print(f"sample inputs of PyTorch: {error}")
    sys.exit(77)

import linalg_calls
import nn_calls
import op_calls
import shape_calls
from op_calls import Call, Compared, LeftOut, Part, Results, ValuesOnly

CALLS = op_calls.CALLS | shape_calls.CALLS | linalg_calls.CALLS
CALLS |= {f"nn.functional.{name}": call for name, call in nn_calls.CALLS.items()}

DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
          torch.uint8: "U8", torch.bool: "BOOL"}
PARTS = {torch.complex128: torch.float64, torch.complex64: torch.float32}
MOST_ELEMENTS = 100_000  # larger samples are left out: the files would take gigabytes


class File:
    """The tensors of one op, by name, and expressions that refer to them."""

    def __init__(self):
        self.tensors, self.names = {}, {}
        self.complex = []  # names of complex tensors; the file has their real and imaginary parts

    def name(self, tensor):
        if id(tensor) not in self.names:
            if tensor.dtype not in DTYPES and tensor.dtype not in PARTS:
                raise LeftOut(f"tensors of {str(tensor.dtype).removeprefix('torch.')}")
            if tensor.layout != torch.strided:
                raise LeftOut("sparse tensors")
            if tensor.numel() > MOST_ELEMENTS:
                raise LeftOut("large tensors")
            if tensor.dim() > 64:
                raise LeftOut("more than 64 axes")
            name = f"t{len(self.tensors)}"
            # The op may write into its arguments, and samples share them.
            self.tensors[name] = tensor.detach().clone().resolve_conj()
            if tensor.dtype in PARTS:
                self.tensors[name] = torch.view_as_real(self.tensors[name])
                self.complex.append(name)
            self.names[id(tensor)] = name, tensor
        return self.names[id(tensor)][0]

    def forget_names(self):
        self.names.clear()

    def expression(self, value):
        return op_calls.expression(value, self.name)

    def save(self, path):
        header, data, offset = {}, [], 0
        for name, tensor in self.tensors.items():
            plain = torch.empty(tensor.numel(), dtype=tensor.dtype)
            plain.copy_(tensor.detach().reshape(-1))
            raw = plain.view(torch.uint8).numpy().tobytes()
            header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                            "data_offsets": [offset, offset + len(raw)]}
            data.append(raw)
            offset += len(raw)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, Call):
        yield from tensors_in([value.arguments, value.named])
    elif isinstance(value, Part):
        yield from tensors_in(value.of)
    elif isinstance(value, (Compared, ValuesOnly)):
        yield from tensors_in(value.call)


def short(value):
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(short(each) for each in value) + "]"
    return repr(value)


def described(sample):
    parts = [short(sample.input)] + [short(each) for each in sample.args]
    return ", ".join(parts + [f"{key}={short(each)}" for key, each in sample.kwargs.items()])


def call_for(name, sample):
    kwargs = {key: value for key, value in sample.kwargs.items() if key != "device"}
    return CALLS[name](sample.input, *sample.args, **kwargs)


def factors(tensors, generator):
    return [torch.randn(each.shape, dtype=each.dtype, generator=generator) for each in tensors]


def derivatives(file, entry, inputs, outputs, second):
    """Gradients of the outputs, weighted by random factors, and the derivative of those gradients."""
    generator = torch.Generator().manual_seed(len(file.tensors))
    weighted = [k for k, each in enumerate(outputs) if each is not None and each.requires_grad]
    results = [outputs[k] for k in weighted]
    weights = factors(results, generator)
    gradients = torch.autograd.grad(results, inputs, weights, allow_unused=True, create_graph=second)
    names = [None] * len(outputs)
    for k, weight in zip(weighted, weights):
        names[k] = file.name(weight)
    defined = [g if g is not None else torch.zeros_like(i) for g, i in zip(gradients, inputs)]
    entry |= {"weights": names, "gradients": [file.name(each) for each in defined]}
    if not second:
        return
    differentiable = [each for each in defined if each.requires_grad]
    directions = factors(defined, generator)
    seconds = [None] * len(inputs)
    if differentiable:
        try:
            seconds = torch.autograd.grad(
                differentiable, inputs,
                [d for d, each in zip(directions, defined) if each.requires_grad],
                allow_unused=True)
        except RuntimeError as error:
            raise LeftOut(f"second derivatives: PyTorch: {error}".splitlines()[0]) from None
    entry["directions"] = [file.name(each) for each in directions]
    entry["second"] = [file.name(torch.zeros_like(i) if s is None else s)
                       for s, i in zip(seconds, inputs)]


def sample_entry(file, op, sample, dtype, left_out):
    file.forget_names()
    call = call_for(op.name, sample)
    orders = 2 if op.supports_gradgrad and dtype in (torch.float64, torch.complex128) else 1
    if isinstance(call, ValuesOnly):
        left_out[call.reason] += 1
        orders, call = min(orders, int(call.first)), call.call
    prepare, process = op_calls.unchanged, op_calls.unchanged
    if isinstance(call, Compared):
        prepare, process, call = call.prepare, call.process, call.call
    # An argument that the call takes as a number has no gradient.
    used = {id(each) for each in tensors_in(call)}
    inputs = [each for each in tensors_in([sample.input, sample.args, sample.kwargs])
              if each.requires_grad and id(each) in used]
    entry = {"what": f"{str(dtype).removeprefix('torch.')}: {described(sample)}",
             "inputs": [file.name(each) for each in inputs]}
    if dtype.is_complex:
        entry["of_complex"] = True
    elif not dtype.is_floating_point:
        entry["of_integers"] = True
    if any(each.dim() == 0 for each in tensors_in(sample.input)):
        entry["of_number"] = True
    expressions = file.expression(call)
    outputs = process(op(prepare(sample.input), *sample.args, **sample.kwargs))
    outputs = list(tensors_in(outputs)) if not isinstance(outputs, bool) else [torch.tensor(outputs)]
    if isinstance(call, Results):
        outputs = [each for each, ours in zip(outputs, call) if ours is not None]
        expressions = [each for each in expressions if each is not None]
    entry["call"] = expressions
    entry["outputs"] = [file.name(each) for each in outputs]
    if orders > 0 and inputs and any(each.requires_grad for each in outputs):
        try:
            derivatives(file, entry, inputs, outputs, orders == 2)
        except LeftOut as reason:
            left_out[str(reason)] += 1
    return entry


def samples_of(file, op, left_out):
    for dtype in (torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128):
        if dtype not in op.supported_dtypes("cpu"):
            continue
        gradients = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        torch.manual_seed(0)
        for sample in op.sample_inputs("cpu", dtype, requires_grad=gradients):
            try:
                yield sample_entry(file, op, sample, dtype, left_out)
            except LeftOut as reason:
                left_out[str(reason)] += 1
            except Exception as error:
                raise RuntimeError(f"{op.formatted_name}: {described(sample)}") from error


def refused_of(file, op, left_out):
    if op.error_inputs_func is None:
        return
    for error in op.error_inputs("cpu"):
        sample = error.sample_input
        try:
            file.forget_names()
            if error.error_type is TypeError or error.error_regex == "":
                raise LeftOut("types that Python's functions refuse")
            if any(each.numel() == 0 for each in tensors_in(sample.input)):
                raise LeftOut("refused, but empty: so is the result")
            call = call_for(op.name, sample)
            while isinstance(call, (ValuesOnly, Compared)):
                call = call.call
            if isinstance(call, Results):
                call = [ours for ours in call if ours is not None]
            yield {"what": described(sample), "call": file.expression(call),
                   "refused": error.error_regex}
        except LeftOut as reason:
            left_out[str(reason)] += 1
        except Exception as reason:  # PyTorch refuses types and sizes that the call cannot express
            left_out[f"malformed, and not to be expressed here: {reason}"] += 1


def main(directory, only):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = os.path.join(directory, "samples")
    os.makedirs(folder, exist_ok=True)
    missing = sorted({op.name for op in op_db} - set(CALLS))
    failed = []
    for op in op_db:
        if op.name not in CALLS or (only and op.name not in only):
            continue
        file, left_out = File(), collections.Counter()
        try:
            samples = list(samples_of(file, op, left_out)) + list(refused_of(file, op, left_out))
        except RuntimeError as error:
            failed.append(f"{error}: {error.__cause__!r}")
            continue
        if not samples:
            print(f"{op.formatted_name}: all left out: {dict(left_out)}", flush=True)
            continue
        name = re.sub(r"\W", "_", ".".join(filter(None, (op.name, op.variant_test_name))))
        file.save(os.path.join(folder, f"{name}.safetensors"))
        with open(os.path.join(folder, f"{name}.json"), "w") as out:
            json.dump({"op": op.formatted_name, "samples": samples, "left_out": left_out,
                       "complex": file.complex}, out)
        print(f"{op.formatted_name}: {len(samples)} samples", flush=True)
    print(f"{len(CALLS)} ops; PyTorch's database has {len(missing)} more: {' '.join(missing)}")
    if failed:
        sys.exit("\n".join(["no call for these arguments:"] + failed))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
