"""Training from Python: modes, modules with nested parts, datasets, the trainer, models and text."""

import inspect
import json
import math
import pathlib
import re

import numpy as np
import pytest

import extensor as ex
from extensor import data, models, nn, optim, train


class Nested(nn.Module):
    def __init__(self):
        self.blocks = [nn.Linear(4, 4), {"inner": nn.Linear(4, 4)}]
        self.scales = (nn.Parameter([2.0]),)
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2)})
        self.drop = nn.Dropout(0.5)
        self.register_buffer("offset", ex.zeros(4))

    def forward(self, x):
        x = self.blocks[1]["inner"](ex.relu(self.blocks[0](x))) * self.scales[0] + self.offset
        return self.heads["a"](self.drop(x))


# ---- modes


def test_autocast():
    x, w = ex.ones(4, 4), ex.ones(4, 4).requires_grad_()
    with ex.Autocast():
        y = x @ w
        assert y.dtype is ex.bfloat16 and ex.autocast_dtype() is ex.bfloat16
        with ex.Autocast(enabled=False):
            assert (x @ w).dtype is ex.float32
    assert ex.autocast_dtype() is None
    y.sum().backward()
    assert w.grad.dtype is ex.float32

    @ex.Autocast("float16")
    def product():
        return (x @ x).dtype

    assert product() is ex.float16
    with pytest.raises(ex.DTypeError, match="float16"):
        ex.Autocast("float64")
    with pytest.raises(TypeError, match="'dtype' is 'flat'"):
        ex.Autocast("flat")


def test_grad_scaler():
    w = nn.Parameter([1.0, 2.0])
    optimizer = optim.SGD([w], lr=0.5)
    scaler = optim.GradScaler(init_scale=1024.0, growth_interval=1)
    (scaler.scale((w * w).sum())).backward()
    assert w.grad.tolist() == [2048, 4096]
    assert scaler.step(optimizer) is True
    scaler.update()
    assert w.tolist() == [0, 0] and scaler.get_scale() == 2048
    w.grad = [math.inf, 0.0]
    assert scaler.step(optimizer) is False and w.tolist() == [0, 0]
    scaler.update()
    assert scaler.get_scale() == 1024
    other = optim.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 1024
    with pytest.raises(TypeError, match="GradScaler: argument 'optimizer' is int"):
        scaler.step(3)
    with pytest.raises(ValueError, match="growth_factor"):
        optim.GradScaler(growth_factor=0.5)


def test_averages_lbfgs_and_plateaus():
    w = nn.Parameter(ex.tensor([1.0], dtype="float64"))
    average = optim.ExponentialMovingAverage([w], decay=0.5)
    with ex.no_grad():
        w.fill(3)
    average.update()
    average.apply()
    assert w.tolist() == [2]
    average.restore()
    assert w.tolist() == [3]

    v = nn.Parameter(ex.tensor([3.0, -4.0], dtype="float64"))
    lbfgs = optim.LBFGS([v], line_search="strong_wolfe")

    def closure():
        lbfgs.zero_grad()
        loss = ((v - 1) ** 4).sum()
        loss.backward()
        return loss

    for _ in range(5):
        lbfgs.step(closure)
    assert np.allclose(np.asarray(v.detach()), 1, atol=1e-2)

    optimizer = optim.SGD([w], lr=1.0)
    plateau = optim.ReduceLROnPlateau(optimizer, factor=0.1, patience=0)
    for metric in (1.0, 2.0):
        plateau.step(metric)
    assert optimizer.lr() == pytest.approx(0.1)
    cycle = optim.OneCycleLR(optim.SGD([w], lr=1.0, momentum=0.9), max_lr=0.5, total_steps=10)
    cycle.step()
    assert 0 < cycle.last_lr()[0] < 0.5


def test_profile_and_threads():
    with ex.profile(print=False) as profile:
        ex.ones(64, 64) @ ex.ones(64, 64)
    assert [row["calls"] for row in profile.ops() if row["name"] == "matmul"] == [1]
    assert "matmul" in profile.table() and profile.seconds() > 0
    before = ex.get_num_threads()
    x = ex.randn(100, 100, generator=ex.Generator(1))
    results = []
    for count in (1, 2):
        ex.set_num_threads(count)
        results.append((x @ x).sum().item())
    ex.set_num_threads(before)
    assert results[0] == results[1]
    ex.manual_seed(5)
    first = ex.randn(3).tolist()
    ex.manual_seed(5)
    assert ex.randn(3).tolist() == first


