"""Modules, layers, optimizers, schedules, data and files; a network that learns digits."""

import copy
import math

import numpy as np
import pytest

import extensor as ex
from extensor import data, nn, optim


class Net(nn.Module):
    def __init__(self):
        self.hidden = nn.Linear(4, 8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.scale = nn.Parameter([2.0])
        self.register_buffer("offset", ex.zeros(8))

    def forward(self, x):
        x = ex.relu(self.hidden(x)) + self.offset
        for block in self.blocks:
            x = block(x) * self.scale
        return x


def test_registration():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == [
        "scale", "hidden.weight", "hidden.bias", "blocks.0.weight", "blocks.0.bias",
        "blocks.1.weight", "blocks.1.bias",
    ]  # fmt: skip
    assert [name for name, _ in net.named_buffers()] == ["offset"]
    assert net.hidden.weight.shape == (8, 4) and net.hidden.weight.requires_grad
    assert net.parameter_count() == 1 + 40 + 2 * 72
    net.tied = net.hidden
    assert len(list(net.parameters())) == 7  # listed once
    assert "(hidden): Linear(" in repr(net)
    del net.tied
    assert not hasattr(net, "tied")
    with pytest.raises(AttributeError, match="copy_from"):
        net.hidden.weight = ex.zeros(8, 4)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        net.nothing


def test_state_dict():
    a, b = Net(), Net()
    b.load_state_dict(a.state_dict())
    x = ex.randn(3, 4)
    assert a(x).tolist() == b(x).tolist()
    state = a.state_dict()
    state["extra"] = state.pop("scale")
    with pytest.raises(ValueError, match="missing names: scale; unknown names: extra"):
        b.load_state_dict(state)
    b.load_state_dict(state, strict=False)
    state = {**a.state_dict(), "offset": ex.zeros(3)}
    with pytest.raises(ex.ShapeError, match="offset"):
        b.load_state_dict(state)
    c = copy.deepcopy(a)
    with ex.no_grad():
        c.hidden.weight.fill(0)
    assert a(x).tolist() == b(x).tolist() != c(x).tolist()


def test_modes():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    assert net.training
    net.eval()
    assert not net[1].training
    x = ex.randn(5, 4)
    assert net(x).tolist() == net(x).tolist()
    net.train()
    assert net(x).tolist() != net(x).tolist()
    assert net[2].num_batches_tracked.item() == 2
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_layers_against_numpy():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5)).astype("float32")
    layer = nn.Linear(5, 3)
    expected = x @ np.asarray(layer.weight.detach()).T + np.asarray(layer.bias.detach())
    np.testing.assert_allclose(np.asarray(layer(x).detach()), expected, rtol=1e-5, atol=1e-6)
    norm = nn.LayerNorm(5)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(np.asarray(norm(x).detach()), expected, rtol=1e-4, atol=1e-5)
    assert nn.Linear(5, 3, bias=False).state_dict().keys() == {"weight"}
    assert nn.Linear(2, 2, dtype="float64").weight.dtype is ex.float64
    assert nn.Conv2d(1, 4, 3, stride=2, padding=1)(ex.ones(1, 1, 8, 8)).shape == (1, 4, 4, 4)
    output, hidden = nn.GRU(3, 4)(ex.ones(5, 2, 3))
    assert output.shape == (5, 2, 4) and hidden.shape == (1, 2, 4)
    output, hidden, cell = nn.LSTM(3, 4)(ex.ones(5, 2, 3))
    assert cell.shape == (1, 2, 4)
    attention = nn.MultiheadAttention(8, 2)
    assert attention(ex.ones(1, 3, 8), causal=True).shape == (1, 3, 8)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)(ex.randn(4, 3), ex.tensor([0, 1, 2, 0]))
    assert loss.shape == ()
    with pytest.raises(TypeError, match="Linear: missing argument 'out_features'"):
        nn.Linear(3)
    with pytest.raises(ex.ShapeError, match="Linear"):
        layer(ex.ones(2, 4))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Lion"])
def test_optimizers(name):
    w = nn.Parameter([3.0, -2.0])
    optimizer = getattr(optim, name)([w], lr=0.05)
    first = (w * w).sum().item()
    for _ in range(20):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    assert (w * w).sum().item() < first
    state = optimizer.state_dict()
    other = getattr(optim, name)([w], lr=1.0)
    other.load_state_dict(state)
    assert other.lr() == 0.05


