"""Chunks of steps on fixed buffers give the mixture of the plain loop. Without a GPU they run without graphs."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from tests.models.test_new_parts import TinyDecoder
from torch import Tensor, nn

from weft.models import (
    LANGUAGE_MODELS,
    LanguageModel,
    Translator,
    TranslatorConfig,
    build_language_model,
    forcing_graph,
)
from weft.models.embedding import build_embedding
from weft.models.forcing import mix, mix_in_a_loop
from weft.models.forcing_graph import mix_recorded, refusal, rounded, runs_plainly
from weft.models.forcing_steps import Unrecordable
from weft.models.memory import Decoded, Decoder
from weft.nn import CELLS, SCORES, Cell, State
from weft.nn.attention import record_attention
from weft.training.gradients import Computed

VOCABULARY, SIZE = 23, 16
RNN: dict[str, Any] = {"kind": "rnn", "embedding": SIZE, "hidden": SIZE, "dropout": 0.0}
CONV: dict[str, Any] = {"kind": "conv", "embedding": SIZE, "width": SIZE, "layers": 2, "dropout": 0.0}
SHAPES = [(3, 6, 5), (8, 40, 7), (3, 6, 5), (11, 2, 30), (3, 70, 20)]
"""Rows, length of the target, length of the source."""


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    torch.manual_seed(4)
    yield
    forcing_graph.release()


def loud(model: Any) -> Any:
    """A model that writes many tokens, so that a wrong state shows."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=1.6 / parameter.size(1) ** 0.5)
    return model


def language_model(table: dict[str, Any]) -> LanguageModel:
    model = build_language_model(LANGUAGE_MODELS[table["kind"]].model_validate(table), VOCABULARY)
    assert isinstance(model, LanguageModel)
    return loud(model)


