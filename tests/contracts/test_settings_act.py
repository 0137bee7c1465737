"""Every setting of every task and kind changes the data, the model, the loop or the search, or is refused by its path.

The walk goes over the schema. `CHANGES` has for every setting another valid value, and the settings beside which it acts
where the defaults are not enough; a setting without a row fails.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch

from weft.catalog import CELLS, TASKS
from weft.config import Config, fill, merge
from weft.config.schema import TYPICAL, fields_of, schema, table_in
from weft.config.tree import nest
from weft.data import BadLines
from weft.errors import WeftError
from weft.nn import options_of
from weft.nn.recurrent import engine
from weft.nn.recurrent.layer import Layer
from weft.nn.transformer import EncoderStack
from weft.run.card import card
from weft.run.folder import read_json
from weft.run.preparation import prepare
from weft.run.save import REPORT
from weft.run.setup import set_up
from weft.run.training import train_events
from weft.settings import OneOf, Settings
from weft.tasks import encode
from weft.training import Step, compilation
from weft.training.finite import Finite
from weft.training.forcing import FORCINGS

RNN = {"embedding": 6, "hidden": 5, "dropout": 0.1}
SIZES: dict[str, dict[str, Any]] = {
    "rnn": RNN,
    "conv": {"embedding": 6, "width": 5, "layers": 2, "kernel": 2, "dropout": 0.1},
    "transformer": {"width": 8, "heads": 2, "layers": 1, "feedforward": 6, "dropout": 0.1},
}
FORCED = {"constant": 0.9, "linear": 3.0, "exponential": 0.6, "inverse_sigmoid": 2.0}
"""A number for each kind of teacher forcing that needs one."""

FILES = {
    "classify": "text\tlabel\ttopic\nThe cat sleeps, it does!\tanimal\tone\nA red one and a blue one\tcolour\ttwo\n"
    "The dog\tanimal\ttwo\nGreen and red\tcolour\tone\n",
    "lm": "The cat sleeps, it does!\nA dog runs and runs and runs.\nThe dog sleeps, too\n",
    "tag": "1\tThe\tthe\tDET\tDT\t_\t_\t_\t_\t_\n2\tcat\tcat\tNOUN\tNN\t_\t_\t_\t_\t_\n\n"
    "1\tdogs\tdog\tNOUN\tNNS\t_\t_\t_\t_\t_\n2\tsleep\tsleep\tVERB\tVB\t_\t_\t_\t_\t_\n\n",
    "translate": "source\ttarget\tother\nThe cat sleeps, it does!\tle chat dort\tla gata duerme\n"
    "A dog\tun chien\tun perro\nThe dog sleeps and sleeps\tle chien dort et dort\tel perro duerme\n",
}


class Change(NamedTuple):
    """Another value of a setting, and what else has to be set for it to act."""

    value: Any
    beside: dict[str, Any] = {}  # noqa: RUF012


STREAM = {"data.unit": "stream", "text.kind": "char"}
WORDS = {"text.kind": "word"}
SAMPLING = {"decode.sample": True, "decode.beam": 1}
TRANSFORMER = {"model.kind": "transformer", **{f"model.{name}": value for name, value in SIZES["transformer"].items()}}

CHANGES: dict[str, Change] = {
    "name": Change("mine"),
    "seed": Change(1),
    "data.train": Change("other"),
    "data.valid": Change("other"),
    "data.test": Change("other"),
    "data.text": Change("topic"),
    "data.label": Change("topic"),
    "data.source": Change("other"),
    "data.target": Change("other"),
    "data.unit": Change("stream"),
    "data.field": Change("xpos"),
    "data.column": Change(4),
    "data.max_length": Change(2),
    "data.overlong": Change("drop", {"data.max_length": 5}),
    "tag:data.overlong": Change("truncate", {"data.max_length": 1}),
    "translate:data.overlong": Change("truncate", {"data.max_length": 5}),
    "text.kind": Change("char"),
    "text.size": Change(268),
    "text.min_count": Change(2),
    "text.lowercase": Change(True),
    "text.punctuation": Change("keep", WORDS),
    "text.shared": Change(True),
    "embedding": Change(9),
    "cell": Change("gru"),
    "hidden": Change(7),
    "layers": Change(2),
    "skip": Change("dense", {"layers": 2}),
    "initial": Change("learned", {"bridge": "none"}),
    "dropout": Change(0.4),
    "bidirectional": Change(False),
    "merge": Change("sum"),
    "reverse_source": Change(True),
    "context": Change("every"),
    "attention": Change("additive"),
    "bridge": Change("none"),
    "tie": Change(False),
    "width": Change(4),
    "kernel": Change(3),
    "heads": Change(4),
    "feedforward": Change(7),
    "activation": Change("gelu"),
    "norm": Change("post"),
    "positions": Change("none"),
    "max_positions": Change(300, {"positions": "learned"}),
    "attention_dropout": Change(0.5),
    "attention_bias": Change(True),
    "pooling": Change("last"),
    "word_dropout": Change(0.6),
    "characters": Change(3),
    "cell.activation": Change("relu"),
    "cell.feedback": Change(True),
    "cell.forget_bias": Change(2.0),
    "cell.candidate": Change("sigmoid"),
    "cell.peepholes": Change("full"),
    "cell.projection": Change(4),
    "cell.update": Change("state"),
    "train.epochs": Change(3),
    "train.steps": Change(5),
    "train.batch_tokens": Change(8),
    "train.accumulate": Change(2),
    "train.optimizer": Change("sgd"),
    "train.rate": Change(0.5),
    "train.beta2": Change(0.9),
    "train.schedule": Change("linear"),
    "train.plateau_factor": Change(0.1, {"train.schedule": "plateau"}),
    "train.plateau_patience": Change(1, {"train.schedule": "plateau"}),
    "train.warmup": Change(3),
    "train.weight_decay": Change(0.5),
    "train.clip": Change(0.01, {"train.optimizer": "sgd"}),
    "train.clip_value": Change(0.001, {"train.optimizer": "sgd"}),
    "train.skip_bad": Change(0),
    "train.freeze": Change(["*embedding.weight"]),
    "train.label_smoothing": Change(0.3),
    "train.teacher_forcing": Change(0.5),
    "train.truncate": Change(4, STREAM),
    "train.evaluate_every": Change(1),
    "train.metric": Change("loss"),
    "train.patience": Change(1, {"train.rate": 500.0, "train.evaluate_every": 1}),
    "train.average": Change(2),
    "train.checkpoint_every": Change(1),
    "train.precision": Change("bf16"),
    "train.device": Change("cuda:77"),
    "train.threads": Change(2),
    "train.compile": Change(True, TRANSFORMER),
    "constant.p": Change(0.3),
    "linear.k": Change(2.0),
    "linear.epsilon": Change(0.9),
    "exponential.k": Change(0.1),
    "inverse_sigmoid.k": Change(1.0),
    "decode.beam": Change(2),
    "decode.length_penalty": Change(0.5),
    "decode.max_length": Change(3),
    "decode.min_length": Change(9),
    "decode.n_best": Change(2),
    "decode.stop": Change("finished"),
    "decode.groups": Change(2),
    "decode.diversity": Change(3.0, {"decode.groups": 2}),
    "decode.sample": Change(True),
    "decode.temperature": Change(0.3, SAMPLING),
    "decode.top_k": Change(2, SAMPLING),
    "decode.top_p": Change(0.2, SAMPLING),
    "decode.min_p": Change(0.9, SAMPLING),
    "decode.seed": Change(7, SAMPLING),
}
"""By path, where tasks differ with the task before it, or by name for a setting of a network."""

LOOP = "train.teacher_forcing", "train.truncate", "train.label_smoothing", "train.freeze", "train.metric"
"""What the loop does is the same for every task, and walked with one of them; these depend on the task too."""

NEVER = {
    "classify": {"train.teacher_forcing", "train.truncate"},
    "tag": {"train.teacher_forcing", "train.truncate", "text.kind", "text.punctuation"},
    "translate": {"train.truncate"},
    "lm": {"train.device"},
}
"""What a task has no use for, and refuses whatever stands beside it."""


class Leaf(NamedTuple):
    """A setting: its task, its path, and the tree that makes the tables above it of one kind."""

    task: str
    path: str
    kinds: dict[str, Any]

    @property
    def change(self) -> Change:
        """Its row of `CHANGES`; what stands beside a setting of a network is in the same table."""
        above, _, name = self.path.rpartition(".")
        if f"{self.task}:{self.path}" in CHANGES:
            return CHANGES[f"{self.task}:{self.path}"]
        if self.path in CHANGES or self.path.startswith("text."):
            return CHANGES.get(self.path) or CHANGES[f"text.{name}"]
        if ".cell." in self.path:
            return CHANGES[f"cell.{name}"]
        if "teacher_forcing." in self.path:
            return CHANGES[f"{self.kinds['train']['teacher_forcing']['kind']}.{name}"]
        value, beside = CHANGES[name]
        known = {one.rpartition(".")[2] for one in PATHS[self.task]}
        return Change(value, {f"{above}.{key}": other for key, other in beside.items() if key in known})


def leaves(task: str, table: type[Settings], path: tuple[str, ...] = (), kinds: Any = None) -> Iterator[Leaf]:
    for name, field in fields_of(table).items():
        here, inner, kinds = (*path, name), table_in(field), kinds or {}
        where = ".".join(here)
        if isinstance(inner, OneOf):
            for kind, arm in inner.arms.items():
                sizes = {"kind": kind} | {key: SIZES[kind][key] for key in arm.model_fields if key in SIZES[kind]}
                yield from leaves(task, arm, here, merge(kinds, nest(where, sizes)))
        elif inner is not None:
            yield from leaves(task, inner, here, kinds)
        elif name == "cell":
            yield Leaf(task, where, kinds)
            for cell in CELLS:
                own = merge(kinds, nest(where, {"kind": cell}))
                yield from (Leaf(task, f"{where}.{option}", own) for option in options_of(CELLS[cell]))
        elif where == "train.teacher_forcing":
            yield Leaf(task, where, kinds)
            for kind, arm in FORCINGS.items() if task == "lm" else ():
                names = [key for key in arm.model_fields if key != "kind"]
                own = nest(where, {"kind": kind, names[0]: FORCED[kind]})
                yield from (Leaf(task, f"{where}.{key}", own) for key in names)
        elif where != "task" and (name != "kind" or path[0] == "text"):  # other kinds have tables of their own
            yield Leaf(task, where, kinds)


LEAVES = [leaf for task in TASKS for leaf in leaves(task, schema(task))]
PATHS = {task: [leaf.path for leaf in LEAVES if leaf.task == task] for task in TASKS}


SKIPPED: list[int] = []
"""Bad updates that trainings were allowed, the last one's at the end."""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is compiled, and the number of threads is put back."""
    monkeypatch.setattr(Layer, "choose", lambda self, device: engine.Choice("reference", "", -1))
    monkeypatch.setattr(compilation, "_obstacle", lambda device: "")
    monkeypatch.setattr(EncoderStack, "compile_blocks", lambda self: None)
    monkeypatch.setattr("weft.training.loop.Finite", lambda **told: SKIPPED.append(told["skip_bad"]) or Finite(**told))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A file for each task, and another one that holds its beginning."""
    folder = tmp_path_factory.mktemp("walk")
    for task, text in FILES.items():
        name = f"{task}.{'conllu' if task == 'tag' else 'txt' if task == 'lm' else 'tsv'}"
        (folder / name).write_text(text, encoding="utf-8")
        end = "\n\n" if task == "tag" else "\n"
        (folder / f"other-{name}").write_text(end.join(text.split(end)[:-2]) + end, encoding="utf-8")
    return folder


def start(leaf: Leaf, folder: Any, beside: dict[str, Any]) -> dict[str, Any]:
    """The tree in which a setting is changed."""
    [file] = folder.glob(f"{leaf.task}.*")
    kinds = {"encoder": RNN, "decoder": RNN} if leaf.task == "translate" else RNN
    tree: dict[str, Any] = {
        "task": leaf.task,
        "data": dict.fromkeys(("train", "valid", "test"), str(file)),
        "text": {"kind": "word"} if leaf.task in ("classify", "tag") else {"kind": "bpe", "size": 300},
        "model": {} if "model" in leaf.kinds and "kind" in leaf.kinds["model"] else kinds,
        "train": {"steps": 4, "batch_tokens": 16, "evaluate_every": 2, "warmup": 1, "rate": 0.05},
    }
    tree = merge(tree, leaf.kinds)
    for path, value in beside.items():
        tree = merge(tree, nest(path, value))
    return tree


def observe(leaf: Leaf, tree: dict[str, Any], folder: Any) -> list[Any]:
    """What a configuration makes of the data, the model, the loop or the search, as far as the setting's section goes."""
    section = leaf.path.partition(".")[0]
    if section in ("model", "decode"):
        config, task, batch, records = example(leaf.task, repr(tree["text"]), folder, tree)
        torch.manual_seed(0)
        model = TASKS[leaf.task].build(config.model, task.codec)
        if section == "decode":
            return [
                answer.record() for answer in task.predict(model.eval(), batch, records=records, decode=config.decode)
            ]
        weights = [(name, tuple(value.shape), value.sum().item()) for name, value in model.state_dict().items()]
        losses = []
        for mode in (True, False):
            torch.manual_seed(1)
            losses.append(task.loss(model.train(mode), batch).total.item())
        return [weights, losses]
    prepared = prepare(tree)
    if section in ("data", "text"):
        parts = [prepared.train, prepared.valid, prepared.test]
        columns = [[column.flat(0, 10**6).tolist() for column in part.columns.values()] for part in parts]
        return [columns, prepared.task.codec.labels, *map(len, prepared.task.codec.tokenizers.values())]
    if section == "name":
        report = {"versions": {"weft": ""}, "seconds": 0, "parameters": 0, "steps": 0, "best_step": 0, "seed": 0}
        return [card(prepared.config, report)]
    return list(loop(prepared, folder))


