"""Fourier transforms from Python, against NumPy."""

import numpy as np
import pytest

import extensor as ex


@pytest.fixture
def numbers():
    draw = np.random.default_rng(5)
    return draw.standard_normal((3, 4, 5)) + 1j * draw.standard_normal((3, 4, 5))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("n", [None, 3, 8])
def test_an_axis(numbers, name, norm, n):
    x = numbers.real if name in ("rfft", "ihfft") else numbers
    expected = getattr(np.fft, name)(x, n=n, axis=1, norm=norm)
    found = getattr(ex.fft, name)(ex.asarray(x), n=n, axis=1, norm=norm)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("options", [{}, {"axes": (0, 2)}, {"s": (2, 6), "axes": (2, 1)}])
def test_several_axes(numbers, name, options):
    x = numbers.real if name == "rfftn" else numbers
    expected = getattr(np.fft, name)(x, **options)
    found = getattr(ex.fft, name)(ex.asarray(x), **options)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-12)


def test_frequencies_and_shifts():
    np.testing.assert_allclose(np.asarray(ex.fft.fftfreq(5, d=0.2)), np.fft.fftfreq(5, 0.2), rtol=1e-6)
    assert ex.fft.rfftfreq(8, d=0.5, dtype=ex.float64).dtype == ex.float64
    x = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(np.asarray(ex.fft.fftshift(ex.asarray(x))), np.fft.fftshift(x))
    shifted = ex.fft.ifftshift(ex.asarray(x), axes=(1,))
    np.testing.assert_array_equal(np.asarray(shifted), np.fft.ifftshift(x, axes=1))


def test_gradients_reach_real_numbers():
    x = ex.asarray(np.arange(6.0)).requires_grad_()
    ex.abs(ex.fft.rfft(x)).square().sum().backward()
    # Parseval: |y|² of half a spectrum is half of n · |x|², with that at 0 and 3 once.
    y = np.fft.fft(np.arange(6.0))
    weights = np.array([2, 1, 1, 2, 1, 1])
    expected = 6 * np.fft.ifft(weights * y).real
    np.testing.assert_allclose(np.asarray(x.grad), expected, rtol=1e-12)


def test_errors_name_the_argument(numbers):
    x = ex.asarray(numbers)
    with pytest.raises(ValueError, match="fft: n is 0"):
        ex.fft.fft(x, n=0)
    with pytest.raises(IndexError, match="fft: axis 3"):
        ex.fft.fft(x, axis=3)
    with pytest.raises((TypeError, ValueError), match="norm"):
        ex.fft.fft(x, norm="orthogonal")
    with pytest.raises(TypeError, match="rfft: x has dtype complex128"):
        ex.fft.rfft(x)
