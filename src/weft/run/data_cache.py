"""The cache of large training files: surveys, overlaps and tokens are kept for the next run.

There are three kinds of entry, each under a key of all that it depends on: the survey of a file; how many examples of
one file are in another; and the training data, which is tokenizers, labels, tokens and the part set aside for
validation. Small files are quick to read and are not cached.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
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
    Statistics,
    Store,
    Survey,
    as_values,
    from_values,
    identify,
    key_of,
    overlap,
    read_numbers,
    read_values,
    stamps,
)
from weft.documents import to_json
from weft.errors import DataError, Fault
from weft.run.folder.files import tokenizer_file
from weft.tasks import Codec, DataConfig, Division, Task, Tree
from weft.tasks.encoding import read_examples, write_examples
from weft.text import Tokenizer

MIN_CACHED_BYTES = 8_000_000
"""Files of fewer bytes are not cached."""

SURVEY, KEYS, STRATA, OVERLAP, TRAINING = "survey.json", "keys", "strata", "overlap.json", "training.json"
LENGTH_SETTINGS = {"max_length", "overlong"}
NOT_READING = {"train", "valid", "test", "mask", *LENGTH_SETTINGS}
"""Settings of `[data]` that do not change how a file is read."""


class Surveyed(NamedTuple):
    """A survey with its notes."""

    survey: Survey
    notes: list[str]


class TrainingData(NamedTuple):
    """The encoded training data, the parts set aside from it by their names, and notes."""

    task: Task
    examples: Examples
    aside: Mapping[str, Corpus]
    notes: list[str]


class DataCache:
    """The cache that `prepare` uses; `reading` is how files are read: the task and its settings for that."""

    def __init__(self, folder: Path, reading: Tree) -> None:
        self.store, self.reading = Store(folder), reading
        self.names = folder / "files"
        self.names.mkdir(exist_ok=True, mode=0o700)

    @classmethod
    def open(cls, task: str, data: DataConfig, *, skip_bad_lines: bool) -> DataCache | None:
        """Open the cache; return None where it is off or cannot be used."""
        reading = data.model_dump(mode="json", exclude=NOT_READING)
        folder = cache_folder("tokens")
        try:
            return cls(folder, {"task": task, "skip": skip_bad_lines, "data": reading}) if folder else None
        except OSError:
            return None

    def content(self, path: Paths) -> str | None:
        """Return a hash of the content of large files; None for small ones and for sources that are read only once."""
        files = stamps(path)
        if files is None or sum(file.size for file in files) < MIN_CACHED_BYTES:
            return None
        return identify(files, self.names)

    def survey(self, content: str, make: Callable[[], Surveyed]) -> Surveyed:
        """Return the survey of these files; `make` is called only if it is not cached."""
        key = key_of("survey with shapes", content, self.reading)
        if cached := self.store.use(key, lambda entry: read_survey(entry, content)):
            return cached
        survey, notes = make()
        with suppress(OSError), self.store.make(key) as folder:
            survey.keys.tofile(folder / KEYS)
            if survey.strata is not None:
                survey.strata.tofile(folder / STRATA)
            names = ("examples", "characters", "shapes", "unknown", "width")
            write(folder / SURVEY, {name: getattr(survey, name) for name in names} | {"notes": notes})
        return Surveyed(survey._replace(content=content), notes)

    def overlap(self, train: Survey, other: Survey) -> int:
        """Return how many examples of the other file are also in the training data."""
        key = key_of("overlap", train.content, self.reading, hashlib.sha256(other.keys.tobytes()).hexdigest())
        cached = self.store.use(key, lambda entry: int(read_values(entry / OVERLAP)))
        if cached is not None:
            return cached
        found = overlap(train.keys, other.keys)
        with suppress(OSError), self.store.make(key) as folder:
            write(folder / OVERLAP, found)
        return found

    def training(
        self, kind: type[Task], config: Config, content: str, known: str, make: Callable[[Path], None]
    ) -> TrainingData:
        """Return the training data; if it is not cached, `make` writes it into a folder with `write_training`.

        `known` is a hash of the tokenizers of another run (`known_tokens`).
        """
        length = config.data.model_dump(mode="json", include=LENGTH_SETTINGS)
        seed = config.seed if config.data.valid is None else None
        text = config.text.model_dump(mode="json")
        key = key_of("training", content, self.reading, length, seed, text, tokenizers.__version__, known)
        found = self.store.use(key, lambda entry: read_training(kind, config, entry))
        said = "tokens from an earlier run"
        if found is None:
            said = "tokens are kept for the next run"
            try:
                with self.store.make(key) as folder:
                    make(folder)
                    if kind.caches and self.content(config.data.train) != content:
                        raise DataError("changed while it was read", where=str(config.data.train), cure="train again")
            except OSError as error:
                cure = "free some space, set WEFT_CACHE to another disk, or WEFT_CACHE=off"
                raise Fault(f"tokens cannot be kept: {error}", where=str(self.store.folder), cure=cure) from None
            entry = self.store.find(key)
            if entry is None:
                cure = "remove it, or set WEFT_CACHE=off"
                raise Fault("tokens cannot be kept under this name", where=str(self.store.folder / key), cure=cure)
            found = read_training(kind, config, entry)
        note = f"{said}: {self.store.folder} ({self.store.size() / 1e9:.1f} GB in all)"
        return found._replace(notes=[*found.notes, note])


def known_tokens(known: Mapping[str, Tokenizer]) -> str:
    """Return a hash of tokenizers that are not learned; empty without any."""
    found = {role: tokenizer.to_json() for role, tokenizer in known.items()}
    return hashlib.sha256(to_json(found).encode()).hexdigest() if found else ""


def read_survey(folder: Path, content: str) -> Surveyed:
    """Read a survey from the cache. Anything else in the folder is a ValueError, KeyError or TypeError."""
    found = read_values(folder / SURVEY)
    examples, characters, unknown = found["examples"], found["characters"], found["unknown"]
    _check_texts(found["notes"])
    keys = np.memmap(folder / KEYS, dtype=np.uint64, mode="r")
    strata = read_numbers(folder / STRATA, np.uint64) if (folder / STRATA).exists() else None
    if type(characters) is not int or any(len(each) != examples for each in (keys, strata) if each is not None):
        raise ValueError("a survey of other examples")
    shapes = tuple(Shape(*map(int, shape)) for shape in found["shapes"])
    word = unknown and (str(unknown[0]), int(unknown[1]))
    survey = Survey(examples, characters, keys, shapes, word, content, strata, int(found["width"]))
    return Surveyed(survey, found["notes"])


def _check_texts(*lists: Any) -> None:
    if not all(isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in lists):
        raise TypeError("something else where a list of texts should be")


def write_training(task: Task, divided: Division, folder: Path) -> None:
    """Encode the training records and write all that training needs of them."""
    limit = task.limit(training=True)
    assert limit is not None, "training always has a limit"
    write_examples(task, task.order(divided.train), limit, folder)
    for role, tokenizer in task.codec.tokenizers.items():
        tokenizer.save(folder / tokenizer_file(role))
    aside = {part: [as_values(record) for record in records] for part, records in divided.aside.items()}
    statistics = {name: found.tree() for name, found in task.codec.statistics.items()}
    about = {"labels": task.codec.labels, "statistics": statistics, "aside": aside, "notes": divided.notes}
    write(folder / TRAINING, about)


def read_training(kind: type[Task], config: Config, folder: Path) -> TrainingData:
    """Read the files of `write_training`."""
    about = read_values(folder / TRAINING)
    _check_texts(about["notes"], about["labels"])
    roles = kind.tokenizer_roles(config.text, config.data)
    tokens = {role: Tokenizer.load(folder / tokenizer_file(role), text) for role, text in roles.items()}
    statistics = {name: Statistics.of_tree(tree) for name, tree in about["statistics"].items()}
    task = kind(Codec(tokens, tuple(about["labels"]), statistics), config.data)
    examples = read_examples(task, folder)
    aside = {part: Corpus.of([from_values(values) for values in records]) for part, records in about["aside"].items()}
    return TrainingData(task, examples, aside, [*about["notes"], *examples.notes])


def write(path: Path, values: Any) -> None:
    """Write values as a JSON file."""
    path.write_text(to_json(values), encoding="utf-8")
