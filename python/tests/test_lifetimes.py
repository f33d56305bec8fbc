"""Which objects keep which others alive, and that all are freed in the end."""

import gc
import weakref

import pytest

import extensor as ex
from extensor import data, nn, optim, train


def steps(count=8):
    return data.DataLoader(data.TensorDataset(ex.ones(count, 2), ex.zeros(count, dtype="int64")), 4)


def test_schedules_and_trainers_keep_their_optimizers():
    w = nn.Parameter([1.0])
    for schedule in (
        optim.StepLR(optim.SGD([w], lr=1.0), step_size=1),
        optim.LambdaLR(optim.SGD([w], lr=1.0), lambda epoch: 0.5**epoch),
        optim.ReduceLROnPlateau(optim.SGD([w], lr=1.0)),
    ):
        assert isinstance(schedule.optimizer, optim.SGD)
        with pytest.raises(AttributeError):
            schedule.optimizer = None
        schedule.step(*[1.0] if isinstance(schedule, optim.ReduceLROnPlateau) else [])
        assert schedule.last_lr()[0] <= 1
    model = nn.Linear(2, 2)
    trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.1))
    for name in ("optimizer", "model"):
        with pytest.raises(AttributeError):
            setattr(trainer, name, None)
    gc.collect()
    assert trainer.model is model and trainer.optimizer.lr() == 0.1
    assert trainer.fit(steps()).step == 2


def model_with_its_trainer():
    model = nn.Linear(2, 2)
    model.trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.1))
    model.trainer.fit(steps())
    return model


class Task:
    def __init__(self):
        self.model = nn.Linear(2, 2)
        optimizer = optim.SGD(self.model.parameters(), lr=0.1)
        self.schedule = optim.LambdaLR(optimizer, self.factor)
        self.trainer = train.Trainer(
            self.model, optimizer, loss=self.loss, stop=self.stop, schedule=self.schedule
        )
        self.calls = set()
        assert self.trainer.fit(steps()).step == 2 and self.calls == {"factor", "loss", "stop"}

    def factor(self, epoch):
        if epoch:
            self.calls.add("factor")
        return 0.5**epoch

    def loss(self, output, target):
        self.calls.add("loss")
        return ex.cross_entropy(output, target)

    def stop(self):
        self.calls.add("stop")
        return False


class Numbers:
    """A dataset that holds its loader, as its own sampler."""

    def __init__(self, workers=0):
        self.loader = data.DataLoader(self, 2, sampler=self, workers=workers, collate_fn=self.collate)
        assert list(self.loader) == [[0, 2], [4]]
        self.batches = iter(self.loader)
        assert next(self.batches) == [0, 2]

    def __len__(self):
        return 3

    def __iter__(self):
        return iter(range(3))

    def __getitem__(self, k):
        return 2 * k

    def collate(self, examples):
        return examples


class Augmented:
    def __init__(self):
        self.dataset = data.ImageDataset(data.digits(4), [data.normalize([0.0], [1.0]), self.double])
        assert next(iter(data.DataLoader(self.dataset, 4)))[0].max().item() == 2

    def double(self, image):
        return image * 2


@pytest.mark.parametrize(
    "make", [model_with_its_trainer, Task, Numbers, lambda: Numbers(workers=2), Augmented]
)
def test_cycles_are_freed(make):
    """The garbage collector does not see what C++ objects refer to: they refer to no user's object."""
    made = make()
    reference = weakref.ref(made)
    del made
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iteration_keeps_its_data(workers):
    class Squares:
        def __len__(self):
            return 6

        def __getitem__(self, k):
            return k * k

    batches = iter(data.DataLoader(Squares(), 2, workers=workers, sampler=list(range(6))))
    images = iter(data.DataLoader(data.ImageDataset(data.digits(4), [lambda x: x * 0]), 2, workers=workers))
    gc.collect()
    assert [batch.tolist() for batch in batches] == [[0, 1], [4, 9], [16, 25]]
    assert [x.sum().item() for x, _ in images] == [0, 0]
