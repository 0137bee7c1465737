"""Training that starts from another run: what is taken, what is new, what contradicts it, rates by layer, resuming."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import weft
from weft.errors import ConfigError, DataError
from weft.models import stacks_of
from weft.run.inputs import take_python_data
from weft.run.job import set_up
from weft.run.prepare import prepare
from weft.training.layers import distances

WORDS = {"colour": ["red", "green", "blue", "black"], "animal": ["cat", "dog", "cow", "fox"]}
NETWORKS = {
    "rnn": {"kind": "rnn", "embedding": 12, "hidden": 10, "layers": 2},
    "transformer": {"kind": "transformer", "width": 12, "heads": 2, "layers": 2, "feedforward": 16},
}


def phrases(count=120):
    draw = random.Random(1)
    rows = []
    for number in range(count):
        label = draw.choice(list(WORDS))
        rows.append((f"the {draw.choice(WORDS[label])} and the {draw.choice(WORDS[label])} are {number}", label))
    return rows


TEXTS = [text for text, _ in phrases()]
DATA = {
    "classify": phrases(),
    "lm": TEXTS,
    "mask": TEXTS,
    "regress": [(text, float(len(text))) for text in TEXTS],
    "tag": [(text.split(), ["LONG" if len(word) > 3 else "SHORT" for word in text.split()]) for text in TEXTS],
    "translate": [(text, " ".join(reversed(text.split()))) for text in TEXTS],
}


def train(task, out, *, start=None, model=None, quiet=True, resume=False, **settings):
    tree = {"task": task, "data": {"train": DATA[task], "valid": DATA[task]}, "train": {"steps": 2, **settings}}
    if model is not None:
        tree["model"] = model
    if start is None:
        tree["text"] = {"kind": "word"}
    return weft.train(tree, out=out, start=start, quiet=quiet, resume=resume)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each task that others start from, by task and kind of network."""
    folder = tmp_path_factory.mktemp("start")
    found = {}
    for kind, network in NETWORKS.items():
        for task in DATA:
            sides = {"encoder": network, "decoder": network}
            model = {"translate": sides, "tag": {**network, "characters": 0}}.get(task, network)
            found[task, kind] = train(task, folder / f"{task}-{kind}", model=model)
    return found


def prepared(task, data=None, **sections):
    """The data and settings of a training, from examples given in Python."""
    tree = {"task": task, "data": dict.fromkeys(("train", "valid"), data or DATA[task]), **sections}
    tree, found = take_python_data(tree, {})
    return prepare(tree, python_data=found)


def started(task, start):
    """The model that a training begins with, its data, and its parts."""
    ready = prepared(task, train={"start": str(start), "steps": 1})
    setup = set_up(ready)
    return setup.model, ready, setup


@pytest.mark.covers("M7")
@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("target", DATA)
@pytest.mark.parametrize("source", DATA)
def test_parts_take_the_weights_of_parts(source, target, kind, runs):
    run = runs[source, kind]
    if target == "lm" and kind == "rnn" and source not in ("lm", "translate"):
        with pytest.raises(ConfigError, match="has bidirectional = true, which the decoder of lm cannot have"):
            started(target, run.folder)
        return
    model, ready, setup = started(target, run.folder)
    theirs = {name: part.state_dict() for name, part in stacks_of(run.model).items()}
    both = [name for name in stacks_of(model) if name in theirs]
    taken = both or list(stacks_of(model))[:1]
    for name in taken:
        weights = theirs[name if both else next(iter(theirs))]
        own = stacks_of(model)[name].state_dict()
        same = weights.keys() & own.keys()
        assert same == weights.keys() or (source, target) == ("translate", "lm"), "all but attention to a source"
        for key, value in ((key, weights[key]) for key in same):
            assert_close(own[key][tuple(slice(0, size) for size in value.shape)], value)
        role = {"translate": {"encoder": "source", "decoder": "target"}[name], "tag": "words"}.get(target, "")
        mine, wanted = ready.task.codec.tokenizers[role], run.task.tokenizer_of(name if both else next(iter(theirs)))
        assert mine.to_json() == wanted.to_json()
    [first, *rest] = setup.notes
    assert first.startswith(f"starts from {run.folder} ({source}): ")
    assert bool(rest) == bool(setup.new)


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_tagger_with_characters_begins_with_the_states_of_its_start(kind, runs):
    run = runs["mask", kind]
    model, ready, _ = started("tag", run.folder)
    batch = ready.task.collate(ready.valid, range(3))
    model.eval()
    states = model.encode(batch.words, batch.lengths, batch.spelling)
    expected = run.model.encoder(batch.words, batch.lengths).states
    assert_close(states, expected, atol=1e-5, rtol=1e-5)


