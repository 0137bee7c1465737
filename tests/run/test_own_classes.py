"""Tasks, encoders and decoders of a person's own: imported by a command, named in the run folder, never found there."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.catalog import CATALOG, DECODERS, ENCODERS, TASKS
from weft.errors import ConfigError
from weft.models import LanguageModel
from weft.models.embedding import build_embedding
from weft.run import import_classes

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
COUNT = ("--import", "count.py:Count")
PARTS = ("--import", "parts.py:WindowConfig", "--import", "parts.py:DecayConfig")


@pytest.fixture(autouse=True)
def catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The files of the page in the current folder; what a test adds to the catalog is removed after it."""
    monkeypatch.chdir(tmp_path)
    for name, source in re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE, re.DOTALL):
        Path(f"{name}.py").write_text(source, encoding="utf-8")
    rows = [f"{'a' * number}{letter}\t{number}" for number in range(1, 9) for letter in "bcdfg"]
    Path("train.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    before: dict[str, dict[str, Any]] = {name: dict(parts) for name, parts in CATALOG.items()}
    yield
    for name, parts in CATALOG.items():
        parts.clear()  # type: ignore[attr-defined]
        parts.update(before[name])  # type: ignore[attr-defined]
    for name in [name for name in sys.modules if name.startswith("weft_import_")]:
        del sys.modules[name]


def test_a_task_is_imported_by_every_command_and_missed_without(weft: Callable[..., Any]) -> None:
    train = ("train", "count", "train.tsv", "train.steps=3", "--quiet")
    unknown = weft(*train)
    assert unknown.code == 2
    assert 'a task of your own comes by --import FILE.py:CLASS or weft.catalog.TASKS["count"] = CLASS' in unknown.err
    assert weft("new", "count", *COUNT, "--out", "count.toml").code == 0
    assert weft(*train, "--out", "run", *COUNT).code == 0
    shutil.copytree("run", "copy")
    card = Path("run/README.md").read_text(encoding="utf-8")
    assert 'import weft\nimport weft.catalog\n\nweft.catalog.TASKS["count"] = …\n\nrun = weft.load(' in card
    for words in (
        ("evaluate", "run", "train.tsv"),
        ("predict", "run", "train.tsv"),
        ("compare", "run", "copy", "--data", "train.tsv"),
        ("inspect", "parameters", "run"),
        ("data", "show", "count", "train.tsv"),
        ("config", "fill", "count.toml"),
    ):
        TASKS.pop("count", None)
        missed = weft(*words)
        assert (missed.code, len(missed.err.splitlines())) == (2, 1), missed.err
        assert "--import FILE.py:CLASS" in missed.err
        found = weft(*words, *COUNT)
        assert found.code == 0, found.err


def test_a_bad_label_is_an_error_with_its_place(weft: Callable[..., Any]) -> None:
    lines = Path("train.tsv").read_text(encoding="utf-8").splitlines()
    Path("train.tsv").write_text("\n".join([*lines[:6], "abba\tmany", *lines[6:]]), encoding="utf-8")
    train = ("train", "count", "train.tsv", "train.steps=3", *COUNT)
    found = weft(*train)
    assert found.code == 2
    assert 'train.tsv:7: "many" is not a whole number (write digits, or use --skip-bad-lines)' in found.err
    assert weft(*train, "--skip-bad-lines", "--quiet").code == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("int(record.label or 0)", 'int("x")', r"count\.py:\d+: ValueError: invalid literal .* \(in the file you"),
        ("return Counter(model", "return print(model", r"mistake in count\.py or in weft"),
        (
            "return Loss(",
            "return (",
            r"error Count\.loss: returns tuple, not weft\.tasks\.Loss \(return Loss\(total, count\): the sum",
        ),
        (
            'metric = "error"',
            'metric = "recall"',
            r'error Count\.metric = "recall": is none of the metrics that the task measures: error, loss \(name one',
        ),
        (
            'return {"error": distance',
            'return {"errors": distance',
            r'error Count\.metric = "error": is none of the metrics that the task measures: errors, loss',
        ),
    ],
)
def test_an_error_in_an_imported_file_is_not_blamed_on_weft(
    weft: Callable[..., Any], old: str, new: str, said: str
) -> None:
    source = Path("count.py").read_text(encoding="utf-8")
    assert old in source
    Path("count.py").write_text(source.replace(old, new), encoding="utf-8")
    found = weft("train", "count", "train.tsv", "train.steps=3", *COUNT)
    assert found.code != 0
    assert re.search(said, found.err.replace("\n", " "))
    assert "not yours" not in found.err


