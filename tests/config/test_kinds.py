"""`kind` in a configuration: a table that names it has the settings of that kind and of no other."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from weft.catalog import CLASSIFIERS, DECODERS, ENCODERS, LANGUAGE_MODELS, TAGGERS
from weft.config import difference, fill, merge, parse_overrides, template, to_toml, validate
from weft.errors import ConfigError
from weft.models import RecurrentSourceConfig, TransformerDecoderConfig
from weft.tasks import Facts

ARMS = {"lm": LANGUAGE_MODELS, "classify": CLASSIFIERS, "tag": TAGGERS}
CHOICES = [(task, kind) for task, arms in ARMS.items() for kind in arms]
SIDES = [(encoder, decoder) for encoder in ENCODERS for decoder in DECODERS]
SIZES = [10, 1_000, 30_000, 1_000_000]


def tree(task, model):
    return {"task": task, "data": {"train": "x"}, "model": model}


@pytest.mark.parametrize(("task", "kind"), CHOICES)
@pytest.mark.parametrize("examples", SIZES)
def test_every_kind_is_filled_with_its_own_defaults(task, kind, examples):
    config = fill(tree(task, {"kind": kind}), Facts(examples, examples * 40))
    assert type(config.model) is ARMS[task][kind]
    assert validate(config.tree()) == config
    assert validate(tomllib.loads(to_toml(json.loads(json.dumps(config.tree()))))) == config


@pytest.mark.parametrize(("encoder", "decoder"), SIDES)
@pytest.mark.parametrize("examples", SIZES)
def test_the_sides_of_a_translator_are_chosen_apart(encoder, decoder, examples):
    model = {"encoder": {"kind": encoder}, "decoder": {"kind": decoder}}
    config = fill(tree("translate", model), Facts(examples, examples * 40))
    assert (type(config.model.encoder), type(config.model.decoder)) == (ENCODERS[encoder], DECODERS[decoder])
    assert validate(config.tree()) == config


@pytest.mark.parametrize("task", ARMS)
def test_a_table_without_a_kind_is_an_rnn(task):
    facts = Facts(100_000, 4_000_000)
    assert fill(tree(task, {}), facts) == fill(tree(task, {"kind": "rnn"}), facts)
    assert validate({"task": task, "data": {"train": "x"}}).model.kind == "rnn"


def test_a_transformer_learns_at_a_lower_rate_than_an_rnn():
    facts = Facts(1000, 40_000)
    for task in ARMS:
        slow, fast = (fill(tree(task, {"kind": kind}), facts).train.rate for kind in ("transformer", "rnn"))
        assert slow < fast
        assert fill({**tree(task, {"kind": "transformer"}), "train": {"rate": 0.5}}, facts).train.rate == 0.5


def test_settings_that_are_read_already_keep_their_kind():
    decoder = TransformerDecoderConfig(width=12, heads=3)
    config = fill(tree("translate", {"decoder": decoder}), Facts(1000, 40_000))
    assert config.model.decoder is decoder
    assert isinstance(config.model.encoder, RecurrentSourceConfig)
    assert config.train.rate == 1e-3


def test_a_kind_from_the_command_line():
    chosen = merge(tree("translate", {}), parse_overrides(["model.encoder.kind=transformer", "model.encoder.heads=2"]))
    config = validate(chosen)
    assert (config.model.encoder.heads, config.model.decoder.kind) == (2, "rnn")
    paths = {path for path, *_ in difference(config, validate(tree("translate", {})))}
    assert {"model.encoder.kind", "model.encoder.heads", "model.encoder.cell.kind"} <= paths


@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        (
            "lm",
            {"kind": "transformr"},
            r'model\.kind = "transformr": is not one of rnn, conv, transformer, ngram \(did you mean',
        ),
        ("tag", {"kind": "conv"}, r'model\.kind = "conv": is not one of rnn, transformer'),
        ("lm", {"kind": "conv", "kernle": 3}, r'model\.kernle: no such setting \(did you mean "kernel"\?\)$'),
        ("lm", {"kind": "conv", "hidden": 3}, r"model\.hidden: no such setting \(choose from .*kernel"),
        ("lm", {"kernel": 3}, r"model\.kernel: no such setting \(choose from .*cell"),
        ("lm", {"kind": "conv", "kernel": 0}, r"model\.kernel = 0: should be greater than or equal to 1"),
        ("lm", {"kind": "transformer", "heads": 3}, r"model: heads = 3 does not divide width = 256$"),
        ("lm", {"kind": "transformer", "norm": "pr"}, r'model\.norm: "pr" is not one of .*did you mean "pre"'),
        ("classify", {"kind": "transformer", "poling": "max"}, r'model\.poling: no such setting .*"pooling"'),
        ("classify", {"kind": "transformer", "pooling": "maxi"}, r'model\.pooling: "maxi" is not one of'),
        ("translate", {"encoder": {"kind": "conv"}}, r'model\.encoder\.kind = "conv": is not one of rnn, transformer'),
        (
            "translate",
            {"decoder": {"kind": "transformer", "widht": 8}},
            r'model\.decoder\.widht: no such setting \(did you mean "width"\?\)$',
        ),
        ("translate", {"decoder": {"kind": "transformer", "width": "8"}}, r'model\.decoder\.width = "8": should be'),
        ("translate", {"encoder": "transformer"}, r'model\.encoder = "transformer": should be a table of settings'),
        ("lm", 3, r"model = 3: should be a table of settings"),
        (
            "translate",
            {"kind": "prefix", "encoder": {"kind": "rnn"}},
            r'model: has no encoder: with kind = "prefix" one decoder',
        ),
    ],
)
def test_an_error_names_the_path_without_the_kind_and_the_names_of_that_kind(task, model, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        validate(tree(task, model))


def test_the_template_says_which_kinds_there_are():
    for task, arms in ARMS.items():
        [line] = [line for line in template(task, kind="rnn").splitlines() if line.startswith('kind = "rnn"')]
        assert ", ".join(arms) in line
    text = template("translate", kind="transformer")
    assert text.count('\nkind = "transformer"') == 2
    with pytest.raises(ConfigError, match=r'^model\.kind = "conv": is not one of rnn, transformer'):
        template("tag", kind="conv")


def test_the_documentation_lists_every_setting_of_every_kind():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    arms = [arm for choice in (*ARMS.values(), ENCODERS, DECODERS) for arm in choice.values()]
    missing = {name for arm in arms for name in arm.model_fields if f"`{name}`" not in page}
    assert missing == set()