def test_each_side_of_a_translator_may_have_its_own_start(runs, tmp_path):
    start = {"encoder": runs["mask", "transformer"], "decoder": runs["lm", "rnn"]}
    run = train("translate", tmp_path / "run", start=start)
    assert (run.config.model.encoder.kind, run.config.model.decoder.kind) == ("transformer", "rnn")
    assert run.config.train.start == {side: str(one.folder) for side, one in start.items()}


def test_the_frame_of_texts_is_that_of_the_run(tmp_path):
    tree = {"task": "mask", "data": {"train": TEXTS}, "text": {"kind": "word", "frame": "bert"}, "train": {"steps": 1}}
    framed = weft.train(tree, {"model.hidden": 8, "model.embedding": 8}, out=tmp_path / "framed", quiet=True)
    run = train("classify", tmp_path / "run", start=framed)
    assert run.config.text.frame == "bert"
    again = weft.load(run.folder)
    assert again.predict(TEXTS[:4]) == run.predict(TEXTS[:4])
    assert train("tag", tmp_path / "tag", start=framed).config.text.kind == "word"


def test_a_tagger_starts_from_a_run_of_texts_that_were_cut_at_blanks(tmp_path):
    data, text = {"train": ["it 's n't so -- no"], "valid": ["no"]}, {"kind": "word", "punctuation": "keep"}
    tree = {"task": "mask", "data": data, "text": text, "train": {"steps": 1}}
    cut = weft.train(tree, {"model.hidden": 8, "model.embedding": 8}, out=tmp_path / "cut", quiet=True)
    run = train("tag", tmp_path / "run", start=cut)
    known = weft.load(run.folder).task.codec.tokenizers["words"]
    assert known.encode_words(["n't", "--", "'s"]) == cut.task.tokenizer_of("").encode("n't -- 's")


def test_labels_of_a_classifier_are_taken_only_if_they_are_the_same(runs):
    run = runs["classify", "rnn"]
    model, _, setup = started("classify", run.folder)
    assert setup.new == frozenset()
    assert_close(model.scores.weight, run.model.scores.weight)
    others = [(text, label.upper()) for text, label in DATA["classify"]]
    ready = prepared("classify", others, train={"start": str(run.folder), "steps": 1})
    assert set_up(ready).new == {"scores.weight", "scores.bias"}


def test_distances_count_layers_from_the_top(runs):
    model, _, setup = started("classify", runs["mask", "transformer"].folder)
    found = distances(model, setup.new)
    assert {found[name] for name in setup.new} == {0}
    assert found["encoder.stack.blocks.1.attention.output.weight"] == found["encoder.stack.final.weight"] == 1
    assert found["encoder.stack.blocks.0.attention.output.weight"] == 2
    assert found["encoder.embedding.weight"] == 3
    recurrent = distances(runs["lm", "rnn"].model)
    assert recurrent["decoder.embedding.weight"] == 3, "a tied output is the table of embeddings"
    assert recurrent["output.scores.bias"] == 0


