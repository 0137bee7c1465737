"""What was found out about large training files, kept for the next run.

Three kinds of entry, each under a key of all it depends on: the survey of a file; how many examples of one file are in
another; and the training data, which is tokenizers, labels, tokens and what was set aside. Small files are quick to
read and leave nothing behind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers

from weft.cache import cache_folder
from weft.config import Config
from weft.data import (
    Corpus,
    Examples,
    Paths,
    Shape,
    Store,
    Survey,
    as_values,
    from_values,
    identify,
    key_of,
    overlap,
    stamps,
)
from weft.errors import DataError, Fault
from weft.run.save import tokenizer_file
from weft.tasks import Codec, DataConfig, Task, Tree
from weft.tasks.encoding import read_examples, write_examples
from weft.text import Tokenizer

LARGE = 8_000_000
"""Bytes of files whose tokens are kept."""

SURVEY, KEYS, STRATA, OVERLAP, TRAINING = "survey.json", "keys.npy", "strata.npy", "overlap.json", "training.json"
LENGTH = {"max_length", "overlong"}
NOT_READING = {"train", "valid", "test", *LENGTH}
"""Settings of `[data]` that do not change how a file is read."""


class Surveyed(NamedTuple):
    """A survey with what should be said about it."""

    survey: Survey
    notes: list[str]


class Training(NamedTuple):
    """The training data, ready for use; what was set aside from it, if something was; what should be said about it."""

    task: Task
    examples: Examples
    held: Corpus | None
    notes: list[str]


class Kept:
    """The cache as preparation uses it; `reading` is how files are read: the task, and its settings for that."""

    def __init__(self, folder: Path, reading: Tree) -> None:
        self.store, self.reading = Store(folder), reading
        self.names = folder / "files"
        self.names.mkdir(exist_ok=True, mode=0o700)

    @classmethod
    def open(cls, task: str, data: DataConfig, *, skip_bad_lines: bool) -> Kept | None:
        """None where nothing may be kept."""
        reading = data.model_dump(mode="json", exclude=NOT_READING)
        folder = cache_folder("tokens")
        try:
            return cls(folder, {"task": task, "skip": skip_bad_lines, "data": reading}) if folder else None
        except OSError:
            return None

    def content(self, path: Paths) -> str | None:
        """A name for what large files hold; None for small ones and for what cannot be read again."""
        files = stamps(path)
        if files is None or sum(file.size for file in files) < LARGE:
            return None
        return identify(files, self.names)

    def survey(self, content: str, make: Callable[[], Surveyed]) -> Surveyed:
        """The survey of these files, made only if it is not kept."""
        key = key_of("survey with shapes", content, self.reading)
        if entry := self.store.find(key):
            found = read(entry / SURVEY)
            keys = np.load(entry / KEYS, mmap_mode="r", allow_pickle=False)
            shapes = tuple(Shape(*shape) for shape in found["shapes"])
            strata = np.load(entry / STRATA, allow_pickle=False) if (entry / STRATA).exists() else None
            unknown = found["unknown"] and tuple(found["unknown"])
            survey = Survey(found["examples"], found["characters"], keys, shapes, unknown, content, strata)
            return Surveyed(survey, found["notes"])
        survey, notes = make()
        with suppress(OSError), self.store.make(key) as folder:
            np.save(folder / KEYS, survey.keys)
            if survey.strata is not None:
                np.save(folder / STRATA, survey.strata)
            names = ("examples", "characters", "shapes", "unknown")
            write(folder / SURVEY, {name: getattr(survey, name) for name in names} | {"notes": notes})
        return Surveyed(survey._replace(content=content), notes)

    def overlap(self, train: Survey, other: Survey) -> int:
        """As in `weft.data.overlap`."""
        key = key_of("overlap", train.content, self.reading, hashlib.sha256(other.keys.tobytes()).hexdigest())
        if entry := self.store.find(key):
            return int(read(entry / OVERLAP))
        found = overlap(train.keys, other.keys)
        with suppress(OSError), self.store.make(key) as folder:
            write(folder / OVERLAP, found)
        return found

    def training(self, kind: type[Task], config: Config, content: str, make: Callable[[Path], None]) -> Training:
        """The training data; `make` writes it into a folder with `write_training` if it is not kept."""
        length = config.data.model_dump(mode="json", include=LENGTH)
        seed = config.seed if config.data.valid is None else None
        text = config.text.model_dump(mode="json")
        key = key_of("training", content, self.reading, length, seed, text, tokenizers.__version__)
        entry, said = self.store.find(key), "tokens from an earlier run"
        if entry is None:
            said = "tokens are kept for the next run"
            try:
                with self.store.make(key) as folder:
                    make(folder)
                    if self.content(config.data.train) != content:
                        raise DataError("changed while it was read", where=str(config.data.train), cure="train again")
            except OSError as error:
                cure = "free some space, set WEFT_CACHE to another disk, or WEFT_CACHE=off"
                raise Fault(f"tokens cannot be kept: {error}", where=str(self.store.folder), cure=cure) from None
            entry = self.store.find(key)
            assert entry is not None, "removed by hand at this very moment"
        found = read_training(kind, config, entry)
        note = f"{said}: {self.store.folder} ({self.store.size() / 1e9:.1f} GB in all)"
        return found._replace(notes=[*found.notes, note])


def write_training(task: Task, corpus: Corpus, held: Corpus | None, notes: list[str], folder: Path) -> None:
    """Encode the corpus and write all that training needs to know of it."""
    limit = task.limit(training=True)
    assert limit is not None, "training always has a limit"
    write_examples(task, corpus, limit, folder)
    for role, tokenizer in task.codec.tokenizers.items():
        tokenizer.save(folder / tokenizer_file(role))
    records = None if held is None else [as_values(record) for record in held]
    write(folder / TRAINING, {"labels": task.codec.labels, "held": records, "notes": notes})


def read_training(kind: type[Task], config: Config, folder: Path) -> Training:
    """What `write_training` wrote."""
    about = read(folder / TRAINING)
    roles = kind.roles(config.text)
    tokens = {role: Tokenizer.load(folder / tokenizer_file(role), text) for role, text in roles.items()}
    task = kind(Codec(tokens, tuple(about["labels"])), config.data)
    examples = read_examples(task, folder)
    records = None if about["held"] is None else [from_values(values) for values in about["held"]]
    held = None if records is None else Corpus(lambda: records, kept=records)
    return Training(task, examples, held, [*about["notes"], *examples.notes])


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")
