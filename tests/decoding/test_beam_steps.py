"""Whole steps of a search in C against the same steps of torch, and against the C that makes one step at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tests.sampling import sampled
from torch.testing import assert_close

from weft.decoding import DecodeConfig, Hypothesis, beam_cpu, search, slots
from weft.models import (
    LanguageModel,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    Translator,
    TranslatorConfig,
    build_language_model,
)
from weft.nn.native.library import Library
from weft.text import EOS, PAD

VOCABULARY, COUNT = 700, 7
BLOCKS: dict[str, Any] = {"width": 64, "heads": 4, "layers": 2, "feedforward": 96, "dropout": 0.0}
VARIANTS: list[dict[str, Any]] = [
    {"norm": "post", "positions": "sinusoid"},
    {"norm": "pre", "positions": "learned", "tie": False},
    {"norm": "rezero", "positions": "none", "activation": "gelu", "tie": False},
]
SEARCHES = [
    DecodeConfig(beam=1),
    DecodeConfig(beam=4, n_best=2),
    DecodeConfig(beam=5, n_best=3, stop="finished", length_penalty=0.0),
    DecodeConfig(beam=3, min_length=4),
]
LIMITS = [9, 3, 14, 6, 1, 20, 11]
PROMPTS = [[7], [], [8, 9, 10], [11, 12], [], [13], [14, 15, 16, 17, 18]]
LENGTHS = [6, 3, 9, 1, 4, 7, 9]

pytestmark = pytest.mark.skipif(beam_cpu.LIBRARY.load() is None, reason="no C compiler")


def loud(model: Any) -> Any:
    torch.manual_seed(2)
    for parameter in model.parameters():
        if parameter.dim() == 0:
            torch.nn.init.constant_(parameter, 0.05)  # larger, and no norm holds what rounding becomes
        elif parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.output.scores.bias.data[EOS] = 2.5  # texts end
    return model.eval()


def language_model(options: dict[str, Any]) -> LanguageModel:
    found: LanguageModel = loud(build_language_model(TransformerDecoderConfig(**BLOCKS, **options), VOCABULARY))
    return found


def translator(options: dict[str, Any]) -> Translator:
    sides = {name: value for name, value in options.items() if name != "tie"}
    config = TranslatorConfig(
        encoder=TransformerEncoderConfig(**BLOCKS, **sides), decoder=TransformerDecoderConfig(**BLOCKS, **options)
    )
    found: Translator = loud(config.build(VOCABULARY, VOCABULARY, shared=False))
    return found


def memory_of(model: LanguageModel | Translator) -> Any:
    if isinstance(model, LanguageModel):
        return None
    lengths = torch.tensor(LENGTHS)
    source = torch.randint(5, VOCABULARY, (COUNT, 9), generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        return model.encode(source.masked_fill(torch.arange(9) >= lengths[:, None], PAD), lengths)


def find(model: Any, config: DecodeConfig) -> list[list[Hypothesis]]:
    asked: dict[str, Any] = {"limits": LIMITS, "prefixes": PROMPTS, "attention": False}
    return search(model, memory_of(model), COUNT, config, **asked)


def assert_same(found: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]) -> None:
    for own, other in zip(found, expected, strict=True):
        assert [(one.tokens, one.finished, one.path) for one in own] == [
            (one.tokens, one.finished, one.path) for one in other
        ]
        for one, two in zip(own, other, strict=True):
            assert_close(torch.tensor(one.log_probabilities), torch.tensor(two.log_probabilities), atol=2e-4, rtol=2e-4)


@pytest.fixture
def _capacity(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sentences at once, or a few, whose slots the others take when they end."""
    monkeypatch.setitem(slots.MAX_ROWS, "cpu", request.param)


@sampled(
    2,
    build={"language_model": language_model, "translator": translator},
    options={str(options): options for options in VARIANTS},
    config={f"beam{config.beam}{config.stop}{config.min_length}": config for config in SEARCHES},
    _capacity={"together": 128, "waiting": 9},
    indirect=["_capacity"],
)
@pytest.mark.usefixtures("_capacity")
def test_turns_are_those_of_torch(
    build: Any, options: dict[str, Any], config: DecodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, made = build(options), []
    steps = beam_cpu.CpuBeam.steps

    def counted(*given: Any) -> int:
        made.append(steps(*given))
        return made[-1]

    monkeypatch.setattr(beam_cpu.CpuBeam, "steps", counted)
    found = find(model, config)
    assert max(made) > 1, "several steps were made in one call"
    monkeypatch.setattr(beam_cpu, "reader_of", lambda *_: None)
    assert_same(find(model, config), found)
    monkeypatch.setattr(beam_cpu, "serves", lambda *_: False)
    monkeypatch.setattr(Library, "serves", lambda *_: False)
    assert_same(find(model, config), found)
    assert len({own[0].tokens for own in found}) > 3, "not all say the same"


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_neither_threads_nor_how_many_there_are_change_a_bit(threads: int) -> None:
    """Many sentences are shared out in groups, few by parts of the vocabulary."""
    model, config = language_model(VARIANTS[1]), DecodeConfig(beam=4, n_best=2)
    prompts = [[5 + number, 6 + number % 7][: number % 3] for number in range(40)]
    asked: dict[str, Any] = {"limits": [4 + number % 9 for number in range(40)], "attention": False}
    few = [
        search(
            model,
            None,
            4,
            config,
            prefixes=prompts[first : first + 4],
            limits=asked["limits"][first : first + 4],
            attention=False,
        )
        for first in range(0, 40, 4)
    ]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        many = search(model, None, 40, config, prefixes=prompts, **asked)
    finally:
        torch.set_num_threads(before)
    alone = [one for group in few for one in group]
    assert [[one._replace(attention=None) for one in own] for own in alone] == many