def test_layers_have_rates_and_begin_to_learn_one_after_the_other(runs, tmp_path):
    settings = {"rate": 0.01, "rate_decay": 0.5, "new_rate": 0.1, "unfreeze_every": 2, "schedule": "constant"}
    settings |= {"start": str(runs["mask", "transformer"].folder), "steps": 8, "warmup": 0}
    setup = set_up(prepared("classify", train=settings))
    names = {id(parameter): name for name, parameter in setup.model.named_parameters()}
    rates = {names[id(one)]: group["lr"] for group in setup.learner.optimizer.param_groups for one in group["params"]}
    assert rates["scores.weight"] == 0.1
    assert rates["encoder.stack.blocks.1.attention.output.weight"] == 0.005
    assert rates["encoder.embedding.weight"] == pytest.approx(0.01 * 0.5**3)
    found = distances(setup.model, setup.new)
    before = {name: one.detach().clone() for name, one in setup.model.named_parameters()}
    for update in setup.learner.steps():
        changed = {name for name, one in setup.model.named_parameters() if not torch.equal(before[name], one)}
        learning = {name for name, distance in found.items() if distance <= (update.number - 1) // 2}
        assert changed == learning, f"after update {update.number}"
        assert update.rate == 0.01
        if update.number == 8:
            break


@pytest.mark.parametrize("task", ["classify", "regress", "tag"])
def test_embeddings_of_a_start_learn_at_a_quarter_of_the_rate(task, runs):
    rate = {"start": str(runs["mask", "rnn"].folder), "steps": 1, "rate": 0.01, "warmup": 0}
    ready = prepared(task, train=rate)
    setup = set_up(ready)
    names = {id(parameter): name for name, parameter in setup.model.named_parameters()}
    rates = {names[id(one)]: group["lr"] for group in setup.learner.optimizer.param_groups for one in group["params"]}
    assert rates["encoder.embedding.weight"] == pytest.approx(0.01 / 4, rel=0.01)
    assert rates["scores.weight"] == 0.01
    assert any("chose train.rate_decay = 0.63" in note for note in ready.notes)
    written = prepared(task, train={**rate, "rate_decay": 1.0})
    assert written.config.train.rate_decay == 1.0
    assert not any("rate_decay" in note for note in written.notes)
    alone = prepared(task, model={"kind": "rnn"}, train={"steps": 1})
    assert alone.config.train.rate_decay == 1.0, "without a start there is one rate"


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_run_that_was_interrupted_twice_is_the_one_that_was_not(kind, runs, tmp_path):
    start = tmp_path / "start"
    shutil.copytree(runs["mask", kind].folder, start)
    settings = {"rate_decay": 0.7, "new_rate": 0.02, "unfreeze_every": 3, "schedule": "constant", "warmup": 1}
    settings |= {"evaluate_every": 2, "checkpoint_every": 2, "batch_tokens": 64, "freeze": ["encoder.embedding.*"]}
    whole = train("classify", tmp_path / "whole", start=start, **settings | {"steps": 12})
    train("classify", tmp_path / "parts", start=start, **settings | {"steps": 4})
    train("classify", tmp_path / "parts", start=start, resume=True, **settings | {"steps": 8})
    shutil.rmtree(start)  # a checkpoint has all that is needed
    again = train("classify", tmp_path / "parts", start=start, resume=True, **settings | {"steps": 12})
    assert again.report["valid"] == whole.report["valid"]
    for (name, one), other in zip(whole.model.state_dict().items(), again.model.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


def test_a_start_that_has_changed_is_noticed(runs, tmp_path, capsys):
    start = tmp_path / "start"
    shutil.copytree(runs["mask", "rnn"].folder, start)
    train("classify", tmp_path / "run", start=start)
    shutil.rmtree(start)
    shutil.copytree(runs["mask", "transformer"].folder, start)
    capsys.readouterr()
    train("classify", tmp_path / "run", start=start, resume=True, quiet=False, steps=4)
    shown = capsys.readouterr()
    assert "has changed since this run started from it" in " ".join((shown.out + shown.err).split())


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"text": {"kind": "char"}},
            r'text\.kind = "char": contradicts train\.start: the run .* has text\.kind = "word"',
        ),
        ({"model": {"hidden": 99}}, r"model\.hidden = 99: contradicts train\.start: the run .* has hidden = 10"),
        ({"model": {"kind": "transformer"}}, r'model\.kind = "transformer": contradicts .* has kind = "rnn"'),
        ({"model": {"embedding": "glove.txt"}}, r'model\.embedding = "glove\.txt": contradicts train\.start'),
        ({"train": {"start": ""}}, r'train\.start = "": names no run'),
        ({"train": {"start": {}}}, r"train\.start = \{\}: names no run"),
        ({"train": {"freeze": ["*"]}}, r"train\.freeze = \[\"\*\"\]: nothing is left to learn"),
        (
            {"train": {"freeze": ["encoder.*"], "unfreeze_every": 2}},
            r"train\.unfreeze_every = 2: no layer is left to begin later beside train\.freeze = \[\"encoder",
        ),
        ({"train": {"start": {"encoder": "x"}}}, r'train\.start = \{ encoder = "x" \}: names sides, and'),
    ],
)
def test_what_contradicts_the_start_is_named(sections, message, runs):
    train = {"start": str(runs["mask", "rnn"].folder), "steps": 1, **sections.get("train", {})}
    with pytest.raises(ConfigError, match=message):
        set_up(prepared("classify", **{**sections, "train": train}))


