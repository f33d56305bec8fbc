"""How PyTorch's ops on shapes, matrices and indices, and those that create tensors, are called in
ExTensor, for sample_inputs.py. op_calls.py has the others and explains the form."""

import torch

from op_calls import C, Options, binary, dtype_name, leave_out, sizes, whole


# ---- shapes


def flatten(x, start_dim=0, end_dim=-1):
    return C.flatten(x, start_dim, end_dim)


def squeeze(x, dim=None):
    if dim is not None and x.dim() > 0:
        dims = whole(dim) if isinstance(dim, (list, tuple)) else [dim]
        leave_out(any(-x.dim() <= d < x.dim() and x.shape[d] != 1 for d in dims),
                  "squeeze of an axis of another length is an error")
    return C.squeeze(x, None if dim is None else whole(dim))


def expand(x, *shape):
    shape = sizes(shape)
    offset = len(shape) - x.dim()
    leave_out(any(size == -1 and k < offset for k, size in enumerate(shape)), "an error in both")
    return C.broadcast_to(x, [x.shape[k - offset] if size == -1 else size
                              for k, size in enumerate(shape)])


def split(x, size, dim=0):
    if isinstance(size, int):
        length = x.shape[dim]
        leave_out(length == 0 or size == 0, "sizes of an empty axis")
        size = [min(size, length - k) for k in range(0, length, size)]
    return C.split(x, whole(size), dim)


def chunk(x, chunks, dim=0):
    leave_out(x.shape[dim] % chunks != 0, "chunk has parts whose lengths differ by at most 1")
    return C.chunk(x, chunks, dim)


def tensor_split(x, indices_or_sections, dim=0):
    if isinstance(indices_or_sections, int) or getattr(indices_or_sections, "dim", lambda: 1)() == 0:
        return C.chunk(x, int(indices_or_sections), dim)
    bounds = [0, *whole(indices_or_sections), x.shape[dim]]
    leave_out(bounds != sorted(bounds), "tensor_split at positions out of order")
    return C.split(x, [last - first for first, last in zip(bounds, bounds[1:])], dim)


def repeat_interleave(x, repeats, dim=None, output_size=None):
    return C.repeat_interleave(x, repeats, dim)


def roll(x, shifts, dims=None):
    lists = [whole(each) for each in (shifts, dims) if isinstance(each, (list, tuple))]
    leave_out(shifts == () or shifts == [] or len(lists) == 1 and len(lists[0]) > 1 and dims is not None
              and dims != (), "shifts and axes broadcast, as in NumPy")
    return C.roll(x, whole(shifts), None if dims is None or dims == () else whole(dims))


def transpose(x, dim0, dim1):
    return C.transpose(x, dim0, dim1)


def t(x):
    leave_out(x.dim() > 2, "transpose reverses all axes")
    return C.transpose(x)


def concatenate(tensors, dim=0):
    leave_out(any(each.shape == (0,) for each in tensors) and any(each.dim() > 1 for each in tensors),
              "empty vectors beside tensors of another rank")
    return C.concatenate(list(tensors), dim)


def meshgrid(*tensors, indexing="ij"):
    if isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    leave_out(any(each.dim() == 0 for each in tensors), "meshgrid of numbers")
    return C.meshgrid(list(tensors), indexing == "xy")


def leave_out_truth(dtype, value):
    leave_out(dtype == torch.bool and value not in (None, 0, 1), "numbers other than 0 and 1 in bool")


def pad(x, pad, mode="constant", value=None):
    leave_out_truth(x.dtype, value)
    pairs = [[pad[k], pad[k + 1]] for k in range(0, len(pad), 2)][::-1]
    pairs = [[0, 0]] * (x.dim() - len(pairs)) + pairs
    leave_out(mode != "constant" and any(width < 0 for width in pad),
              "negative widths in modes other than constant")
    ours = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return C.pad(x, pairs, ours, value)


def tensordot(a, b, dims=2):
    if isinstance(dims, int):
        return C.tensordot(a, b, dims)
    leave_out(any(a.shape[i] != b.shape[j] for i, j in zip(*dims)),
              "tensordot does not broadcast axes of length 1")
    return C.tensordot(a, b, whole(dims[0]), whole(dims[1]))


def einsum(equation, *operands):
    if isinstance(equation, (list, tuple)):
        operands, equation = equation, operands[0]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return C.einsum(equation, list(operands))


# ---- indexing


