"""From files to examples: read, set aside, learn the tokens, encode."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import numpy as np

from weft.catalog import TASKS
from weft.config import Config, fill, validate
from weft.data import BadLines, Corpus, Examples, Record, Survey, forget, hold_out, overlap, stamps
from weft.data.sources import each_path
from weft.errors import DataError, counted
from weft.nn import CellClass
from weft.run.fits import check_fits
from weft.run.given import EMPTY, Given, read_records
from weft.run.kept import Kept, Surveyed, Training, write_training
from weft.tasks import Facts, Task, Tree, encode
from weft.tasks.labels import count_labels, describe_labels, describe_unseen
from weft.tasks.sections import written
from weft.training import choose_device, device_type
from weft.training.device import precise

VALID_SHARE, VALID_MOST = 0.1, 2000
"""What is set aside of the training data for validation where there is no file for it."""

FEW_EXAMPLES, FEW_SHARE = 40, 0.05
"""Of fewer examples than this a smaller share: each is missed in training, and two say no more than one."""

TELL_EVERY = 20_000
"""Examples after which it is told how far a pass over a file has come."""

Tell = Callable[[str], None]
"""Hears what is being done, again and again while it takes time."""


@dataclass(frozen=True)
class Prepared:
    """All that training needs: settings with nothing left open, encoded examples, and what a person should know."""

    config: Config
    task: Task
    train: Examples
    valid: Examples
    test: Examples | None
    notes: tuple[str, ...]
    records: Corpus | None = None
    """What the training examples were made of, where simple models are to be fitted on it."""


class Reader:
    """Opens the files of one configuration and keeps account of lines that had to be skipped.

    `fresh` makes what earlier runs have kept anew; `tell` hears how far the reading has come; `given` is data given in
    Python, by the name that stands for it in the configuration.
    """

    def __init__(
        self,
        task: type[Task],
        data: Any,
        *,
        skip_bad_lines: bool,
        fresh: bool = False,
        tell: Tell | None = None,
        given: Given = EMPTY,
    ) -> None:
        self.task, self.data, self.skip, self.given = task, data, skip_bad_lines, given
        self.kept = Kept.open(task.name, data, skip_bad_lines=skip_bad_lines)
        self.fresh, self.tell = fresh, tell
        self.doing = "reading"
        self.notes: list[str] = []
        if self.kept and fresh:
            self.kept.store.renew()

    def survey(self, path: str | list[str]) -> tuple[Corpus, Survey]:
        """A first look at a file: how much there is, and whether it can be read."""
        bad = BadLines(skip=self.skip)
        corpus = Corpus(lambda: self._read(path, BadLines(skip=self.skip)))

        def first_pass() -> Surveyed:
            nonlocal corpus
            accounts = chain([bad], (BadLines(skip=self.skip) for _ in count()))
            corpus, survey = Corpus.survey(lambda: self._read(path, next(accounts)))
            return Surveyed(survey, list(_account(bad, path)))

        if self.kept and self.fresh:
            forget(stamps(path) or [], self.kept.names)
        content = self.kept and self.kept.content(path)
        survey, notes = self.kept.survey(content, first_pass) if self.kept and content else first_pass()
        self.notes += notes
        return corpus, survey

    def _read(self, path: str | list[str], bad: BadLines) -> Iterator[Record]:
        """The records of a file; now and then it is told how many there were."""
        for number, record in enumerate(read_records(self.task, self.given.get(str(path), path), self.data, bad)):
            if self.tell and number and number % TELL_EVERY == 0:
                self.tell(f"{self.doing} {path}: {counted(number, 'example')}")
            yield record

    def overlap(self, train: Survey, other: Survey) -> int:
        """How many examples of the other file are also in the training data."""
        return self.kept.overlap(train, other) if self.kept and train.content else overlap(train.keys, other.keys)

    def training(self, config: Config, corpus: Corpus, survey: Survey) -> Training:
        """The training data, learned from and encoded, or as an earlier run kept it."""
        if self.kept and survey.content:
            return self.kept.training(
                self.task,
                config,
                survey.content,
                lambda folder: write_training(*self._learn(config, corpus, survey), folder=folder),
            )
        task, rest, held, notes = self._learn(config, corpus, survey)
        examples = encode(task, rest, task.limit(training=True))
        return Training(task, examples, held, [*notes, *examples.notes])

    def _learn(self, config: Config, corpus: Corpus, survey: Survey) -> tuple[Task, Corpus, Corpus | None, list[str]]:
        """Tokenizers and labels from the training data, less what is set aside; both parts, and what should be said."""
        rest, held, notes = set_aside(config, corpus, survey)
        self.doing = "learning the tokens of"
        codec = self.task.learn(rest, config.text)
        self.doing = "tokenising"
        return self.task(codec, config.data), rest, held, notes


def _account(bad: BadLines, path: str | list[str]) -> Iterator[str]:
    yield from bad.notes
    if bad.count:
        yield f"{path}: skipped {bad}"
    if bad.empty:
        yield f"left out {counted(bad.empty, 'pair')} of {' and '.join(each_path(path))} with an empty side"


def set_aside(config: Config, corpus: Corpus, survey: Survey) -> tuple[Corpus, Corpus | None, list[str]]:
    """Without a file for validation, a part of the training data."""
    if config.data.valid is not None:
        return corpus, None, []
    if config.data.running:
        return _set_aside_end(corpus, survey)
    share = FEW_SHARE if survey.examples < FEW_EXAMPLES else VALID_SHARE
    aside = hold_out(survey.keys, strata=survey.strata, fraction=share, most=VALID_MOST, seed=config.seed)
    note = (
        f"no data.valid: set aside {int(aside.sum()):,} of {counted(survey.examples, 'training example')}, "
        f"grouped so that no text is on both sides{', by label' * (survey.strata is not None)}"
    )
    return corpus.where(~aside), corpus.where(aside), [note]


def _set_aside_end(corpus: Corpus, survey: Survey) -> tuple[Corpus, Corpus, list[str]]:
    """The last blocks of running text: what goes on elsewhere in the training text would be too easy to predict."""
    if survey.examples < 2:
        what = "nothing to hold out from: the text is a single block"
        raise DataError(what, where="data.train", cure="give a file as data.valid")
    count = min(max(1, round(VALID_SHARE * survey.examples)), VALID_MOST)
    aside = np.arange(survey.examples) >= survey.examples - count
    note = f"no data.valid: set aside the end of the text, {count / survey.examples:.0%} of it"
    return corpus.where(~aside), corpus.where(aside), [note]


def suggest_unknown(config: Config, survey: Survey) -> list[str]:
    """A note where the training text has a word that looks as if it meant unknown, and no setting says that it does."""
    if survey.unknown is None or any(text.unknown for text in TASKS[config.task].roles(config.text).values()):
        return []
    word, times = survey.unknown
    return [
        f"{word} stands {times:,} times in the training text and is read as text; "
        f"if it means an unknown word, set text.unknown={json.dumps(word, ensure_ascii=False)}"
    ]


def look(
    tree: Tree,
    *,
    skip_bad_lines: bool,
    cells: Mapping[str, CellClass] | None,
    fresh: bool = False,
    tell: Tell | None = None,
    given: Given = EMPTY,
) -> tuple[Config, Reader, Corpus, Survey]:
    """The filled configuration, after a look at the training data, and that data."""
    draft = validate(tree, cells=cells, keep_unread=True)
    reader = Reader(TASKS[draft.task], draft.data, skip_bad_lines=skip_bad_lines, fresh=fresh, tell=tell, given=given)
    corpus, survey = reader.survey(draft.data.train)
    return fill(tree, facts(survey, draft), cells=cells), reader, corpus, survey


def facts(survey: Survey, config: Config) -> Facts:
    """What defaults depend on."""
    return Facts(survey.examples, survey.characters, device_type(config.train.device), *survey.shapes)


def survey_config(
    tree: Tree, *, skip_bad_lines: bool = False, cells: Mapping[str, CellClass] | None = None
) -> tuple[Config, Reader, Corpus, Survey, Corpus | None]:
    """The filled configuration, after a look at the training data; and that data, less what is set aside from it."""
    config, reader, corpus, survey = look(tree, skip_bad_lines=skip_bad_lines, cells=cells)
    rest, held, notes = set_aside(config, corpus, survey)
    reader.notes += notes
    return config, reader, rest, survey, held


def prepare(
    tree: Tree,
    *,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
    fresh: bool = False,
    tell: Tell | None = None,
    given: Given = EMPTY,
) -> Prepared:
    """Read everything a configuration names; `fresh` does not use what earlier runs have kept of it."""
    draft = validate(tree, cells=cells, keep_unread=True)
    precise(draft.train.precision, choose_device(draft.train.device))  # what cannot be is told before the data is read
    check_fits(draft)
    config, reader, corpus, survey = look(
        tree, skip_bad_lines=skip_bad_lines, cells=cells, fresh=fresh, tell=tell, given=given
    )
    reader.notes += suggest_unknown(config, survey)
    if written(tree, "train", "metric") is None and (reason := reader.task.reason(facts(survey, config))):
        reader.notes.append(f"chooses by {config.train.metric}: {reason}")
    others: dict[str, Corpus] = {}
    for part in ("valid", "test"):  # before the long work, so that a mistake in them shows at once
        path = getattr(config.data, part)
        if path is None:
            continue
        others[part], found = reader.survey(path)
        if shared := reader.overlap(survey, found):
            reader.notes.append(
                f"{shared:,} of {counted(found.examples, f'{part} example')} {'is' if shared == 1 else 'are'} "
                "also in the training data: "
                f"the {part} scores flatter the model"
            )
    task, train, held, notes = reader.training(config, corpus, survey)
    records = None
    if task.label_column is not None:
        records = set_aside(config, corpus, survey)[0]
        reader.notes += describe_labels(count_labels(task.codec, train, task.label_column), len(train))
    reader.notes += notes
    if held is not None:
        others["valid"] = held
    running = config.train.truncate is not None
    rest = {
        part: encode(task, records, task.limit(training=False), running=running) for part, records in others.items()
    }
    for part, examples in rest.items() if task.label_column is not None else ():
        reader.notes += describe_unseen(task.codec, examples.records or (), part)
    return Prepared(config, task, train, rest["valid"], rest.get("test"), tuple(reader.notes), records)
