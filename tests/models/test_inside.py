"""Attention inside the recurrence: the compiled loop of the decoder against its loop over time in Python."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.models import RecurrentDecoderConfig, RecurrentSourceConfig, Translator, TranslatorConfig
from weft.models.decoders import InsideDecoder
from weft.models.memory import Memory
from weft.nn import CELLS, SCORES, Cell, Score, choose_cell, leaves_of
from weft.nn.attention import record_attention
from weft.nn.attention.scores import dot

VOCABULARY, HIDDEN = 13, 6
SOURCE = torch.randint(4, VOCABULARY, (4, 5), generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([5, 3, 0, 1])
TARGET = torch.randint(4, VOCABULARY, (4, 6), generator=torch.Generator().manual_seed(2))


class Mine(Cell):
    """h' = 0.5 h + tanh(W [x; h])"""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.map = nn.Linear(input_size + hidden_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = 0.5 * h + torch.tanh(self.map(torch.cat((x, h), dim=-1)))
        return h, h


def build(**decoder: Any) -> Translator:
    torch.manual_seed(0)
    settings = {"embedding": 4, "hidden": HIDDEN, "dropout": 0.0, "context": "attention"} | decoder
    encoder = RecurrentSourceConfig(embedding=4, hidden=HIDDEN // 2, dropout=0.0)
    config = TranslatorConfig(encoder=encoder, decoder=RecurrentDecoderConfig(**settings))
    return config.build(VOCABULARY, VOCABULARY, shared=False)


def read(model: Translator, *, looped: bool, backend: str | None = None) -> dict[str, Tensor]:
    """The outputs of the decoder, and the gradients of a loss over them, by name."""
    model.zero_grad()
    decoder, memory = model.decoder, model.encode(SOURCE, LENGTHS)
    assert isinstance(decoder, InsideDecoder)
    for layer in decoder.loops:
        layer.backend = backend or "auto"
    memory = Memory(memory.states.detach().requires_grad_(), memory.lengths, memory.final)
    if looped:
        hidden = decoder.step_through(decoder.embedding(TARGET), decoder.bridge(memory.final), memory)
    else:
        hidden = decoder(TARGET, memory)
    (hidden * torch.arange(hidden.numel()).to(hidden).view_as(hidden).cos()).sum().backward()
    assert memory.states.grad is not None
    found = {"hidden": hidden.detach(), "memory": memory.states.grad}
    zero = torch.zeros_like
    return found | {name: zero(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


SETTINGS: dict[str, dict[str, Any]] = {
    **{score: {"attention": score} for score in SCORES},
    **{f"{score} hard": {"attention": score, "attention_hard": True} for score in ("bilinear", "additive")},
    "scale": {"attention": "dot", "attention_scale": 2.5},
    "gru": {"cell": "gru"},
    "elman": {"cell": "elman", "attention": "additive"},
    "mine": {"cell": choose_cell("mine", CELLS | {"mine": Mine})},
    **{cell: {"cell": cell} for cell in ("sru", "qrnn", "min_gru", "s_lstm", "peephole_lstm")},
    "layers": {"layers": 3, "cell": "gru_reset_after"},
    "residual": {"layers": 2, "skip": "residual"},
    "dense": {"layers": 2, "skip": "dense", "attention": "concat"},
    "sizes": {"layers": 2, "hidden": [5, 7]},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.usefixtures("a_compiler")
def test_the_compiled_loop_equals_the_loop(settings: dict[str, Any]) -> None:
    model = build(**settings)
    assert "in C" in model.decoder.explain()
    assert_close(read(model, looped=False, backend="engine"), read(model, looped=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_in_double_precision_they_agree_to_ten_digits(settings: dict[str, Any]) -> None:
    model = build(**settings).double()
    assert "plain torch" in model.decoder.explain()
    assert_close(read(model, looped=False), read(model, looped=True), rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("a_compiler")
def test_dropout_between_layers_is_drawn_anew_at_every_step() -> None:
    model = build(layers=3, dropout=0.5)
    found = []
    for backend in ("engine", "reference"):
        torch.manual_seed(4)
        found.append(read(model, looped=False, backend=backend))
    assert_close(*found, rtol=1e-4, atol=1e-5)
    masks = model.decoder.rnn.dropout_masks(2, 8, torch.empty(0))
    assert [tuple(mask.shape) for mask in masks] == [(2, 8, HIDDEN)] * 2
    assert set(masks[0].flatten().tolist()) == {0.0, 2.0}
    assert not torch.equal(masks[0][:, 0], masks[0][:, 1])
    torch.manual_seed(5)
    assert not torch.equal(read(model, looped=False)["hidden"], found[0]["hidden"])
    model.eval()
    assert_close(read(model, looped=False), read(model, looped=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("score", SCORES)
def test_steps_of_the_search_equal_the_training_pass(score: str) -> None:
    model = build(attention=score, layers=2).eval()
    with torch.no_grad():
        memory = model.encode(SOURCE, LENGTHS)
        whole = model.decoder(TARGET, memory)
        state, hidden, weights = model.decoder.start(memory, torch.arange(4)), [], []
        for tokens in TARGET.unbind(1):
            now, state, seen = model.decoder.step(tokens, state)
            hidden.append(now)
            weights.append(seen)
    assert_close(torch.stack(hidden, dim=1), whole, rtol=1e-4, atol=1e-5)
    decoder = model.decoder
    attended = decoder.loops[0].attention(
        decoder.embedding(TARGET), None, decoder.bridge(memory.final), decoder.look.steps_source(memory)
    )
    assert_close(attended[0][0], torch.stack(weights, dim=1), rtol=1e-4, atol=1e-5)


def test_without_gradients_the_numbers_are_the_same() -> None:
    model = build(layers=2)
    memory = model.encode(SOURCE, LENGTHS)
    with torch.no_grad():
        found = model.decoder(TARGET, memory)
    assert_close(found, model.decoder(TARGET, memory).detach())


def test_who_watches_sees_every_step() -> None:
    model = build().eval()
    memory, seen = model.encode(SOURCE, LENGTHS), []
    alone = model.decoder(TARGET, memory)
    with record_attention() as calls:
        recorded = model.decoder(TARGET, memory)
    assert len(calls) == TARGET.size(1)
    layer = model.decoder.rnn.layers[0]
    layer.observers.append(lambda x, lengths, state, outputs: seen.append(outputs[0].shape))
    observed = model.decoder(TARGET, memory)
    assert seen == [(4, 1, HIDDEN)] * TARGET.size(1)
    layer.observers.clear()
    layer.backend, cell = "reference", layer.cells[0]
    step, steps = cell.step, []
    cell.__dict__["step"] = lambda x, state: steps.append(len(x)) or step(x, state)
    plain = model.decoder(TARGET, memory)
    assert steps == [4] * TARGET.size(1)
    assert_close([recorded, observed, plain], [alone] * 3, rtol=1e-4, atol=1e-5)


class Cosine(Score):
    """q·k / |q| |k|: no form that the compiled loop knows."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()

    def compare(self, query: Tensor, key: Tensor) -> Tensor:  # type: ignore[override]
        return dot(nn.functional.normalize(query, dim=-1), nn.functional.normalize(key, dim=-1))


def test_a_score_of_another_form_runs_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCORES, "cosine", Cosine)
    model = build(attention="cosine")
    assert "step by step" in model.decoder.explain()
    assert_close(read(model, looped=False), read(model, looped=True))


def test_the_parameters_are_those_of_the_parts() -> None:
    model = build(layers=2)
    assert {name.split(".")[0] for name in model.decoder.state_dict()} == {
        "embedding",
        "rnn",
        "bridge",
        "look",
        "readout",
    }
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert not twin.decoder(TARGET, twin.encode(SOURCE, LENGTHS)).any()
    assert model.decoder(TARGET, model.encode(SOURCE, LENGTHS)).any()
    assert leaves_of(twin.decoder.loops[0].initial_state(1, torch.empty(0)))
