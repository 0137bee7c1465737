"""Every setting of every task and kind changes the data, the model, the loop or the search, or is refused by its path.

The walk goes over the schema; `settings.toml` has another valid value for each setting. One without a row fails.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from weft.catalog import CELLS, TASKS
from weft.config import fill, merge
from weft.config.schema import TYPICAL_DATA, fields_of, schema, table_in
from weft.config.tree import nest, without
from weft.data import BadLines
from weft.errors import DataError, WeftError
from weft.export.weights import read_weights
from weft.models import SPELLERS, FitOptions, FittedModel, FittedSettings
from weft.nn import dropout, options_of
from weft.nn.recurrent import engine
from weft.nn.recurrent.layer import Layer
from weft.nn.transformer import EncoderStack
from weft.run.card import model_card
from weft.run.folder.checkpoint import Checkpoints
from weft.run.folder.files import REPORT, read_json
from weft.run.folder.save import Saver
from weft.run.job import set_up
from weft.run.prepare import prepare
from weft.run.train import train_events
from weft.settings import OneOf, Settings
from weft.tasks import encode
from weft.text import EOS, UNK
from weft.training import Update, compilation
from weft.training.finite import Finite
from weft.training.forcing import FORCINGS
from weft.training.gradients import tensors_of

ROWS = tomllib.loads((Path(__file__).parent / "settings.toml").read_text(encoding="utf-8"))

RNN = {"embedding": 6, "hidden": 5, "dropout": 0.1}
SIZES: dict[str, dict[str, Any]] = {
    "rnn": RNN,
    "conv": {"channels": [8], "embedding": 6, "width": 5, "layers": 2, "kernel": 2, "dropout": 0.1},
    "transformer": {"width": 8, "heads": 2, "layers": 1, "feedforward": 6, "dropout": 0.1},
    "encoder_decoder": {},
    "prefix": {},
    "hmm": {"order": 2},
    "skipgram": {"embedding": 6, "window": 2, "negatives": 3, "subsample": 0.5},
    "cbow": {"embedding": 6, "window": 2, "negatives": 3, "subsample": 0.5},
}
FORCED = {"constant": 0.9, "linear": 3.0, "exponential": 0.6, "inverse_sigmoid": 2.0}
"""The first number of each kind of teacher forcing."""

TEXT = {
    "word": {"kind": "word", "min_count": 1, "lowercase": False},
    "bpe": {"kind": "bpe", "size": 300},
    "char": {"kind": "char"},
}


def shops(first: int) -> list[str]:
    """The rows of forty days of two shops, from that day on."""
    return [
        f"{date(2024, 1, 1) + timedelta(day)},{day},{name},{day % 7 + size / 3},{day % 5},{day % 3},{day % 4},{size}"
        for name, size in (("a,north", 3), ("b,south", 6))
        for day in range(first, first + 40)
    ]


BLOCKS = {
    "caption.tsv": [
        "image\tcaption\tother\tvectors",
        "0.png\tThe cat sleeps, the cat does! It does and it does\t1.png\t0.npy",
        "1.png\tA dog runs and runs.\t2.png\t1.npy",
        "0.png\tA dog\t0.png\t0.npy",
        "2.png\tA cat\t0.png\t2.npy",
    ],
    "classify.tsv": [
        "text\tlabel\ttopic\tsequence\tplace\tsize",
        "The cat, The Cat and the cat! The cat and a cat and a Cat and the cat\tanimal\tone\t1\ta\t0.5",
        "The dog\tanimal\ttwo\t2\ta\t1.5",
        "A red one and a blue one\tcolour,both\ttwo\t3\tb\t2.5",
        "Green, and red\tcolour\tone\t4\tc\t-1",
    ],
    "regress.tsv": [
        "text\tlabel\ttopic\tsequence\tplace\tsize",
        "The cat, The Cat and the cat! The cat and a cat and a Cat and the cat\t2\t1\t1\ta\t0.5",
        "The dog\t2\t4\t2\ta\t1.5",
        "A red one and a blue one\t0.5\t9\t3\tb\t2.5",
        "Green, and red\t-1\t16\t4\tc\t-1",
    ],
    "lm.txt": [
        "The cat sleeps, the cat does! It does and it does",
        "A dog runs and runs.",
        "A dog",
        "A cat",
    ],
    "mask.txt": [
        "The cat sleeps, the cat does! It does and it does",
        "A dog runs and runs.",
        "A dog and a cat",
        "A cat",
    ],
    "embed.txt": [
        "The cat sleeps, the cat does! It does and it does",
        "A dog runs and runs.",
        "A dog and a cat",
        "A cat and a dog",
    ],
    "tag.conllu": [
        "".join(f"{place}\tThe\tthe\tDET\tDT\t_\t_\t_\t_\t_\n" for place in range(1, 15)),
        "1\tthe\tthe\tDET\tDT\t_\t_\t_\t_\t_\n2\tdogs\tdog\tNOUN\tNNS\t_\t_\t_\t_\t_\n",
        "1\tcat\tcat\tNOUN\tNN\t_\t_\t_\t_\t_\n2\tsleeps\tsleep\tVERB\tVB\t_\t_\t_\t_\t_\n",
    ],
    "forecast.csv": ["date,step,shop,area,value,load,price,rain,size", *shops(0)],
    "translate.tsv": [
        "source\ttarget\tother",
        "The cat sleeps, the cat does! It runs, too, and does\tLe chat dort, le chat!\tla gata duerme",
        "A dog\tun chien\tun perro",
        "The cat\tLe chat\tla gata",
        "A dog\tle chien\tun perro",
        "The dog sleeps and sleeps\tLe chien dort et dort\tel perro duerme",
    ],
}
"""A file for each task, and what stands in it."""

OTHERS = {"forecast.csv": [BLOCKS["forecast.csv"][0], *shops(40)]}
"""Another file, where it is not the same without its last block: validation data of a forecast is later."""

LOOP = (
    "train.class_weights",
    "train.freeze",
    "train.label_smoothing",
    "train.metric",
    "train.teacher_forcing",
    "train.truncate",
)
"""What the loop does is the same for every task, and walked with one of them; these depend on the task too."""

NEVER = {
    "caption": {"train.truncate", "train.class_weights", "data.delimiter", "decode.copy_unknown"},
    "classify": {"train.teacher_forcing", "train.truncate", "data.delimiter"},
    "embed": {
        *(f"train.{name}" for name in ("teacher_forcing", "truncate", "label_smoothing", "freeze", "metric")),
        "train.class_weights",
        "text.kind",
    },
    "forecast": {"train.truncate", "train.label_smoothing", "train.class_weights", "model.embedding_scale"},
    "lm": {"train.device", "decode.copy_unknown", "train.class_weights", "train.start", "train.new_rate"},
    "mask": {"train.teacher_forcing", "train.truncate", "train.class_weights"},
    "regress": {
        "train.teacher_forcing",
        "train.truncate",
        "train.label_smoothing",
        "train.class_weights",
        "data.delimiter",
    },
    "tag": {
        "train.class_weights",
        "data.features",
        "data.sequence",
        "train.teacher_forcing",
        "train.truncate",
        "text.kind",
        "text.frame",
        "text.punctuation",
    },
    "translate": {"train.truncate", "train.class_weights", "data.delimiter"},
}
"""What a task, this machine or these files have no use for, and what is refused whatever stands beside it."""


class Leaf(NamedTuple):
    """A setting: its task, its path, and a tree in which the tables above it are of one kind."""

    task: str
    path: str
    kinds: dict[str, Any]

    @property
    def row(self) -> dict[str, Any]:
        """Its row of the table, with whole paths."""
        above, _, name = self.path.rpartition(".")
        kind = self.kinds.get("train", {}).get("teacher_forcing", {}).get("kind")
        keys = [f"{self.task}:{self.path}", self.path]
        keys += [f"{kind}.{name}"] if kind else [f"cell.{name}"] if ".cell." in self.path else []
        keys += [f"text.{name}"] if self.path.startswith("text.") else [name]
        key = next((key for key in keys if key in ROWS), None)
        assert key is not None, f"{self.path} is new: give it a row in settings.toml"
        row = ROWS[key]
        if key != name or "beside" not in row:
            return row
        beside = {f"{above}.{key}": value for key, value in row["beside"].items()}
        table = {leaf.path for leaf in LEAVES if (leaf.task, leaf.kinds) == (self.task, self.kinds)}
        return {**row, "beside": {path: value for path, value in beside.items() if path in table}}

    def __str__(self) -> str:
        return "-".join([self.task, self.path, *kinds_in(self.kinds)])


def kinds_in(tree: dict[str, Any]) -> list[str]:
    """The kinds that a tree names."""
    below = [kind for value in tree.values() if isinstance(value, dict) for kind in kinds_in(value)]
    return [tree["kind"], *below] if "kind" in tree else below


def leaves(task: str, table: type[Settings], path: tuple[str, ...] = (), kinds: Any = None) -> Iterator[Leaf]:
    for name, field in fields_of(table).items():
        here, inner, kinds = (*path, name), table_in(field), kinds or {}
        where = ".".join(here)
        if isinstance(inner, OneOf):
            for kind, arm in inner.arms.items():
                sizes = {"kind": kind} | {
                    key: value for key, value in SIZES.get(kind, {}).items() if key in arm.model_fields
                }
                yield from leaves(task, arm, here, merge(kinds, nest(where, sizes)))
        elif inner is not None:
            yield from leaves(task, inner, here, kinds)
        elif name == "cell":
            yield Leaf(task, where, kinds)
            for cell in CELLS:
                own = merge(kinds, nest(where, {"kind": cell}))
                yield from (Leaf(task, f"{where}.{option}", own) for option in options_of(CELLS[cell]))
        elif name == "characters":
            yield Leaf(task, where, kinds)
            for kind, arm in SPELLERS.items():
                own = merge(kinds, nest(where, {"kind": kind, "hidden": 5}))
                yield from (Leaf(task, f"{where}.{key}", own) for key in arm.model_fields if key != "kind")
        elif where == "train.teacher_forcing":
            yield Leaf(task, where, kinds)
            for kind, arm in FORCINGS.items() if task == "lm" else ():
                names = [key for key in arm.model_fields if key != "kind"]
                own = nest(where, {"kind": kind, names[0]: FORCED[kind]})
                yield from (Leaf(task, f"{where}.{key}", own) for key in names)
        elif where != "task" and (name != "kind" or path[0] == "text"):  # other kinds have tables of their own
            yield Leaf(task, where, kinds)


LEAVES = [leaf for task in TASKS for leaf in leaves(task, schema(task))]
WALKED = [leaf for leaf in LEAVES if leaf.task == "lm" or not leaf.path.startswith("train.") or leaf.path in LOOP]
SKIPPED: list[int] = []
"""Bad updates that trainings were allowed, the last one's at the end."""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is compiled or kept on disk, all dropout begins from one seed, and the number of threads is put back."""
    for module in (torch.nn.functional, dropout):
        name = "dropout" if module is not dropout else "drop"
        monkeypatch.setattr(module, name, seeded(getattr(module, name)))
    monkeypatch.setattr(Layer, "choose", lambda self, device: engine.BackendChoice("reference", "", -1))
    monkeypatch.setattr("weft.decoding.beam_cpu.packed_weights", lambda: None)
    monkeypatch.setattr(compilation, "_obstacle", lambda device: "")
    monkeypatch.setattr(EncoderStack, "compile_blocks", lambda self: None)
    monkeypatch.setattr(Checkpoints, "save", lambda self, step, fill: None)
    monkeypatch.setattr("weft.run.job.save_run", lambda *parts: None)
    monkeypatch.setattr("weft.training.update.Finite", lambda **by: SKIPPED.append(by["skip_bad"]) or Finite(**by))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def seeded(drop: Any) -> Any:
    """Dropout that does not depend on how much was dropped before."""

    def dropped(*parts: Any, **rest: Any) -> Any:
        torch.manual_seed(2)
        return drop(*parts, **rest)

    return dropped


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each task, and another one that lacks its last block."""
    folder = tmp_path_factory.mktemp("walk")
    for name, blocks in BLOCKS.items():
        for file, held in ((name, blocks), (f"other-{name}", OTHERS.get(name, blocks[:-1]))):
            (folder / file).write_text("".join(f"{block}\n" for block in held), encoding="utf-8")
    for number in range(3):
        pixels = (np.arange(64).reshape(8, 8) * (number + 2)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        np.save(folder / f"{number}.npy", pixels[: number + 1].astype(np.float32))
    return folder


def start(leaf: Leaf, folder: Path, row: dict[str, Any]) -> dict[str, Any]:
    """The tree in which a setting is changed, with what its row wants beside it."""
    [file] = folder.glob(f"{leaf.task}.*")
    own = leaf.kinds.get("model", {})
    parts = ("decoder",) if own.get("kind") == "prefix" else ("encoder", "decoder")
    sides = {side: RNN if len(parts) == 2 else SIZES["transformer"] for side in parts if side not in own}
    tree: dict[str, Any] = {
        "task": leaf.task,
        "data": dict.fromkeys(("train", "valid", "test"), str(file)),
        "text": TEXT["word" if leaf.task in ("classify", "embed", "regress", "tag") else "bpe"],
        "model": sides
        if leaf.task == "translate"
        else {"decoder": RNN} | own
        if leaf.task == "caption"
        else {}
        if "kind" in own or leaf.task == "embed"
        else RNN,
        "train": {"steps": 4, "batch_tokens": 16, "evaluate_every": 2, "warmup": 1, "rate": 0.05},
    }
    if not TASKS[leaf.task].reads_text:
        columns = {"target": "value", "time": "date", "series": "shop"}
        tree["data"] = {"train": str(file), **columns, "season": 2, "history": 6, "horizon": 2}
        del tree["text"]
    if "max_length" in TASKS[leaf.task].sections.data.model_fields:
        tree["data"]["max_length"] = 12
    if own.get("encoder", {}).get("kind") == "linear":
        tree["data"]["features"] = "vectors"
    if own.get("kind") == "bag":
        tree["text"] = TEXT["char"]
    if issubclass(model_class(leaf), FittedSettings):  # it reads few settings of a training, and the walk changes those
        tree["train"] = {}
    tree = without(merge(tree, leaf.kinds), row.get("without", "nothing").split("."))
    for path, value in row.get("beside", {}).items():
        tree = merge(tree, nest(path, value))
    return tree


def model_class(leaf: Leaf) -> type[Settings]:
    """The class of the settings in `[model]`."""
    inner = table_in(schema(leaf.task).model_fields["model"])
    assert inner is not None
    return inner.arms[inner.kind_of(leaf.kinds.get("model"))] if isinstance(inner, OneOf) else inner


MADE: dict[str, Any] = {}
"""What was made before: observations, and batches by their texts."""


def observe(leaf: Leaf, tree: dict[str, Any], folder: Path) -> Any:
    """What a configuration makes of the data, the model, the loop or the search: that which the section is about."""
    section = leaf.path.partition(".")[0]
    key = f"{section} {tree}"
    if key not in MADE:
        MADE[key] = repr(list(SECTIONS[section](tree, folder)))
    return MADE[key]


def see_data(tree: dict[str, Any], folder: Path) -> Iterator[Any]:
    prepared = prepare(tree)
    for part in filter(None, (prepared.train, prepared.valid, prepared.test)):
        columns = part.columns.values()
        yield [(list(column.lengths), column.flat(0, 10**6).tolist()) for column in columns]
        yield [tensor.tolist() for tensor in tensors_of(prepared.task.collate(part, range(len(part))))]
    codec = prepared.task.codec
    yield codec.labels, [tokenizer.tokens(range(len(tokenizer))) for tokenizer in codec.tokenizers.values()]


def see_model(tree: dict[str, Any], folder: Path) -> Iterator[Any]:
    config, task, model, batch, _ = build(tree)
    with suppress(WeftError, AttributeError):  # what an export can hold
        weights = read_weights(model, config.model)
        yield weights.decoder.positions.shape, weights.encoder and weights.encoder.positions.shape
    yield [(name, tuple(value.shape), value.sum().item()) for name, value in model.state_dict().items()]
    for mode in (True, False):
        torch.manual_seed(1)
        yield task.loss(model.train(mode), batch).total.item()


def see_search(tree: dict[str, Any], folder: Path) -> Iterator[Any]:
    config, task, model, batch, records = build(tree)
    with torch.no_grad():  # or all would be equally likely, and no text would end
        model.output.scores.weight *= 6
        model.output.scores.bias[EOS] += 2 if task.name == "caption" else 5
        model.output.scores.bias[UNK] += 5 * (task.codec.side("target").kind == "word")  # which alone has unknown words
    step, steps = model.decoder.step, []
    model.decoder.step = lambda *parts, **rest: steps.append(1) or step(*parts, **rest)
    decodes = [config.decode]
    if not config.decode.sample and config.decode.n_best == 1:  # the best text alone may be the same by chance
        decodes.append(config.decode.model_copy(update={"n_best": config.decode.beam}))
    for decode in decodes:
        for answer in task.predict(model.eval(), batch, records=records, decode=decode):
            yield answer.record()
    yield len(steps)


def build(tree: dict[str, Any]) -> Any:
    """The model of a configuration, always from one seed, and a batch that does not depend on it."""
    config, kind = fill(tree, TYPICAL_DATA), TASKS[tree["task"]]
    key = f"{tree['task']} {config.text} {getattr(config.data, 'features', None)}"
    if key not in MADE:
        records = list(kind.read(config.data.train, config.data, BadLines()))
        task = kind(kind.learn(records, config.text), config.data)
        records = list(kind.gather(records, config.data)) if kind.rolls_origin else records
        examples = encode(task, records)
        MADE[key] = task, task.collate(examples, range(len(examples))), records
    task, batch, records = MADE[key]
    torch.manual_seed(0)
    model = kind.network(config, task.codec)
    if isinstance(model, FittedModel):
        fit = model.fit(encode(task, records), FitOptions(epochs=1, rate=0.1, batch_tokens=16, seed=0, threads=1))
        for number in range(1, fit.total + 1):
            fit.step(number)
    return config, task, model, batch, records


def see_loop(tree: dict[str, Any], folder: Path) -> Iterator[Any]:
    """What a short training was set up with, and what happens in it."""
    prepared = prepare(tree)
    setup = set_up(prepared)
    yield setup.device, torch.get_num_threads(), setup.compilation, setup.total, setup.metric
    setup.learner.observe(progress=True)
    setup.learner.observe(progress=False)
    if not isinstance(setup.model, FittedModel):
        yield [setup.learner.schedule(step) for step in range(1, 9)]
    out = folder / hashlib.sha256(repr(prepared.config).encode()).hexdigest()
    out.mkdir(exist_ok=True)
    for event in train_events(prepared, Saver(out)):
        yield replace(event, seconds=0.0, numbers=event.numbers.read()) if isinstance(event, Update) else event
    yield SKIPPED[-1:], read_json(out / REPORT).get("average")


def see_seed(tree: dict[str, Any], folder: Path) -> Iterator[Any]:
    return (parameter.sum().item() for parameter in set_up(prepare(tree)).model.parameters())


def see_name(tree: dict[str, Any], folder: Path) -> Iterator[Any]:
    report = {"versions": {"weft": ""}, "seconds": 0, "parameters": 0, "steps": 0, "best_step": 0, "seed": 0}
    yield model_card(fill(tree, TYPICAL_DATA), report)


SECTIONS = {
    "name": see_name,
    "seed": see_seed,
    "data": see_data,
    "text": see_data,
    "model": see_model,
    "train": see_loop,
    "decode": see_search,
}


def outcome(leaf: Leaf, folder: Path, row: dict[str, Any]) -> str:
    """Whether the change of a setting acts, is refused by its path, or does nothing."""
    tree, value = start(leaf, folder, row), row["value"]
    if leaf.path in ("data.train", "data.valid", "data.test"):
        [value] = map(str, folder.glob(f"other-{leaf.task}.*"))
    before = observe(leaf, tree, folder)
    try:
        after = observe(leaf, merge(tree, nest(leaf.path, value)), folder)
    except WeftError as error:
        if leaf.path == "data.header" and isinstance(error, DataError):
            return "acts"  # the first line is read as another thing than before
        return "refused" if names(str(error), leaf.path) else str(error)
    return "nothing" if before == after else "acts"


def names(message: str, path: str) -> bool:
    """Whether an error has the path of a setting, or that of its table and its name."""
    table, _, name = path.rpartition(".")
    return path in message or (message.startswith(f"{table}: ") and f"{name} = " in message)


@pytest.mark.parametrize("leaf", WALKED, ids=str)
def test_a_setting_acts_or_is_refused(leaf: Leaf, folder: Path) -> None:
    row = leaf.row
    alone = outcome(leaf, folder, {"value": row["value"]})
    assert alone in ("acts", "refused")
    if leaf.path in NEVER[leaf.task]:
        assert alone == "refused"
    elif alone == "refused":
        assert outcome(leaf, folder, row) == "acts"


def test_every_row_is_that_of_a_setting() -> None:
    known = {".".join(leaf.path.split(".")[-2:]) for leaf in LEAVES} | {leaf.path for leaf in LEAVES}
    known |= {leaf.path.rpartition(".")[2] for leaf in LEAVES} | {f"{kind}.{key}" for kind in FORCINGS for key in "pk"}
    assert {row.rpartition(":")[2] for row in ROWS} - known == {"linear.epsilon"}