@pytest.mark.skipif(ex.cuda_is_available(), reason="there is a GPU")
def test_cuda_is_refused_without_a_gpu():
    layer = nn.Linear(2, 2)
    before = layer.weight.tolist()
    assert ex.cuda_unavailable_reason()
    for call in (
        lambda: ex.zeros(2, device="cuda"), lambda: ex.ones(2).to("cuda:1"), layer.cuda,
        lambda: layer.to(device="cuda"), lambda: ex.synchronize("cuda"), lambda: nn.Linear(2, 2, device="cuda"),
    ):  # fmt: skip
        with pytest.raises((ex.DeviceError, TypeError), match="cuda|device"):
            call()
    assert layer.weight.tolist() == before and layer.weight.device.type == "cpu"
    with pytest.raises(ex.DeviceError, match="cuda"), ex.DefaultDevice("cuda"):
        ex.zeros(2)


# ---- modules


def test_parts_in_lists_and_dicts(tmp_path):
    net = Nested()
    names = [name for name, _ in net.named_parameters()]
    assert set(names) == {
        "scales.0", "heads.a.weight", "heads.a.bias", "blocks.0.weight", "blocks.0.bias",
        "blocks.1.inner.weight", "blocks.1.inner.bias",
    }  # fmt: skip
    assert set(net.state_dict()) == {*names, "offset"}
    assert not net.eval().blocks[1]["inner"].training and not net.drop.training
    x = ex.randn(3, 4)
    expected = net(x).tolist()
    other = Nested().eval()
    for save, load in (
        (ex.save_safetensors, lambda path: ex.load_safetensors(path).tensors),
        (ex.save_npz, ex.load_npz),
    ):
        other = Nested().eval()
        save(tmp_path / "state", net.state_dict())
        other.load_state_dict(load(tmp_path / "state"))
        assert other(x).tolist() == expected
    net.blocks.append(net.blocks)  # a list that contains itself
    assert len(list(net.parameters())) == 7
    parameters = [id(p) for p in optim.SGD(net.parameters(), lr=0.1).parameters()]
    assert len(parameters) == 7


def test_conversions_and_summaries():
    net = Nested().eval()
    weight = net.blocks[0].weight
    assert net.double() is net and net(ex.ones(1, 4, dtype="float64")).dtype is ex.float64
    assert weight.dtype is ex.float64  # the same tensor
    net.to("float32").to(device="cpu", dtype=ex.float32)
    text = net.summary(ex.ones(2, 4))
    assert "blocks.1.inner: Linear(4 → 4)" in text and text.splitlines()[1].startswith("Nested")
    assert "[16, 3, 3, 3]" in nn.Conv2d(3, 16, 3).to("channels_last").summary()
    for wrong in ("flat", 3):
        with pytest.raises(TypeError, match="a dtype such as"):
            net.to(wrong)


def test_summaries_call_the_model_in_evaluation_mode():
    class Net(nn.Module):
        def __init__(self):
            self.drop = nn.Dropout(0.5)
            self.modes = []

        def forward(self, x):
            self.modes.append((self.training, self.drop.training))
            if x.shape == (2, 2):
                raise LookupError("in forward")
            return self.drop(x)

    net = Net()
    net.drop.eval()
    assert "Net" in net.summary(ex.ones(1, 2))
    with pytest.raises(LookupError, match="in forward"):
        net.summary(ex.ones(2, 2))
    assert net.modes == [(False, False)] * 2
    assert (net.training, net.drop.training) == (True, False)


def test_forward_hooks():
    layer = nn.Linear(2, 2)
    seen = []
    first = layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 0,))
    second = layer.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    assert layer(ex.ones(1, 2)).tolist() == [layer.bias.tolist()] and seen == [(1, 2)]
    first.remove()
    second.remove()
    assert layer(ex.ones(1, 2)).tolist() != [layer.bias.tolist()] and len(seen) == 1


# ---- data


