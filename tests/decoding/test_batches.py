"""Real models of every kind, in single precision: neighbours, order and padding change no token of a sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.decoding import Constraint, DecodeConfig, Hypothesis, StopStrings, search
from weft.models import (
    ConvolutionalConfig,
    RecurrentDecoderConfig,
    RecurrentLanguageConfig,
    RecurrentSourceConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    TranslatorConfig,
    build_language_model,
)
from weft.text import PAD
from weft.text.spelling import TokenSpelling

VOCABULARY = 40
SMALL: dict[str, Any] = {"embedding": 16, "hidden": 24, "dropout": 0.0}
BLOCKS: dict[str, Any] = {"width": 24, "heads": 2, "layers": 2, "dropout": 0.0}
WIDE: dict[str, Any] = {"width": 64, "heads": 4, "layers": 2, "feedforward": 96, "dropout": 0.0}
"""As the C likes it: sizes in whole panels."""
WRITERS = {
    "rnn": RecurrentLanguageConfig(**SMALL, cell="lstm"),
    "conv": ConvolutionalConfig(embedding=16, width=24, dropout=0.0),
    "transformer": TransformerDecoderConfig(**BLOCKS),
    "rotary": TransformerDecoderConfig(**BLOCKS, positions="rotary", norm="pre"),
    "wide": TransformerDecoderConfig(**WIDE, norm="post"),
}
TRANSLATORS = {
    "rnn": (RecurrentSourceConfig(**SMALL), RecurrentDecoderConfig(**SMALL)),
    "inside": (RecurrentSourceConfig(**SMALL, cell="gru"), RecurrentDecoderConfig(**SMALL, context="attention")),
    "first": (RecurrentSourceConfig(**SMALL), RecurrentDecoderConfig(**SMALL, context="first")),
    "transformer": (TransformerEncoderConfig(**BLOCKS), TransformerDecoderConfig(**BLOCKS)),
    "mixed": (TransformerEncoderConfig(**BLOCKS), RecurrentDecoderConfig(**SMALL)),
    "wide": (TransformerEncoderConfig(**WIDE), TransformerDecoderConfig(**WIDE)),
}
SEARCHES: dict[str, DecodeConfig] = {
    "greedy": DecodeConfig(beam=1),
    "beam": DecodeConfig(beam=4, n_best=2),
    "finished": DecodeConfig(beam=3, n_best=3, stop="finished"),
    "diverse": DecodeConfig(beam=4, groups=2, n_best=3),
    "sample": DecodeConfig(sample=True, n_best=2, temperature=1.3, top_p=0.9, min_p=0.01),
    "forbid": DecodeConfig(beam=3),
    "require": DecodeConfig(beam=5, n_best=2),
    "penalties": DecodeConfig(beam=3, repetition_penalty=1.2, frequency_penalty=0.3, presence_penalty=0.1),
    "drawn penalties": DecodeConfig(sample=True, repetition_penalty=1.2, frequency_penalty=0.3),
    "stops": DecodeConfig(beam=3, n_best=2, stop_at=["12", "4 5"]),
}
SPELLING = TokenSpelling(([f"{token % 7} "[: token % 3].encode() for token in range(VOCABULARY)],), [None] * VOCABULARY)
"""Texts of tokens: nothing, a digit, or a digit and a blank."""
CONSTRAINTS = {
    "forbid": [Constraint(forbid=((5 + row,), (9, 9), (11, 8))) for row in range(6)],
    "require": [Constraint(require=(((7, 8 + row),), ((30,), (31, 32)))[: row % 3]) for row in range(6)],
}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
LIMITS, PROMPTS = [9, 3, 14, 6, 1, 20], [[7], [], [8, 9, 10], [11, 12], [], [13]]


def loud(model: torch.nn.Module) -> torch.nn.Module:
    """With weights large enough for distributions that are no mere noise."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[tuple[int, ...], bool]]]:
    return [[(one.tokens, one.finished) for one in own] for own in found]


def check(find: Any) -> None:
    """Six sentences together, in another order, in pairs and alone."""
    whole = texts(find(list(range(6))))
    assert len({own[0] for own in whole}) > 3, "not all say the same"
    for rows in ([5, 3, 1, 0, 2, 4], [2, 5], [4, 1, 1], *([row] for row in range(6))):
        assert texts(find(rows)) == [whole[row] for row in rows]


def asked(kind: str, rows: list[int]) -> dict[str, Any]:
    constraints = [CONSTRAINTS[kind][row] for row in rows] if kind in CONSTRAINTS else None
    return {
        "limits": [LIMITS[row] for row in rows],
        "prefixes": [PROMPTS[row] for row in rows],
        "keys": rows,
        "constraints": constraints,
        "stops": StopStrings(SEARCHES[kind].stop_at, SPELLING) if SEARCHES[kind].stop_at else None,
        "attention": False,
    }


@pytest.mark.covers("D5")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_language_model_says_the_same_alone_and_in_any_batch(writer: str, kind: str, device: str) -> None:
    model = loud(build_language_model(WRITERS[writer], VOCABULARY)).to(device)
    check(lambda rows: search(model, None, len(rows), SEARCHES[kind], **asked(kind, rows)))


@pytest.mark.covers("D5")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("sides", TRANSLATORS)
def test_a_translator_says_the_same_alone_and_in_any_batch(sides: str, kind: str, device: str) -> None:
    encoder, decoder = TRANSLATORS[sides]
    config = TranslatorConfig(encoder=encoder, decoder=decoder)
    model = loud(config.build(VOCABULARY, VOCABULARY, shared=False)).to(device)
    lengths = torch.tensor([6, 3, 9, 1, 4, 7])
    source = torch.randint(5, VOCABULARY, (6, 9)).masked_fill(torch.arange(9) >= lengths[:, None], PAD)

    def find(rows: list[int]) -> list[list[Hypothesis]]:
        longest = int(lengths[rows].max())
        with torch.inference_mode():
            memory = model.encode(source[rows, :longest].to(device), lengths[rows].to(device))
        return search(model, memory, len(rows), SEARCHES[kind], **asked(kind, rows))

    check(find)
