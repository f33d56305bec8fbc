"""Export to ONNX and import, and the results of onnxruntime where it is installed."""

import numpy as np
import pytest

import extensor as ex
from extensor import nn, onnx


class Net(nn.Module):
    def __init__(self):
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.scale = nn.Parameter([2.0])
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = ex.relu(self.norm(self.conv(x))) * self.scale
        return self.out(self.drop(ex.adaptive_avg_pool2d(x, 1).reshape(x.shape[0], -1)))


def evaluated(net, x):
    net.eval()
    with ex.no_grad():
        return net(x).tolist()


def test_round_trip(tmp_path):
    net, x = Net(), ex.randn(2, 1, 6, 6)
    onnx.export(net, tmp_path / "net.onnx", x, dynamic_batch=True)
    assert net.training and net.drop.training
    model = onnx.load(tmp_path / "net.onnx")
    names = {name for name, _ in model.named_parameters()}
    assert names == {name for name, _ in net.named_parameters()}
    for batch in (x, ex.randn(5, 1, 6, 6)):
        assert model(batch).tolist() == evaluated(net, batch)


def test_functions_with_several_tensors(tmp_path):
    a, b = ex.randn(2, 3), ex.randn(2, 3)
    onnx.export(lambda a, b: (a + b, a @ b.T), tmp_path / "f.onnx", a, b, input_names=["a", "b"])
    both = onnx.load(tmp_path / "f.onnx")(a, b)
    assert both[0].tolist() == (a + b).tolist() and both[1].shape == (2, 2)


def test_training_a_loaded_model(tmp_path):
    onnx.export(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), tmp_path / "m.onnx",
                ex.ones(2, 3))  # fmt: skip
    model = onnx.load(tmp_path / "m.onnx")
    model(ex.ones(2, 3)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_errors(tmp_path):
    x = ex.ones(3)
    with pytest.raises(ValueError, match="no form in ONNX for erfinv"):
        onnx.export(ex.erfinv, tmp_path / "x.onnx", x)
    with pytest.raises(ValueError, match="opset is 3"):
        onnx.export(ex.exp, tmp_path / "x.onnx", x, opset=3)
    with pytest.raises(ZeroDivisionError):
        onnx.export(lambda y: 1 / 0, tmp_path / "x.onnx", x)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "bad.onnx").write_bytes(b"\x08")
    with pytest.raises(ex.FormatError, match="bad.onnx"):
        onnx.load(tmp_path / "bad.onnx")


def test_onnxruntime(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    net, x = Net(), ex.randn(2, 1, 6, 6)
    onnx.export(net, tmp_path / "net.onnx", x, input_names=["x"], dynamic_batch=True)
    session = runtime.InferenceSession(
        str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {"x": np.asarray(ex.randn(4, 1, 6, 6))})[0]
    assert found.shape == (4, 3)
    found = session.run(None, {"x": np.asarray(x)})[0]
    assert np.allclose(found, np.array(evaluated(net, x)), rtol=1e-4, atol=1e-5)
