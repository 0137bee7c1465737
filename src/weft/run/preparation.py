"""From files to examples: read, set aside, learn the tokens, encode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from weft.catalog import TASKS
from weft.config import Config, fill, validate
from weft.data import BadLines, Corpus, Examples, Survey, hold_out, overlap
from weft.nn import CellClass
from weft.run.kept import Kept, Surveyed, Training, write_training
from weft.tasks import Facts, Task, Tree, encode

VALID_SHARE, VALID_MOST = 0.1, 2000
"""What is set aside of the training data for validation where there is no file for it."""


@dataclass(frozen=True)
class Prepared:
    """All that training needs: settings with nothing left open, encoded examples, and what a person should know."""

    config: Config
    task: Task
    train: Examples
    valid: Examples
    test: Examples | None
    notes: tuple[str, ...]


class Reader:
    """Opens the files of one configuration and keeps account of lines that had to be skipped."""

    def __init__(self, task: type[Task], data: Any, *, skip_bad_lines: bool) -> None:
        self.task, self.data, self.skip = task, data, skip_bad_lines
        self.kept = Kept.open(task.name, data, skip_bad_lines=skip_bad_lines)
        self.notes: list[str] = []

    def survey(self, path: str | list[str]) -> tuple[Corpus, Survey]:
        """A first look at a file: how much there is, and whether it can be read."""
        bad = BadLines(skip=self.skip)
        corpus = Corpus(lambda: self.task.read(path, self.data, BadLines(skip=self.skip)))

        def first_pass() -> Surveyed:
            nonlocal corpus
            accounts = chain([bad], (BadLines(skip=self.skip) for _ in count()))
            corpus, survey = Corpus.survey(lambda: self.task.read(path, self.data, next(accounts)))
            return Surveyed(survey, list(_account(bad, path)))

        content = self.kept and self.kept.content(path)
        survey, notes = self.kept.survey(content, first_pass) if self.kept and content else first_pass()
        self.notes += notes
        return corpus, survey

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
                lambda folder: write_training(*learn(self.task, config, corpus, survey), folder=folder),
            )
        task, rest, held, notes = learn(self.task, config, corpus, survey)
        examples = encode(task, rest, task.limit(training=True))
        return Training(task, examples, held, [*notes, *examples.notes])


def _account(bad: BadLines, path: str | list[str]) -> Iterator[str]:
    if bad.count:
        yield f"skipped {bad.count:,} bad lines of {path}, the first: {bad.first}"
    if bad.empty:
        yield f"left out {bad.empty:,} pairs of {path} with an empty side"


def learn(
    kind: type[Task], config: Config, corpus: Corpus, survey: Survey
) -> tuple[Task, Corpus, Corpus | None, list[str]]:
    """Tokenizers and labels from the training data, less what is set aside; both parts, and what should be said."""
    rest, held, notes = set_aside(config, corpus, survey)
    return kind(kind.learn(rest, config.text), config.data), rest, held, notes


def set_aside(config: Config, corpus: Corpus, survey: Survey) -> tuple[Corpus, Corpus | None, list[str]]:
    """Without a file for validation, a part of the training data."""
    if config.data.valid is not None:
        return corpus, None, []
    aside = hold_out(survey.keys, fraction=VALID_SHARE, most=VALID_MOST, seed=config.seed)
    note = (
        f"no data.valid: set aside {int(aside.sum()):,} of {survey.examples:,} training examples, "
        "grouped so that no text is on both sides"
    )
    return corpus.where(~aside), corpus.where(aside), [note]


def look(
    tree: Tree, *, skip_bad_lines: bool, cells: Mapping[str, CellClass] | None
) -> tuple[Config, Reader, Corpus, Survey]:
    """The filled configuration, after a look at the training data, and that data."""
    draft = validate(tree, cells=cells)
    reader = Reader(TASKS[draft.task], draft.data, skip_bad_lines=skip_bad_lines)
    corpus, survey = reader.survey(draft.data.train)
    return fill(tree, Facts(survey.examples, survey.characters), cells=cells), reader, corpus, survey


def survey_config(
    tree: Tree, *, skip_bad_lines: bool = False, cells: Mapping[str, CellClass] | None = None
) -> tuple[Config, Reader, Corpus, Survey, Corpus | None]:
    """The filled configuration, after a look at the training data; and that data, less what is set aside from it."""
    config, reader, corpus, survey = look(tree, skip_bad_lines=skip_bad_lines, cells=cells)
    rest, held, notes = set_aside(config, corpus, survey)
    reader.notes += notes
    return config, reader, rest, survey, held


def prepare(tree: Tree, *, skip_bad_lines: bool = False, cells: Mapping[str, CellClass] | None = None) -> Prepared:
    """Read everything a configuration names."""
    config, reader, corpus, survey = look(tree, skip_bad_lines=skip_bad_lines, cells=cells)
    others: dict[str, Corpus] = {}
    for part in ("valid", "test"):  # before the long work, so that a mistake in them shows at once
        path = getattr(config.data, part)
        if path is None:
            continue
        others[part], found = reader.survey(path)
        if shared := reader.overlap(survey, found):
            reader.notes.append(
                f"{shared:,} of {found.examples:,} {part} examples are also in the training data: "
                f"the {part} scores flatter the model"
            )
    task, train, held, notes = reader.training(config, corpus, survey)
    reader.notes += notes
    if held is not None:
        others["valid"] = held
    rest = {part: encode(task, records, task.limit(training=False)) for part, records in others.items()}
    return Prepared(config, task, train, rest["valid"], rest.get("test"), tuple(reader.notes))
