"""Linear algebra from Python, against NumPy."""

import numpy as np
import pytest

import extensor as ex


@pytest.fixture
def matrices():
    return np.random.default_rng(3).standard_normal((3, 5, 5))


def test_factorizations_restore_the_matrix(matrices):
    x = ex.asarray(matrices)
    q, r = ex.linalg.qr(x)
    np.testing.assert_allclose(np.asarray(q @ r), matrices, atol=1e-12)
    u, s, vh = ex.linalg.svd(x)
    np.testing.assert_allclose(np.asarray(u * s[..., None, :] @ vh), matrices, atol=1e-12)
    np.testing.assert_allclose(np.asarray(s), np.linalg.svd(matrices, compute_uv=False), rtol=1e-12)


def test_solutions_and_determinants_are_those_of_numpy(matrices):
    x, right = ex.asarray(matrices), np.arange(15.0).reshape(3, 5, 1)
    expected = np.linalg.solve(matrices, right)
    np.testing.assert_allclose(np.asarray(ex.linalg.solve(x, ex.asarray(right))), expected, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(ex.linalg.det(x)), np.linalg.det(matrices), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(ex.linalg.inv(x)), np.linalg.inv(matrices), rtol=1e-9)


def test_the_gradient_of_a_log_determinant_is_the_inverse_transposed(matrices):
    x = ex.tensor(matrices, requires_grad=True)
    ex.linalg.slogdet(x).logabsdet.sum().backward()
    expected = np.linalg.inv(matrices).transpose(0, 2, 1)
    np.testing.assert_allclose(np.asarray(x.grad), expected, rtol=1e-9)


def test_names_of_the_main_namespace(matrices):
    for name in ("matmul", "matrix_transpose", "outer", "tensordot", "vecdot"):
        assert getattr(ex.linalg, name) is getattr(ex, name)
        assert name in ex.linalg.__all__


def test_a_singular_matrix_is_named():
    with pytest.raises(ValueError, match=r"inv: x is singular: matrix \[1\]"):
        ex.linalg.inv(ex.stack([ex.eye(3), ex.zeros((3, 3))]))
