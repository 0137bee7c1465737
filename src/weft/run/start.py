"""`train.start`: the runs that a model starts from, with the settings and tokenizers that it takes from them.

Parts take the weights of parts; anything else of a model is new:

    a model with an encoder      its encoder     from an encoder, or else from the decoder of a language model
    a language model             its decoder     from a decoder, or else from an encoder that reads in one direction
    a translator                 encoder and decoder from those of a translator; its encoder from any other encoder, its
                                 decoder from a language model; { encoder = RUN, decoder = RUN } from one run each
    a model of the same task     also all other parts of the same name, if their sizes and labels are the same

The settings that weights depend on (`stack_settings`) and `[text]` are those of the run. A configuration need not have
them, and may not contradict them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from weft.catalog import TASKS
from weft.config import Config, merge, schema, validate
from weft.config.schema import positions, table_in
from weft.config.tree import nest
from weft.errors import ConfigError, RunError
from weft.models import FittedSettings, PartSettings
from weft.nn import CellClass
from weft.run.folder.files import tokenizer_file
from weft.run.folder.manifest import MANIFEST, RunFiles, hash_file, read_run
from weft.run.hub.address import local_folder
from weft.run.stored import read_codec, read_run_config
from weft.settings import OneOf, Settings, show
from weft.tasks import Task, Tree
from weft.tasks.codec import Codec
from weft.tasks.sections import StackPlace, written
from weft.text import Tokenizer


@dataclass(frozen=True)
class StartRun:
    """A run whose weights a model starts from; `where` names the setting in errors."""

    path: str
    where: str
    config: Config
    codec: Codec
    folder: Path
    hash: str
    """The SHA-256 of its manifest, which has the hashes of all files."""

    @property
    def task(self) -> Task:
        return TASKS[self.config.task](self.codec, self.config.data)

    @property
    def stacks(self) -> dict[str, StackPlace]:
        return TASKS[self.config.task].stacks(self.config.tree())

    def source(self, stack: str) -> StackSource:
        """The stack of this run for a stack of that name: the same, or else its only one."""
        return StackSource(self, stack if stack in self.stacks else next(iter(self.stacks)))

    def settings(self, stack: str) -> PartSettings:
        """The settings of one of its stacks."""
        found: Any = self.config
        for name in self.stacks[stack].model.split("."):
            found = getattr(found, name)
        assert isinstance(found, PartSettings)
        return found


class StackSource(NamedTuple):
    """The run, and the stack of it, whose weights a stack of the new model takes."""

    run: StartRun
    stack: str


@dataclass(frozen=True)
class Start:
    """All that a training takes from other runs before its model is built."""

    tree: Tree
    """The configuration with the settings of the runs."""
    tokenizers: Mapping[str, Tokenizer]
    """Tokenizers by the role that they have in the new model."""
    sources: Mapping[str, StackSource]
    """By the name of the new model's stack; empty in a training that is resumed from a checkpoint."""
    cells: Mapping[str, CellClass] | None = None
    """Cells of the user's own that the runs have."""
    resumed: Tree | None = None
    """The description of the runs in the checkpoint that the training is resumed from (`describe`)."""

    def describe(self, new: frozenset[str]) -> Tree:
        """The runs for the head of a checkpoint: the hash of each by its path, and the parameters that were new."""
        runs = {source.run.path: source.run.hash for source in self.sources.values()}
        return self.resumed or {"runs": runs, "new": sorted(new)}


def read_start(tree: Tree, *, cells: Mapping[str, CellClass] | None = None) -> Start | None:
    """Read the runs that `train.start` names; None without any."""
    setting = written(tree, "train", "start")
    if setting is None:
        return None
    task = TASKS[validate({**tree, "model": {}, "text": {}}, cells=cells, keep_unread=True).task]
    if not task.stacks(tree):
        raise ConfigError(f"models of {task.name} start from no other run", where=_where(setting), cure="remove it")
    if written(tree, "data", "features") is not None:
        what = "starts a model of texts, and data.features gives it feature vectors"
        raise ConfigError(what, where=_where(setting), cure="remove one of the two")
    sources = find_sources(task, tree, setting, cells)
    adopted: Tree = {}
    tokenizers: dict[str, Tokenizer] = {}
    places = task.stacks(tree)
    for stack, (run, part) in sources.items():
        place, tokenizer = places[stack], run.task.tokenizer_of(part)
        adopted = merge(adopted, nest(place.text, _text_tree(task, place, tokenizer)))
        adopted = merge(adopted, nest(place.model, _fitting(task, tree, place, run, part)))
        tokenizers[place.role] = tokenizer
    first = next(iter(sources.values())).run
    if first.config.task == task.name and isinstance(setting, str):
        adopted |= {"text": first.config.tree()["text"]}
        tokenizers = dict(first.codec.tokenizers)
    merged = merge(adopted, tree)
    config = validate(merged, cells=cells, keep_unread=True)
    merged = merge(merged, _fitting_length(task, tree, config))
    _check(task, tree, config, sources, tokenizers)
    # The settings of a tokenizer also say what stands around a text, in a task that has such a setting.
    own = {role: task.roles(config.text)[role] for role in tokenizers}
    tokenizers = {role: found.with_settings(own[role]) for role, found in tokenizers.items()}
    return Start(merged, tokenizers, sources, cells)


