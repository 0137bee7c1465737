"""Prompts that a model reads at once: it goes on as the same model does that has followed them token by token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.decoding import Constraint, DecodeConfig, Hypothesis, rows, search, slots, stream
from weft.models import (
    ConvolutionalConfig,
    RecurrentDecoderConfig,
    RecurrentLanguageConfig,
    RecurrentSourceConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    Translator,
    TranslatorConfig,
    build_language_model,
)
from weft.models.stepper import Writer, can_prefill
from weft.nn.native.library import Library
from weft.nn.transformer import stack
from weft.text import PAD

VOCABULARY = 40
SMALL: dict[str, Any] = {"embedding": 16, "hidden": 24, "dropout": 0.0}
BLOCKS: dict[str, Any] = {"width": 24, "heads": 2, "layers": 2, "dropout": 0.0}
WIDE: dict[str, Any] = {"width": 64, "heads": 4, "layers": 3, "feedforward": 96, "dropout": 0.0}
"""As the C likes it: sizes in whole panels."""
POSITIONS = ("onehot", "learned", "joint", "sinusoid", "sinusoid_concat", "rotary", "none")
CELLS = ("lstm", "gru", "elman", "projected_lstm")
WRITERS: dict[str, Any] = {
    **{name: TransformerDecoderConfig(**BLOCKS, positions=name) for name in POSITIONS},
    "post": TransformerDecoderConfig(**BLOCKS, norm="post"),
    "one layer": TransformerDecoderConfig(**{**BLOCKS, "layers": 1}, norm="post"),
    "wide": TransformerDecoderConfig(**WIDE, norm="post"),
    "wide learned": TransformerDecoderConfig(**WIDE, positions="learned"),
    "wide rezero": TransformerDecoderConfig(**WIDE, norm="rezero", activation="gelu"),
    **{cell: RecurrentLanguageConfig(**SMALL, cell=cell) for cell in CELLS},
    "dense": RecurrentLanguageConfig(**SMALL, layers=3, skip="dense", initial="learned"),
    "conv": ConvolutionalConfig(embedding=16, width=24, dropout=0.0),
    "conv of one": ConvolutionalConfig(embedding=16, width=16, kernel=1, dropout=0.0),
}
TRANSLATORS = {
    "after": (RecurrentSourceConfig(**SMALL), RecurrentDecoderConfig(**SMALL, layers=2)),
    "first": (RecurrentSourceConfig(**SMALL), RecurrentDecoderConfig(**SMALL, context="first")),
    "every": (RecurrentSourceConfig(**SMALL, cell="gru"), RecurrentDecoderConfig(**SMALL, context="every", cell="gru")),
    "inside": (RecurrentSourceConfig(**SMALL), RecurrentDecoderConfig(**SMALL, context="attention")),
    "pre": (TransformerEncoderConfig(**BLOCKS), TransformerDecoderConfig(**BLOCKS)),
    "post": (TransformerEncoderConfig(**BLOCKS), TransformerDecoderConfig(**BLOCKS, norm="post", positions="rotary")),
    "wide": (TransformerEncoderConfig(**WIDE), TransformerDecoderConfig(**WIDE)),
}
FOLLOWS = "inside"
"""Its attention stands inside the recurrence: what it reads next depends on what it has read."""
SEARCHES: dict[str, DecodeConfig] = {
    "greedy": DecodeConfig(beam=1),
    "beam": DecodeConfig(beam=4, n_best=2),
    "finished": DecodeConfig(beam=3, n_best=3, stop="finished", min_length=2),
    "diverse": DecodeConfig(beam=4, groups=2, n_best=3),
    "sample": DecodeConfig(sample=True, n_best=2, temperature=1.3, top_p=0.9),
    "forbid": DecodeConfig(beam=3),
    "require": DecodeConfig(beam=5, n_best=2),
}
LIMITS = [9, 3, 7, 6, 1, 8, 5]
PROMPTS = [
    [7],
    [],
    [8, 9, 10],
    [5 + number % 30 for number in range(70)],
    [],
    [13, 14],
    [5 + number for number in range(20)],
]
CONSTRAINTS = {
    "forbid": [Constraint(forbid=((5 + row,), (9, 9), (10, 8), (24, 11))) for row in range(len(PROMPTS))],
    "require": [Constraint(require=(((7, 8 + row),), ((30,), (31, 32)))[: row % 3]) for row in range(len(PROMPTS))],
}


class Plain(nn.Module):
    """A model with `start` and `step` only."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def start(self, *given: Any) -> Any:
        return self.model.start(*given)

    def step(self, tokens: Tensor, state: Any) -> Any:
        return self.model.step(tokens, state)