def index_of(index):
    if isinstance(index, slice):
        return Options(start=index.start, stop=index.stop, step=index.step)
    if index is Ellipsis:
        return "..."
    leave_out(isinstance(index, bool), "an index of type bool")
    if isinstance(index, (list, tuple)):
        leave_out(not all(isinstance(each, int) for each in index), "nested lists as an index")
        return torch.tensor(index)
    return index


def getitem(x, index):
    index = index if isinstance(index, tuple) else (index,)
    return C.index(x, [index_of(each) for each in index])


def narrow(x, dim, start, length):
    leave_out(isinstance(start, torch.Tensor) and start.dtype == torch.bool, "a bool as a position")
    leave_out(not -x.dim() <= dim < x.dim() or not 0 <= int(start) <= x.shape[dim] or
              not 0 <= length <= x.shape[dim] - int(start), "slices are cut to the axis")
    start = int(start)
    return C.index(x, [Options()] * (dim % x.dim()) + [Options(start=start, stop=start + length)])


def select(x, dim, index):
    return C.index(x, [Options()] * (dim % x.dim()) + [index])


def take(x, index):
    return C.take(x, index)


def take_along_dim(x, indices, dim=None):
    if dim is None:
        return C.take(C.ravel(x), C.ravel(indices))
    return C.take_along_axis(x, indices, dim)


def gather(x, dim, index, *, sparse_grad=False):
    leave_out(index.numel() == 0 and index.dim() != x.dim(), "an empty index of another rank")
    return C.gather(x, dim, index)


OTHER_SOURCE = "a source of another dtype is converted"


def scatter(x, dim, index, src=None, *, value=None, reduce=None):
    src = value if src is None else src
    leave_out(isinstance(src, torch.Tensor) and src.dtype != x.dtype, OTHER_SOURCE)
    if not isinstance(src, torch.Tensor):
        src = torch.full(index.shape, src, dtype=x.dtype)
    if reduce is not None:
        reduce = {"add": "sum", "multiply": "prod"}[reduce]
        return C.scatter(x, dim, index, src, reduce)
    return C.scatter(x, dim, index, src)


def scatter_add(x, dim, index, src):
    leave_out(src.dtype != x.dtype, OTHER_SOURCE)
    return C.scatter_add(x, dim, index, src)


def scatter_reduce(x, dim, index, src, reduce, *, include_self=True):
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    return C.scatter_reduce(x, dim, index, src, reduce, include_self)


def index_add(x, dim, index, source, *, alpha=1):
    return C.index_add(x, dim, index, source, alpha)


def index_put(x, indices, values, accumulate=False):
    leave_out(accumulate, "index_put has no accumulation; index_add and scatter_add have")
    return C.index_put(x, [index_of(each) for each in indices], values)


def masked_select(x, mask):
    leave_out(x.shape != mask.shape, "masked_select of a smaller mask selects rows, as x[mask]")
    return C.masked_select(x, mask)


def masked_fill(x, mask, value):
    leave_out(torch.broadcast_shapes(x.shape, mask.shape) != x.shape, "a mask larger than x")
    if isinstance(value, torch.Tensor):
        leave_out(value.dim() > 0)
        leave_out(value.dtype.is_complex and not x.dtype.is_complex, "where of a complex and a real tensor promotes")
        return C.where(mask, value, x)
    leave_out_truth(x.dtype, value)
    return C.masked_fill(x, mask, value)


def nonzero(x, as_tuple=False):
    leave_out(x.dim() == 0, "nonzero of a tensor without axes")
    return C.nonzero(x) if as_tuple else C.stack(C.nonzero(x), 1)


def one_hot(x, num_classes=-1):
    leave_out(num_classes == -1, "one_hot takes the number of classes")
    return C.one_hot(x, num_classes)


def embedding(weight, ids, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
              sparse=False):
    leave_out(max_norm is not None or scale_grad_by_freq or sparse)
    return C.embedding(weight, ids, padding_idx)


# ---- creation


def options(dtype=None, **rest):
    leave_out(any(rest.get(key) for key in ("requires_grad", "pin_memory")) or
              rest.get("layout") not in (None, torch.strided))
    return Options(dtype=dtype_name(dtype))


def arange(start, end=None, step=1, **named):
    if end is None:
        start, end = 0, start
    leave_out((end - start) * step < 0, "arange against its step is empty, as in NumPy")
    dtype = named.get("dtype")
    leave_out(dtype is not None and not dtype.is_floating_point and
              any(each != int(each) for each in (start, end, step)),
              "arange of integers from fractions")
    return C.arange(start, end, step, options(**named))


