"""How PyTorch's linear algebra, Fourier transforms and ops of complex numbers are called in ExTensor,
for sample_inputs.py. op_calls.py has the others and explains the form."""

import torch

from op_calls import C, Call, Compared, Part, Results, ValuesOnly, leave_out, whole


class Space:
    """The functions of a namespace."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, function):
        return lambda *arguments, **named: Call(f"{self.name}.{function}", arguments, named)


linalg, fft = Space("linalg"), Space("fft")

# ---- linear algebra


def adjoint(x):
    return C.conj(C.matrix_transpose(x))


def symmetric(call):
    """A function of symmetric or Hermitian matrices. PyTorch reads one triangle of them, so both get x + xᴴ."""

    def made(x, **options):
        options.pop("UPLO", None)
        return Compared(call(C.add(x, adjoint(x)), **options), prepare=lambda each: each + each.mH)
    return made


def eigh(x):
    """The signs and phases of eigenvectors are arbitrary."""
    found = linalg.eigh(x)
    return [Part(found, 0), C.abs(Part(found, 1))]


def magnitudes(outputs):
    return [outputs[0], outputs[1].abs()]


def symmetric_eigh(x, UPLO="L"):
    return Compared(eigh(C.add(x, adjoint(x))), prepare=lambda each: each + each.mH, process=magnitudes)


SINGLE = "factors of float32, whose rounding errors grow where values are close; float64 is compared"


def svd(x, full_matrices=True):
    leave_out(x.dtype == torch.float32, SINGLE)
    rows, columns = x.shape[-2:]
    if full_matrices and rows != columns:
        call = linalg.svd(x, full_matrices)
        return ValuesOnly(Results([None, Part(call, 1), None]), "bases of full matrices, which are arbitrary")
    found = linalg.svd(x, full_matrices)
    return Compared([C.abs(Part(found, 0)), Part(found, 1), C.abs(Part(found, 2))],
                    process=lambda outputs: [outputs[0].abs(), outputs[1], outputs[2].abs()])


def qr(x, mode="reduced"):
    leave_out(mode == "r", "qr without Q")
    call = linalg.qr(x, mode)
    if mode == "complete" and x.shape[-2] > x.shape[-1]:
        return ValuesOnly(Results([None, Part(call, 1)]), "complete factors, whose last columns are arbitrary")
    return call


def vector_product(x, y, dim=-1):
    leave_out(x.dim() != y.dim(), "cross broadcasts tensors of several ranks")
    return linalg.cross(x, y, dim)


def cross(x, y, dim=None):
    if dim is None:
        dim = next((d for d in range(x.dim()) if x.shape[d] == 3), -1)
    return vector_product(x, y, dim)


def trace(x):
    leave_out(x.dim() > 2, "trace of a batch")
    return linalg.trace(x)


def matrix_power(x, n):
    call = linalg.matrix_power(x, n)
    return ValuesOnly(call, "the gradient of the power 0, which is not recorded") if n == 0 else call


def diagonal(dim1, dim2):
    def made(x, offset=0, dim1=dim1, dim2=dim2):
        return linalg.diagonal(C.moveaxis(x, [dim1, dim2], [-2, -1]), offset)
    return made


def matrix_norm(x, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    leave_out(dtype is not None)
    axes = whole(dim)
    found = linalg.matrix_norm(C.moveaxis(x, axes, [-2, -1]), ord, keepdim)
    return C.moveaxis(found, [-2, -1], axes) if keepdim else found


def at_zero(call, x):
    """PyTorch's second derivatives of a norm at 0 are NaN or 0, ours infinite or 0."""
    if x.numel() > 0 and not x.any():
        return ValuesOnly(call, "second derivatives of norms at 0", first=True)
    return call


def norm(x, ord=None, dim=None, keepdim=False, *, dtype=None):
    leave_out(dtype is not None)
    if ord is None:
        return at_zero(linalg.vector_norm(x, 2, None if dim is None else whole(dim), keepdim), x)
    axes = dim if dim is not None else tuple(range(x.dim()))
    if isinstance(axes, int) or len(axes) == 1:
        return at_zero(linalg.vector_norm(x, ord, whole(axes), keepdim), x)
    return at_zero(matrix_norm(x, ord, axes, keepdim), x)