def translator(**decoder: Any) -> Translator:
    """Its encoder has states of the decoder's size, half of it from either end."""
    config = TranslatorConfig.model_validate({"encoder": RNN | {"hidden": SIZE // 2}, "decoder": RNN | decoder})
    return loud(Translator(config, VOCABULARY, VOCABULARY, shared=False))


def draw(rows: int, length: int, source: int, model: Any) -> tuple[Tensor, Any, Tensor]:
    """Tokens, the memory of a source of any lengths, and which tokens are kept."""
    tokens = torch.randint(4, VOCABULARY, (rows, length))
    kept = torch.rand(rows, length) < 0.3
    if not isinstance(model, Translator):
        return tokens, None, kept
    lengths = torch.randint(1, source + 1, (rows,))
    lengths[0] = source
    with torch.no_grad():
        return tokens, model.encode(torch.randint(4, VOCABULARY, (rows, source)), lengths), kept


@torch.no_grad()
def agree(model: Any, shapes: list[tuple[int, int, int]] = SHAPES) -> None:
    """Batches of several shapes have the mixture of the loop, and shapes that come again use the same buffers."""
    seen: set[int] = set()
    for rows, length, source in shapes:
        tokens, memory, kept = draw(rows, length, source, model)
        expected = mix_in_a_loop(model.decoder, model.output, tokens, memory, kept)
        found = mix_recorded(model.decoder, model.output, tokens, memory, kept)
        assert torch.equal(found, expected)
        seen.add(int((found != tokens).sum()))
    assert max(seen) > 0, "nothing was mixed"


def recorded(model: Any) -> int:
    return len(forcing_graph._recordings[model.decoder].cache)


@pytest.mark.parametrize("cell", CELLS)
def test_language_models_of_every_cell(cell: str) -> None:
    model = language_model(RNN | {"cell": cell, "layers": 2})
    agree(model)
    assert recorded(model) == 3  # the second batch has the buffers of the first


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("context", ["first", "every", "attention", "after"])
def test_every_way_of_the_source(context: str, cell: str) -> None:
    model = translator(context=context, cell=cell, skip="residual", layers=2)
    agree(model)
    assert recorded(model) == 3  # the second batch has the buffers of the first


@pytest.mark.parametrize("context", ["every", "attention", "after"])
def test_a_first_state_that_is_the_same_for_all_rows(context: str) -> None:
    agree(translator(context=context, initial="learned", bridge="none"))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("context", ["attention", "after"])
def test_every_score(context: str, score: str) -> None:
    agree(translator(context=context, attention=score))


def test_convolutions() -> None:
    agree(language_model(CONV))


def test_a_decoder_of_a_user() -> None:
    model = loud(LanguageModel(TinyDecoder(build_embedding(6, VOCABULARY)), VOCABULARY, tie=False))
    agree(model)


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman", "qrnn", "min_gru"])
@pytest.mark.parametrize("context", [None, "first", "attention", "after"])
def test_under_autocast_the_state_keeps_its_types(cell: str, context: str | None) -> None:
    """Full rows: products of other shapes are rounded differently."""
    model = language_model(RNN | {"cell": cell}) if context is None else translator(cell=cell, context=context)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        agree(model, [(8, 40, 16), (8, 20, 16)])


def test_weights_may_change_in_place_and_move() -> None:
    model = translator(context="attention")
    tokens, memory, kept = draw(3, 9, 5, model)
    mixtures = []
    for change in (lambda weight: weight, lambda weight: weight.mul_(-1.3), lambda weight: weight.mul_(0.4)):
        with torch.no_grad():
            for parameter in model.parameters():
                change(parameter)
            mixtures.append(mix_recorded(model.decoder, model.output, tokens, memory, kept))
            assert torch.equal(mixtures[-1], mix_in_a_loop(model.decoder, model.output, tokens, memory, kept))
    assert recorded(model) == 1
    assert not torch.equal(mixtures[0], mixtures[1])
    model.output.scores.weight = nn.Parameter(torch.randn_like(model.output.scores.weight))
    agree(model, [(3, 9, 5)])
    assert recorded(model) == 2


def test_settings_and_training_have_recordings_of_their_own() -> None:
    model = language_model(RNN | {"layers": 2, "dropout": 0.5})
    for _ in range(2):
        model.eval()
        agree(model, [(8, 9, 0)])
        assert recorded(model) <= 2
        tokens, memory, kept = draw(8, 9, 0, model)
        mix_recorded(model.train().decoder, model.output, tokens, memory, kept)
    assert recorded(model) == 2


def test_making_buffers_draws_no_random_numbers() -> None:
    model = language_model(RNN | {"layers": 2, "dropout": 0.5}).train()
    tokens, memory, kept = draw(8, 9, 0, model)
    drawn = []
    for _ in range(2):
        torch.manual_seed(1)
        mix_recorded(model.decoder, model.output, tokens, memory, kept)
        drawn.append(torch.rand(1))
    assert torch.equal(*drawn)


def test_the_cache_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forcing_graph, "MAX_CACHED_RECORDINGS", 3)
    model = language_model(RNN)
    for rows in range(8, 80, 8):
        agree(model, [(rows, 5, 0)])
        assert recorded(model) <= 3


def test_recordings_go_with_their_decoder_and_on_request() -> None:
    model = language_model(RNN)
    agree(model, [(3, 5, 0)])
    parameters = list(model.parameters())
    Computed(lambda *_: parameters[0].sum(), parameters, torch.device("cpu")).release()  # as where memory lacks
    assert recorded(model) == 0
    agree(model, [(3, 5, 0)])
    before = len(forcing_graph._recordings)
    del model
    gc.collect()
    assert len(forcing_graph._recordings) < before


def test_batches_of_nearly_the_same_size_share_buffers() -> None:
    sizes = [rounded(size, least=8) for size in range(1, 1025)]
    assert all(size <= big <= max(8, 1.25 * size + 8) for size, big in enumerate(sizes, 1))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 24


class Branching(Cell):
    """h' = ±tanh(W x + h), by the sign of a sum that the host reads."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.map = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.map(x) + h)
        h = -h if h.sum() > 0 else h
        return h, h


class Selecting(Branching):
    """h' = tanh(W x + h) plus the mean of its positive numbers: a mask selects a number of them that the host reads."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.map(x) + h)
        h = h + h[h > 0].mean()
        return h, h


class Counting(Branching):
    """h' = tanh(W x + h / n) at step n."""

    steps = 0

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        self.steps += 1
        h = torch.tanh(self.map(x) + h / self.steps)
        return h, h


class Delayed(Cell):
    """h' = tanh(W x + h before the last): a tensor of the old state in another place of the new one."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.map = nn.Linear(input_size, hidden_size)

    def zero_state(self, batch: int, like: Tensor) -> State:
        return like.new_zeros(batch, self.hidden_size), like.new_zeros(batch, self.hidden_size)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h = torch.tanh(self.map(x) + state[1])
        return h, (h, state[0])


class Growing(Decoder):
    """The mean of all tokens so far: a state that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.output_size = build_embedding(SIZE, VOCABULARY), SIZE

    def start(self, memory: None, rows: Tensor) -> State:
        return self.embedding.weight.new_zeros(rows.numel(), 0, SIZE)

    def step(self, tokens: Tensor, state: State) -> Decoded:
        state = torch.cat([state, self.embedding(tokens)[:, None]], dim=1)
        return Decoded(state.mean(1), state, None)


def own_cell(cell: type[Cell]) -> LanguageModel:
    config = LANGUAGE_MODELS["rnn"].model_validate(RNN | {"cell": "mine"}, context={"cells": {"mine": cell}})
    return loud(build_language_model(config, VOCABULARY))  # type: ignore[arg-type]


def test_a_state_that_moves() -> None:
    agree(own_cell(Delayed))


def test_a_decoder_that_cannot_be_recorded_says_why() -> None:
    growing = loud(LanguageModel(Growing(), VOCABULARY, tie=False))
    cases = [
        (own_cell(Branching), "reads values of tensors on the host"),
        (own_cell(Selecting), "reads values of tensors on the host"),
        (own_cell(Counting), "changes attributes"),
        (growing, "changes its shape"),
    ]
    for model, reason in cases:
        tokens, memory, kept = draw(3, 5, 0, model)
        for _ in range(2):  # tried, remembered
            with pytest.raises(Unrecordable, match=reason), torch.no_grad():
                mix_recorded(model.decoder, model.output, tokens, memory, kept)
        assert reason in refusal(model.decoder)
        assert recorded(model) == 0


def test_it_falls_back_on_the_loop_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.models.forcing.runs_plainly", lambda *_: False)
    model = own_cell(Branching)
    with pytest.warns(UserWarning, match="steps through RecurrentDecoder in Python, more slowly: its step reads"):
        read = mix(model.decoder, model.output, draw(3, 6, 0, model)[0], None, truth=0.0)
    assert torch.equal(read[:, 1:], model.output(model(read)).argmax(-1)[:, :-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = language_model(RNN)
        read = mix(model.decoder, model.output, draw(3, 6, 0, model)[0], None, truth=0.0)
    assert torch.equal(read[:, 1:], model.output(model(read)).argmax(-1)[:, :-1])


def test_who_sees_every_step_keeps_the_loop() -> None:
    model = translator(context="attention")
    decoder, output, far = model.decoder, model.output, torch.empty(3, 4, device="meta")

    class OnGPU:
        """As much of a tensor as is asked."""

        device = torch.device("cuda")
        size = far.size

    tokens: Any = OnGPU()
    assert runs_plainly(decoder, output, torch.zeros(3, 4, dtype=torch.long))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        assert not runs_plainly(decoder, output, tokens)
        for context in (forcing_graph.python_loop(), record_attention()):
            with context:
                assert runs_plainly(decoder, output, tokens)
        with nullcontext(decoder.rnn.stack()[0].observers) as observers:
            observers.append(lambda *_: None)
            assert runs_plainly(decoder, output, tokens)
            observers.clear()
        handle = output.scores.register_forward_hook(lambda *_: None)
        assert runs_plainly(decoder, output, tokens)
        handle.remove()
        assert not runs_plainly(decoder, output, tokens)
