"""Numbers, several labels, pairs of texts, skewed classes and feature vectors, from file to answer."""

from __future__ import annotations

import hashlib
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import weft
from weft.catalog import TASKS
from weft.data import BadLines, Columns, Labelled, ManyLabelled, Measured, Ragged, read_answered
from weft.data.limit import Limit
from weft.errors import ConfigError, DataError, RunError
from weft.models import Classifier, RecurrentClassifierConfig
from weft.tasks import encode
from weft.tasks.deciding import OneLabel
from weft.tasks.many_labels import ManyLabels, many_baselines
from weft.tasks.results import show_number
from weft.tasks.task import Codec
from weft.text import EOS, SOS, TextConfig

SMALL = {"embedding": 16, "hidden": 16, "dropout": 0.0, "word_dropout": 0.0}
WORDS = ["the", "a", "red", "blue", "cat", "dog", "sleeps", "runs", "fast", "slow"]


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return list(dict.fromkeys(" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(count)))


def write(path: Path, rows: list[str]) -> str:
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(path)


def train(task: str, folder: Path, data: dict[str, Any], **sections: Any) -> weft.Run:
    model, more = SMALL | sections.pop("model", {}), {"steps": 150, "rate": 1e-2} | sections.pop("train", {})
    return weft.train({"task": task, "data": data, "model": model, "train": more}, out=folder / "run", quiet=True)


def task_of(name: str, records: list[Any], **data: Any) -> Any:
    kind = TASKS[name]
    return kind(kind.learn(records, TextConfig(kind="word")), kind.sections.data(train="none", **data))


# Numbers


@pytest.mark.covers("M2b")
@pytest.mark.parametrize("model", [{}, {"head": 12}], ids=["one layer", "two layers"])
def test_a_number_is_learned_in_its_own_unit(tmp_path: Path, model: dict[str, Any]) -> None:
    rows = [f"{text}\t{1000 + 50 * text.split().count('cat')}" for text in sentences(600)]
    run = train("regress", tmp_path, {"train": write(tmp_path / "a.tsv", ["text\tlabel", *rows])}, model=model)
    found, baselines = run.report["valid"], run.report["baselines"]["valid"]
    assert found["mae"] < 0.3 * baselines["mean"]["mae"]
    assert found["spearman"] > 0.8
    none, two = run.predict(["the dog sleeps", "cat cat"])
    assert none.number == pytest.approx(1000, abs=25)
    assert two.number > none.number + 50
    again = weft.load(tmp_path / "run")
    assert again.predict("cat cat") == run.predict("cat cat")


def test_numbers_are_standardised_inside() -> None:
    records = [Measured("a b", 10.0), Measured("b", 30.0), Measured("a", 20.0)]
    task = task_of("regress", records)
    numbers = task.collate(encode(task, records), [0, 1, 2]).numbers
    scale = math.sqrt(200 / 3)
    assert numbers.tolist() == pytest.approx([-10 / scale, 10 / scale, 0.0])
    model = lambda tokens, lengths: torch.zeros(len(tokens), 1)  # noqa: E731
    loss = task.loss(model, task.collate(encode(task, records), [0, 1, 2]))
    assert float(loss.total) / loss.count == pytest.approx(1.0)  # the mean has the variance as its error
    scores = task.scores()
    task.measure(model, task.collate(encode(task, records), [0, 1, 2]), scores, records=records)
    assert scores.metrics() == pytest.approx({"mae": 20 / 3, "rmse": scale, "loss": 1.0, "spearman": 0.0})


@pytest.mark.parametrize("value", ["much", "nan", "inf", ""])
def test_what_is_no_number_is_named_with_its_line(tmp_path: Path, value: str) -> None:
    path = write(tmp_path / "a.tsv", ["text\tlabel", "one\t1", f"two\t{value}"])
    with pytest.raises(DataError, match=r'a\.tsv:3: "label" is .*, not a number \(write a number'):
        list(read_answered(path, Columns(Measured, "text", "label"), bad=BadLines()))


def test_numbers_from_python_and_what_is_refused(tmp_path: Path) -> None:
    rows = [(text, len(text)) for text in sentences(60)]
    run = train("regress", tmp_path, {"train": rows}, train={"steps": 2})
    assert run.evaluate([("a dog", 5.0)]).metrics["mae"] > 0
    with pytest.raises(DataError, match=r"data\[0\]: \"label\" is nan, not a number"):
        run.evaluate([("a dog", math.nan)])
    with pytest.raises(ConfigError, match=r"train\.label_smoothing = 0\.1: smooths nothing"):
        train("regress", tmp_path / "no", {"train": rows}, train={"label_smoothing": 0.1})


# Several labels


@pytest.mark.covers("M2")
def test_several_labels_are_learned_with_thresholds(tmp_path: Path) -> None:
    texts = sentences(500)
    rows = [f'{text},"{",".join(word for word in ("cat", "red") if word in text.split())}"' for text in texts]
    data = {"train": write(tmp_path / "a.csv", ["text,label", *rows]), "labels": "many"}
    run = train("classify", tmp_path, data, model={"thresholds": "f1"})
    found, simple = run.report["valid"], run.report["baselines"]["valid"]
    assert list(found) == ["micro_f1", "f1", "exact", "loss"]
    assert found["micro_f1"] > 0.9 > simple["frequent"]["micro_f1"]
    assert set(run.report["calibration"]["thresholds"]) == {"cat", "red"}
    none, one, both = run.predict(["the dog runs", "a cat sleeps", "the red cat"])
    assert (none.labels, one.labels, sorted(both.labels)) == ((), ("cat",), ["cat", "red"])
    assert none.record() == {"text": "the dog runs", "labels": [], "probabilities": none.probabilities}
    again = weft.load(tmp_path / "run")
    assert again.model.thresholds.tolist() == run.model.thresholds.tolist()
    assert again.evaluate(data["train"]).metrics == run.evaluate(data["train"]).metrics


def test_labels_in_columns_and_lists(tmp_path: Path) -> None:
    columns = Columns(ManyLabelled, "text", "label", separator=";")
    table = write(tmp_path / "a.tsv", ["text\tlabel", "one\tx; y", "two\t", 'three\t["x", "a;b"]'])
    found = [record.labels for record in read_answered(table, columns, bad=BadLines())]
    assert found == [("x", "y"), (), ("x", "a;b")]
    lines = [{"text": "one", "label": ["x", 2]}, {"text": "two", "label": []}, {"text": "three", "label": "x;y;x"}]
    objects = write(tmp_path / "a.jsonl", [json.dumps(line) for line in lines])
    found = [record.labels for record in read_answered(objects, columns, bad=BadLines())]
    assert found == [("x", "2"), (), ("x", "y")]
    null = write(tmp_path / "b.jsonl", [json.dumps({"text": "one", "label": None})])
    with pytest.raises(DataError, match=r'b\.jsonl:1: "label" is None, not a list of labels'):
        list(read_answered(null, columns, bad=BadLines()))


def test_the_loss_of_several_labels_is_binary_cross_entropy() -> None:
    logits, labels = torch.randn(4, 3), torch.tensor([[1.0, 0, 0], [0, 0, 0], [1, 1, 1], [-1, -1, -1]])
    deciding = ManyLabels(("a", "b", "c"))
    loss = deciding.loss(logits, labels, count=3, label_smoothing=0.0)
    assert_close(loss.total, F.binary_cross_entropy_with_logits(logits[:3], labels[:3], reduction="sum") / 3)
    deciding.weigh({"b": 4.0}, {"a": 2, "b": 1, "c": 1}, 3)
    weighted = F.binary_cross_entropy_with_logits(
        logits[:3], labels[:3], reduction="sum", pos_weight=torch.tensor([1.0, 4.0, 1.0])
    )
    assert_close(deciding.loss(logits, labels, count=3, label_smoothing=0.0).total, weighted / 3)


def test_targets_of_several_labels() -> None:
    labels, others, count = ManyLabels(("a", "b")).targets(Ragged.from_lists([[1], [], [0, -1, 1]]), [2, 1, 0], 4)
    assert labels.tolist() == [[1, 1], [0, 0], [0, 1], [-1, -1]]
    assert others is not None
    assert (others.tolist(), count) == ([1, 0, 0, 0], 3)


def test_simple_models_of_several_labels() -> None:
    train = [ManyLabelled("x y", ("a", "b")), ManyLabelled("x", ("a",)), ManyLabelled("z", ())]
    parts = {"test": [ManyLabelled("x", ("a",)), ManyLabelled("z", ())]}
    found = many_baselines(Codec({}, ("a", "b")), train * 10, parts, bag=True, seed=0)
    assert found["test"]["majority"] == {"micro_f1": 2 / 3, "f1": 2 / 3, "exact": 1 / 2}
    assert found["test"]["frequent"] == found["test"]["majority"]  # one label on average: a
    assert found["test"]["bag"] == {"micro_f1": 1.0, "f1": 1.0, "exact": 1.0, "examples": 30}
    assert "bag" not in many_baselines(Codec({}, ("a", "b")), train, parts, bag=False, seed=0)["test"]


# Skewed classes


def test_balanced_weights_make_labels_equal_in_sum() -> None:
    deciding = OneLabel(("rare", "usual"))
    deciding.weigh("balanced", {"rare": 2, "usual": 8}, 10)
    assert deciding.weights is not None
    assert deciding.weights.tolist() == pytest.approx([2.5, 0.625])
    logits, labels = torch.randn(3, 2), torch.tensor([0, 1, -1])
    expected = F.cross_entropy(logits[:2], labels[:2], torch.tensor([2.5, 0.625]), reduction="sum")
    assert_close(deciding.loss(logits, labels, count=2, label_smoothing=0.0).total, expected)


def test_weights_of_unknown_labels_and_other_tasks_are_refused(labelled: str, texts: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'train\.class_weights\."colur": is no label .*did you mean "colour"'):
        train("classify", tmp_path, {"train": labelled}, train={"class_weights": {"colur": 2.0}})
    with pytest.raises(ConfigError, match=r"train\.class_weights = \"balanced\": weighs nothing"):
        weft.train({"task": "lm", "data": {"train": texts}, "train": {"class_weights": "balanced"}})


def test_thresholds_raise_macro_f1_on_skewed_classes(tmp_path: Path) -> None:
    """A label of 8% that its word only hints at: the likeliest label is nearly always the other one."""
    draw = random.Random(0)
    rows = []
    for number in range(3000):
        rare = draw.random() < 0.08
        hint = draw.random() < (0.8 if rare else 0.12)
        rows.append(f"{number} {'maybe' if hint else 'no'} {draw.choice(WORDS)}\t{'rare' if rare else 'usual'}")
    data = {"train": write(tmp_path / "a.tsv", ["text\tlabel", *rows])}
    run = train("classify", tmp_path, data, model={"thresholds": "f1"}, train={"steps": 100})
    chosen = run.report["calibration"]["thresholds"]
    assert chosen["rare"] < 0.5 < chosen["usual"]
    assert chosen["rare"] + chosen["usual"] == pytest.approx(1)
    found = run.evaluate(data["train"]).metrics["f1"]
    run.model.thresholds = None
    assert found > run.evaluate(data["train"]).metrics["f1"] + 0.05


# Pairs of texts


def test_a_pair_is_one_sequence_with_a_mark_between() -> None:
    records = [Labelled("one two", "a", second="three"), Labelled("four", "b", second="one")]
    task = task_of("classify", records, pair="second")
    ids = task.tokenizer.encode
    tokens = encode(task, records).columns["tokens"]
    assert tokens[0].tolist() == [*ids("one two"), SOS, *ids("three"), EOS]
    limit = Limit(3, "truncate")
    assert task.encode(records, limit)["tokens"][0] == [*ids("one"), SOS, *ids("three"), EOS]
    assert limit.overlong_seen == 1


@pytest.mark.parametrize(("first", "second", "kept"), [(9, 2, (5, 2)), (2, 9, (2, 5)), (9, 9, (4, 3)), (3, 4, (3, 4))])
def test_the_longer_text_of_a_pair_is_cut_first(first: int, second: int, kept: tuple[int, int]) -> None:
    [(one, other)] = Limit(8, "truncate").cut_pair([1] * first, [2] * second)
    assert (len(one), len(other)) == kept
    assert Limit(8, "drop").cut_pair([1] * 9, [2]) == []


@pytest.mark.covers("M2")
def test_the_order_of_a_pair_is_learned(tmp_path: Path) -> None:
    draw = random.Random(0)
    lines = ["premise\thypothesis\tlabel"]
    for _ in range(900):
        one, other = draw.sample(WORDS, 2)
        lines.append(f"{one} {draw.random():.4f}\t{other} {draw.random():.4f}\t{'same' if one < other else 'not'}")
    data = {"train": write(tmp_path / "a.tsv", lines), "text": "premise", "pair": "hypothesis"}
    run = train("classify", tmp_path, data, train={"steps": 300})
    assert run.report["valid"]["accuracy"] > 0.85
    pairs = [("cat 0.1", "dog 0.2"), ("dog 0.1", "cat 0.2")]
    answers = run.predict(pairs)
    assert answers[0].record()["second"] == "dog 0.2"
    named = [{"premise": one, "hypothesis": other} for one, other in pairs]
    assert run.predict(named) == answers
    assert run.predict(["\t".join(pair) for pair in pairs]) == answers
    assert run.predict(pairs[0]) == answers[0], "a tuple of two texts is one pair"
    with pytest.raises(DataError, match=r'"cat" is not a pair of texts \(give two texts'):
        run.predict(["cat"])


# Feature vectors


def walks(count: int, seed: int = 0) -> list[tuple[Any, str]]:
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        up = bool(draw.random() < 0.5)
        walk = np.cumsum(draw.normal(0.6 if up else -0.6, 0.5, int(draw.integers(4, 12))))
        found.append((np.stack([1e4 + 100 * walk, np.full(len(walk), 7.0)], axis=1), "up" if up else "down"))
    return found


@pytest.mark.covers("T7", "M2")
@pytest.mark.parametrize(
    "model",
    [SMALL, {"kind": "transformer", "width": 16, "heads": 2, "layers": 1, "dropout": 0.0}],
    ids=["rnn", "transformer"],
)
def test_feature_vectors_are_classified(tmp_path: Path, model: dict[str, Any]) -> None:
    lines = [json.dumps({"steps": steps.tolist(), "label": label}) for steps, label in walks(300)]
    config = {
        "task": "classify",
        "data": {"train": write(tmp_path / "a.jsonl", lines), "features": "steps"},
        "model": {name: value for name, value in model.items() if name != "word_dropout"},
        "train": {"steps": 100, "rate": 1e-2},
    }
    run = weft.train(config, out=tmp_path / "run", quiet=True)
    assert run.report["valid"]["accuracy"] > 0.85
    assert not list((tmp_path / "run").glob("tokenizer*"))
    again, (some, _) = weft.load(tmp_path / "run"), zip(*walks(5, seed=1), strict=True)
    answers = run.predict(list(some))
    assert [answer.label for answer in again.predict([torch.from_numpy(steps) for steps in some])] == [
        answer.label for answer in answers
    ]
    assert again.predict([steps.tolist() for steps in some]) == answers
    with pytest.raises(DataError, match=r"3 numbers in a step, where the training data has 2"):
        run.predict([[[1.0, 2.0, 3.0]]])


@pytest.mark.covers("T7", "M2b")
def test_a_number_for_feature_vectors(tmp_path: Path) -> None:
    rows = [(steps, float(steps[-1, 0])) for steps, _ in walks(300)]
    run = weft.train(
        {
            "task": "regress",
            "data": {"train": rows, "features": "steps"},
            "model": {"embedding": 8, "hidden": 16, "dropout": 0.0},
            "train": {"steps": 150, "rate": 1e-2},
        },
        out=tmp_path / "run",
        quiet=True,
    )
    assert run.report["valid"]["spearman"] > 0.9


@pytest.mark.covers("T7", "M3")
@pytest.mark.parametrize("crf", [False, True], ids=["plain", "crf"])
def test_each_step_gets_a_tag(tmp_path: Path, crf: bool) -> None:
    draw = np.random.default_rng(0)
    lines = ["sequence,x,y,tags"]
    for number in range(120):
        for x, y in draw.normal(50, 10, (int(draw.integers(2, 7)), 2)):
            lines.append(f"{number},{x},{y},{'high' if x > 50 else 'low'}")
    config = {
        "task": "tag",
        "data": {"train": write(tmp_path / "a.csv", lines), "features": "*"},
        "model": {"embedding": 8, "hidden": 8, "dropout": 0.0, "crf": crf},
        "train": {"steps": 80, "rate": 0.02},
    }
    run = weft.train(config, out=tmp_path / "run", quiet=True)
    assert run.report["valid"]["accuracy"] > 0.9
    again = weft.load(tmp_path / "run")
    steps = [[90.0, 50.0], [10.0, 50.0]]
    [answer] = again.predict([steps])
    assert (answer.tags, str(answer)) == (("high", "low"), "0/high 1/low")
    assert again.predict([np.array(steps)]) == [answer]
    rows = [{"steps": steps, "tags": ["high", "low"]}]
    assert again.evaluate(rows, columns={"features": "steps"}).metrics["accuracy"] == 1.0
    with pytest.raises(DataError, match=r'"tags" has 1 label for 2 steps'):
        again.evaluate([{"steps": steps, "tags": ["high"]}], columns={"features": "steps"})


def test_settings_of_text_are_refused_beside_features() -> None:
    config = {"task": "classify", "data": {"train": "a.jsonl", "features": "steps"}}
    with pytest.raises(ConfigError, match=r'text\.kind = "char": does nothing with data\.features = "steps"'):
        weft.train(config | {"text": {"kind": "char"}})


def test_padding_of_feature_vectors_changes_no_row() -> None:
    torch.manual_seed(0)
    model = Classifier(RecurrentClassifierConfig(embedding=6, hidden=5), 0, 3, features=2).eval()
    features = torch.randn(2, 4, 2)
    both = model(features, torch.tensor([4, 2]))
    assert_close(both[1:], model(features[1:, :2], torch.tensor([2])))


# Run folders


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has not the statistics of target"),
        ("[]", "is not a table of statistics"),
        ('{"target": {"mean": [1.0], "scale": [0.0]}}', "has a scale that is not positive"),
        ('{"target": {"mean": [1.0, 2.0], "scale": [1.0, 1.0]}}', 'has 2 numbers in "target"'),
        ('{"target": {"mean": ["a"], "scale": [1.0]}}', "has something else than finite numbers"),
    ],
)
def test_a_damaged_file_of_statistics_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    train("regress", tmp_path, {"train": [(text, len(text)) for text in sentences(40)]}, train={"steps": 1})
    run = tmp_path / "run"
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    if content is None:
        (run / "statistics.json").unlink()
        del manifest["sha256"]["statistics.json"]
    else:
        (run / "statistics.json").write_text(content, encoding="utf-8")
        manifest["sha256"]["statistics.json"] = hashlib.sha256(content.encode()).hexdigest()
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(RunError, match=message):
        weft.load(run)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(457.0204, "457.02"), (999_999.7, "1000000"), (-1_234_567.8, "-1234568"), (1e15, "1e+15"), (2.5e-9, "2.5e-09")],
)
def test_numbers_of_a_table_keep_what_is_before_the_point(value, shown):
    assert show_number(value) == shown
