"""Data preparation: read the files, set a part aside for validation, learn the tokenizers, encode the examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from weft.catalog import TASKS
from weft.config import Config, fill, merge, validate
from weft.config.schema import TYPICAL_DATA, positions
from weft.data import BadLines, Corpus, Examples, Record, Survey, forget, overlap, stamps
from weft.data.sources import each_path
from weft.errors import counted
from weft.nn import CellClass
from weft.run.data_cache import DataCache, Surveyed, TrainingData, known_tokens, write_training
from weft.run.division import LATER_PARTS, later_parts, set_aside
from weft.run.inputs import NO_PYTHON_DATA, PythonData, read_records
from weft.run.model_size import check_fits
from weft.run.positions import check_positions
from weft.run.start import Start, read_start
from weft.tasks import Codec, Division, Facts, Task, Tree, encode, encode_evaluation
from weft.tasks.labels import count_labels, describe_labels, describe_unseen
from weft.tasks.sections import written
from weft.text import Tokenizer
from weft.training import choose_device, device_type
from weft.training.device import precise

EXAMPLES_PER_MESSAGE = 20_000
"""Examples between two messages on the progress of reading a file."""

Progress = Callable[[str], None]
"""Is called with a message now and then during long work."""


@dataclass(frozen=True)
class Prepared:
    """All that training needs: settings with nothing left open, encoded examples, and notes for the user."""

    config: Config
    task: Task
    train: Examples
    valid: Examples
    test: Examples | None
    notes: tuple[str, ...]
    records: Corpus | None = None
    """The records of the training examples, where baselines are fitted on them."""
    start: Start | None = None
    """The weights and tokenizers that the model takes from other runs."""
    overlaps: tuple[str, ...] = ()
    """Notes on examples that two parts of the data share; they stand in the report too."""


class DataReader:
    """Reads the files of one configuration and collects notes, such as on skipped lines.

    `fresh` ignores and replaces the cache of earlier runs; `progress` is called while files are read; `python_data` is
    data given in Python, by the name that stands for it in the configuration; `tokenizers` are not learned but taken
    from another run.
    """

    def __init__(
        self,
        task: type[Task],
        data: Any,
        *,
        skip_bad_lines: bool,
        fresh: bool = False,
        progress: Progress | None = None,
        python_data: PythonData = NO_PYTHON_DATA,
        tokenizers: Mapping[str, Tokenizer] = MappingProxyType({}),
    ) -> None:
        self.task, self.data, self.skip, self.python_data = task, data, skip_bad_lines, python_data
        self.tokenizers = tokenizers
        self.cache = DataCache.open(task.name, data, skip_bad_lines=skip_bad_lines)
        self.fresh, self.progress = fresh, progress
        self.doing = "reading"
        self.notes: list[str] = []
        if self.cache and fresh:
            self.cache.store.renew()

    def survey(self, path: str | list[str]) -> tuple[Corpus, Survey]:
        """Read a file once, to count its examples and to check that it can be read."""
        bad = BadLines(skip=self.skip)
        corpus = Corpus(lambda: self._read(path, BadLines(skip=self.skip)))

        def first_pass() -> Surveyed:
            nonlocal corpus
            accounts = chain([bad], (BadLines(skip=self.skip) for _ in count()))
            corpus, survey = Corpus.survey(lambda: self._read(path, next(accounts)))
            return Surveyed(survey, list(_describe_skipped(bad, path)))

        if self.cache and self.fresh:
            forget(stamps(path) or [], self.cache.names)
        content = self.cache and self.task.caches and self.cache.content(path)
        survey, notes = self.cache.survey(content, first_pass) if self.cache and content else first_pass()
        self.notes += notes
        return corpus, survey

    def _read(self, path: str | list[str], bad: BadLines) -> Iterator[Record]:
        """Yield the records of a file, and call `progress` now and then with their number."""
        source = self.python_data.get(str(path), path)
        for number, record in enumerate(read_records(self.task, source, self.data, bad)):
            if self.progress and number and number % EXAMPLES_PER_MESSAGE == 0:
                self.progress(f"{self.doing} {path}: {counted(number, 'example')}")
            yield record

    def overlap(self, one: Survey, other: Survey) -> int:
        """Return how many examples of the other file are also in the first."""
        return self.cache.overlap(one, other) if self.cache and one.content else overlap(one.keys, other.keys)

    def training(self, config: Config, corpus: Corpus, survey: Survey) -> TrainingData:
        """Learn the tokenizers and encode the training data, or take both from the cache."""
        content = survey.content
        if self.cache and not self.task.caches and str(config.data.train) not in self.python_data:
            content = self.task.content(corpus, config.data)
        if self.cache and content:
            return self.cache.training(
                self.task,
                config,
                content,
                known_tokens(self.tokenizers),
                lambda folder: write_training(*self._learn(config, corpus, survey), folder=folder),
            )
        task, divided = self._learn(config, corpus, survey)
        examples = encode(task, task.order(divided.train), task.limit(training=True))
        return TrainingData(task, examples, divided.aside, [*divided.notes, *examples.notes])

    def learn(self, records: Iterable[Record], text: Any) -> Codec:
        """Learn tokenizers and labels, except the tokenizers that are taken from another run."""
        if self.tokenizers:
            return self.task.learn_with(records, text, self.tokenizers)
        return self.task.learn(records, text)

    def _learn(self, config: Config, corpus: Corpus, survey: Survey) -> tuple[Task, Division]:
        """Learn tokenizers and labels without the parts set aside; return the task and all parts of the data."""
        divided = set_aside(config, corpus, survey)
        self.doing = "learning the tokens of"
        codec = self.learn(divided.train, config.text)
        self.doing = "tokenising"
        return self.task(codec, config.data), divided


def _describe_skipped(bad: BadLines, path: str | list[str]) -> Iterator[str]:
    yield from bad.notes
    if bad.count:
        yield f"{path}: skipped {bad}"
    if bad.empty:
        yield f"left out {counted(bad.empty, 'pair')} of {' and '.join(each_path(path))} with an empty side"


def suggest_unknown(config: Config, survey: Survey) -> list[str]:
    """Return a note where the text has a word that seems to mean unknown, and no setting says that it does."""
    if survey.unknown is None or any(text.unknown for text in _text_settings(config)):
        return []
    word, times = survey.unknown
    return [
        f"{word} stands {times:,} times in the training text and is read as text; "
        f"if it means an unknown word, set text.unknown={json.dumps(word, ensure_ascii=False)}"
    ]


def _text_settings(config: Config) -> Iterator[Any]:
    return iter(TASKS[config.task].tokenizer_roles(config.text, config.data).values())


def survey_training(
    tree: Tree,
    *,
    skip_bad_lines: bool,
    cells: Mapping[str, CellClass] | None,
    fresh: bool = False,
    progress: Progress | None = None,
    python_data: PythonData = NO_PYTHON_DATA,
    start: Start | None = None,
) -> tuple[Config, DataReader, Corpus, Survey]:
    """Read the training data once; return the configuration with its defaults filled in, and that data.

    `start` has what is taken from other runs, where they were read before.
    """
    start = start or read_start(tree, cells=cells)
    tree = start.tree if start else tree
    draft = validate(tree, cells=cells, keep_unread=True)
    reader = DataReader(
        TASKS[draft.task],
        draft.data,
        skip_bad_lines=skip_bad_lines,
        fresh=fresh,
        progress=progress,
        python_data=python_data,
        tokenizers=start.tokenizers if start else {},
    )
    corpus, survey = reader.survey(draft.data.train)
    found, notes = reader.task.find_settings(corpus, draft.data)
    config = fill(merge({"data": found}, tree), facts(survey, draft), cells=cells)
    reader.data = config.data
    reader.notes += notes
    return config, reader, corpus, survey


def facts(survey: Survey, config: Config) -> Facts:
    """Return the facts about the data and the device that defaults depend on."""
    source, target = (*survey.shapes, None, None)[:2]
    device = device_type(config.train.device)
    return Facts(survey.examples, survey.characters, device, source, target, survey.width)


class DividedData(NamedTuple):
    """The training records, and those for validation and test by the name of the part, each with its past."""

    config: Config
    train: Corpus
    parts: dict[str, Iterable[Record]]


def read_divided(
    tree: Tree, *, skip_bad_lines: bool = False, cells: Mapping[str, CellClass] | None = None
) -> DividedData:
    """Read all files once; return the filled configuration, and the data in its parts."""
    config, reader, corpus, survey = survey_training(tree, skip_bad_lines=skip_bad_lines, cells=cells)
    divided = set_aside(config, corpus, survey)
    given = {part: reader.survey(path)[0] for part in LATER_PARTS if (path := config.data.files(part))}
    return DividedData(config, divided.train, later_parts(reader.task, corpus, divided.aside, given))


def prepare(
    tree: Tree,
    *,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    python_data: PythonData = NO_PYTHON_DATA,
    resumed: Start | None = None,
) -> Prepared:
    """Read all files of a configuration; `fresh` does not use the cache of earlier runs.

    `resumed` has what a checkpoint holds of the runs that the training started from, which then are not read.
    """
    start = resumed or read_start(tree, cells=cells)
    if start is not None:
        tree = start.tree
        fill(tree, TYPICAL_DATA, cells=cells)  # reports settings that nothing reads before the data is read
    draft = validate(tree, cells=cells, keep_unread=True)
    precise(draft.train.precision, choose_device(draft.train.device))  # raises before the data is read
    check_fits(draft)
    config, reader, corpus, survey = survey_training(
        tree,
        skip_bad_lines=skip_bad_lines,
        cells=cells,
        fresh=fresh,
        progress=progress,
        python_data=python_data,
        start=start,
    )
    reader.notes += suggest_unknown(config, survey)
    if written(tree, "train", "metric") is None and (reason := reader.task.reason(facts(survey, config))):
        reader.notes.append(f"chooses by {config.train.metric}: {reason}")
    if note := reader.task.describe_model(facts(survey, config), tree):
        reader.notes.append(note)
    if config.train.rate_decay != 1.0 and written(tree, "train", "rate_decay") is None:
        reader.notes.append(
            f"chose train.rate_decay = {config.train.rate_decay}, since weights of another run need small changes: a "
            "layer learns at that share of the rate of the layer above it; 1 is one rate for all"
        )
    given, overlaps = dict[str, Corpus](), list[str]()
    earlier = {"training data": survey}
    for part in LATER_PARTS:  # before the long work, so that a mistake in them is found at once
        path = config.data.files(part)
        if path is None:
            continue
        given[part], found = reader.survey(path)
        overlaps += describe_overlaps(reader, earlier, found, part)
        earlier["validation data, by which the model is chosen"] = found
    reader.notes += overlaps
    task, train, aside, notes = reader.training(config, corpus, survey)
    records = None
    if task.label_column is not None or task.has_baselines:
        records = set_aside(config, corpus, survey).train
    if task.label_column is not None:
        reader.notes += describe_labels(count_labels(task.codec, train, task.label_column), len(train))
    reader.notes += notes
    others = later_parts(task, corpus, aside, given)
    running = config.train.truncate is not None and config.data.running
    rest = {
        part: encode_evaluation(task, records, task.data, positions=positions(config), running=running)
        for part, records in others.items()
    }
    for part, examples in rest.items():
        if examples.records is not None:  # a task that cuts every long text into pieces loses nothing
            reader.notes += [f"{part}: {note}" for note in examples.notes]
    check_positions(config, {"train": train, **rest})
    for part, examples in rest.items() if task.label_column is not None else ():
        reader.notes += describe_unseen(task.codec, examples.records or (), part)
    valid, test = rest["valid"], rest.get("test")
    return Prepared(config, task, train, valid, test, tuple(reader.notes), records, start, tuple(overlaps))


def describe_overlaps(reader: DataReader, before: Mapping[str, Survey], found: Survey, part: str) -> Iterator[str]:
    """Yield a note for each of the parts before that has examples of this one."""
    for name, other in before.items():
        if shared := reader.overlap(other, found):
            some = f"{shared:,} of {counted(found.examples, f'{part} example')}"
            yield f"{some} {'is' if shared == 1 else 'are'} also in the {name}: the {part} scores flatter the model"


class ReadData(Protocol):
    """`prepare` with the options of one training."""

    def __call__(self, tree: Tree, *, progress: Progress | None = None, resumed: Start | None = None) -> Prepared: ...