def test_sgd_with_momentum_against_numpy():
    w = nn.Parameter(ex.tensor([1.0, 2.0], dtype="float64"))
    expected, velocity = np.array([1.0, 2.0]), np.zeros(2)
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        (w * w * w).sum().backward()
        optimizer.step()
        gradient = 3 * expected**2 + 0.01 * expected
        velocity = 0.9 * velocity + gradient
        expected = expected - 0.1 * velocity
    np.testing.assert_allclose(np.asarray(w.detach()), expected, rtol=1e-12)


def test_groups_and_schedules():
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    assert optimizer.group_count == 2 and (optimizer.lr(0), optimizer.lr(1)) == (0.1, 0.5)
    schedule = optim.StepLR(optimizer, step_size=2, gamma=0.1)
    rates = []
    for _ in range(4):
        rates.append(optimizer.lr())
        schedule.step()
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01])
    cosine = optim.CosineAnnealingLR(optim.SGD([nn.Parameter([1.0])], lr=1.0), t_max=4)
    cosine.step()
    assert cosine.last_lr() == pytest.approx([(1 + math.cos(math.pi / 4)) / 2])
    warm = optim.LambdaLR(optim.SGD([nn.Parameter([1.0])], lr=1.0), lambda epoch: 1 / (epoch + 1))
    warm.step()
    assert warm.last_lr() == [0.5]
    with pytest.raises(TypeError, match="'params' is a Tensor"):
        optim.SGD(a)
    with pytest.raises(ValueError, match="lr"):
        optim.SGD([a], lr=-1.0)


def test_clipping():
    w = nn.Parameter([3.0, 4.0])
    w.grad = [3.0, 4.0]
    assert float(optim.clip_grad_norm([w], 1.0)) == pytest.approx(5)
    assert w.grad.norm().item() == pytest.approx(1, rel=1e-5)


class Squares:
    def __len__(self):
        return 10

    def __getitem__(self, k):
        if not 0 <= k < 10:
            raise IndexError(k)
        return {"x": float(k), "y": np.array([k * k])}


def test_data_loader():
    loader = data.DataLoader(Squares(), batch_size=4, shuffle=True, seed=3)
    assert len(loader) == 3
    batches = list(loader)
    assert [len(batch["x"]) for batch in batches] == [4, 4, 2]
    seen = sorted(v for batch in batches for v in batch["x"].tolist())
    assert seen == list(range(10))
    assert all((b["x"] ** 2).tolist() == b["y"].flatten().tolist() for b in batches)
    again = data.DataLoader(Squares(), batch_size=4, shuffle=True, seed=3)
    assert next(iter(again))["x"].tolist() == batches[0]["x"].tolist()
    assert next(iter(again))["x"].tolist() != batches[0]["x"].tolist()  # the next epoch
    pairs = data.DataLoader(data.TensorDataset(ex.arange(5), ex.ones(5, 2)), 2, drop_last=True)
    assert [x.tolist() for x, y in pairs] == [[0, 1], [2, 3]]

    class Failing(Squares):
        def __getitem__(self, k):
            raise KeyError(k)

    with pytest.raises(KeyError):
        next(iter(data.DataLoader(Failing())))


def test_files(tmp_path):
    tensors = {"a": ex.arange(6).reshape(2, 3), "b": ex.ones(2, dtype="bfloat16")}
    ex.save_safetensors(tmp_path / "x.safetensors", tensors, {"note": "hello"})
    loaded = ex.load_safetensors(str(tmp_path / "x.safetensors"))
    assert loaded.metadata == {"note": "hello"}
    assert loaded.tensors["a"].tolist() == tensors["a"].tolist()
    assert loaded.tensors["b"].dtype is ex.bfloat16
    ex.save_npy(tmp_path / "a.npy", tensors["a"])
    assert np.load(tmp_path / "a.npy").tolist() == tensors["a"].tolist()
    np.savez(tmp_path / "a.npz", x=np.eye(2), y=np.arange(3))
    assert ex.load_npz(tmp_path / "a.npz")["x"].tolist() == [[1, 0], [0, 1]]
    ex.save_npz(tmp_path / "b.npz", {"k": tensors["a"]})
    assert np.load(tmp_path / "b.npz")["k"].tolist() == tensors["a"].tolist()


def test_lenet_learns_digits():
    ex.manual_seed(0)
    train = data.digits(2000, seed=1)
    test = data.digits(500, seed=2)

    def inputs(split):
        images = split.images.to(ex.float32).reshape(len(split.labels), 1, 28, 28)
        return (images / 255 - 0.13) / 0.31

    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    loss_of = nn.CrossEntropyLoss()
    loader = data.DataLoader(data.TensorDataset(inputs(train), train.labels), 64, shuffle=True)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
    model.eval()
    with ex.no_grad():
        correct = (model(inputs(test)).argmax(1) == test.labels).to(ex.float32).mean().item()
    assert correct > 0.9