class Squares:
    def __len__(self):
        return 10

    def __getitem__(self, k):
        return {"x": float(k), "y": np.array([k * k]), "name": f"n{k}"}


@pytest.mark.parametrize("workers", [0, 3])
def test_python_datasets(workers):
    loader = data.DataLoader(Squares(), 4, shuffle=True, seed=3, workers=workers)
    batches = list(loader)
    assert [len(batch["x"]) for batch in batches] == [4, 4, 2]
    assert sorted(value for batch in batches for value in batch["x"].tolist()) == list(range(10))
    assert [int(name[1:]) for batch in batches for name in batch["name"]] == loader.order(0)
    assert loader.order(1) != loader.order(0)
    again = data.DataLoader(Squares(), 4, shuffle=True, seed=3)
    assert [b["x"].tolist() for b in again] == [b["x"].tolist() for b in batches]
    assert [b["x"].tolist() for b in loader.batches(0, first=2)] == [batches[2]["x"].tolist()]
    lengths = data.DataLoader(Squares(), 3, workers=workers, collate_fn=lambda examples: len(examples))
    assert list(lengths) == [3, 3, 3, 1]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_may_be_none(workers):
    def even(examples):
        return None if 2 in examples else examples

    loader = data.DataLoader(list(range(12)), 2, workers=workers, collate_fn=even)
    assert list(loader) == [[0, 1], None, [4, 5], [6, 7], [8, 9], [10, 11]]
    batches = iter(loader)
    batches.close()
    assert list(batches) == []


def test_subclasses_of_datasets():
    """What a subclass replaces is what a loader reads."""

    class Noisy(data.ImageDataset):
        def __getitem__(self, k):
            image, label = super().__getitem__(k)
            return image * 0, label + 10

    class Short(data.TextDataset):
        def __len__(self):
            return 3

    class Doubled(data.TensorDataset):
        def __getitem__(self, k):
            assert isinstance(k, int)
            (row,) = super().__getitem__(k)
            return row * 2

    images = data.digits(4, seed=1)
    x, y = next(iter(data.DataLoader(Noisy(images), 4)))
    assert x.sum().item() == 0 and y.tolist() == [label + 10 for label in images.labels.tolist()]
    assert sum(len(x) for x, _ in data.DataLoader(Short(ex.arange(20), 2), 2)) == 3
    assert [b.tolist() for b in data.DataLoader(Doubled(ex.arange(3)), 2)] == [[0, 2], [4]]


def test_parts_of_batches():
    """Every process counts the same batches, although its part of the last one may be empty."""
    for dataset in (list(range(5)), data.TensorDataset(ex.arange(5)), data.ImageDataset(data.digits(5))):
        first, second = (data.DataLoader(dataset, 4, rank=rank, ranks=2) for rank in (0, 1))
        assert len(first) == len(second) == 2
        parts = [list(first), list(second)]
        assert [len(part) for part in parts] == [2, 2]
        assert parts[1][1] is None and all(part is not None for part in (*parts[0], parts[1][0]))
    model = nn.Linear(1, 2)
    trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.1))
    part = data.DataLoader(data.TensorDataset(ex.ones(8, 1), ex.zeros(8, dtype="int64")), 4, rank=1, ranks=2)
    with pytest.raises(ValueError, match="rank 1 of 2.*communicator"):
        trainer.fit(part)
    with pytest.raises(ValueError, match="rank 1 of 2"):
        train.evaluate(model, part)