class Fixed(Plain):
    """One with states of fixed shape, that cannot read at once."""

    def reserve(self, *given: Any, **options: Any) -> Any:
        return self.model.reserve(*given, **options)

    def step(self, tokens: Tensor, state: Any, *, attention: bool = True) -> Any:
        return self.model.step(tokens, state, attention=attention)


class Prefills(Fixed):
    """One that can."""

    can_prefill = True

    def prefill(self, *given: Any, **options: Any) -> None:
        self.model.prefill(*given, **options)


def loud(model: Any) -> Any:
    """With weights large enough for distributions that are no mere noise."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=1.5 * parameter.size(-1) ** -0.5)
        elif parameter.dim() == 0:
            nn.init.constant_(parameter, 0.3)
    return model.eval()


def writer(name: str) -> Any:
    return loud(build_language_model(WRITERS[name], VOCABULARY))


def translator(name: str) -> Any:
    encoder, decoder = TRANSLATORS[name]
    return loud(TranslatorConfig(encoder=encoder, decoder=decoder).build(VOCABULARY, VOCABULARY, shared=False))


def memory_of(model: Any, chosen: list[int]) -> Any:
    if not isinstance(model, Translator):
        return None
    lengths = torch.tensor([6, 3, 9, 1, 4, 7, 8])
    source = torch.randint(5, VOCABULARY, (len(PROMPTS), 9), generator=torch.Generator().manual_seed(3))
    source = source.masked_fill(torch.arange(9) >= lengths[:, None], PAD)
    with torch.inference_mode():
        return model.encode(source[chosen, : int(lengths[chosen].max())], lengths[chosen])


def find(
    model: Any, kind: str, chosen: list[int], *, through: Any = None, attention: bool = False
) -> list[list[Hypothesis]]:
    """What a model finds for some sentences, or another through which it is asked."""
    asked: dict[str, Any] = {
        "limits": [LIMITS[row] for row in chosen],
        "prefixes": [PROMPTS[row] for row in chosen],
        "keys": chosen,
        "constraints": [CONSTRAINTS[kind][row] for row in chosen] if kind in CONSTRAINTS else None,
    }
    memory = memory_of(model, chosen)
    return search(through or model, memory, len(chosen), SEARCHES[kind], attention=attention, **asked)


def in_order(found: list[Hypothesis]) -> list[Hypothesis]:
    """As found. A text drawn twice has no order but that of the draws: torch may score equal rows unequally."""
    return found if len({one.tokens for one in found}) == len(found) else sorted(found, key=lambda one: one.path)


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert len(found) == len(expected)
    for own, other in zip(map(in_order, found), map(in_order, expected), strict=True):
        assert [(one.tokens, one.finished, one.path, one.missing) for one in own] == [
            (one.tokens, one.finished, one.path, one.missing) for one in other
        ]
        for one, two in zip(own, other, strict=True):
            assert_close(torch.tensor(one.log_probabilities), torch.tensor(two.log_probabilities), atol=1e-4, rtol=1e-4)
            assert one.score == pytest.approx(two.score, abs=1e-4)
            assert (one.attention is None) == (two.attention is None)
            if one.attention is not None:
                assert_close(one.attention, two.attention, atol=1e-4, rtol=1e-4)


EVERY = list(range(len(PROMPTS)))


CAPACITIES = {"together": 128, "waiting": 9}
"""Rows of all slots: all sentences at once, or a few, whose slots the others take when they end."""


def some(models: Iterable[str], *fully: str) -> pytest.MarkDecorator:
    """Every model with one kind of search, and some with all of them; in turn with one of the capacities, or slow."""
    chosen = [(name, kind) for name in models for kind in (SEARCHES if name in fully else ["beam"])]
    cases = [
        pytest.param(
            name, kind, size, id=f"{capacity}-{name}-{kind}", marks=pytest.mark.slow if (number + place) % 2 else ()
        )
        for number, (name, kind) in enumerate(chosen)
        for place, (capacity, size) in enumerate(CAPACITIES.items())
    ]
    return pytest.mark.parametrize(("name", "kind", "_capacity"), cases, indirect=["_capacity"])


@pytest.fixture(params=CAPACITIES.values(), ids=CAPACITIES)
def _capacity(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(slots.MAX_ROWS, "cpu", request.param)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many steps were made in each call."""
    made: list[int] = []
    real = slots.Slots.steps

    def counted(self: slots.Slots, most: int) -> int:
        made.append(real(self, most))
        return made[-1]

    monkeypatch.setattr(slots.Slots, "steps", counted)
    return made


