"""Sentences that join a running search find what a search of their own finds; those that leave it disturb nobody."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.decoding.test_batches import LIMITS, SEARCHES, TRANSLATORS, VOCABULARY, WRITERS, asked, loud, texts

from weft.decoding import search
from weft.decoding.open_search import OpenSearch, most_together
from weft.decoding.request import prepare
from weft.models import TranslatorConfig, build_language_model
from weft.models.stepper import can_prefill
from weft.text import PAD

WAVES = [[0, 3], [2], [5, 4], [1]]
"""Sentences in the order in which they come, with steps between; some are longer than all that run."""


def waves(kind: str) -> list[list[int]]:
    """Without the sentences that require nothing, where others do: they are not searched for together."""
    return [[row for row in wave if kind != "require" or row % 3] or [1] for wave in WAVES]


def options(kind: str, rows: list[int]) -> dict[str, Any]:
    return {name: value for name, value in asked(kind, rows).items() if name != "attention"}


def join(open_search: OpenSearch, model: Any, memory: Any, kind: str, rows: list[int]) -> dict[int, int]:
    request = prepare(
        model, len(rows), SEARCHES[kind], can_prefill=can_prefill(model), **options(kind, rows), forbid=()
    )
    assert open_search.fits(memory, request)
    return dict(zip(open_search.join(memory, request), rows, strict=True))


def run_waves(model: Any, memory_of: Any, kind: str, *, drop: int | None = None) -> dict[int, Any]:
    config = SEARCHES[kind]
    open_search = OpenSearch(model, most=most_together(config, torch.device("cpu")), attention=False)
    names: dict[int, int] = {}
    found: dict[int, Any] = {}

    def advance(steps: int) -> None:
        for number, hypotheses in open_search.advance(steps):
            found[names[number]] = hypotheses

    for wave in waves(kind):
        names |= join(open_search, model, memory_of(wave), kind, wave)
        advance(2)
        if drop is not None and drop in names.values():
            open_search.drop([number for number, row in names.items() if row == drop])
    rounds = 0
    while open_search.active:
        advance(3)
        rounds += 1
        assert rounds < 40
    assert open_search.search is None, "an empty search is closed"
    names = join(open_search, model, memory_of([1]), kind, [1])
    assert list(names) == [0], "the next one begins a new search"
    open_search.close()
    return found


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("writer", WRITERS)
def test_prompts_that_join_a_language_model(writer: str, kind: str) -> None:
    model = loud(build_language_model(WRITERS[writer], VOCABULARY))
    found = run_waves(model, lambda rows: None, kind)
    for row in found:
        alone = search(model, None, 1, SEARCHES[kind], **asked(kind, [row]), forbid=())
        assert texts([found[row]]) == texts(alone)


def translator(sides: str) -> tuple[Any, Any]:
    encoder, decoder = TRANSLATORS[sides]
    model = loud(TranslatorConfig(encoder=encoder, decoder=decoder).build(VOCABULARY, VOCABULARY, shared=False))
    lengths = torch.tensor([6, 3, 9, 1, 4, 7])
    source = torch.randint(5, VOCABULARY, (6, 9)).masked_fill(torch.arange(9) >= lengths[:, None], PAD)

    def memory_of(rows: list[int]) -> Any:
        with torch.inference_mode():
            return model.encode(source[rows, : int(lengths[rows].max())], lengths[rows])

    return model, memory_of


@pytest.mark.parametrize("kind", ["greedy", "beam", "diverse", "sample", "require", "penalties", "stops"])
@pytest.mark.parametrize("sides", TRANSLATORS)
def test_sentences_that_join_a_translator(sides: str, kind: str) -> None:
    model, memory_of = translator(sides)
    found = run_waves(model, memory_of, kind)
    for row in found:
        alone = search(model, memory_of([row]), 1, SEARCHES[kind], **asked(kind, [row]), forbid=())
        assert texts([found[row]]) == texts(alone)


@pytest.mark.parametrize("kind", ["beam", "sample"])
def test_a_sentence_that_is_dropped_disturbs_nobody(kind: str) -> None:
    model, memory_of = translator("wide")
    whole, less = run_waves(model, memory_of, kind), run_waves(model, memory_of, kind, drop=5)
    assert set(less) | {5} == set(whole)
    assert all(texts([less[row]]) == texts([whole[row]]) for row in less)


def test_the_tokens_that_are_decided_begin_the_text() -> None:
    model, memory_of = translator("transformer")
    open_search = OpenSearch(model, most=8, attention=False)
    names = join(open_search, model, memory_of([0]), "beam", [0])
    open_search.advance(1)
    names |= join(open_search, model, memory_of([2]), "beam", [2])
    decided = {number: [()] for number in names}
    while open_search.active:
        ended = dict(open_search.advance(1))
        for number, hypotheses in ended.items():
            final = hypotheses[0].tokens
            assert all(final[: len(sure)] == sure for sure in decided.pop(number))
        for number in decided:
            decided[number].append(open_search.decided(number))
    assert not decided
    assert max(LIMITS) > 1
