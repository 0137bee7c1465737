"""The kind of classifier or regressor that is trained where the configuration names none: a bag of n-grams for few
texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from weft.errors import ConfigError
from weft.models import BagConfig, bag_defaults
from weft.tasks.sections import Facts, Tree, written

MAX_BAG_EXAMPLES: Final = 30_000
"""Training texts up to which a bag of n-grams is chosen. With fewer it was as good as a recurrent network or better on
names, phrases and reviews, and trains in seconds."""

MAX_TEXT_CHARACTERS: Final = 20_000
"""Characters of a training text that a bag reads."""

BAG_TEXT: Final = {"kind", "lowercase"}
"""The settings of `[text]` that go with a bag; others are for a vocabulary."""


def choose_bag(facts: Facts, tree: Mapping[str, Any]) -> bool:
    """Whether a bag of n-grams is trained: the configuration names it, or has no setting that only a network reads, and
    the texts are few."""
    if (kind := written(tree, "model", "kind")) is not None:
        return bool(kind == "bag")
    if set(written(tree, "model") or {}) - BagConfig.model_fields.keys():
        return False
    text, train, data = (written(tree, section) or {} for section in ("text", "train", "data"))
    if not all(isinstance(section, Mapping) for section in (text, train, data)):
        return False
    only_networks = [name for name in (*BagConfig.unused_train, "start") if name in train]
    if any(data.get(name) is not None for name in ("pair", "features")):
        return False
    plain = not (text.keys() - BAG_TEXT) and text.get("kind", "char") == "char"
    cpu = train.get("device", "auto") in ("auto", "cpu")
    return facts.examples <= MAX_BAG_EXAMPLES and plain and cpu and not only_networks and "max_length" not in data


def fill_bag(facts: Facts, tree: Mapping[str, Any], *, rate: float = 1.0) -> Tree:
    """The defaults of a configuration with a bag of n-grams, which reads characters, and this learning rate."""
    kind = written(tree, "text", "kind") or "char"
    if kind != "char":
        where = f'text.kind = "{kind}"'
        raise ConfigError('does not go with model.kind = "bag", which reads characters', where=where, cure="remove it")
    features = written(tree, "data", "features")
    if features is not None:
        cure = 'set model.kind = "rnn" or "transformer"'
        where = f"data.features = {features!r}"
        raise ConfigError('does not go with model.kind = "bag", which reads texts', where=where, cure=cure)
    found = bag_defaults(facts.examples, facts.characters, rate=rate)
    return {
        "data": {"max_length": MAX_TEXT_CHARACTERS},
        "text": {"kind": "char", "lowercase": True},
        "model": {"kind": "bag", **found["model"]},
        "train": found["train"],
    }


def describe_choice(facts: Facts, tree: Mapping[str, Any]) -> str:
    """A note where the configuration names no kind of model and a bag was chosen, or was not because the input is a
    pair of texts."""
    if written(tree, "model", "kind") is not None:
        return ""
    if written(tree, "data", "pair") is not None and facts.examples <= MAX_BAG_EXAMPLES:
        return 'trains a network although the examples are few: model.kind = "bag" cannot compare the texts of a pair'
    if not choose_bag(facts, tree):
        return ""
    return (
        f'chose model.kind = "bag" because {facts.examples:,} examples are few: a bag of n-grams usually does better '
        'than a network then, and takes seconds; model.kind = "rnn" trains a network'
    )