@some(WRITERS, "wide", "rotary", "lstm")
@pytest.mark.usefixtures("_capacity")
def test_a_language_model_goes_on_as_if_it_had_followed(name: str, kind: str) -> None:
    model = writer(name)
    assert can_prefill(model)
    found = find(model, kind, EVERY)
    assert_same(found, find(model, kind, EVERY, through=Plain(model)))
    assert len({own[0].tokens for own in found if own}) > 3, "not all say the same"


@some(TRANSLATORS, "wide", FOLLOWS)
@pytest.mark.usefixtures("_capacity")
def test_a_translator_goes_on_as_if_it_had_followed(name: str, kind: str) -> None:
    model = translator(name)
    assert can_prefill(model) == (name != FOLLOWS)
    for attention in (False, True):
        found = find(model, kind, EVERY, attention=attention)
        expected = find(model, kind, EVERY, through=Plain(model), attention=True)
        if not attention:
            expected = [[one._replace(attention=None) for one in own] for own in expected]
        assert_same(found, expected)


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("name", ["wide", "rotary", "lstm"])
@pytest.mark.usefixtures("_capacity")
def test_a_model_of_fixed_states_that_cannot_read_at_once_follows(name: str, kind: str, steps: list[int]) -> None:
    model = writer(name)
    assert not can_prefill(Fixed(model))
    found = find(model, kind, EVERY)
    quick = sum(steps)
    steps.clear()
    assert_same(find(model, kind, EVERY, through=Fixed(model)), found)
    assert sum(steps) > len(PROMPTS[3]) > quick
    steps.clear()
    assert_same(find(model, kind, EVERY, through=Prefills(model)), found)
    assert sum(steps) < len(PROMPTS[3]), "unless it is taught to"


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("name", ["wide", "learned", "rotary", "lstm", "conv"])
def test_prompts_beside_each_other_and_alone(name: str, kind: str) -> None:
    model = writer(name)
    whole = find(model, kind, EVERY)
    for chosen in ([6, 3, 1, 0, 2, 4, 5], [3, 6], [4, 1, 1], *([row] for row in EVERY)):
        assert_same(find(model, kind, chosen), [whole[row] for row in chosen])


@pytest.mark.parametrize("build", [writer, translator])
@pytest.mark.parametrize("kind", ["greedy", "beam"])
def test_in_c_neighbours_change_no_bit_of_a_prompt(build: Any, kind: str) -> None:
    model = build("wide")
    whole = find(model, kind, EVERY)
    for chosen in ([6, 3, 1, 0, 2, 4, 5], [3, 6], *([row] for row in EVERY)):
        assert find(model, kind, chosen) == [whole[row] for row in chosen]