def ranked(name):
    def made(x, *factor, atol=None, rtol=None, hermitian=False):
        leave_out(atol is not None, "an absolute tolerance")
        if factor:  # the variant of products of low rank
            return getattr(linalg, name)(C.matmul(x, C.matrix_transpose(factor[0])))
        if hermitian:
            leave_out(name == "pinv" and x.dtype == torch.float32, SINGLE)
            return symmetric(getattr(linalg, name))(x)
        return getattr(linalg, name)(x, rtol)
    return made


def solve(a, b, *, left=True):
    if not left:
        return adjoint(linalg.solve(adjoint(a), adjoint(b)))
    if b.dim() > 1 and b.shape == a.shape[:-1]:
        return C.squeeze(linalg.solve(a, C.unsqueeze(b, -1)), -1)
    return linalg.solve(a, b)


def solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    leave_out(unitriangular, "triangles with a diagonal of ones that is not read")
    if not left:
        return C.matrix_transpose(
            linalg.solve_triangular(C.matrix_transpose(a), C.matrix_transpose(b), not upper))
    return linalg.solve_triangular(a, b, upper)


# ---- Fourier transforms


def transform(name):
    def made(x, n=None, dim=-1, norm=None):
        return getattr(fft, name)(x, n=n, axis=dim, norm=norm)
    return made


def transforms(name, default=None):
    def made(x, s=None, dim=default, norm=None):
        leave_out(s is not None and -1 in s, "the length -1, which stands for that of the axis")
        return getattr(fft, name)(x, s=None if s is None else whole(s),
                                  axes=None if dim is None else whole(dim), norm=norm)
    return made


def shift(name):
    return lambda x, dim=None: getattr(fft, name)(x, None if dim is None else whole(dim))


# ---- complex numbers, and elementwise functions of arrays


def diff(x, n=1, dim=-1, prepend=None, append=None):
    return C.diff(x, axis=dim, n=n, prepend=prepend, append=append)


def isin(elements, test_elements, assume_unique=False, invert=False):
    return C.isin(elements, test_elements, invert)


def equal(x, y):
    leave_out(x.shape != y.shape, "tensors of several shapes")
    return C.all(C.equal(x, y))


def complex_of(x, y):
    leave_out(x.dtype != y.dtype, "complex of two dtypes, which promote")
    return C.complex(x, y)


def part(name):
    return lambda x: getattr(C, name)(x)


CALLS = {
    **{f"linalg.{name}": (lambda name: lambda x: getattr(linalg, name)(x))(name)
       for name in ("det", "inv", "slogdet", "svdvals")},
    "linalg.cholesky": symmetric(linalg.cholesky), "linalg.eigvalsh": symmetric(linalg.eigvalsh),
    "linalg.eigh": symmetric_eigh, "linalg.svd": svd, "linalg.qr": qr,
    "linalg.matrix_power": matrix_power,
    "linalg.matrix_norm": matrix_norm, "linalg.norm": norm,
    "linalg.matrix_rank": ranked("matrix_rank"), "linalg.pinv": ranked("pinv"), "pinverse": linalg.pinv,
    "linalg.solve": solve, "linalg.solve_triangular": solve_triangular,
    "linalg.cross": vector_product, "cross": cross,
    "linalg.diagonal": diagonal(-2, -1), "diagonal": diagonal(0, 1),
    "trace": trace,
    **{f"fft.{name}": transform(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{name}n": transforms(f"{name}n") for name in ("fft", "ifft", "rfft", "irfft")},
    **{f"fft.{name}2": transforms(f"{name}n", (-2, -1)) for name in ("fft", "ifft", "rfft", "irfft")},
    **{f"fft.{name}": shift(name) for name in ("fftshift", "ifftshift")},
    **{name: part(name) for name in ("angle", "real", "imag", "conj", "view_as_real", "view_as_complex",
                                     "signbit")},
    "H": adjoint, "mH": adjoint, "vdot": lambda a, b: C.dot(C.conj(a), b), "conj_physical": part("conj"), "sgn": part("sign"), "complex": complex_of, "diff": diff, "isin": isin, "equal": equal,
    "nextafter": lambda x, y: ValuesOnly(C.nextafter(x, y), "the gradient of nextafter, which is not recorded"),
    "broadcast_tensors": lambda *tensors: C.broadcast_arrays(list(tensors)),
}