@pytest.mark.covers("M7")
def test_a_model_of_feature_vectors_has_no_start(runs, tmp_path):
    tree = {"task": "classify", "data": {"train": "steps.jsonl", "features": "x"}, "train": {"steps": 1}}
    with pytest.raises(ConfigError, match=r"train\.start = .*: starts a model of texts"):
        weft.train(tree, start=runs["mask", "rnn"], out=tmp_path / "run", quiet=True)


def test_runs_that_are_no_start_are_refused_with_the_reason(runs, weft, texts, labelled, tmp_path):
    small = ("train.steps=1", "-q")
    assert weft("train", "embed", texts, "model.embedding=4", "train.epochs=1", "-q", "--out", "vectors").code == 0
    assert weft("train", "lm", texts, "model.kind=ngram", "-q", "--out", "counts").code == 0
    for start, reason in (
        (str(tmp_path), "has no manifest.json"),
        ("nowhere", "is not a run folder"),
        ("vectors", "is a run of word vectors"),
        ("counts", 'has model.kind = "ngram", which has no encoder and no decoder'),
    ):
        outcome = weft("train", "classify", labelled, *small, "--from", start, "--out", "run")
        assert (outcome.code, len(outcome.err.splitlines())) == (2, 1), outcome.err
        assert f'train.start = "{start}"' in outcome.err
        assert reason in outcome.err
    lm = str(runs["mask", "rnn"].folder)
    outcome = weft("train", "lm", texts, *small, "--from", lm, "--out", "run")
    assert "has bidirectional = true, which the decoder of lm cannot have" in outcome.err
    assert not Path("run").exists()
    outcome = weft("train", "embed", texts, "train.epochs=1", "-q", "--from", lm)
    assert "models of embed start from no other run" in outcome.err or "train.start" in outcome.err
    unread = weft("train", "lm", texts, *small, "train.new_rate=0.1")
    assert "nothing is new without train.start" in unread.err