def example(name: str, text: str, folder: Any, tree: dict[str, Any]) -> Any:
    """The configuration, and a batch of its data, whose tokens do not depend on the model."""
    config = fill(tree, TYPICAL)
    task, batch, records = batch_of(name, text, folder, config)
    return config, task, batch, records


BATCHES: dict[tuple[str, str], Any] = {}


def batch_of(name: str, text: str, folder: Any, config: Config) -> Any:
    if (name, text) not in BATCHES:
        kind = TASKS[name]
        records = list(kind.read(config.data.train, config.data, BadLines()))
        task = kind(kind.learn(records, config.text), config.data)
        examples = encode(task, records, None)
        BATCHES[name, text] = task, task.collate(examples, range(len(examples))), records
    return BATCHES[name, text]


def loop(prepared: Any, folder: Any) -> Iterator[Any]:
    """What a short training was set up with, and what happens in it."""
    setup = set_up(prepared)
    yield setup.device, torch.get_num_threads(), setup.compilation, setup.total, setup.metric
    setup.learning.observe(1.0)
    setup.learning.observe(1.0)
    yield [setup.learning.schedule(step) for step in range(1, 9)]
    out = folder / hashlib.sha256(repr(prepared.config).encode()).hexdigest()
    out.mkdir(exist_ok=True)
    for event in train_events(prepared, out):
        yield replace(event, seconds=0.0, numbers=event.numbers.read()) if isinstance(event, Step) else event
    yield SKIPPED[-1], read_json(out / REPORT).get("average")


