"""Steps that run before the host has read the last poll: slots that have stopped do not change, nor do results."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.decoding import DecodeConfig, Hypothesis, search
from weft.decoding.backtrack import read_slots
from weft.decoding.request import prepare
from weft.decoding.search import NEVER
from weft.decoding.slots import MAX_ROWS, Slots, open_slots
from weft.models import RecurrentLanguageConfig, TransformerDecoderConfig, build_language_model

VOCABULARY, COUNT = 24, 18
MODELS = {
    "rnn": RecurrentLanguageConfig(embedding=16, hidden=24, dropout=0.0),
    "transformer": TransformerDecoderConfig(width=24, heads=2, layers=2, dropout=0.0),
}
SEARCHES = {
    "greedy": DecodeConfig(beam=1, max_length=12),
    "beam": DecodeConfig(beam=3, n_best=3, max_length=12),
    "finished": DecodeConfig(beam=3, n_best=3, max_length=12, stop="finished"),
    "diverse": DecodeConfig(beam=4, groups=2, n_best=2, max_length=12),
    "sample": DecodeConfig(sample=True, n_best=2, max_length=12),
}
PROMPTS = [[5 + (7 * row + 3 * place) % (VOCABULARY - 5) for place in range(row % 3)] for row in range(COUNT)]


def told(found: list[list[Hypothesis]]) -> list[list[tuple[tuple[int, ...], bool, tuple[int, ...]]]]:
    return [[(one.tokens, one.finished, one.path) for one in own] for own in found]


def build(name: str) -> Any:
    torch.manual_seed(2)
    model = build_language_model(MODELS[name], VOCABULARY)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("name", MODELS)
def test_polls_read_later_change_no_result(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(name)

    def find() -> list[list[Hypothesis]]:
        return search(model, None, COUNT, SEARCHES[kind], prefixes=PROMPTS, attention=False)

    expected = find()
    assert len({own[0].tokens for own in expected}) > 3, "not all say the same"
    monkeypatch.setitem(MAX_ROWS, "cpu", 16)  # most sentences begin where another has ended
    monkeypatch.setattr(Slots, "shrinks", False)
    for ahead in (1, 3):
        monkeypatch.setattr(Slots, "polls_ahead", ahead)
        assert told(find()) == told(expected)


@pytest.mark.parametrize("kind", SEARCHES)
def test_a_stopped_slot_does_not_change(kind: str) -> None:
    config, model = SEARCHES[kind], build("rnn")
    limits = [1 + row % 12 for row in range(COUNT)]
    asked: dict[str, Any] = {"prefixes": PROMPTS, "limits": limits, "forbid": NEVER}
    request = prepare(model, COUNT, config, **asked)
    with torch.inference_mode():
        sentences = [sentence for sentence in range(COUNT) for _ in range(config.groups)]
        slots = open_slots(model, None, request, sentences, attention=False)
        stopped: dict[int, Any] = {}
        for _ in range(request.capacity + 3):
            slots.step()
            for slot in [slot for slot, live in enumerate(slots.beams.live.tolist()) if not live]:
                now = read_slots(slots.beams, torch.tensor([slot])).hypotheses(config.n_best, 1.0)
                assert stopped.setdefault(slot, now) == now
    assert len(stopped) == slots.count
