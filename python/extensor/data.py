"""Datasets, batches, and readers of common files.

A dataset is any object with __len__ and __getitem__. DataLoader shuffles it, collects examples into
batches and stacks their tensors.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

from . import _core
from ._array_api import arange
from ._core import Generator, Tensor
from ._core._data import *
from ._types import ShapeError, ValueError

__all__ = ["DataLoader", "Subset", "TensorDataset", "collate"]
__all__ += [_name for _name in vars(_core._data) if not _name.startswith("_")]


class TensorDataset:
    """Rows of tensors: example k is (a[k], b[k], …)."""

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tuple(_core.asarray(tensor) for tensor in tensors)
        lengths = [len(tensor) for tensor in self.tensors]
        if not lengths or any(length != lengths[0] for length in lengths):
            raise ShapeError(f"TensorDataset: the tensors have {lengths} rows (allowed: equal)")

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)


class Subset:
    """The examples of a dataset at these positions."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = list(indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]


def collate(examples: Sequence[Any]) -> Any:
    """Stacks tensors, arrays and numbers; works inside tuples, lists and dicts of them."""
    first = examples[0]
    if isinstance(first, dict):
        return {key: collate([example[key] for example in examples]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(len(example) != len(first) for example in examples):
            raise ShapeError("collate: examples have different numbers of parts")
        return tuple(collate([example[k] for example in examples]) for k in range(len(first)))
    if isinstance(first, (str, bytes)):
        return list(examples)
    return _core.stack([_core.asarray(example) for example in examples])


class DataLoader:
    """Iterates over the batches of a dataset. Each pass is one epoch with an order of its own, which
    is a function of (seed, epoch)."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 64,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[Sequence[Any]], Any] = collate,
        seed: int = 0,
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"DataLoader: batch_size is {batch_size!r} (allowed: an int from 1 on)")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate_fn = collate_fn
        self.seed = seed
        self.epoch = 0  # of the next pass

    def __len__(self) -> int:
        count = len(self.dataset)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def order(self, epoch: int) -> Tensor:
        """The examples of an epoch in order."""
        count = len(self.dataset)
        if not self.shuffle:
            return arange(count)
        return _core.randperm(count, generator=Generator(self.seed, epoch))

    def __iter__(self) -> Iterator[Any]:
        order = self.order(self.epoch)
        self.epoch += 1
        whole = isinstance(self.dataset, TensorDataset) and self.collate_fn is collate
        for batch in range(len(self)):
            chosen = order[batch * self.batch_size : (batch + 1) * self.batch_size]
            if whole:
                yield self.dataset[chosen]  # one gather for each tensor
            else:
                yield self.collate_fn([self.dataset[k] for k in chosen.tolist()])
