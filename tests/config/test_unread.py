"""A setting that nothing reads beside the others is an error with its path, unless a run was trained with it."""

from __future__ import annotations

import json
import tomllib

import pytest

from weft.catalog import TASKS
from weft.config import fill, merge, read_config, template, validate
from weft.config.tree import nest
from weft.errors import ConfigError
from weft.tasks import Facts

FACTS = Facts(1000, 40_000)


def tree(task, settings):
    found = {"task": task, "data": {"train": "x"}}
    for path, value in settings.items():
        found = merge(found, nest(path, value))
    return found


PARALLEL = ["a.de", "a.en"]


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (
            "translate",
            {"model.decoder.context": "first", "model.decoder.bridge": "none"},
            r'model\.decoder\.bridge = "none": hides the source: with context = "first" .*bridge alone \(use bridge = ',
        ),
        ("translate", {"model.decoder.initial": "learned"}, r'model\.decoder\.initial = "learned": is never used'),
        ("translate", {"model.decoder.initial": "learned", "model.decoder.bridge": "copy"}, r"model\.decoder\.initial"),
        ("translate", {"model.decoder.embedding": "onehot", "model.decoder.tie": True}, r"model\.decoder\.tie = true"),
        ("lm", {"model.embedding": "onehot", "model.tie": True}, r"model\.tie = true: ties nothing"),
        ("lm", {"model.kind": "conv", "model.embedding": "onehot", "model.tie": True}, r"model\.tie = true"),
        ("lm", {"model.kind": "transformer", "model.embedding": "onehot", "model.tie": True}, r"model\.tie = true"),
        ("translate", {"model.decoder.context": "every", "model.decoder.attention": "dot"}, r"model\.decoder\.attenti"),
        ("translate", {"model.decoder.context": "first", "model.encoder.merge": "sum"}, r"model\.encoder\.merge"),
        ("lm", {"model.skip": "dense"}, r'model\.skip = "dense": joins nothing: there is one layer'),
        (
            "classify",
            {"model.skip": "residual"},
            r'model\.skip = "residual": joins nothing: there is one layer, and its input',
        ),
        ("tag", {"model.bidirectional": False, "model.merge": "sum"}, r'model\.merge = "sum": does nothing in one'),
        ("tag", {"model.kind": "transformer", "model.max_positions": 99}, r"model\.max_positions = 99: limits nothing"),
        (
            "lm",
            {"model.kind": "transformer", "model.positions": "rotary", "model.max_positions": 99},
            r'model\.max_positions = 99: limits nothing: positions = "rotary" have no limit',
        ),
        (
            "translate",
            {"model.encoder.kind": "transformer", "model.encoder.max_positions": 99},
            r"model\.encoder\.max_positions = 99: limits nothing",
        ),
        ("lm", {"text.kind": "char", "text.punctuation": "keep"}, r'text\.punctuation = "keep": cuts nothing'),
        ("translate", {"text.source.punctuation": "keep"}, r'text\.source\.punctuation = "keep": cuts nothing'),
        ("translate", {"text.size": 9, "text.source.size": 9, "text.target.size": 9}, r"text\.size = 9: is not read"),
        ("tag", {"text.punctuation": "keep"}, r'text\.punctuation = "keep": cuts nothing'),
        ("tag", {"text.kind": "bpe"}, r'text\.kind = "bpe": is not one of word'),
        ("tag", {"data.column": 3, "data.field": "xpos"}, r'data\.field = "xpos": is not read beside column = 3'),
        ("translate", {"data.train": PARALLEL, "data.source": "de"}, r'data\.source = "de": names no column'),
        (
            "lm",
            {"data.unit": "stream", "train.truncate": 20, "data.max_length": 99},
            r"data\.max_length = 99: cuts nothing: train\.truncate = 20",
        ),
        ("lm", {"train.average": 1}, r"train\.average = 1: averages nothing"),
        ("lm", {"train.optimizer": "sgd", "train.beta2": 0.9}, r"train\.beta2 = 0\.9: does nothing"),
        ("lm", {"train.plateau_patience": 5}, r"train\.plateau_patience = 5: does nothing"),
        ("translate", {"decode.seed": 3}, r"decode\.seed = 3: only acts on sampling"),
        ("translate", {"decode.sample": True, "decode.beam": 8}, r"decode\.beam = 8: only acts on search"),
        ("lm", {"decode.beam": 8}, r"decode\.beam = 8: only acts on search"),
        ("lm", {"decode.beam": 4}, r"decode\.beam = 4: only acts on search, not on sampling"),
        ("classify", {"decode.beam": 1}, r"decode: no such setting: classify writes no text \(remove it\)"),
        ("tag", {"decode": {}}, r"decode: no such setting: tag writes no text"),
    ],
    ids=str,
)
def test_an_error_with_its_path(task, settings, message):
    written = tree(task, settings)
    for read in (lambda: read_config(written), lambda: fill(written, FACTS)):
        with pytest.raises(ConfigError, match=f"^{message}"):
            read()


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("translate", {"model.decoder.initial": "learned", "model.decoder.bridge": "none"}),
        ("translate", {"model.decoder.context": "every", "model.decoder.bridge": "none"}),
        ("translate", {"model.decoder.embedding": "onehot"}),
        ("lm", {"model.skip": "residual", "model.embedding": 64, "model.hidden": 64}),
        ("lm", {"decode.temperature": 0.5}),
        ("lm", {"model.kind": "transformer", "model.max_positions": 99}),
        ("lm", {"decode.sample": False}),
        ("lm", {"decode.sample": False, "decode.beam": 8}),
        ("translate", {"text.punctuation": "keep", "text.target.kind": "word"}),
        ("translate", {"text.source.kind": "word", "text.source.punctuation": "keep"}),
        ("translate", {"text.source.size": 500, "text.target.size": 600}),
        ("translate", {"data.train": PARALLEL, "data.test": "test.tsv", "data.source": "de"}),
    ],
    ids=str,
)
def test_what_acts_is_accepted_and_a_default_that_does_not_is_left_out(task, settings):
    written = tree(task, settings)
    filled = fill(read_config(written), FACTS)
    assert validate(json.loads(json.dumps(filled.tree()))) == filled, "as a person's own, it trains the same"
    assert not list(filled.all_idle())