def test_too_few_answers_are_an_error_of_the_task(weft: Callable[..., Any]) -> None:
    source = Path("count.py").read_text(encoding="utf-8")
    Path("count.py").write_text(
        source.replace("zip(records, numbers)]", "zip(records[1:], numbers)]"), encoding="utf-8"
    )
    assert weft("train", "count", "train.tsv", "train.steps=3", "--out", "run", "--quiet", *COUNT).code == 0
    found = weft("predict", "run", "train.tsv", *COUNT)
    assert found.code == 2
    assert "error Count.predict: returns 39 answers for 40 records (return one for each, in the order" in found.err


def test_an_encoder_and_a_decoder_are_trained_and_loaded_by_name(weft: Callable[..., Any], pairs: str) -> None:
    settings = ("model.encoder.kind=window", "model.decoder.kind=decay", "model.decoder.hidden=24", "train.steps=3")
    assert weft("train", "translate", pairs, *settings, "--out", "run", "--quiet", *PARTS).code == 0
    saved = json.loads(Path("run/config.json").read_text(encoding="utf-8"))["model"]
    assert saved["decoder"] == {"kind": "decay", "embedding": 64, "hidden": 24, "tie": True}
    Path("source.txt").write_text("one two\n", encoding="utf-8")
    found = weft("predict", "run", "source.txt", "--json", *PARTS)
    assert found.code == 0, found.err
    DECODERS.pop("decay")
    missed = weft("predict", "run", "source.txt")
    assert missed.code == 2
    assert 'run: has a decoder of its own, "decay" (give its class: --import FILE.py:CLASS' in missed.err


@pytest.mark.parametrize("task", ["classify", "regress", "tag", "mask"])
def test_an_encoder_is_a_network_of_every_task_with_a_head(weft: Callable[..., Any], task: str) -> None:
    rows = {"tag": ["cat N", "", "two Q", "cat N", "", "a D", "cat N", ""], "mask": ["the cat sat", "a dog ran"]}
    pairs = ["a cat\t1", "my cat\t1", "a dog\t2", "my dog\t2"]
    Path("data.tsv").write_text("\n".join(rows.get(task, pairs) * 9) + "\n", encoding="utf-8")
    window = ("--import", "parts.py:WindowConfig")
    data = ("data.tsv", "data.column=1") if task == "tag" else ("data.tsv",)
    own = ("model.kind=window", "model.hidden=8", "train.steps=3")
    missed = weft("train", task, *data, *own)
    assert missed.code == 2
    assert 'an encoder of your own comes by --import FILE.py:CLASS or weft.catalog.ENCODERS["window"]' in missed.err
    done = weft("train", task, *data, *own, "--out", "run", "--quiet", *window)
    assert done.code == 0, done.err
    assert 'weft.catalog.ENCODERS["window"] = …' in Path("run/README.md").read_text(encoding="utf-8")
    found = weft("evaluate", "run", *data[:1], *window)
    assert found.code == 0, found.err
    ENCODERS.pop("window")
    assert 'has an encoder of its own, "window"' in weft("predict", "run", "data.tsv").err


