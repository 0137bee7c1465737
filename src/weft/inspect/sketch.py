"""The model of a configuration on the "meta" device, before there is any data: its sizes without its numbers."""

from __future__ import annotations

from typing import Any

from torch import nn

from weft.catalog import TASKS
from weft.config import Config
from weft.run.model_size import meta_device
from weft.tasks import Codec

CHARACTERS = 128
"""The size of a tagger's vocabulary of characters, where there is no data."""


class Vocabulary:
    """Replaces a tokenizer of which only the size is known."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def sketch(config: Config, *, words: int, labels: int = 2) -> nn.Module:
    """Build the model for so many words and labels, without memory for its weights (on the "meta" device).

    Settings that are left open have their fixed defaults; in training they may depend on the data.
    """
    task = TASKS[config.task]
    sizes = {role: CHARACTERS if role == "characters" else words for role in task.roles(config.text)}
    tokenizers: Any = {role: Vocabulary(size) for role, size in sizes.items()}
    labelled = task.label_column is not None or getattr(config.data, "language", None) is not None
    codec = Codec(tokenizers, tuple(str(number) for number in range(labels if labelled else 0)))
    with meta_device():
        return task.network(config, codec)