def linspace(start, end, steps, **named):
    leave_out(isinstance(start, torch.Tensor) or isinstance(end, torch.Tensor))
    named.setdefault("dtype", torch.get_default_dtype())
    leave_out(not named["dtype"].is_floating_point, "linspace of integers")
    return C.linspace(start, end, steps, options(**named))


def eye(rows, columns=None, **named):
    return C.eye(rows, columns, 0, options(**named))


def filled(name):
    return lambda *shape, **named: getattr(C, name)(sizes(shape), options(**named))


def filled_like(name):
    def made(x, *value, dtype=None, **named):
        leave_out_truth(dtype or x.dtype, *(value or [0]))
        return getattr(C, name)(x, *value, options(dtype=dtype))
    return made


def full(shape, value, **named):
    leave_out_truth(named.get("dtype"), value)
    return C.full(whole(shape), value, options(**named))


def conversion(dtype):
    def made(x, memory_format=None):
        return C.to(x, dtype)
    return made


CALLS = {
    "reshape": lambda x, shape: C.reshape(x, whole(shape)),
    "view": lambda x, *shape: C.reshape(x, sizes(shape)),
    "reshape_as": lambda x, other: C.reshape(x, list(other.shape)),
    "flatten": flatten, "squeeze": squeeze, "unsqueeze": lambda x, dim: C.unsqueeze(x, dim),
    "expand": expand, "broadcast_to": lambda x, shape: expand(x, shape),
    "expand_as": lambda x, other: C.broadcast_to(x, list(other.shape)),
    "permute": lambda x, *dims: C.permute_dims(x, sizes(dims)),
    "transpose": transpose, "t": t,
    "movedim": lambda x, source, destination: C.moveaxis(x, whole(source), whole(destination)),
    "tile": lambda x, *repeats: C.tile(x, sizes(repeats)),
    "repeat": lambda x, *repeats: C.tile(x, sizes(repeats)),
    "repeat_interleave": repeat_interleave,
    "flip": lambda x, dims: C.flip(x, whole(dims)), "roll": roll,
    "cat": concatenate,
    "stack": lambda tensors, dim=0: C.stack(list(tensors), dim),
    "split": split, "split_with_sizes": split, "chunk": chunk, "tensor_split": tensor_split,
    "unsafe_split": split, "unsafe_chunk": chunk, "view_as": lambda x, other: C.reshape(x, list(other.shape)),
    "unbind": lambda x, dim=0: C.unstack(x, dim), "meshgrid": meshgrid,
    "tril": lambda x, diagonal=0: C.tril(x, diagonal), "triu": lambda x, diagonal=0: C.triu(x, diagonal),
    "nn.functional.pad": pad, "constant_pad_nd": lambda x, widths, value=0: pad(x, widths, value=value),
    "matmul": binary("matmul"), "mm": binary("mm"), "bmm": binary("bmm"), "mv": binary("matmul"),
    "dot": binary("dot"), "outer": binary("outer"), "inner": binary("inner"),
    "tensordot": tensordot, "einsum": einsum,
    "linalg.vecdot": lambda a, b, dim=-1: C.vecdot(a, b, dim),
    "__getitem__": getitem, "narrow": narrow, "select": select, "take": take,
    "take_along_dim": take_along_dim, "gather": gather, "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce, "index_add": index_add, "index_put": index_put,
    "index_select": lambda x, dim, index: C.index_select(x, dim, index),
    "masked_select": masked_select, "masked_fill": masked_fill,
    "nonzero": nonzero, "argwhere": lambda x: nonzero(x), "nn.functional.one_hot": one_hot,
    "nn.functional.embedding": embedding,
    "arange": arange, "linspace": linspace, "eye": eye, "full": full,
    "zeros": filled("zeros"), "ones": filled("ones"),
    **{name: filled_like(name) for name in ("zeros_like", "ones_like", "full_like")},
    **{name: conversion(dtype) for name, dtype in {
        "bool": "bool_", "byte": "uint8", "char": "int8", "short": "int16", "int": "int32",
        "long": "int64", "half": "float16", "bfloat16": "bfloat16", "float": "float32",
        "double": "float64", "cfloat": "complex64", "cdouble": "complex128"}.items()},
}