def test_samplers_and_splits():
    dataset = Squares()
    assert data.DataLoader(dataset, 4, sampler=data.subset_sampler([5, 1], shuffle=False)).order(0) == [5, 1]
    assert data.DataLoader(dataset, 4, sampler=[7, 7, 2]).order(0) == [7, 7, 2]
    weights = [0.0] * 9 + [1.0]
    assert data.DataLoader(dataset, 4, sampler=data.weighted_sampler(weights, 3)).order(0) == [9, 9, 9]
    with pytest.raises(IndexError, match="10 of 10"):
        data.DataLoader(dataset, 4, sampler=[10]).order(0)
    first, second = data.random_split(dataset, [0.7, 0.3], seed=1)
    assert sorted(first.indices + second.indices) == list(range(10)) and len(first) == 7
    both = data.ConcatDataset([first, second])
    assert len(both) == 10 and both[7]["x"] == second[0]["x"]
    for wrong, message in (
        ({"sampler": 3}, "'sampler' is int"), ({"workers": -1}, "workers is -1"),
        ({"prefetch": 0}, "prefetch is 0"), ({"workers": 2**40}, "'workers' is"),
        ({"collate_fn": 3}, "'collate_fn' is int"), ({"batch_size": 0}, "batch_size is 0"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            data.DataLoader(dataset, **wrong)
    with pytest.raises(TypeError, match="int without __len__"):
        data.DataLoader(3)


def test_the_loader_has_all_options():
    """DataLoader adds the dataset and collate_fn to the options of the C++ loader, and nothing else."""
    native = re.findall(r"(\w+): ", ex._core._loaders.DataLoader.__signatures__[0])
    ours = set(inspect.signature(data.DataLoader).parameters)
    assert ours - {"collate_fn"} == set(native) - {"is_python"}


def test_images_and_transforms():
    images = data.digits(20, seed=1)
    dataset = data.ImageDataset(images, [data.normalize([0.5], [0.25]), lambda image: image * 2])
    x, y = dataset[3]
    expected = (np.asarray(images.images[3]).astype("float32") / 255 - 0.5) / 0.25 * 2
    np.testing.assert_allclose(np.asarray(x)[0], expected, atol=1e-6)
    assert y.item() == images.labels[3].item() and len(dataset) == 20
    inputs, targets = next(iter(data.DataLoader(dataset, 8)))
    assert inputs.shape == (8, 1, 28, 28) and targets.dtype is ex.int64
    assert data.resize(7, 5)(images.images[0]).shape == (1, 7, 5)
    assert data.grayscale()(ex.ones(3, 2, 2)).shape == (1, 2, 2)
    shifted = [data.random_crop(3)(images.images[0], seed=s).tolist() for s in (1, 1, 2)]
    assert shifted[0] == shifted[1] != shifted[2]
    with pytest.raises(IndexError, match="index is 20 of 20"):
        dataset[20]
    with pytest.raises(TypeError, match="'images' is int without labels"):
        data.ImageDataset(3)
    with pytest.raises(ex.ShapeError, match="image has shape"):
        next(iter(data.DataLoader(data.ImageDataset(images, [lambda image: ex.ones(2)]), 2)))


def test_text(tmp_path):
    text = "to be, or not to be: that is the question. " * 20
    tokenizer = data.CharacterTokenizer(text)
    tokens = tokenizer.encode(text)
    assert tokens.dtype is ex.int64 and tokenizer.decode(tokens) == text
    tokenizer.save(tmp_path / "tokenizer.json")
    assert data.load_tokenizer(tmp_path / "tokenizer.json").encode("to be").tolist() == tokens[:5].tolist()
    pairs = data.BytePairTokenizer.train(text, 270)
    assert len(pairs) == 270 and pairs.decode(pairs.encode("to be ü").tolist()) == "to be ü"
    with pytest.raises(ValueError, match="'x'"):
        tokenizer.encode("x")
    x, y = data.TextDataset(tokens, 8)[2]
    assert x.tolist() == tokens[2:10].tolist() and y.tolist() == tokens[3:11].tolist()
    ex.manual_seed(0)
    model = models.Gpt(vocabulary=len(tokenizer), block=8, layers=1, heads=2, width=32)
    trainer = train.Trainer(model, optim.AdamW(model.parameters(), lr=1e-2), steps=60, clip_norm=1.0)
    outcome = trainer.fit(data.DataLoader(data.TextDataset(tokens, 8), 16, shuffle=True))
    assert outcome.step == 60
    model.eval()
    loss = train.evaluate(model, data.DataLoader(data.TextDataset(tokens, 8), 64)).loss
    assert loss < 1.5 < math.log(len(tokenizer))
    seen = []
    result = models.generate(model, tokens[:4].reshape(1, 4), tokens=6, seed=1,
                             on_token=lambda token: seen.append(token.item()))  # fmt: skip
    assert result.flatten().tolist() == seen and len(tokenizer.decode(result)) == 6
    stopped = models.generate(model, tokens[:4].reshape(1, 4), tokens=6, on_token=lambda token: False)
    assert stopped.shape == (1, 1)
    with pytest.raises(TypeError, match="'model' is LeNet"):
        models.generate(models.LeNet(), tokens[:4].reshape(1, 4))


# ---- models and the trainer


def test_models():
    assert models.LeNet(classes=3)(ex.ones(2, 1, 28, 28)).shape == (2, 3)
    assert models.Mlp([4, 8, 2])(ex.ones(5, 2, 2)).shape == (5, 2)
    net = models.ResNet18().eval()
    assert "layer1.0.conv1.weight" in net.state_dict()
    with ex.no_grad():
        assert net(ex.ones(1, 3, 32, 32)).shape == (1, 10)
    with pytest.raises(ValueError, match="'activation' is 'relu' .accepted: 'gelu', 'gelu_tanh'"):
        models.Gpt(activation="relu")
    with pytest.raises(TypeError, match="LeNet: has no argument 'class'"):
        models.LeNet(**{"class": 3})


def digits(count, seed):
    return data.ImageDataset(data.digits(count, seed=seed), [data.normalize([0.13], [0.31])])


class Recorder(train.Callback):
    def __init__(self):
        self.calls, self.losses = [], []

    def begin(self, run):
        self.calls.append(("begin", run.first_step, run.last_step))

    def step(self, step):
        self.losses.append(step.loss)

    def evaluation(self, record):
        self.calls.append(("evaluation", record.step, record.evaluation.examples))

    def end(self, outcome):
        self.calls.append(("end", outcome.end))

    def state_dict(self):
        return {"count": float(len(self.losses))}

    def load_state_dict(self, state):
        self.calls.append(("load", state["count"]))


def make_run(directory, **options):
    directory.mkdir(exist_ok=True)
    ex.manual_seed(0)
    model = models.LeNet()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    schedule = optim.StepLR(optimizer, step_size=5, gamma=0.9)
    trainer = train.Trainer(model, optimizer, schedule=schedule, checkpoints=directory / "checkpoints",
                            checkpoint_every=4, **options)  # fmt: skip
    recorder = trainer.add(Recorder())
    trainer.add(train.JsonLog(directory / "log.jsonl"))
    best = trainer.add(train.BestModel(directory / "best.safetensors"))
    return trainer, model, recorder, best


def test_trainer(tmp_path):
    """An interrupted and resumed run has the weights of one that was not, and the files of a run."""
    loader = data.DataLoader(digits(320, 1), 32, shuffle=True)
    held_out = data.DataLoader(digits(64, 2), 64)
    whole, model, recorder, best = make_run(tmp_path / "a", epochs=2)
    outcome = whole.fit(loader, held_out)
    assert (outcome.end, outcome.step, whole.step) == ("finished", 20, 20)
    assert recorder.calls == [("begin", 0, 20), ("evaluation", 10, 64), ("evaluation", 20, 64), ("end", "finished")]
    assert len(recorder.losses) == 20 and recorder.losses[-1] < recorder.losses[0]
    assert outcome.last.confusion.matrix().sum().item() == 64 and best.best > 0.3
    saved = ex.load_safetensors(tmp_path / "a/best.safetensors").tensors
    assert set(saved) == set(model.state_dict())
    lines = [json.loads(line) for line in (tmp_path / "a/log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line.get("type") == "step"] == list(range(1, 21))

    steps = []
    part, _, _, _ = make_run(tmp_path / "b", epochs=2, stop=lambda: len(steps.append(1) or steps) == 7)
    assert part.fit(loader, held_out).end == "interrupted"
    rest, again, recorder, _ = make_run(tmp_path / "b", epochs=2)
    found = rest.resume()
    assert found.step == 7 and pathlib.Path(found.path).exists() and found.damaged == []
    assert recorder.calls == [("load", 7.0)]
    rest.fit(loader, held_out)
    for name, weight in model.state_dict().items():
        assert weight.tolist() == again.state_dict()[name].tolist(), name


def test_trainer_with_python_models_and_data():
    """The steps are those of a loop in Python."""
    x, y = ex.randn(24, 4, generator=ex.Generator(1)), ex.randn(24, 2, generator=ex.Generator(2))
    one, two = Nested(), Nested()
    two.load_state_dict(one.state_dict())
    for net in (one, two):
        net.drop.eval()
        net.drop = nn.Dropout(0.0)
    loader = data.DataLoader(data.TensorDataset(x, y), 8, shuffle=True, seed=4)
    optimizer = optim.SGD(one.parameters(), lr=0.1)
    outcome = train.Trainer(one, optimizer, epochs=2, loss=ex.mse_loss).fit(loader)
    assert outcome.step == 6 and math.isnan(outcome.last.loss)
    optimizer = optim.SGD(two.parameters(), lr=0.1)
    for _ in range(2):
        for a, b in loader:
            optimizer.zero_grad()
            ex.mse_loss(two(a), b).backward()
            optimizer.step()
    for name, value in one.state_dict().items():
        assert value.tolist() == two.state_dict()[name].tolist(), name


def test_several_inputs_and_targets():
    class Two(nn.Module):
        def __init__(self):
            self.a, self.b = nn.Linear(2, 3), nn.Linear(1, 3)

        def forward(self, x, y):
            return self.a(x) + self.b(y), self.b(y)

    class Pairs:
        def __len__(self):
            return 6

        def __getitem__(self, k):
            return (ex.ones(2) * k, ex.ones(1)), (ex.zeros(3), ex.ones(3))

    def loss(outputs, targets):
        return ex.mse_loss(outputs[0], targets[0]) + ex.mse_loss(outputs[1], targets[1])

    model = Two()
    trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.01), loss=loss)
    assert trainer.fit(data.DataLoader(Pairs(), 2)).step == 3
    trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.01), loss=loss)
    with pytest.raises(TypeError, match="a batch is dict"):
        trainer.fit(data.DataLoader(Squares(), 2))


