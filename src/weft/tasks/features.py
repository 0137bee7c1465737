"""Feature vectors in the place of text: x_1 … x_T, each D numbers, standardised by statistics of the training data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from weft.data import Examples, Statistics, pad_numbers
from weft.data.steps import check_width
from weft.tasks.task import Codec, Rows, Task
from weft.text import TextConfig

FEATURES = "features"
"""The column of feature vectors in examples, and the name of their statistics."""


class FeatureTask(Task):
    """A task whose inputs are texts, or sequences of feature vectors where `data.features` names them."""

    text_column: ClassVar[str] = "tokens"
    """The column of texts in encoded examples."""

    def __init__(self, codec: Codec, data: Any) -> None:
        super().__init__(codec, data)
        self.features: Statistics | None = codec.statistics.get(FEATURES)

    @classmethod
    def tokenizer_roles(cls, text: Any, data: Any) -> dict[str, TextConfig]:
        return cls.roles(text) if data.features is None else {}

    @classmethod
    def statistic_sizes(cls, data: Any) -> dict[str, int | None]:
        return {} if data.features is None else {FEATURES: None}

    @property
    def column(self) -> str:
        """The column of inputs in encoded examples."""
        return self.text_column if self.features is None else FEATURES

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = columns[self.column].lengths
        return lengths if self.features is None else lengths // len(self.features.mean)

    def standardise(self, record: Any) -> NDArray[np.float32]:
        """The feature vectors (T, D) of a record, as a model reads them."""
        assert self.features is not None
        return standardised(record, self.features)

    def pad_features(self, examples: Examples, rows: Rows) -> tuple[Tensor, Tensor]:
        """Features (B, T, D) and lengths (B) of these rows."""
        assert self.features is not None
        return pad_numbers(examples.columns[FEATURES], rows, len(self.features.mean))


def standardised(record: Any, features: Statistics) -> NDArray[np.float32]:
    """The feature vectors (T, D) of a record in units of the statistics; another number of features is an error."""
    check_width(record.steps, len(features.mean), record.place)
    return features.standardise(record.steps.array)


def learn_features(records: Iterable[Any]) -> Statistics | None:
    """The statistics of feature vectors; None for records without any."""
    first = next(iter(records), None)
    if first is None or first.steps is None:
        return None
    return Statistics.of(_each_array(records, first.steps.width))


def _each_array(records: Iterable[Any], width: int) -> Iterator[NDArray[np.float64]]:
    for record in records:
        check_width(record.steps, width, record.place)
        yield record.steps.array