def find_sources(
    task: type[Task], tree: Tree, setting: Any, cells: Mapping[str, CellClass] | None
) -> dict[str, StackSource]:
    """The source of each stack of the new model that has one."""
    stacks = task.stacks(tree)
    if isinstance(setting, Mapping):
        if len(stacks) == 1 or not setting:
            what = f"names sides, and a model of {task.name} has one" if setting else "names no run"
            raise ConfigError(what, where=_where(setting), cure='give one run: train.start = "RUN"')
        runs = {side: read_start_run(path, _where(path, side), cells) for side, path in setting.items()}
        return {side: run.source(side) for side, run in runs.items()}
    run = read_start_run(setting, _where(setting), cells)
    same = [stack for stack in stacks if stack in run.stacks]
    return {stack: run.source(stack) for stack in same or list(stacks)[:1]}


def read_start_run(path: str, where: str, cells: Mapping[str, CellClass] | None) -> StartRun:
    """Read settings and tokenizers of a run whose weights are a network's."""

    def read(files: RunFiles) -> StartRun:
        config = read_run_config(files, cells)
        codec = read_codec(files, config)
        return StartRun(path, where, config, codec, files.folder, hash_file(files.folder / MANIFEST))

    if not path:
        raise ConfigError("names no run", where=where, cure="give the folder of a run, or leave it out")
    try:
        run = read_run(local_folder(path, cells=cells), read)
    except RunError as error:
        raise ConfigError(f"cannot be used: {error}", where=where) from None
    if run.config.task == "embed":
        cure = f"write model.embedding={path}"
        raise ConfigError("is a run of word vectors, which are no network", where=where, cure=cure)
    if isinstance(run.config.model, FittedSettings):
        kind = getattr(run.config.model, "kind", run.config.task)
        cure = "start from a run of kind rnn, transformer or conv"
        raise ConfigError(f'has model.kind = "{kind}", which has no encoder and no decoder', where=where, cure=cure)
    if not run.stacks:
        raise ConfigError(f"is a run of {run.config.task}, which no other model can start from", where=where)
    if not run.codec.tokenizers:
        raise ConfigError("is a run of feature vectors, not of texts", where=where, cure="start from a run of texts")
    return run


def _fitting(task: type[Task], tree: Tree, place: StackPlace, run: StartRun, part: str) -> Tree:
    """The settings of a run's stack that the table at this place has; an error if its kind is none of the task's."""
    settings = run.settings(part).stack_settings()
    kind, own = settings.get("kind", ""), written(tree, *place.model.split("."), "kind")
    choice = _choice(task, tree, place)
    if not settings or kind not in choice.arms:
        what = f'has a network of kind "{kind or run.config.task}", which a model of {task.name} cannot start from'
        raise ConfigError(what, where=run.where, cure=f"start from a run of kind {', '.join(choice.arms)}")
    if own is not None and own != kind:
        raise _contradiction(f"{place.model}.kind", own, run, "kind", kind)
    return {name: value for name, value in settings.items() if name in choice.arms[kind].model_fields}


def _fitting_length(task: type[Task], tree: Tree, config: Config) -> Tree:
    """A `data.max_length` that the positions of the runs suffice for, where none is written and the usual is longer."""
    most = dict(config.data).get("max_length")
    bound = positions(config)
    if most is None or bound is None or written(tree, "data", "max_length") is not None:
        return {}
    beyond = task.row_tokens(config) - bound
    return {"data": {"max_length": max(1, most - beyond)}} if beyond > 0 else {}


def _choice(task: type[Task], tree: Tree, place: StackPlace) -> OneOf:
    """The kinds of table at a place of the configuration."""
    table: type[Settings] | OneOf | None = schema(task.name)
    path: list[str] = []
    for name in place.model.split("."):
        if isinstance(table, OneOf):
            table = table.arms[table.kind_of(written(tree, *path))]
        assert table is not None
        table, path = table_in(table.model_fields[name]), [*path, name]
    assert isinstance(table, OneOf)
    return table