def test_nothing_is_tied_to_one_hot_vectors():
    model = fill(tree("lm", {"model.embedding": "onehot"}), FACTS).model
    assert (model.tie, fill(tree("lm", {}), FACTS).model.tie) == (False, True)


@pytest.mark.parametrize("task", TASKS)
def test_only_tasks_that_write_text_have_a_section_for_it(task):
    writes = task in ("caption", "lm", "translate")
    assert ("decode" in fill(tree(task, {}), FACTS).tree()) == writes
    assert ("decode" in tomllib.loads(template(task))) == writes
    with pytest.raises(ConfigError, match=r"^dcode: no such setting") as error:
        validate(tree(task, {"dcode": {}}))
    assert ("decode" in str(error.value.cure)) == writes


def test_a_run_that_was_trained_with_them_is_what_it_is():
    idle = {"model.initial": "learned", "model.merge": "mean", "model.bidirectional": False, "decode.beam": 3}
    config = validate(tree("classify", idle), keep_unread=True)
    assert (config.model.merge, "decode" in config.tree()) == ("mean", False)
    hidden = {"model.decoder.context": "first", "model.decoder.bridge": "none"}
    assert validate(tree("translate", hidden), keep_unread=True).model.decoder.bridge == "none"
    long = {"model.kind": "transformer", "model.positions": "learned", "model.max_positions": 9}
    assert validate(tree("tag", long), keep_unread=True).model.max_positions == 9


LEARNED = {"kind": "transformer", "positions": "learned"}


@pytest.mark.parametrize(
    ("task", "model", "longest"),
    [
        ("lm", {"model": LEARNED}, 50),
        ("tag", {"model": LEARNED}, 50),
        ("classify", {"model": LEARNED}, 51),
        ("translate", {"model.encoder": LEARNED}, 51),
        ("translate", {"model.decoder": LEARNED}, 51),
    ],
)
def test_more_tokens_than_positions_are_refused_at_the_start(task, model, longest):
    [path] = model
    written = tree(task, {**model, "data.max_length": 50, f"{path}.max_positions": longest})
    assert fill(read_config(written), FACTS).data.max_length == 50
    few = merge(written, nest(f"{path}.max_positions", longest - 1))
    message = rf"^data\.max_length = 50: 50 tokens.* more than {path}\.max_positions = {longest - 1} \(.* to {longest}"
    for read in (lambda: read_config(few), lambda: fill(few, FACTS)):
        with pytest.raises(ConfigError, match=message):
            read()
