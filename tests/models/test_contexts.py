"""Contexts, bridge and reversal are their equations: modules against loops over time in plain torch.

The loops read the weights of a module and nothing else of it. B sentences, S source length, T target length.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from weft.models import RecurrentDecoderConfig, RecurrentSourceConfig, Translator, TranslatorConfig
from weft.nn import leaves_of
from weft.text import EOS, PAD, SOS

VOCABULARY, EMBEDDING, HIDDEN = 13, 4, 5
SOURCE = torch.tensor([[7, 8, 9, 10, EOS], [6, 11, EOS, PAD, PAD]])
LENGTHS = torch.tensor([5, 3])
TARGET = torch.tensor([[SOS, 8, 9, 12], [SOS, 5, 6, 7]])


def build(*, source: dict[str, Any] | None = None, **decoder: Any) -> Translator:
    torch.manual_seed(0)
    sizes = {"embedding": EMBEDDING, "hidden": HIDDEN, "dropout": 0.0}
    config = TranslatorConfig(
        encoder=RecurrentSourceConfig(**sizes, **(source or {"bidirectional": False})),
        decoder=RecurrentDecoderConfig(**sizes, **decoder),
    )
    return config.build(VOCABULARY, VOCABULARY, shared=False).double().eval()


def embed(module: Any, tokens: Tensor) -> Tensor:
    """y = √E · table[token]"""
    return math.sqrt(EMBEDDING) * module.embedding.weight[tokens]


def lstm(cell: Any, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """[i; f; g; o] = W x + U h + b;  c' = σ(f) c + σ(i) tanh(g);  h' = σ(o) tanh(c')"""
    gates = F.linear(x, cell.from_input.weight, cell.from_input.bias) + F.linear(h, cell.from_state.weight)
    i, f, g, o = gates.chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def cell_of(rnn: Any, layer: int = 0) -> Any:
    return rnn.layers[layer].cells[0]


def read(model: Translator, order: list[int]) -> tuple[dict[int, Tensor], Tensor, Tensor]:
    """The states of one source, read in an order of its places, and the last h and c."""
    row = 0 if len(order) == 5 else 1
    h = c = torch.zeros(1, HIDDEN, dtype=torch.double)
    states = {}
    for place in order:
        h, c = lstm(cell_of(model.encoder.rnn), embed(model.encoder, SOURCE[row, place])[None], h, c)
        states[place] = h[0]
    return states, h, c


@pytest.mark.covers("M4")
@pytest.mark.parametrize("reverse", [False, True])
def test_reversal_reads_the_words_from_the_last_to_the_first_and_then_the_end(reverse: bool) -> None:
    model = build(source={"bidirectional": False, "reverse_source": reverse})
    memory = model.encode(SOURCE, LENGTHS)
    for row, order in enumerate(([3, 2, 1, 0, 4], [1, 0, 2])):
        states, h, c = read(model, order if reverse else sorted(order))
        assert_close(memory.states[row, : len(order)], torch.stack([states[place] for place in range(len(order))]))
        assert not memory.states[row, len(order) :].any()
        assert_close(torch.stack([part[row] for part in leaves_of(memory.final)]), torch.cat([h, c]))


@pytest.mark.covers("M4")
def test_a_learned_bridge_is_a_map_of_the_last_state_for_each_part() -> None:
    model = build(source={"bidirectional": True}, bridge="learned")
    memory = model.encode(SOURCE, LENGTHS)
    top = torch.cat(leaves_of(memory.final[-1]), dim=-1)
    maps = model.decoder.bridge.maps
    first = leaves_of(model.decoder.bridge(memory.final))
    assert len(first) == len(maps) == 2
    for part, linear in zip(first, maps, strict=True):
        assert_close(part, torch.tanh(top @ linear.weight.T + linear.bias))


@pytest.mark.covers("M4")
def test_the_other_bridges_copy_the_state_or_begin_with_zeros() -> None:
    copied, none = build(bridge="copy"), build(bridge="none")
    memory = copied.encode(SOURCE, LENGTHS)
    for given, taken in zip(leaves_of(memory.final), leaves_of(copied.decoder.bridge(memory.final)), strict=True):
        assert_close(given, taken)
    assert not any(part.any() for part in leaves_of(none.decoder.bridge(none.encode(SOURCE, LENGTHS).final)))


def attend(decoder: Any, s: Tensor, states: Tensor) -> Tensor:
    """a = Σ_j α_j h_j,  α = softmax_j(s · W h_j / √H)"""
    keys = states @ decoder.look.score.keys_to_query.weight.T
    scores = keys @ s / math.sqrt(HIDDEN)
    return torch.softmax(scores, dim=0) @ states


def readout(decoder: Any, a: Tensor, s: Tensor) -> Tensor:
    """r = tanh(W [a; s] + b)"""
    return torch.tanh(decoder.readout.map.weight @ torch.cat([a, s]) + decoder.readout.map.bias)


def write(model: Translator, context: str, row: int) -> list[Tensor]:
    """The hidden states of one target, by the equations of a context."""
    decoder: Any = model.decoder
    memory = model.encode(SOURCE[row : row + 1, : LENGTHS[row]], LENGTHS[row : row + 1])
    states = memory.states[0]
    summary = torch.cat(leaves_of(memory.final[-1]), dim=-1)[0]
    s, c = (torch.tanh(linear(summary))[None] for linear in decoder.bridge.maps)
    found = []
    for token in TARGET[row]:
        y = embed(decoder, token)
        if context == "first":  # s_t = f(s_{t-1}, y_{t-1})
            s, c = lstm(cell_of(decoder.rnn), y[None], s, c)
            found.append(s[0])
        elif context == "every":  # s_t = f(s_{t-1}, [y_{t-1}; c]), and the output is [s_t; c]
            s, c = lstm(cell_of(decoder.rnn), torch.cat([y, summary])[None], s, c)
            found.append(torch.cat([s[0], summary]))
        elif context == "attention":  # u_t = attend(s_{t-1}, source);  s_t = f(s_{t-1}, [y_{t-1}; u_t])
            u = attend(decoder, s[0], states)
            s, c = lstm(cell_of(decoder.rnn), torch.cat([y, u])[None], s, c)
            found.append(readout(decoder, u, s[0]))
        else:  # s_t = f(s_{t-1}, y_{t-1});  a_t = attend(s_t, source)
            s, c = lstm(cell_of(decoder.rnn), y[None], s, c)
            found.append(readout(decoder, attend(decoder, s[0], states), s[0]))
    return found


@pytest.mark.covers("M4")
@pytest.mark.parametrize("context", ["first", "every", "attention", "after"])
def test_a_context_is_its_equation(context: str) -> None:
    model = build(source={"bidirectional": False}, context=context)
    hidden = model(SOURCE, LENGTHS, TARGET)
    for row in range(2):
        assert_close(hidden[row], torch.stack(write(model, context, row)))


@pytest.mark.covers("M4")
def test_the_scores_of_a_tied_output_are_products_with_the_embeddings() -> None:
    model = build(source={"bidirectional": False}, context="after")
    hidden = model(SOURCE, LENGTHS, TARGET)
    output: Any = model.output
    narrow = hidden @ output.narrow.weight.T
    assert_close(output(hidden), narrow @ model.decoder.embedding.weight.T + output.scores.bias)