def test_a_decoder_is_a_language_model_whose_steps_are_its_forward_pass() -> None:
    import_classes(["parts.py:DecayConfig"])
    torch.manual_seed(0)
    decoder = DECODERS["decay"]().build_decoder(build_embedding(8, 6), None)  # type: ignore[attr-defined]
    model, tokens = LanguageModel(decoder, 6, tie=False), torch.randint(6, (2, 4))
    state, hidden = decoder.start(None, torch.arange(2)), []
    for column in tokens.unbind(1):
        now, state, _ = decoder.step(column, state)
        hidden.append(now)
    torch.testing.assert_close(model(tokens), torch.stack(hidden, 1))
    assert "decay" in CATALOG["language_models"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class Mine(Task):\n    name = 'mine'\n", "Mine has no summary, metric, metrics, sections, build, "),
        ("class Mine(Classify):\n    pass\n", 'weft has a part named "classify" already (rename Mine.name)'),
        ("class Mine(PartSettings):\n    kind: str = 'mine'\n", "Mine has no vectors, build_encoder"),
        ("class Mine(RecurrentConfig):\n    def build_decoder(self): ...\n", "Mine has no tie"),
    ],
)
def test_an_incomplete_class_is_refused_by_name(source: str, message: str) -> None:
    head = "from weft.models import PartSettings, RecurrentConfig\nfrom weft.tasks import Classify, Task\n"
    Path("mine.py").write_text(head + source, encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(message)):
        import_classes(["mine.py:Mine"])


def test_only_a_cell_is_renamed() -> None:
    with pytest.raises(ConfigError, match="only a cell can be renamed"):
        import_classes(["other=count.py:Count"])


def test_an_encoder_without_a_counterpart_is_named_by_export(weft: Callable[..., Any], pairs: str) -> None:
    settings = ("model.encoder.kind=window", "model.decoder.kind=decay", "train.steps=3")
    assert weft("train", "translate", pairs, *settings, "--out", "run", "--quiet", *PARTS).code == 0
    ENCODERS.pop("window")
    export = ("export", "run", "--to", "huggingface", "--out", "out")
    missed = weft(*export)
    assert (missed.code, len(missed.err.splitlines())) == (2, 1), missed.err
    assert "--import FILE.py:CLASS" in missed.err
    refused = weft(*export, *PARTS)
    assert refused.code == 2
    assert 'model.encoder.kind = "window": has no counterpart in this format (train with kind = "transf' in refused.err
    assert not Path("out").exists()


def test_a_cell_without_a_counterpart_is_named_by_export(weft: Callable[..., Any], texts: str) -> None:
    source = 'from weft.catalog import CELLS\n\n\nclass Mine(CELLS["gru"]):\n    pass\n'
    Path("mine.py").write_text(source, encoding="utf-8")
    mine, small = ("--import", "mine=mine.py:Mine"), ("model.hidden=8", "model.embedding=8", "train.steps=2")
    trained = weft("train", "lm", texts, "model.kind=rnn", "model.cell=mine", *small, "--out", "run", "--quiet", *mine)
    assert trained.code == 0, trained.err
    export = ("export", "run", "--to", "huggingface", "--out", "out")
    assert "--import mine=FILE.py:CLASS" in weft(*export).err
    refused = weft(*export, *mine)
    assert refused.code == 2
    assert 'model.kind = "rnn": has no counterpart in this format' in refused.err


def test_a_task_whose_model_has_a_counterpart_is_exported(weft: Callable[..., Any], texts: str) -> None:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    source = 'from weft.catalog import TASKS\n\n\nclass Story(TASKS["lm"]):\n    name = "story"\n'
    Path("story.py").write_text(source, encoding="utf-8")
    story = ("--import", "story.py:Story")
    small = ("model.kind=transformer", "model.width=16", "model.layers=1", "model.heads=2", "train.steps=2")
    trained = weft("train", "story", texts, *small, "--out", "run", "--quiet", *story)
    assert trained.code == 0, trained.err
    TASKS.pop("story")
    export = ("export", "run", "--to", "huggingface", "--out", "out")
    assert "--import FILE.py:CLASS" in weft(*export).err
    exported = weft(*export, *story)
    assert exported.code == 0, exported.err
    assert "compared with the run: numbers within" in exported.err