def test_divergence_and_wrong_arguments():
    model = nn.Linear(1, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = data.DataLoader(data.TensorDataset(ex.tensor([[math.inf]]), ex.tensor([0])), 1)
    with pytest.raises(ArithmeticError) as caught:
        train.Trainer(model, optimizer).fit(loader)
    assert isinstance(caught.value, train.DivergedError)
    for arguments, options, message in (
        ((3, optimizer), {}, "'model' is int .accepted: a Module"),
        ((model, 3), {}, "'optimizer' is int"),
        ((model, optimizer), {"epoch": 1}, "has no argument 'epoch'"),
        ((model, optimizer), {"loss": 3}, "'loss' is int"),
        ((model, optimizer), {"schedule": 3}, "'schedule' is int"),
        ((model, optimizer), {"epochs": -1}, "epochs"),
        ((model, optimizer), {"stop": 3}, "'stop' is int"),
        ((nn.Linear(1, 2), optimizer), {}, "none of the model's parameters"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            train.Trainer(*arguments, **options)
    trainer = train.Trainer(model, optimizer)
    for call in (lambda: trainer.fit([1]), lambda: trainer.add(3), lambda: train.evaluate(model, [1])):
        with pytest.raises(TypeError, match="accepted"):
            call()


def test_early_stopping_and_progress(capsys):
    model = nn.Linear(1, 2)
    trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.0), epochs=9)
    trainer.add(train.EarlyStopping(watched="loss", patience=2))
    trainer.add(train.ProgressBar())
    loader = data.DataLoader(data.TensorDataset(ex.ones(4, 1), ex.zeros(4, dtype="int64")), 2)
    assert trainer.fit(loader, loader).end == "stopped_early"
    assert "epoch 3  step 6  loss" in capsys.readouterr().err
    with pytest.raises(ValueError, match="'watched' is 'f1' .accepted: 'loss', 'accuracy'"):
        train.EarlyStopping(watched="f1")


def test_metrics():
    matrix = train.ConfusionMatrix(3)
    matrix.add(ex.tensor([0, 1, 2, 2]), ex.tensor([0, 1, 1, 2]))
    assert matrix.accuracy() == 0.75 and matrix.at(1, 2) == 1 and matrix.recall(1) == 0.5
    with pytest.raises(ex.IndexError):
        matrix.add(ex.tensor([5]), ex.tensor([0]))