def test_texts_fit_the_positions_of_the_start(short):
    _, ready, _ = started("classify", short.folder)
    assert ready.config.data.max_length == 23
    data = {"train": DATA["classify"], "valid": DATA["classify"], "max_length": 64}
    with pytest.raises(ConfigError, match=r"data\.max_length = 64: .*lower it to 23: the run of train\.start"):
        weft.train({"task": "classify", "data": data}, {"train.steps": 1}, start=short, quiet=True)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A masked language model of 24 positions."""
    network = {**NETWORKS["transformer"], "positions": "learned", "max_positions": 24}
    tree = {"task": "mask", "data": {"train": TEXTS, "max_length": 20}, "text": {"kind": "word"}, "model": network}
    return weft.train(tree, {"train.steps": 1}, out=tmp_path_factory.mktemp("short") / "run", quiet=True)


def test_validation_texts_beyond_the_positions_are_cut_like_training_texts(short, weft, tmp_path, capsys):
    long, rows = "the red cat " * 20, DATA["classify"]
    for part, more in {
        "train": [],
        "valid": [(long, "colour")],
        "cut": [(" ".join(long.split()[:23]), "colour")],
    }.items():
        (tmp_path / f"{part}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows[:20] + more))
    files = [str(tmp_path / f"{part}.tsv") for part in ("train", "valid")]
    command = (
        "train",
        "classify",
        *files,
        "train.steps=2",
        "--from",
        str(short.folder),
        "--out",
        str(tmp_path / "run"),
    )
    done = weft(*command)
    assert done.code == 0, done.err
    assert "valid: cut off 1 example of more tokens than the 23 that model.max_positions = 24 has room for" in done.err
    evaluated = [
        weft("evaluate", str(tmp_path / "run"), str(tmp_path / f"{part}.tsv"), "--json") for part in ("valid", "cut")
    ]
    found, cut = (json.loads(one.out) for one in evaluated)
    assert "cut off 1 example" in found["details"].pop("overlong")
    assert found == cut
    refused = weft(*command[:-1], str(tmp_path / "other"), "data.overlong=error")
    assert refused.code == 2
    assert f"{files[1]}:21: 60 tokens, more than the 23 that model.max_positions = 24 has room for" in refused.err


def test_a_run_from_limited_positions_is_resumed_after_its_start_is_gone(short, tmp_path):
    start = tmp_path / "start"
    shutil.copytree(short.folder, start)
    settings = {"evaluate_every": 2, "checkpoint_every": 2, "batch_tokens": 64, "schedule": "constant"}
    whole = train("classify", tmp_path / "whole", start=start, **settings | {"steps": 6})
    train("classify", tmp_path / "parts", start=start, **settings | {"steps": 2})
    train("classify", tmp_path / "parts", start=start, resume=True, **settings | {"steps": 4})
    shutil.rmtree(start)
    again = train("classify", tmp_path / "parts", start=start, resume=True, **settings | {"steps": 6})
    assert again.config.data.max_length == whole.config.data.max_length == 23
    for (name, one), other in zip(whole.model.state_dict().items(), again.model.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


@pytest.mark.parametrize("task", ["tag", "translate"])
def test_rows_beyond_the_positions_are_named_before_training(task, short, tmp_path):
    words = ["the", "red", "cat"] * 20
    long = {"tag": (words, ["SHORT"] * 60), "translate": (" ".join(words), "the cat")}[task]
    data = {"train": DATA[task], "valid": [*DATA[task][:3], long]}
    start = {"encoder": short} if task == "translate" else short
    with pytest.raises(
        DataError, match=r"data\.valid\[3\]: a row of 6\d tokens is longer than model.*max_positions = 24"
    ):
        weft.train({"task": task, "data": data}, {"train.steps": 1}, start=start, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_two_starts_are_an_error(runs, weft, labelled):
    folder = str(runs["mask", "rnn"].folder)
    outcome = weft("train", "classify", labelled, "train.start=other", "--from", folder, "--out", "run")
    assert outcome.code == 2
    assert f"train.start=other: --from {folder} is the same setting" in " ".join(outcome.err.split())


def test_the_option_is_the_setting(runs, weft, labelled):
    folder = str(runs["mask", "transformer"].folder)
    outcome = weft("train", "classify", labelled, "train.steps=1", "--from", folder, "--out", "run")
    assert outcome.code == 0
    assert f"starts from {folder} (mask): encoder" in " ".join(outcome.err.split())
    assert weft("train", "classify", labelled, "train.steps=1", "--from", folder, "--dry-run").code == 0
