"""Which objects keep which others alive."""

import gc

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