def _text_tree(task: type[Task], place: StackPlace, tokenizer: Tokenizer) -> Tree:
    """The settings of a tokenizer that the table at this place has, and that have an effect there and in the run."""
    table: Any = schema(task.name)
    for name in place.text.split("."):
        table = table_in(table.model_fields[name])
    settings: Any = tokenizer.config
    without = {found.name for found in settings.unread()}
    found = settings.model_dump(mode="json", exclude_none=True, exclude=without)
    values = {name: value for name, value in found.items() if name in table.model_fields}
    without = {found.name for found in table.model_construct(**values).unread()}
    return {name: value for name, value in values.items() if name not in without}


def _check(
    task: type[Task],
    tree: Tree,
    config: Config,
    sources: Mapping[str, StackSource],
    tokenizers: Mapping[str, Tokenizer],
) -> None:
    """Raise where the configuration contradicts the runs."""
    roles, places = task.roles(config.text), task.stacks(config.tree())
    for stack, (run, part) in sources.items():
        place = places[stack]
        expected: Any = tokenizers[place.role].config
        found = roles[place.role]
        without = {one.name for settings in (expected, found) for one in settings.unread()}
        for name in type(expected).model_fields:
            if name in type(found).model_fields and name not in without:
                _compare(f"{place.text}.{name}", getattr(found, name), run, f"text.{name}", getattr(expected, name))
        now: Any = config
        for name in place.model.split("."):
            now = getattr(now, name)
        before, after = run.settings(part).stack_settings(), now.stack_settings()
        vectors = written(tree, *place.model.split("."), "embedding")
        if isinstance(vectors, Mapping) or (isinstance(vectors, str) and vectors != "onehot"):
            raise _contradiction(f"{place.model}.embedding", vectors, run, "embedding", before["embedding"])
        for name in sorted(before.keys() & after.keys()):
            if name not in type(now).model_fields and before[name] != after[name]:
                what = f"has {name} = {show(before[name])}, which the {stack} of {task.name} cannot have"
                raise ConfigError(what, where=run.where, cure="start from another run")
            _compare(f"{place.model}.{name}", after[name], run, name, before[name])


def _compare(path: str, value: Any, run: StartRun, name: str, expected: Any) -> None:
    if value != expected:
        raise _contradiction(path, value, run, name, expected)


def _contradiction(path: str, value: Any, run: StartRun, name: str, expected: Any) -> ConfigError:
    what = f"contradicts train.start: the run {run.path} has {name} = {show(expected)}"
    return ConfigError(what, where=f"{path} = {show(value)}", cure="leave it out")


def _where(setting: Any, side: str = "") -> str:
    return f"train.start{'.' * bool(side)}{side} = {show(setting)}"


def resumed_start(tree: Tree, head: Tree, files: RunFiles) -> Start:
    """The start of a resumed training, from the settings and tokenizers in its checkpoint; the runs are not needed."""
    config = head["config"]
    kept = {name: config["data"][name] for name in ("max_length",) if name in config["data"]}  # see _fitting_length
    merged = merge({"data": kept, "text": config["text"], "model": config["model"]}, tree)
    before = validate(config, keep_unread=True)
    roles = TASKS[before.task].tokenizer_roles(before.text, before.data)
    tokenizers = {role: _stored_tokenizer(files, role, text) for role, text in roles.items()}
    return Start(merged, tokenizers, {}, resumed=head["start"])


def _stored_tokenizer(files: RunFiles, role: str, text: Any) -> Tokenizer:
    from weft.limits import TOKENIZER_FILE_BYTES

    name = tokenizer_file(role)
    return Tokenizer.parse(files.read(name, most=TOKENIZER_FILE_BYTES), text, where=str(files.folder / name))


def start_settings(start: Any) -> Tree:
    """The setting for runs, or their folders, that are given in Python."""
    if start is None:
        return {}
    if isinstance(start, Mapping):
        return {"train": {"start": {side: str(getattr(run, "folder", run)) for side, run in start.items()}}}
    return {"train": {"start": str(getattr(start, "folder", start))}}


def changed_runs(runs: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each run that is not any more what it was when a training started from it."""
    for path, before in runs.items():
        manifest = Path(path) / MANIFEST
        if manifest.is_file() and hash_file(manifest) != before:
            yield f"{path} has changed since this run started from it; it is not read again"
