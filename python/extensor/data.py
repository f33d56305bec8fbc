"""Datasets, samplers, batches, image transforms, tokenizers, and readers of common files.

A dataset is any object with __len__ and __getitem__. DataLoader chooses the order of its examples,
collects them into batches and stacks their tensors, ahead of time if it has workers.
"""

from __future__ import annotations

import atexit
import bisect
import weakref
from typing import Any, Callable, Iterable, Iterator, Sequence

from . import _core
from ._core import BytePairTokenizer as BytePairTokenizer
from ._core import CharacterTokenizer as CharacterTokenizer
from ._core import Sampler as Sampler
from ._core import Tensor
from ._core import Tokenizer as Tokenizer
from ._core import Transform as Transform
from ._core import load_tokenizer as load_tokenizer
from ._core._data import *
from ._relay import relay
from ._types import IndexError, ShapeError, ValueError

__all__ = ["BytePairTokenizer", "CharacterTokenizer", "ConcatDataset", "DataLoader", "ImageDataset",
           "Sampler", "Subset", "TensorDataset", "TextDataset", "Tokenizer", "Transform", "collate",
           "load_tokenizer", "random_split"]  # fmt: skip
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


class ConcatDataset:
    """The examples of several datasets, one dataset after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        self._ends: list[int] = []
        for dataset in self.datasets:
            self._ends.append(len(dataset) + (self._ends[-1] if self._ends else 0))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"ConcatDataset: index is {index} of {len(self)} examples")
        k = bisect.bisect_right(self._ends, index)
        return self.datasets[k][index - (self._ends[k - 1] if k else 0)]


def random_split(dataset: Any, parts: Sequence[float], seed: int = 0) -> list[Subset]:
    """Divides a dataset at random into disjoint parts: fractions if their sum is 1, else numbers of
    examples. The same seed makes the same parts."""
    chosen = _core._loaders.random_split(len(dataset), [float(part) for part in parts], seed)
    return [Subset(dataset, indices) for indices in chosen]


class _NativeDataset:
    """A dataset of the C++ library. Indexing draws the random numbers of epoch 0 and seed 0."""

    _dataset: Any

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"{type(self).__name__}: index is {index} of {len(self)} examples")
        inputs, targets = self._dataset.batch([index % len(self)], 0, 0)
        return inputs[0], targets[0]


def _is_as(dataset: Any, base: type) -> bool:
    """Whether it is an instance of `base` whose class does not replace how examples are read."""
    return isinstance(dataset, base) and all(
        getattr(type(dataset), name) is getattr(base, name) for name in ("__len__", "__getitem__")
    )


class ImageDataset(_NativeDataset):
    """Labelled images as float32 [channels, height, width], and their labels.

    `images` is what digits(), load_mnist() and the like return, or a tensor uint8 [count, height,
    width] or [count, channels, height, width] with `labels`. Transforms are those of this module,
    or functions of an image [channels, height, width] that return another one.
    """

    def __init__(
        self,
        images: Any,
        transforms: Sequence[Callable[[Tensor], Any]] = (),
        *,
        labels: Any = None,
    ) -> None:
        classes: list[str] = []
        if labels is None:
            if not hasattr(images, "images") or not hasattr(images, "labels"):
                raise TypeError(
                    f"ImageDataset: argument 'images' is {type(images).__name__} without labels "
                    "(accepted: LabelledImages, or a tensor and labels=)"
                )
            images, labels, classes = images.images, images.labels, list(images.classes)
        steps = [step if isinstance(step, Transform) or not callable(step) else relay(self, step)
                 for step in transforms]  # fmt: skip
        self._dataset = _core._loaders.ImageDataset(images, labels, classes, steps)


class TextDataset(_NativeDataset):
    """Windows of `block` tokens (int64) with the tokens that follow each of them."""

    def __init__(self, tokens: Any, block: int) -> None:
        self._dataset = _core._loaders.TextDataset(tokens, block)


def collate(examples: Sequence[Any]) -> Any:
    """Stacks tensors, arrays and numbers; works inside tuples, lists and dicts of them."""
    if not examples:
        raise ValueError("collate: there are no examples (allowed: one or more)")
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


class _Batches(Iterator[Any]):
    """A pass over an epoch. close() ends its workers, as does dropping it."""

    def __init__(self, epoch: Any, loader: DataLoader) -> None:
        self._epoch = epoch
        self._loader = loader  # the workers call its functions
        _open_passes.add(self)

    def __next__(self) -> Any:
        return self._epoch.next()

    def close(self) -> None:
        self._epoch.close()


_open_passes: weakref.WeakSet[_Batches] = weakref.WeakSet()


@atexit.register
def _close_passes() -> None:
    # Worker threads must not call Python while the interpreter ends.
    for each in list(_open_passes):
        each.close()


class _Sampler:
    """A sampler that a DataLoader keeps."""

    def __init__(self, size: Callable[[], int], order: Callable[[], Iterator[int]]) -> None:
        self._size, self._order = size, order

    def __len__(self) -> int:
        return self._size()

    def __iter__(self) -> Iterator[int]:
        return self._order()


class DataLoader:
    """Iterates over the batches of a dataset. Each pass is one epoch with an order of its own, which
    is a function of (seed, epoch).

    With workers, threads prepare up to `prefetch` batches ahead. They run Python code one at a time,
    and reading files, NumPy and this library at once. An exception of the dataset or of collate_fn
    is raised at the position of its batch. `sampler` chooses the examples instead of `shuffle`: one
    of this module, or an object with __len__ and __iter__.

    With `ranks`, for programs that train on several processes and average gradients themselves, the
    batches are those of all processes together, and each gets its part of every batch. A process
    whose part of the last batch is empty gets None, so that all count the same batches. train.Trainer
    refuses such a loader: it would not average.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 64,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        workers: int = 0,
        prefetch: int = 8,
        seed: int = 0,
        sampler: Any = None,
        collate_fn: Callable[[Sequence[Any]], Any] | None = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"DataLoader: batch_size is {batch_size!r} (allowed: an int from 1 on)")
        for needed in ("__len__", "__getitem__"):
            if not hasattr(dataset, needed):
                raise TypeError(
                    f"DataLoader: argument 'dataset' is {type(dataset).__name__} without {needed} "
                    "(accepted: an object with __len__ and __getitem__)"
                )
        if collate_fn is not None and not callable(collate_fn):
            raise TypeError(
                f"DataLoader: argument 'collate_fn' is {type(collate_fn).__name__} "
                "(accepted: a callable or None)"
            )
        self.dataset = dataset
        self.batch_size = batch_size
        self.collate_fn = collate if collate_fn is None else collate_fn
        self.epoch = 0  # of the next pass
        native = _is_as(dataset, _NativeDataset) and collate_fn in (None, collate)
        self._source = dataset
        source = (
            dataset._dataset
            if native
            else _core._python_dataset(len(dataset), relay(self, self._load()))
        )
        if hasattr(sampler, "__len__") and hasattr(sampler, "__iter__"):
            sampler = _Sampler(relay(self, sampler.__len__), relay(self, sampler.__iter__))
        self._loader = _core._loaders.DataLoader(
            source, not native, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last,
            workers=workers, prefetch=prefetch, seed=seed, sampler=sampler, rank=rank, ranks=ranks,
        )  # fmt: skip

    def _load(self) -> Callable[[list[int]], Any]:
        """The function that makes a batch of the examples at some positions."""
        dataset, collate_fn = self.dataset, self.collate_fn
        if _is_as(dataset, TensorDataset) and collate_fn is collate:
            return lambda indices: dataset[_core.tensor(indices)]  # one gather for each tensor
        return lambda indices: collate_fn([dataset[k] for k in indices])

    def __len__(self) -> int:
        return len(self._loader)

    def order(self, epoch: int) -> list[int]:
        """The examples of an epoch in order."""
        order: list[int] = self._loader.order(epoch)
        return order

    def batches(self, epoch: int, first: int = 0) -> Iterator[Any]:
        """The batches of an epoch from batch `first` on."""
        return _Batches(self._loader.epoch(epoch, first), self)

    def __iter__(self) -> Iterator[Any]:
        epoch = self.epoch
        self.epoch += 1
        return self.batches(epoch)
