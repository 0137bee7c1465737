"""Defaults for pairs of texts by their shape: sentences, single words, or sequences of a few symbols.

| texts                                                    | tokens                   | a model is chosen by |
|----------------------------------------------------------|--------------------------|----------------------|
| items from a small set: phones, actions, digits          | one for each item        | exact                |
| a word or a few: names, inflected forms                  | characters               | exact                |
| the same in a script without blanks, such as Chinese     | characters               | chrf                 |
| anything longer                                          | subwords                 | bleu                 |

Each side has the tokens that suit it; the metric follows the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from weft.data import Shape
from weft.data.shape import SHORT_WORDS
from weft.tasks.sections import Facts, Tree, written
from weft.text import word_defaults

ITEMS: Tree = {"kind": "word", "punctuation": "keep", "min_count": 1}
CHARACTERS: Tree = {"kind": "char"}

CHARACTERS_PER_TOKEN = {"char": 1.0, "bpe": 3.0, "unigram": 3.0, "imported": 4.0, "word": 6.0}
"""About how many characters a token has, by the kind of token."""


class MetricChoice(NamedTuple):
    """The metric that models are chosen by, and why."""

    metric: str
    reason: str


def choose_metric(target: Shape | None) -> MetricChoice:
    """Choose by the shape of the targets: BLEU counts sequences of four words, so it says nothing of single words."""
    if target is None:
        return MetricChoice("bleu", "targets are sentences")
    words = f"{target.words} word{'s' * (target.words != 1)}"
    if target.closed:
        return MetricChoice("exact", f"targets have {words} in the median, and all are from {target.distinct}")
    if target.words <= SHORT_WORDS and not target.blanks:
        return MetricChoice("chrf", "targets are in a script without blanks between words")
    if target.short:
        return MetricChoice("exact", f"targets have {words} in the median")
    return MetricChoice("bleu", f"targets have {words} in the median")


def choose_tokens(facts: Facts, tree: Mapping[str, Any], sentences: Tree) -> Tree:
    """The defaults of `[text]`; `sentences` are the subwords that suit data of this size."""
    own = written(tree, "text") or {}
    if kind := written(own, "kind"):
        return _of_kind(kind, facts, sentences)
    sides = {
        "source": _side(facts, facts.source, written(own, "source"), sentences),
        "target": _side(facts, facts.target, written(own, "target"), sentences),
    }
    if sides["source"] == sides["target"]:
        return sides["source"]
    if written(own, "shared"):
        return CHARACTERS if CHARACTERS in sides.values() else sentences
    # Settings of one side override those of both, so a default of one side would hide what a person wrote for both.
    given = {name for name in own if written(own, name) is not None}
    return {"kind": sides["source"]["kind"]} | {
        name: {key: value for key, value in side.items() if key not in given} for name, side in sides.items()
    }


def _of_kind(kind: str, facts: Facts, sentences: Tree) -> Tree:
    """The defaults for a kind of token that a person chose."""
    if kind == "word":
        return word_defaults(facts.characters)
    return sentences if kind == sentences["kind"] else {"kind": kind}


def _side(facts: Facts, shape: Shape | None, own: Any, sentences: Tree) -> Tree:
    if kind := written(own or {}, "kind"):
        return _of_kind(kind, facts, sentences)
    if shape is None:
        return sentences
    return ITEMS if shape.closed else CHARACTERS if shape.short else sentences


def tokens_per_pair(facts: Facts, text: Mapping[str, Any]) -> float:
    """About how many tokens the longer side of a pair has, its end token included."""
    mean = facts.characters / max(1, facts.examples)
    lengths = []
    for name, shape in (("source", facts.source), ("target", facts.target)):
        kind = written(text, name, "kind") or text["kind"]
        if kind == "word" and shape is not None:
            lengths.append(float(shape.words))
        else:
            lengths.append((mean if shape is None else shape.characters) / CHARACTERS_PER_TOKEN[kind])
    return 1 + max(lengths)