def outcome(leaf: Leaf, folder: Any, beside: dict[str, Any]) -> str:
    """Whether the change of a setting acts, is refused by its path, or does nothing."""
    tree = start(leaf, folder, beside)
    value = leaf.change.value
    if value == "other" and leaf.path in ("data.train", "data.valid", "data.test"):
        [value] = map(str, folder.glob(f"other-{leaf.task}.*"))
    before = observe(leaf, tree, folder)
    try:
        after = observe(leaf, merge(tree, nest(leaf.path, value)), folder)
    except WeftError as error:
        assert re.search(rf"\b{re.escape(leaf.path)}\b", str(error)), str(error)
        return "refused"
    return "dead" if repr(before) == repr(after) else "acts"


WALKED = [leaf for leaf in LEAVES if leaf.task == "lm" or not leaf.path.startswith("train.") or leaf.path in LOOP]


@pytest.mark.parametrize("leaf", WALKED, ids=lambda leaf: f"{leaf.task}-{leaf.path}-{kinds_in(leaf.kinds)}")
def test_a_setting_acts_or_is_refused(leaf: Leaf, folder: Any) -> None:
    beside = leaf.change.beside
    alone = outcome(leaf, folder, {})
    assert alone != "dead"
    if leaf.path in NEVER[leaf.task]:
        assert alone == "refused"
    elif alone == "refused" or beside:
        assert outcome(leaf, folder, beside) == "acts"


def kinds_in(tree: Any) -> str:
    """The kinds that a tree names, for the name of a test."""
    return "-".join(
        value if key == "kind" else kinds_in(value)
        for key, value in tree.items()
        if key == "kind" or isinstance(value, dict)
    )
