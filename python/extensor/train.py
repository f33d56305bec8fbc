"""The trainer, its callbacks, evaluation and metrics.

>>> trainer = train.Trainer(model, optimizer, epochs=5, checkpoints="run/checkpoints")
>>> trainer.add(train.ProgressBar())
>>> trainer.add(train.EarlyStopping(patience=2))
>>> trainer.resume()
>>> outcome = trainer.fit(training, held_out)
"""

from __future__ import annotations

import sys
import time
from typing import IO

from . import _core, _training
from ._core import ConfusionMatrix as ConfusionMatrix
from ._core import EvaluationRecord as EvaluationRecord
from ._core import FoundCheckpoint as FoundCheckpoint
from ._core import Outcome as Outcome
from ._core import RunRecord as RunRecord
from ._core import StepRecord as StepRecord
from ._core._train import *
from ._training import *
from ._types import DivergedError as DivergedError

__all__ = ["ConfusionMatrix", "DivergedError", "EvaluationRecord", "FoundCheckpoint", "Outcome",
           "ProgressBar", "RunRecord", "StepRecord"]  # fmt: skip
__all__ += _training.__all__
__all__ += [_name for _name in vars(_core._train) if not _name.startswith("_")]


class ProgressBar(Callback):
    """Shows a line with loss, accuracy, rate and remaining time, in terminals and in notebooks.
    Elsewhere it prints a line for every evaluation."""

    def __init__(self, unit: str = "examples", file: IO[str] | None = None) -> None:
        self.unit = unit
        self._file = file
        self._interactive = False
        self._width = 0  # of the line that is shown
        self._shown = 0.0
        self._loss = self._accuracy = float("nan")

    def _write(self, text: str, end: str) -> None:
        file = self._file or sys.stderr
        padding = " " * (self._width - len(text))
        file.write(("\r" if self._interactive else "") + text + padding + end)
        file.flush()
        self._width = 0 if end else len(text)

    def begin(self, run: RunRecord) -> None:
        file = self._file or sys.stderr
        in_notebook = type(file).__module__.startswith("ipykernel")
        self._interactive = in_notebook or (hasattr(file, "isatty") and file.isatty())
        self._run = run
        self._since: StepRecord | None = None
        self._examples = 0

    def step(self, step: StepRecord) -> None:
        self._loss = _smooth(self._loss, step.loss)
        self._accuracy = _smooth(self._accuracy, step.accuracy)
        if self._since is None:
            self._since, self._examples = step, 0
            return
        self._examples += step.examples
        if not self._interactive or time.monotonic() - self._shown < 0.1:
            return
        self._shown = time.monotonic()
        passed = step.seconds - self._since.seconds
        if passed <= 0:
            return
        left = (self._run.last_step - step.step) * passed / (step.step - self._since.step)
        done, whole = (step.batch, step.batches) if step.batches else (step.step, self._run.last_step)
        filled = 20 * done // max(1, whole)
        self._write(
            f"epoch {step.epoch}/{max(self._run.epochs, step.epoch)} {'█' * filled}"
            f"{'░' * (20 - filled)} loss {self._loss:.4f}{_percent(self._accuracy)}  "
            f"{self._examples / passed:,.0f} {self.unit}/s  {_clock(left)} left",
            "",
        )

    def evaluation(self, record: EvaluationRecord) -> None:
        line = f"epoch {record.epoch}  step {record.step}  loss {record.train_loss:.4f}"
        if record.evaluation.examples > 0:
            line += f"  validation: loss {record.evaluation.loss:.4f}"
            line += _percent(record.evaluation.accuracy)
        self._write(f"{line}  {_clock(record.seconds)}", "\n")
        self._since = None  # the evaluation does not count

    def end(self, outcome: Outcome) -> None:
        if self._width:
            self._write("", "\n")


def _smooth(mean: float, value: float) -> float:
    if value != value:
        return mean
    return value if mean != mean else 0.98 * mean + 0.02 * value


def _percent(part: float) -> str:
    return "" if part != part else f"  accuracy {100 * part:.2f} %"


def _clock(seconds: float) -> str:
    whole = round(max(0.0, seconds))
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}"
