"""Taggers that give whole sequences a probability: never an illegal one, scores, and bad input."""

from __future__ import annotations

import json
import math
import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.data import Tagged
from weft.decoding import DecodeConfig
from weft.errors import ConfigError, DataError
from weft.metrics import SpanScheme
from weft.models import TAGGERS
from weft.tasks import Codec, encode
from weft.tasks.tag import Tag, TaggedData, TaggedText

SMALL = {
    "rnn": {"embedding": 4, "hidden": 4, "characters": 3, "dropout": 0.0, "crf": True},
    "transformer": {"width": 8, "heads": 2, "layers": 1, "characters": {"kind": "cnn", "hidden": 3}, "crf": True},
    "hmm": {},
}
SCHEMES = {
    "bio": ("B-X", "B-Y", "I-X", "I-Y", "O"),
    "bioes": ("B-X", "E-X", "I-X", "O", "S-X", "S-Y"),
    "iob1": ("B-Y", "I-X", "I-Y", "O"),
}
WORDS = tuple("abcdefgh")


def learned(labels: tuple[str, ...]) -> Tag:
    codec = Tag.learn([Tagged(WORDS, ("O",) * len(WORDS)), Tagged(("i",), ("B-X",))], TaggedText(min_count=1))
    return Tag(Codec(codec.tokenizers, labels), TaggedData(train="none"))


@pytest.mark.covers("M3")
@pytest.mark.parametrize(("kind", "scheme"), list(product(SMALL, SCHEMES)))
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_no_illegal_sequence_is_ever_predicted(kind, scheme, data):
    """Weights are drawn large, so that without the rules nearly every sequence would break them."""
    task = learned(SCHEMES[scheme])
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    model = Tag.build(TAGGERS[kind](**SMALL[kind]), task.codec).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if kind == "hmm":
                parameter.copy_(torch.rand_like(parameter) + 1e-6)
            else:
                parameter.normal_(std=3.0)
    sentences = data.draw(
        st.lists(st.lists(st.sampled_from([*WORDS, "new"]), min_size=1, max_size=9), min_size=1, max_size=4)
    )
    records = [Tagged(tuple(words)) for words in sentences]
    examples = encode(task, records)
    with torch.inference_mode():
        answers = task.predict(
            model, task.collate(examples, range(len(records))), records=records, decode=DecodeConfig()
        )
    rules = SpanScheme(task.codec.labels, unknown=-1)
    for answer in answers:
        assert not rules.breaks(np.array([task.codec.label_id(tag) for tag in answer.tags]))
        assert all(0.0 <= share <= 1.0 + 1e-5 for share in answer.probabilities)


@pytest.fixture(name="command")
def _command(request):
    """The command line; its fixture has the name of the package."""
    return request.getfixturevalue("weft")


def write(path: Path, sentences: list[tuple[str, str]]) -> str:
    blocks = (
        "".join(f"{word} {tag}\n" for word, tag in zip(words.split(), tags.split(), strict=True))
        for words, tags in sentences
    )
    path.write_text("\n".join(blocks), encoding="utf-8")
    return str(path)


