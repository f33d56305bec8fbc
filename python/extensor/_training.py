"""The trainer and the callbacks of the C++ library; _training.pyi has the signatures of their
options."""

from __future__ import annotations

import signal
import threading
import weakref
from types import FrameType
from typing import Any, Callable

from . import _core
from ._core import EvaluationRecord, FoundCheckpoint, Outcome, RunRecord, StepRecord
from ._relay import relay
from .data import DataLoader

__all__ = ["Callback", "Trainer"]


class Callback:
    """Observes a run. Subclasses define what they need; exceptions end the run and arrive where
    fit() was called."""

    def begin(self, run: RunRecord) -> None:
        """Called before the first step."""

    def step(self, step: StepRecord) -> None:
        """Called after every step."""

    def evaluation(self, record: EvaluationRecord) -> None:
        """Called after every evaluation."""

    def end(self, outcome: Outcome) -> None:
        """Called at the end, unless an exception ended the run."""

    def wants_to_stop(self) -> bool:
        """Called after every evaluation; True ends the run."""
        return False

    def state_dict(self) -> dict[str, float]:
        """Numbers that checkpoints keep. Python callbacks get theirs back by their order."""
        return {}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Called by resume(), before begin()."""


class _Native(Callback):
    """A callback of the C++ library."""

    _make: Any
    _callback: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._callback = self._make(*arguments, **options)

    def wants_to_stop(self) -> bool:
        stop: bool = self._callback.wants_to_stop()
        return stop


class _Relay:
    """Passes the calls of the C++ trainer on to a callback, which the Trainer in Python holds: a
    callback that refers to its trainer is no cycle through C++, which would never be freed."""

    def __init__(self, callback: Callback) -> None:
        self._callback = weakref.ref(callback)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._callback(), name)


class _Interrupts:
    """Turns the first SIGINT into a request to stop after the current step; a second one raises
    KeyboardInterrupt at once. Only in the main thread, and only where Python's own handler is set.

    An object of its own, because the C++ trainer holds it: a reference to the trainer would be a
    cycle that is never freed.
    """

    def __init__(self, stop: Callable[[], bool] | None) -> None:
        self._stop = stop
        self.requested = False
        self._replaced = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def wants_to_stop(self) -> bool:
        return self.requested or (self._stop is not None and bool(self._stop()))

    def __enter__(self) -> _Interrupts:
        self.requested = False
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, self._handle)
            self._replaced = True
        return self

    def __exit__(self, *error: Any) -> None:
        if self._replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._replaced = False


class Trainer:
    """Trains a Module: batches, steps, evaluations and checkpoints, observed by callbacks.

    A run that is interrupted and resumed gives the same weights as one that is not. Ctrl-C ends
    fit() after the current step, with a checkpoint if there is a directory for them, by
    KeyboardInterrupt.
    """

    def __init__(self, model: Any, optimizer: Any, **options: Any) -> None:
        self._model, self._optimizer = model, optimizer
        self._options = options  # the C++ trainer refers to the schedule
        stop, loss = options.get("stop"), options.get("loss")
        if stop is not None and not callable(stop):
            raise TypeError(
                f"Trainer: argument 'stop' is {type(stop).__name__} (accepted: a callable or None)"
            )
        self._interrupts = _Interrupts(None if stop is None else relay(self, stop))
        self._callbacks: list[Any] = []
        options = {**options, "stop": self._interrupts.wants_to_stop}
        if callable(loss):
            options["loss"] = relay(self, loss)
        self._trainer = _core._trainers.Trainer(model, optimizer, **options)

    @property
    def model(self) -> Any:
        return self._model

    @property
    def optimizer(self) -> Any:
        return self._optimizer

    def add(self, callback: Any) -> Any:
        """Adds a callback and returns it."""
        if not isinstance(callback, Callback):
            raise TypeError(
                f"Trainer.add: argument 'callback' is {type(callback).__name__} "
                "(accepted: a train.Callback)"
            )
        self._trainer.add(callback if isinstance(callback, _Native) else _Relay(callback))
        self._callbacks.append(callback)
        return callback

    def resume(self) -> FoundCheckpoint | None:
        """Resumes from the newest intact checkpoint; add callbacks first. None if there is none."""
        found: FoundCheckpoint | None = self._trainer.resume()
        return found

    def fit(self, training: DataLoader, held_out: DataLoader | None = None) -> Outcome:
        """Runs the remaining steps, and evaluates on the validation data."""
        for name, loader in (("training", training), ("held_out", held_out)):
            if not isinstance(loader, DataLoader) and (loader is not None or name == "training"):
                raise TypeError(
                    f"Trainer.fit: argument '{name}' is {type(loader).__name__} "
                    "(accepted: a data.DataLoader)"
                )
        with self._interrupts:
            outcome: Outcome = self._trainer.fit(
                training._loader, None if held_out is None else held_out._loader
            )
        if self._interrupts.requested:
            raise KeyboardInterrupt
        return outcome

    @property
    def step(self) -> int:
        """The number of steps that are done."""
        done: int = self._trainer.step()
        return done


for _name, _made in vars(_core._callbacks).items():
    if not _name.startswith("_"):
        globals()[_name] = type(_name, (_Native,), {"_make": staticmethod(_made),
                                                    "__doc__": _made.__documentation__,
                                                    "__module__": "extensor.train"})  # fmt: skip
        __all__.append(_name)
globals()["BestModel"].best = property(lambda self: self._callback.best())
