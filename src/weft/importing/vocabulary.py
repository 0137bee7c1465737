"""The vocabulary of a checkpoint in the order of weft: special tokens first, then all others in their own order.

weft's ids of special tokens are fixed, so the rows of embeddings and outputs are reordered at import and no search,
kernel or loss has to know other ids. A token of the checkpoint may have two roles: GPT-2's <|endoftext|> begins a text
and ends it. It has a row for each then; one of them is predicted, and the other is an input alone. A role without a
token has a row of zeros that is never predicted. Probabilities are those of the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from weft.errors import DataError, RunError
from weft.text import EOS, MASK, PAD, SOS, SPECIALS, UNK, TextConfig, Tokenizer
from weft.text.imported import HIDDEN, remove_hidden

NEVER_PREDICTED: Final = -1e4
"""The bias of an output that has no probability."""

PREDICTED_FIRST: Final = (EOS, UNK, MASK, SOS, PAD)
"""The order in which roles of one token claim its output."""

TEXT: Final = TextConfig(kind="imported")


@dataclass(frozen=True)
class Pieces:
    """The entries of a tokenizer by their ids in the checkpoint, those that no text is cut into, and its rules.

    rules: `normalizer` (steps), `pre_tokenizer`, `decoder` (steps) and `model` without its vocabulary, as parts of a
    tokenizer.json. Unigram pieces have scores, and BPE has merges.
    """

    entries: Sequence[str]
    hidden: frozenset[int]
    rules: Mapping[str, Any]
    scores: Mapping[str, float] | None = None
    merges: Sequence[tuple[str, str]] | None = None


@dataclass(frozen=True)
class Vocabulary:
    """For each of weft's ids the row of the checkpoint, or -1, and whether it is an output (V)."""

    rows: Tensor
    predicted: Tensor

    def table(self, table: Tensor) -> Tensor:
        """The rows (V, …) of a table of the checkpoint; a role without a token has zeros."""
        found = table[self.rows.clamp(min=0)]
        found[self.rows < 0] = 0.0
        return found

    def bias(self, bias: Tensor) -> Tensor:
        """Biases (V,) of outputs."""
        return torch.where(self.predicted, bias[self.rows.clamp(min=0)], NEVER_PREDICTED)


def arrange(size: int, roles: Mapping[int, int | None]) -> Vocabulary:
    """The order of a vocabulary of `size` rows in which some rows have the roles of special tokens."""
    used = {row for row in roles.values() if row is not None}
    specials = [-1 if (row := roles.get(role)) is None else row for role in range(len(SPECIALS))]
    rows = [*specials, *(row for row in range(size) if row not in used)]
    predicted, claimed = [row >= 0 for row in rows], set[int]()
    for role in PREDICTED_FIRST:
        predicted[role] = specials[role] >= 0 and specials[role] not in claimed
        claimed.add(specials[role])
    return Vocabulary(torch.tensor(rows), torch.tensor(predicted))


def build_tokenizer(pieces: Pieces, vocabulary: Vocabulary, where: str) -> Tokenizer:
    """A tokenizer with the entries in the order of weft; rows of the model without an entry get a hidden one."""
    names = [HIDDEN + name for name in SPECIALS]
    for row in vocabulary.rows[len(SPECIALS) :].tolist():
        known = row < len(pieces.entries)
        entry = pieces.entries[row] if known else f"<row {row}>"
        names.append(entry if known and row not in pieces.hidden else HIDDEN + entry)
    rules = pieces.rules
    model: dict[str, Any] = dict(rules["model"])
    if pieces.scores is not None:
        model["vocab"] = [[name, float(pieces.scores.get(name, 0.0))] for name in names]
    else:
        model["vocab"] = {name: index for index, name in enumerate(names)}
    if pieces.merges is not None:
        model["merges"] = [list(pair) for pair in pieces.merges]
    unseen = [] if model["type"] == "BPE" else [remove_hidden()]
    tree = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": _sequence("normalizers", [*unseen, *rules["normalizer"]]),
        "pre_tokenizer": rules["pre_tokenizer"],
        "post_processor": None,
        "decoder": _sequence("decoders", [remove_hidden(), *rules["decoder"]]),
        "model": model,
    }
    try:
        return Tokenizer.parse(json.dumps(tree, ensure_ascii=False).encode(), TEXT, where=where)
    except RunError as error:
        raise DataError(error.what, where=where) from None


def _sequence(name: str, steps: list[Any]) -> dict[str, Any] | None:
    return {"type": "Sequence", name: steps} if steps else None
