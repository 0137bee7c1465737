"""From files to examples: read, set aside, learn the tokens, encode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weft.catalog import TASKS
from weft.config import Config, fill, validate
from weft.data import BadLines, Corpus, Examples, Survey, hold_out, overlap
from weft.nn import CellClass
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
        self.notes: list[str] = []

    def survey(self, path: str | list[str]) -> tuple[Corpus, Survey]:
        bad = BadLines(skip=self.skip)
        first = True

        def read() -> Iterator[Any]:
            nonlocal first
            account, first = (bad if first else BadLines(skip=self.skip)), False
            return self.task.read(path, self.data, account)

        found = Corpus.survey(read)
        if bad.count:
            self.notes.append(f"skipped {bad.count:,} bad lines of {path}, the first: {bad.first}")
        if bad.empty:
            self.notes.append(f"left out {bad.empty:,} pairs of {path} with an empty side")
        return found


def survey_config(
    tree: Tree, *, skip_bad_lines: bool = False, cells: Mapping[str, CellClass] | None = None
) -> tuple[Config, Reader, Corpus, Survey, Corpus | None]:
    """The filled configuration, after a look at the training data; and that data, less what is set aside from it."""
    draft = validate(tree, cells=cells)
    reader = Reader(TASKS[draft.task], draft.data, skip_bad_lines=skip_bad_lines)
    corpus, survey = reader.survey(draft.data.train)
    held: Corpus | None = None
    facts = Facts(survey.examples, survey.characters)
    if draft.data.valid is None:
        aside = hold_out(survey.keys, fraction=VALID_SHARE, most=VALID_MOST, seed=draft.seed)
        corpus, held = corpus.where(~aside), corpus.where(aside)
        reader.notes.append(
            f"no data.valid: set aside {int(aside.sum()):,} of {survey.examples:,} training examples, "
            "grouped so that no text is on both sides"
        )
    return fill(tree, facts, cells=cells), reader, corpus, survey, held


def prepare(tree: Tree, *, skip_bad_lines: bool = False, cells: Mapping[str, CellClass] | None = None) -> Prepared:
    """Read everything a configuration names."""
    config, reader, corpus, survey, held = survey_config(tree, skip_bad_lines=skip_bad_lines, cells=cells)
    kind = TASKS[config.task]
    others: dict[str, Corpus] = {} if held is None else {"valid": held}
    for part in ("valid", "test"):
        path = getattr(config.data, part)
        if path is None:
            continue
        others[part], found = reader.survey(path)
        if shared := overlap(survey.keys, found.keys):
            reader.notes.append(
                f"{shared:,} of {found.examples:,} {part} examples are also in the training data: "
                f"the {part} scores flatter the model"
            )
    codec = kind.learn(corpus, config.text)
    task = kind(codec, config.data)
    train = encode(task, corpus, task.limit(training=True))
    reader.notes += train.notes
    rest = {part: encode(task, records, task.limit(training=False)) for part, records in others.items()}
    return Prepared(config, task, train, rest["valid"], rest.get("test"), tuple(reader.notes))