@pytest.mark.parametrize("name", ["wide", "learned", "lstm", "conv"])
def test_many_positions_are_read_a_few_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = writer(name), []
    expected = find(model, "beam", EVERY)
    monkeypatch.setitem(rows.MAX_PREFILL_POSITIONS, "cpu", 30)
    real = model.prefill

    def counted(tokens: Tensor, *given: Any, **options: Any) -> None:
        read.append(tuple(tokens.shape))
        real(tokens, *given, **options)

    monkeypatch.setattr(model, "prefill", counted)
    assert_same(find(model, "beam", EVERY), expected)
    assert read == [(1, 70), (1, 20), (2, 3), (1, 1)], "one at least, and little padding"


@pytest.mark.parametrize("build", [writer, translator])
@pytest.mark.parametrize("name", ["post", "wide"])
def test_padding_changes_nothing_where_all_lengths_are_read_together(
    build: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where rows of different lengths pass torch's attention in one batch."""
    model = build(name)
    expected = find(model, "beam", EVERY)
    monkeypatch.setattr(Library, "serves", lambda *_: False)
    monkeypatch.setattr(stack, "_together", lambda lengths, x: [(slice(None), x.size(1))])
    real = rows._prefill_groups
    monkeypatch.setattr(
        rows, "_prefill_groups", lambda *given: [[number for group in real(*given) for number in group]]
    )
    assert_same(find(model, "beam", EVERY), expected)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", [*WRITERS, "inside"])
def test_turns_are_made_for_free_tokens_alone(name: str, beam: int, steps: list[int]) -> None:
    model = translator(name) if name in TRANSLATORS and name not in WRITERS else writer(name)
    memory = memory_of(model, [0])
    config = DecodeConfig(beam=beam, min_length=6, max_length=6)
    for attention in (False, True):
        steps.clear()
        ((best,),) = search(model, memory, 1, config, prefixes=[PROMPTS[3]], attention=attention)
        assert len(best.tokens) == 6
        assert sum(steps) == 6 + (len(PROMPTS[3]) if name == FOLLOWS else 0)


@pytest.mark.usefixtures("_capacity")
def test_turns_of_many(steps: list[int]) -> None:
    """As many as the longest needs if all have slots, and else as many as those in one slot after another."""
    config = DecodeConfig(beam=1, min_length=9, max_length=9)
    search(writer("wide"), None, 7, config, prefixes=PROMPTS, limits=LIMITS)
    assert sum(steps) == max(LIMITS)
    steps.clear()
    search(writer("lstm"), None, 18, config, prefixes=[PROMPTS[3], *[()] * 17], limits=[5] * 18)
    assert sum(steps) == (5 if slots.MAX_ROWS["cpu"] == 128 else 10)


@pytest.mark.parametrize("kind", ["greedy", "beam", "diverse", "sample"])
@pytest.mark.parametrize("name", ["wide", "rotary", "gru", "conv"])
@pytest.mark.parametrize("row", [1, 3])
def test_a_stream_tells_the_same_pieces(name: str, kind: str, row: int, steps: list[int]) -> None:
    model, config = writer(name), SEARCHES[kind].model_copy(update={"n_best": 1})
    asked: dict[str, Any] = {"prefix": PROMPTS[row], "limit": LIMITS[row], "key": row}
    pieces = list(stream(model, None, config, **asked))
    assert sum(steps) <= LIMITS[row]
    assert pieces == list(stream(Plain(model), None, config, **asked))
    ((best,),) = search(model, None, 1, config, prefixes=[PROMPTS[row]], limits=[LIMITS[row]], keys=[row])
    assert tuple(token for piece in pieces for token in piece) == best.tokens


@pytest.mark.parametrize("kind", ["greedy", "beam", "finished"])
def test_a_transformer_that_may_not_read_follows_step_by_step(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, chosen = writer("wide"), list(range(len(PROMPTS)))
    expected = find(model, kind, chosen)
    monkeypatch.setattr(Writer, "can_prefill", False)
    assert [[one.tokens for one in own] for own in find(model, kind, chosen)] == [
        [one.tokens for one in own] for own in expected
    ]