def names(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """A name is two words, of which both also occur outside of names: only the order decides."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        words, tags = [], []
        for _ in range(draw.randint(2, 4)):
            if draw.random() < 0.5:
                words += ["new", draw.choice(["york", "delhi"])]
                tags += ["B-LOC", "I-LOC"]
            else:
                words += [draw.choice(["a", "the"]), draw.choice(["york", "delhi", "new", "ham"])]
                tags += ["O", "O"]
        found.append((" ".join([*words, "."]), " ".join([*tags, "O"])))
    return found


@pytest.mark.parametrize(
    "model",
    [
        {"embedding": 16, "hidden": 16, "characters": {"kind": "cnn", "hidden": 8}, "dropout": 0.0, "crf": True},
        {"kind": "hmm"},
        {"kind": "hmm", "order": 1},
    ],
    ids=["crf", "hmm", "hmm of order 1"],
)
def test_a_run_learns_predicts_scores_and_resumes(tmp_path, model, command):
    config = {
        "task": "tag",
        "data": {
            "train": write(tmp_path / "train.txt", names(300)),
            "valid": write(tmp_path / "valid.txt", names(40, 1)),
        },
        "model": model,
    }
    if "kind" not in model:
        config["train"] = {"steps": 40, "evaluate_every": 40, "batch_tokens": 300, "rate": 0.02}
    run = train(config, out=tmp_path / "run")
    assert run.report["valid"]["span_f1"] > 0.95
    answer = run.predict(["the new york ."])[0]
    assert answer.tags == ("O", "B-LOC", "I-LOC", "O")
    assert all(0.5 < share <= 1.0 for share in answer.probabilities)
    again = train(config, out=tmp_path / "run", resume=True)
    assert again.predict(["the new york ."])[0] == answer

    [right, wrong] = run.score(
        [
            (["the", "new", "york", "."], ["O", "B-LOC", "I-LOC", "O"]),
            list(zip(["the", "new", "york", "."], ["O", "O", "O", "O"], strict=True)),
        ]
    )
    assert wrong.log_probability < right.log_probability < 0.0
    assert right.ranks == (1, 1, 1, 1)
    assert max(math.log(share) for share in wrong.probabilities) >= wrong.log_probability
    assert right.probabilities == pytest.approx(answer.probabilities, abs=1e-5)
    scores = [
        one.log_probability
        for one in run.score([(["new", "york"], list(tags)) for tags in product(run.task.codec.labels, repeat=2)])
    ]
    assert sum(map(math.exp, scores)) == pytest.approx(1.0, abs=1e-4)

    found = command("score", str(tmp_path / "run"), str(tmp_path / "valid.txt"), "--json")
    *lines, summary = map(json.loads, found.out.splitlines())
    assert len(lines) == 40
    assert summary["sentences"] == 40
    assert summary["log_probability"] == pytest.approx(sum(line["log_probability"] for line in lines))
    assert -summary["log_probability_per_word"] == pytest.approx(run.report["valid"]["loss"], rel=1e-3)


def train(config, **options):
    return weft.train(config, quiet=True, **options)


@pytest.fixture(scope="module")
def crf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crf")
    model = {"embedding": 8, "hidden": 8, "characters": 0, "crf": True}
    config = {"task": "tag", "data": {"train": write(folder / "train.txt", names(60))}, "model": model}
    return train(config | {"train": {"steps": 5}}, out=folder / "run")


def test_an_illegal_sequence_has_no_probability(crf, command, tmp_path):
    [found] = crf.score([(["new", "york"], ["O", "I-LOC"])])
    assert found.log_probability == -math.inf
    assert found.record()["log_probability"] is None
    path = write(tmp_path / "illegal.txt", [("new york", "O I-LOC"), ("new york", "O O")])
    lines = [json.loads(line) for line in command("score", str(crf.folder), path, "--json").out.splitlines()]
    assert [line["log_probability"] is None for line in lines] == [True, False, True]
    shown = command("score", str(crf.folder), path)
    assert shown.code == 0
    assert "log-probability -inf" in shown.out


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ((["new"], ["B-PER"]), r'the tag "B-PER" is not in the training data \(choose from'),
        ((["new", "york"], ["O"]), "2 words and 1 tag"),
        (Tagged(("new",)), "has no tags to score"),
        ("new york", "pairs of word and tag"),
    ],
)
def test_what_cannot_be_scored(crf, item, message):
    with pytest.raises(DataError, match=message):
        crf.score([item])


def test_tags_of_a_file_that_training_never_saw_are_named_with_their_line(crf, tmp_path, command):
    path = write(tmp_path / "new.txt", [("new york", "O O"), ("ham", "B-FOOD")])
    found = command("score", str(crf.folder), path)
    assert found.code == 2
    assert f"{path}:4" in found.err
    assert '"B-FOOD" is not in the training data' in found.err


def test_a_tag_that_training_never_saw_is_wrong_and_leaves_the_loss_finite(crf, tmp_path):
    path = write(
        tmp_path / "new.txt",
        [("new york is", "B-GPE I-LOC O"), ("new york", "B-LOC I-LOC"), ("a new ham", "O B-LOC I-GPE")],
    )
    scores, details = crf.evaluate(path)
    assert details["unseen_labels"] == {"B-GPE": 1, "I-GPE": 1}
    assert 0.0 <= scores["accuracy"] <= 6 / 8
    assert math.isfinite(scores["loss"])


@pytest.mark.parametrize("kind", ["rnn", "hmm"])
def test_an_unseen_tag_in_validation_data_is_noted(tmp_path, capsys, kind):
    valid = write(tmp_path / "valid.txt", [("new york", "B-GPE I-GPE"), ("the ham", "O O")])
    data = {"train": write(tmp_path / "train.txt", names(20)), "valid": valid}
    settings = {"kind": "rnn", "embedding": 4, "hidden": 4, "crf": True} if kind == "rnn" else {"kind": "hmm"}
    config = {"task": "tag", "data": data, "model": settings}
    weft.train(config | ({"train": {"steps": 2}} if kind == "rnn" else {}), out=tmp_path / "run")
    assert "2 valid words have tags that training never saw, counted as wrong: B-GPE, I-GPE" in capsys.readouterr().err


def test_training_data_that_breaks_the_rules_is_learned_as_the_spans_it_marks(tmp_path):
    """In IOB1 a span begins with I, and B separates neighbours; a cut sentence begins inside of a span."""
    sentences = [("new york is far", "I-LOC I-LOC O O"), ("york delhi is", "I-LOC B-LOC O"), ("a ham", "O O")] * 20
    config = {
        "task": "tag",
        "data": {
            "train": write(tmp_path / "train.txt", sentences),
            "valid": str(tmp_path / "train.txt"),
            "max_length": 1,
        },
        "model": {"embedding": 8, "hidden": 8, "characters": 0, "dropout": 0.0, "word_dropout": 0.0, "crf": True},
        "train": {"steps": 60, "rate": 0.05, "evaluate_every": 60},
    }
    run = train(config, out=tmp_path / "cut")
    assert math.isfinite(run.report["valid"]["loss"])
    config["data"]["max_length"] = 200
    run = train(config, out=tmp_path / "whole")
    assert run.report["valid"]["span_f1"] == 1.0
    assert run.predict(["new york is"])[0].tags == ("B-LOC", "I-LOC", "O")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"model": {"crf": True}, "train": {"label_smoothing": 0.1}},
            r"^train.label_smoothing = 0.1: smooths single labels",
        ),
        (
            {"model": {"kind": "hmm"}, "train": {"epochs": 3}},
            r'^train.epochs = 3: does nothing with model.kind = "hmm"',
        ),
        ({"model": {"kind": "hmm", "order": 3}}, r"^model.order = 3"),
        ({"model": {"kind": "hmm", "crf": True}}, r"^model.crf: no such setting"),
        ({"model": {"characters": -1}}, r"^model.characters = -1: is less than 0"),
        ({"model": {"characters": {"kind": "cnm"}}}, r'^model.characters.kind = "cnm": is not one of rnn, cnn'),
        ({"model": {"characters": {"kind": "cnn", "widths": []}}}, r"^model.characters.widths"),
        ({"model": {"characters": {"kind": "rnn", "widths": 2}}}, r"^model.characters.widths: no such setting"),
        ({"model": {"characters": "cnn"}}, "is neither a number nor a table"),
    ],
)
def test_settings_that_do_not_go_together(tmp_path, tree, message):
    with pytest.raises(ConfigError, match=message):
        train({"task": "tag", "data": {"train": "none.txt"}, **tree}, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "none.txt"), ("word\n", "none.txt"), ("a X\n", "only the label 'X' .a tagger needs")],
    ids=["empty", "no tag", "one word"],
)
def test_data_that_no_tagger_can_learn(tmp_path, content, message):
    (tmp_path / "none.txt").write_text(content, encoding="utf-8")
    data = {"train": str(tmp_path / "none.txt"), "valid": write(tmp_path / "valid.txt", [("a", "X")])}
    with pytest.raises(DataError, match=message):
        train({"task": "tag", "data": data, "model": {"kind": "hmm"}}, out=tmp_path / "run")


def test_many_tags_need_order_1(tmp_path):
    path = write(tmp_path / "many.txt", [(f"w{number}", f"T{number}") for number in range(130)])
    data = {"train": path, "valid": path}
    with pytest.raises(ConfigError, match=r"130 tags .* 128 .* \(use order = 1\)"):
        train({"task": "tag", "data": data, "model": {"kind": "hmm"}}, out=tmp_path / "run")
    train({"task": "tag", "data": data, "model": {"kind": "hmm", "order": 1}}, out=tmp_path / "one")


@pytest.mark.parametrize("crf", [False, True])
def test_hidden_layers_before_the_tags(tmp_path, crf):
    """z = W_2 relu(W_1 h + b_1) + b_2 at each word."""
    rows = [(["a", "dog", "ran"], ["D", "N", "V"]), (["dogs", "ran"], ["N", "V"])] * 8
    settings = {"embedding": 4, "hidden": 4, "characters": 0, "dropout": 0.0, "word_dropout": 0.0, "crf": crf}
    run = weft.train(
        {"task": "tag", "data": {"train": rows}, "model": settings | {"head": [6]}, "train": {"steps": 2}},
        out=tmp_path / "run",
        quiet=True,
    )
    model = run.model.eval()
    words, lengths = torch.tensor([[4, 5, 6]]), torch.tensor([3])
    states = model.encode(words, lengths, None)
    [layer] = model.head.layers
    expected = model.scores(torch.relu(states @ layer.weight.T + layer.bias))
    torch.testing.assert_close(model(words, lengths, None), expected)
    assert model.scores.in_features == 6
