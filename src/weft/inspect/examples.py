"""Single examples of a training file as training uses them: their fields, their tokens, and effects of their length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, NamedTuple

from weft.config import Config
from weft.data import Corpus, Record, Survey, Tagged, labels_of
from weft.errors import ConfigError, DataError
from weft.nn import CellClass
from weft.run.division import set_aside
from weft.run.prepare import DataReader, survey_training
from weft.tasks import Codec, Division, Task, Tree
from weft.tasks.labels import collect_labels
from weft.text import Tokenizer

TOKENISED = ("text", "second", "source", "target", "words")
"""Fields of records that a tokenizer reads."""


class ExampleField(NamedTuple):
    """A field of an example: its text in the file, and its tokens where they are wanted."""

    name: str
    text: str
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownExample:
    """One example, ready to be printed."""

    row: int
    """Its number in the file, from 1."""
    place: str
    role: str
    """Whether it is used for training, or set aside for validation where no file is given for that."""
    fields: tuple[ExampleField, ...]
    effect: str = ""
    """The treatment of an example that is too long; empty if it is not."""


@dataclass(frozen=True)
class ExampleView:
    """The size of a training file, notes, and some of its examples."""

    examples: int
    characters: int
    notes: tuple[str, ...]
    shown: tuple[ShownExample, ...]
    unit: str = "characters"
    """The unit in which the size is counted."""


def view_examples(
    tree: Tree,
    *,
    rows: Sequence[int] = (),
    most: int = 5,
    tokens: bool = False,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
) -> ExampleView:
    """Return the examples of these numbers, or the first ones; `tokens` learns the tokenizers and shows tokens."""
    config, reader, corpus, survey = survey_training(tree, skip_bad_lines=skip_bad_lines, cells=cells)
    wanted = list(rows) or list(range(1, min(most, survey.examples) + 1))
    for row in wanted:
        if not 1 <= row <= survey.examples:
            what = f"{_files(config.data.train)} has {survey.examples:,} example{'s' * (survey.examples != 1)}"
            cure = "choose 1" if survey.examples == 1 else f"choose from 1 to {survey.examples:,}"
            raise ConfigError(what, where=f"--row {row}", cure=cure)
    rest, _, notes = _divide(config, corpus, survey)
    task = _learn(reader, config, rest, notes) if tokens else None
    found = dict(_pick(corpus, set(wanted)))
    shown = (_show(row, found[row], task, aside=not rest.includes(row - 1)) for row in wanted)
    unit = reader.task.size_unit
    return ExampleView(survey.examples, survey.characters, (*reader.notes, *notes), tuple(shown), unit)


def _divide(config: Config, corpus: Corpus, survey: Survey) -> Division:
    """Set a part aside as for training; a file that is too small for that is shown all the same."""
    try:
        return set_aside(config, corpus, survey)
    except DataError as error:
        return Division(corpus, {}, [f"training needs more: {error.what} ({error.cure})"])


def _learn(reader: DataReader, config: Config, corpus: Corpus, notes: list[str]) -> Task:
    """Return the task with the tokenizers of this data; data with too few labels is shown all the same."""
    kind = reader.task
    try:
        return kind(reader.learn(corpus, config.text), config.data)
    except DataError as error:
        notes.append(f"training needs more: {error.what} ({error.cure})")
    tokenizers = {
        role: Tokenizer.learn_words((record.words for record in corpus), text)
        if role == "words"
        else Tokenizer.learn((record.key for record in corpus), text)
        for role, text in kind.tokenizer_roles(config.text, config.data).items()
    }
    labels = collect_labels(
        (record.tags or ()) if isinstance(record, Tagged) else labels_of(record) for record in corpus
    )
    return kind(Codec(tokenizers, labels), config.data)


def _pick(corpus: Corpus, rows: set[int]) -> Iterator[tuple[int, Record]]:
    return ((row, record) for row, record in enumerate(islice(corpus, max(rows)), start=1) if row in rows)


def _show(row: int, record: Record, task: Task | None, *, aside: bool) -> ShownExample:
    if isinstance(record, Tagged) and record.tags:
        tagged = " ".join(f"{word}/{tag}" for word, tag in zip(record.words, record.tags, strict=True))
        found = [ExampleField("words", tagged, _pieces(task, "words", record.words))]
    else:
        every = ((field.name, getattr(record, field.name)) for field in fields(record) if field.name != "place")
        values = getattr(record, "shown", every)
        found = [
            ExampleField(name, str(value), _pieces(task, name, value))
            for name, value in values
            if value not in (None, "", ())
        ]
    role = "set aside for validation" if aside else "training"
    return ShownExample(
        row, record.place, role, tuple(found), "" if task is None or aside else _length_effect(task, record)
    )


def _pieces(task: Task | None, name: str, value: Any) -> tuple[str, ...]:
    if task is None or name not in TOKENISED:
        return ()
    tokenizer = task.codec.side(name)
    return tuple(tokenizer.pieces(tokenizer.encode(value) if isinstance(value, str) else tokenizer.encode_words(value)))


def _length_effect(task: Task, record: Record) -> str:
    """Say what training does with an example of too many tokens; empty if it has not too many."""
    limit = task.limit(training=True)
    if limit is None:
        return ""
    try:
        rows = next(iter(task.encode([record], limit).values()))
    except DataError as error:
        return f"training stops: {error.what}"
    if not limit.overlong_seen:
        return ""
    setting = f'more than data.max_length = {limit.max_length:,} tokens, and data.overlong = "{limit.overlong}"'
    done = "left out" if not rows else "its beginning only" if len(rows) == 1 else f"split into {len(rows)} examples"
    return f"{done}: {setting}"


def _files(path: Any) -> str:
    return path if isinstance(path, str) else " and ".join(map(str, path))
