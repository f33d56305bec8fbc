"""Gradients, gradient modes and custom functions."""

import threading

import numpy as np
import pytest

import extensor as ex
from extensor.autograd import Function


def test_backward():
    x = ex.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    assert x.grad.tolist() == [2, 4, 6]
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 7, 9]  # gradients accumulate
    x.grad = None
    assert x.grad is None
    (2 * x).backward(ex.ones(3))
    assert x.grad.tolist() == [2, 2, 2]
    assert not x.detach().requires_grad
    with pytest.raises(ValueError):
        ex.ones(2).sum().backward()
    with pytest.raises(ex.ShapeError):
        (x * 2).backward()


def test_gradients_of_every_order():
    x = ex.tensor(2.0, dtype="float64", requires_grad=True)
    (first,) = ex.grad(x**4, [x], create_graph=True)
    (second,) = ex.grad(first, [x])
    assert first.item() == pytest.approx(32) and second.item() == pytest.approx(48)
    h = ex.hessian(lambda v: (v * v * v).sum(), ex.tensor([1.0, 2.0]))
    assert h.tolist() == [[6, 0], [0, 12]]
    value, derivative = ex.jvp(ex.exp, ex.tensor([0.0]), ex.tensor([3.0]))
    assert value.tolist() == [1] and derivative.tolist() == [3]


def test_modes():
    x = ex.ones(2).requires_grad_()
    with ex.no_grad():
        assert not (x * 2).requires_grad and not ex.is_grad_enabled()
        with ex.enable_grad():
            assert (x * 2).requires_grad
        x += 1
    assert (x * 2).requires_grad and ex.is_grad_enabled()

    @ex.no_grad()
    def f():
        return x * 2

    assert not f().requires_grad
    mode = ex.no_grad()
    with pytest.raises(RuntimeError), mode, mode:
        raise RuntimeError
    assert ex.is_grad_enabled()
    with ex.set_grad_enabled(False):
        assert not ex.is_grad_enabled()
    with ex.detect_anomaly(), pytest.raises(ValueError, match="log"):
        ex.log(ex.tensor([-1.0], requires_grad=True)).sum().backward()


class Cube(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x * ctx.scale, None


def test_custom_functions():
    x = ex.tensor([1.0, 2.0], dtype="float64", requires_grad=True)
    y = Cube.apply(x, 2.0)
    assert y.tolist() == [2, 16] and y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [6, 24]
    (first,) = ex.grad(Cube.apply(x, 2.0).sum(), [x], create_graph=True)
    (second,) = ex.grad(first.sum(), [x])
    assert second.tolist() == [12, 24]


def test_errors_in_custom_functions():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("mine")

    class Miscounted(Broken):
        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    x = ex.ones(2).requires_grad_()
    with pytest.raises(KeyError, match="mine"):
        Broken.apply(x).sum().backward()
    with pytest.raises(ValueError, match="2 gradients for 1 arguments"):
        Miscounted.apply(x).sum().backward()
    with pytest.raises(ZeroDivisionError):
        ex.jacobian(lambda v: 1 / 0, x)
    assert x.grad is None


def test_gradients_agree_with_differences():
    a = np.random.default_rng(0).uniform(0.5, 1.5, (3, 4))
    for f in (ex.exp, ex.log, ex.tanh, ex.softmax, ex.gelu, lambda v: v.norm(), lambda v: v[1:, ::2] * v[0, 0]):
        x = ex.tensor(a, requires_grad=True)
        weights = ex.asarray(np.random.default_rng(1).normal(size=f(x).shape))
        (f(x) * weights).sum().backward()
        expected = np.zeros_like(a)
        for k in np.ndindex(a.shape):
            shift = np.zeros_like(a)
            shift[k] = 1e-5
            high, low = (ex.sum(f(ex.asarray(a + s)) * weights).item() for s in (shift, -shift))
            expected[k] = (high - low) / 2e-5
        np.testing.assert_allclose(np.asarray(x.grad), expected, rtol=1e-7, atol=1e-8)


def test_threads():
    """Kernels run without the GIL, and modes belong to a thread."""
    results = []

    def work(seed):
        with ex.no_grad():
            x = ex.randn(200, 200, generator=ex.Generator(seed))
            for _ in range(20):
                x = ex.tanh(x @ x.T)
            results.append((seed, x.sum().item(), ex.is_grad_enabled()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 1, 1, 1)]
    for thread in threads:
        thread.start()
    assert ex.is_grad_enabled()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and len({r[1:] for r in results}) == 1
